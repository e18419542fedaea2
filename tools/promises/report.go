package main

import (
	"errors"
	"fmt"
	"io"
)

// report writes one line per area, then the sum, then (verbose) the promises without a test.
func report(w io.Writer, list []promise, proofs []proof, verbose bool) {
	named := map[string]bool{}
	for _, p := range proofs {
		named[p.id] = true
	}
	var areas []string
	all, proven := map[string]int{}, map[string]int{}
	for _, p := range list {
		if all[p.area] == 0 {
			areas = append(areas, p.area)
		}
		all[p.area]++
		if named[p.id] {
			proven[p.area]++
		}
	}
	total := 0
	for _, a := range areas {
		total += proven[a]
		fmt.Fprintf(w, "%4d of %3d  %s\n", proven[a], all[a], a)
	}
	fmt.Fprintf(w, "%4d of %3d promises are named by a test, %d are not yet\n", total, len(list), len(list)-total)
	if !verbose {
		return
	}
	fmt.Fprintln(w, "\nNo test names these:")
	for _, p := range list {
		if !named[p.id] {
			fmt.Fprintf(w, "%s %s\n", p.id, p.text)
		}
	}
}

// unknown returns an error for every proof of a promise that the list lacks.
func unknown(list []promise, proofs []proof) error {
	known := map[string]bool{}
	for _, p := range list {
		known[p.id] = true
	}
	var errs []error
	for _, p := range proofs {
		if !known[p.id] {
			errs = append(errs, fmt.Errorf("%s:%d names %s, which is not in %s", p.file, p.line, p.id, listFile))
		}
	}
	return errors.Join(errs...)
}

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// expectation is what a script of the model server makes a session do: tN tool rounds, cN chunks of answer.
type expectation struct {
	tools, chunks int
	text          string
}

func parse(model string) expectation {
	var e expectation
	for part := range strings.SplitSeq(model, "-") {
		if n, err := strconv.Atoi(part[min(1, len(part)):]); err == nil {
			switch part[0] {
			case 't':
				e.tools = n
			case 'c':
				e.chunks = n
			}
		}
	}
	var b strings.Builder
	for i := range e.chunks {
		fmt.Fprintf(&b, "tok%03d ", i)
	}
	e.text = b.String()
	return e
}

// padding makes a result about 1 KiB.
var padding = strings.Repeat("x", 1000)

func result(i int) string { return fmt.Sprintf(`{"number":%d,"pad":"%s"}`, i*7, padding) }

func report(figures map[string]any) error {
	figures["peer"] = "workflowd"
	line, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(line))
	return err
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// quantile returns the p-quantile of v.
func quantile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(p*float64(len(s))))]
}

// cpuSeconds is user and system time of this process.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// peakRSS is the largest resident size so far in MiB, 0 where the system does not tell.
func peakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			if err == nil {
				return kib / 1024
			}
		}
	}
	return 0
}

// perSession is the bytes below dir for each of n sessions.
func perSession(dir string, n int) float64 {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil || n == 0 {
		return 0
	}
	return float64(total) / float64(n)
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// listFile is the list of promises.
const listFile = "docs/promises.md"

// promise is one line of the list.
type promise struct {
	id   string
	area string // heading it stands under
	text string
}

// proof is one place in a test that names a promise.
type proof struct {
	id   string
	file string
	line int
}

var (
	listed  = regexp.MustCompile(`^- (P-\d{3}) (.+)$`)
	area    = regexp.MustCompile(`^## (.+)$`)
	comment = regexp.MustCompile(`//\s*Promises?:(.*)$`)
	ident   = regexp.MustCompile(`\bP-\d+\b`)
)

// readList returns the promises in the order of the list. An id that stands twice is an error.
func readList(repo fs.FS) ([]promise, error) {
	text, err := fs.ReadFile(repo, listFile)
	if err != nil {
		return nil, err
	}
	var (
		list []promise
		at   string
		seen = map[string]bool{}
	)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := area.FindStringSubmatch(line); m != nil {
			at = m[1]
		}
		m := listed.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("%s lists %s twice", listFile, m[1])
		}
		seen[m[1]] = true
		list = append(list, promise{id: m[1], area: at, text: m[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s lists no promise; a line looks like \"- P-001 text\"", listFile)
	}
	return list, nil
}

// readProofs returns every promise named by a comment of a test file. Hidden folders, testdata and vendored code do not
// count.
func readProofs(repo fs.FS) ([]proof, error) {
	var proofs []proof
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "vendor" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, "_test.go") && !isSuite(name) {
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, len(text)+1)
		for n := 1; lines.Scan(); n++ {
			if m := comment.FindStringSubmatch(lines.Text()); m != nil {
				for _, id := range ident.FindAllString(m[1], -1) {
					proofs = append(proofs, proof{id: id, file: name, line: n})
				}
			}
		}
		return lines.Err()
	})
	return proofs, err
}

// isSuite reports whether a Go file belongs to a conformance suite: a package whose name ends in "test".
func isSuite(name string) bool {
	return path.Ext(name) == ".go" && strings.HasSuffix(path.Dir(name), "test")
}

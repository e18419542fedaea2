package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

const sample = "# Promises\n\n## A. First\n\n- P-001 One thing.\n- P-002 Another.\n\n## B. Second\n\n- P-100 A third.\n"

func repo(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestTheReportCountsPromisesThatATestNames(t *testing.T) {
	files := repo(map[string]string{
		listFile:                 sample,
		"a/a_test.go":            "package a\n\n// " + "Promise: P-001, P-100\nfunc TestA() {}\n",
		"a/a.go":                 "// " + "Promise: P-002 (not a test, does not count)\n",
		"a/testdata/b_test.go":   "// " + "Promise: P-002\n",
		".hidden/h_test.go":      "// " + "Promise: P-002\n",
		"a/atest/suite.go":       "// " + "Promise: P-001\n",
		"a/prose_test.go":        "// This promise: P-002 is lower case prose.\n",
		"web/node_modules/x.mjs": "// " + "Promise: P-002\n",
	})
	list, err := readList(files)
	if err != nil {
		t.Fatal(err)
	}
	proofs, err := readProofs(files)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	report(&out, list, proofs, true)
	for _, want := range []string{"1 of   2  A. First", "1 of   1  B. Second", "2 of   3 promises", "1 are not yet", "\nP-002 Another."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\nP-001 ") {
		t.Errorf("the report lists a promise that a test names:\n%s", out.String())
	}
	if err := unknown(list, proofs); err != nil {
		t.Errorf("every id is known, got %v", err)
	}
}

func TestACommentThatNamesAnUnknownPromiseIsAnError(t *testing.T) {
	files := repo(map[string]string{listFile: sample, "a_test.go": "package a\n\n\t// " + "Promise: P-001 P-777\n"})
	list, err := readList(files)
	if err != nil {
		t.Fatal(err)
	}
	proofs, err := readProofs(files)
	if err != nil {
		t.Fatal(err)
	}
	err = unknown(list, proofs)
	if err == nil || !strings.Contains(err.Error(), "a_test.go:3 names P-777") {
		t.Errorf("got %v, want the file, the line and the id", err)
	}
}

func TestAListThatCannotBeTrustedIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"an id stands twice": sample + "- P-001 Again.\n",
		"no promise at all":  "# Promises\n",
	} {
		if _, err := readList(repo(map[string]string{listFile: text})); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := readList(repo(nil)); err == nil {
		t.Error("a missing list: got no error")
	}
}

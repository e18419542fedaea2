package protocoltest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares a request body, indented, with testdata/request/<name>.json.
func Golden(t *testing.T, name string, body []byte) {
	t.Helper()
	var shown bytes.Buffer
	if err := json.Indent(&shown, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	shown.WriteByte('\n')
	path := filepath.Join("testdata", "request", strings.ReplaceAll(name, " ", "-")+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, shown.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown.String(), string(want)); diff != "" {
		t.Fatalf("%s (-got +want):\n%s", path, diff)
	}
}

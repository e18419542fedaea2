package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

func TestAMissingFileIsOneRowOfMany(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"a.md": "one two three", "b.md": "four"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"run", "counts", "--request-id", "1", "--data-dir", filepath.Join(dir, "data"), "-i", `files=["a.md","missing.md","b.md"]`}
	for range 2 { // the second run is the first one told again: a file that is gone by now was counted
		var out, told bytes.Buffer
		if code := daemon.Run(t.Context(), args, daemon.IO{In: strings.NewReader(""), Out: &out, Err: &told}, command); code != daemon.ExitOK {
			t.Fatalf("exit code %d\n%s", code, told.String())
		}
		want := "     3 a.md \n     0 missing.md open missing.md: no such file or directory\n     1 b.md"
		if got := strings.TrimSpace(out.String()); got != strings.TrimSpace(want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, element := range []string{"▸ count[0]", "▸ count[1]", "▸ count[2]"} {
			if !strings.Contains(told.String(), element) {
				t.Errorf("the progress lacks %q:\n%s", element, told.String())
			}
		}
		if err := os.RemoveAll("a.md"); err != nil {
			t.Fatal(err)
		}
	}
}

// The process ends behind the record of one file; that one is not read again.
func TestWhatWasCountedIsNotCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read []string
		one := make(chan struct{}, 1)
		env := workflowtest.New(t, counts, workflowtest.SQLite(), workflowtest.Stub("count", func(_ workflow.NodeContext, file string) (Row, error) {
			one <- struct{}{} // one after the other, so that the moment is the same each time
			defer func() { <-one }()
			read = append(read, file)
			return Row{File: file, Words: len(file)}, nil
		}))
		run := env.Start(Input{Files: []string{"a", "bb", "ccc", "dddd", "eeeee", "ffffff"}})
		env.CrashAfter(runlog.NodeSucceeded, "count[1]")
		env.Restart()
		rows := run.Result()
		if len(rows) != 6 || rows[5].Words != 6 {
			t.Errorf("got %v", rows)
		}
		run.WantTimes("count[1]", 1)
		again := map[string]int{}
		for _, file := range read {
			again[file]++
		}
		if again["bb"] != 1 {
			t.Errorf("read %v", read)
		}
	})
}

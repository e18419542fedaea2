package ionode_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	ionode "github.com/workflowd/workflowd/nodes/io"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/standalone"
)

type question struct {
	Text string
	Lang string
}

func TestInputFillsInDefaultsAndPassesTheRestOn(t *testing.T) {
	node := ionode.Input("in", func(_ workflow.NodeContext, q *question) error {
		if q.Lang == "" {
			q.Lang = "en"
		}
		return nil
	})
	got, err := node.Run(standalone.New(t.Context(), standalone.Options{}), question{Text: "why"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(question{"why", "en"}, got); diff != "" {
		t.Error(diff)
	}
	if node.Info().Type != "input" {
		t.Errorf("type %q", node.Info().Type)
	}
}

func TestAnInputThatCannotBeResolvedIsInvalid(t *testing.T) {
	node := ionode.Input("in", func(workflow.NodeContext, *question) error { return errors.New("no such language") })
	_, err := node.Run(standalone.New(t.Context(), standalone.Options{}), question{})
	if !fault.Is(err, fault.InputValidation) {
		t.Errorf("got %v", err)
	}
}

func TestReportWritesTheWholeFileAndMayRunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "report.md")
	node := ionode.Report("report",
		func(workflow.NodeContext, string) (string, error) { return path, nil },
		func(s string) ([]byte, error) { return []byte("# " + s + "\n"), nil })
	ctx := standalone.New(t.Context(), standalone.Options{})
	first, err := node.Run(ctx, "one")
	if err != nil {
		t.Fatal(err)
	}
	if first.Path != path || first.Bytes != 6 || len(first.SHA256) != 64 {
		t.Errorf("%+v", first)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := node.Run(ctx, "one"); err != nil || again != first {
		t.Errorf("%+v %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("equal bytes were written again: %v", err)
	}
	if _, err := node.Run(ctx, "two"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "# two\n" {
		t.Errorf("%q %v", text, err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %v %v", names, err)
	}
}

func TestReportLeavesTheOldFileWhenItCannotWrite(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := ionode.Report("report",
		func(workflow.NodeContext, string) (string, error) { return filepath.Join(taken, "report.md"), nil },
		func(s string) ([]byte, error) { return []byte(s), nil })
	if _, err := node.Run(standalone.New(t.Context(), standalone.Options{}), "one"); err == nil {
		t.Error("a file was written below a file")
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "x" {
		t.Errorf("%q %v", text, err)
	}
}

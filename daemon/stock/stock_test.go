package stock

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func prepare(t *testing.T, dir string) (workspace, requestID string, finish func() error) {
	t.Helper()
	p, err := demo{}.Prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strings.CutPrefix(p.RequestID, "demo-")
	return filepath.Join(dir, "workspace-"+number), p.RequestID, p.Finish
}

// The agent sees a copy of what a person works on: no hidden folders, build results or large files, and never the
// scratch directory itself.
func TestTheWorkspaceIsACopyOfTheReadersFiles(t *testing.T) {
	here := filepath.Join(t.TempDir(), "bin") // a folder of that name is left out, but not as the one that is looked at
	write(t, here, "main.go", "package main")
	write(t, here, ".gitignore", "bin")
	write(t, here, "docs/a.md", "# a")
	write(t, here, ".git/config", "x")
	write(t, here, "bin/tool", "x")
	write(t, here, "web/node_modules/p/index.js", "x")
	write(t, here, "large.bin", strings.Repeat("x", maxCopiedBytes+1))
	write(t, here, "scratch/old", "x")
	t.Chdir(here)
	place, _, _ := prepare(t, "scratch")
	if diff := cmp.Diff([]string{".gitignore", "docs/a.md", "main.go"}, names(t, place)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// Until a run has finished its name and its workspace stay; a copy that was cut off is made again.
func TestAnUnfinishedDemoKeepsItsNameAndItsFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "a.txt", "1")
	write(t, ".", "scratch/workspace-1.new/half", "x")
	place, first, _ := prepare(t, "scratch")
	write(t, place, "made-by-the-agent", "x")
	_, again, finish := prepare(t, "scratch")
	if diff := cmp.Diff([]string{"a.txt", "made-by-the-agent"}, names(t, place)); diff != "" || first != again {
		t.Errorf("%s was to be carried on in its place, got %s:\n%s", first, again, diff)
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(place); !os.IsNotExist(err) {
		t.Errorf("a finished workspace was left behind: %v", err)
	}
	if _, next, _ := prepare(t, "scratch"); next == first {
		t.Errorf("%s has finished and was named again", next)
	}
}

func TestAScratchDirectoryThatCannotServeIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "plain.txt", "x")
	write(t, ".", "damaged/state.json", "{")
	for dir, want := range map[string]fault.Kind{".": fault.InputValidation, "plain.txt": fault.Storage, "damaged": fault.Storage} {
		if _, err := (demo{}).Prepare(dir); fault.KindOf(err) != want {
			t.Errorf("%s: got kind %q (%v), want %q", dir, fault.KindOf(err), err, want)
		}
	}
}

// The parts of an answer that was cut off are one text; what stood before a tool call is a paragraph of its own.
func TestTheAnswerReadsAsItWasSpoken(t *testing.T) {
	text := func(s string) outputitems.Item {
		return outputitems.Item{Content: outputitems.Text(s), ContentType: outputitems.TypeText, Metadata: outputitems.Metadata{Kind: outputitems.KindPart, PartType: outputitems.PartText}}
	}
	part := func(p outputitems.PartType) outputitems.Item {
		return outputitems.Item{Metadata: outputitems.Metadata{Kind: outputitems.KindPart, PartType: p}}
	}
	got := answer(agentnode.Payload{Items: []outputitems.Item{
		part(outputitems.PartTool), text("I look."), part(outputitems.PartTool), part(outputitems.PartTool), text("It is he"), part(outputitems.PartRetry), text("re."),
	}})
	if want := "I look.\n\nIt is here."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

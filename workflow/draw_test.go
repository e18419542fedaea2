package workflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/workflow"
)

// A picture follows from the document alone: the golden files can be pasted into Mermaid and Graphviz.
func TestTheGraphIsDrawn(t *testing.T) {
	g := workflow.MustDefine("every-verb", 1, every).Definition().Graph()
	for name, got := range map[string]string{"graph.golden.mmd": g.Mermaid(), "graph.golden.dot": g.DOT()} {
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

package workflowtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// recordingFormat is the value of recording.Format that this package writes and reads.
const recordingFormat = "workflowd.recording/1"

// recording is a run's log as a file: the graph that it was pinned to, and how each visit ended. It holds no times and no
// ids, so that the same run gives the same bytes.
type recording struct {
	Format   string            `json:"format"`
	Workflow string            `json:"workflow"`
	Version  int               `json:"version"`
	Status   runlog.RunStatus  `json:"status"`
	Input    json.RawMessage   `json:"input"`
	Output   json.RawMessage   `json:"output,omitempty"`
	Failure  *workflow.Failure `json:"failure,omitempty"`
	Visits   []visit           `json:"visits"` // in the order of the graph
	Graph    graph.Graph       `json:"graph"`
}

// visit is the record of one visit of a node, or of an inline decision.
type visit struct {
	Path    string            `json:"path"`
	Visit   int               `json:"visit"`
	Status  runlog.NodeStatus `json:"status"`
	Inline  bool              `json:"inline,omitempty"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Failure *workflow.Failure `json:"failure,omitempty"`
}

func (v visit) key() runlog.NodeKey { return runlog.NodeKey{Path: v.Path, Visit: v.Visit} }

// Record returns the log of a run as Replay reads it: the graph, the input and how each node ended, without the times and
// ids of the engine. What values hold of their own, such as a working directory, stays. It serves to take runs of a program
// that is in use into the tests of its next version; the engine must have the run's workflow registered. Errors:
// fault.NotFound.
func Record(e *executor.Engine, id executor.RunID) ([]byte, error) {
	run, err := e.Run(id)
	if err != nil {
		return nil, err
	}
	g, err := e.Graph(run.Workflow, run.Version)
	if err != nil {
		return nil, err
	}
	if g.Fingerprint != run.Fingerprint {
		return nil, fault.New(fault.NotFound, "record run %s: the graph that it is pinned to is not registered", id)
	}
	nodes, err := e.Nodes(id)
	if err != nil {
		return nil, err
	}
	rec := recording{
		Format: recordingFormat, Workflow: run.Workflow, Version: run.Version, Status: run.Status,
		Input: run.Input, Output: run.Output, Failure: run.Failure, Graph: *g,
	}
	for _, n := range nodes {
		rec.Visits = append(rec.Visits, visit{n.Path, n.Visit, n.Status, n.Inline, n.Output, n.Failure})
	}
	rec.sort()
	return rec.encode()
}

// sort puts the visits into the order of the graph: branches that ran beside each other ended in any order.
func (r *recording) sort() {
	at := map[string]int{}
	for i, n := range r.Graph.Nodes {
		at[n.Path] = i
	}
	slices.SortStableFunc(r.Visits, func(a, b visit) int {
		x, i := element(a.Path)
		y, j := element(b.Path)
		return cmp.Or(cmp.Compare(at[x], at[y]), cmp.Compare(a.Visit, b.Visit), cmp.Compare(i, j))
	})
}

// element splits a path into the node's and the element's index, -1 outside of a map's elements.
func element(path string) (node string, index int) {
	node, rest, of := strings.Cut(path, "[")
	index, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if !of || err != nil {
		return node, -1
	}
	return node, index
}

// publicID matches the ids of package ids.
var publicID = regexp.MustCompile(`\b(?:run|ses|req|tsk|itm|fil|key)_[0-9A-HJKMNP-TV-Z]{26}\b`)

// encode writes the recording. Each id becomes its prefix and a number, the same one wherever it stands.
func (r *recording) encode() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("encode the recording: %w", err)
	}
	names, counts := map[string]string{}, map[string]int{}
	return publicID.ReplaceAllFunc(text.Bytes(), func(id []byte) []byte {
		name, known := names[string(id)]
		if !known {
			prefix := string(id[:len("run_")])
			counts[prefix]++
			name = prefix + strconv.Itoa(counts[prefix])
			names[string(id)] = name
		}
		return []byte(name)
	}), nil
}

// readRecording reads a file of Record.
func readRecording(file string) (*recording, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r recording
	if err := strictjson.Decode(raw, maxRecording, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Format != recordingFormat {
		return nil, fmt.Errorf("%s: format is %q, this package reads %q", file, r.Format, recordingFormat)
	}
	return &r, nil
}

// updateFlag asks for new recordings. A test package that has a flag -update of its own may use that.
const updateFlag = "workflowtest.update"

var update = flag.Bool(updateFlag, false, "write the recordings of Run.Record anew")

// updating reports whether recordings are to be written, and which flag asks for it.
func updating() (yes bool, name string) {
	own := flag.Lookup("update")
	if own == nil {
		return *update, updateFlag
	}
	return *update || own.Value.String() == "true", "update"
}

// Record keeps the run's log, as it is now, in a file of the package's testdata. With the flag -update, or
// -workflowtest.update where the test package has no such flag, it writes the file; otherwise it is Replay of the file
// against the workflow under test. So a change of the workflow that runs in flight would not survive fails the test until
// somebody decides that it may.
func (r *Run[Out]) Record(file string) {
	r.b.t.Helper()
	yes, name := updating()
	if !yes {
		if _, err := os.Stat(file); err != nil {
			r.b.t.Fatalf("record: %v; write it with: go test -run '^%s$' . -%s", err, r.b.t.Name(), name)
		}
		r.b.replay(file)
		return
	}
	r.rest()
	raw, err := Record(r.b.engine, r.id)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		r.b.t.Fatalf("record: %v", err)
	}
}

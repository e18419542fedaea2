//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
)

// clientEnv makes this binary a client that commands the session it names.
const clientEnv = "WORKFLOWD_CRASH_CLIENT"

// clientPoints are the edges that only a client's commands pass, and no run of a workflow does.
var clientPoints = []string{"harness.command.committed", "harness.summary.before", "harness.summary.committed", "harness.summary.placed"}

// talk is a turn of the client, and what it commands at the turn's first event.
type talk struct {
	requestID, prompt string
	commands          []control.Command
}

var talks = []talk{
	{"r1", "go", []control.Command{
		control.Submit{RequestID: "r2", Prompt: "and then?", Mode: control.FollowUp}, control.Withdraw{RequestID: "w1", InputID: "r2"},
	}},
	{"r3", "go on", []control.Command{control.Compact{RequestID: "c1"}}},
}

// client has its talks and prints the receipts. The model answers the first turn once its commands are out: what is queued
// behind it stays queued so long.
func client(path string) (err error) {
	commanded := make(chan struct{})
	release := sync.OnceFunc(func() { close(commanded) })
	model := scripted.Func(func(r scripted.Request) (scripted.Response, error) {
		if r.LastUser() == talks[0].prompt {
			<-commanded
		}
		return scripted.Say("Done."), nil // as a summary it will do
	})
	ctx := context.Background()
	a, err := agentcore.New(ctx, agentcore.Options{DatabasePath: path, Model: "m", LLM: scripted.Provider(model), Session: &agentcore.SessionOptions{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(), agentcore.Drain()) }()
	for _, talk := range talks {
		if err := talk.have(ctx, a, release); err != nil {
			return fmt.Errorf("%s: %w", talk.requestID, err)
		}
	}
	return nil
}

// have has the talk, and calls commanded once its commands are out.
func (k talk) have(ctx context.Context, a *agentcore.Agent, commanded func()) error {
	for _, err := range a.Run(ctx, agentcore.Input{RequestID: k.requestID, Prompt: k.prompt}, nil) {
		if fault.Is(err, fault.ExecutionAborted) {
			return nil // so the input that was taken back ends
		}
		if err != nil {
			return err
		}
		for _, c := range k.commands {
			receipt, err := a.Control(ctx, c)
			if err != nil {
				return err
			}
			if err := json.NewEncoder(os.Stdout).Encode(receipt); err != nil {
				return err
			}
		}
		k.commands = nil
		commanded()
	}
	return nil
}

// asClient is the client's process.
func asClient(path string) int {
	if err := client(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// taskID is the number of a task in a receipt: it depends on what a killed owner had reserved.
var taskID = regexp.MustCompile(`"taskId":\d+`)

// commanded kills a client at each edge of its commands, and has it do everything again: it gets the receipts that it was
// given, and those that it would have got; the input is taken back once, the turns are answered once, and there is one summary.
func commanded(t *testing.T) {
	t.Helper()
	calm := ""
	for _, point := range append([]string{"", clientPoints[0] + ":2"}, clientPoints...) {
		t.Run("a client/"+point, func(t *testing.T) {
			p := newPlace(t)
			path := filepath.Join(p.root, "s.db")
			p.env = []string{clientEnv + "=" + path}
			first := p.start(t, nil, point).wait(t)
			end := first
			if point != "" {
				if !first.killed {
					t.Fatalf("it was not killed: %s", first)
				}
				end = p.start(t, nil, "").wait(t)
			}
			if end.code != 0 {
				t.Fatal(end)
			}
			if !strings.HasPrefix(end.out, first.out) {
				t.Errorf("the receipts were %s and are %s", first.out, end.out)
			}
			told := taskID.ReplaceAllString(end.out, `"taskId":0`)
			if calm == "" {
				calm = told
			}
			if told != calm {
				t.Errorf("the receipts are %s, undisturbed they are %s", told, calm)
			}
			one := readSession(t, path)
			ends, kinds := map[string]session.SubmissionStatus{}, map[string]int{}
			for _, sub := range one.inputs {
				if name, _, own := strings.Cut(sub.RequestID, ":"); own { // the summary waits for its place like an input
					sub.RequestID = name
				}
				ends[sub.RequestID] = sub.Status
			}
			for _, e := range one.entries {
				kinds[e.Kind]++
			}
			if diff := cmp.Diff(map[string]session.SubmissionStatus{"r1": session.SubmissionAnswered, "r2": session.SubmissionWithdrawn,
				"r3": session.SubmissionAnswered, "compaction": session.SubmissionAnswered}, ends); diff != "" || len(one.live) > 0 {
				t.Errorf("%d live tasks; inputs: %s", len(one.live), diff)
			}
			kinds["workflow.assistant"] -= kinds["workflow.continuation"] // an answer that the kill cut in two
			delete(kinds, "workflow.continuation")
			if diff := cmp.Diff(map[string]int{"workflow.system": 1, "workflow.user": 2, "workflow.assistant": 2, "workflow.compaction": 1}, kinds); diff != "" {
				t.Errorf("entries: %s", diff)
			}
		})
	}
}

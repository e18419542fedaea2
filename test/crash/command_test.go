//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// commandPoint is the edge that a client's command passes, and no run of a workflow does.
const commandPoint = "harness.command.committed"

// client runs a turn, queues an input and takes it back while the turn waits for the model, and prints the receipts.
func client(path string) (err error) {
	commanded := make(chan struct{})
	model := scripted.Func(func(scripted.Request) (scripted.Response, error) {
		<-commanded
		return scripted.Say("Done."), nil
	})
	ctx := context.Background()
	a, err := agentcore.New(ctx, agentcore.Options{DatabasePath: path, Model: "m", LLM: scripted.Provider(model), Session: &agentcore.SessionOptions{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(), agentcore.Drain()) }()
	commands := []control.Command{
		control.Submit{RequestID: "r2", Prompt: "and then?", Mode: control.FollowUp}, control.Withdraw{RequestID: "w1", InputID: "r2"},
	}
	for _, err := range a.Run(ctx, agentcore.Input{RequestID: "r1", Prompt: "go"}, nil) {
		if fault.Is(err, fault.ExecutionAborted) {
			break // so the input that was taken back ends
		}
		if err != nil {
			return err
		}
		for _, c := range commands {
			receipt, err := a.Control(ctx, c)
			if err != nil {
				return err
			}
			if err := json.NewEncoder(os.Stdout).Encode(receipt); err != nil {
				return err
			}
		}
		if commands != nil {
			commands = nil
			close(commanded)
		}
	}
	return nil
}

// commanded kills a client at the edge of its command, and has it do everything again: it gets the receipts that it would
// have got, the input is taken back once, and the turn is answered once.
func commanded(t *testing.T) {
	t.Helper()
	var calm []string
	for _, point := range []string{"", commandPoint} {
		t.Run("a command/"+point, func(t *testing.T) {
			p := newPlace(t)
			path := filepath.Join(p.root, "s.db")
			run := func(point string) ended {
				p.env = []string{clientEnv + "=" + path}
				return p.start(t, nil, point).wait(t)
			}
			first := run(point)
			if point != "" && !first.killed {
				t.Fatalf("it was not killed: %s", first)
			}
			end := first
			if first.killed {
				end = run("")
			}
			if end.code != 0 {
				t.Fatal(end)
			}
			if calm == nil {
				calm = append(calm, end.out)
			}
			if end.out != calm[0] {
				t.Errorf("the receipts are %s, undisturbed they are %s", end.out, calm[0])
			}
			got := map[string]session.SubmissionStatus{}
			for _, sub := range readSession(t, path).inputs {
				got[sub.RequestID] = sub.Status
			}
			want := map[string]session.SubmissionStatus{"r1": session.SubmissionAnswered, "r2": session.SubmissionWithdrawn}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// asClient is the client's process.
func asClient(path string) int {
	if err := client(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

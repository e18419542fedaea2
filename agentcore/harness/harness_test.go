package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a tool that counts its executions.
type echo struct {
	name   string
	policy tool.ReplayPolicy
	runs   *atomic.Int64
	do     func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (e echo) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: e.name, Description: e.name, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (e echo) Replay() tool.ReplayPolicy                             { return e.policy }
func (e echo) Prepare(args json.RawMessage) (json.RawMessage, error) { return args, nil }
func (e echo) Execute(ctx context.Context, c tool.Call) (tool.Result, error) {
	e.runs.Add(1)
	if e.do != nil {
		return e.do(ctx, c)
	}
	return tool.Text("ok " + string(c.Args)), nil
}

// rig is a harness over a store that outlives it, with a scripted model.
type rig struct {
	t       *testing.T
	storage *session.Memory
	model   *scripted.Model
	tools   []harness.Offered
	read    atomic.Int64
	bash    atomic.Int64
	do      func(ctx context.Context, c tool.Call) (tool.Result, error)
	own     bool

	registry   registry.Reader
	hookFailed func(registry.HookError)
}

func newRig(t *testing.T, responses ...scripted.Response) *rig {
	r := &rig{t: t, storage: session.NewMemory()}
	r.model = scripted.New(scripted.Responses(responses...), scripted.Options{})
	return r
}

func (r *rig) open() *harness.Harness {
	r.t.Helper()
	return r.openOn(r.storage.Reopen())
}

func (r *rig) openOn(storage session.Storage) *harness.Harness {
	r.t.Helper()
	h, err := harness.Open(context.Background(), storage, harness.Options{Registry: r.registry, HookFailed: r.hookFailed, Resolve: func(context.Context, json.RawMessage) (harness.Setup, error) {
		return harness.Setup{Provider: r.model.Provider(), Model: "m", System: "system", Window: 10_000, Tools: []harness.Offered{
			{Tool: echo{"read", tool.Safe, &r.read, r.do}},
			{Tool: echo{"bash", tool.Never, &r.bash, r.do}, Own: r.own},
		}}, nil
	}}, session.Auto)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// run follows one turn and writes its events as lines; ring updates and bills are left out.
func run(ctx context.Context, h *harness.Harness, id, prompt string, host harness.Host) (story []string, err error) {
	text := ""
	flush := func() {
		if text != "" {
			story, text = append(story, "text "+text), ""
		}
	}
	for e, rerr := range h.Run(ctx, harness.Submit{RequestID: id, Prompt: prompt}, host) {
		if rerr != nil {
			err = rerr
			break
		}
		switch e := e.(type) {
		case harness.TextDelta:
			if e.Offset == 0 {
				flush()
			}
			text += e.Text
		case harness.Tool:
			flush()
			switch e.Phase {
			case harness.Start:
				story = append(story, fmt.Sprintf("call %s %s", e.Name, e.Args))
			case harness.End:
				story = append(story, strings.TrimSpace(fmt.Sprintf("result %s %s", llm.Message{Blocks: e.Result}.Text(), e.Code)))
			}
		case harness.Retry:
			flush()
			story = append(story, fmt.Sprintf("retry %s %d/%d", e.Kind, e.Attempt, e.MaxAttempts))
		case harness.TurnEnd:
			flush()
			story = append(story, string(e.Status))
		}
	}
	flush()
	return story, err
}

func say(s string) scripted.Response { return scripted.Response{scripted.Text{Text: s}} }

func do(name, args string) scripted.Response {
	return scripted.Response{scripted.Call{Name: name, Args: args}}
}

func (r *rig) check(got []string, err error, want ...string) {
	r.t.Helper()
	if err != nil {
		r.t.Errorf("turn ended in %v", err)
	}
	if d := cmp.Diff(want, got); d != "" {
		r.t.Error(d)
	}
	if err := r.model.Err(); err != nil {
		r.t.Errorf("the model was asked what nobody planned: %v", err)
	}
}

// Promise: P-069, P-067
func TestATurnCallsToolsAndAnswers(t *testing.T) {
	r := newRig(t, append(say("I look first."), scripted.Call{Name: "read", Args: `{"path":"a"}`}), say("Done."))
	h := r.open()
	defer h.Close()
	got, err := run(t.Context(), h, "r1", "go", nil)
	r.check(got, err, "text I look first.", `call read {"path":"a"}`, `result ok {"path":"a"}`, "text Done.", "answered")
}

// Promise: P-052, P-465
func TestTheSameRequestIsToldAgainWithoutAskingAnybody(t *testing.T) {
	r := newRig(t, do("bash", `{"command":"x"}`), say("Done."))
	h := r.open()
	first, err := run(t.Context(), h, "r1", "go", nil)
	r.check(first, err, `call bash {"command":"x"}`, `result ok {"command":"x"}`, "text Done.", "answered")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = r.open()
	defer h.Close()
	again, err := run(t.Context(), h, "r1", "go", nil)
	r.check(again, err, first...)
	if n := r.bash.Load(); n != 1 {
		t.Errorf("bash ran %d times, want 1", n)
	}
	if _, err := run(t.Context(), h, "r1", "something else", nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("other content under the same id = %v, want a conflict", err)
	}
}

func TestARoundCostsTwoCommits(t *testing.T) {
	r := newRig(t, do("read", `{}`), do("read", `{"n":2}`), say("Done."))
	h := r.open()
	var commits []session.Commit
	h.Session().Watch(func(c session.Commit) { commits = append(commits, c) })
	got, err := run(t.Context(), h, "r1", "go", nil)
	r.check(got, err, "call read {}", "result ok {}", `call read {"n":2}`, `result ok {"n":2}`, "text Done.", "answered")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// admission, two rounds of two, at most one partial of the answer, the answer
	if len(commits) < 6 || len(commits) > 7 {
		t.Errorf("%d commits for two rounds and an answer, want 6 or 7", len(commits))
	}
	for _, c := range commits {
		for _, w := range c.Batch.Tasks {
			if w.Status == "running" {
				t.Errorf("commit %d stores a running task", c.Seq)
			}
		}
	}
}

// Promise: P-560, P-562, P-565, P-568, P-572
func TestADropWithOutputIsCarriedOnBehindTheTextThatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripted.Response{scripted.Text{Text: "Half of "}, scripted.Drop{}}, say("the answer."))
		h := r.open()
		got, err := run(t.Context(), h, "r1", "go", nil)
		r.check(got, err, "text Half of ", "retry dropped 1/10", "text the answer.", "answered")
		answer, err := h.AnswerOf(t.Context(), "r1")
		if err != nil || answer.Text != "Half of the answer." {
			t.Errorf("answer = %q, %v", answer.Text, err)
		}
		last := r.model.Requests()[1].Messages
		if len(last) < 2 || last[len(last)-2].Text != "Half of " || !strings.Contains(last[len(last)-1].Text, "Carry on") {
			t.Errorf("the continuation does not see the interrupted text: %+v", last)
		}
		h.Close()
	})
}

// A half call is output: the turn is carried on, and the call is asked for whole.
// Promise: P-487, P-488, P-557, P-571
func TestTheBeginningOfACallIsNeverSentForTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, scripted.Response{scripted.Call{Name: "bash", Args: `{"command":"a long one"}`, Chunks: 4}, scripted.Drop{Bytes: 420}}, do("bash", `{}`), say("Done."))
		h := r.open()
		got, err := run(t.Context(), h, "r1", "go", nil)
		r.check(got, err, "retry dropped 1/10", "call bash {}", "result ok {}", "text Done.", "answered")
		if last := r.model.Requests()[1].LastUser(); !strings.Contains(last, "Nothing of your interrupted answer") {
			t.Errorf("prompt %q, want one that says nothing is visible", last)
		}
		h.Close()
	})
}

// Promise: P-093, P-595, P-597
func TestAStopSettlesEverythingAndIsNotResumed(t *testing.T) {
	r := newRig(t, do("bash", `{}`))
	ctx, stop := context.WithCancelCause(t.Context())
	r.do = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		stop(errors.New("enough"))
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	h := r.open()
	got, err := run(ctx, h, "r1", "go", nil)
	if !fault.Is(err, fault.ExecutionAborted) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("err = %v, want execution_aborted with the reason", err)
	}
	if len(got) != 2 || !strings.HasSuffix(got[1], "aborted") {
		t.Errorf("story %q, want the call and its aborted result", got)
	}
	h.Close()
	h = r.open()
	defer h.Close()
	if _, err := run(t.Context(), h, "r1", "go", nil); !fault.Is(err, fault.ExecutionAborted) {
		t.Errorf("told again: %v, want execution_aborted", err)
	}
	if n := r.bash.Load(); n != 1 {
		t.Errorf("bash ran %d times, want 1", n)
	}
}

func TestASuspendedCallThatMustNotRepeatIsReportedAsInterrupted(t *testing.T) {
	// Promise: P-461, P-466, P-467, P-469, P-494
	for _, c := range []struct {
		tool string
		runs int64
		want string
	}{{"bash", 1, "interrupted"}, {"read", 2, ""}} {
		t.Run(c.tool, func(t *testing.T) {
			r := newRig(t, do(c.tool, `{}`), say("Done."))
			started := make(chan struct{})
			var once sync.Once
			r.do = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				first := false
				once.Do(func() { first = true; close(started) })
				if first {
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				}
				return tool.Text("ok"), nil
			}
			ctx, suspend := context.WithCancelCause(t.Context())
			h := r.open()
			go func() { <-started; suspend(task.ErrSuspended) }()
			if _, err := run(ctx, h, "r1", "go", nil); !fault.Is(err, fault.Suspended) {
				t.Fatalf("err = %v, want suspended", err)
			}
			h.Close()
			h = r.open()
			defer h.Close()
			got, err := run(t.Context(), h, "r1", "go", nil)
			if err != nil || len(got) != 4 || !strings.HasSuffix(got[1], c.want) || got[3] != "answered" {
				t.Errorf("story %q, %v", got, err)
			}
			n := r.bash.Load() + r.read.Load()
			if n != c.runs {
				t.Errorf("%s ran %d times, want %d", c.tool, n, c.runs)
			}
		})
	}
}

// pausing is a host that first has no answer.
type pausing struct {
	asked  atomic.Int64
	answer atomic.Pointer[error]
	ids    []string
}

func (p *pausing) Approve(_ context.Context, a harness.Approval) error {
	p.asked.Add(1)
	p.ids = append(p.ids, a.ToolCallID)
	if e := p.answer.Load(); e != nil {
		return *e
	}
	return fault.New(fault.UserInputRequired, "may I run %s?", a.Name)
}

// Promise: P-082, P-085
func TestAPausedCallKeepsItsIdentityAndRunsOnce(t *testing.T) {
	r := newRig(t, do("bash", `{}`), say("Done."))
	r.own = true
	host := &pausing{}
	h := r.open()
	if _, err := run(t.Context(), h, "r1", "go", host); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v, want a pause", err)
	}
	h.Close()
	h = r.open()
	defer h.Close()
	if _, err := run(t.Context(), h, "r1", "go", host); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("still unanswered: %v, want a pause", err)
	}
	var yes error
	host.answer.Store(&yes)
	got, err := run(t.Context(), h, "r1", "go", host)
	r.check(got, err, "call bash {}", "result ok {}", "text Done.", "answered")
	if r.bash.Load() != 1 || len(host.ids) != 3 || host.ids[0] != host.ids[2] {
		t.Errorf("bash ran %d times; identities %q", r.bash.Load(), host.ids)
	}
}

func TestATurnQueuesBehindAnUnfinishedOne(t *testing.T) {
	r := newRig(t, do("read", `{}`), say("First."), say("Second."))
	started, release := make(chan struct{}), make(chan struct{})
	r.do = func(context.Context, tool.Call) (tool.Result, error) {
		close(started)
		<-release
		return tool.Text("ok"), nil
	}
	h := r.open()
	defer h.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		got, err := run(t.Context(), h, "r1", "one", nil)
		r.check(got, err, "call read {}", "result ok", "text First.", "answered")
	})
	<-started
	wg.Go(func() {
		got, err := run(t.Context(), h, "r2", "two", nil)
		r.check(got, err, "text Second.", "answered")
	})
	close(release)
	wg.Wait()
}

func TestAQueueBehindAFailedTurnIsHeldAndGoesOnWhenItIsAskedFor(t *testing.T) {
	r := newRig(t)
	started, release := make(chan struct{}), make(chan struct{})
	r.model = scripted.New(scripted.Func(func(req scripted.Request) (scripted.Response, error) {
		if req.LastUser() == "one" {
			close(started)
			<-release
			return scripted.Response{scripted.Status{Code: 401, Message: "no"}}, nil
		}
		return say("Second."), nil
	}), scripted.Options{})
	h := r.open()
	defer h.Close()
	queued := make(chan struct{}, 1)
	h.Session().Watch(func(c session.Commit) {
		for _, sub := range c.Batch.Submissions {
			if sub.RequestID == "r2" && sub.Status == session.SubmissionQueued {
				queued <- struct{}{}
			}
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := run(t.Context(), h, "r1", "one", nil); !fault.Is(err, fault.ModelError) {
			t.Errorf("first turn: %v", err)
		}
	})
	<-started
	wg.Go(func() {
		if _, err := run(t.Context(), h, "r2", "two", nil); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "held") {
			t.Errorf("the waiting reader heard %v, want that the queue is held", err)
		}
	})
	<-queued
	close(release)
	wg.Wait()
	got, err := run(t.Context(), h, "r2", "two", nil)
	r.check(got, err, "text Second.", "answered")
}

func TestEveryDeltaLeavesOneByOneAndOnlyAfterItsCommit(t *testing.T) {
	r := newRig(t, scripted.Response{scripted.Text{Text: strings.Repeat("word ", 100), Chunks: 100}})
	h := r.open()
	defer h.Close()
	n, last := 0, 0
	for e, err := range h.Run(t.Context(), harness.Submit{RequestID: "r1", Prompt: "go"}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.(harness.TextDelta); ok {
			if d.Offset != last || d.Seq == 0 {
				t.Errorf("delta at %d with cursor %+v, want offset %d", d.Offset, d.Cursor, last)
			}
			n, last = n+1, d.Offset+len(d.Text)
		}
	}
	if n != 100 {
		t.Errorf("%d deltas, want 100", n)
	}
}

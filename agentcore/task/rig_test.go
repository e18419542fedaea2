package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
	"github.com/workflowd/workflowd/agentcore/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("told by the test")

// rig is one store with one owner at a time. What its definitions do is told in notes: entries that are committed.
type rig struct {
	t      *testing.T
	memory *session.Memory
	faulty *sessiontest.Faulty
	sess   *session.Session
	sched  *task.Scheduler

	mu       sync.Mutex
	failures []error
	commits  []session.Commit
}

func newRig(t *testing.T, defs ...task.Definition) *rig {
	t.Helper()
	r := &rig{t: t, memory: session.NewMemory()}
	r.open(defs...)
	r.commit(func(tx *session.Tx) error { return tx.EnsureRoot() })
	t.Cleanup(r.close)
	return r
}

// open takes the store over without running anything.
func (r *rig) open(defs ...task.Definition) {
	r.t.Helper()
	r.faulty = &sessiontest.Faulty{Storage: r.memory}
	sess, err := session.Open(r.t.Context(), r.faulty)
	if err != nil {
		r.t.Fatal(err)
	}
	sess.Watch(func(c session.Commit) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.commits = append(r.commits, c)
	})
	r.sess, r.sched = sess, task.NewScheduler(sess, r.fail, defs...)
}

func (r *rig) close() {
	r.sched.Close()
	if err := r.sess.Close(); err != nil {
		r.t.Error(err)
	}
}

// reopen suspends what runs and opens the store again.
func (r *rig) reopen(defs ...task.Definition) {
	r.t.Helper()
	r.close()
	r.memory = r.memory.Reopen()
	r.open(defs...)
}

func (r *rig) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, err)
}

// run lets the scheduler work until nothing moves.
func (r *rig) run() {
	r.t.Helper()
	if err := r.sched.Resume(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) commit(fn func(*session.Tx) error) {
	r.t.Helper()
	if _, err := r.sess.Commit(r.t.Context(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// add creates a pending task of a kind in phase "go".
func (r *rig) add(kind string, changes ...func(*session.Task)) session.TaskID {
	r.t.Helper()
	var id session.TaskID
	r.commit(func(tx *session.Tx) error {
		id = tx.CreateTask(pending(kind, changes...))
		return nil
	})
	return id
}

func pending(kind string, changes ...func(*session.Task)) session.Task {
	t := session.Task{Conversation: session.Root, Kind: kind, Version: 1, Status: session.TaskPending, Phase: "go"}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func ownedBy(id session.TaskID) func(*session.Task) { return func(t *session.Task) { t.Owner = id } }
func background(t *session.Task)                    { t.Background = true }

func (r *rig) task(id session.TaskID) session.Task {
	r.t.Helper()
	t, err := r.memory.Task(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// ended checks how a task ended.
func (r *rig) ended(id session.TaskID, want session.OutcomeStatus) session.Outcome {
	r.t.Helper()
	t := r.task(id)
	if t.Status != session.TaskTerminal || t.Outcome == nil || t.Outcome.Status != want {
		r.t.Errorf("task %d %s is %s with outcome %+v, want terminal and %s", id, t.Kind, t.Status, t.Outcome, want)
		return session.Outcome{}
	}
	return *t.Outcome
}

func (r *rig) status(id session.TaskID, want session.TaskStatus) {
	r.t.Helper()
	if t := r.task(id); t.Status != want {
		r.t.Errorf("task %d %s is %s with outcome %+v, want %s", id, t.Kind, t.Status, t.Outcome, want)
	}
}

// wantNotes checks everything that was noted, in order.
func (r *rig) wantNotes(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, notesOf(r.t, r.memory)); diff != "" {
		r.t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func (r *rig) wantFailures(want ...error) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) != len(want) {
		r.t.Errorf("failures %v, want %v", r.failures, want)
		return
	}
	for i, err := range r.failures {
		if !errors.Is(err, want[i]) {
			r.t.Errorf("failure %v, want %v", err, want[i])
		}
	}
}

// notesOf returns the kinds of the entries, oldest first.
func notesOf(t testing.TB, storage session.Storage) []string {
	t.Helper()
	entries, err := storage.Entries(session.EntryQuery{Conversation: session.Root})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range slices.Backward(entries) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func note(tx *session.Tx, format string, args ...any) {
	tx.Append(session.Entry{Conversation: session.Root, Kind: fmt.Sprintf(format, args...)})
}

// step commits a note and the next state.
func step(ctx context.Context, inv *task.Invocation, text string, next task.Next) error {
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		note(tx, "%s", text)
		return next, nil
	})
	return err
}

func completed() task.Settle {
	return task.Settle{Outcome: session.Outcome{Status: session.Completed}}
}

// define is a definition of kind "work" with one phase "go", an abort and a cleanup that note what they do.
func define(phase task.Phase) task.Definition { return defineAs("work", phase) }

func defineAs(kind string, phase task.Phase) task.Definition {
	return task.Definition{
		Kind: kind, Version: 1,
		Phases: map[string]task.Phase{"go": phase},
		Abort: func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, kind+" aborted", task.Settle{Outcome: session.Outcome{Status: session.Aborted, Reason: inv.Task().AbortReason}})
		},
		Cleanup: func(tx *session.Tx, _ session.Task, o session.Outcome) error {
			note(tx, "%s cleaned up: %s", kind, o.Status)
			return nil
		},
	}
}

// finish is a phase that completes at once.
func finish(ctx context.Context, inv *task.Invocation) error {
	return step(ctx, inv, inv.Task().Kind+" done", completed())
}

// idle is a phase that runs until it is told to stop.
func idle(ctx context.Context, _ *task.Invocation) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func number(n int) json.RawMessage { return fmt.Append(nil, n) }

// pass lets a time go by on the clock of a bubble.
func pass(d time.Duration) { <-time.After(d) }

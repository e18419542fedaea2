package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
	"github.com/workflowd/workflowd/agentcore/task"
)

// plan is what one task of a random graph does: some steps, then work of its own, then its end.
type plan struct {
	Name       string
	Steps      int
	Background bool
	Join       bool // it waits for its work before its end
	Policy     task.Policy
	Nap        int // microseconds that it sleeps before its end, from the beginning of the test
	End        string
	Work       []plan
}

// longestSleep is the latest end of a nap, in microseconds from the beginning: so little that rapid does not run out of time.
const longestSleep = 90

func drawPlan(t *rapid.T, name string, depth int) plan {
	p := plan{
		Name:       name,
		Steps:      rapid.IntRange(0, 3).Draw(t, "steps"),
		Background: depth > 0 && rapid.IntRange(0, 4).Draw(t, "background") == 0,
		Join:       rapid.Bool().Draw(t, "join"),
		Policy:     rapid.SampledFrom([]task.Policy{task.AllSettled, task.FailFast, task.Any, task.AnyCancel}).Draw(t, "policy"),
		Nap:        rapid.SampledFrom([]int{0, 0, 30, longestSleep}).Draw(t, "nap"),
		End:        rapid.SampledFrom([]string{"complete", "complete", "fail", "fault"}).Draw(t, "end"),
	}
	if depth < 2 {
		for i := range rapid.IntRange(0, 3).Draw(t, "work") {
			p.Work = append(p.Work, drawPlan(t, fmt.Sprintf("%s.%d", name, i), depth+1))
		}
	}
	return p
}

// progress is a checkpoint: the number of steps done.
type progress struct{ Done int }

func planOf(t session.Task) (p plan, err error) { return p, json.Unmarshal(t.Input, &p) }

func planned(p plan, owner session.TaskID) session.Task {
	input, err := json.Marshal(p)
	if err != nil {
		panic(err) // a plan always encodes
	}
	return session.Task{Conversation: session.Root, Kind: "plan", Version: 1, Owner: owner, Background: p.Background,
		Status: session.TaskPending, Phase: "step", Checkpoint: []byte(`{"Done":0}`), Input: input}
}

func planDefinition(began time.Time) task.Definition {
	said := func(next func(tx *session.Tx, inv *task.Invocation, p plan) (string, task.Next, error)) task.Phase {
		return func(ctx context.Context, inv *task.Invocation) error {
			p, err := planOf(inv.Task())
			if err != nil {
				return err
			}
			_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				what, n, err := next(tx, inv, p)
				note(tx, "%s %s", p.Name, what)
				return n, err
			})
			return err
		}
	}
	end := func(_ *session.Tx, _ *task.Invocation, p plan) (string, task.Next, error) {
		switch p.End {
		case "fault":
			return "", nil, errTest
		case "fail":
			return "end", task.Settle{Outcome: session.Outcome{Status: session.Failed}}, nil
		}
		return "end", completed(), nil
	}
	awake := func(phase task.Phase) task.Phase {
		return func(ctx context.Context, inv *task.Invocation) error {
			p, err := planOf(inv.Task())
			if err != nil {
				return err
			}
			if err := inv.Sleep(began.Add(time.Duration(p.Nap) * time.Microsecond)); err != nil {
				return err
			}
			return phase(ctx, inv)
		}
	}
	return task.Definition{
		Kind: "plan", Version: 1, MaxRestarts: 2,
		Phases: map[string]task.Phase{
			"step": said(func(tx *session.Tx, inv *task.Invocation, p plan) (string, task.Next, error) {
				var at progress
				if err := inv.Decode(&at); err != nil {
					return "", nil, err
				}
				if at.Done < p.Steps {
					return fmt.Sprint("step ", at.Done), task.Continue{Phase: "step", Checkpoint: fmt.Appendf(nil, `{"Done":%d}`, at.Done+1)}, nil
				}
				var on []session.TaskID
				for _, w := range p.Work {
					on = append(on, tx.CreateTask(planned(w, inv.Task().ID)))
				}
				if !p.Join {
					on = nil
				}
				return "work", task.Wait{On: on, Policy: p.Policy, Phase: "end"}, nil
			}),
			"end": awake(said(end)),
		},
		Abort: said(func(*session.Tx, *task.Invocation, plan) (string, task.Next, error) {
			return "abort", task.Settle{Outcome: session.Outcome{Status: session.Aborted}}, nil
		}),
		Cleanup: func(tx *session.Tx, t session.Task, o session.Outcome) error {
			p, err := planOf(t)
			note(tx, "%s %s", p.Name, o.Status)
			return err
		},
	}
}

// ledger sees what really reached the store, also when nobody heard of it.
type ledger struct {
	*session.Memory
	ends map[session.TaskID]int
	at   map[session.TaskID]session.Seq
}

func (l *ledger) Commit(b *session.Batch) error {
	err := l.Memory.Commit(b)
	if err == nil {
		for _, t := range b.Tasks {
			if t.Status == session.TaskTerminal {
				l.ends[t.ID]++
				l.at[t.ID] = b.Seq
			}
		}
	}
	return err
}

// errKilled is how a store answers a process that is gone.
var errKilled = errors.New("killed")

// life opens the store, runs until nothing moves or the owner dies at its lethal-th commit, and reports whether it died.
// A lethal commit is written or not; a dead owner writes nothing more.
func life(t *rapid.T, l *ledger, began time.Time, lethal int, written bool, act func(*session.Session, *task.Scheduler)) (died bool) {
	storage := &sessiontest.Faulty{Storage: l}
	left := lethal
	storage.Before = func(*session.Batch) error {
		if died || left == 1 && !written {
			died = true
			return errKilled
		}
		return nil
	}
	storage.After = func(*session.Batch) error {
		if left--; left == 0 {
			died = true
			return errKilled
		}
		return nil
	}
	sess, err := session.Open(context.Background(), storage)
	if err != nil {
		t.Fatal(err)
	}
	sched := task.NewScheduler(sess, func(err error) {
		if !errors.Is(err, errKilled) {
			t.Errorf("the scheduler failed: %v", err)
		}
	}, planDefinition(began))
	if err := sched.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	act(sess, sched)
	synctest.Wait()
	sched.Close()
	if err := sess.Close(); err != nil {
		t.Fatal(err)
	}
	l.Memory = l.Memory.Reopen()
	return died
}

// Random graphs, random cancels, and an owner that dies at random commits, which are written or not: in the end every
// task is over exactly once, also those that waited by a policy, slept, or were restarted too often, every step that counts was committed exactly once, and no owner was over before its work.
// Invariant: INV-14
// Invariant: INV-19
func TestEveryTaskEndsExactlyOnceWhateverIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noDeadline := struct{ testing.TB }{t} // a bubble has a clock of its own
		rapid.Check(noDeadline, func(t *rapid.T) {
			l := &ledger{Memory: session.NewMemory(), ends: map[session.TaskID]int{}, at: map[session.TaskID]session.Seq{}}
			plant(t, l)
			began := time.Now()
			for range 40 { // so many deaths at most; then it may live
				lethal := rapid.IntRange(1, 6).Draw(t, "lethal")
				written := rapid.Bool().Draw(t, "written")
				victim := session.TaskID(rapid.IntRange(-20, 20).Draw(t, "victim"))
				micros := rapid.IntRange(0, longestSleep/3).Draw(t, "micros")
				if !life(t, l, began, lethal, written, func(_ *session.Session, s *task.Scheduler) {
					if victim > 0 {
						if err := s.Cancel(context.Background(), victim, "random"); err != nil && !errors.Is(err, errKilled) {
							t.Fatal(err)
						}
					}
					pass(time.Duration(micros) * time.Microsecond)
				}) && rapid.Bool().Draw(t, "enough") {
					break
				}
			}
			life(t, l, began, 0, true, func(sess *session.Session, s *task.Scheduler) {
				release(t, sess, s)
				pass(longestSleep * time.Microsecond)
			})
			verify(t, l)
		})
	})
}

// release lets everything go on that was restarted too often.
func release(t *rapid.T, sess *session.Session, s *task.Scheduler) {
	var live []session.Task
	if err := sess.View(context.Background(), func(tx *session.Tx) error { live = tx.LiveTasks(); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, task := range live {
		if err := s.Release(context.Background(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func plant(t *rapid.T, l *ledger) {
	sess, err := session.Open(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Commit(context.Background(), func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "roots") {
			tx.CreateTask(planned(drawPlan(t, fmt.Sprint(i), 0), 0))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := sess.Close(); err != nil {
		t.Fatal(err)
	}
	l.Memory = l.Memory.Reopen()
	if _, err := l.Acquire(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func verify(t *rapid.T, l *ledger) {
	tasks, err := l.Tasks(session.TaskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := l.Entries(session.EntryQuery{Conversation: session.Root})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{} // by task, oldest first
	for _, e := range slices.Backward(entries) {
		name, what, _ := strings.Cut(e.Kind, " ")
		said[name] = append(said[name], what)
	}
	byID := map[session.TaskID]session.Task{}
	for _, task := range tasks {
		byID[task.ID] = task
	}
	for _, task := range tasks {
		p, err := planOf(task)
		if err != nil {
			t.Fatal(err)
		}
		if task.Status != session.TaskTerminal || l.ends[task.ID] != 1 {
			t.Fatalf("task %s is %s and ended %d times", p.Name, task.Status, l.ends[task.ID])
		}
		got := said[p.Name]
		if want := wanted(p, *task.Outcome, len(got)); !slices.Equal(got, want) {
			t.Fatalf("task %s with outcome %+v said %q, want %q", p.Name, *task.Outcome, got, want)
		}
		if owner, owned := byID[task.Owner]; owned && !task.Background && l.at[owner.ID] < l.at[task.ID] {
			t.Fatalf("task %s was over in commit %d, its owner in %d", p.Name, l.at[task.ID], l.at[owner.ID])
		}
	}
}

// wanted is what a task with that outcome must have said, when it said n things.
func wanted(p plan, o session.Outcome, n int) []string {
	var all []string
	for i := range p.Steps {
		all = append(all, fmt.Sprint("step ", i))
	}
	all = append(all, "work")
	switch o.Status {
	case session.Completed, session.Failed:
		return append(all, "end")
	case session.Faulted:
		return append(all, string(session.Faulted))
	case session.Aborted, session.Orphaned:
	}
	return append(all[:min(max(n-1, 0), len(all))], "abort") // stopped between two steps
}

package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	Room       bool // it is at the top of a conversation of its owner, not its owner's child
	Join       bool // it waits for its work before its end
	Policy     task.Policy
	Nap        int // microseconds that it sleeps before its end, from the beginning of the test
	End        string
	Work       []plan
}

// longestSleep is the latest end of a nap, in microseconds from the beginning: so little that rapid does not run out of time.
const longestSleep = 90

// drawPlan draws a calm plan, whose end no race can change, or any.
func drawPlan(t *rapid.T, name string, depth int, calm bool) plan {
	policies := []task.Policy{task.AllSettled, task.Any, task.FailFast, task.AnyCancel}
	ends := []string{"complete", "complete", "fail", "fault"}
	if calm {
		policies = policies[:2] // they cancel nobody
	}
	p := plan{
		Name:       name,
		Steps:      rapid.IntRange(0, 3).Draw(t, "steps"),
		Background: depth > 0 && rapid.IntRange(0, 4).Draw(t, "background") == 0,
		Room:       depth > 0 && rapid.Bool().Draw(t, "room"),
		Join:       rapid.Bool().Draw(t, "join"),
		Policy:     rapid.SampledFrom(policies).Draw(t, "policy"),
		Nap:        rapid.SampledFrom([]int{0, 0, 30, longestSleep}).Draw(t, "nap"),
	}
	if depth < 2 {
		for i := range rapid.IntRange(0, 3).Draw(t, "work") {
			p.Work = append(p.Work, drawPlan(t, fmt.Sprintf("%s.%d", name, i), depth+1, calm))
		}
	}
	if calm && len(p.Work) > 0 {
		ends = ends[:1] // a failure takes work down that may or may not have ended
	}
	p.End = rapid.SampledFrom(ends).Draw(t, "end")
	return p
}

// progress is a checkpoint: the number of steps done.
type progress struct{ Done int }

func planOf(t session.Task) (p plan, err error) { return p, json.Unmarshal(t.Input, &p) }

func planned(p plan, c session.ConversationID, owner session.TaskID) session.Task {
	input, err := json.Marshal(p)
	if err != nil {
		panic(err) // a plan always encodes
	}
	return session.Task{Conversation: c, Kind: "plan", Version: 1, Owner: owner, Background: p.Background,
		Status: session.TaskPending, Phase: "step", Checkpoint: []byte(`{"Done":0}`), Input: input}
}

func planDefinition(began time.Time, maxRestarts int) task.Definition {
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
		Kind: "plan", Version: 1, MaxRestarts: maxRestarts,
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
				var room session.ConversationID
				for _, w := range p.Work {
					t := planned(w, inv.Task().Conversation, inv.Task().ID)
					if w.Room {
						if room == 0 {
							room = tx.CreateConversation(nil, inv.Task().ID)
						}
						t = planned(w, room, 0)
					}
					on = append(on, tx.CreateTask(t))
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
	ends     map[session.TaskID]int
	born     map[session.TaskID]session.Seq
	down     map[session.TaskID]session.Seq // since when a live task is marked or holds an outcome other than completed
	at       map[session.TaskID]session.Seq // its end
	epoch    map[session.Seq]int64          // of a commit
	queued   map[session.SubmissionID]session.Seq
	victims  map[session.TaskID]bool // of a cancel
	trees    map[session.TaskID]bool // of a cancel of the tree
	restarts int                     // most of one step
}

func newLedger(restarts int) *ledger {
	return &ledger{Memory: session.NewMemory(), ends: map[session.TaskID]int{}, born: map[session.TaskID]session.Seq{},
		down: map[session.TaskID]session.Seq{}, at: map[session.TaskID]session.Seq{}, epoch: map[session.Seq]int64{}, queued: map[session.SubmissionID]session.Seq{},
		victims: map[session.TaskID]bool{}, trees: map[session.TaskID]bool{}, restarts: restarts}
}

func (l *ledger) Commit(b *session.Batch) error {
	err := l.Memory.Commit(b)
	if err != nil {
		return err
	}
	first := func(m map[session.TaskID]session.Seq, id session.TaskID) {
		if _, known := m[id]; !known {
			m[id] = b.Seq
		}
	}
	l.epoch[b.Seq] = b.Epoch
	for _, t := range b.Tasks {
		first(l.born, t.ID)
		if t.Abort || t.Status == session.TaskCompleting && t.Outcome.Status != session.Completed {
			first(l.down, t.ID)
		}
		if t.Status == session.TaskTerminal {
			l.ends[t.ID]++
			l.at[t.ID] = b.Seq
		}
	}
	for _, sub := range b.Submissions {
		if sub.Status == session.SubmissionQueued {
			l.queued[sub.ID] = b.Seq
		}
	}
	return nil
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
	}, planDefinition(began, l.restarts))
	sched.OnReach(endInputs)
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

// endInputs is a layer above.
func endInputs(tx *session.Tx, list []task.Reached) error {
	var ended []session.Submission
	for _, reached := range list {
		subs, err := tx.Submissions(reached.Conversation, session.SubmissionQueued)
		if err != nil {
			return err
		}
		ended = append(ended, subs...)
	}
	for _, sub := range ended {
		sub.Status = session.SubmissionUnanswered
		tx.PutSubmission(sub)
	}
	return nil
}

// disturbance is what comes from outside during one life.
type disturbance struct {
	victim session.TaskID // to cancel; 0 or less = nobody
	tree   bool           // with everything below it
	room   int            // which owned conversation gets something; 0 or less = none
	guest  *plan          // new work for it, or nil: an input for its queue
	micros int
}

func drawDisturbance(t *rapid.T, life int) disturbance {
	d := disturbance{
		victim: session.TaskID(rapid.IntRange(-30, 30).Draw(t, "victim")),
		tree:   rapid.IntRange(0, 2).Draw(t, "tree") == 0,
		room:   rapid.IntRange(-8, 8).Draw(t, "room"),
		micros: rapid.IntRange(0, longestSleep/3).Draw(t, "micros"),
	}
	if rapid.Bool().Draw(t, "guest") {
		p := drawPlan(t, fmt.Sprint("guest", life), 2, false)
		d.guest = &p
	}
	return d
}

func (d disturbance) act(t *rapid.T, l *ledger, sess *session.Session, s *task.Scheduler) {
	fine := func(err error) {
		if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, session.ErrPoisoned) {
			t.Fatal(err)
		}
	}
	if d.room > 0 {
		_, err := sess.Commit(context.Background(), func(tx *session.Tx) error {
			list, err := tx.Conversations()
			if err != nil || len(list) < 2 {
				return err
			}
			c := list[1+d.room%(len(list)-1)].ID
			if d.guest != nil {
				tx.CreateTask(planned(*d.guest, c, 0))
			} else {
				tx.CreateSubmission(session.Submission{Conversation: c, Status: session.SubmissionQueued})
			}
			return nil
		})
		fine(err)
	}
	if d.victim > 0 {
		l.victims[d.victim] = true
		if d.tree {
			l.trees[d.victim] = true
			before := newRecords(t, l)
			err := s.CancelTree(context.Background(), d.victim, "random")
			fine(err)
			for id, task := range before.tasks {
				if err != nil || task.Status == session.TaskTerminal || !slices.Contains(before.above(id, false), d.victim) {
					continue
				}
				if now, err := l.Task(id); err != nil || now.Status != session.TaskTerminal && !now.Abort {
					t.Fatalf("task %d, below %d, is %+v, %v", id, d.victim, now, err)
				}
			}
		} else {
			fine(s.Cancel(context.Background(), d.victim, "random"))
		}
	}
	pass(time.Duration(d.micros) * time.Microsecond)
}

// Random graphs, through conversations too, random cancels, late guests, and an owner that dies at random commits, which are
// written or not, or at every single one: in the end every task is over exactly once, also those that waited by a policy,
// slept, or were restarted too often, every step that counts was committed exactly once, no owner was over before its work,
// and nobody and no input was cancelled but for a reason.
// Invariant: INV-14
// Invariant: INV-19
// Invariant: INV-45
func TestEveryTaskEndsExactlyOnceWhateverIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noDeadline := struct{ testing.TB }{t} // a bubble has a clock of its own
		rapid.Check(noDeadline, func(t *rapid.T) {
			l := newLedger(2)
			plant(t, l, drawPlans(t, 3, false))
			began := time.Now()
			every := rapid.IntRange(0, 3).Draw(t, "every") == 0
			for n := range 40 { // so many deaths at most; then it may live
				lethal, written := 1, true
				if !every {
					lethal, written = rapid.IntRange(1, 6).Draw(t, "lethal"), rapid.Bool().Draw(t, "written")
				}
				d := drawDisturbance(t, n)
				if !life(t, l, began, lethal, written, func(sess *session.Session, s *task.Scheduler) {
					d.act(t, l, sess, s)
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

// A store that is reopened after every commit comes to the end of one that is not.
// Invariant: INV-14
func TestDyingAtEveryCommitChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noDeadline := struct{ testing.TB }{t}
		rapid.Check(noDeadline, func(t *rapid.T) {
			once, often, plans := newLedger(0), newLedger(0), drawPlans(t, 1, true)
			plant(t, once, plans)
			plant(t, often, plans)
			rest := func(*session.Session, *task.Scheduler) { pass(longestSleep * time.Microsecond) }
			life(t, once, time.Now(), 0, true, rest)
			began := time.Now()
			for n := 0; life(t, often, began, 1, true, rest); n++ {
				if n == 2000 {
					t.Fatal("it never comes to rest")
				}
			}
			if want, got := endOf(t, once), endOf(t, often); !maps.EqualFunc(want, got, slices.Equal) {
				t.Fatalf("in one life %v, dying at every commit %v", want, got)
			}
		})
	})
}

// endOf returns how each task ended and what it said, by its name.
func endOf(t *rapid.T, l *ledger) map[string][]string {
	tasks, err := l.Tasks(session.TaskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	said := saidBy(t, l)
	for _, task := range tasks {
		p, err := planOf(task)
		if err != nil {
			t.Fatal(err)
		}
		if task.Status != session.TaskTerminal {
			t.Fatalf("task %s is %s", p.Name, task.Status)
		}
		said[p.Name] = append(said[p.Name], string(task.Outcome.Status))
	}
	return said
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

func drawPlans(t *rapid.T, most int, calm bool) (plans []plan) {
	for i := range rapid.IntRange(1, most).Draw(t, "roots") {
		plans = append(plans, drawPlan(t, fmt.Sprint(i), 0, calm))
	}
	return plans
}

func plant(t *rapid.T, l *ledger, plans []plan) {
	sess, err := session.Open(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Commit(context.Background(), func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		for _, p := range plans {
			tx.CreateTask(planned(p, session.Root, 0))
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

// saidBy returns what the tasks said, oldest first, by name.
func saidBy(t *rapid.T, l *ledger) map[string][]string {
	entries, err := l.Entries(session.EntryQuery{Conversation: session.Root})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	for _, e := range slices.Backward(entries) {
		name, what, _ := strings.Cut(e.Kind, " ")
		said[name] = append(said[name], what)
	}
	return said
}

func verify(t *rapid.T, l *ledger) {
	r := newRecords(t, l)
	said := saidBy(t, l)
	for _, task := range r.tasks {
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
		nearest := true
		for _, owner := range r.holds(task) {
			live := l.born[task.ID] < l.at[owner]
			if live && nearest && l.down[owner] != 0 && l.epoch[l.down[owner]] < l.epoch[l.at[task.ID]] && !task.Abort {
				t.Fatalf("task %s ended in commit %d, unmarked, after a reopen behind commit %d, when task %d went down", p.Name, l.at[task.ID],
					l.down[owner], owner)
			}
			if live && l.at[owner] < l.at[task.ID] {
				t.Fatalf("task %s was over in commit %d, task %d, for which it worked, in %d", p.Name, l.at[task.ID], owner, l.at[owner])
			}
			nearest = nearest && !live
		}
		if task.Abort && !r.hadReason(l, task) {
			t.Fatalf("nothing speaks for the mark of task %d %s: %q", task.ID, p.Name, task.AbortReason)
		}
	}
	r.verifyInputs(t, l)
}

// records are what a store holds in the end.
type records struct {
	tasks map[session.TaskID]session.Task
	owner map[session.ConversationID]session.TaskID
}

func newRecords(t *rapid.T, l *ledger) records {
	r := records{map[session.TaskID]session.Task{}, map[session.ConversationID]session.TaskID{}}
	tasks, err := l.Tasks(session.TaskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		r.tasks[task.ID] = task
	}
	list, err := l.Conversations()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		r.owner[c.ID] = c.Owner
	}
	return r
}

// above returns the chain of owners from one on, nearest first; with uncut, up to the first one in the background.
func (r records) above(owner session.TaskID, uncut bool) (chain []session.TaskID) {
	for owner != 0 {
		chain = append(chain, owner)
		t := r.tasks[owner]
		if uncut && t.Background {
			return chain
		}
		if owner = t.Owner; owner == 0 {
			owner = r.owner[t.Conversation]
		}
	}
	return chain
}

func (r records) ownerOf(t session.Task) session.TaskID {
	if t.Owner != 0 {
		return t.Owner
	}
	return r.owner[t.Conversation]
}

// holds returns the tasks that wait for the end of t, if they were live when it began.
func (r records) holds(t session.Task) []session.TaskID {
	if t.Background {
		return nil
	}
	return r.above(r.ownerOf(t), true)
}

// hadReason reports whether somebody cancelled a task, an owner of it went down, or its owner's wait no longer needed it.
func (r records) hadReason(l *ledger, t session.Task) bool {
	lost := t.Owner != 0 && task.Policy(policyOf(r.tasks[t.Owner])) != task.AllSettled
	return l.victims[t.ID] || lost ||
		slices.ContainsFunc(r.holds(t), func(owner session.TaskID) bool { return l.down[owner] != 0 && l.down[owner] < l.at[t.ID] }) ||
		slices.ContainsFunc(r.above(r.ownerOf(t), false), func(owner session.TaskID) bool { return l.trees[owner] })
}

func policyOf(t session.Task) task.Policy {
	p, err := planOf(t)
	if err != nil {
		panic(err) // every task has a plan
	}
	return p.Policy
}

// verifyInputs checks that inputs ended with the work of their conversation, and for no other reason.
func (r records) verifyInputs(t *rapid.T, l *ledger) {
	for id, queued := range l.queued {
		sub, err := l.Submission(id)
		if err != nil {
			t.Fatal(err)
		}
		owner := r.owner[sub.Conversation]
		ended := sub.Status == session.SubmissionUnanswered
		tree := slices.ContainsFunc(r.above(owner, false), func(owner session.TaskID) bool { return l.trees[owner] })
		reason := slices.ContainsFunc(r.above(owner, true), func(owner session.TaskID) bool { return l.down[owner] != 0 })
		if ended && !tree && !reason {
			t.Fatalf("input %d ended, and nothing above conversation %d went down", id, sub.Conversation)
		}
		if !ended && r.mustEnd(l, owner, queued) {
			t.Fatalf("input %d is queued, and a keeper of conversation %d went down", id, sub.Conversation)
		}
	}
}

// mustEnd reports whether a keeper of the conversation of that owner went down after the commit since.
func (r records) mustEnd(l *ledger, owner session.TaskID, since session.Seq) bool {
	first := true
	for _, keeper := range r.above(owner, true) {
		switch {
		case l.at[keeper] <= since: // it was over
		case l.down[keeper] == 0:
			first, since = false, l.at[keeper] // it ended well: the next one above is the keeper
		default: // an input that came while its keeper went down may have come too late
			return !first || l.down[keeper] > since
		}
	}
	return false
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

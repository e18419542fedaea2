package task_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// wakeAt is a checkpoint. Shown is for display only.
type wakeAt struct {
	Time  int64 `json:"time"`
	Shown int64 `json:"wakeAt,omitempty"`
}

func sleeper(t *testing.T) task.Definition {
	return define(func(ctx context.Context, inv *task.Invocation) error {
		var c wakeAt
		if err := inv.Decode(&c); err != nil {
			return err
		}
		if err := inv.SleepMillis(c.Time); err != nil {
			return err
		}
		if early := time.UnixMilli(c.Time).Sub(time.Now()); early > 0 {
			t.Errorf("awake %s too early", early)
		}
		return step(ctx, inv, "awake at "+time.Since(time.UnixMilli(c.Time)).String(), completed())
	})
}

func until(at time.Time) func(*session.Task) {
	return func(t *session.Task) { t.Checkpoint = mustJSON(wakeAt{Time: at.UnixMilli(), Shown: 7}) }
}

// Promise: P-213
// Promise: P-214
func TestASleepEndsAtItsTimeAndAReopenSleepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sleeper(t)
		r := newRig(t, d)
		at := time.Now().Add(3 * time.Hour)
		id := r.add("work", until(at))
		r.run()
		if got := r.sched.Standing(id); got != (task.Sleeping{Until: time.UnixMilli(at.UnixMilli())}) {
			t.Errorf("standing %#v, want asleep until %s", got, at)
		}
		pass(time.Hour)
		synctest.Wait()
		r.wantNotes()
		r.reopen(d)
		pass(time.Hour) // nobody is there
		r.run()
		r.status(id, session.TaskPending)
		pass(time.Hour - time.Nanosecond)
		synctest.Wait()
		r.wantNotes()
		pass(time.Nanosecond)
		synctest.Wait()
		r.ended(id, session.Completed)
		r.wantNotes("awake at 0s")
		if got := r.sched.Standing(id); got != nil {
			t.Errorf("standing %#v after its end", got)
		}
		r.wantFailures()
	})
}

func TestASleepThatIsOverIsNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sleeper(t)
		r := newRig(t, d)
		id := r.add("work", until(time.Now().Add(time.Minute)))
		pass(time.Hour)
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("awake at 59m0s")
	})
}

func TestSleepersWakeInTheOrderOfTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sleeper(t))
		r.run()
		for _, minutes := range []int{30, 10, 50, 20, 40} { // some added while others sleep, earlier ones too
			r.add("work", until(time.Now().Add(time.Duration(minutes)*time.Minute)))
			synctest.Wait()
		}
		for n := range 5 {
			pass(10 * time.Minute)
			synctest.Wait()
			if got := len(notesOf(t, r.memory)); got != n+1 {
				t.Errorf("%d awake after %d minutes, want %d", got, 10*(n+1), n+1)
			}
		}
	})
}

func TestASleepingTaskHoldsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		r := newRig(t, sleeper(t))
		r.run()
		before := runtime.NumGoroutine()
		for range many {
			r.add("work", until(time.Now().Add(time.Hour)))
		}
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > 0 {
			t.Errorf("%d more goroutines for %d sleepers", got, many)
		}
		pass(time.Hour)
		synctest.Wait()
		if got := len(notesOf(t, r.memory)); got != many {
			t.Errorf("%d are awake, want %d", got, many)
		}
	})
}

func TestASleepIsEndedByWhatEndsItsStep(t *testing.T) {
	cases := map[string]struct {
		act  func(r *rig, id session.TaskID)
		want []string
	}{
		"a cancel": {func(r *rig, id session.TaskID) { r.cancel(id, "enough") }, []string{"work aborted"}},
		"somebody who moves it": {func(r *rig, id session.TaskID) {
			r.commit(func(tx *session.Tx) error {
				t, _ := tx.LiveTask(id)
				tx.PutTask(task.After(t, task.Continue{Phase: "end"}, false))
				return nil
			})
		}, []string{"work done"}},
		"but no Unpark": {func(r *rig, _ session.TaskID) { r.sched.Unpark() }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := sleeper(t)
				d.Phases["end"] = finish
				r := newRig(t, d)
				id := r.add("work", until(time.Now().Add(time.Hour)))
				r.run()
				c.act(r, id)
				synctest.Wait()
				r.wantNotes(c.want...)
			})
		})
	}
}

func TestAnAbortPhaseThatSleepsFaultsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(idle)
		d.Abort = func(_ context.Context, inv *task.Invocation) error { return inv.Sleep(time.Now().Add(time.Hour)) }
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.cancel(id, "enough")
		r.ended(id, session.Faulted)
	})
}

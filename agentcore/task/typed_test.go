package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

type (
	order   struct{ Items []string }
	packing struct{ Done int }
	parcel  struct{ Weight float64 }
	packRun = task.Run[order, packing, parcel]
)

// pack is a kind of task that packs item after item and ends with the parcel's weight.
func pack(parts ...task.Part[order, packing, parcel]) *task.Type[order, packing, parcel] {
	return task.Define("pack", 2, func(order) (string, packing) { return "go", packing{} }, append([]task.Part[order, packing, parcel]{
		task.On("go", func(ctx context.Context, r *packRun) error {
			if r.State.Done == len(r.Input.Items) {
				return r.Save(ctx, r.Complete(parcel{Weight: float64(r.State.Done)}))
			}
			return r.Save(ctx, r.Continue("go", packing{r.State.Done + 1}))
		}),
	}, parts...)...)
}

// addTyped creates a task that a type or a definition has drafted.
func (r *rig) addTyped(t session.Task, err error) (id session.TaskID) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	t.Conversation = session.Root
	r.commit(func(tx *session.Tx) error { id = tx.CreateTask(t); return nil })
	return id
}

// Promise: P-205
func TestATypedTaskGoesFromItsInputToItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		typ := pack()
		r := newRig(t, typ.Definition())
		id := r.addTyped(typ.New(order{Items: []string{"a", "b"}}))
		if got := r.task(id); string(got.Checkpoint) != `{"Done":0}` || got.Phase != "go" || got.Version != 2 || string(got.Input) != `{"Items":["a","b"]}` {
			t.Errorf("it begins as %+v", got)
		}
		if _, err := typ.Result(r.task(id)); !errors.Is(err, task.ErrNotCompleted) {
			t.Errorf("Result before the end = %v, want ErrNotCompleted", err)
		}
		r.run()
		got, err := typ.Result(r.task(id))
		if err != nil || got.Weight != 2 {
			t.Errorf("Result = %+v, %v", got, err)
		}
	})
}

func TestAnInputIsRefusedBeforeThereIsATask(t *testing.T) {
	typ, bare := pack().Definition(), define(finish)
	for name, c := range map[string]struct {
		def   *task.Definition
		input string
		want  error
	}{
		"an unknown member":             {&typ, `{"Items":[],"Price":1}`, session.ErrTaskInput},
		"another case of letters":       {&typ, `{"items":[]}`, session.ErrTaskInput},
		"a member twice":                {&typ, `{"Items":[],"Items":[]}`, session.ErrTaskInput},
		"another type":                  {&typ, `{"Items":3}`, session.ErrTaskInput},
		"no JSON":                       {&typ, `{`, session.ErrTaskInput},
		"more than the bound":           {&typ, `{"Items":["` + strings.Repeat("x", session.MaxTaskInput) + `"]}`, session.ErrTaskInput},
		"a kind that takes no input":    {&bare, `{}`, task.ErrNoInitial},
		"a kind that takes none at all": {&bare, ``, task.ErrNoInitial},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.def.New(json.RawMessage(c.input)); !errors.Is(err, c.want) {
				t.Errorf("New = %v, want %v", err, c.want)
			}
		})
	}
}

func TestATypedPhaseRefusesWhatItCannotReadOrWrite(t *testing.T) {
	big := task.Define("big", 1, func(nothing) (string, string) { return "go", "" },
		task.On("go", func(ctx context.Context, r *task.Run[nothing, string, float64]) error {
			for name, n := range map[string]task.Next{
				"a checkpoint beyond the bound": r.Continue("go", strings.Repeat("x", task.MaxCheckpoint)),
				"a wait with one":               r.Wait(nil, task.AllSettled, "go", strings.Repeat("x", task.MaxCheckpoint)),
				"a result without JSON":         r.Complete(math.NaN()),
			} {
				if err := r.Save(ctx, n); !errors.Is(err, task.ErrNext) {
					t.Errorf("%s: Save = %v, want ErrNext", name, err)
				}
			}
			return r.Save(ctx, r.Complete(1))
		}))
	typ := pack()
	for name, c := range map[string]struct {
		change func(*session.Task)
		want   session.OutcomeStatus
	}{
		"all is well":                       {func(*session.Task) {}, session.Completed},
		"no input is the zero one":          {func(t *session.Task) { t.Input = nil }, session.Completed},
		"an unknown member of a checkpoint": {func(t *session.Task) { t.Checkpoint = json.RawMessage(`{"Done":0,"Left":1}`) }, session.Faulted},
		"another type of a checkpoint":      {func(t *session.Task) { t.Checkpoint = json.RawMessage(`[]`) }, session.Faulted},
		"an input it does not know":         {func(t *session.Task) { t.Input = json.RawMessage(`{"items":[]}`) }, session.Faulted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, typ.Definition(), big.Definition())
				drafted, err := typ.New(order{Items: []string{"a"}})
				c.change(&drafted)
				id := r.addTyped(drafted, err)
				wide := r.addTyped(big.New(nothing{}))
				r.run()
				r.ended(id, c.want)
				r.ended(wide, session.Completed)
			})
		})
	}
}

func TestATypedTaskIsMigratedCancelledAndBounded(t *testing.T) {
	typ := pack(
		task.Restarts[order, packing, parcel](7),
		task.OnAbort(func(ctx context.Context, r *packRun) error { return r.Save(ctx, r.Cancelled()) }),
		task.OnMigrate[order, packing, parcel](func(in order, from int, phase string, old json.RawMessage) (string, packing, error) {
			if phase != "old" || from != 1 {
				return "", packing{}, errTest
			}
			var n int
			err := json.Unmarshal(old, &n)
			return "go", packing{Done: n}, err
		}),
	)
	if got := typ.Definition().MaxRestarts; got != 7 {
		t.Errorf("%d restarts, want 7", got)
	}
	if got := pack().Definition().MaxRestarts; got != task.MaxRestarts {
		t.Errorf("%d restarts, want %d", got, task.MaxRestarts)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, typ.Definition(), defineAs("other", idle))
		older := func(phase string, input string) session.TaskID {
			return r.add("pack", func(t *session.Task) {
				t.Phase, t.Checkpoint, t.Input = phase, json.RawMessage(`3`), json.RawMessage(input)
			})
		}
		moved, strange, unreadable := older("old", `{"Items":["a","b","c"]}`), older("other", `{"Items":[]}`), older("old", `[]`)
		r.run()
		if got, err := typ.Result(r.task(moved)); err != nil || got.Weight != 3 {
			t.Errorf("the migrated one: %+v, %v", got, err)
		}
		for _, id := range []session.TaskID{strange, unreadable} {
			if got, is := r.sched.Standing(id).(task.Blocked); !is || got.Reason != task.MigrationFailed || got.Detail == "" {
				t.Errorf("task %d: standing %#v", id, got)
			}
		}
		other := r.add("other")
		waits, err := typ.New(order{})
		waits.Status, waits.On = session.TaskWaiting, []session.TaskID{other}
		id := r.addTyped(waits, err)
		r.cancel(id, "enough")
		r.ended(id, session.Aborted)
		if _, err := typ.Result(r.task(id)); !errors.Is(err, task.ErrNotCompleted) || !strings.Contains(err.Error(), "aborted: enough") {
			t.Errorf("Result = %v", err)
		}
	})
}

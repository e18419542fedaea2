package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // tests encode what can be encoded
	}
	return raw
}

func TestAMemoSaysTheSameAfterStepsAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throws := 0
		dice := func(ctx context.Context, inv *task.Invocation) (int, error) {
			return task.Once(ctx, inv, "dice", func() (int, error) { throws++; return throws * 10, nil })
		}
		stay := true
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			n, err := dice(ctx, inv)
			if err != nil {
				return err
			}
			if stay {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return step(ctx, inv, fmt.Sprint("first ", n), task.Continue{Phase: "next"})
		})
		d.Phases["next"] = func(ctx context.Context, inv *task.Invocation) error {
			n, err := dice(ctx, inv)
			if err != nil {
				return err
			}
			return step(ctx, inv, fmt.Sprint("next ", n), completed())
		}
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		stay = false
		r.reopen(d)
		r.run()
		r.wantNotes("first 10", "next 10")
		if throws != 1 {
			t.Errorf("%d throws, want one", throws)
		}
		if got := r.task(id); got.Memos != nil {
			t.Errorf("memos %s are left behind the outcome", got.Memos)
		}
		r.wantFailures()
	})
}

func TestTheFirstWriterOfAMemoWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			if _, ok := inv.Recall("a"); ok {
				t.Error("a memo before anyone wrote it")
			}
			for i, want := range []string{`1`, `1`} {
				got, err := inv.Memo(ctx, "a", number(i+1))
				if err != nil || string(got) != want {
					t.Errorf("Memo = %s, %v, want %s", got, err, want)
				}
			}
			got, err := inv.Memo(ctx, "b", number(3))
			if err != nil || string(got) != "3" {
				t.Errorf("Memo = %s, %v", got, err)
			}
			if got, ok := inv.Recall("a"); !ok || string(got) != "1" {
				t.Errorf("Recall = %s, %t", got, ok)
			}
			return finish(ctx, inv)
		})
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
	})
}

// Somebody beside the phase, a hook for example, has written the memo meanwhile.
func TestAMemoOfSomebodyElseWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			r.commit(func(tx *session.Tx) error {
				other, _ := tx.LiveTask(inv.Task().ID)
				other.Memos = json.RawMessage(`{"a":1}`)
				tx.PutTask(other)
				return nil
			})
			got, err := inv.Memo(ctx, "a", number(2))
			if err != nil || string(got) != "1" {
				t.Errorf("Memo = %s, %v, want the first one", got, err)
			}
			if got, ok := inv.Recall("a"); !ok || string(got) != "1" {
				t.Errorf("Recall = %s, %t", got, ok)
			}
			return finish(ctx, inv)
		})
		r = newRig(t, d)
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
	})
}

func TestAMemoThatCannotBeKeptIsToldAndAFailedOneIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept *task.Invocation
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			if _, err := task.Once(ctx, inv, "a", func() (int, error) { return 0, errTest }); !errors.Is(err, errTest) {
				t.Errorf("Once = %v, want its maker's error", err)
			}
			if _, err := task.Once(ctx, inv, "a", func() (func(), error) { return nil, nil }); err == nil {
				t.Error("a value without JSON is kept")
			}
			if _, err := inv.Memo(ctx, "a", json.RawMessage("{")); err == nil {
				t.Error("a value that is not JSON is kept")
			}
			if _, ok := inv.Recall("a"); ok {
				t.Error("a failed memo is kept")
			}
			kept = inv
			return finish(ctx, inv)
		})
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
		if _, err := kept.Memo(t.Context(), "late", number(1)); !errors.Is(err, task.ErrStaleInvocation) {
			t.Errorf("Memo behind the phase = %v, want ErrStaleInvocation", err)
		}
	})
}

func TestMemosThatAreNotJSONFaultTheTaskThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Memo(ctx, "a", number(1))
			return err
		}))
		id := r.add("work", func(t *session.Task) { t.Memos = json.RawMessage(`[1]`) })
		r.run()
		r.ended(id, session.Faulted)
	})
}

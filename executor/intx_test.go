package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

func onFile(t *testing.T) runlog.Store {
	t.Helper()
	store, err := runstore.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// note adds a row and returns how many there are.
func note(tx workflow.Tx, text string) (n int64, err error) {
	if _, err := tx.Exec(`CREATE TABLE IF NOT EXISTS app_note (text TEXT) STRICT`); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(`INSERT INTO app_note VALUES (?)`, text); err != nil {
		return 0, err
	}
	for row, err := range tx.Query(`SELECT count(*), min(text) FROM app_note WHERE text <> ?`, "") {
		if err != nil {
			return 0, err
		}
		n = row[0].(int64)
	}
	return n, nil
}

// noting runs effect inside the store, once in each attempt, under one key.
func noting(name string, effect func(ctx, context.Context, workflow.Tx) (int64, error), options ...workflow.NodeOption) *workflow.Workflow[int, int64] {
	return workflow.MustDefine(name, 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int64] {
		return workflow.Then(b, in, fn(name, func(c ctx, _ int) (int64, error) {
			return workflow.InTx(c, "note", func(inside context.Context, tx workflow.Tx) (int64, error) { return effect(c, inside, tx) })
		}, options...))
	})
}

func TestAnEffectInsideTheStoreRunsOnceOverAttempts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var ran atomic.Int32
	flow := workflow.MustDefine("twice", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		return workflow.Then(b, in, fn("twice", func(c ctx, n int) (string, error) {
			first, err := workflow.InTx(c, "note", func(_ context.Context, tx workflow.Tx) (int64, error) { ran.Add(1); return note(tx, "a") })
			if err != nil {
				return "", err
			}
			if _, err := workflow.InTx(c, "note", func(context.Context, workflow.Tx) (int, error) { return 0, nil }); !fault.Is(err, fault.Conflict) {
				return "", fmt.Errorf("the same key again: %w", err)
			}
			a, err := workflow.Ask[int, answer](c, "sure", n)
			return fmt.Sprint(first, a.Yes), err
		}))
	})
	host := func() (*executor.Engine, *executor.Handle[int, string]) {
		e, err := executor.Open(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
		return e, register(t, e, flow)
	}
	e, h := host()
	run := start(t, h, 1)
	until(t, run, runlog.RunWaiting, 1)
	leave(t, e)
	e, _ = host()
	defer leave(t, e)
	run = attach[string](t, e, run.ID())
	if _, err := run.Answer(t.Context(), asked(t, e, run).ID, answer{true}, "ann"); err != nil {
		t.Fatal(err)
	}
	if got := result(t, run); got != "1 true" || ran.Load() != 1 {
		t.Errorf("got %q, it ran %d times", got, ran.Load())
	}
}

func TestAnEffectThatFailsLeavesNothingAndMayRunAgain(t *testing.T) {
	e := open(t, onFile(t))
	again := workflow.Retry(2, time.Millisecond)
	for name, flow := range map[string]*workflow.Workflow[int, int64]{
		"an error": noting("error", func(c ctx, _ context.Context, tx workflow.Tx) (int64, error) {
			n, err := note(tx, "a")
			if c.Run().Attempt == 1 {
				return 0, errors.New("no")
			}
			return n, err
		}, again),
		"a panic": noting("panic", func(c ctx, _ context.Context, tx workflow.Tx) (int64, error) {
			n, err := note(tx, "b")
			if c.Run().Attempt == 1 {
				panic("boom")
			}
			return n, err
		}, again),
		"the end of the goroutine": noting("goexit", func(c ctx, _ context.Context, tx workflow.Tx) (int64, error) {
			n, err := note(tx, "c")
			if c.Run().Attempt == 1 {
				runtime.Goexit()
			}
			return n, err
		}, again),
	} {
		t.Run(name, func(t *testing.T) {
			run := start(t, register(t, e, flow), 1)
			result(t, run)
			if s := wholeStory(t, run); strings.Count(s, "node.started") != 2 {
				t.Error(s)
			}
		})
	}
	count := noting("count", func(_ ctx, _ context.Context, tx workflow.Tx) (int64, error) { return note(tx, "end") })
	if got := result(t, start(t, register(t, e, count), 1)); got != 4 {
		t.Errorf("%d rows of three effects and this one", got)
	}
}

func TestAFailureInsideTheStoreIsTheNodes(t *testing.T) {
	e := open(t, onFile(t))
	for _, test := range []struct {
		name   string
		effect func(ctx, context.Context, workflow.Tx) (int64, error)
		want   fault.Kind
		says   string
	}{
		{"a table of ours", func(_ ctx, _ context.Context, tx workflow.Tx) (int64, error) { return tx.Exec(`DELETE FROM wf_event`) }, fault.InputValidation, `"app_"`},
		{"a panic", func(ctx, context.Context, workflow.Tx) (int64, error) { panic("boom") }, executor.NodePanicked, "boom"},
		{"its kind stays", func(ctx, context.Context, workflow.Tx) (int64, error) {
			return 0, fault.New(fault.NotFound, "no account")
		}, fault.NotFound, "no account"},
		{"usage", func(c ctx, _ context.Context, _ workflow.Tx) (int64, error) {
			return 0, c.TokenUsage().Report("r", workflow.Usage{})
		}, fault.Conflict, "InTx"},
		{"another effect", func(c ctx, _ context.Context, _ workflow.Tx) (int64, error) {
			return workflow.Once(c, "k", func(context.Context) (int64, error) { return 0, nil })
		}, fault.Conflict, "InTx"},
		{"another one inside the store", func(c ctx, _ context.Context, _ workflow.Tx) (int64, error) {
			return workflow.InTx(c, "k", func(context.Context, workflow.Tx) (int64, error) { return 0, nil })
		}, fault.Conflict, "InTx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flow := noting(strings.ReplaceAll(test.name, " ", "-"), test.effect)
			_, err := start(t, register(t, e, flow), 1).Result(t.Context())
			if !fault.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMemoryHasNoTransactions(t *testing.T) {
	e := open(t, runlog.NewMemory())
	var ran atomic.Int32
	flow := noting("memory", func(ctx, context.Context, workflow.Tx) (int64, error) { return int64(ran.Add(1)), nil })
	_, err := start(t, register(t, e, flow), 1).Result(t.Context())
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), `effect "note" of node "memory"`) || ran.Load() != 0 {
		t.Errorf("got %v, it ran %d times", err, ran.Load())
	}
}

// doubtful answers the first commit of an effect with an error, before or behind it.
type doubtful struct {
	runlog.Store
	behind bool
	failed atomic.Bool
}

func (s *doubtful) InTx(b *runlog.Batch, effect func(workflow.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	if s.failed.Swap(true) {
		return s.Store.InTx(b, effect)
	}
	if s.behind {
		if _, err := s.Store.InTx(b, effect); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the disk failed")
}

// Nobody knows whether a commit that failed is there. The run is taken up again and finds out; the node is not blamed.
func TestACommitOfUnknownEffectIsLookedUp(t *testing.T) {
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprint("committed ", behind), func(t *testing.T) {
			e := open(t, &doubtful{Store: onFile(t), behind: behind})
			flow := noting("doubt", func(_ ctx, _ context.Context, tx workflow.Tx) (int64, error) { return note(tx, "a") })
			run := start(t, register(t, e, flow), 1)
			if got := result(t, run); got != 1 {
				t.Errorf("got %d", got)
			}
			if s := wholeStory(t, run); strings.Contains(s, "node.failed") || strings.Count(s, "node.started") != 2 {
				t.Error(s)
			}
		})
	}
}

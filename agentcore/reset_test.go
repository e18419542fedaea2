package agentcore_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
	"github.com/workflowd/workflowd/store/sessionstore"
)

// Promise: P-008, P-476, P-804
func TestAfterAResetTheModelSeesNothingEarlierAndTheStoreKeepsIt(t *testing.T) {
	b := newBackend()
	a, model := openSpied(t, agentcore.Options{Storage: b.storage()}, call("ls", `{"path":"."}`), say("One."), say("Two."))
	ask(t, a, "r1", "first")
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "transcript", transcript(t, a))
	ask(t, a, "r2", "second")
	same(t, "request", model.asked(-1), `user "second"`)
	if _, text, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "first"}, nil); err != nil || text != "One." || model.count() != 3 {
		t.Errorf("the old turn is told as %q, %v, with %d requests", text, err, model.count())
	}
	same(t, "transcript", transcript(t, a), `user "second"`, `assistant "Two."`)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"system", "user", "assistant", "tool-result", "assistant", "reset", "system", "user", "assistant"}
	if d := cmp.Diff(want, b.kinds(t)); d != "" {
		t.Errorf("the store: -want +got\n%s", d)
	}
}

// wrap changes a storage, or leaves it.
type wrap func(session.Storage) session.Storage

func plain(s session.Storage) session.Storage { return s }

// places are stores that outlive an agent: each gives the same data at every call.
var places = map[string]func(t *testing.T) func(wrap) agentcore.StorageFactory{
	"memory": func(*testing.T) func(wrap) agentcore.StorageFactory {
		data := session.NewMemory()
		return func(over wrap) agentcore.StorageFactory {
			return agentcore.StorageFactory{Open: func(context.Context) (session.Storage, func() error, error) {
				return over(data.Reopen()), nil, nil
			}}
		}
	},
	"SQLite": func(t *testing.T) func(wrap) agentcore.StorageFactory {
		path := filepath.Join(t.TempDir(), "s.db")
		return func(over wrap) agentcore.StorageFactory {
			return agentcore.StorageFactory{Open: func(ctx context.Context) (session.Storage, func() error, error) {
				s, err := sessionstore.Open(ctx, path, sessionstore.Options{})
				if err != nil {
					return nil, nil, err
				}
				return over(s), nil, nil
			}}
		}
	},
}

var errGone = errors.New("the process is gone")

// dying is a process that ends at commit n, from 0, of those behind begun: before it, or behind it with the reply lost.
// Nothing it writes later lands.
type dying struct {
	n     int
	late  bool
	begun bool
	dead  bool
}

func (d *dying) over(s session.Storage) session.Storage {
	return &sessiontest.Faulty{Storage: s,
		Before: func(*session.Batch) error {
			if d.begun && !d.dead {
				d.dead = d.n == 0 && !d.late
				d.n--
			}
			if d.dead {
				return errGone
			}
			return nil
		},
		After: func(*session.Batch) error {
			if d.dead = d.n < 0; d.dead {
				return errGone
			}
			return nil
		}}
}

// Promise: P-009
func TestAKillInTheRunBehindAResetBringsNothingBack(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				deaths := 0
				for killedBehindReset(t, place(t), &dying{n: deaths, late: late}) {
					deaths++
				}
				if deaths < 4 { // the input, its round, the result, the answer
					t.Errorf("late=%v: the run behind the reset has %d commits", late, deaths)
				}
			}
		})
	}
}

// killedBehindReset reports whether the process died in the run behind the reset.
func killedBehindReset(t *testing.T, place func(wrap) agentcore.StorageFactory, d *dying) bool {
	t.Helper()
	model := &spy{Provider: scripted.Provider(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
		switch last := r.Messages[len(r.Messages)-1]; {
		case last.Role == "tool":
			return say("Two."), nil
		case strings.Contains(last.Text, "second"):
			return call("ls", `{"path":"."}`), nil
		case strings.Contains(last.Text, "first"):
			return say("One."), nil
		}
		return say(" That is all."), nil // asked to carry on
	}))}
	o := agentcore.Options{Storage: place(d.over), Model: "m", LLM: model, Workdir: t.TempDir()}
	a, err := agentcore.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, a, "r1", "first")
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.begun = true
	in := agentcore.Input{RequestID: "r2", Prompt: "second"}
	_, _, first := follow(a, in, nil)
	if err := a.Close(); err != nil || (first != nil) != d.dead {
		t.Errorf("died %v, the run ended in %v, the close in %v", d.dead, first, err)
	}
	o.Storage = place(plain)
	if a, err = agentcore.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, text, err := follow(a, in, nil); err != nil || !strings.HasPrefix(text, "Two.") {
		t.Errorf("after the kill: %q, %v", text, err)
	}
	for n := 1; n < model.count(); n++ {
		if got := lines(model.asked(n)); got[0] != `user "second"` {
			t.Errorf("request %d shows what was before the reset: %q", n, got)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return d.dead
}

// Promise: P-010
func TestAResetIsRefusedWhileATaskIsUnfinished(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, b *backend)
		host   agentcore.Host
		want   fault.Kind
	}{
		{"a background task of the project's", func(t *testing.T, b *backend) { b.plant(t, backgroundTask) }, doubter{decided: true}, ""},
		{"a call that waits for a person", func(*testing.T, *backend) {}, doubter{}, fault.UserInputRequired},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend()
			c.before(t, b)
			a, model := openSpied(t, agentcore.Options{Storage: b.storage(), ExtraTools: deploy(t)}, call("deploy", `{"where":"here"}`), say("Deployed."), say("Twice."))
			in := agentcore.Input{RequestID: "r1", Prompt: "deploy"}
			if _, _, err := follow(a, in, c.host); fault.KindOf(err) != c.want {
				t.Fatalf("err = %v", err)
			}
			before := transcript(t, a)
			if err := a.Reset(t.Context()); !fault.Is(err, fault.Conflict) {
				t.Errorf("err = %v, want a conflict", err)
			}
			if d := cmp.Diff(before, transcript(t, a)); d != "" || len(before) == 0 {
				t.Errorf("the transcript changed: %s", d)
			}
			for _, in := range []agentcore.Input{in, {Prompt: "again"}} {
				if _, _, err := follow(a, in, doubter{decided: true}); err != nil {
					t.Errorf("a turn behind the refusal: %v", err)
				}
			}
			if got := lines(model.asked(-1)); len(got) != 5 || got[0] != `user "deploy"` {
				t.Errorf("the last request shows %q", got)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(b.kinds(t), "reset") {
				t.Errorf("the refused reset is in the store: %q", b.kinds(t))
			}
		})
	}
}

// plant writes into the data from outside.
func (b *backend) plant(t *testing.T, write func(*session.Tx) error) {
	t.Helper()
	s, err := session.Open(t.Context(), b.data.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(t.Context(), write)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// backgroundTask writes a task of a kind that no agent knows, so that it stays unfinished.
func backgroundTask(tx *session.Tx) error {
	tx.CreateTask(session.Task{Conversation: session.Root, Kind: "app.watch", Version: 1, Status: session.TaskPending, Phase: "work", Background: true})
	return tx.EnsureRoot()
}

// Promise: P-010
func TestAResetIsRefusedWhileAnInputWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, model := openSpied(t, agentcore.Options{ExtraTools: deploy(t)}, call("deploy", `{"where":"here"}`), scripted.Response{scripted.Status{Code: 401}}, say("Two."))
		first, second := agentcore.Input{RequestID: "r1", Prompt: "deploy"}, agentcore.Input{RequestID: "r2", Prompt: "second"}
		if _, _, err := follow(a, first, doubter{}); !fault.Is(err, fault.UserInputRequired) {
			t.Fatalf("err = %v", err)
		}
		held := make(chan error)
		go func() {
			_, _, err := follow(a, second, doubter{})
			held <- err
		}()
		synctest.Wait() // it is in the queue
		if _, _, err := follow(a, first, doubter{decided: true}); !fault.Is(err, fault.ModelError) {
			t.Fatalf("err = %v", err)
		}
		if err := <-held; !fault.Is(err, fault.Conflict) {
			t.Fatalf("err = %v", err)
		}
		asks := model.count()
		if err := a.Reset(t.Context()); !fault.Is(err, fault.Conflict) || model.count() != asks {
			t.Errorf("err = %v with %d requests, want a conflict and none", err, model.count()-asks)
		}
		if _, text, err := follow(a, second, doubter{decided: true}); err != nil || text != "Two." {
			t.Errorf("%q, %v", text, err)
		}
		if got := lines(model.asked(-1)); got[0] != `user "deploy"` {
			t.Errorf("the refused reset emptied the context: %q", got)
		}
		if err := a.Reset(t.Context()); err != nil {
			t.Errorf("at rest: %v", err)
		}
		same(t, "transcript", transcript(t, a))
	})
}

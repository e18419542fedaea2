package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named is a tool that says who made it.
func named(name, maker string) tool.Tool {
	return tool.New(name, maker, func(context.Context, tool.Call, struct{}) (tool.Result, error) { return tool.Text(maker), nil })
}

func settles(result string) task.Phase {
	return func(ctx context.Context, inv *task.Invocation) error {
		_, err := inv.Commit(ctx, func(*session.Tx) (task.Next, error) {
			return task.Settle{Outcome: session.Outcome{Status: session.Completed, Result: json.RawMessage(fmt.Sprintf("%q", result))}}, nil
		})
		return err
	}
}

func kind(name string, phases map[string]task.Phase) task.Definition {
	return task.Definition{Kind: name, Version: 1, Phases: phases}
}

func job(result string) task.Definition {
	return kind("app.job", map[string]task.Phase{"go": settles(result)})
}

func describe(p *registry.Publication) []string {
	list := slices.Collect(p.Extensions())
	for _, t := range p.Tools() {
		list = append(list, "tool "+t.Spec().Name+" by "+t.Spec().Description)
	}
	for _, s := range p.Sections() {
		list = append(list, "section "+s.Key)
	}
	for _, d := range p.Docs() {
		list = append(list, "doc "+d.Kind)
	}
	return list
}

// Promise: P-202
// Promise: P-215
func TestEachChangeIsAPublicationAndOldOnesStayAsTheyWere(t *testing.T) {
	r := registry.New("read")
	var told int
	stop := r.Watch(func() { told++ })
	tools := []tool.Tool{named("look", "one")}
	first := registry.Extension{Name: "one", Tools: tools, Sections: []registry.Section{{Key: "rules", Text: "Be kind."}},
		Docs: []registry.Doc{registry.DocOf(session.Doc[int]{Kind: "app.count", Version: 1, Scope: session.ScopeSession})}}
	empty := r.Current()
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"install", func() error { return r.Install(first) }, []string{"one", "tool look by one", "section rules", "doc app.count"}},
		{"another one goes behind it", func() error {
			return r.Install(registry.Extension{Name: "two", Tools: []tool.Tool{named("find", "two")}})
		},
			[]string{"one", "two", "tool look by one", "tool find by two", "section rules", "doc app.count"}},
		{"a replacement takes its place", func() error {
			return r.Replace(registry.Extension{Name: "one", Tools: []tool.Tool{named("look", "three")}})
		},
			[]string{"one", "two", "tool look by three", "tool find by two"}},
		{"uninstall", func() error { return r.Uninstall("one") }, []string{"two", "tool find by two"}},
		{"what is free can be taken", func() error {
			return r.Install(registry.Extension{Name: "one", Tools: []tool.Tool{named("look", "four")}})
		},
			[]string{"two", "one", "tool find by two", "tool look by four"}},
	}
	var seen []*registry.Publication
	for i, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		tools[0] = named("changed", "behind its back")
		if diff := cmp.Diff(s.want, describe(r.Current())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
		if r.Current().Revision() != i+1 || told != i+1 {
			t.Errorf("%s: revision %d, told %d times, want %d", s.name, r.Current().Revision(), told, i+1)
		}
		seen = append(seen, r.Current())
	}
	for i, p := range seen {
		if diff := cmp.Diff(steps[i].want, describe(p)); diff != "" {
			t.Errorf("publication %d changed later (-want +got):\n%s", i+1, diff)
		}
	}
	if got := describe(empty); got != nil {
		t.Errorf("the empty publication became %v", got)
	}
	stop()
	if err := r.Uninstall("two"); err != nil || told != len(steps) {
		t.Errorf("after stop: %v, told %d times", err, told)
	}
	if _, ok := seen[0].Tool("look"); !ok {
		t.Error("a tool is not found by its name")
	}
	if _, ok := r.Current().Tool("find"); ok {
		t.Error("a tool is found that was uninstalled")
	}
}

// Promise: P-221
// Promise: P-222
func TestWhatCannotBeInstalledChangesNothing(t *testing.T) {
	phases := map[string]task.Phase{"go": settles("x")}
	cases := []struct {
		name string
		ext  registry.Extension
		want error
	}{
		{"an extension of the product", registry.Extension{Name: "workflow.tasks"}, registry.ErrReserved},
		{"an extension of the kernel", registry.Extension{Name: "pi.tasks"}, registry.ErrReserved},
		{"a task of the product", registry.Extension{Name: "x", Tasks: []task.Definition{kind("workflow.generation", phases)}}, registry.ErrReserved},
		{"a task of the kernel", registry.Extension{Name: "x", Tasks: []task.Definition{kind("pi.tool", phases)}}, registry.ErrReserved},
		{"a document of the product", registry.Extension{Name: "x", Docs: []registry.Doc{{Kind: "workflow.live"}}}, registry.ErrReserved},
		{"a section of the product", registry.Extension{Name: "x", Sections: []registry.Section{{Key: "pi.x"}}}, registry.ErrReserved},
		{"a tool that is built in", registry.Extension{Name: "x", Tools: []tool.Tool{named("read", "x")}}, registry.ErrDuplicate},
		{"a tool of another extension", registry.Extension{Name: "x", Tools: []tool.Tool{named("look", "x")}}, registry.ErrDuplicate},
		{"a tool twice", registry.Extension{Name: "x", Tools: []tool.Tool{named("a", "x"), named("a", "x")}}, registry.ErrDuplicate},
		{"a task of another extension", registry.Extension{Name: "x", Tasks: []task.Definition{job("x")}}, registry.ErrDuplicate},
		{"a section of another extension", registry.Extension{Name: "x", Sections: []registry.Section{{Key: "rules"}}}, registry.ErrDuplicate},
		{"a document of another extension", registry.Extension{Name: "x", Docs: []registry.Doc{{Kind: "app.count"}}}, registry.ErrDuplicate},
		{"an extension that is installed", registry.Extension{Name: "first"}, registry.ErrDuplicate},
		{"one without a name", registry.Extension{}, registry.ErrInvalid},
		{"a task without a name", registry.Extension{Name: "x", Tasks: []task.Definition{kind("", phases)}}, registry.ErrInvalid},
		{"a task without phases", registry.Extension{Name: "x", Tasks: []task.Definition{kind("a", nil)}}, registry.ErrInvalid},
		{"a phase without code", registry.Extension{Name: "x", Tasks: []task.Definition{kind("a", map[string]task.Phase{"go": nil})}}, registry.ErrInvalid},
		{"no tool", registry.Extension{Name: "x", Tools: []tool.Tool{nil}}, registry.ErrInvalid},
		{"a section whose key is markup", registry.Extension{Name: "x", Sections: []registry.Section{{Key: "a><b"}}}, registry.ErrInvalid},
	}
	r := registry.New("read", "write")
	if err := r.Install(registry.Extension{Name: "first", Tasks: []task.Definition{job("first")}, Tools: []tool.Tool{named("look", "first")},
		Sections: []registry.Section{{Key: "rules"}}, Docs: []registry.Doc{{Kind: "app.count"}}}); err != nil {
		t.Fatal(err)
	}
	before := r.Current()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := r.Install(c.ext); !errors.Is(err, c.want) {
				t.Errorf("Install = %v, want %v", err, c.want)
			}
			if r.Current() != before {
				t.Error("it was published")
			}
		})
	}
	for what, err := range map[string]error{"Replace": r.Replace(registry.Extension{Name: "x"}), "Uninstall": r.Uninstall("x")} {
		if !errors.Is(err, registry.ErrUnknown) {
			t.Errorf("%s of what is not installed = %v, want ErrUnknown", what, err)
		}
	}
	if err := r.Replace(registry.Extension{Name: "first", Tools: []tool.Tool{named("write", "first")}}); !errors.Is(err, registry.ErrDuplicate) {
		t.Errorf("a replacement with a tool that is built in = %v, want ErrDuplicate", err)
	}
}

// world is a session whose scheduler takes its definitions from a registry.
type world struct {
	*testing.T
	memory *session.Memory
	reg    *registry.Registry
	sess   *session.Session
	sched  *task.Scheduler
}

func newWorld(t *testing.T, reg *registry.Registry) *world {
	w := &world{T: t, memory: session.NewMemory(), reg: reg}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.Helper()
	sess, err := session.Open(w.Context(), w.memory)
	if err != nil {
		w.Fatal(err)
	}
	w.sess, w.sched = sess, task.NewSchedulerFrom(sess, func(err error) { w.Errorf("the scheduler failed: %v", err) }, w.reg)
	if err := w.sched.Resume(w.Context()); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) close() {
	w.sched.Close()
	if err := w.sess.Close(); err != nil {
		w.Error(err)
	}
	w.memory = w.memory.Reopen()
}

func (w *world) add(t session.Task) (id session.TaskID) {
	w.Helper()
	t.Conversation, t.Kind, t.Version, t.Status, t.Phase = session.Root, "app.job", 1, session.TaskPending, "go"
	if _, err := w.sess.Commit(w.Context(), func(tx *session.Tx) error { id = tx.CreateTask(t); return tx.EnsureRoot() }); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return id
}

func (w *world) result(id session.TaskID) string {
	w.Helper()
	t, err := w.memory.Task(id)
	if err != nil {
		w.Fatal(err)
	}
	if t.Outcome == nil {
		return ""
	}
	return string(t.Outcome.Status) + string(t.Outcome.Result)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// Promise: P-216
// Promise: P-217
// Promise: P-218
func TestAPhaseKeepsItsCodeAndTheNextOneTakesWhatIsInstalledThen(t *testing.T) {
	two := func(release <-chan struct{}, maker string) registry.Extension {
		return registry.Extension{Name: "app", Tasks: []task.Definition{kind("app.job", map[string]task.Phase{
			"go": func(ctx context.Context, inv *task.Invocation) error {
				<-release
				_, err := inv.Commit(ctx, func(*session.Tx) (task.Next, error) {
					return task.Continue{Phase: "end", Checkpoint: json.RawMessage(fmt.Sprintf("%q", maker))}, nil
				})
				return err
			},
			"end": func(ctx context.Context, inv *task.Invocation) error {
				var first string
				if err := inv.Decode(&first); err != nil {
					return err
				}
				return settles(first+" then "+maker)(ctx, inv)
			},
		})}}
	}
	cases := []struct {
		name   string
		change func(*world)
		want   string
		block  task.Standing
	}{
		{"nothing changes", func(*world) {}, `completed"old then old"`, nil},
		{"it is replaced", func(w *world) { w.must(w.reg.Replace(two(nil, "new"))) }, `completed"old then new"`, nil},
		{"it is removed", func(w *world) { w.must(w.reg.Uninstall("app")) }, "", task.Blocked{Reason: task.NotInstalled}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				w := newWorld(t, registry.New())
				w.must(w.reg.Install(two(release, "old")))
				id := w.add(session.Task{})
				c.change(w)
				close(release)
				synctest.Wait()
				if got := w.result(id); got != c.want {
					t.Errorf("it ended as %q, want %q", got, c.want)
				}
				if got := w.sched.Standing(id); got != c.block {
					t.Errorf("standing %#v, want %#v", got, c.block)
				}
				stored, err := w.memory.Task(id)
				if err != nil || c.block != nil && (stored.Phase != "end" || stored.Status != session.TaskPending) {
					t.Errorf("the old code did not commit its step: %+v, %v", stored, err)
				}
			})
		})
	}
}

// Promise: P-219
// Promise: P-220
func TestABlockedTaskWakesWhenADefinitionThatFitsIsInstalled(t *testing.T) {
	older, newer := job("old"), job("new")
	older.Version, newer.Version = 0, 2
	broken := newer
	broken.Migrate = func(session.Task) (task.Continue, error) { return task.Continue{}, errors.New("not this one") }
	newer.Migrate = func(session.Task) (task.Continue, error) { return task.Continue{Phase: "go"}, nil }
	for _, reopened := range []bool{false, true} {
		t.Run(fmt.Sprint("reopened ", reopened), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, registry.New())
				id := w.add(session.Task{})
				if reopened {
					w.close()
					w.open()
				}
				w.must(w.reg.Install(registry.Extension{Name: "other"}))
				stands := func(want task.BlockReason) {
					t.Helper()
					if got, is := w.sched.Standing(id).(task.Blocked); !is || got.Reason != want || w.result(id) != "" {
						t.Errorf("standing %#v, result %q, want blocked: %s", w.sched.Standing(id), w.result(id), want)
					}
				}
				stands(task.NotInstalled)
				w.must(w.reg.Install(registry.Extension{Name: "app", Tasks: []task.Definition{older}}))
				stands(task.TooNew)
				w.must(w.reg.Replace(registry.Extension{Name: "app", Tasks: []task.Definition{broken}}))
				stands(task.MigrationFailed)
				w.must(w.reg.Replace(registry.Extension{Name: "app", Tasks: []task.Definition{newer}}))
				if got := w.result(id); got != `completed"new"` {
					t.Errorf("it ended as %q", got)
				}
			})
		})
	}
}

func TestAMigrationThatFailedIsTriedAgainOnlyWithAnotherDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		d := job("x")
		d.Version = 2
		d.Migrate = func(session.Task) (task.Continue, error) { tries++; return task.Continue{}, errors.New("no") }
		w := newWorld(t, registry.New())
		w.must(w.reg.Install(registry.Extension{Name: "app", Tasks: []task.Definition{d}}))
		w.add(session.Task{})
		w.must(w.reg.Install(registry.Extension{Name: "other"}))
		w.must(w.reg.Uninstall("other"))
		if tries != 1 {
			t.Errorf("%d tries, want one", tries)
		}
		w.must(w.reg.Replace(registry.Extension{Name: "app", Tasks: []task.Definition{d}}))
		if tries != 2 {
			t.Errorf("%d tries, want two", tries)
		}
	})
}

func TestSessionsReadWhileARegistryChanges(t *testing.T) {
	r := registry.New()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			name := fmt.Sprint("e", i)
			for range 50 {
				if err := r.Install(registry.Extension{Name: name, Tools: []tool.Tool{named(name, name)}}); err != nil {
					t.Error(err)
				}
				if err := r.Uninstall(name); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 200 {
				p := r.Current()
				if got, want := len(p.Tools()), len(slices.Collect(p.Extensions())); got != want {
					t.Errorf("%d tools of %d extensions", got, want)
				}
				r.Watch(func() {})()
			}
		})
	}
	group.Wait()
	if got := r.Current().Revision(); got != 400 {
		t.Errorf("revision %d after 400 changes", got)
	}
}

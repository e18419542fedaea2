package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// diary notes which visits were executed, as "path#visit(input)".
type diary struct {
	mu   sync.Mutex
	list []string
}

func (d *diary) note(c ctx, in any) {
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, fmt.Sprintf("%s#%d(%s)", c.Run().Path, c.Run().Visit, raw))
}

// take returns what was executed since the last look, sorted.
func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.list)
	all := strings.Join(d.list, " ")
	d.list = nil
	return all
}

// plus is add with a diary; a negative input is its failure.
func (d *diary) plus(name string, n int) workflow.Node[int, int] {
	return fn(name, func(c ctx, in int) (int, error) {
		d.note(c, in)
		if in < 0 {
			return 0, errors.New("negative")
		}
		return in + n, nil
	})
}

// keptIn lists the visits that a run kept, from its log.
func keptIn[Out any](t *testing.T, run *executor.Run[Out]) string {
	t.Helper()
	var list []string
	for e, err := range run.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == runlog.NodeKept {
			list = append(list, fmt.Sprintf("%s#%d", e.Node, e.Visit))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func fork[Out any](t *testing.T, run *executor.Run[Out], at string, options ...executor.ForkOption) *executor.Run[Out] {
	t.Helper()
	f, err := run.Fork(t.Context(), at, options...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Only what computes from something else is executed, whatever the shape of the graph.
//
// Invariant: INV-35
func TestAForkExecutesWhatChangedAndKeepsTheRest(t *testing.T) {
	var d diary
	step := workflow.MustDefine("step", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, workflow.Then(b, in, d.plus("grow", 3)), d.plus("hold", 0))
	})
	sum := func(all []int) (n int) {
		for _, one := range all {
			n += one
		}
		return n
	}
	sorry := fn("sorry", func(c ctx, f workflow.Failure) (int, error) { d.note(c, f.Node); return len(f.Node), nil })
	clean := fn("clean", func(c ctx, f workflow.Failure) (bool, error) { d.note(c, f.Message); return true, nil })
	for _, test := range []struct {
		name    string
		build   func(builder, workflow.Ref[int]) workflow.Ref[int]
		in      int
		first   string // executed by the source
		at      string
		edit    any // nil = none
		runs    string
		kept    string
		want    int
		fails   fault.Kind
		sourceN int // result of the source
	}{
		{
			name: "a chain behind the node runs again, before it nothing", in: 1, first: "a#1(1) b#1(2) c#1(4)", sourceN: 7,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, workflow.Then(b, workflow.Then(b, in, d.plus("a", 1)), d.plus("b", 2)), d.plus("c", 3))
			},
			at: "b", edit: 10, runs: "b#1(10) c#1(12)", kept: "a#1", want: 15,
		},
		{
			name: "the named node runs again with its own input; the same result keeps what is behind", in: 1, first: "a#1(1) b#1(2)", sourceN: 4,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, workflow.Then(b, in, d.plus("a", 1)), d.plus("b", 2))
			},
			at: "a", runs: "a#1(1)", kept: "b#1", want: 4,
		},
		{
			name: "behind the node, too, what gets the same is kept", in: 8, first: "a#1(8) b#1(4) side#1(8)", sourceN: 18,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				half := workflow.Apply(b, workflow.Then(b, in, d.plus("a", 1)), func(n int) int { return n / 2 })
				return workflow.Join2(b, workflow.Then(b, half, d.plus("b", 5)), workflow.Then(b, in, d.plus("side", 1)), func(x, y int) int { return x + y })
			},
			at: "a", edit: 7, runs: "a#1(7)", kept: "b#1 side#1", want: 18,
		},
		{
			name: "the input of the run", in: 4, first: "even#1(4)", sourceN: 4,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Switch(b, in, func(n int) string { return []string{"even", "odd"}[n%2] }, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
					"odd": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, d.plus("odd", 1)) },
					"even": func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
						return workflow.Then(b, in, d.plus("even", 0))
					},
				})
			},
			at: "$input", edit: 5, runs: "odd#1(5)", want: 6,
		},
		{
			name: "a switch gets another value and chooses again", in: 4, first: "even#1(4)", sourceN: 4,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Switch(b, in, func(n int) string { return []string{"even", "odd"}[n%2] }, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
					"odd": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, d.plus("odd", 1)) },
					"even": func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
						return workflow.Then(b, in, d.plus("even", 0))
					},
				})
			},
			at: "$input:switch", edit: 7, runs: "odd#1(4)", want: 5,
		},
		{
			name: "one element of a map", in: 3, first: "each[0]#1(0) each[1]#1(1) each[2]#1(2)", sourceN: 33,
			build: overMap(&d, sum), at: "each[1]", edit: 7, runs: "each[1]#1(7)", kept: "each[0]#1 each[2]#1", want: 39,
		},
		{
			name: "the list of a map", in: 2, first: "each[0]#1(0) each[1]#1(1)", sourceN: 21,
			build: overMap(&d, sum), at: "each", edit: []int{0, 5}, runs: "each[0]#1(0) each[1]#1(5)", want: 25,
		},
		{
			name: "a turn of a loop: the turns before it are kept", in: 1, sourceN: 10,
			first: "step/grow#1(1) step/grow#2(4) step/grow#3(7) step/hold#1(4) step/hold#2(7) step/hold#3(10)",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, in, step, func(n int) bool { return n > 9 }, 5)
			},
			at: "step/grow#2", edit: 5, runs: "step/grow#2(5) step/grow#3(8) step/hold#2(8) step/hold#3(11)", kept: "step/grow#1 step/hold#1", want: 11,
		},
		{
			name: "the newest visit when none is named", in: 1, sourceN: 10,
			first: "step/grow#1(1) step/grow#2(4) step/grow#3(7) step/hold#1(4) step/hold#2(7) step/hold#3(10)",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, in, step, func(n int) bool { return n > 9 }, 5)
			},
			at: "step/hold", edit: 20, runs: "step/hold#3(20)", kept: "step/grow#1 step/grow#2 step/grow#3 step/hold#1 step/hold#2", want: 20,
		},
		{
			name: "a whole loop, from another value", in: 1, sourceN: 11, first: "a#1(1) step/grow#1(2) step/grow#2(5) step/grow#3(8) step/hold#1(5) step/hold#2(8) step/hold#3(11)",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, workflow.Then(b, in, d.plus("a", 1)), step, func(n int) bool { return n > 9 }, 5)
			},
			at: "step", edit: 8, runs: "step/grow#1(8) step/hold#1(11)", kept: "a#1", want: 11,
		},
		{
			name: "a whole loop again, as it was", in: 6, sourceN: 10, first: "a#1(6) step/grow#1(7) step/hold#1(10)",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, workflow.Then(b, in, d.plus("a", 1)), step, func(n int) bool { return n > 9 }, 5)
			},
			at: "step", runs: "step/grow#1(7) step/hold#1(10)", kept: "a#1", want: 10,
		},
		{
			name: "a node of a called workflow", in: 1, first: "step/grow#1(1) step/hold#1(4)", sourceN: 4,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Call(b, in, step) },
			at:    "step/hold", edit: 9, runs: "step/hold#1(9)", kept: "step/grow#1", want: 9,
		},
		{
			name: "a failure that was caught is kept with its handler", in: -4, first: "a#1(4) bad#1(-4) clean#1(\"negative\") sorry#1(\"bad\")", sourceN: 8,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				caught := workflow.Catch(b, workflow.Finally(b, workflow.Then(b, in, d.plus("bad", 1)), clean), sorry)
				other := workflow.Then(b, workflow.Apply(b, in, func(n int) int { return -n }), d.plus("a", 1))
				return workflow.Join2(b, caught, other, func(x, y int) int { return x + y })
			},
			at: "a", edit: 6, runs: "a#1(6)", kept: "bad#1 clean#1 sorry#1", want: 10,
		},
		{
			name: "a node that failed, with an input that it can take", in: -4, first: "bad#1(-4) clean#1(\"negative\") sorry#1(\"bad\")", sourceN: 3,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Catch(b, workflow.Finally(b, workflow.Then(b, in, d.plus("bad", 1)), clean), sorry)
			},
			at: "bad", edit: 4, runs: "bad#1(4) clean#1(\"\")", want: 5,
		},
		{
			name: "a handler gets another failure", in: -4, first: "bad#1(-4) sorry#1(\"bad\")", sourceN: 3,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Catch(b, workflow.Then(b, in, d.plus("bad", 1)), sorry)
			},
			at: "sorry", edit: workflow.Failure{Node: "another", Kind: "k", Message: "m"}, runs: "sorry#1(\"another\")", kept: "bad#1", want: 7,
		},
		{
			name: "a fork can fail where its source went well", in: 1, first: "a#1(1) b#1(2)", sourceN: 4,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, workflow.Then(b, in, d.plus("a", 1)), d.plus("b", 2))
			},
			at: "b", edit: -1, runs: "b#1(-1)", kept: "a#1", fails: executor.NodeFailed,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, h host) {
				d.take()
				e := h(t)
				source := start(t, register(t, e, workflow.MustDefine("forked", 1, test.build)), test.in)
				if got := result(t, source); got != test.sourceN {
					t.Errorf("the source gives %d, want %d", got, test.sourceN)
				}
				if diff := cmp.Diff(test.first, d.take()); diff != "" {
					t.Fatalf("the source: %s", diff)
				}
				before := wholeStory(t, source)
				var options []executor.ForkOption
				if test.edit != nil {
					options = append(options, executor.Edit(test.edit))
				}
				forked := fork(t, source, test.at, options...)
				got, err := forked.Result(t.Context())
				if fault.KindOf(err) != test.fails || got != test.want {
					t.Errorf("got %d, %v, want %d, %s", got, err, test.want, test.fails)
				}
				if diff := cmp.Diff(test.runs, d.take()); diff != "" {
					t.Errorf("executed: %s", diff)
				}
				if diff := cmp.Diff(test.kept, keptIn(t, forked)); diff != "" {
					t.Errorf("kept: %s", diff)
				}
				if diff := cmp.Diff(before, wholeStory(t, source)); diff != "" {
					t.Errorf("the source changed: %s", diff)
				}
			})
		})
	}
}

func overMap(d *diary, sum func([]int) int) func(builder, workflow.Ref[int]) workflow.Ref[int] {
	return func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		list := workflow.Apply(b, in, func(n int) []int { return []int{0, 1, 2}[:n] })
		return workflow.Apply(b, workflow.Map(b, list, d.plus("each", 10)), sum)
	}
}

func TestTheLogOfAForkTellsWhatWasKept(t *testing.T) {
	var d diary
	e := open(t, runlog.NewMemory())
	source := start(t, register(t, e, workflow.MustDefine("told", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, workflow.Then(b, in, d.plus("one", 1)), d.plus("two", 1))
	})), 1, executor.Conversation("chat"), executor.Project("p"), executor.Labels(map[string]string{"a": "b"}))
	result(t, source)
	forked := fork(t, source, "two", executor.Edit(40))
	if got := result(t, forked); got != 41 {
		t.Errorf("got %d", got)
	}
	want := `run.queued
node.kept one#1.1
run.running
node.started two#1.1
node.succeeded two#1.1
run.succeeded`
	if diff := cmp.Diff(want, story(t, forked)); diff != "" {
		t.Error(diff)
	}
	lineage := fmt.Sprintf(`"forkedFrom":{"runId":%q,"at":[{"path":"two","visit":1}],"seq":7}`, source.ID())
	for event := range forked.Events(t.Context(), 0) {
		if event.Kind == runlog.RunQueued && !strings.Contains(string(event.Data), lineage) {
			t.Errorf("the first event says %s", event.Data)
		}
		if event.Kind == runlog.NodeKept && string(event.Data) != fmt.Sprintf(`{"from":%q,"status":"succeeded"}`, source.ID()) {
			t.Errorf("the kept node says %s", event.Data)
		}
	}
	r, err := e.Run(forked.ID())
	if err != nil || r.ForkedFrom.Run != source.ID() || r.Conversation != "chat" || r.Project != "p" || r.Labels["a"] != "b" {
		t.Errorf("%+v %v", r, err)
	}
	nodes, err := e.Nodes(forked.ID())
	if err != nil || len(nodes) != 2 || nodes[0].From != source.ID() || string(nodes[0].Output) != "2" || nodes[1].From != "" {
		t.Errorf("%+v %v", nodes, err)
	}
}

// parking is what parks: a node that asks, waits for a signal and has an effect, between and beside others.
func parking(d *diary, effects *int) *workflow.Workflow[int, int] {
	return workflow.MustDefine("parking", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		asks := workflow.Then(b, workflow.Then(b, in, d.plus("before", 1)), fn("asks", func(c ctx, n int) (int, error) {
			d.note(c, n)
			a, err := workflow.Ask[int, answer](c, "sure", n)
			if err != nil {
				return 0, err
			}
			word, err := workflow.Recv[string](c, "news", 0)
			if err != nil {
				return 0, err
			}
			_, err = workflow.Once(c, "pay", func(context.Context) (bool, error) { *effects++; return true, nil })
			return n + len(word) + len(fmt.Sprint(a.Yes)), err
		}))
		return workflow.Join2(b, workflow.Then(b, asks, d.plus("after", 0)), workflow.Then(b, in, d.plus("side", 0)), func(x, y int) int { return x + 100*y })
	})
}

// What a kept visit was told, received and did is done; a visit that runs again starts with nothing of it.
func TestAVisitThatRunsAgainAsksAgainAndAKeptOneDoesNot(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		effects := 0
		e := h(t)
		flow := register(t, e, parking(&d, &effects))
		settle := func(run *executor.Run[int]) {
			t.Helper()
			until(t, run, runlog.RunWaiting, 1)
			asked, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
			if err != nil || len(asked) != 1 {
				t.Fatalf("%v %v", asked, err)
			}
			if _, err := run.Answer(t.Context(), asked[0].ID, answer{true}, "ann"); err != nil {
				t.Fatal(err)
			}
			if err := run.Signal(t.Context(), "news", "n", "hello"); err != nil {
				t.Fatal(err)
			}
		}
		source := start(t, flow, 1)
		settle(source)
		if got := result(t, source); got != 111 {
			t.Errorf("got %d", got)
		}
		d.take()
		kept := fork(t, source, "side", executor.Edit(2))
		if got := result(t, kept); got != 211 || effects != 1 {
			t.Errorf("got %d after %d effects", got, effects)
		}
		if got := d.take(); got != "side#1(2)" {
			t.Errorf("executed %s", got)
		}
		again := fork(t, source, "asks")
		settle(again)
		if got := result(t, again); got != 111 || effects != 2 {
			t.Errorf("got %d after %d effects", got, effects)
		}
		if got := keptIn(t, again); got != "after#1 before#1 side#1" {
			t.Errorf("kept %s", got)
		}
	})
}

// A source that waits is forked as it stands; neither learns of what happens to the other later.
func TestAParkedRunIsForkedAsItStands(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		effects := 0
		e := h(t)
		source := start(t, register(t, e, parking(&d, &effects)), 1)
		until(t, source, runlog.RunWaiting, 1)
		d.take()
		forked := fork(t, source, "side", executor.Edit(5))
		until(t, forked, runlog.RunWaiting, 1)
		if got := d.take(); got != "asks#1(2) side#1(5)" {
			t.Errorf("executed %s", got)
		}
		requests, err := e.Requests(runlog.RequestQuery{Status: []runlog.RequestStatus{runlog.RequestOpen}})
		if err != nil || len(requests) != 2 || requests[0].ID == requests[1].ID {
			t.Fatalf("%v %v", requests, err)
		}
		// The source goes on to its end while the fork still waits. Then the fork, which another process takes up, is told the
		// same: what the source came to meanwhile is nothing to it.
		for _, q := range requests {
			if q.Run == source.ID() {
				if _, err := source.Answer(t.Context(), q.ID, answer{true}, "ann"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := source.Signal(t.Context(), "news", "n", ""); err != nil {
			t.Fatal(err)
		}
		result(t, source)
		leave(t, e)
		d.take()
		e = h(t)
		register(t, e, parking(&d, &effects))
		forked = attach[int](t, e, forked.ID())
		for _, q := range requests {
			if q.Run == forked.ID() {
				if _, err := forked.Answer(t.Context(), q.ID, answer{true}, "ann"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := forked.Signal(t.Context(), "news", "n", ""); err != nil {
			t.Fatal(err)
		}
		if got := result(t, forked); got != 506 {
			t.Errorf("got %d", got)
		}
		if got := keptIn(t, forked); got != "before#1" {
			t.Errorf("kept %s", got)
		}
		if got := d.take(); !strings.Contains(got, "after#1(6)") {
			t.Errorf("executed %s", got)
		}
	})
}

func TestARerunRepeatsWhatFailed(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		broken := true
		flaky := fn("flaky", func(c ctx, n int) (int, error) {
			d.note(c, n)
			if broken {
				return 0, errors.New("no connection")
			}
			return n, nil
		})
		caught := fn("caught", func(c ctx, _ workflow.Failure) (int, error) { d.note(c, 0); return 7, nil })
		e := h(t)
		source := start(t, register(t, e, workflow.MustDefine("rerun", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			one := workflow.Then(b, in, d.plus("one", 1))
			other := workflow.Catch(b, workflow.Then(b, workflow.Apply(b, one, func(int) int { return -1 }), d.plus("bad", 1)), caught)
			both := workflow.Join2(b, one, other, func(x, y int) int { return x + y })
			return workflow.Then(b, workflow.Then(b, both, flaky), d.plus("last", 1))
		})), 1)
		if _, err := source.Result(t.Context()); !fault.Is(err, executor.NodeFailed) {
			t.Fatal(err)
		}
		d.take()
		again := fork(t, source, "")
		if _, err := again.Result(t.Context()); !fault.Is(err, executor.NodeFailed) {
			t.Fatal(err)
		}
		if got := d.take(); got != "flaky#1(9)" {
			t.Errorf("executed %s", got)
		}
		beside := fork(t, source, "caught") // a failure that ended the source is no result, wherever the fork is
		if _, err := beside.Result(t.Context()); !fault.Is(err, executor.NodeFailed) {
			t.Fatal(err)
		}
		if got := d.take(); got != "caught#1(0) flaky#1(9)" {
			t.Errorf("executed %s", got)
		}
		broken = false
		well := fork(t, again, "") // what the first one kept, the second keeps as well
		if got := result(t, well); got != 10 {
			t.Errorf("got %d", got)
		}
		if got := d.take(); got != "flaky#1(9) last#1(9)" {
			t.Errorf("executed %s", got)
		}
		nodes, err := e.Nodes(well.ID())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Path == "one" && n.From != source.ID() {
				t.Errorf("node one was computed by %s, the record says %s", source.ID(), n.From)
			}
		}
		if r, err := e.Run(again.ID()); err != nil || len(r.ForkedFrom.At) != 1 || r.ForkedFrom.At[0].Path != "flaky" {
			t.Errorf("%+v %v", r.ForkedFrom, err)
		}
		if _, err := well.Fork(t.Context(), ""); !fault.Is(err, fault.InputValidation) {
			t.Errorf("nothing failed: %v", err)
		}
	})
}

// A loop without end and a choice that is no case have no record; a rerun repeats the loop, the choice.
func TestARerunRepeatsALoopOrAChoiceThatFailed(t *testing.T) {
	var d diary
	limit, odd := 100, "neither"
	e := open(t, runlog.NewMemory())
	step := workflow.MustDefine("step", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, d.plus("grow", 3))
	})
	looping := start(t, register(t, e, workflow.MustDefine("looping", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Loop(b, workflow.Then(b, in, d.plus("a", 0)), step, func(n int) bool { return n > limit }, 2)
	})), 0)
	choosing := start(t, register(t, e, workflow.MustDefine("choosing", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Switch(b, workflow.Then(b, in, d.plus("a", 0)), func(int) string { return odd }, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
			"odd": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, d.plus("odd", 1)) },
		})
	})), 1)
	for _, run := range []*executor.Run[int]{looping, choosing} {
		if _, err := run.Result(t.Context()); err == nil {
			t.Fatal("it did not fail")
		}
	}
	limit, odd = 5, "odd"
	d.take()
	if got := result(t, fork(t, looping, "")); got != 6 {
		t.Errorf("got %d", got)
	}
	if got := d.take(); got != "step/grow#1(0) step/grow#2(3)" {
		t.Errorf("executed %s", got)
	}
	if got := result(t, fork(t, choosing, "")); got != 2 {
		t.Errorf("got %d", got)
	}
	if got := d.take(); got != "odd#1(1)" {
		t.Errorf("executed %s", got)
	}
}

// A cancelled run is carried on by a fork: what had ended is kept, what was stopped runs again.
func TestARerunCarriesOnWhatWasCancelled(t *testing.T) {
	var d diary
	e := open(t, runlog.NewMemory())
	source := start(t, register(t, e, workflow.MustDefine("cancelled", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, workflow.Then(b, in, d.plus("one", 1)), fn("wait", func(c ctx, n int) (int, error) {
			d.note(c, n)
			_, err := workflow.Recv[int](c, "go", 0)
			return n, err
		}))
	})), 1)
	until(t, source, runlog.RunWaiting, 1)
	if _, err := source.Fork(t.Context(), ""); !fault.Is(err, fault.InputValidation) {
		t.Errorf("it has not ended: %v", err)
	}
	if err := source.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) {
		t.Fatal(err)
	}
	d.take()
	forked := fork(t, source, "")
	if err := forked.Signal(t.Context(), "go", "s", 1); err != nil {
		t.Fatal(err)
	}
	if got := result(t, forked); got != 2 {
		t.Errorf("got %d", got)
	}
	if got := strings.Fields(d.take()); got[0] != "wait#1(2)" || slices.Contains(got, "one#1(1)") {
		t.Errorf("executed %s", got)
	}
}

func TestAForkOfAForkKeepsItsEditsBeforeAndBesideTheNewPoint(t *testing.T) {
	var d diary
	e := open(t, runlog.NewMemory())
	source := start(t, register(t, e, workflow.MustDefine("edits", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		a := workflow.Then(b, in, d.plus("a", 1))
		c := workflow.Then(b, workflow.Then(b, a, d.plus("b", 10)), d.plus("c", 100))
		return workflow.Join2(b, c, workflow.Then(b, in, d.plus("side", 1000)), func(x, y int) int { return x + y })
	})), 0)
	if got := result(t, source); got != 1111 {
		t.Errorf("got %d", got)
	}
	first := fork(t, source, "b", executor.Edit(5))
	if got := result(t, first); got != 1115 {
		t.Errorf("got %d", got)
	}
	for _, test := range []struct {
		at   string
		edit any
		want int
		runs string
	}{
		{"c", 20, 1120, "c#1(20)"},              // behind the edit
		{"side", 1, 1116, "side#1(1)"},          // beside it
		{"b", nil, 1115, "b#1(5)"},              // again with what it had
		{"a", 2, 1113, "a#1(2) b#1(3) c#1(13)"}, // before it: the edges carry values again
		{"b", 6, 1116, "b#1(6) c#1(16)"},        // in its place
		{"$input", 0, 1111, "b#1(1) c#1(11)"},   // before everything
		{"$input", 1, 2 + 1110 + 1, "a#1(1) b#1(2) c#1(12) side#1(1)"},
	} {
		d.take()
		var options []executor.ForkOption
		if test.edit != nil {
			options = append(options, executor.Edit(test.edit))
		}
		if got := result(t, fork(t, first, test.at, options...)); got != test.want {
			t.Errorf("forked at %s: got %d, want %d", test.at, got, test.want)
		}
		if diff := cmp.Diff(test.runs, d.take()); diff != "" {
			t.Errorf("forked at %s: %s", test.at, diff)
		}
	}
}

// A value that a loop was given may pass through it untouched, and be the result.
func TestTheValueThatALoopWasGivenCanBeTheResult(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		body := workflow.MustDefine("body", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Switch(b, in, func(n int) string { return map[bool]string{true: "small", false: "large"}[n < 10] }, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
				"small": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("ten", 10)) },
				"large": func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in },
			})
		})
		source := start(t, register(t, e, workflow.MustDefine("through", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Loop(b, in, body, func(n int) bool { return n > 9 }, 5)
		})), 3)
		if got := result(t, source); got != 13 {
			t.Errorf("got %d", got)
		}
		forked := fork(t, source, "body", executor.Edit(77))
		if got := result(t, forked); got != 77 {
			t.Errorf("got %d", got)
		}
		if got := result(t, fork(t, forked, "body")); got != 77 {
			t.Errorf("its fork: got %d", got)
		}
	})
}

func TestTheSameRequestIDIsTheSameFork(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		source := start(t, register(t, e, workflow.MustDefine("once", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Then(b, in, add("one", 1))
		})), 1, executor.RequestID("start"))
		result(t, source)
		first := fork(t, source, "one", executor.Edit(5), executor.ForkRequestID("f"))
		for range 2 {
			if again := fork(t, source, "one", executor.Edit(5), executor.ForkRequestID("f")); again.ID() != first.ID() {
				t.Errorf("%s and %s", first.ID(), again.ID())
			}
			result(t, first)
		}
		for _, options := range [][]executor.ForkOption{
			{executor.Edit(6), executor.ForkRequestID("f")},
			{executor.ForkRequestID("f")},
			{executor.Edit(5), executor.ForkRequestID("start")},
		} {
			if _, err := source.Fork(t.Context(), "one", options...); !fault.Is(err, fault.Conflict) {
				t.Errorf("another payload: %v", err)
			}
		}
		if a, b := fork(t, source, "one"), fork(t, source, "one"); a.ID() == b.ID() {
			t.Error("without an id each fork is a new one")
		}
	})
}

func TestAForkThatCannotBeIsRefusedAndSaysWhy(t *testing.T) {
	type request struct {
		Item string `json:"item" jsonschema:"minLength=1"`
	}
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("refused", 1, func(b builder, in workflow.Ref[request]) workflow.Ref[int] {
		list := workflow.Apply(b, in, func(r request) []request { return []request{r, r} })
		each := workflow.Map(b, list, fn("each", func(_ ctx, r request) (int, error) { return len(r.Item), nil }))
		never := workflow.Catch(b, workflow.Apply(b, each, func(n []int) int { return n[0] }), fn("never", func(ctx, workflow.Failure) (int, error) { return 0, nil }))
		return workflow.Join2(b, never, each, func(int, []int) int { return 1 })
	}))
	source := start(t, h, request{"x"})
	result(t, source)
	for _, test := range []struct {
		at, input string
		kind      fault.Kind
		says      string
	}{
		{"eahc", "", fault.NotFound, `has no node "eahc"; the nearest is "each"`},
		{"each[0", "", fault.NotFound, `the nearest is "each"`},
		{"never[0]", "", fault.NotFound, `the nearest is "never"`},
		{"each[2]", "", fault.NotFound, `"each[2]" of run`},
		{"each#2", "", fault.NotFound, `has no visit 2, the newest is 1`},
		{"each#x", "", fault.InputValidation, `number of a visit from 1`},
		{"each#0", "", fault.InputValidation, `number of a visit from 1`},
		{"never", "", fault.NotFound, `has not begun`},
		{"$input", "", fault.InputValidation, `want the new input`},
		{"$input", `{"item":""}`, fault.InputValidation, `/item`},
		{"$input:apply", `{"item":"y","colour":"red"}`, fault.InputValidation, `/colour`},
		{"each", `[{"item":"y"},{"item":7}]`, fault.InputValidation, `/1/item`},
		{"each[1]", `{"item":7}`, fault.InputValidation, `input of each[1]: /item`},
		{"each[1]", `{`, fault.InputValidation, `input of each[1]`},
		{"never:join", `1`, fault.InputValidation, `joins 2 values`},
		{"", `{"item":"y"}`, fault.InputValidation, `name the node`},
	} {
		_, err := e.Fork(t.Context(), source.ID(), test.at, executor.ForkOptions{Input: json.RawMessage(test.input)})
		if !fault.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("at %q with %s: %v", test.at, test.input, err)
		}
	}
	if _, err := e.Fork(t.Context(), "run_none", "each", executor.ForkOptions{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no such run: %v", err)
	}
	if _, err := e.Fork(t.Context(), source.ID(), "each", executor.ForkOptions{Version: 9}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no such version: %v", err)
	}
	if _, err := source.Fork(t.Context(), "each", executor.Edit(func() {})); !fault.Is(err, fault.InputValidation) {
		t.Errorf("no JSON: %v", err)
	}
	if runs, err := e.Runs(runlog.RunQuery{}); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// After a repair the same run is repeated under the next version: nodes of another version run again, the others are kept.
func TestAForkUnderAnotherVersionKeepsTheNodesThatDidNotChange(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		at := func(version, node int) *workflow.Workflow[int, int] {
			return workflow.MustDefine("repaired", version, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				two := fn("two", func(c ctx, n int) (int, error) { d.note(c, n); return n * node, nil }, func(i *workflow.NodeInfo) { i.Version = node })
				return workflow.Then(b, workflow.Then(b, workflow.Then(b, in, d.plus("one", 1)), two), d.plus("three", 0))
			})
		}
		e := h(t)
		source := start(t, register(t, e, at(1, 1)), 1)
		result(t, source)
		leave(t, e)
		d.take()
		e = h(t)
		register(t, e, at(2, 5)) // the first version is gone: the newest takes its place
		source = attach[int](t, e, source.ID())
		forked := fork(t, source, "three")
		if got := result(t, forked); got != 10 {
			t.Errorf("got %d", got)
		}
		if got := d.take(); got != "three#1(10) two#1(2)" {
			t.Errorf("executed %s", got)
		}
		if r, err := e.Run(forked.ID()); err != nil || r.Version != 2 {
			t.Errorf("version %d, %v", r.Version, err)
		}
	})
}

// However much a fork keeps, no commit is long.
func TestAForkThatKeepsVeryMuchCommitsInParts(t *testing.T) {
	const elements = 1000
	most := 0
	e := open(t, &hooked{Store: runlog.NewMemory(), after: func(b *runlog.Batch) { most = max(most, len(b.Nodes)) }})
	source := start(t, register(t, e, workflow.MustDefine("wide", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		list := workflow.Apply(b, in, func(n int) []int { return make([]int, n) })
		return workflow.Apply(b, workflow.Map(b, list, add("each", 1)), func(all []int) int { return len(all) })
	})), elements)
	result(t, source)
	most = 0
	forked := fork(t, source, "each[7]")
	if got := result(t, forked); got != elements || most > 300 {
		t.Errorf("got %d; a commit has %d records", got, most)
	}
	if n := strings.Count(wholeStory(t, forked), "node.kept"); n != elements-1 {
		t.Errorf("%d are kept", n)
	}
}

// A source at work is forked from what is committed: what it is at begins anew in the fork, and goes on in the source.
func TestARunAtWorkIsForkedFromWhatIsCommitted(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		entered, let := make(chan struct{}, 2), make(chan struct{})
		e := h(t)
		source := start(t, register(t, e, workflow.MustDefine("working", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			held := workflow.Then(b, workflow.Then(b, in, d.plus("one", 1)), fn("hold", func(c ctx, n int) (int, error) {
				d.note(c, n)
				entered <- struct{}{}
				<-let
				return n, nil
			}))
			return workflow.Join2(b, held, workflow.Then(b, in, d.plus("side", 0)), func(x, y int) int { return x + 10*y })
		})), 1)
		<-entered
		until(t, source, runlog.NodeSucceeded, 2) // one and side
		d.take()
		forked := fork(t, source, "side", executor.Edit(4))
		<-entered
		close(let)
		if a, b := result(t, source), result(t, forked); a != 12 || b != 42 {
			t.Errorf("the source gives %d, the fork %d", a, b)
		}
		if got := d.take(); got != "hold#1(2) side#1(4)" {
			t.Errorf("executed %s", got)
		}
		if got := keptIn(t, forked); got != "one#1" {
			t.Errorf("kept %s", got)
		}
	})
}

// A fork runs the node that it names, also when another run has left its result for everybody.
func TestANamedNodeTakesNothingFromOtherRuns(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		e := h(t)
		source := start(t, register(t, e, workflow.MustDefine("shared", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Then(b, workflow.Then(b, in, d.plus("one", 1)), d.plus("two", 1), workflow.Cache("two", 0))
		})), 1)
		result(t, source)
		d.take()
		for _, test := range []struct{ at, runs string }{{"two", "two#1(2)"}, {"one", "one#1(1)"}} {
			if got := result(t, fork(t, source, test.at)); got != 3 {
				t.Errorf("got %d", got)
			}
			if got := d.take(); got != test.runs {
				t.Errorf("forked at %s: executed %s", test.at, got)
			}
		}
		if got := result(t, fork(t, source, "one", executor.Edit(1))); got != 3 {
			t.Errorf("got %d", got)
		}
	})
}

// A failure that is a result, of an element in a partial map, is kept like a value.
func TestAForkKeepsTheFailuresOfAPartialMap(t *testing.T) {
	var d diary
	e := open(t, runlog.NewMemory())
	source := start(t, register(t, e, workflow.MustDefine("partly", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[int] {
		each := workflow.MapPartial(b, in, d.plus("each", 1))
		n := workflow.Apply(b, each, func(all []workflow.Element[int]) int { return len(all) })
		return workflow.Then(b, n, d.plus("count", 0))
	})), []int{1, -1, 2})
	result(t, source)
	d.take()
	forked := fork(t, source, "count")
	result(t, forked)
	if got := d.take(); got != "count#1(3)" {
		t.Errorf("executed %s", got)
	}
	if got := keptIn(t, forked); got != "each[0]#1 each[1]#1 each[2]#1" {
		t.Errorf("kept %s", got)
	}
	result(t, fork(t, source, "each[1]"))
	if got := d.take(); got != "each[1]#1(-1)" {
		t.Errorf("executed %s", got)
	}
}

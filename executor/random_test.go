package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// expr is a random piece of a workflow from a number to a number.
type expr struct {
	op   string
	name string
	n    int
	kids []*expr
}

// The pieces. A leaf is one node; its behaviour follows from its input, whatever attempt it is.
var (
	leaves   = []string{"add", "fail", "flaky", "late", "ask", "nap", "cached", "stream", "resuming", "apply"}
	branches = []string{"then", "join", "beside", "map", "partial", "switch", "loop", "call", "catch", "finally"}
)

// drawExpr draws a piece with at most depth levels below it. Names are unique.
func drawExpr(t *rapid.T, depth int, names *int) *expr {
	*names++
	e := &expr{name: fmt.Sprint("x", *names), n: rapid.IntRange(0, 5).Draw(t, "n")}
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		e.op = rapid.SampledFrom(leaves).Draw(t, "op")
		return e
	}
	e.op = rapid.SampledFrom(branches).Draw(t, "op")
	kids := map[string]int{"then": 2, "join": 2, "beside": 2, "switch": 2, "loop": 1, "call": 1, "catch": 1, "finally": 1}[e.op]
	for range kids {
		e.kids = append(e.kids, drawExpr(t, depth-1, names))
	}
	return e
}

// modulus keeps numbers small.
const modulus = 1000

// outcome is what a piece should come to.
type outcome struct {
	value int
	fails bool
}

// scope is a run or a turn of a loop, as the specification sees it. A failure that nobody takes dooms it.
type scope struct{ doomed bool }

// run is what a piece comes to in a scope of its own.
func (e *expr) run(in int) outcome {
	var s scope
	end := e.eval(outcome{value: in}, &s)
	return outcome{end.value, end.fails || s.doomed}.clean()
}

// eval is the specification: what the piece computes, without an engine. A failure goes along the edges until something
// catches it; a switch, a loop and a map that it comes to do not begin.
func (e *expr) eval(in outcome, s *scope) outcome {
	switch e.op {
	case "beside":
		s.doomed = e.kids[1].eval(in, s).fails || s.doomed
		return e.kids[0].eval(in, s)
	case "then":
		return e.kids[1].eval(e.kids[0].eval(in, s), s)
	case "join":
		a, b := e.kids[0].eval(in, s), e.kids[1].eval(in, s)
		return outcome{(a.value + 3*b.value) % modulus, a.fails || b.fails}.clean()
	case "call":
		return e.kids[0].eval(in, s)
	case "catch":
		if end := e.kids[0].eval(in, s); !end.fails {
			return end
		}
		return outcome{value: e.n}
	case "finally":
		end := e.kids[0].eval(in, s)
		return outcome{end.value, end.fails || e.n == 0}.clean()
	}
	if in.fails {
		return in
	}
	switch e.op {
	case "fail":
		return outcome{fails: in.value%2 == e.n%2}
	case "stream", "resuming":
		return outcome{value: in.value%4 + e.n}
	case "map", "partial":
		sum, failed := 0, false
		for i := range in.value % 5 {
			v, err := e.element(in.value + i)
			sum += v
			if err != nil {
				sum, failed = sum+7, true
			}
		}
		return outcome{sum % modulus, failed && e.op == "map"}.clean()
	case "switch":
		return e.kids[in.value%2].eval(in, s)
	case "loop":
		for range 3 {
			if in = e.kids[0].run(in.value); in.fails || in.value%3 == 0 {
				return in
			}
		}
		return outcome{fails: true}
	default:
		return outcome{value: (in.value + e.n) % modulus}
	}
}

func (o outcome) clean() outcome {
	if o.fails {
		o.value = 0
	}
	return o
}

// element is what a map does with one element.
func (e *expr) element(in int) (int, error) {
	if e.n > 0 && in%(e.n+1) == 0 {
		return 0, errors.New("bad element")
	}
	return 2 * in % modulus, nil
}

// node is the leaf as a node.
func (e *expr) node() workflow.Node[int, int] {
	plus := func(in int) (int, error) { return (in + e.n) % modulus, nil }
	switch e.op {
	case "fail":
		return fn(e.name, func(_ ctx, in int) (int, error) {
			if in%2 == e.n%2 {
				return 0, errors.New("a failing node")
			}
			return 0, nil
		})
	case "flaky":
		return fn(e.name, func(c ctx, in int) (int, error) {
			if c.Run().Attempt == 1 {
				return 0, errors.New("once")
			}
			return plus(in)
		}, workflow.Retry(2, time.Second))
	case "late":
		return fn(e.name, func(c ctx, in int) (int, error) {
			if c.Run().Attempt == 1 {
				return 0, take(c, time.Hour)
			}
			return plus(in)
		}, workflow.Retry(2, time.Second), workflow.Timeout(time.Minute, 0))
	case "ask":
		return fn(e.name, func(c ctx, in int) (int, error) {
			a, err := workflow.Ask[int, answer](c, "sure", in)
			if err != nil || !a.Yes {
				return 0, err
			}
			return plus(in)
		})
	case "nap":
		return fn(e.name, func(c ctx, in int) (int, error) {
			if err := workflow.Sleep(c, "nap", time.Minute); err != nil {
				return 0, err
			}
			return plus(in)
		})
	case "cached":
		return fn(e.name, func(_ ctx, in int) (int, error) { return plus(in) }, workflow.Cache(fmt.Sprint("plus", e.n), time.Hour))
	default:
		return fn(e.name, func(_ ctx, in int) (int, error) { return plus(in) })
	}
}

func (e *expr) stream() workflow.StreamNode[int, int, int] {
	var options []workflow.NodeOption
	if e.op == "resuming" {
		options = append(options, workflow.ResumeAfterCrash())
	}
	return workflow.StreamFunc(e.name, func(c ctx, in int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			next := 0
			for range workflow.Committed[int](c) {
				next++
			}
			for ; next < in%4; next++ {
				if !yield(next, nil) || take(c, time.Second) != nil {
					return
				}
			}
		}
	}, func(_ ctx, _ int, chunks iter.Seq[int]) (int, error) {
		n := e.n
		for range chunks {
			n++
		}
		return n, nil
	}, options...)
}

// build adds the piece to a workflow.
func (e *expr) build(b builder, in workflow.Ref[int]) workflow.Ref[int] {
	sub := func() *workflow.Workflow[int, int] { return workflow.MustDefine(e.name, 1, e.kids[0].build) }
	parallel := workflow.Parallel(e.n % 3)
	list := func() workflow.Ref[[]int] {
		return workflow.Apply(b, in, func(n int) (all []int) {
			for i := range n % 5 {
				all = append(all, n+i)
			}
			return all
		})
	}
	each := fn(e.name, func(c ctx, in int) (int, error) {
		if err := take(c, time.Duration(in%3)*time.Second); err != nil {
			return 0, err
		}
		return e.element(in)
	})
	switch e.op {
	case "stream", "resuming":
		return workflow.ThenStream(b, in, e.stream()).From()
	case "apply":
		return workflow.Apply(b, in, func(n int) int { return (n + e.n) % modulus })
	case "then":
		return e.kids[1].build(b, e.kids[0].build(b, in))
	case "join":
		return workflow.Join2(b, e.kids[0].build(b, in), e.kids[1].build(b, in), func(x, y int) int { return (x + 3*y) % modulus })
	case "beside":
		e.kids[1].build(b, in)
		return e.kids[0].build(b, in)
	case "map":
		return workflow.Apply(b, workflow.Map(b, list(), each, parallel), func(all []int) (sum int) {
			for _, n := range all {
				sum += n
			}
			return sum % modulus
		})
	case "partial":
		return workflow.Apply(b, workflow.MapPartial(b, list(), each, parallel), func(all []workflow.Element[int]) (sum int) {
			for _, one := range all {
				sum += one.Value
				if one.Failure != nil {
					sum += 7
				}
			}
			return sum % modulus
		})
	case "switch":
		return workflow.Switch(b, in, func(n int) string { return []string{"even", "odd"}[n%2] },
			map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{"even": e.kids[0].build, "odd": e.kids[1].build})
	case "loop":
		return workflow.Loop(b, in, sub(), func(n int) bool { return n%3 == 0 }, 3)
	case "call":
		return workflow.Call(b, in, sub())
	case "catch":
		return workflow.Catch(b, e.kids[0].build(b, in), fn(e.name, func(ctx, workflow.Failure) (int, error) { return e.n, nil }))
	case "finally":
		return workflow.Finally(b, e.kids[0].build(b, in), fn(e.name, func(ctx, workflow.Failure) (bool, error) {
			if e.n == 0 {
				return false, errors.New("a failing cleanup")
			}
			return true, nil
		}))
	default:
		return workflow.Then(b, in, e.node())
	}
}

// mortal is a store whose process dies at a commit, which is written or not. A dead owner writes nothing more.
type mortal struct {
	*runlog.Memory
	step    time.Duration // how often somebody looks
	written bool

	mu   sync.Mutex
	left int // commits until then; 0 = never
	dead bool
}

// born lets it live for some commits, 0 = for ever.
func (s *mortal) born(commits int, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead, s.left, s.written = false, commits, written
}

func (s *mortal) died() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

var errKilled = errors.New("killed")

func (s *mortal) Commit(b *runlog.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errKilled
	}
	if s.left--; s.left == 0 {
		s.dead = true
		if s.written {
			if err := s.Memory.Commit(b); err != nil {
				return err
			}
		}
		return errKilled
	}
	return s.Memory.Commit(b)
}

// live runs the workflow until it has ended or the process has died. People answer yes.
func live(t *rapid.T, s *mortal, flow *workflow.Workflow[int, int], in int) (runlog.Run, bool) {
	e, err := executor.New(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil && !s.died() {
			t.Errorf("close: %v", err)
		}
	}()
	h, err := executor.Register(e, flow)
	if err != nil {
		t.Fatal(err)
	}
	run, err := h.Start(context.Background(), in, executor.RequestID("r"))
	for day := 0; err == nil && day < 1000; day++ {
		synctest.Wait()
		if s.died() {
			break
		}
		record, err := e.Run(run.ID())
		if err != nil {
			t.Fatal(err)
		}
		if record.Status.Terminal() {
			return record, true
		}
		open, err := e.Requests(runlog.RequestQuery{Status: []runlog.RequestStatus{runlog.RequestOpen}})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range open {
			if _, err := e.Answer(context.Background(), q.ID, json.RawMessage(`{"yes":true}`), "ann"); err != nil && !s.died() && !fault.Is(err, fault.Conflict) {
				t.Fatal(err) // a conflict: the answer before this one has ended who asked
			}
		}
		<-time.After(s.step)
	}
	if !s.died() {
		t.Fatalf("the run has not ended: %v", err)
	}
	return runlog.Run{}, false
}

// Random workflows of every construct come to what they would without an engine, on a process that dies at random commits,
// which are written or not.
// Invariant: INV-14, INV-31
func TestARandomWorkflowComesToWhatItShouldWhateverIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noDeadline := struct{ testing.TB }{t} // a bubble has a clock of its own
		rapid.Check(noDeadline, func(t *rapid.T) {
			names := 0
			e := drawExpr(t, 4, &names)
			in := rapid.IntRange(0, 20).Draw(t, "in")
			flow, err := workflow.Define("random", 1, e.build)
			if err != nil {
				t.Fatal(err)
			}
			s := &mortal{Memory: runlog.NewMemory(), step: time.Duration(rapid.IntRange(1, 90).Draw(t, "step")) * time.Second}
			for range rapid.IntRange(0, 6).Draw(t, "lives") {
				s.born(rapid.IntRange(1, 12).Draw(t, "commits"), rapid.Bool().Draw(t, "written"))
				live(t, s, flow, in)
			}
			s.born(0, false)
			run, _ := live(t, s, flow, in)
			want := e.run(in)
			switch {
			case want.fails != (run.Status == runlog.Failed) || !want.fails && run.Status != runlog.Succeeded:
				t.Fatalf("the run is %s, %+v; want %+v", run.Status, run.Failure, want)
			case !want.fails && string(run.Output) != fmt.Sprint(want.value):
				t.Fatalf("the run came to %s, want %d", run.Output, want.value)
			case want.fails && run.Failure.Kind != executor.NodeFailed && run.Failure.Kind != executor.LoopExhausted:
				t.Fatalf("the run failed with %+v", run.Failure)
			}
			checkEnds(t, s.Memory, run.ID)
		})
	})
}

// checkEnds checks that every visit has ended once, with what it says, and that the log is dense.
func checkEnds(t *rapid.T, s runlog.Store, id runlog.RunID) {
	if _, err := s.Acquire(context.Background()); err != nil { // reopens it
		t.Fatal(err)
	}
	nodes, err := s.Nodes(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if !n.Status.Terminal() || n.Status == runlog.NodeIsDone && n.Output == nil {
			t.Errorf("%v is %s in the end, with %s", n.NodeKey, n.Status, n.Output)
		}
		if n.Failure != nil && n.Status == runlog.NodeHasFailed && n.Failure.Kind == fault.ExecutionAborted {
			t.Errorf("%v failed with %+v", n.NodeKey, n.Failure)
		}
	}
	events, err := s.Events(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[runlog.NodeKey]bool{}
	for i, event := range events {
		if event.Seq != runlog.Seq(i+1) {
			t.Errorf("event %d has number %d", i+1, event.Seq)
		}
		key := runlog.NodeKey{Path: event.Node, Visit: event.Visit}
		if ended[key] && event.Kind != runlog.RequestWithdrawn {
			t.Errorf("%s of %v behind its end", event.Kind, key)
		}
		switch event.Kind {
		case runlog.NodeSucceeded, runlog.NodeFailed, runlog.NodeAborted:
			ended[key] = true
		}
	}
}

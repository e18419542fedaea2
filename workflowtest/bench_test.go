package workflowtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	ctx     = workflow.NodeContext
	builder = *workflow.Builder
)

// node is a node of a function.
func node[In, Out any](name string, fn func(ctx, In) (Out, error), options ...workflow.NodeOption) workflow.Node[In, Out] {
	return workflow.Func(name, fn, options...)
}

// add is a node that adds n.
func add(name string, n int) workflow.Node[int, int] {
	return node(name, func(_ ctx, in int) (int, error) { return in + n, nil })
}

// chain is a workflow of one node after the other.
func chain(name string, nodes ...workflow.Node[int, int]) *workflow.Workflow[int, int] {
	return workflow.MustDefine(name, 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		for _, n := range nodes {
			in = workflow.Then(b, in, n)
		}
		return in
	})
}

// onEachStore runs fn in a bubble of its own on memory and on SQLite.
func onEachStore(t *testing.T, fn func(t *testing.T, options ...workflowtest.Option)) {
	t.Helper()
	for name, options := range map[string][]workflowtest.Option{"memory": nil, "sqlite": {workflowtest.SQLite()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fn(t, options...) })
		})
	}
}

// listener is a test that notes what fails in it.
type listener struct {
	testing.TB
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (l *listener) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, text)
}

func (l *listener) Helper()                           {}
func (l *listener) Errorf(format string, args ...any) { l.note(fmt.Sprintf(format, args...)) }
func (l *listener) Cleanup(fn func())                 { l.cleanups = append(l.cleanups, fn) }

func (l *listener) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}

func (l *listener) Fatal(args ...any) { l.Fatalf("%s", fmt.Sprint(args...)) }

func (l *listener) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.said) > 0
}

// failing runs a test to its end, cleanup included, and returns what it says is wrong.
func failing(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	l := &listener{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(l)
	}()
	<-done
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
	return strings.Join(l.said, "\n")
}

// wantSaid checks that a text holds each part.
func wantSaid(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
}

package reader_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/reader"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// waiting is a workflow that waits for a signal.
func waiting() *workflow.Workflow[int, int] {
	return workflow.MustDefine("waiting", 1, func(b *workflow.Builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, workflow.Func("wait", func(ctx workflow.NodeContext, n int) (int, error) {
			more, err := workflow.Recv[int](ctx, "go", 0)
			return n + more, err
		}))
	})
}

func open(t *testing.T, path string) *reader.Reader {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A reader beside the owner follows a run to its end, sees each event once and in order, from any number.
func TestAReaderFollowsARunThatAnotherOwns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	e, err := executor.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := executor.Register(e, waiting())
	if err != nil {
		t.Fatal(err)
	}
	run, err := h.Start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r, last := open(t, path), runlog.Seq(0)
	for event, err := range r.Events(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Seq != last+1 {
			t.Errorf("event %d follows %d", event.Seq, last)
		}
		if last = event.Seq; event.Kind == runlog.RunWaiting {
			if err := run.Signal(t.Context(), "go", "s", 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := r.Run(run.ID())
	if err != nil || got.Status != runlog.Succeeded || string(got.Output) != "3" || got.LastSeq != last {
		t.Errorf("%+v after event %d, %v", got, last, err)
	}
	n := 0
	for event, err := range r.Events(t.Context(), run.ID(), last-2) {
		if n++; err != nil || event.Seq != last-2+runlog.Seq(n) {
			t.Errorf("event %d, %v", event.Seq, err)
		}
	}
	for range r.Events(t.Context(), run.ID(), last) {
		n++
	}
	if n != 2 {
		t.Errorf("%d events behind the last but two", n)
	}
	if g, err := r.Graph(&got); err != nil || g.Nodes[0].Path != "wait" {
		t.Errorf("%+v %v", g, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if nodes, err := r.Nodes(run.ID()); err != nil || len(nodes) != 1 {
		t.Errorf("when nobody owns the file: %v %v", nodes, err)
	}
}

func TestAReaderStopsWithItsContextAndWhenTheRunGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	e, err := executor.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := executor.Register(e, waiting())
	if err != nil {
		t.Fatal(err)
	}
	run, err := h.Start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stopped error
	for event, err := range r.Events(ctx, run.ID(), 0) {
		if stopped = err; event.Kind == runlog.RunWaiting {
			cancel()
		}
	}
	if !fault.Is(stopped, fault.ExecutionAborted) {
		t.Errorf("stopped: %v", stopped)
	}
	if err := run.Cancel(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err == nil {
		t.Fatal("it was cancelled")
	}
	for event := range r.Events(t.Context(), run.ID(), 0) {
		if event.Seq == 1 {
			if n, err := e.Prune(t.Context(), executor.Retention{}, nil); err != nil || n != 1 {
				t.Fatalf("%d %v", n, err)
			}
		}
	}
	for _, err := range r.Events(t.Context(), run.ID(), 0) {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("a run that is gone: %v", err)
		}
	}
}

func TestAReaderOpensAFileOfTheFirstSchema(t *testing.T) {
	text, err := os.ReadFile("../../store/runstore/testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	if runs, err := r.Runs(runlog.RunQuery{}); err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if requests, err := r.Requests(runlog.RequestQuery{}); err != nil || len(requests) != 1 {
		t.Errorf("%d requests, %v", len(requests), err)
	}
	if usage, err := r.Usage("run_done"); err != nil || len(usage) != 1 {
		t.Errorf("%d records of usage, %v", len(usage), err)
	}
	if _, err := reader.Open(filepath.Join(t.TempDir(), "none.db")); !fault.Is(err, fault.NotFound) {
		t.Errorf("no file: %v", err)
	}
}

package runlog_test

import (
	"testing"

	"github.com/workflowd/workflowd/executor/executortest"
	"github.com/workflowd/workflowd/executor/runlog"
)

func open(*testing.T) runlog.Store { return runlog.NewMemory() }

func reopen(t *testing.T, s runlog.Store) runlog.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s // Acquire reopens it
}

func TestMemoryIsAStore(t *testing.T) {
	executortest.Run(t, executortest.Harness{Open: open, Reopen: reopen})
}

func TestMemoryIsAStoreWhenReopenedAfterEveryCommit(t *testing.T) {
	executortest.Run(t, executortest.Harness{Open: open, Reopen: reopen, Every: true})
}

package runstore_test

import (
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/executortest"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
)

func open(t *testing.T) runlog.Store {
	t.Helper()
	return at(t, filepath.Join(t.TempDir(), "runs.db"))
}

func at(t *testing.T, path string) runlog.Store {
	t.Helper()
	s, err := runstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func reopen(t *testing.T, s runlog.Store) runlog.Store {
	t.Helper()
	path := s.(*runstore.Store).Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return at(t, path)
}

func TestAFileIsAStore(t *testing.T) {
	executortest.Run(t, executortest.Harness{Open: open, Reopen: reopen, Tx: true})
}

func TestAFileIsAStoreWhenReopenedAfterEveryCommit(t *testing.T) {
	executortest.Run(t, executortest.Harness{Open: open, Reopen: reopen, Every: true, Tx: true})
}

func TestAFileHasOneOwner(t *testing.T) {
	s := open(t)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := runstore.Open(s.(*runstore.Store).Path()); !fault.Is(err, fault.SessionBusy) {
		t.Errorf("a second owner: %v", err)
	}
}

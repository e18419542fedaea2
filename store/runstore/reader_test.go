package runstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
)

func TestAReaderSeesWhatTheOwnerCommitsAndHoldsUpNobody(t *testing.T) {
	s := open(t).(*runstore.Store)
	state, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := runstore.OpenReader(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run("r1"); !errors.Is(err, runlog.ErrNotFound) {
		t.Errorf("before there is a run: %v", err)
	}
	b := &runlog.Batch{Run: "r1", Epoch: state.Epoch, Create: &runlog.Run{ID: "r1", Workflow: "flow", RequestID: "r", Status: runlog.Queued},
		Events: []runlog.Event{{Kind: runlog.RunQueued}}}
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	if events, err := r.Events("r1", 0, 0); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if run, err := r.Run("r1"); err != nil || run.Workflow != "flow" {
		t.Errorf("when nobody owns the file: %+v %v", run, err)
	}
	if again, err := runstore.Open(r.Path()); err != nil {
		t.Errorf("a reader keeps an owner out: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run("r1"); !errors.Is(err, runlog.ErrClosed) {
		t.Errorf("a closed reader: %v", err)
	}
}

func TestAReaderSaysWhichFilesItCannotRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := runstore.OpenReader(filepath.Join(dir, "none.db")); !fault.Is(err, fault.NotFound) {
		t.Errorf("no file: %v", err)
	}
	text, err := os.ReadFile(oldFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "old.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runstore.OpenReader(path); !errors.Is(err, runstore.ErrOlder) || !fault.Is(err, fault.Storage) {
		t.Errorf("an older schema: %v", err)
	}
	if err := at(t, path).Close(); err != nil { // which an owner brings up to date
		t.Fatal(err)
	}
	r, err := runstore.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := r.Runs(runlog.RunQuery{}); err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

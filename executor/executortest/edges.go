package executortest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/workflowd/workflowd/executor/runlog"
)

func parallel(t *testing.T, b *bench) {
	const runs, commits = 8, 20
	ids := make([]runlog.RunID, runs)
	for i := range ids {
		ids[i] = b.begin(fmt.Sprint("r", i))
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			for n := range commits {
				batch := &runlog.Batch{Run: id, Epoch: b.epoch, Events: events(runlog.NodeChunk, fmt.Sprintf("%q", string(id)))}
				if err := b.Commit(batch); err != nil || batch.Events[0].Seq != runlog.Seq(n+2) {
					t.Errorf("commit %d of %s: number %d, %v", n, id, batch.Events[0].Seq, err)
				}
				if n%5 == 0 { // a member that fails alone
					if err := b.Commit(&runlog.Batch{Run: "nobody", Epoch: b.epoch}); !errors.Is(err, runlog.ErrNotFound) {
						t.Errorf("got %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		list, err := b.Events(id, 1, 0)
		if err != nil || len(list) != commits {
			t.Fatalf("%d events, %v", len(list), err)
		}
		for _, e := range list {
			if string(e.Data) != fmt.Sprintf("%q", string(id)) {
				t.Errorf("%s holds %s", id, e.Data)
			}
		}
	}
}

func missing(t *testing.T, b *bench) {
	_, err := b.Run("none")
	errs := []error{err}
	note := func(_ any, err error) { errs = append(errs, err) }
	note(b.RunByRequest("flow", "none"))
	note(b.Request("none"))
	note(b.Nodes("none"))
	note(b.Events("none", 0, 0))
	note(b.Chunks("none", runlog.NodeKey{}, 0, 0))
	note(b.Effects("none", runlog.NodeKey{}))
	note(b.Signals("none"))
	note(b.HasSignal("none", "s"))
	note(b.Usage("none"))
	note(b.Cached("none", 0, ""))
	none := newRun("r1")
	none.ForkedFrom = &runlog.Fork{Run: "none"}
	note(nil, b.commit(&runlog.Batch{Run: none.ID, Create: none}))
	if gone, err := b.Remove(b.epoch, []runlog.RunID{"none"}); err != nil || len(gone) != 0 {
		t.Errorf("removed %v, %v", gone, err)
	}
	if list, err := b.Ended(runlog.EndedQuery{Workflow: "none"}); err != nil || len(list) != 0 {
		t.Errorf("ended %v, %v", list, err)
	}
	for i, err := range errs {
		if !errors.Is(err, runlog.ErrNotFound) {
			t.Errorf("question %d: %v", i, err)
		}
	}
}

func closed(t *testing.T, b *bench) {
	id := b.begin("r1")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Run(id)
	_, remove := b.Remove(b.epoch, []runlog.RunID{id})
	_, list := b.Ended(runlog.EndedQuery{Workflow: "flow"})
	for _, err := range []error{err, remove, list, b.Commit(&runlog.Batch{Run: id, Epoch: b.epoch}), b.PutDefinition(runlog.Definition{Name: "x"}, false)} {
		if !errors.Is(err, runlog.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

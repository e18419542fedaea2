//go:build unix

package crash

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/outputitems"
)

// folder is a reader of a run's log, as a client in another program would write it: it keeps what it has seen, takes back
// what is retracted, and folds the rest.
type folder struct{ seen []runlog.Event }

func (f *folder) take(t *testing.T, e runlog.Event) {
	t.Helper()
	if n := len(f.seen); n > 0 && f.seen[n-1].Seq+1 != e.Seq || n == 0 && e.Seq != 1 {
		t.Fatalf("the reader got event %d behind %d others", e.Seq, n)
	}
	f.seen = append(f.seen, e)
}

func fold(t *testing.T, events []runlog.Event) *folder {
	t.Helper()
	f := &folder{}
	for _, e := range events {
		f.take(t, e)
	}
	return f
}

func (f *folder) items(t *testing.T) []outputitems.Item {
	t.Helper()
	var counted []runlog.Event
	for _, e := range f.seen {
		switch {
		case e.Kind == runlog.NodeRetracted:
			counted = slices.DeleteFunc(counted, func(old runlog.Event) bool {
				return old.Node == e.Node && old.Visit == e.Visit && old.Seq >= e.Retract
			})
		case strings.HasPrefix(string(e.Kind), "item."):
			counted = append(counted, e)
		}
	}
	acc := &outputitems.Accumulator{}
	for _, e := range counted {
		c, err := outputitems.DecodeChunk(e.Data)
		must(t, err)
		_, err = acc.Apply(c)
		must(t, err)
	}
	return acc.Items()
}

// mostAtOnce is how many events a reader gets at most before it loses its connection.
const mostAtOnce = 40

// checkReconnects plays a client of an engine that comes back by its last number again and again.
func (tr *trial) checkReconnects(t *testing.T, end state) {
	t.Helper()
	dir, _ := copyData(t, tr.s.dataDir(tr.p))
	engine, err := executor.Open(t.Context(), "sqlite:"+filepath.Join(dir, runsFile))
	must(t, err)
	defer func() { must(t, engine.Close()) }()
	for _, r := range end.runs {
		random := rand.New(rand.NewPCG(uint64(len(r.events)), 0))
		reader := &folder{}
		for len(reader.seen) < len(r.events) {
			before, left := len(reader.seen), 1+random.IntN(mostAtOnce)
			for e, err := range engine.Events(t.Context(), r.ID, executor.Seq(len(reader.seen))) {
				must(t, err)
				reader.take(t, e)
				if left--; left == 0 {
					break
				}
			}
			if len(reader.seen) == before {
				t.Fatalf("run %s: nothing comes behind event %d of %d", r.ID, before, len(r.events))
			}
		}
		if got, want := encoded(t, reader.items(t)), encoded(t, r.payload(t).Items); got != want {
			t.Errorf("run %s: a reader that reconnected has other items:\n%s\noutput:\n%s", r.ID, got, want)
		}
	}
}

// checkReader plays a client that reads the events which each process prints, and reconnects by its last number when the
// process is gone: it never saw an event that was not kept, and ends up with the items of the output.
func (tr *trial) checkReader(t *testing.T, end state) {
	t.Helper()
	kept := make([][]string, len(end.runs))
	readers := make([]folder, len(end.runs))
	for i, r := range end.runs {
		for _, e := range r.events {
			raw, err := json.Marshal(e)
			must(t, err)
			kept[i] = append(kept[i], string(raw))
		}
	}
	for i, e := range tr.ends {
		run := -1 // a demo that was killed when it had finished is followed by another run
		for line := range strings.Lines(e.out) {
			whole, complete := strings.CutSuffix(line, "\n")
			if !complete { // the kill cut it
				continue
			}
			var event runlog.Event
			if err := json.Unmarshal([]byte(whole), &event); err != nil {
				t.Fatalf("process %d printed %q: %v", i+1, whole, err)
			}
			if run < 0 {
				run = slices.IndexFunc(kept, func(lines []string) bool { return lines[0] == whole })
			}
			if n := int(event.Seq); run < 0 || n < 1 || n > len(kept[run]) || kept[run][n-1] != whole {
				t.Fatalf("process %d showed an event that the log does not have: %s", i+1, whole)
			}
			if int(event.Seq) > len(readers[run].seen) {
				readers[run].take(t, event)
			}
		}
	}
	last := len(end.runs) - 1
	if len(readers[last].seen) != len(kept[last]) {
		t.Errorf("the reader saw %d events of %d", len(readers[last].seen), len(kept[last]))
	}
	if got, want := encoded(t, readers[last].items(t)), encoded(t, end.runs[last].payload(t).Items); got != want {
		t.Errorf("a reader that reconnected has other items:\n%s\noutput:\n%s", got, want)
	}
}

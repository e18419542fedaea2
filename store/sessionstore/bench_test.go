package sessionstore

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/workflowd/workflowd/agentcore/session"
)

// bare is the floor: one prepared insert of one row per commit, in a file of the same page size, nothing around it.
func bare(b *testing.B, mode string) func() {
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + filepath.Join(b.TempDir(), "bare.db") + "?_mutex=no&_synchronous=" + mode)
	if err != nil {
		b.Fatal(err)
	}
	raw := c.(*sqlite3.SQLiteConn)
	if _, err := raw.Exec(fmt.Sprintf("PRAGMA page_size=%d; PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)", pageSize), nil); err != nil {
		b.Fatal(err)
	}
	stmt, err := raw.Prepare(`INSERT INTO t(body) VALUES(?)`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := stmt.Close(); err != nil {
			b.Error(err)
		}
		if err := raw.Close(); err != nil {
			b.Error(err)
		}
	})
	return func() {
		if _, err := stmt.(*sqlite3.SQLiteStmt).Exec([]driver.Value{body}); err != nil {
			b.Fatal(err)
		}
	}
}

var body = append(append([]byte{'"'}, bytes.Repeat([]byte("r"), 1022)...), '"')

// BenchmarkCommit runs a commit of a session and the bare one in turn, so that both see the same machine, and reports the
// ratio of their medians.
func BenchmarkCommit(b *testing.B) {
	type shape struct {
		name  string
		batch func(*owner) session.Batch
	}
	live := session.DocumentWrite{ID: 2, Address: session.Address{Scope: session.ScopeConversation, Owner: 1, Kind: "pi.live"}}
	shapes := []shape{
		{"entry of 1 KiB", func(o *owner) session.Batch {
			return session.Batch{Entries: []session.Entry{{ID: session.EntryID(o.id()), Conversation: session.Root, Kind: "pi.tool-result", Model: body}}}
		}},
		{"entry, task and document", func(o *owner) session.Batch {
			w := live
			w.Base = []byte(`{"text":""}`)
			return session.Batch{
				Entries:   []session.Entry{{ID: session.EntryID(o.id()), Conversation: session.Root, Kind: "pi.tool-result", Model: body}},
				Tasks:     []session.Task{{ID: session.TaskID(o.id()), Conversation: session.Root, Kind: "pi.tool", Status: session.TaskTerminal}},
				Documents: []session.DocumentWrite{w}}
		}},
		{"delta of 100 bytes", func(o *owner) session.Batch {
			w := live
			w.Delta = fmt.Appendf(nil, `[{"op":"append","path":"/text","value":%q}]`, body[1:61])
			return session.Batch{Documents: []session.DocumentWrite{w}}
		}},
	}
	for _, mode := range []struct {
		name string
		d    session.Durability
	}{{"NORMAL", session.Fast}, {"FULL", session.Synced}} {
		for _, s := range shapes {
			b.Run(mode.name+"/"+s.name, func(b *testing.B) {
				floor := bare(b, mode.name)
				o := acquired(b, filepath.Join(b.TempDir(), "x.db"))
				o.root(b)
				first := live
				first.ID, first.Create, first.Base = session.DocumentID(o.id()), true, []byte(`{"text":""}`)
				o.must(b, session.Batch{Documents: []session.DocumentWrite{first}})
				var ours, theirs []time.Duration
				for b.Loop() {
					start := time.Now()
					floor()
					middle := time.Now()
					batch := s.batch(o)
					batch.Durability = mode.d
					o.must(b, batch)
					ours, theirs = append(ours, time.Since(middle)), append(theirs, middle.Sub(start))
				}
				slices.Sort(ours)
				slices.Sort(theirs)
				b.ReportMetric(float64(ours[len(ours)/2].Nanoseconds()), "ns/commit")
				b.ReportMetric(float64(theirs[len(theirs)/2].Nanoseconds()), "ns/bare")
				b.ReportMetric(float64(ours[len(ours)/2])/float64(theirs[len(theirs)/2]), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkOpen is a new session file, and an old one opened and closed.
func BenchmarkOpen(b *testing.B) {
	dir, n := b.TempDir(), 0
	b.Run("new, one commit", func(b *testing.B) {
		for b.Loop() {
			n++
			o := acquired(b, filepath.Join(dir, fmt.Sprint(n)))
			b.StopTimer()
			if err := o.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("old, with close", func(b *testing.B) {
		for b.Loop() {
			o := acquired(b, filepath.Join(dir, "old"))
			if err := o.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReopen is what a session of 10,000 entries costs to open and to read its live tasks and its tail.
func BenchmarkReopen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	o := acquired(b, path)
	o.root(b)
	for range 100 {
		var batch session.Batch
		for range 100 {
			batch.Entries = append(batch.Entries, session.Entry{ID: session.EntryID(o.id()), Conversation: session.Root, Kind: "pi.tool-result", Model: body})
			batch.Tasks = append(batch.Tasks, session.Task{ID: session.TaskID(o.id()), Conversation: session.Root, Kind: "pi.tool", Status: session.TaskTerminal, Input: body})
		}
		o.must(b, batch)
	}
	if err := o.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o := acquired(b, path)
		if tasks, err := o.Tasks(session.TaskQuery{Live: true}); err != nil || len(tasks) != 0 {
			b.Fatal(len(tasks), err)
		}
		if entries, err := o.Entries(session.EntryQuery{Conversation: session.Root, Limit: 50}); err != nil || len(entries) != 50 {
			b.Fatal(len(entries), err)
		}
		if err := o.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

package main

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sessionstore"
)

// The shape of a commit: one entry with a body of 1 KiB, which is about what a tool round stores.
const (
	bodyBytes    = 1 << 10
	commitsATurn = 20 // of each session, between two looks at the clock
)

var body = fmt.Appendf(nil, `{"text":%q}`, bytes.Repeat([]byte("x"), bodyBytes-len(`{"text":""}`)))

// BenchmarkCommits compares the commits of session files with those of bare SQLite files that have the same pragmas, page
// size and bytes, each file with its own goroutine, turn by turn in one run. Goal: a ratio of at most 1.3.
func BenchmarkCommits(b *testing.B) {
	for _, mode := range []struct {
		name string
		d    session.Durability
	}{{"NORMAL", session.Fast}, {"FULL", session.Synced}} {
		for _, files := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", mode.name, files), func(b *testing.B) {
				var ours, bare []func() error
				for i := range files {
					bare = append(bare, bareCommit(b, filepath.Join(b.TempDir(), fmt.Sprintf("bare%d.db", i)), mode.name))
					ours = append(ours, sessionCommit(b, filepath.Join(b.TempDir(), fmt.Sprintf("ours%d.db", i)), mode.d))
				}
				var mine, floor []time.Duration
				for b.Loop() {
					floor = append(floor, turn(b, bare))
					mine = append(mine, turn(b, ours))
				}
				slices.Sort(mine)
				slices.Sort(floor)
				perSecond := func(d []time.Duration) float64 { return float64(files*commitsATurn) / d[len(d)/2].Seconds() }
				b.ReportMetric(perSecond(mine), "commits/s")
				b.ReportMetric(perSecond(floor), "bare/s")
				b.ReportMetric(perSecond(floor)/perSecond(mine), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// turn lets every file do its commits at the same time and returns how long all took.
func turn(b *testing.B, commits []func() error) time.Duration {
	var wg sync.WaitGroup
	begun := time.Now()
	for _, commit := range commits {
		wg.Go(func() {
			for range commitsATurn {
				if err := commit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

func bareCommit(b *testing.B, path, synchronous string) func() error {
	opened, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_mutex=no&_synchronous=" + synchronous)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = opened.Close() })
	conn := opened.(*sqlite3.SQLiteConn)
	if _, err := conn.Exec("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; CREATE TABLE entries(id INTEGER PRIMARY KEY, model BLOB) STRICT", nil); err != nil {
		b.Fatal(err)
	}
	stmt, err := conn.Prepare("INSERT INTO entries(model) VALUES(?)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	args := []driver.NamedValue{{Ordinal: 1, Value: body}}
	return func() error {
		_, err := stmt.(*sqlite3.SQLiteStmt).ExecContext(b.Context(), args)
		return err
	}
}

func sessionCommit(b *testing.B, path string, d session.Durability) func() error {
	store, err := sessionstore.Open(b.Context(), path, sessionstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	state, err := store.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	id, seq := state.NextID, state.Seq
	commit := func(batch session.Batch) error {
		seq, id = seq+1, id+1
		batch.Epoch, batch.Seq, batch.NextID, batch.Durability = state.Epoch, seq, id, d
		return store.Commit(&batch)
	}
	if err := commit(session.Batch{Conversations: []session.Conversation{{ID: session.Root}}}); err != nil {
		b.Fatal(err)
	}
	return func() error {
		return commit(session.Batch{Entries: []session.Entry{{ID: session.EntryID(id), Conversation: session.Root, Kind: "app.note", Model: body}}})
	}
}

//go:build linux

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

const (
	longEntries = 10_000
	tail        = 50
	// readsMost is what opening a session and reading its tail may read: the schema, the live tasks, a few inner pages and
	// the pages of the tail. A scan of longEntries entries reads at least one page each. Reads of a page.
	readsMost = 100
	rounds    = 5 // of a figure; its median is told
)

// long makes a session of many entries, as turns leave them, and ends it with a head when that is asked for.
func long(t *testing.T, dir string, entries int, head bool) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%d-%t.db", entries, head))
	s := reopen(t, path)
	words := strings.Repeat("Tea is ready. ", 20)
	for range entries / 100 {
		commit(t, s, func(tx *session.Tx) {
			for range 50 {
				say(t, tx, "workflow.user", llm.TextMessage(llm.RoleUser, words))
				m := llm.TextMessage(llm.RoleAssistant, words)
				m.Stop = llm.StopEnd
				say(t, tx, "workflow.assistant", m)
				tx.CreateTask(session.Task{Conversation: session.Root, Kind: "workflow.generation", Version: 1, Status: session.TaskTerminal,
					Outcome: &session.Outcome{Status: session.Completed}})
			}
		})
	}
	if head {
		commit(t, s, func(tx *session.Tx) {
			e := session.Entry{ID: tx.ReserveEntry(), Conversation: session.Root, Kind: "workflow.reset", Data: json.RawMessage(`{"sub":0}`)}
			e.Head = e.ID
			tx.Append(e)
		})
	}
	must(t, s.Close())
	return path
}

func reopen(t *testing.T, path string) *session.Session {
	t.Helper()
	store, err := sessionstore.Open(t.Context(), path, sessionstore.Options{})
	must(t, err)
	s, err := session.Open(t.Context(), store)
	must(t, err)
	return s
}

func commit(t *testing.T, s *session.Session, fn func(*session.Tx)) {
	t.Helper()
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		err := tx.EnsureRoot()
		fn(tx)
		return err
	})
	must(t, err)
}

func say(t *testing.T, tx *session.Tx, kind string, m llm.Message) {
	t.Helper()
	raw, err := json.Marshal(m)
	must(t, err)
	tx.Append(session.Entry{Conversation: session.Root, Kind: kind, Model: raw, Data: json.RawMessage(`{"sub":0}`)})
}

// cost runs act a few times and returns the median of how long it took, and how much the first time read.
func cost(act func()) (took time.Duration, reads int) {
	var all []time.Duration
	for i := range rounds {
		before, begun := disktest.Reads(), time.Now()
		act()
		all = append(all, time.Since(begun))
		if i == 0 {
			reads = disktest.Reads() - before
		}
	}
	slices.Sort(all)
	return all[rounds/2], reads
}

func TestALongSessionIsOpenedAndItsTailReadWithoutAScan(t *testing.T) {
	dir := t.TempDir()
	disktest.Watch(t, dir)
	path := long(t, dir, longEntries, false)
	took, reads := cost(func() {
		s := reopen(t, path)
		must(t, s.View(t.Context(), func(tx *session.Tx) error {
			list, err := tx.Entries(session.EntryQuery{Conversation: session.Root, Limit: tail})
			if err == nil && len(list) != tail {
				err = fmt.Errorf("%d entries, want %d", len(list), tail)
			}
			return err
		}))
		must(t, s.Close())
	})
	t.Logf("a session of %d entries: opened, tail of %d read and closed in %v, %d reads", longEntries, tail, took, reads)
	if reads > readsMost {
		t.Errorf("%d reads, want at most %d", reads, readsMost)
	}
}

func TestAnAgentOpensALongSessionWithoutReadingIt(t *testing.T) {
	dir := t.TempDir()
	disktest.Watch(t, dir)
	for _, head := range []bool{false, true} {
		path := long(t, dir, longEntries, head)
		var a *agentcore.Agent
		opened, reads := cost(func() {
			if a != nil {
				must(t, a.Close())
			}
			var err error
			a, err = agentcore.New(t.Context(), agentcore.Options{LLM: quick{}, Model: "m", Workdir: dir, DatabasePath: path})
			must(t, err)
		})
		if reads > readsMost {
			t.Errorf("opening (head at the end: %t) reads %d times, want at most %d", head, reads, readsMost)
		}
		before, begun := disktest.Reads(), time.Now()
		turn(t, a)
		first, reads := time.Since(begun), disktest.Reads()-before
		if head && reads > readsMost {
			t.Errorf("the first turn behind a head reads %d times, want at most %d", reads, readsMost)
		}
		begun = time.Now()
		turn(t, a)
		t.Logf("an agent of %d entries (head at the end: %t): opened in %v; first turn %v (%d reads), second %v", longEntries, head, opened, first, reads, time.Since(begun))
		must(t, a.Close())
	}
}

func turn(t *testing.T, a *agentcore.Agent) {
	t.Helper()
	for _, err := range a.Run(context.Background(), agentcore.Input{Prompt: "Hello"}, nil) {
		must(t, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

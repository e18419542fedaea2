package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// agent is a document of a conversation with a past; job one of a task.
var (
	agent = session.Doc[counts]{Kind: "test.agent", Version: 1, Scope: session.ScopeConversation, Rewindable: true, BaseEvery: 3, Fork: session.ForkAsOf}
	job   = session.Doc[counts]{Kind: "test.job", Version: 1, Scope: session.ScopeTask, BaseEvery: 3}
)

func TestADefinitionThatContradictsItselfIsRefusedAtEveryUse(t *testing.T) {
	for _, test := range []struct {
		name string
		doc  session.Doc[counts]
		fits bool
	}{
		{"a conversation's document may have a past and follow a fork's entry", agent, true},
		{"a conversation's document without a past may be copied as it is", session.Doc[counts]{Scope: session.ScopeConversation, Fork: session.ForkCurrent}, true},
		{"a task's document starts anew", job, true},
		{"a fork as of an entry needs a past", session.Doc[counts]{Scope: session.ScopeConversation, Fork: session.ForkAsOf}, false},
		{"a session's document has no past", session.Doc[counts]{Scope: session.ScopeSession, Rewindable: true}, false},
		{"a task's document has no past", session.Doc[counts]{Scope: session.ScopeTask, Rewindable: true}, false},
		{"a session's document is in no fork", session.Doc[counts]{Scope: session.ScopeSession, Fork: session.ForkCurrent}, false},
		{"a task's document is in no fork", session.Doc[counts]{Scope: session.ScopeTask, Fork: session.ForkCurrent}, false},
		{"a policy nobody knows", session.Doc[counts]{Scope: session.ScopeConversation, Fork: 7}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, session.NewMemory())
			a := test.doc.At(1, "")
			uses := map[string]func(*session.Tx) error{
				"Check": func(*session.Tx) error { return test.doc.Check() },
				"Get":   func(tx *session.Tx) error { _, err := test.doc.Get(tx, a); return err },
				"Patch": func(tx *session.Tx) error {
					if err := test.doc.Patch(tx, a, grow("x")); !errors.Is(err, session.ErrNotFound) {
						return err
					}
					return nil
				},
				"Retire": func(tx *session.Tx) error { return test.doc.Retire(tx, a) },
			}
			for name, use := range uses {
				err := s.View(t.Context(), use)
				if test.fits && err != nil || !test.fits && !errors.Is(err, session.ErrDefinition) {
					t.Errorf("%s = %v", name, err)
				}
			}
		})
	}
	s := open(t, session.NewMemory())
	view(t, s, func(tx *session.Tx) error {
		for _, a := range []session.Address{counter.At(0, ""), job.At(1, "")} {
			if _, err := agent.Get(tx, a); !errors.Is(err, session.ErrDefinition) {
				t.Errorf("another definition's address %+v: %v", a, err)
			}
		}
		return nil
	})
}

func TestARewindableDocumentIsReadAsAnyCommitLeftIt(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	at := agent.At(1, "")
	want := map[session.Seq]counts{commit(t, s, note("before")): {}}
	var text strings.Builder
	want[commit(t, s, func(tx *session.Tx) error { return agent.Put(tx, at, counts{N: 1}) })] = counts{N: 1}
	for range 9 {
		text.WriteString("x")
		want[commit(t, s, func(tx *session.Tx) error { return agent.Patch(tx, at, grow("x")) })] = counts{1, text.String()}
	}
	want[commit(t, s, func(tx *session.Tx) error { return agent.Retire(tx, at) })] = counts{}
	want[commit(t, s, func(tx *session.Tx) error { return agent.Put(tx, at, counts{N: 2}) })] = counts{N: 2}
	for name, s := range map[string]*session.Session{"by its writer": s, "after reopening": open(t, memory.Reopen())} {
		view(t, s, func(tx *session.Tx) error {
			for seq, want := range want {
				got, err := agent.GetAt(tx, at, seq)
				if err != nil || got != want {
					t.Errorf("%s, at commit %d: %+v, %v, want %+v", name, seq, got, err, want)
				}
			}
			for _, seq := range []session.Seq{-1, 0, session.Seq(len(want)) + 1} {
				if _, err := agent.GetAt(tx, at, seq); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("%s, at commit %d, which was never made: %v", name, seq, err)
				}
			}
			if _, err := counter.GetAt(tx, here, 1); !errors.Is(err, session.ErrNotRewindable) {
				t.Errorf("a document without a past: %v", err)
			}
			return nil
		})
	}
}

// migrating is the third version of test.counter: its number counts from the other end.
func migrating(calls *int, fail error) session.Doc[counts] {
	d := counter
	d.Version = 3
	d.Migrate = func(value json.RawMessage, from int) (json.RawMessage, error) {
		*calls++
		if fail != nil {
			return nil, fail
		}
		var v counts
		if err := json.Unmarshal(value, &v); err != nil {
			return nil, err
		}
		v.N = -v.N
		v.Text = fmt.Sprintf("%s from %d ", v.Text, from)
		return json.Marshal(v)
	}
	return d
}

func TestAnOldDocumentIsMigratedWhenSomebodyWritesIt(t *testing.T) {
	var writes []string
	memory := session.NewMemory()
	f := recorded(&writes)
	f.Storage = memory
	s := open(t, f)
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{5, "old"}) })
	calls := 0
	now := migrating(&calls, nil)
	migrated := counts{-5, "old from 2 "}
	for range 2 {
		view(t, s, func(tx *session.Tx) error {
			if got, err := now.Get(tx, here); err != nil || got != migrated {
				t.Errorf("a reader gets %+v, %v", got, err)
			}
			return nil
		})
	}
	if doc, err := memory.Document(here, 0); err != nil || doc.Version != 2 {
		t.Fatalf("after reading, stored is %+v, %v", doc, err)
	}
	commit(t, s, func(tx *session.Tx) error {
		if got, err := now.Get(tx, here); err != nil || got != migrated {
			t.Errorf("a writer gets %+v, %v", got, err)
		}
		return now.Patch(tx, here, grow("new"))
	})
	if doc, err := memory.Document(here, 0); err != nil || doc.Version != 3 || doc.Deltas != 0 {
		t.Fatalf("after writing, stored is %+v, %v", doc, err)
	}
	before := calls
	commit(t, s, func(tx *session.Tx) error { return now.Patch(tx, here, grow("!")) })
	view(t, s, func(tx *session.Tx) error {
		if got, err := now.Get(tx, here); err != nil || got != (counts{-5, "old from 2 new!"}) {
			t.Errorf("at the end there is %+v, %v", got, err)
		}
		if _, err := counter.Get(tx, here); err == nil {
			t.Error("the older definition reads the newer document")
		} else if v, ok := errors.AsType[*session.VersionError](err); !ok || v.Stored != 3 || v.Known != 2 || v.Kind != counter.Kind {
			t.Errorf("the older definition gets %v", err)
		}
		return nil
	})
	if calls != before {
		t.Errorf("migrated %d times more once it was stored", calls-before)
	}
	if diff := cmp.Diff([]string{"1 create", "2 base", "3 delta"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAFailedMigrationLeavesTheDocumentAsItWas(t *testing.T) {
	s := open(t, session.NewMemory())
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{5, "old"}) })
	calls := 0
	broken := migrating(&calls, errTest)
	noJSON := counter
	noJSON.Version, noJSON.Migrate = 3, func(json.RawMessage, int) (json.RawMessage, error) { return []byte(`{"n":`), nil }
	for _, d := range []session.Doc[counts]{broken, noJSON} {
		for name, use := range map[string]func(*session.Tx) error{
			"Get":   func(tx *session.Tx) error { _, err := d.Get(tx, here); return err },
			"Patch": func(tx *session.Tx) error { return d.Patch(tx, here, grow("x")) },
		} {
			_, err := s.Commit(t.Context(), use)
			m, ok := errors.AsType[*session.MigrationError](err)
			if !ok || m.Kind != counter.Kind || m.From != 2 || m.To != 3 {
				t.Errorf("%s = %v, want a *MigrationError", name, err)
			}
		}
	}
	if _, err := s.Commit(t.Context(), func(tx *session.Tx) error { _, err := broken.Get(tx, here); return err }); !errors.Is(err, errTest) {
		t.Errorf("the cause is lost: %v", err)
	}
	if got := read(t, s, here); got != (counts{5, "old"}) {
		t.Errorf("the document is %+v", got)
	}
	commit(t, s, func(tx *session.Tx) error { return broken.Put(tx, here, counts{N: 6}) }) // a whole value needs no old one
}

// Invariant: INV-44
func TestTheDocumentsOfATaskRetireInTheCommitThatEndsIt(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	var ended, other session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		task := session.Task{Conversation: session.Root, Kind: "app.job", Status: session.TaskPending}
		ended, other = tx.CreateTask(task), tx.CreateTask(task)
		return errors.Join(job.Put(tx, job.At(int64(ended), "a"), counts{N: 1}), job.Put(tx, job.At(int64(other), "a"), counts{N: 2}))
	})
	end := func(s *session.Session, id session.TaskID, more func(*session.Tx) error) {
		t.Helper()
		commit(t, s, func(tx *session.Tx) error {
			task, ok := tx.LiveTask(id)
			if !ok {
				t.Fatalf("task %d is not live", id)
			}
			task.Status, task.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Completed}
			tx.PutTask(task)
			return more(tx)
		})
	}
	stored := func(id session.TaskID) int {
		t.Helper()
		docs, err := memory.Documents(session.ScopeTask, int64(id), 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(docs)
	}
	end(s, ended, func(tx *session.Tx) error { // changed, retired by hand, and born in the same commit
		a, b, c := job.At(int64(ended), "a"), job.At(int64(ended), "b"), job.At(int64(ended), "c")
		return errors.Join(job.Patch(tx, a, grow("x")), job.Put(tx, b, counts{N: 3}), job.Put(tx, c, counts{N: 4}), job.Retire(tx, c))
	})
	if n := stored(ended); n != 0 {
		t.Errorf("%d documents outlive their task", n)
	}
	if n := stored(other); n != 1 {
		t.Errorf("the other task has %d documents, want its own", n)
	}
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error { return job.Put(tx, job.At(int64(ended), "a"), counts{}) })
	if !errors.Is(err, session.ErrTerminal) {
		t.Errorf("a new document of an ended task: %v", err)
	}
	_, err = s.Commit(t.Context(), func(tx *session.Tx) error { return job.Put(tx, job.At(98, "a"), counts{}) })
	if !errors.Is(err, session.ErrTerminal) {
		t.Errorf("a new document of no task: %v", err)
	}
	memory = memory.Reopen() // the next owner knows nothing of the documents
	s = open(t, memory)
	end(s, other, func(*session.Tx) error { return nil })
	if n := stored(other); n != 0 {
		t.Errorf("%d documents outlive a task that ended after a reopen", n)
	}
}

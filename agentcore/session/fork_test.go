package session_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
)

// board is copied into a fork as it is when the fork is made.
var board = session.Doc[counts]{Kind: "test.board", Version: 1, Scope: session.ScopeConversation, BaseEvery: 3, Fork: session.ForkCurrent}

// inbox stays behind.
var inbox = session.Doc[counts]{Kind: "test.inbox", Version: 1, Scope: session.ScopeConversation}

// say appends an entry and gives the conversation's agent that text.
func say(t *testing.T, s *session.Session, c session.ConversationID, text string) session.EntryID {
	t.Helper()
	var id session.EntryID
	commit(t, s, func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		id = tx.Append(session.Entry{Conversation: c, Kind: text})
		return agent.Put(tx, agent.At(int64(c), ""), counts{Text: text})
	})
	return id
}

func fork(t *testing.T, s *session.Session, c session.ConversationID, at session.EntryID, rules ...session.ForkRule) session.ConversationID {
	t.Helper()
	var id session.ConversationID
	commit(t, s, func(tx *session.Tx) (err error) {
		id, err = tx.Fork(c, at, rules...)
		return err
	})
	return id
}

// kinds returns the kinds of what a conversation shows, oldest first.
func kinds(t *testing.T, s *session.Session, c session.ConversationID) []string {
	t.Helper()
	var list []string
	view(t, s, func(tx *session.Tx) error {
		entries, err := tx.Entries(session.EntryQuery{Conversation: c})
		for _, e := range entries {
			list = append([]string{e.Kind}, list...)
		}
		return err
	})
	return list
}

func wantKinds(t *testing.T, s *session.Session, c session.ConversationID, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(t, s, c)); diff != "" {
		t.Errorf("conversation %d shows (-want +got):\n%s", c, diff)
	}
}

func wantDoc(t *testing.T, s *session.Session, d session.Doc[counts], c session.ConversationID, key string, want counts) {
	t.Helper()
	view(t, s, func(tx *session.Tx) error {
		got, err := d.Get(tx, d.At(int64(c), key))
		if err != nil || got != want {
			t.Errorf("%s of conversation %d is %+v, %v, want %+v", d.Kind, c, got, err, want)
		}
		return nil
	})
}

// Promise: P-131
func TestAForkShowsItsSourceUpToTheEntryAndGoesOnByItself(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	r1 := say(t, s, session.Root, "r1")
	r2 := say(t, s, session.Root, "r2")
	child := fork(t, s, session.Root, r2)
	say(t, s, session.Root, "r3")
	c1 := say(t, s, child, "c1")
	say(t, s, child, "c2")
	grandchild := fork(t, s, child, c1)
	early := fork(t, s, child, r1) // in the part that the child inherited
	say(t, s, grandchild, "g1")
	say(t, s, early, "e1")
	for _, s := range []*session.Session{s, open(t, memory.Reopen())} {
		wantKinds(t, s, session.Root, "r1", "r2", "r3")
		wantKinds(t, s, child, "r1", "r2", "c1", "c2")
		wantKinds(t, s, grandchild, "r1", "r2", "c1", "g1")
		wantKinds(t, s, early, "r1", "e1")
	}
}

// Promise: P-131
func TestAForkNeedsACommittedEntryThatItsSourceShows(t *testing.T) {
	s := open(t, session.NewMemory())
	r1 := say(t, s, session.Root, "r1")
	child := fork(t, s, session.Root, r1)
	r2 := say(t, s, session.Root, "r2")
	c1 := say(t, s, child, "c1")
	for _, test := range []struct {
		name string
		try  func(tx *session.Tx) (session.ConversationID, error)
	}{
		{"no entry", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(session.Root, 0) }},
		{"an entry that does not exist", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(session.Root, 1<<40) }},
		{"the number of something else", func(tx *session.Tx) (session.ConversationID, error) {
			return tx.Fork(session.Root, session.EntryID(child))
		}},
		{"a source that does not exist", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(98, r1) }},
		{"the fork's entry in its source", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(session.Root, c1) }},
		{"the source's entry from behind the fork", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(child, r2) }},
		{"a reserved entry", func(tx *session.Tx) (session.ConversationID, error) { return tx.Fork(session.Root, tx.ReserveEntry()) }},
		{"an entry of the same commit", func(tx *session.Tx) (session.ConversationID, error) {
			return tx.Fork(session.Root, tx.Append(session.Entry{Conversation: session.Root, Kind: "new"}))
		}},
		{"a source of the same commit", func(tx *session.Tx) (session.ConversationID, error) {
			return tx.Fork(tx.CreateConversation(nil, 0), r1)
		}},
	} {
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error { _, err := test.try(tx); return err })
		if !errors.Is(err, session.ErrForkPoint) {
			t.Errorf("%s: %v, want ErrForkPoint", test.name, err)
		}
	}
	wantKinds(t, s, session.Root, "r1", "r2")
}

func TestADocumentFollowsItsForkPolicy(t *testing.T) {
	s := open(t, session.NewMemory())
	root := func(d session.Doc[counts], key string) session.Address { return d.At(int64(session.Root), key) }
	say(t, s, session.Root, "r1")
	r2 := say(t, s, session.Root, "r2")
	commit(t, s, func(tx *session.Tx) error {
		return errors.Join(board.Put(tx, root(board, "a"), counts{Text: "a"}), board.Put(tx, root(board, "b"), counts{Text: "b"}),
			inbox.Put(tx, root(inbox, ""), counts{N: 9}))
	})
	say(t, s, session.Root, "r3")
	commit(t, s, func(tx *session.Tx) error { return board.Patch(tx, root(board, "a"), grow("+")) })
	rules := []session.ForkRule{agent.ForkRule(), board.ForkRule(), inbox.ForkRule()}
	child := fork(t, s, session.Root, r2, rules...)
	bare := fork(t, s, session.Root, r2)
	planned := agent // the same document, with the policy of the moment
	planned.Fork = session.ForkCurrent
	latest := fork(t, s, session.Root, r2, planned.ForkRule())
	say(t, s, session.Root, "r4")
	commit(t, s, func(tx *session.Tx) error { return board.Retire(tx, root(board, "a")) })

	wantDoc(t, s, agent, child, "", counts{Text: "r2"})
	wantDoc(t, s, board, child, "a", counts{Text: "a+"})
	wantDoc(t, s, board, child, "b", counts{Text: "b"})
	wantDoc(t, s, inbox, child, "", counts{})
	wantDoc(t, s, agent, bare, "", counts{})
	wantDoc(t, s, board, bare, "a", counts{})
	wantDoc(t, s, agent, latest, "", counts{Text: "r3"})

	// A fork of a fork: at an entry of its own, and at one that it inherited and that is older than itself.
	c1 := say(t, s, child, "c1")
	say(t, s, child, "c2")
	wantDoc(t, s, agent, fork(t, s, child, c1, rules...), "", counts{Text: "c1"})
	wantDoc(t, s, agent, fork(t, s, child, r2, rules...), "", counts{Text: "r2"})
	wantDoc(t, s, agent, session.Root, "", counts{Text: "r4"})
}

func TestWhatAForkCopiesMustNotChangeInTheSameCommit(t *testing.T) {
	s := open(t, session.NewMemory())
	r1 := say(t, s, session.Root, "r1")
	at := board.At(int64(session.Root), "k")
	commit(t, s, func(tx *session.Tx) error { return board.Put(tx, at, counts{Text: "kept"}) })
	try := func(steps ...func(*session.Tx) error) error {
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			for _, step := range steps {
				if err := step(tx); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	forked := func(rule session.ForkRule) func(tx *session.Tx) error {
		return func(tx *session.Tx) error { _, err := tx.Fork(session.Root, r1, rule); return err }
	}
	for name, change := range map[string]func(*session.Tx) error{
		"a whole value":       func(tx *session.Tx) error { return board.Put(tx, at, counts{}) },
		"a delta":             func(tx *session.Tx) error { return board.Patch(tx, at, grow("x")) },
		"a retirement":        func(tx *session.Tx) error { return board.Retire(tx, at) },
		"a new one of a kind": func(tx *session.Tx) error { return board.Put(tx, board.At(int64(session.Root), "new"), counts{}) },
	} {
		if err := try(change, forked(board.ForkRule())); !errors.Is(err, session.ErrForkSource) {
			t.Errorf("%s ahead of the fork: %v, want ErrForkSource", name, err)
		}
		if err := try(forked(board.ForkRule()), change); !errors.Is(err, session.ErrForkSource) {
			t.Errorf("%s behind the fork: %v, want ErrForkSource", name, err)
		}
	}
	wantDoc(t, s, board, session.Root, "k", counts{Text: "kept"})
	if err := try(func(tx *session.Tx) error { return board.Put(tx, at, counts{Text: "new"}) }, forked(agent.ForkRule())); err != nil {
		t.Errorf("a change of what the fork does not copy: %v", err)
	}
	newer := board
	newer.Version++
	if err := try(func(tx *session.Tx) error { return newer.Put(tx, at, counts{}) }); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*session.VersionError](try(forked(board.ForkRule()))); !ok {
		t.Error("a document of a newer version was copied")
	}
	broken := board
	broken.Fork = session.ForkAsOf
	for name, err := range map[string]error{
		"a definition that contradicts itself": try(forked(broken.ForkRule())),
		"a session's document":                 try(forked(counter.ForkRule())),
		"two rules for one kind": try(func(tx *session.Tx) error {
			_, err := tx.Fork(session.Root, r1, board.ForkRule(), board.ForkRule())
			return err
		}),
	} {
		if !errors.Is(err, session.ErrDefinition) {
			t.Errorf("%s: %v, want ErrDefinition", name, err)
		}
	}
}

// Promise: P-133, P-134
func TestAForkInMidToolRoundHasNoTaskAndNoRequestOfItsSource(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "user")
	var call session.EntryID
	var running session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		call = tx.Append(session.Entry{Conversation: session.Root, Kind: "assistant", Model: []byte(`{"calls":["a","b"]}`)})
		running = tx.CreateTask(session.Task{Conversation: session.Root, Kind: "tool", Status: session.TaskPending})
		tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: "r", Status: session.SubmissionPlaced, Entry: call})
		tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: "next", Status: session.SubmissionQueued})
		tx.Append(session.Entry{Conversation: session.Root, Kind: "result a"})
		return nil
	})
	child := fork(t, s, session.Root, call, agent.ForkRule())
	wantKinds(t, s, child, "user", "assistant")
	view(t, s, func(tx *session.Tx) error {
		tasks, err := tx.Tasks(session.TaskQuery{Conversation: child})
		if err != nil || tasks != nil {
			t.Errorf("the fork has tasks %+v, %v", tasks, err)
		}
		subs, err := tx.Submissions(child)
		if err != nil || subs != nil {
			t.Errorf("the fork has submissions %+v, %v", subs, err)
		}
		if _, err := tx.SubmissionByRequest(child, "r"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("the source's request is known in the fork: %v", err)
		}
		if task, ok := tx.LiveTask(running); !ok || task.Conversation != session.Root {
			t.Errorf("the source's task is %+v, %t", task, ok)
		}
		return nil
	})
	say(t, s, child, "another answer")
	wantKinds(t, s, child, "user", "assistant", "another answer")
	wantKinds(t, s, session.Root, "user", "assistant", "result a")
}

// What a model would be told in a fork is what it would be told in the source at the same entry: the same entries, the same
// newest head, whatever the depth.
//
// Invariant: INV-41
func TestAForkSeesWhatItsSourceSawAtTheSameEntry(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := session.NewMemory()
		s, err := session.Open(t.Context(), memory)
		if err != nil {
			rt.Fatal(err)
		}
		conversations := []session.ConversationID{session.Root}
		do := func(fn func(*session.Tx) error) {
			if _, err := s.Commit(t.Context(), fn); err != nil {
				rt.Fatal(err)
			}
		}
		do(func(tx *session.Tx) error { return tx.EnsureRoot() })
		for n := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			c := rapid.SampledFrom(conversations).Draw(rt, "conversation")
			seen, err := memory.Entries(session.EntryQuery{Conversation: c})
			if err != nil {
				rt.Fatal(err)
			}
			if len(seen) == 0 || rapid.IntRange(0, 3).Draw(rt, "what") > 0 {
				do(func(tx *session.Tx) error {
					e := session.Entry{ID: tx.ReserveEntry(), Conversation: c, Kind: fmt.Sprint("e", n)}
					if rapid.Bool().Draw(rt, "head") {
						e.Head = e.ID
					}
					tx.Append(e)
					return nil
				})
				continue
			}
			at := rapid.SampledFrom(seen).Draw(rt, "at").ID
			var child session.ConversationID
			do(func(tx *session.Tx) (err error) { child, err = tx.Fork(c, at); return err })
			conversations = append(conversations, child)
			want, wantErr := memory.Entries(session.EntryQuery{Conversation: c, To: at})
			got, gotErr := memory.Entries(session.EntryQuery{Conversation: child})
			if diff := cmp.Diff(want, got); diff != "" || wantErr != nil || gotErr != nil {
				rt.Fatalf("fork of %d at %d: %v, %v (-source +fork):\n%s", c, at, wantErr, gotErr, diff)
			}
			head, wantErr := memory.NewestHead(c, at)
			own, gotErr := memory.NewestHead(child, 0)
			if diff := cmp.Diff(head, own); diff != "" || errors.Is(wantErr, session.ErrNotFound) != errors.Is(gotErr, session.ErrNotFound) {
				rt.Fatalf("head in the fork of %d at %d: %v, %v (-source +fork):\n%s", c, at, wantErr, gotErr, diff)
			}
		}
	})
}

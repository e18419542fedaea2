package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Opener returns a new, empty store, and a function that opens its data again. reopen is called after the store that is
// in use was closed, except where a case is about two owners at once. Both fail the test when they cannot.
type Opener func(t *testing.T) (s session.Storage, reopen func() session.Storage)

// Run checks the contract of session.Storage. Source: durable kernel 1.7 and 1.8.
func Run(t *testing.T, open Opener) {
	for _, mode := range []struct {
		name      string
		reopening bool
	}{{"kept open", false}, {"reopened after every commit", true}} {
		t.Run(mode.name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.run(start(t, open, mode.reopening)) })
			}
		})
	}
}

var cases = []struct {
	name string
	run  func(*subject)
}{
	{"a new store starts at nothing and has an identity", newStore},
	{"every kind of record survives a reopen", recordsSurvive},
	{"ids, sequence and identity go on after a reopen", countersGoOn},
	{"a later write replaces the whole record of a task or submission", recordsAreReplaced},
	{"a missing record is not found", missingRecords},
	{"a request id is unique in its conversation only", requestIDs},
	{"tasks are selected by conversation, owner and life", taskQueries},
	{"returned and given values are not shared", noSharedMemory},
	{"a refused batch leaves nothing behind", refusedBatches},
	{"counters never go back", countersNeverGoBack},
	{"a stale owner writes nothing", staleOwner},
	{"a closed store says so", closedStore},
	{"a transcript is read newest first within inclusive limits", entryLimits},
	{"paging has no holes and no repeats while entries arrive", entryPaging},
	{"a fork sees its ancestors up to the fork", forkVisibility},
	{"the newest head respects the cutoff and the fork", newestHead},
	{"a long transcript's tail is read alone", longTail},
	{"a rewindable document can be read at every commit", rewindable},
	{"another document keeps what is behind its newest base", latestOnly},
	{"retirement is half-open", halfOpen},
	{"two lives at one address are kept apart", twoLives},
	{"several writes of one document in one commit keep their order", severalWrites},
	{"contradicting document writes are refused", documentRules},
	{"documents are listed by owner", documentsByOwner},
	{"a removed conversation takes everything in it along", removed},
	{"a conversation stays while it has forks", removedForks},
	{"removals that would leave something in the air are refused", removalRules},
}

// subject is the store under test with the counters a session keeps.
type subject struct {
	*testing.T
	session.Storage
	reopen    func() session.Storage
	reopening bool
	state     session.State
}

func start(t *testing.T, open Opener, reopening bool) *subject {
	t.Helper()
	s := &subject{T: t, reopening: reopening}
	s.Storage, s.reopen = open(t)
	s.acquire()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *subject) acquire() {
	s.Helper()
	state, err := s.Acquire(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	s.state = state
}

// again closes the store and opens its data.
func (s *subject) again() {
	s.Helper()
	if err := s.Close(); err != nil {
		s.Fatal(err)
	}
	s.Storage = s.reopen()
	s.acquire()
}

// id mints a number.
func (s *subject) id() int64 {
	s.state.NextID++
	return s.state.NextID - 1
}

// try commits a batch that gets the next counters.
func (s *subject) try(b session.Batch) error {
	b.Epoch, b.Seq, b.NextID = s.state.Epoch, s.state.Seq+1, s.state.NextID
	if err := s.Commit(&b); err != nil {
		return err
	}
	s.state.Seq = b.Seq
	return nil
}

// commit commits a batch that must be taken and returns its number.
func (s *subject) commit(b session.Batch) session.Seq {
	s.Helper()
	if err := s.try(b); err != nil {
		s.Fatal(err)
	}
	if s.reopening {
		s.again()
	}
	return s.state.Seq
}

// refused commits a batch that must be refused without effect.
func (s *subject) refused(why string, b session.Batch) {
	s.Helper()
	before := s.state
	if err := s.try(b); !errors.Is(err, session.ErrNoEffect) {
		s.Errorf("%s: got %v, want ErrNoEffect", why, err)
	}
	s.state.Seq = before.Seq
}

// root creates the main conversation.
func (s *subject) root() session.ConversationID {
	s.Helper()
	s.commit(session.Batch{Conversations: []session.Conversation{{ID: session.Root}}})
	return session.Root
}

// entry appends a plain entry.
func (s *subject) entry(c session.ConversationID) session.EntryID {
	s.Helper()
	id := session.EntryID(s.id())
	s.commit(session.Batch{Entries: []session.Entry{{ID: id, Conversation: c, Kind: "app.note", Model: raw(`{"n":%d}`, id)}}})
	return id
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// byMeaning compares JSON by its meaning and not by its spelling.
var byMeaning = cmp.Transformer("JSON", func(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	return v
})

// same compares a read with what is wanted.
func same[T any](s *subject, what string, got T, err error, want T) {
	s.Helper()
	if err != nil {
		s.Errorf("%s: %v", what, err)
		return
	}
	if diff := cmp.Diff(want, got, byMeaning); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func notFound(s *subject, what string, err error) {
	s.Helper()
	if !errors.Is(err, session.ErrNotFound) {
		s.Errorf("%s: got %v, want ErrNotFound", what, err)
	}
}

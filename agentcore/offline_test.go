package agentcore_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/store/sessionstore"
)

// chat is the conversation of these tests.
const chat = "chat 1"

func sessionPath(dir, conversation, key string) string {
	return sessionstore.DatabasePath(dir, agentcore.DefaultProject, conversation, key)
}

// withSession opens a session file for records of its own.
func withSession(t *testing.T, path string, do func(s *session.Session)) {
	t.Helper()
	store, err := sessionstore.Open(t.Context(), path, sessionstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	do(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// outcomes lists how the tasks of a session ended, by kind; a live one is "live".
func outcomes(t *testing.T, path string) map[string]session.OutcomeStatus {
	t.Helper()
	got := map[string]session.OutcomeStatus{}
	withSession(t, path, func(s *session.Session) {
		err := s.View(t.Context(), func(tx *session.Tx) error {
			tasks, err := tx.Tasks(session.TaskQuery{})
			for _, task := range tasks {
				if got[task.Kind] = "live"; task.Outcome != nil && task.Status == session.TaskTerminal {
					got[task.Kind] = task.Outcome.Status
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return got
}

// Promise: P-329, P-330, P-822
func TestAConversationThatNobodyRunsIsCancelledInAllItsSessions(t *testing.T) {
	dir := t.TempDir()
	main, second, other := sessionPath(dir, chat, "main"), sessionPath(dir, chat, "second"), sessionPath(dir, "chat 2", "main")
	for _, path := range []string{main, second, other} {
		paused(t, path)
	}
	untouched := read(t, other)
	n, err := agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: chat, Reason: "no longer needed"})
	if err != nil || n != 4 { // an answer and its call in each
		t.Fatalf("%d tasks ended, %v", n, err)
	}
	for _, path := range []string{main, second} {
		for kind, got := range outcomes(t, path) {
			if got != session.Aborted {
				t.Errorf("%s of %s: %q", kind, path, got)
			}
		}
	}
	if !bytes.Equal(untouched, read(t, other)) {
		t.Error("another conversation's session changed")
	}
	a := open(t, agentcore.Options{DatabasePath: main, ExtraTools: deploy(t)}, scriptOf(say("never asked")))
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{decided: true}); !fault.Is(err, fault.ExecutionAborted) {
		t.Errorf("the turn ended with %v", err)
	}
	n, err = agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: "chat 2", Project: agentcore.DefaultProject})
	if err != nil || n != 2 {
		t.Errorf("%d tasks ended, %v", n, err)
	}
	if n, err = agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: "chat 2"}); err != nil || n != 0 {
		t.Errorf("once more: %d tasks ended, %v", n, err)
	}
}

// Promise: P-331
func TestACancelOfARunningConversationIsRefusedAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	idle, running := sessionPath(dir, chat, "a"), sessionPath(dir, chat, "b")
	paused(t, idle)
	paused(t, running)
	open(t, agentcore.Options{DatabasePath: running, ExtraTools: deploy(t)}, scriptOf())
	before := [][]byte{read(t, idle), read(t, running)}
	_, err := agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: chat})
	if !fault.Is(err, fault.SessionBusy) {
		t.Errorf("got %v", err)
	}
	if !slices.EqualFunc(before, [][]byte{read(t, idle), read(t, running)}, bytes.Equal) {
		t.Error("a session changed")
	}
	if got := outcomes(t, idle); !slices.Contains(slices.Collect(maps.Values(got)), "live") {
		t.Errorf("the idle session: %v", got)
	}
}

// Promise: P-332, P-333, P-334
func TestAbortCodeOfKnownKindsRunsAndUnknownOnesAreOrphaned(t *testing.T) {
	dir := t.TempDir()
	path := sessionPath(dir, chat, "main")
	withSession(t, path, func(s *session.Session) {
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			for _, kind := range []string{"app.known", "app.plain", "app.gone"} {
				tx.CreateTask(session.Task{Conversation: session.Root, Kind: kind, Version: 1, Status: session.TaskPending, Phase: "work", Background: kind == "app.plain"})
			}
			return tx.EnsureRoot()
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	var known, plain, ran atomic.Bool
	work := map[string]task.Phase{"work": func(context.Context, *task.Invocation) error { ran.Store(true); return errors.New("it must not run") }}
	cleanup := func(*session.Tx, session.Task, session.Outcome) error { plain.Store(true); return nil }
	definitions := task.NewFixed(
		task.Definition{Kind: "app.known", Version: 1, Phases: work, Abort: func(ctx context.Context, inv *task.Invocation) error {
			known.Store(true)
			_, err := inv.Commit(ctx, func(*session.Tx) (task.Next, error) {
				return task.Settle{Outcome: session.Outcome{Status: session.Aborted, Reason: inv.Task().AbortReason}}, nil
			})
			return err
		}},
		task.Definition{Kind: "app.plain", Version: 1, Phases: work, Cleanup: cleanup},
	)
	n, err := agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: chat, Definitions: definitions})
	if err != nil || n != 3 {
		t.Fatalf("%d tasks ended, %v", n, err)
	}
	got := outcomes(t, path)
	if got["app.known"] != session.Aborted || got["app.plain"] != session.Aborted || got["app.gone"] != session.Orphaned {
		t.Errorf("got %v", got)
	}
	if !known.Load() || !plain.Load() || ran.Load() {
		t.Errorf("abort code ran: %t, cleanup ran: %t, work ran: %t", known.Load(), plain.Load(), ran.Load())
	}
}

func TestWhatCannotBeCancelledSaysWhy(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		o    agentcore.CancelOptions
		want fault.Kind
	}{
		{agentcore.CancelOptions{AgentStoreDir: dir}, fault.InputValidation},
		{agentcore.CancelOptions{Conversation: chat}, fault.InputValidation},
		{agentcore.CancelOptions{AgentStoreDir: dir, Conversation: chat}, fault.NotFound},
		{agentcore.CancelOptions{AgentStoreDir: filepath.Join(dir, "none"), Conversation: chat}, fault.NotFound},
	} {
		if _, err := agentcore.CancelConversation(t.Context(), test.o); !fault.Is(err, test.want) {
			t.Errorf("%+v: %v, want %s", test.o, err, test.want)
		}
	}
}

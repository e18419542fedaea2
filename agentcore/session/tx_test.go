package session_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// wantDead checks that a draft whose callback has ended takes no call.
func wantDead(t *testing.T, tx *session.Tx) {
	t.Helper()
	at := counter.At(0, "")
	calls := map[string]func(){
		"Sync":                func() { tx.Sync() },
		"Publish":             func() { tx.Publish(1) },
		"Seq":                 func() { tx.Seq() },
		"ReserveEntry":        func() { tx.ReserveEntry() },
		"CreateConversation":  func() { tx.CreateConversation(nil, 0) },
		"EnsureRoot":          func() { _ = tx.EnsureRoot() },
		"Append":              func() { tx.Append(session.Entry{}) },
		"CreateTask":          func() { tx.CreateTask(session.Task{}) },
		"PutTask":             func() { tx.PutTask(session.Task{}) },
		"CreateSubmission":    func() { tx.CreateSubmission(session.Submission{}) },
		"PutSubmission":       func() { tx.PutSubmission(session.Submission{}) },
		"Entry":               func() { _, _ = tx.Entry(1) },
		"Entries":             func() { _, _ = tx.Entries(session.EntryQuery{}) },
		"NewestHead":          func() { _, _ = tx.NewestHead(1, 1) },
		"LiveTask":            func() { tx.LiveTask(1) },
		"LiveTasks":           func() { tx.LiveTasks() },
		"OwnsLive":            func() { tx.OwnsLive(1) },
		"Task":                func() { _, _ = tx.Task(1) },
		"Tasks":               func() { _, _ = tx.Tasks(session.TaskQuery{}) },
		"Submission":          func() { _, _ = tx.Submission(1) },
		"SubmissionByRequest": func() { _, _ = tx.SubmissionByRequest(1, "r") },
		"Submissions":         func() { _, _ = tx.Submissions(1) },
		"Get":                 func() { _, _ = counter.Get(tx, at) },
		"Put":                 func() { _ = counter.Put(tx, at, counts{}) },
		"Patch":               func() { _ = counter.Patch(tx, at, session.Op{}) },
		"Retire":              func() { _ = counter.Retire(tx, at) },
		"GetAt":               func() { _, _ = agent.GetAt(tx, agent.At(1, ""), 1) },
		"Remove":              func() { _ = tx.Remove(2) },
		"Snapshot":            func() { _, _ = tx.Snapshot(1) },
		"Fork":                func() { _, _ = tx.Fork(1, 1) },
	}
	for name, call := range calls {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s worked after the draft's end", name)
				}
			}()
			call()
		}()
	}
}

func TestADraftDiesWithItsCallback(t *testing.T) {
	s := open(t, session.NewMemory())
	var committed, failed, viewed *session.Tx
	commit(t, s, func(tx *session.Tx) error { committed = tx; return note("kept")(tx) })
	if _, err := s.Commit(t.Context(), func(tx *session.Tx) error { failed = tx; return errTest }); !errors.Is(err, errTest) {
		t.Error(err)
	}
	view(t, s, func(tx *session.Tx) error { viewed = tx; return nil })
	for _, tx := range []*session.Tx{committed, failed, viewed} {
		wantDead(t, tx)
	}
	wantNotes(t, s, "kept")
}

func TestRecordsAreReadBeforeTheFirstWrite(t *testing.T) {
	reads := map[string]func(*session.Tx) error{
		"Entry": func(tx *session.Tx) error { _, err := tx.Entry(2); return err },
		"Entries": func(tx *session.Tx) error {
			_, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
			return err
		},
		"NewestHead":          func(tx *session.Tx) error { _, err := tx.NewestHead(session.Root, 0); return err },
		"Task":                func(tx *session.Tx) error { _, err := tx.Task(99); return err },
		"Tasks":               func(tx *session.Tx) error { _, err := tx.Tasks(session.TaskQuery{}); return err },
		"Submission":          func(tx *session.Tx) error { _, err := tx.Submission(99); return err },
		"SubmissionByRequest": func(tx *session.Tx) error { _, err := tx.SubmissionByRequest(session.Root, "r"); return err },
		"Submissions":         func(tx *session.Tx) error { _, err := tx.Submissions(session.Root); return err },
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			s := open(t, session.NewMemory())
			commit(t, s, note("first"))
			commit(t, s, func(tx *session.Tx) error {
				if err := read(tx); errors.Is(err, session.ErrReadAfterWrite) {
					t.Error("a read ahead of the writes was refused")
				}
				return note("second")(tx)
			})
			_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
				if err := note("lost")(tx); err != nil {
					return err
				}
				if err := read(tx); !errors.Is(err, session.ErrReadAfterWrite) {
					t.Errorf("a read behind a write gives %v, want ErrReadAfterWrite", err)
				}
				return nil // taking the refusal for "there is none" must not get through
			})
			if !errors.Is(err, session.ErrReadAfterWrite) {
				t.Errorf("Commit = %v, want ErrReadAfterWrite", err)
			}
			wantNotes(t, s, "first", "second")
		})
	}
}

func TestWhatADraftHoldsInMemoryIsReadableBehindItsWrites(t *testing.T) {
	s := open(t, session.NewMemory())
	commit(t, s, func(tx *session.Tx) error {
		tx.CreateTask(session.Task{Kind: "k", Status: session.TaskPending})
		return nil
	})
	commit(t, s, func(tx *session.Tx) error {
		if err := note("write")(tx); err != nil {
			return err
		}
		live := tx.LiveTasks()
		if len(live) != 1 {
			t.Fatalf("LiveTasks = %v, want the committed one", live)
		}
		if _, ok := tx.LiveTask(live[0].ID); !ok {
			t.Error("LiveTask does not know a live task")
		}
		if got, err := tx.Task(live[0].ID); err != nil || got.Kind != "k" {
			t.Errorf("Task = %+v, %v", got, err)
		}
		id := tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: "r", Status: session.SubmissionQueued})
		if got, err := tx.Submission(id); err != nil || got.RequestID != "r" {
			t.Errorf("Submission = %+v, %v, want the draft's own", got, err)
		}
		return tx.EnsureRoot()
	})
}

func TestAViewRefusesWrites(t *testing.T) {
	writes := map[string]func(*session.Tx) error{
		"ReserveEntry":       func(tx *session.Tx) error { tx.ReserveEntry(); return nil },
		"CreateConversation": func(tx *session.Tx) error { tx.CreateConversation(nil, 0); return nil },
		"EnsureRoot":         func(tx *session.Tx) error { return tx.EnsureRoot() },
		"Append":             func(tx *session.Tx) error { tx.Append(session.Entry{}); return nil },
		"CreateTask":         func(tx *session.Tx) error { tx.CreateTask(session.Task{}); return nil },
		"PutTask":            func(tx *session.Tx) error { tx.PutTask(session.Task{}); return nil },
		"CreateSubmission":   func(tx *session.Tx) error { tx.CreateSubmission(session.Submission{}); return nil },
		"Put":                func(tx *session.Tx) error { return counter.Put(tx, counter.At(0, ""), counts{N: 1}) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			s := open(t, session.NewMemory())
			s.Watch(func(session.Commit) { t.Error("a view was committed") })
			if err := s.View(t.Context(), write); !errors.Is(err, session.ErrReadOnly) {
				t.Errorf("View = %v, want ErrReadOnly", err)
			}
			view(t, s, func(tx *session.Tx) error {
				if v, err := counter.Get(tx, counter.At(0, "")); err != nil || v != (counts{}) {
					t.Errorf("the document is %+v, %v after a refused write", v, err)
				}
				return nil
			})
		})
	}
}

func TestTheMainConversationIsMadeOnce(t *testing.T) {
	s := open(t, session.NewMemory())
	for range 2 {
		commit(t, s, func(tx *session.Tx) error {
			for range 2 {
				if err := tx.EnsureRoot(); err != nil {
					return err
				}
			}
			return note("n")(tx)
		})
	}
	wantNotes(t, s, "n", "n")
}

func TestInvalidJSONFailsTheCommit(t *testing.T) {
	bad := json.RawMessage(`{"a":NaN}`)
	drafts := map[string]func(*session.Tx){
		"entry model": func(tx *session.Tx) { tx.Append(session.Entry{Conversation: session.Root, Model: bad}) },
		"entry data":  func(tx *session.Tx) { tx.Append(session.Entry{Conversation: session.Root, Data: bad}) },
		"edit": func(tx *session.Tx) {
			tx.Append(session.Entry{Conversation: session.Root, Edits: []session.Edit{{Model: bad}}})
		},
		"task checkpoint":    func(tx *session.Tx) { tx.CreateTask(session.Task{Checkpoint: bad}) },
		"task input":         func(tx *session.Tx) { tx.CreateTask(session.Task{Input: bad}) },
		"task memos":         func(tx *session.Tx) { tx.CreateTask(session.Task{Memos: bad}) },
		"task outcome":       func(tx *session.Tx) { tx.CreateTask(session.Task{Outcome: &session.Outcome{Result: bad}}) },
		"submission payload": func(tx *session.Tx) { tx.CreateSubmission(session.Submission{Payload: bad}) },
	}
	for name, draft := range drafts {
		t.Run(name, func(t *testing.T) {
			s := open(t, session.NewMemory())
			_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
				draft(tx)
				return nil
			})
			if err == nil {
				t.Error("invalid JSON was committed")
			}
			commit(t, s, note("after"))
		})
	}
}

// Payloads are copied at the call.
func TestATaskDoesNotChangeWithItsCallersMemory(t *testing.T) {
	s := open(t, session.NewMemory())
	task := session.Task{Kind: "k", Status: session.TaskWaiting, Checkpoint: json.RawMessage(`"kept"`), Outcome: &session.Outcome{Error: "kept"}}
	var id session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		id = tx.CreateTask(task)
		return nil
	})
	copy(task.Checkpoint, `"lost"`)
	task.Outcome.Error = "lost"
	view(t, s, func(tx *session.Tx) error {
		got, _ := tx.LiveTask(id)
		if string(got.Checkpoint) != `"kept"` || got.Outcome.Error != "kept" {
			t.Errorf("the live record is %s, %+v", got.Checkpoint, got.Outcome)
		}
		return nil
	})
}

func TestTasksCommitOnlyWhatTheRulesAllow(t *testing.T) {
	pending := session.Task{Kind: "k", Status: session.TaskPending}
	with := func(change func(*session.Task)) session.Task {
		task := pending
		change(&task)
		return task
	}
	cases := []struct {
		name  string
		draft func(tx *session.Tx, live, over session.TaskID)
		want  error
	}{
		{"a terminal task is final", func(tx *session.Tx, _, over session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID = over }))
		}, session.ErrTerminal},
		{"a task is created before it is replaced", func(tx *session.Tx, _, over session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID = over + 100 }))
		}, session.ErrTerminal},
		{"a task made in this draft is replaced in it", func(tx *session.Tx, _, _ session.TaskID) {
			id := tx.CreateTask(pending)
			tx.PutTask(with(func(t *session.Task) { t.ID = id }))
		}, nil},
		{"work under a live owner is welcome", func(tx *session.Tx, live, _ session.TaskID) {
			tx.CreateTask(with(func(t *session.Task) { t.Owner = live }))
		}, nil},
		{"work under an owner made in this draft is welcome", func(tx *session.Tx, _, _ session.TaskID) {
			owner := tx.CreateTask(pending)
			tx.CreateTask(with(func(t *session.Task) { t.Owner = owner }))
		}, nil},
		{"no work under a terminal owner", func(tx *session.Tx, _, over session.TaskID) {
			tx.CreateTask(with(func(t *session.Task) { t.Owner = over }))
		}, session.ErrOwnerDown},
		{"no work under an owner that settles in this draft", func(tx *session.Tx, live, _ session.TaskID) {
			tx.CreateTask(with(func(t *session.Task) { t.Owner = live }))
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status = live, session.TaskTerminal }))
		}, session.ErrOwnerDown},
		{"no work under a completing owner", func(tx *session.Tx, live, _ session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status = live, session.TaskCompleting }))
			tx.CreateTask(with(func(t *session.Task) { t.Owner = live }))
		}, session.ErrOwnerDown},
		{"no work under a marked owner", func(tx *session.Tx, live, _ session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Abort = live, true }))
			tx.CreateTask(with(func(t *session.Task) { t.Owner, t.Background = live, true }))
		}, session.ErrOwnerDown},
		{"a task does not wait for itself", func(tx *session.Tx, live, _ session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{live} }))
		}, session.ErrWaitCycle},
		{"a task waits for the work it owns", func(tx *session.Tx, live, _ session.TaskID) {
			child := tx.CreateTask(with(func(t *session.Task) { t.Owner = live }))
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{child} }))
		}, nil},
		{"a task does not wait for its owner", func(tx *session.Tx, live, _ session.TaskID) {
			tx.CreateTask(with(func(t *session.Task) { t.Owner, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{live} }))
		}, session.ErrWaitCycle},
		{"nor for its owner's owner", func(tx *session.Tx, live, _ session.TaskID) {
			child := tx.CreateTask(with(func(t *session.Task) { t.Owner = live }))
			tx.CreateTask(with(func(t *session.Task) { t.Owner, t.Status, t.On = child, session.TaskWaiting, []session.TaskID{live} }))
		}, session.ErrWaitCycle},
		{"a background task may wait for its owner", func(tx *session.Tx, live, _ session.TaskID) {
			tx.CreateTask(with(func(t *session.Task) {
				t.Owner, t.Background, t.Status, t.On = live, true, session.TaskWaiting, []session.TaskID{live}
			}))
		}, nil},
		{"two tasks do not wait for each other", func(tx *session.Tx, live, _ session.TaskID) {
			other := tx.CreateTask(with(func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{live} }))
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{other} }))
		}, session.ErrWaitCycle},
		{"a task does not wait for one whose work waits for it", func(tx *session.Tx, live, _ session.TaskID) {
			other := tx.CreateTask(pending)
			child := tx.CreateTask(with(func(t *session.Task) { t.Owner = other }))
			tx.CreateTask(with(func(t *session.Task) { t.Owner, t.Status, t.On = child, session.TaskWaiting, []session.TaskID{live} }))
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{other} }))
		}, session.ErrWaitCycle},
		{"waiting for what is over is fine", func(tx *session.Tx, live, over session.TaskID) {
			tx.PutTask(with(func(t *session.Task) { t.ID, t.Status, t.On = live, session.TaskWaiting, []session.TaskID{over} }))
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, session.NewMemory())
			var live, over session.TaskID
			commit(t, s, func(tx *session.Tx) error {
				live, over = tx.CreateTask(pending), tx.CreateTask(pending)
				return nil
			})
			commit(t, s, func(tx *session.Tx) error {
				tx.PutTask(with(func(t *session.Task) { t.ID, t.Status = over, session.TaskTerminal }))
				return nil
			})
			_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
				c.draft(tx, live, over)
				return nil
			})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Commit = %v, want %v", err, c.want)
			}
		})
	}
}

// The same cycle over tasks that earlier commits left behind.
func TestAWaitThatClosesACycleOverCommittedTasksIsRefused(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	var a, b session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		a, b = tx.CreateTask(session.Task{Kind: "a", Status: session.TaskPending}), tx.CreateTask(session.Task{Kind: "b", Status: session.TaskPending})
		return nil
	})
	commit(t, s, func(tx *session.Tx) error {
		tx.CreateTask(session.Task{Kind: "child", Owner: b, Status: session.TaskWaiting, On: []session.TaskID{a}})
		return nil
	})
	s = open(t, memory.Reopen())
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		tx.PutTask(session.Task{ID: a, Kind: "a", Status: session.TaskWaiting, On: []session.TaskID{b}})
		return nil
	})
	if !errors.Is(err, session.ErrWaitCycle) {
		t.Errorf("Commit = %v, want ErrWaitCycle", err)
	}
}

func TestOwnedWorkIsCountedWithTheDraftsChanges(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	var owner, child session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		owner = tx.CreateTask(session.Task{Kind: "owner", Status: session.TaskPending})
		tx.CreateTask(session.Task{Kind: "background", Owner: owner, Background: true, Status: session.TaskPending})
		if tx.OwnsLive(owner) {
			t.Error("a background task counts as work")
		}
		child = tx.CreateTask(session.Task{Kind: "child", Owner: owner, Status: session.TaskPending})
		if !tx.OwnsLive(owner) {
			t.Error("a child made in this draft does not count")
		}
		return nil
	})
	s = open(t, memory.Reopen())
	commit(t, s, func(tx *session.Tx) error {
		if !tx.OwnsLive(owner) {
			t.Error("the child is lost after reopening")
		}
		task, _ := tx.LiveTask(child)
		task.Status = session.TaskTerminal
		tx.PutTask(task)
		if tx.OwnsLive(owner) {
			t.Error("a child that settles in this draft still counts")
		}
		return nil
	})
	view(t, s, func(tx *session.Tx) error {
		if tx.OwnsLive(owner) {
			t.Error("a settled child counts")
		}
		return nil
	})
}

// A mark by a new owner does not make the checkpoint the new owner's.
func TestTheEpochOfATaskIsThatOfItsCheckpoint(t *testing.T) {
	memory := session.NewMemory()
	first := open(t, memory)
	var id session.TaskID
	commit(t, first, func(tx *session.Tx) error {
		id = tx.CreateTask(session.Task{Kind: "k", Status: session.TaskPending})
		return nil
	})
	second := open(t, memory.Reopen())
	commit(t, second, func(tx *session.Tx) error {
		task, _ := tx.LiveTask(id)
		task.Abort = true
		tx.PutTask(task)
		return nil
	})
	epoch := func() (e int64) {
		view(t, second, func(tx *session.Tx) error {
			task, _ := tx.LiveTask(id)
			e = task.Epoch
			return nil
		})
		return e
	}
	if got := epoch(); got != first.Epoch() {
		t.Errorf("after the mark the epoch is %d, want that of the checkpoint, %d", got, first.Epoch())
	}
	commit(t, second, func(tx *session.Tx) error {
		task, _ := tx.LiveTask(id)
		task.Epoch = 0
		tx.PutTask(task)
		return nil
	})
	if got := epoch(); got != second.Epoch() {
		t.Errorf("after a new checkpoint the epoch is %d, want %d", got, second.Epoch())
	}
}

func TestTheDraftKnowsItsStore(t *testing.T) {
	s := open(t, session.NewMemory())
	view(t, s, func(tx *session.Tx) error {
		got := []any{tx.StoreID(), tx.Epoch(), tx.Seq()}
		if diff := cmp.Diff([]any{s.StoreID(), s.Epoch(), session.Seq(1)}, got); diff != "" {
			t.Errorf("store, epoch, seq (-want +got):\n%s", diff)
		}
		return nil
	})
}

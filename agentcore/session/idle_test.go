package session_test

import (
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
)

// lazy is a storage that is idle when the test says so.
type lazy struct {
	session.Storage
	idle  func()
	reads int // of documents
}

func (l *lazy) OnIdle(f func()) { l.idle = f }

func (l *lazy) Document(a session.Address, at session.Seq) (session.Document, error) {
	l.reads++
	return l.Storage.Document(a, at)
}

func TestAnIdleSessionForgetsWhatItCanReadAgain(t *testing.T) {
	l := &lazy{Storage: session.NewMemory()}
	s := open(t, l)
	idles := 0
	s.OnIdle(func() { idles++ })
	settings := session.Doc[string]{Kind: "app.settings", Version: 1, Scope: session.ScopeSession}
	at := settings.At(0, "")
	task := session.Task{Conversation: session.Root, Kind: "app.task", Version: 1, Status: session.TaskPending}
	commit(t, s, func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		task.ID = tx.CreateTask(task)
		return settings.Put(tx, at, "dark")
	})
	look := func() {
		t.Helper()
		view(t, s, func(tx *session.Tx) error {
			got, err := settings.Get(tx, at)
			if err == nil && got != "dark" {
				t.Errorf("settings = %q", got)
			}
			if _, live := tx.LiveTask(task.ID); !live {
				t.Error("the live task is gone")
			}
			return err
		})
	}
	look()
	before := l.reads
	l.idle()
	look()
	look()
	if l.reads != before+1 || idles != 1 {
		t.Errorf("%d reads of a document behind %d idles, want 1 behind 1", l.reads-before, idles)
	}
	commit(t, s, func(tx *session.Tx) error {
		task, _ := tx.LiveTask(task.ID)
		task.Status, task.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Completed}
		tx.PutTask(task)
		return nil
	})
}

func TestASessionInUseIsNotIdle(t *testing.T) {
	l := &lazy{Storage: session.NewMemory()}
	s := open(t, l)
	idles := 0
	s.OnIdle(func() { idles++ })
	view(t, s, func(*session.Tx) error { l.idle(); return nil })
	if idles != 0 {
		t.Error("it idles under a view")
	}
}

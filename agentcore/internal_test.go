package agentcore

import (
	"context"
	"errors"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

// What stands between a host's storage and the harness changes nothing of it.
func TestAHostsStorageKeepsItsContract(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) (session.Storage, func() session.Storage) {
		data := session.NewMemory()
		f := StorageFactory{Label: "memory", Open: func(context.Context) (session.Storage, func() error, error) {
			return data.Reopen(), func() error { return nil }, nil
		}}
		open := func() session.Storage {
			s, err := open(t.Context(), Options{Storage: f})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return open(), open
	})
}

// Whoever closes a storage twice releases it once.
// Promise: P-312
func TestAStorageIsReleasedOnce(t *testing.T) {
	failed, released := errors.New("the shelf is stuck"), 0
	f := StorageFactory{Open: func(context.Context) (session.Storage, func() error, error) {
		return session.NewMemory(), func() error { released++; return failed }, nil
	}}
	s, err := open(t.Context(), Options{Storage: f})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); !errors.Is(err, failed) {
			t.Errorf("err = %v, want what the release said", err)
		}
	}
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// Session is the kernel under the agent.
func (a *Agent) Session() *session.Session { return a.h.Session() }

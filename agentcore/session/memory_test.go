package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

func openMemory(*testing.T) (session.Storage, func() session.Storage) {
	m := session.NewMemory()
	return m, func() session.Storage { return m.Reopen() }
}

func TestTheMemoryStoreKeepsTheContract(t *testing.T) { sessiontest.Run(t, openMemory) }

func TestTheMemoryStoreIsItsOwnOracle(t *testing.T) { sessiontest.Oracle(t, openMemory) }

func TestTheOlderOfTwoOwnersIsStale(t *testing.T) {
	older := session.NewMemory()
	first, err := older.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	root := []session.Conversation{{ID: session.Root}}
	batch := func(epoch int64) *session.Batch {
		return &session.Batch{Epoch: epoch, Seq: 1, NextID: 2, Conversations: root}
	}
	newer := older.Reopen()
	second, err := newer.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if second.Epoch != first.Epoch+1 || second.StoreID != first.StoreID {
		t.Fatalf("got %+v after %+v", second, first)
	}
	if err := older.Commit(batch(first.Epoch)); !errors.Is(err, session.ErrStale) {
		t.Fatalf("the older owner's commit: %v, want ErrStale", err)
	}
	if _, err := newer.Conversation(session.Root); !errors.Is(err, session.ErrNotFound) {
		t.Fatalf("the older owner wrote: %v", err)
	}
	if err := newer.Commit(batch(second.Epoch)); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := session.NewMemory()
	if _, err := m.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if state, err := m.Acquire(context.Background()); err != nil || state.Epoch != 1 {
		t.Fatalf("the refused call raised the epoch: %+v, %v", state, err)
	}
}

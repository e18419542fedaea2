package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
)

// A memo makes a decision of a task durable: what the clock, chance or a hook said once is said again after a restart.
// Memos are kept over all steps of the task and dropped with its outcome. One task has one space of keys: prefix them.
// Source: durable kernel 2.2.

// Recall returns the memo of a key as JSON, and whether there is one. It knows what this invocation has seen: the record
// it was started with and its own memos.
func (inv *Invocation) Recall(key string) (json.RawMessage, bool) {
	memos, err := memosOf(inv.task)
	if err != nil {
		return nil, false // Memo tells the error
	}
	v, ok := memos[key]
	return v, ok
}

// Memo keeps value under key unless a memo of that key exists, and returns the one that is kept: the first writer wins.
// It is called by the phase's own goroutine. Errors: ErrStaleInvocation, as for Write.
func (inv *Invocation) Memo(ctx context.Context, key string, value json.RawMessage) (json.RawMessage, error) {
	if kept, ok := inv.Recall(key); ok {
		return kept, nil
	}
	kept, memos := value, json.RawMessage(nil)
	_, err := inv.s.sess.Commit(ctx, func(tx *session.Tx) error {
		t, err := inv.current(tx)
		if err != nil {
			return err
		}
		all, err := memosOf(t)
		if err != nil {
			return err
		}
		if first, ok := all[key]; ok {
			kept, memos = first, t.Memos
			return nil
		}
		all[key] = value
		if t.Memos, err = json.Marshal(all); err != nil {
			return fmt.Errorf("task %d: memo %q: %w", t.ID, key, err)
		}
		memos = t.Memos
		tx.PutTask(t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	inv.task.Memos = memos
	return kept, nil
}

// Once returns the memo of key, or calls make, keeps what it returns, and returns what is kept. make may run again when
// the process dies before its value is kept.
func Once[T any](ctx context.Context, inv *Invocation, key string, make func() (T, error)) (T, error) {
	var v T
	raw, ok := inv.Recall(key)
	if !ok {
		made, err := make()
		if err != nil {
			return v, err
		}
		text, err := json.Marshal(made)
		if err != nil {
			return v, fmt.Errorf("memo %q: %w", key, err)
		}
		if raw, err = inv.Memo(ctx, key, text); err != nil {
			return v, err
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("memo %q: %w", key, err)
	}
	return v, nil
}

func memosOf(t session.Task) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(t.Memos) > 0 {
		if err := json.Unmarshal(t.Memos, &all); err != nil {
			return nil, fmt.Errorf("task %d: memos: %w", t.ID, err)
		}
	}
	return all, nil
}

package agentcore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// CancelOptions name a conversation whose sessions nobody runs.
type CancelOptions struct {
	AgentStoreDir string // the directory of all session files
	Project       string // "" = DefaultProject
	Conversation  string
	Reason        string // recorded with what is cancelled; "" = DefaultCancelReason
	// Definitions of the project's own tasks: their abort code runs. Nil: tasks of such kinds end as orphaned, and their
	// cleanup cannot run.
	Definitions task.Source
}

// What empty CancelOptions stand for.
const (
	DefaultProject      = "default"
	DefaultCancelReason = "cancelled while no host was running"
)

// CancelConversation ends all unfinished work of a conversation's sessions, whatever their session keys: every live task
// becomes terminal and every queued input unanswered, synced. It needs their owners to be gone: when one has a session
// open nothing is changed in any of them. It returns how many tasks it ended. When ctx ends in the middle the marks that
// were set stay, and the next call, or the next owner, goes on. On an active session use its own cancel command, whose
// owner knows all definitions.
//
// Errors have kinds: session_busy (a session has an owner), not_found (the conversation has no sessions),
// input_validation (no conversation given; a file is no session), storage. Source: P-329 to P-334, P-822.
func CancelConversation(ctx context.Context, o CancelOptions) (ended int, err error) {
	if o.AgentStoreDir == "" || o.Conversation == "" {
		return 0, fault.New(fault.InputValidation, "cancel a conversation: its store directory and its id must not be empty")
	}
	if o.Project == "" {
		o.Project = DefaultProject
	}
	if o.Reason == "" {
		o.Reason = DefaultCancelReason
	}
	if o.Definitions == nil {
		o.Definitions = task.Fixed{}
	}
	paths, err := sessionsOf(o)
	if err != nil {
		return 0, err
	}
	locks, err := ownAll(paths)
	if err != nil {
		return 0, offlineFault(o, err)
	}
	for i, path := range paths {
		n, settleErr := settleFile(ctx, path, locks[i], o)
		locks[i] = nil // it went to the store
		if ended += n; settleErr != nil {
			return ended, offlineFault(o, errors.Join(settleErr, freeAll(locks)))
		}
	}
	return ended, nil
}

// sessionsOf lists the session files of a conversation.
func sessionsOf(o CancelOptions) ([]string, error) {
	dir, err := sqlite.Resolve(filepath.Dir(sessionstore.DatabasePath(o.AgentStoreDir, o.Project, o.Conversation, "x")))
	if err != nil {
		return nil, offlineFault(o, err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, offlineFault(o, err)
	}
	var paths []string
	for _, entry := range list {
		if entry.Type().IsRegular() && filepath.Ext(entry.Name()) == sessionstore.Suffix {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, offlineFault(o, os.ErrNotExist)
	}
	return paths, nil
}

// ownAll takes the ownership of all files or of none.
func ownAll(paths []string) ([]*sqlite.Lock, error) {
	locks := make([]*sqlite.Lock, len(paths))
	for i, path := range paths {
		var err error
		if locks[i], err = sqlite.LockOwner(path); err != nil {
			return nil, errors.Join(err, freeAll(locks))
		}
	}
	return locks, nil
}

func freeAll(locks []*sqlite.Lock) error {
	var errs []error
	for _, l := range locks {
		if l != nil {
			errs = append(errs, l.Unlock())
		}
	}
	return errors.Join(errs...)
}

func settleFile(ctx context.Context, path string, lock *sqlite.Lock, o CancelOptions) (int, error) {
	store, err := sessionstore.Open(ctx, path, sessionstore.Options{MustExist: true, Lock: lock})
	if err != nil {
		return 0, err
	}
	return harness.Settle(ctx, store, o.Reason, o.Definitions)
}

func offlineFault(o CancelOptions, err error) error {
	err = fmt.Errorf("cancel conversation %q of %q: %w", o.Conversation, o.Project, err)
	if fault.KindOf(err) != "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Kind: kindOf(err), Message: err.Error(), Cause: err}
}

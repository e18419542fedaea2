package agentcore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// StorageFactory is a host's own place for a session. A host that implements session.Storage proves it with sessiontest.
// ExportDatabase, ImportDatabase and CancelConversation know nothing of it: its backup, and cancelling what nobody runs, are
// the host's. The zero value is none. Source: spec create-agent "Storage And Backups", P-309 to P-315.
type StorageFactory struct {
	Label string // names the place in errors
	// Open takes exclusive ownership of one session's data, every time the same, and returns a storage over it. An error
	// ends New, which wraps it; nothing stays open then. release, which may be nil, gives the ownership back: it is called
	// once, right after the agent has closed the storage, also when New fails.
	Open func(ctx context.Context) (storage session.Storage, release func() error, err error)
}

// open returns the session's store: the host's, the file, or memory. Errors have kinds: input_validation for options that
// exclude each other, session_busy names the owner, storage what is wrong with the place.
func open(ctx context.Context, opts Options) (session.Storage, error) {
	switch {
	case !utf8.ValidString(opts.SessionID):
		return nil, fault.New(fault.InputValidation, "sessionId %q: is not UTF-8", opts.SessionID)
	case opts.Storage.Open != nil && opts.DatabasePath != "":
		return nil, fault.New(fault.InputValidation, "storage %q and databasePath %q exclude each other", opts.Storage.Label, opts.DatabasePath)
	case opts.Storage.Open != nil:
		return opts.Storage.open(ctx)
	case opts.Storage.Label != "":
		return nil, fault.New(fault.InputValidation, "storage %q: Open must not be nil", opts.Storage.Label)
	case opts.DatabasePath == "":
		return session.NewMemory(), nil
	}
	s, err := sessionstore.Open(ctx, opts.DatabasePath, sessionstore.Options{Behind: true, Idle: sessionstore.IdleHandle})
	if err != nil {
		return nil, unopened(err)
	}
	return s, nil
}

func unopened(err error) error {
	if locked, ok := errors.AsType[*sqlite.ErrLocked](err); ok {
		return fault.New(fault.SessionBusy, "%w", locked)
	}
	return fault.New(fault.Storage, "%w", err)
}

func (f StorageFactory) open(ctx context.Context) (session.Storage, error) {
	s, release, err := f.Open(ctx)
	if err != nil {
		err = fmt.Errorf("open storage %q: %w", f.Label, err)
		if fault.KindOf(err) == "" && ctx.Err() == nil {
			err = &fault.Error{Kind: kindOf(err), Message: err.Error(), Cause: err}
		}
		return nil, err
	}
	owned := &ownedStorage{Storage: s, release: release}
	if s == nil {
		return nil, errors.Join(fault.New(fault.Internal, "open storage %q: it gave none", f.Label), owned.letGo())
	}
	return owned, nil
}

// ownedStorage is a host's storage whose ownership goes back when it is closed.
type ownedStorage struct {
	session.Storage
	release func() error
	once    sync.Once
	err     error
}

// Close closes the storage, then releases it. A second Close returns the first one's error.
func (o *ownedStorage) Close() error {
	o.once.Do(func() { o.err = errors.Join(o.Storage.Close(), o.letGo()) })
	return o.err
}

func (o *ownedStorage) letGo() error {
	if o.release == nil {
		return nil
	}
	return o.release()
}

// identity is the record of a session's name. Without it the name is the identity of the store.
type identity struct {
	SessionID string `json:"sessionId"`
}

var identities = session.Doc[identity]{Kind: "workflow.session", Version: 1, Scope: session.ScopeSession}

// identify returns the name of a session, which is given to it before anything is said in it. Another one later is a
// conflict.
func identify(ctx context.Context, s *session.Session, want string) (string, error) {
	at, have, young := identities.At(0, ""), identity{}, false
	err := s.View(ctx, func(tx *session.Tx) (err error) {
		if have, err = identities.Get(tx, at); err != nil || have.SessionID != "" {
			return err
		}
		if have.SessionID = tx.StoreID(); want == "" {
			return nil
		}
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root, Limit: 1})
		if err != nil {
			return err
		}
		tasks, err := tx.Tasks(session.TaskQuery{Limit: 1})
		young = len(entries)+len(tasks) == 0
		return err
	})
	switch {
	case err != nil:
	case want == "" || want == have.SessionID:
		return have.SessionID, nil
	case !young:
		return "", fault.New(fault.Conflict, "sessionId %q: this session has another one, %q", want, have.SessionID)
	default:
		_, err = s.Commit(ctx, func(tx *session.Tx) error { return identities.Put(tx, at, identity{want}) })
	}
	return want, recordFault(ctx, err)
}

// recordFault gives what went wrong with the record a kind: what has none by now is what a store could not give or take,
// unless the caller has left.
func recordFault(ctx context.Context, err error) error {
	err = harness.AsFault(err)
	switch {
	case err == nil || fault.KindOf(err) != "":
		return err
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return &fault.Error{Kind: fault.ExecutionAborted, Message: "stopped: " + err.Error(), Cause: err}
	}
	return &fault.Error{Kind: fault.Storage, Message: err.Error(), Cause: err}
}

// Drain waits until the files of all closed agents are whole without their write-ahead logs, and returns what failed since
// the last call: Agent.Close does not wait for that. Nothing is lost without it; a program calls it before it ends, or
// before it copies session files by itself.
func Drain() error { return sqlite.Drain() }

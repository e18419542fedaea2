package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Errors of document definitions. A *VersionError and a *MigrationError say which document they are about.
var (
	// ErrDefinition reports a definition whose fields contradict each other, or an address that is not one of its own.
	ErrDefinition = errors.New("session: the document's definition does not fit")
	// ErrNotRewindable reports a read in the past of a document that keeps its newest content only.
	ErrNotRewindable = errors.New("session: the document keeps no past")
)

// VersionError reports a stored document that a newer definition wrote.
type VersionError struct {
	Kind          string
	Stored, Known int
}

// Error names the versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("document %s: stored version %d is newer than %d", e.Kind, e.Stored, e.Known)
}

// MigrationError reports a stored document that could not be brought to the definition's version. What is stored stays.
type MigrationError struct {
	Kind     string
	From, To int
	Err      error
}

// Error names the versions and the cause.
func (e *MigrationError) Error() string {
	return fmt.Sprintf("document %s: migrate version %d to %d: %v", e.Kind, e.From, e.To, e.Err)
}

// Unwrap returns what Doc.Migrate said.
func (e *MigrationError) Unwrap() error { return e.Err }

// Doc defines a typed document. Definitions are values and may be shared. The zero value of T is the initial content:
// reading a document that was never written gives it and stores nothing. A document of a task retires in the commit that
// makes the task terminal. Source: durable kernel 1.5.
type Doc[T any] struct {
	Kind       string
	Version    int
	Scope      Scope
	Rewindable bool // conversation documents only: every past commit stays readable
	// BaseEvery is how many deltas may follow a base before the next write stores the whole value again; 0 = every write
	// is a base.
	BaseEvery int
	// Fork says what a fork of the conversation starts with. The zero value is ForkInitial.
	Fork ForkPolicy
	// Migrate brings a value that an older version wrote to Version; nil takes it as it is. It is pure. It runs at every
	// access; only the next write stores what it returns.
	Migrate func(value json.RawMessage, from int) (json.RawMessage, error)
}

// Check reports contradictions of the definition as ErrDefinition: only conversation documents are rewindable or leave
// anything to a fork, and ForkAsOf needs Rewindable. Every use checks it.
func (d Doc[T]) Check() error {
	switch {
	case d.Scope != ScopeConversation && d.Rewindable:
		return fmt.Errorf("document %s: %w: only conversation documents are rewindable", d.Kind, ErrDefinition)
	case d.Scope != ScopeConversation && d.Fork != ForkInitial:
		return fmt.Errorf("document %s: %w: only conversation documents are forked", d.Kind, ErrDefinition)
	case d.Fork < ForkInitial || d.Fork > ForkAsOf:
		return fmt.Errorf("document %s: %w: unknown fork policy %d", d.Kind, ErrDefinition, d.Fork)
	case d.Fork == ForkAsOf && !d.Rewindable:
		return fmt.Errorf("document %s: %w: a fork as of an entry needs a rewindable document", d.Kind, ErrDefinition)
	default:
		return nil
	}
}

func (d Doc[T]) check(a Address) error {
	if a.Scope != d.Scope || a.Kind != d.Kind {
		return fmt.Errorf("document %s of %s: %w: the address is of %s %s", d.Kind, d.Scope, ErrDefinition, a.Scope, a.Kind)
	}
	return d.Check()
}

// At returns the address of the document of owner (a conversation or task number, 0 for the session) with key.
func (d Doc[T]) At(owner int64, key string) Address {
	return Address{Scope: d.Scope, Owner: owner, Kind: d.Kind, Key: key}
}

// Get returns the value at a, the draft's own changes included; an older one migrated. It stores nothing. Errors:
// *VersionError, *MigrationError, ErrDefinition, ErrCorrupt; they are those of every write too.
func (d Doc[T]) Get(tx *Tx, a Address) (T, error) {
	doc, err := d.at(tx, a)
	if err != nil || doc.id == 0 {
		var none T
		return none, err
	}
	return d.decode(doc.root.render(nil))
}

// GetAt returns the value that commit seq left at a, whatever this draft changed; the zero value when there was none then.
// A document that keeps no past is ErrNotRewindable, a commit that was never made ErrNotFound.
func (d Doc[T]) GetAt(tx *Tx, a Address, seq Seq) (T, error) {
	tx.use()
	var none T
	if err := d.check(a); err != nil {
		return none, err
	}
	if !d.Rewindable {
		return none, fmt.Errorf("document %s: %w", d.Kind, ErrNotRewindable)
	}
	if seq < 1 || seq > tx.s.state.Seq {
		return none, fmt.Errorf("document %s at commit %d: %w: there are %d", d.Kind, seq, ErrNotFound, tx.s.state.Seq)
	}
	stored, err := tx.s.storage.Document(a, seq)
	if errors.Is(err, ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("document %s at commit %d: %w", d.Kind, seq, err)
	}
	value, err := d.migrate(stored.Version, func() json.RawMessage { return stored.Value })
	if err != nil {
		return none, err
	}
	if value == nil {
		value = stored.Value
	}
	return d.decode(value)
}

func (d Doc[T]) decode(raw json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("document %s: %w: %w", d.Kind, ErrCorrupt, err)
	}
	return v, nil
}

// migrate returns the value brought to the definition's version, or nil when it is taken as it is.
func (d Doc[T]) migrate(from int, value func() json.RawMessage) (json.RawMessage, error) {
	if from > d.Version {
		return nil, &VersionError{Kind: d.Kind, Stored: from, Known: d.Version}
	}
	if from == d.Version || d.Migrate == nil {
		return nil, nil
	}
	now, err := d.Migrate(value(), from)
	if err == nil {
		err = checkValue(now)
	}
	if err != nil {
		return nil, &MigrationError{Kind: d.Kind, From: from, To: d.Version, Err: err}
	}
	return now, nil
}

// Put stores the whole value.
func (d Doc[T]) Put(tx *Tx, a Address, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("document %s: %w", a.Kind, err)
	}
	doc, err := d.stored(tx, a)
	if err != nil {
		return err
	}
	w := DocumentWrite{ID: doc.id, Address: a, Version: d.Version, Rewindable: d.Rewindable, Base: raw}
	if doc.id == 0 {
		w.ID, w.Create = DocumentID(tx.mint()), true
	} else {
		w.Rewindable = doc.rewindable // fixed for an incarnation
	}
	tx.draft(w, &node{raw: raw})
	return nil
}

// Patch applies ops to the stored value; ErrNotFound when there is none. It stores the ops alone until a base is due. A
// step that does not fit is an *OpError and fails the whole commit.
func (d Doc[T]) Patch(tx *Tx, a Address, ops ...Op) error {
	doc, err := d.at(tx, a)
	if err != nil {
		return err
	}
	if doc.id == 0 {
		return fmt.Errorf("document %s: %w", a.Kind, ErrNotFound)
	}
	if len(ops) == 0 {
		return nil
	}
	root := doc.root
	for i, op := range ops {
		op.Value = bytes.Clone(op.Value)
		next, wrong := root.apply(op)
		if wrong != nil {
			wrong.Index, wrong.Op = i, op.Op
			delete(tx.s.docs, a) // the steps before it have changed the picture
			return tx.misuse(fmt.Errorf("document %s: %w", a.Kind, wrong))
		}
		root = next
	}
	w := DocumentWrite{ID: doc.id, Address: a, Version: d.Version, Rewindable: doc.rewindable}
	if doc.version != d.Version || doc.deltas >= d.BaseEvery {
		w.Base = root.render(nil)
	} else if w.Delta, err = json.Marshal(ops); err != nil {
		delete(tx.s.docs, a)
		return tx.misuse(fmt.Errorf("document %s: %w", a.Kind, err))
	}
	tx.draft(w, root)
	return nil
}

// Retire ends the incarnation at a; a later Put starts a new one. Retiring nothing does nothing.
func (d Doc[T]) Retire(tx *Tx, a Address) error {
	doc, err := d.stored(tx, a)
	if err != nil || doc.id == 0 {
		return err
	}
	tx.draft(DocumentWrite{ID: doc.id, Address: a, Version: doc.version, Rewindable: doc.rewindable, Retire: true}, nil)
	return nil
}

// document is the session's picture of the live incarnation at an address, the draft on the line included; a draft that
// is rolled back takes its pictures along. An id of 0 means that there is none.
type document struct {
	id         DocumentID
	version    int
	deltas     int
	rewindable bool
	root       *node // the value; steps are applied in place
}

// cachedDocuments bounds how many pictures a session keeps between commits.
const cachedDocuments = 64

// at returns the picture of a, brought to the definition's version: such a root belongs to the caller.
func (d Doc[T]) at(tx *Tx, a Address) (document, error) {
	doc, err := d.stored(tx, a)
	if err != nil || doc.id == 0 {
		return doc, err
	}
	now, err := d.migrate(doc.version, func() json.RawMessage { return doc.root.render(nil) })
	if err != nil {
		return document{}, err
	}
	if now != nil {
		doc.root = &node{raw: now}
	}
	return doc, nil
}

// stored returns the picture of a as it is. A version that is newer than the definition's is a *VersionError.
func (d Doc[T]) stored(tx *Tx, a Address) (document, error) {
	tx.use()
	if err := d.check(a); err != nil {
		return document{}, err
	}
	doc, ok := tx.s.docs[a]
	if !ok {
		stored, err := tx.s.storage.Document(a, 0)
		if errors.Is(err, ErrNotFound) {
			tx.s.docs[a] = document{} // nobody else writes here: absent stays absent
			return document{}, nil
		}
		if err != nil {
			return document{}, fmt.Errorf("document %s: %w", a.Kind, err)
		}
		doc = document{id: stored.ID, version: stored.Version, deltas: stored.Deltas, rewindable: stored.Rewindable, root: &node{raw: stored.Value}}
		tx.s.docs[a] = doc
	}
	if doc.version > d.Version {
		return document{}, &VersionError{Kind: d.Kind, Stored: doc.version, Known: d.Version}
	}
	return doc, nil
}

// draft adds w and the value after it. A base replaces what this commit drafted for the same incarnation before.
func (tx *Tx) draft(w DocumentWrite, root *node) {
	tx.write()
	doc := document{id: w.ID, version: w.Version, rewindable: w.Rewindable, root: root}
	switch {
	case w.Retire:
		doc = document{}
	case w.Base != nil:
		tx.batch.Documents = slices.DeleteFunc(tx.batch.Documents, func(old DocumentWrite) bool {
			w.Create = w.Create || old.ID == w.ID && old.Create
			return old.ID == w.ID
		})
	default:
		doc.deltas = tx.s.docs[w.Address].deltas + 1
	}
	tx.s.docs[w.Address] = doc
	tx.batch.Documents = append(tx.batch.Documents, w)
}

// forget drops every picture that shows this draft: it was rolled back.
func (tx *Tx) forget() {
	for _, w := range tx.batch.Documents {
		delete(tx.s.docs, w.Address)
	}
}

// keep goes on with the pictures of a committed draft, bounded.
func (tx *Tx) keep() {
	if len(tx.s.docs) > cachedDocuments || len(tx.batch.Removals) > 0 {
		clear(tx.s.docs)
	}
}

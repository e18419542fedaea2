package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Doc defines a typed document. Definitions are values and may be shared. The zero value of T is the initial content:
// reading a document that was never written gives it and stores nothing.
type Doc[T any] struct {
	Kind       string
	Version    int
	Scope      Scope
	Rewindable bool // conversation documents only: every past commit stays readable
	// BaseEvery is how many deltas may follow a base before the next write stores the whole value again; 0 = every write
	// is a base.
	BaseEvery int
}

// At returns the address of the document of owner (a conversation or task number, 0 for the session) with key.
func (d Doc[T]) At(owner int64, key string) Address {
	return Address{Scope: d.Scope, Owner: owner, Kind: d.Kind, Key: key}
}

// Get returns the value at a, the draft's own changes included. A stored version newer than the definition's is an error,
// for Get as for every write.
func (d Doc[T]) Get(tx *Tx, a Address) (T, error) {
	var v T
	doc, err := d.at(tx, a)
	if err != nil || doc.id == 0 {
		return v, err
	}
	if err := json.Unmarshal(doc.root.render(nil), &v); err != nil {
		return v, fmt.Errorf("document %s: %w: %w", a.Kind, ErrCorrupt, err)
	}
	return v, nil
}

// Put stores the whole value.
func (d Doc[T]) Put(tx *Tx, a Address, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("document %s: %w", a.Kind, err)
	}
	doc, err := d.at(tx, a)
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
	doc, err := d.at(tx, a)
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

func (d Doc[T]) at(tx *Tx, a Address) (document, error) {
	tx.use()
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
		return document{}, fmt.Errorf("document %s: stored version %d is newer than %d", a.Kind, doc.version, d.Version)
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
	if len(tx.s.docs) > cachedDocuments {
		clear(tx.s.docs)
	}
}

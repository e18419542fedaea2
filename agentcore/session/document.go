package session

import (
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

// Get returns the value at a, the draft's own changes included. A stored version newer than the definition's is an error.
func (d Doc[T]) Get(tx *Tx, a Address) (T, error) {
	var v T
	raw, version, err := tx.value(a)
	if errors.Is(err, ErrNotFound) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if version > d.Version {
		return v, fmt.Errorf("document %s: stored version %d is newer than %d", a.Kind, version, d.Version)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
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
	return tx.putDocument(a, d.Version, d.Rewindable, raw)
}

// Patch applies ops to the stored value; the document must exist. It stores the ops alone until a base is due.
func (d Doc[T]) Patch(tx *Tx, a Address, ops ...Op) error {
	m, err := tx.meta(a)
	if err != nil {
		return fmt.Errorf("document %s: %w", a.Kind, err)
	}
	if m.version != d.Version || m.deltas >= d.BaseEvery {
		raw, _, err := tx.value(a)
		if err != nil {
			return err
		}
		if raw, err = ApplyOps(raw, ops); err != nil {
			return fmt.Errorf("document %s: %w", a.Kind, err)
		}
		return tx.putDocument(a, d.Version, d.Rewindable, raw)
	}
	delta, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("document %s: %w", a.Kind, err)
	}
	tx.draft(DocumentWrite{ID: m.id, Address: a, Version: m.version, Rewindable: m.rewindable, Delta: delta})
	return nil
}

// Retire ends the incarnation at a; a later Put starts a new one. Retiring nothing does nothing.
func (d Doc[T]) Retire(tx *Tx, a Address) error {
	m, err := tx.meta(a)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	tx.draft(DocumentWrite{ID: m.id, Address: a, Version: m.version, Rewindable: m.rewindable, Retire: true})
	return nil
}

// docMeta is what the session remembers of a live document.
type docMeta struct {
	id         DocumentID
	version    int
	deltas     int
	rewindable bool
}

func (m docMeta) after(w DocumentWrite) docMeta {
	m.id, m.version, m.rewindable = w.ID, w.Version, w.Rewindable
	if w.Delta != nil {
		m.deltas++
	} else {
		m.deltas = 0
	}
	return m
}

func (tx *Tx) meta(a Address) (docMeta, error) {
	m, ok := tx.s.docs[a]
	if !ok && len(tx.drafts[a]) == 0 {
		doc, err := tx.s.storage.Document(a, 0)
		if err != nil {
			return docMeta{}, err
		}
		m = docMeta{id: doc.ID, version: doc.Version, deltas: doc.Deltas, rewindable: doc.Rewindable}
		tx.s.docs[a] = m
	}
	for _, w := range tx.drafts[a] {
		if w.Retire {
			return docMeta{}, ErrNotFound
		}
		m = m.after(w)
	}
	return m, nil
}

func (tx *Tx) value(a Address) (json.RawMessage, int, error) {
	drafts := tx.drafts[a]
	if n := len(drafts); n > 0 && drafts[n-1].Retire {
		return nil, 0, ErrNotFound
	}
	var raw json.RawMessage
	version := 0
	if base := slices.IndexFunc(drafts, func(w DocumentWrite) bool { return w.Base != nil }); base >= 0 {
		raw, version, drafts = drafts[base].Base, drafts[base].Version, drafts[base+1:]
	} else {
		doc, err := tx.s.storage.Document(a, 0)
		if err != nil {
			return nil, 0, err
		}
		raw, version = doc.Value, doc.Version
	}
	for _, w := range drafts {
		var ops []Op
		if err := json.Unmarshal(w.Delta, &ops); err != nil {
			return nil, 0, err
		}
		var err error
		if raw, err = ApplyOps(raw, ops); err != nil {
			return nil, 0, err
		}
	}
	return raw, version, nil
}

func (tx *Tx) putDocument(a Address, version int, rewindable bool, raw json.RawMessage) error {
	w := DocumentWrite{Address: a, Version: version, Rewindable: rewindable, Base: raw}
	m, err := tx.meta(a)
	switch {
	case errors.Is(err, ErrNotFound):
		w.ID, w.Create = DocumentID(tx.mint()), true
	case err != nil:
		return err
	default:
		w.ID = m.id
	}
	tx.draft(w)
	return nil
}

// draft adds w; a base overrides what this commit drafted for the same incarnation before.
func (tx *Tx) draft(w DocumentWrite) {
	tx.write()
	if w.Base != nil {
		for i := len(tx.batch.Documents) - 1; i >= 0; i-- {
			if old := tx.batch.Documents[i]; old.ID == w.ID {
				w.Create = w.Create || old.Create
				tx.batch.Documents = slices.Delete(tx.batch.Documents, i, i+1)
			}
		}
		tx.drafts[w.Address] = slices.DeleteFunc(tx.drafts[w.Address], func(o DocumentWrite) bool { return o.ID == w.ID })
	}
	if tx.drafts == nil {
		tx.drafts = map[Address][]DocumentWrite{}
	}
	tx.drafts[w.Address] = append(tx.drafts[w.Address], w)
	tx.batch.Documents = append(tx.batch.Documents, w)
}

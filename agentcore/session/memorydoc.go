package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// incarnation is one life of a document at its address.
type incarnation struct {
	record    Document // without Version, Value, Deltas: these are per revision
	revisions []revision
}

type revision struct {
	seq     Seq
	version int // of a base
	base    bool
	content []byte
}

func (d *memoryData) admitDocuments(list []DocumentWrite) error {
	born, dead := map[DocumentID]Address{}, map[DocumentID]bool{}
	live := func(id DocumentID) (Address, bool) {
		if a, ok := born[id]; ok {
			return a, !dead[id]
		}
		in := d.documents[id]
		if in == nil || in.record.Retired != 0 || dead[id] {
			return Address{}, false
		}
		return in.record.Address, true
	}
	taken := func(a Address) bool {
		for id := range born {
			if at, ok := live(id); ok && at == a {
				return true
			}
		}
		return slices.ContainsFunc(d.addresses[a], func(id DocumentID) bool { _, ok := live(id); return ok })
	}
	for _, w := range list {
		_, alive := live(w.ID)
		switch {
		case w.Create && (d.documents[w.ID] != nil || born[w.ID] != Address{}):
			return fmt.Errorf("document %d exists", w.ID)
		case w.Create && taken(w.Address):
			return fmt.Errorf("document %d: address %+v is taken", w.ID, w.Address)
		case w.Create:
			born[w.ID] = w.Address
		case !alive:
			return fmt.Errorf("document %d is not live", w.ID)
		case w.Retire:
			dead[w.ID] = true
		}
	}
	return nil
}

func (d *memoryData) write(w DocumentWrite, seq Seq) {
	in := d.documents[w.ID]
	switch {
	case w.Create:
		in = &incarnation{record: Document{ID: w.ID, Address: w.Address, Rewindable: w.Rewindable, Created: seq}}
		d.documents[w.ID] = in
		d.addresses[w.Address] = append(d.addresses[w.Address], w.ID)
	case w.Retire && in.record.Rewindable:
		in.record.Retired = seq
		return
	case w.Retire:
		d.addresses[in.record.Address] = slices.DeleteFunc(d.addresses[in.record.Address], func(id DocumentID) bool { return id == w.ID })
		in.record.Retired = seq
		in.revisions = nil
		return
	case w.Base != nil && !in.record.Rewindable:
		in.revisions = nil
	}
	r := revision{seq: seq, version: w.Version, base: w.Base != nil, content: bytes.Clone(w.Base)}
	if w.Delta != nil {
		r.content = bytes.Clone(w.Delta)
	}
	in.revisions = append(in.revisions, r)
}

// Document returns the incarnation live at an address as of commit at, with its content then, or ErrNotFound.
func (m *Memory) Document(a Address, at Seq) (Document, error) {
	d, err := m.open()
	if err != nil {
		return Document{}, err
	}
	defer d.mu.Unlock()
	at = d.asOf(at)
	for _, id := range d.addresses[a] {
		if in := d.documents[id]; in.live(at) {
			return in.read(at)
		}
	}
	return Document{}, fmt.Errorf("document %+v at %d: %w", a, at, ErrNotFound)
}

// Documents returns the incarnations of one owner live as of commit at, in id order.
func (m *Memory) Documents(scope Scope, owner int64, at Seq) ([]Document, error) {
	d, err := m.open()
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	at = d.asOf(at)
	var list []Document
	for a, all := range d.addresses {
		if a.Scope != scope || a.Owner != owner {
			continue
		}
		for _, id := range all {
			if in := d.documents[id]; in.live(at) {
				doc, err := in.read(at)
				if err != nil {
					return nil, err
				}
				list = append(list, doc)
			}
		}
	}
	slices.SortFunc(list, func(a, b Document) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

func (d *memoryData) asOf(at Seq) Seq {
	if at == 0 {
		return d.state.Seq
	}
	return at
}

// live reports whether there is content to read at that commit: retirement is half-open, and a document that is not
// rewindable has none before its newest base.
func (in *incarnation) live(at Seq) bool {
	return in.record.Created <= at && (in.record.Retired == 0 || at < in.record.Retired) &&
		len(in.revisions) > 0 && in.revisions[0].seq <= at
}

func (in *incarnation) read(at Seq) (Document, error) {
	doc := in.record
	var base json.RawMessage
	var deltas [][]byte
	for _, r := range in.revisions {
		if r.seq > at {
			break
		}
		if r.base {
			base, deltas, doc.Version = r.content, nil, r.version
		} else {
			deltas = append(deltas, r.content)
		}
	}
	value, err := Replay(base, deltas)
	if err != nil {
		return Document{}, fmt.Errorf("document %d at %d: %w", doc.ID, at, err)
	}
	doc.Value, doc.Deltas = value, len(deltas)
	return doc, nil
}

package sessiontest

import (
	"encoding/json"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
)

// document writes one document, whose value is {"n": number, "log": text}.
type document struct {
	s          *subject
	id         session.DocumentID
	at         session.Address
	rewindable bool
}

func (s *subject) document(rewindable bool, scope session.Scope, owner int64, kind string) *document {
	return &document{s: s, rewindable: rewindable, at: session.Address{Scope: scope, Owner: owner, Kind: kind, Key: "k"}}
}

func (d *document) write(w session.DocumentWrite) session.DocumentWrite {
	w.ID, w.Address, w.Rewindable, w.Version = d.id, d.at, d.rewindable, 1
	return w
}

func (d *document) create(value string) session.DocumentWrite {
	d.id = session.DocumentID(d.s.id())
	return d.write(session.DocumentWrite{Create: true, Base: []byte(value)})
}

func (d *document) base(value string) session.DocumentWrite {
	return d.write(session.DocumentWrite{Base: []byte(value)})
}

func (d *document) delta(ops ...session.Op) session.DocumentWrite {
	text, err := json.Marshal(ops)
	if err != nil {
		d.s.Fatal(err)
	}
	return d.write(session.DocumentWrite{Delta: text})
}

func (d *document) retire() session.DocumentWrite {
	return d.write(session.DocumentWrite{Retire: true})
}

func (d *document) commit(writes ...session.DocumentWrite) session.Seq {
	d.s.Helper()
	return d.s.commit(session.Batch{Documents: writes})
}

// is checks the value at a commit; "" means that nothing is there.
func (d *document) is(at session.Seq, want string) {
	d.s.Helper()
	got, err := d.s.Document(d.at, at)
	what := fmt.Sprintf("at commit %d", at)
	if want == "" {
		notFound(d.s, what, err)
		return
	}
	same(d.s, what, got.Value, err, raw("%s", want))
}

var (
	setN   = func(n int) session.Op { return session.Op{Op: session.OpSet, Path: "/n", Value: raw("%d", n)} }
	addLog = func(text string) session.Op {
		return session.Op{Op: session.OpAppend, Path: "/log", Value: raw("%q", text)}
	}
)

func rewindable(s *subject) {
	d := s.document(true, session.ScopeConversation, 1, "app.agent")
	want := map[session.Seq]string{d.commit(d.create(`{"n":0,"log":""}`)): `{"n":0,"log":""}`}
	log := ""
	for n := 1; n <= 12; n++ {
		log += fmt.Sprint(n)
		value := fmt.Sprintf(`{"n":%d,"log":%q}`, n, log)
		if n%5 == 0 {
			want[d.commit(d.base(value))] = value
		} else {
			want[d.commit(d.delta(setN(n), addLog(fmt.Sprint(n))))] = value
		}
	}
	for range 2 {
		for at, value := range want {
			d.is(at, value)
		}
		s.again()
	}
	got, err := s.Document(d.at, 0)
	same(s, "now", got, err, session.Document{ID: d.id, Address: d.at, Version: 1, Rewindable: true, Created: 1, Value: raw(`{"n":12,"log":%q}`, log), Deltas: 2})
	got, err = s.Document(d.at, 5)
	same(s, "then", got.Deltas, err, 4)
}

func latestOnly(s *subject) {
	d := s.document(false, session.ScopeSession, 0, "app.live")
	first := d.commit(d.create(`{"n":0,"log":""}`))
	second := d.commit(d.delta(setN(1)))
	d.is(first, `{"n":0,"log":""}`)
	d.is(second, `{"n":1,"log":""}`)
	third := d.commit(d.base(`{"n":2,"log":"x"}`))
	d.is(first, "")
	d.is(second, "")
	d.is(third, `{"n":2,"log":"x"}`)
	fourth := d.commit(d.delta(addLog("y")))
	d.is(third, `{"n":2,"log":"x"}`)
	d.is(fourth, `{"n":2,"log":"xy"}`)
	d.is(0, `{"n":2,"log":"xy"}`)
	d.commit(d.retire())
	d.is(fourth, "")
	d.is(0, "")
}

func halfOpen(s *subject) {
	d := s.document(true, session.ScopeConversation, 1, "app.agent")
	s.root()
	created := d.commit(d.create(`{"n":1,"log":""}`))
	changed := d.commit(d.delta(setN(2)))
	retired := d.commit(d.retire())
	d.is(created-1, "")
	d.is(created, `{"n":1,"log":""}`)
	d.is(changed, `{"n":2,"log":""}`)
	d.is(retired, "")
	d.is(0, "")
	got, err := s.Document(d.at, changed)
	same(s, "its life", [2]session.Seq{got.Created, got.Retired}, err, [2]session.Seq{created, retired})
}

func twoLives(s *subject) {
	d := s.document(true, session.ScopeConversation, 1, "app.agent")
	first := d.commit(d.create(`{"n":1,"log":""}`))
	firstID, end := d.id, d.retire()
	second := d.commit(end, d.create(`{"n":2,"log":""}`)) // in one commit
	if firstID == d.id {
		s.Fatal("the test reused an id")
	}
	third := d.commit(d.delta(setN(3)))
	d.is(first, `{"n":1,"log":""}`)
	d.is(second, `{"n":2,"log":""}`)
	d.is(third, `{"n":3,"log":""}`)
	got, err := s.Document(d.at, first)
	same(s, "the first life's id", got.ID, err, firstID)
	got, err = s.Document(d.at, 0)
	same(s, "the second life's id", got.ID, err, d.id)
	d.commit(d.retire())
	gone := d.create(`{"n":4,"log":""}`)
	d.commit(gone, d.retire()) // never visible
	d.is(0, "")
	d.is(third, `{"n":3,"log":""}`)
	other := s.document(true, session.ScopeConversation, 1, "app.agent")
	other.at.Key = "another key"
	other.commit(other.create(`{"n":9,"log":""}`))
	d.is(0, "")
	other.is(0, `{"n":9,"log":""}`)
}

func severalWrites(s *subject) {
	d := s.document(false, session.ScopeTask, 7, "app.live")
	seq := d.commit(d.create(`{"n":0,"log":""}`), d.delta(addLog("a")), d.delta(addLog("b"), setN(1)))
	d.is(seq, `{"n":1,"log":"ab"}`)
	seq = d.commit(d.delta(addLog("c")), d.delta(session.Op{Op: session.OpTrim, Path: "/log", N: 2}))
	d.is(seq, `{"n":1,"log":"a"}`)
	got, err := s.Document(d.at, 0)
	same(s, "deltas behind the base", got.Deltas, err, 4)
	seq = d.commit(d.base(`{"n":5,"log":"z"}`), d.delta(addLog("!")))
	d.is(seq, `{"n":5,"log":"z!"}`)
	d.commit(d.delta(setN(6)), d.retire())
	d.is(0, "")
}

func documentRules(s *subject) {
	d := s.document(false, session.ScopeSession, 0, "app.live")
	value := `{"n":0,"log":""}`
	d.commit(d.create(value))
	live := *d
	batch := func(writes ...session.DocumentWrite) session.Batch { return session.Batch{Documents: writes} }
	s.refused("an address that is taken", batch(d.create(value)))
	*d = live
	s.refused("an id that exists", batch(d.write(session.DocumentWrite{Create: true, Base: []byte(value)})))
	s.refused("a base after another write", batch(d.delta(setN(1)), d.base(value)))
	s.refused("two bases", batch(d.base(value), d.base(value)))
	s.refused("a write after the end", batch(d.retire(), d.delta(setN(1))))
	s.refused("two ends", batch(d.retire(), d.retire()))
	s.refused("nothing to write", batch(d.write(session.DocumentWrite{})))
	s.refused("a base and an end in one", batch(d.write(session.DocumentWrite{Base: []byte(value), Retire: true})))
	s.refused("a creation without a base", batch(d.write(session.DocumentWrite{Create: true, Delta: []byte(`[]`)})))
	other := s.document(false, session.ScopeSession, 0, "app.other")
	other.id = session.DocumentID(s.id())
	s.refused("a change of nothing", batch(other.delta(setN(1))))
	s.refused("an end of nothing", batch(other.retire()))
	s.refused("a base of nothing", batch(other.base(value)))
	other.at.Scope = "house"
	s.refused("a scope that does not exist", batch(other.create(value)))
	d.is(0, value)
	d.commit(d.retire())
	s.refused("a change after the end", batch(d.delta(setN(1))))
	s.refused("a second end", batch(d.retire()))
}

func documentsByOwner(s *subject) {
	make := func(rewindable bool, scope session.Scope, owner int64, kind string) *document {
		d := s.document(rewindable, scope, owner, kind)
		d.commit(d.create(`{"n":1,"log":""}`))
		return d
	}
	a := make(true, session.ScopeConversation, 1, "app.a")
	b := make(false, session.ScopeConversation, 1, "app.b")
	make(false, session.ScopeConversation, 2, "app.a")
	make(false, session.ScopeTask, 1, "app.a")
	before := s.state.Seq
	a.commit(a.retire())
	c := make(false, session.ScopeConversation, 1, "app.a")
	b.commit(b.base(`{"n":2,"log":""}`))
	ids := func(at session.Seq) []session.DocumentID {
		docs, err := s.Documents(session.ScopeConversation, 1, at)
		if err != nil {
			s.Fatal(err)
		}
		var got []session.DocumentID
		for _, doc := range docs {
			got = append(got, doc.ID)
		}
		return got
	}
	same(s, "now", ids(0), nil, []session.DocumentID{b.id, c.id})
	same(s, "then, what is still kept of it", ids(before), nil, []session.DocumentID{a.id})
	none, err := s.Documents(session.ScopeTask, 98, 0)
	same(s, "another owner", none, err, nil)
}

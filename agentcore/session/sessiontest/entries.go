package sessiontest

import (
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

func (s *subject) visible(q session.EntryQuery) []session.EntryID {
	s.Helper()
	list, err := s.Entries(q)
	if err != nil {
		s.Fatal(err)
	}
	var got []session.EntryID
	for _, e := range list {
		got = append(got, e.ID)
	}
	return got
}

func (s *subject) sees(what string, q session.EntryQuery, want ...session.EntryID) {
	s.Helper()
	if got := s.visible(q); !slices.Equal(got, want) {
		s.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func entryLimits(s *subject) {
	s.root()
	var e []session.EntryID
	for range 5 {
		e = append(e, s.entry(session.Root))
	}
	q := func(from, to session.EntryID, limit int) session.EntryQuery {
		return session.EntryQuery{Conversation: session.Root, From: from, To: to, Limit: limit}
	}
	s.sees("all", q(0, 0, 0), e[4], e[3], e[2], e[1], e[0])
	s.sees("both limits count", q(e[1], e[3], 0), e[3], e[2], e[1])
	s.sees("from one on", q(e[3], 0, 0), e[4], e[3])
	s.sees("up to one", q(0, e[1], 0), e[1], e[0])
	s.sees("at most", q(0, 0, 2), e[4], e[3])
	s.sees("at most, up to one", q(0, e[2], 2), e[2], e[1])
	s.sees("one", q(e[2], e[2], 0), e[2])
	s.sees("nothing", q(e[3], e[1], 0))
	s.sees("no such conversation", session.EntryQuery{Conversation: 98})
}

func entryPaging(s *subject) {
	s.root()
	var want []session.EntryID
	for range 7 {
		want = append(want, s.entry(session.Root))
	}
	slices.Reverse(want)
	var got []session.EntryID
	q := session.EntryQuery{Conversation: session.Root, Limit: 2}
	for {
		page := s.visible(q)
		got = append(got, page...)
		if len(page) < q.Limit {
			break
		}
		q.To = page[len(page)-1] - 1
		s.entry(session.Root) // arrives while somebody pages
	}
	if !slices.Equal(got, want) {
		s.Errorf("got %v, want %v", got, want)
	}
}

func (s *subject) fork(from session.ConversationID, at session.EntryID) session.ConversationID {
	s.Helper()
	id := session.ConversationID(s.id())
	s.commit(session.Batch{Conversations: []session.Conversation{{ID: id, Parent: &session.Fork{Conversation: from, At: at}}}})
	return id
}

func forkVisibility(s *subject) {
	s.root()
	r1, r2 := s.entry(session.Root), s.entry(session.Root)
	child := s.fork(session.Root, r2)
	r3 := s.entry(session.Root)
	c1, c2 := s.entry(child), s.entry(child)
	grandchild := s.fork(child, c1)
	c3 := s.entry(child)
	early := s.fork(child, r1) // forked in the part that the child inherits
	empty := s.fork(session.Root, 0)
	g1, y1, n1 := s.entry(grandchild), s.entry(early), s.entry(empty)

	all := func(c session.ConversationID) session.EntryQuery { return session.EntryQuery{Conversation: c} }
	s.sees("the root sees its own", all(session.Root), r3, r2, r1)
	s.sees("a fork sees up to the fork", all(child), c3, c2, c1, r2, r1)
	s.sees("two levels, both capped", all(grandchild), g1, c1, r2, r1)
	s.sees("a cap carries through to the ancestor", all(early), y1, r1)
	s.sees("a fork of nothing sees its own", all(empty), n1)
	s.sees("limits count over levels", session.EntryQuery{Conversation: grandchild, Limit: 3}, g1, c1, r2)
	s.sees("a range over levels", session.EntryQuery{Conversation: grandchild, From: r2, To: c1}, c1, r2)
	s.sees("a range below the fork", session.EntryQuery{Conversation: grandchild, To: r1}, r1)
	s.sees("the newest only", session.EntryQuery{Conversation: child, From: c3}, c3)
}

func newestHead(s *subject) {
	s.root()
	head := func(c session.ConversationID, at session.EntryID) session.EntryID {
		id := session.EntryID(s.id())
		if at == 0 {
			at = id
		}
		s.commit(session.Batch{Entries: []session.Entry{{ID: id, Conversation: c, Kind: "app.head", Head: at}}})
		return id
	}
	r1 := s.entry(session.Root)
	h1 := head(session.Root, 0)
	r2 := s.entry(session.Root)
	child := s.fork(session.Root, r2)
	before := s.fork(session.Root, r1)
	h2 := head(session.Root, r2)
	c1 := s.entry(child)
	is := func(what string, c session.ConversationID, at, want session.EntryID) {
		s.Helper()
		got, err := s.NewestHead(c, at)
		if want == 0 {
			notFound(s, what, err)
			return
		}
		same(s, what, got.ID, err, want)
	}
	is("the newest", session.Root, 0, h2)
	is("at a cutoff", session.Root, h2-1, h1)
	is("the cutoff itself counts", session.Root, h1, h1)
	is("none so early", session.Root, r1, 0)
	is("a fork does not see a later one of its parent", child, 0, h1)
	is("a fork before any", before, 0, 0)
	h3 := head(child, c1)
	is("a fork's own", child, 0, h3)
	is("the parent's at the fork's cutoff", child, c1, h1)
	is("the parent is untouched", session.Root, 0, h2)
	got, err := s.NewestHead(child, 0)
	same(s, "where it starts", got.Head, err, c1)
}

func longTail(s *subject) {
	s.root()
	const many = 3000
	var b session.Batch
	for range many {
		b.Entries = append(b.Entries, session.Entry{ID: session.EntryID(s.id()), Conversation: session.Root, Kind: "app.note", Data: raw(`"%0200d"`, 0)})
	}
	s.commit(b)
	last := b.Entries[many-1].ID
	s.sees("the tail", session.EntryQuery{Conversation: session.Root, Limit: 2}, last, last-1)
	s.sees("the middle", session.EntryQuery{Conversation: session.Root, To: last - many/2, Limit: 1}, last-many/2)
}

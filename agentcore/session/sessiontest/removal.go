package sessiontest

import "github.com/workflowd/workflowd/agentcore/session"

// filled is a conversation with one record of each kind, and what a test needs to ask for them.
type filled struct {
	id   session.ConversationID
	task session.Task
	sub  session.Submission
	note session.EntryID
	docs []session.Address
}

func (s *subject) filled(status session.TaskStatus) filled {
	s.Helper()
	f := filled{id: session.ConversationID(s.id())}
	f.task = session.Task{ID: session.TaskID(s.id()), Conversation: f.id, Kind: "app.job", Status: status}
	f.sub = session.Submission{ID: session.SubmissionID(s.id()), Conversation: f.id, RequestID: "r", Digest: "d", Status: session.SubmissionPlaced}
	f.note = session.EntryID(s.id())
	b := session.Batch{Conversations: []session.Conversation{{ID: f.id}}, Tasks: []session.Task{f.task}, Submissions: []session.Submission{f.sub},
		Entries: []session.Entry{{ID: f.note, Conversation: f.id, Kind: "app.note", Head: f.note}}}
	for _, w := range []session.DocumentWrite{
		{Address: session.Address{Scope: session.ScopeConversation, Owner: int64(f.id), Kind: "app.past"}, Rewindable: true},
		{Address: session.Address{Scope: session.ScopeConversation, Owner: int64(f.id), Kind: "app.live", Key: "k"}},
		{Address: session.Address{Scope: session.ScopeTask, Owner: int64(f.task.ID), Kind: "app.out"}},
	} {
		w.ID, w.Create, w.Base = session.DocumentID(s.id()), true, []byte(`{"n":1,"log":""}`)
		b.Documents = append(b.Documents, w)
		f.docs = append(f.docs, w.Address)
	}
	s.commit(b)
	return f
}

// there checks that every record of a conversation exists, or that none does, now and in the past.
func (f filled) there(s *subject, what string, want bool) {
	s.Helper()
	if want {
		got, err := s.Task(f.task.ID)
		same(s, what+": task", got, err, f.task)
		sub, err := s.SubmissionByRequest(f.id, "r")
		same(s, what+": submission", sub, err, f.sub)
		s.sees(what, session.EntryQuery{Conversation: f.id, To: f.note}, f.note)
		for _, a := range f.docs {
			doc, err := s.Document(a, 0)
			same(s, what+": document", doc.Value, err, raw(`{"n":1,"log":""}`))
		}
		return
	}
	_, err := s.Conversation(f.id)
	notFound(s, what+": conversation", err)
	_, err = s.Task(f.task.ID)
	notFound(s, what+": task", err)
	_, err = s.Submission(f.sub.ID)
	notFound(s, what+": submission", err)
	_, err = s.SubmissionByRequest(f.id, "r")
	notFound(s, what+": request", err)
	_, err = s.Entry(f.note)
	notFound(s, what+": entry", err)
	_, err = s.NewestHead(f.id, 0)
	notFound(s, what+": head", err)
	s.sees(what, session.EntryQuery{Conversation: f.id})
	for _, a := range f.docs {
		for at := range s.state.Seq + 1 {
			_, err := s.Document(a, at)
			notFound(s, what+": document", err)
		}
	}
	tasks, err := s.Tasks(session.TaskQuery{Conversation: f.id})
	same(s, what+": tasks", tasks, err, nil)
	subs, err := s.Submissions(f.id)
	same(s, what+": submissions", subs, err, nil)
}

func removed(s *subject) {
	s.root()
	one, two := s.filled(session.TaskTerminal), s.filled(session.TaskWaiting)
	past := session.DocumentWrite{ID: session.DocumentID(s.id()), Address: session.Address{Scope: session.ScopeConversation, Owner: int64(one.id), Kind: "app.past", Key: "second"},
		Create: true, Rewindable: true, Base: []byte(`1`)}
	s.commit(session.Batch{Documents: []session.DocumentWrite{past}})
	s.commit(session.Batch{Documents: []session.DocumentWrite{{ID: past.ID, Address: past.Address, Rewindable: true, Retire: true}}})
	one.docs = append(one.docs, past.Address)
	s.commit(session.Batch{Removals: []session.ConversationID{one.id}})
	for range 2 {
		one.there(s, "removed", false)
		two.there(s, "the neighbour", true)
		all, err := s.Conversations()
		same(s, "conversations", all, err, []session.Conversation{{ID: session.Root}, {ID: two.id}})
		s.again()
	}
	// What the batch itself writes there goes too, and a task may end in it.
	ended := two.task
	ended.Status, ended.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Aborted}
	two.note = session.EntryID(s.id())
	s.commit(session.Batch{Tasks: []session.Task{ended}, Entries: []session.Entry{{ID: two.note, Conversation: two.id, Kind: "app.note"}},
		Removals: []session.ConversationID{two.id}})
	two.there(s, "ended and removed", false)
	s.entry(session.Root)
}

func removedForks(s *subject) {
	s.root()
	r1 := s.entry(session.Root)
	child := s.fork(session.Root, r1)
	c1 := s.entry(child)
	grandchild := s.fork(child, c1)
	inherited := s.fork(child, r1) // shows nothing of its parent's own
	g1 := s.entry(grandchild)
	remove := func(list ...session.ConversationID) session.Batch { return session.Batch{Removals: list} }
	s.refused("a conversation with forks", remove(child))
	s.refused("a conversation with a fork that stays", remove(child, grandchild))
	s.refused("a conversation that is forked in the same batch", session.Batch{Removals: []session.ConversationID{inherited},
		Conversations: []session.Conversation{{ID: session.ConversationID(s.id()), Parent: &session.Fork{Conversation: inherited, At: r1}}}})
	s.sees("nothing is lost", session.EntryQuery{Conversation: grandchild}, g1, c1, r1)
	s.commit(remove(inherited))
	s.commit(remove(child, grandchild)) // parents first or last
	s.sees("the source stays", session.EntryQuery{Conversation: session.Root}, r1)
	all, err := s.Conversations()
	same(s, "conversations", all, err, []session.Conversation{{ID: session.Root}})
}

func removalRules(s *subject) {
	s.root()
	live := s.filled(session.TaskPending)
	quiet := s.filled(session.TaskTerminal)
	remove := func(list ...session.ConversationID) session.Batch { return session.Batch{Removals: list} }
	s.refused("the main conversation", remove(session.Root))
	s.refused("no conversation", remove(session.ConversationID(s.id())))
	s.refused("a conversation twice", remove(quiet.id, quiet.id))
	s.refused("a conversation with a live task", remove(live.id))
	s.refused("one of two cannot go", remove(quiet.id, live.id))
	fresh := session.Task{ID: session.TaskID(s.id()), Conversation: quiet.id, Kind: "app.job", Status: session.TaskPending}
	s.refused("a task comes to life in the same batch", session.Batch{Tasks: []session.Task{fresh}, Removals: []session.ConversationID{quiet.id}})
	born := session.ConversationID(s.id())
	s.refused("a conversation of the same batch", session.Batch{Conversations: []session.Conversation{{ID: born}}, Removals: []session.ConversationID{born}})
	live.there(s, "the busy one", true)
	quiet.there(s, "the quiet one", true)
	s.commit(remove(quiet.id))
	s.refused("a conversation that is gone", remove(quiet.id))
	entry := session.Entry{ID: session.EntryID(s.id()), Conversation: quiet.id, Kind: "app.note"}
	s.refused("an entry of a conversation that is gone", session.Batch{Entries: []session.Entry{entry}})
}

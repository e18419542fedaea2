package sessiontest

import (
	"context"
	"errors"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

func newStore(s *subject) {
	if s.state.StoreID == "" || s.state.Epoch < 1 || s.state.Seq != 0 || s.state.NextID != int64(session.Root)+1 {
		s.Errorf("got %+v", s.state)
	}
	if all, err := s.Conversations(); err != nil || len(all) != 0 {
		s.Errorf("conversations: %v, %v", all, err)
	}
	if all, err := s.Entries(session.EntryQuery{Conversation: session.Root}); err != nil || len(all) != 0 {
		s.Errorf("entries: %v, %v", all, err)
	}
	if all, err := s.Tasks(session.TaskQuery{Live: true}); err != nil || len(all) != 0 {
		s.Errorf("tasks: %v, %v", all, err)
	}
}

// full returns a batch with one record of every kind in which every field is set.
func (s *subject) full() session.Batch {
	owner, child, conversation := session.TaskID(s.id()), session.TaskID(s.id()), session.ConversationID(s.id())
	target, entry, sub := session.EntryID(s.id()), session.EntryID(s.id()), session.SubmissionID(s.id())
	return session.Batch{
		Durability: session.Synced,
		Conversations: []session.Conversation{{ID: session.Root},
			{ID: conversation, Parent: &session.Fork{Conversation: session.Root, At: target}, Owner: owner}},
		Entries: []session.Entry{
			{ID: target, Conversation: session.Root, Kind: "app.note"},
			{ID: entry, Conversation: conversation, Kind: "app.note", Model: raw(`{"b":1, "a":"<é\u2028>"}`), Data: raw(`[1.50,null]`), Head: target,
				Edits: []session.Edit{{Target: target, Model: raw(`{"x": []}`)}, {Target: target}}, ByTask: owner},
		},
		Tasks: []session.Task{
			{ID: owner, Conversation: session.Root, Kind: "app.job", Version: 3, Status: session.TaskWaiting, Phase: "await",
				Checkpoint: raw(`{"phase":"await"}`), On: []session.TaskID{child}, Policy: "failFast", Epoch: 1, Input: raw(`"in"`), Memos: raw(`{"k":1}`),
				Starts: 2, Abandon: true},
			{ID: child, Conversation: conversation, Kind: "app.job", Version: 1, Owner: owner, Background: true, Status: session.TaskTerminal,
				Outcome: &session.Outcome{Status: session.Failed, Result: raw(`{"r":2}`), Error: "broke", Reason: "because"}, Abort: true,
				AbortReason: "stop", Epoch: 1},
		},
		Submissions: []session.Submission{{ID: sub, Conversation: session.Root, RequestID: "req 1", Digest: "d", Status: session.SubmissionAnswered,
			Payload: raw(`{"text":"hi"}`), Entry: target, Answer: entry, Reason: "r", Detail: "x"}},
	}
}

func recordsSurvive(s *subject) {
	b := s.full()
	seq := s.commit(b)
	s.again()
	for _, want := range b.Conversations {
		got, err := s.Conversation(want.ID)
		same(s, "conversation", got, err, want)
	}
	all, err := s.Conversations()
	same(s, "conversations", all, err, b.Conversations)
	for _, want := range b.Entries {
		want.Seq = seq
		got, err := s.Entry(want.ID)
		same(s, "entry", got, err, want)
	}
	for _, want := range b.Tasks {
		got, err := s.Task(want.ID)
		same(s, "task", got, err, want)
	}
	for _, want := range b.Submissions {
		got, err := s.Submission(want.ID)
		same(s, "submission", got, err, want)
	}
}

func countersGoOn(s *subject) {
	first := s.state
	for want := session.Seq(1); want <= 3; want++ {
		id := s.id()
		batch := session.Batch{Conversations: []session.Conversation{{ID: session.ConversationID(id)}}}
		if seq := s.commit(batch); seq != want {
			s.Errorf("commit %d got number %d", want, seq)
		}
	}
	before := s.state
	s.again()
	if s.state.StoreID != first.StoreID || s.state.Seq != 3 || s.state.NextID != before.NextID {
		s.Errorf("got %+v after %+v", s.state, before)
	}
	if s.state.Epoch <= before.Epoch {
		s.Errorf("the epoch went from %d to %d", before.Epoch, s.state.Epoch)
	}
}

func recordsAreReplaced(s *subject) {
	b := s.full()
	s.commit(b)
	task := session.Task{ID: b.Tasks[0].ID, Conversation: session.Root, Kind: "app.job", Status: session.TaskTerminal,
		Outcome: &session.Outcome{Status: session.Completed}, Epoch: 2}
	sub := b.Submissions[0]
	sub.Status, sub.Detail, sub.Entry = session.SubmissionUnanswered, "", 0
	s.commit(session.Batch{Tasks: []session.Task{task}, Submissions: []session.Submission{sub}})
	gotTask, err := s.Task(task.ID)
	same(s, "task", gotTask, err, task)
	gotSub, err := s.Submission(sub.ID)
	same(s, "submission", gotSub, err, sub)
}

func missingRecords(s *subject) {
	s.root()
	_, err := s.Conversation(99)
	notFound(s, "conversation", err)
	_, err = s.Entry(99)
	notFound(s, "entry", err)
	_, err = s.Task(99)
	notFound(s, "task", err)
	_, err = s.Submission(99)
	notFound(s, "submission", err)
	_, err = s.SubmissionByRequest(session.Root, "none")
	notFound(s, "request", err)
	_, err = s.SubmissionByRequest(session.Root, "")
	notFound(s, "no request id", err)
	_, err = s.NewestHead(session.Root, 0)
	notFound(s, "head", err)
	_, err = s.Document(session.Address{Scope: session.ScopeSession, Kind: "none"}, 0)
	notFound(s, "document", err)
}

func requestIDs(s *subject) {
	s.root()
	other := session.ConversationID(s.id())
	sub := func(c session.ConversationID, request string, status session.SubmissionStatus) session.Submission {
		return session.Submission{ID: session.SubmissionID(s.id()), Conversation: c, RequestID: request, Digest: "d", Status: status}
	}
	first, second := sub(session.Root, "r", session.SubmissionQueued), sub(other, "r", session.SubmissionPlaced)
	plain, plain2 := sub(session.Root, "", session.SubmissionPlaced), sub(session.Root, "", session.SubmissionQueued)
	s.commit(session.Batch{Conversations: []session.Conversation{{ID: other}}, Submissions: []session.Submission{first, second, plain, plain2}})
	got, err := s.SubmissionByRequest(session.Root, "r")
	same(s, "request of the root", got, err, first)
	got, err = s.SubmissionByRequest(other, "r")
	same(s, "request of the other", got, err, second)
	s.refused("a request id twice", session.Batch{Submissions: []session.Submission{sub(other, "r", session.SubmissionQueued)}})
	moved := first
	moved.Conversation = other
	s.refused("a submission that moves", session.Batch{Submissions: []session.Submission{moved}})
	list, err := s.Submissions(session.Root)
	same(s, "all", list, err, []session.Submission{first, plain, plain2})
	list, err = s.Submissions(session.Root, session.SubmissionQueued)
	same(s, "queued", list, err, []session.Submission{first, plain2})
	list, err = s.Submissions(session.Root, session.SubmissionPlaced, session.SubmissionQueued, session.SubmissionPlaced)
	same(s, "two states", list, err, []session.Submission{first, plain, plain2})
	list, err = s.Submissions(session.Root, session.SubmissionWithdrawn)
	same(s, "withdrawn", list, err, nil)
}

func taskQueries(s *subject) {
	s.root()
	other := session.ConversationID(s.id())
	var all []session.Task
	add := func(c session.ConversationID, owner session.TaskID, status session.TaskStatus) session.TaskID {
		t := session.Task{ID: session.TaskID(s.id()), Conversation: c, Kind: "app.job", Owner: owner, Status: status}
		all = append(all, t)
		return t.ID
	}
	top := add(session.Root, 0, session.TaskWaiting)
	add(session.Root, top, session.TaskTerminal)
	add(other, top, session.TaskPending)
	add(other, 0, session.TaskTerminal)
	add(session.Root, 0, session.TaskCompleting)
	s.commit(session.Batch{Conversations: []session.Conversation{{ID: other}}, Tasks: all})
	for _, test := range []struct {
		name string
		q    session.TaskQuery
		want []int
	}{
		{"all", session.TaskQuery{}, []int{0, 1, 2, 3, 4}},
		{"live", session.TaskQuery{Live: true}, []int{0, 2, 4}},
		{"of a conversation", session.TaskQuery{Conversation: other}, []int{2, 3}},
		{"live of a conversation", session.TaskQuery{Conversation: session.Root, Live: true}, []int{0, 4}},
		{"of an owner", session.TaskQuery{Owner: top}, []int{1, 2}},
		{"live of an owner in a conversation", session.TaskQuery{Owner: top, Conversation: other, Live: true}, []int{2}},
		{"the newest two, oldest first", session.TaskQuery{Limit: 2}, []int{3, 4}},
		{"the newest live one", session.TaskQuery{Live: true, Limit: 1}, []int{4}},
		{"a limit above the number", session.TaskQuery{Owner: top, Limit: 9}, []int{1, 2}},
		{"none", session.TaskQuery{Owner: 98}, nil},
	} {
		var want []session.Task
		for _, i := range test.want {
			want = append(want, all[i])
		}
		got, err := s.Tasks(test.q)
		same(s, test.name, got, err, want)
	}
}

func noSharedMemory(s *subject) {
	b := s.full()
	doc := session.Address{Scope: session.ScopeSession, Kind: "app.doc"}
	b.Documents = []session.DocumentWrite{{ID: session.DocumentID(s.id()), Address: doc, Create: true, Base: []byte(`{"v":"kept"}`)}}
	s.commit(b)
	scribble := func(list ...[]byte) {
		for _, text := range list {
			for i := range text {
				text[i] = '#'
			}
		}
	}
	for range 2 { // what was given, then what was returned
		e, sub := b.Entries[1], b.Submissions[0]
		scribble(e.Model, e.Data, e.Edits[0].Model, sub.Payload, b.Documents[0].Base)
		task, done := b.Tasks[0], b.Tasks[1]
		scribble(task.Checkpoint, task.Input, task.Memos, done.Outcome.Result)
		task.On[0], done.Outcome.Error, e.Edits[0].Target, b.Conversations[1].Parent.At = 0, "", 0, 0
		var err error
		if b.Entries[1], err = s.Entry(e.ID); err != nil {
			s.Fatal(err)
		}
		for i := range b.Tasks {
			if b.Tasks[i], err = s.Task(b.Tasks[i].ID); err != nil {
				s.Fatal(err)
			}
		}
		if b.Submissions[0], err = s.Submission(sub.ID); err != nil {
			s.Fatal(err)
		}
		if b.Conversations[1], err = s.Conversation(b.Conversations[1].ID); err != nil {
			s.Fatal(err)
		}
		got, err := s.Document(doc, 0)
		if err != nil {
			s.Fatal(err)
		}
		b.Documents[0].Base = got.Value
	}
	s.state.NextID = int64(session.Root) + 1 // the same numbers again give the record as it was
	want := s.full()
	same(s, "entry", b.Entries[1].Model, nil, want.Entries[1].Model)
	same(s, "edits", b.Entries[1].Edits, nil, want.Entries[1].Edits)
	same(s, "tasks", b.Tasks, nil, want.Tasks)
	same(s, "submissions", b.Submissions, nil, want.Submissions)
	same(s, "conversations", b.Conversations, nil, want.Conversations)
	same(s, "document", raw("%s", b.Documents[0].Base), nil, raw(`{"v":"kept"}`))
}

func refusedBatches(s *subject) {
	s.root()
	note := s.entry(session.Root)
	rest := session.Batch{
		Conversations: []session.Conversation{{ID: session.ConversationID(s.id())}},
		Tasks:         []session.Task{{ID: session.TaskID(s.id()), Conversation: session.Root, Kind: "app.job", Status: session.TaskPending}},
		Submissions:   []session.Submission{{ID: session.SubmissionID(s.id()), Conversation: session.Root, RequestID: "r", Status: session.SubmissionQueued}},
	}
	fresh := session.Entry{ID: session.EntryID(s.id()), Conversation: session.Root, Kind: "app.note"}
	entries := func(list ...session.Entry) session.Batch {
		b := rest
		b.Entries = append([]session.Entry{fresh}, list...)
		return b
	}
	s.refused("an entry that exists", entries(session.Entry{ID: note, Conversation: session.Root, Kind: "app.note"}))
	s.refused("an entry twice", entries(fresh))
	s.refused("an entry of no conversation", entries(session.Entry{ID: session.EntryID(s.id()), Conversation: 98, Kind: "app.note"}))
	s.refused("an id that was not minted", entries(session.Entry{ID: session.EntryID(s.state.NextID), Conversation: session.Root}))
	s.refused("an id below one", entries(session.Entry{Conversation: session.Root}))
	again := entries()
	again.Conversations = append(slices.Clone(rest.Conversations), session.Conversation{ID: session.Root})
	s.refused("a conversation that exists", again)
	orphan := entries()
	orphan.Conversations = append(slices.Clone(rest.Conversations),
		session.Conversation{ID: session.ConversationID(s.id()), Parent: &session.Fork{Conversation: 98, At: note}})
	s.refused("a fork of nothing", orphan)
	early := entries()
	early.Conversations = append(slices.Clone(rest.Conversations), session.Conversation{ID: session.ConversationID(s.id()), Owner: session.TaskID(s.id())})
	s.refused("a conversation older than its owner", early)
	last := entries()
	last.Documents = []session.DocumentWrite{{ID: session.DocumentID(s.id()), Delta: []byte(`[]`)}}
	s.refused("a batch whose last record is wrong", last)

	_, err := s.Entry(fresh.ID)
	notFound(s, "the entry before the wrong record", err)
	_, err = s.Conversation(rest.Conversations[0].ID)
	notFound(s, "its conversation", err)
	_, err = s.Task(rest.Tasks[0].ID)
	notFound(s, "its task", err)
	_, err = s.SubmissionByRequest(session.Root, "r")
	notFound(s, "its submission", err)
	before := s.state
	s.again()
	if s.state.Seq != before.Seq || s.state.NextID > before.NextID {
		s.Errorf("got %+v after %+v", s.state, before)
	}
	want := before.Seq
	s.state.NextID = before.NextID
	if seq := s.commit(entries()); seq != want+1 {
		s.Errorf("the next commit has number %d, want %d", seq, want+1)
	}
}

func countersNeverGoBack(s *subject) {
	s.root()
	for why, b := range map[string]session.Batch{
		"the same number again":    {Seq: s.state.Seq, NextID: s.state.NextID},
		"no number":                {NextID: s.state.NextID},
		"ids that are handed back": {Seq: s.state.Seq + 1, NextID: s.state.NextID - 1},
	} {
		b.Epoch = s.state.Epoch
		if err := s.Commit(&b); !errors.Is(err, session.ErrNoEffect) {
			s.Errorf("%s: got %v, want ErrNoEffect", why, err)
		}
	}
}

// staleOwner opens the data a second time as the memory store allows it; stores with a lock prove the same with the lock
// lost in a test of their own. Here the older epoch is presented to the newer owner's handle.
func staleOwner(s *subject) {
	s.root()
	old := s.state.Epoch
	s.again()
	if s.state.Epoch <= old {
		s.Fatalf("the epoch went from %d to %d", old, s.state.Epoch)
	}
	id := session.EntryID(s.id())
	err := s.Commit(&session.Batch{Epoch: old, Seq: s.state.Seq + 1, NextID: s.state.NextID,
		Entries: []session.Entry{{ID: id, Conversation: session.Root, Kind: "app.note"}}})
	if !errors.Is(err, session.ErrStale) {
		s.Errorf("got %v, want ErrStale", err)
	}
	_, err = s.Entry(id)
	notFound(s, "the stale owner's entry", err)
	s.entry(session.Root) // the owner in force goes on
}

func closedStore(s *subject) {
	s.root()
	if err := s.Close(); err != nil {
		s.Fatal(err)
	}
	if err := s.Close(); err != nil {
		s.Errorf("a second close: %v", err)
	}
	closed := s.Storage
	s.Storage = s.reopen()
	b := session.Batch{Epoch: s.state.Epoch, Seq: s.state.Seq + 1, NextID: s.state.NextID}
	_, acquire := closed.Acquire(context.Background())
	_, conversation := closed.Conversation(session.Root)
	_, conversations := closed.Conversations()
	_, entry := closed.Entry(1)
	_, entries := closed.Entries(session.EntryQuery{Conversation: session.Root})
	_, head := closed.NewestHead(session.Root, 0)
	_, task := closed.Task(1)
	_, tasks := closed.Tasks(session.TaskQuery{})
	_, sub := closed.Submission(1)
	_, subs := closed.Submissions(session.Root)
	_, request := closed.SubmissionByRequest(session.Root, "r")
	address := session.Address{Scope: session.ScopeSession, Kind: "app.doc"}
	_, doc := closed.Document(address, 0)
	_, docs := closed.Documents(address.Scope, 0, 0)
	for i, err := range []error{acquire, closed.Commit(&b), conversation, conversations, entry, entries, head, task, tasks, sub, subs, request, doc, docs} {
		if !errors.Is(err, session.ErrClosed) {
			s.Errorf("call %d on a closed store: got %v, want ErrClosed", i, err)
		}
	}
}

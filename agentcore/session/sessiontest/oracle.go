package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// The size of an oracle run.
const (
	oracleRuns    = 6
	oracleBatches = 40
	oraclePast    = 5 // past commits at which documents are compared after each batch; after the last, all of them
)

// Oracle applies random batches, some of them wrong, to the store and to the memory store, and compares every read after
// every batch. Now and then it reopens the store. The randomness is fixed: a failure names its run and repeats.
func Oracle(t *testing.T, open Opener) {
	for run := range uint64(oracleRuns) {
		t.Run(fmt.Sprintf("run %d", run), func(t *testing.T) {
			o := &oracle{rnd: rand.New(rand.NewPCG(run, 0)), model: session.NewMemory(), docs: map[session.Address]bool{}}
			o.subject = start(t, open, false)
			if _, err := o.model.Acquire(context.Background()); err != nil {
				t.Fatal(err)
			}
			for n := range oracleBatches {
				o.last = n == oracleBatches-1
				o.step()
				if t.Failed() {
					return
				}
			}
		})
	}
}

type oracle struct {
	*subject
	rnd           *rand.Rand
	model         *session.Memory
	conversations []session.ConversationID
	entries       []session.EntryID
	tasks         []session.TaskID
	submissions   []session.Submission
	live          []session.DocumentWrite // one per live document, with its address
	docs          map[session.Address]bool
	last          bool // the batch at hand is the last one
}

func pick[T any](o *oracle, list []T) (v T) {
	if len(list) > 0 {
		v = list[o.rnd.IntN(len(list))]
	}
	return v
}

func (o *oracle) chance(percent int) bool { return o.rnd.IntN(100) < percent }

func (o *oracle) maybe() json.RawMessage {
	if o.chance(30) {
		return nil
	}
	return raw(`{"r": %d, "s":"<%d>"}`, o.rnd.IntN(9), o.rnd.IntN(9))
}

// step drafts a batch, gives it to both stores and compares them.
func (o *oracle) step() {
	o.Helper()
	before := o.state.NextID
	next := *o // what is known if the batch is taken
	next.conversations, next.live = append([]session.ConversationID(nil), o.conversations...), append([]session.DocumentWrite(nil), o.live...)
	next.submissions = append([]session.Submission(nil), o.submissions...)
	var b session.Batch
	if o.state.Seq == 0 {
		b.Conversations = append(b.Conversations, session.Conversation{ID: session.Root})
		next.conversations = append(next.conversations, session.Root)
	}
	for range o.rnd.IntN(5) {
		next.draft(&b)
	}
	if o.chance(30) {
		b.Durability = session.Synced
	}
	wrong := o.chance(20)
	if wrong {
		o.spoil(&b)
	}
	b.Epoch, b.Seq, b.NextID = o.state.Epoch, o.state.Seq+1, o.state.NextID
	modelBatch := b
	modelBatch.Epoch = 1
	want, got := o.model.Commit(&modelBatch), o.Commit(&b)
	if (want == nil) != (got == nil) || errors.Is(want, session.ErrNoEffect) != errors.Is(got, session.ErrNoEffect) {
		o.Fatalf("commit %d: got %v, the memory store says %v\n%+v", b.Seq, got, want, b)
	}
	if want == nil {
		next.state.Seq, next.state.NextID = b.Seq, b.NextID
		*o = next
	} else {
		o.state.NextID = max(o.state.NextID, before)
	}
	if o.chance(15) {
		seq := o.state.Seq
		o.again()
		if o.state.Seq != seq {
			o.Errorf("after a reopen the sequence is %d, want %d", o.state.Seq, seq)
		}
	}
	o.compare()
}

func (o *oracle) draft(b *session.Batch) {
	switch o.rnd.IntN(8) {
	case 0:
		c := session.Conversation{ID: session.ConversationID(o.id()), Owner: pick(o, o.tasks)}
		if o.chance(70) {
			c.Parent = &session.Fork{Conversation: pick(o, o.conversations), At: pick(o, o.entries)}
		}
		b.Conversations = append(b.Conversations, c)
		o.conversations = append(o.conversations, c.ID)
	case 1, 2:
		e := session.Entry{ID: session.EntryID(o.id()), Conversation: pick(o, o.conversations), Kind: "app.note", Model: o.maybe(), Data: o.maybe()}
		if o.chance(25) {
			e.Head = e.ID
		}
		if o.chance(20) {
			e.Edits = []session.Edit{{Target: pick(o, o.entries), Model: o.maybe()}}
		}
		b.Entries = append(b.Entries, e)
		o.entries = append(o.entries[:len(o.entries):len(o.entries)], e.ID)
	case 3:
		id := pick(o, o.tasks)
		if id == 0 || o.chance(50) {
			id = session.TaskID(o.id())
			o.tasks = append(o.tasks[:len(o.tasks):len(o.tasks)], id)
		}
		task := session.Task{ID: id, Conversation: pick(o, o.conversations), Kind: "app.job", Checkpoint: o.maybe(), Memos: o.maybe(),
			Status: pick(o, []session.TaskStatus{session.TaskPending, session.TaskWaiting, session.TaskCompleting, session.TaskTerminal})}
		task.Abandon = o.chance(30)
		if o.chance(30) {
			task.Starts = 1
		}
		if owner := pick(o, o.tasks); owner < id && o.chance(40) {
			task.Owner = owner
		}
		if task.Status == session.TaskTerminal {
			task.Outcome = &session.Outcome{Status: session.Completed, Result: o.maybe()}
		}
		b.Tasks = append(b.Tasks, task)
	case 4:
		sub := pick(o, o.submissions)
		if sub.ID == 0 || o.chance(50) {
			sub = session.Submission{ID: session.SubmissionID(o.id()), Conversation: pick(o, o.conversations), Digest: "d"}
			if o.chance(80) {
				sub.RequestID = fmt.Sprint("r", o.rnd.IntN(20)) // some repeat: refused
			}
			o.submissions = append(o.submissions, sub)
		}
		sub.Status, sub.Payload = pick(o, []session.SubmissionStatus{session.SubmissionQueued, session.SubmissionPlaced}), o.maybe()
		b.Submissions = append(b.Submissions, sub)
	default:
		o.draftDocument(b)
	}
}

func (o *oracle) draftDocument(b *session.Batch) {
	if len(o.live) == 0 || o.chance(25) {
		w := session.DocumentWrite{ID: session.DocumentID(o.id()), Create: true, Version: o.rnd.IntN(3), Rewindable: o.chance(50), Base: raw(`{"n":0,"log":""}`)}
		w.Address = session.Address{Scope: session.ScopeConversation, Owner: int64(1 + o.rnd.IntN(2)), Kind: "app.doc", Key: fmt.Sprint(o.rnd.IntN(4))}
		b.Documents = append(b.Documents, w)
		o.docs[w.Address] = true
		o.live = append(o.live, w)
		return
	}
	i := o.rnd.IntN(len(o.live))
	w := o.live[i]
	w.Create, w.Base = false, nil
	switch o.rnd.IntN(6) {
	case 0:
		w.Retire = true
		o.live = append(o.live[:i:i], o.live[i+1:]...)
	case 1:
		w.Base = raw(`{"n":%d,"log":"b"}`, o.rnd.IntN(9))
	default:
		w.Delta = raw(`[{"op":"set","path":"/n","value":%d},{"op":"append","path":"/log","value":"%d"}]`, o.rnd.IntN(9), o.rnd.IntN(9))
	}
	b.Documents = append(b.Documents, w)
}

// spoil adds something wrong to the batch.
func (o *oracle) spoil(b *session.Batch) {
	switch o.rnd.IntN(4) {
	case 0:
		b.Entries = append(b.Entries, session.Entry{ID: session.EntryID(o.id()), Conversation: 1 << 40, Kind: "app.note"})
	case 1:
		b.Documents = append(b.Documents, session.DocumentWrite{ID: session.DocumentID(o.id()), Retire: true})
	case 2:
		b.Tasks = append(b.Tasks, session.Task{ID: session.TaskID(o.state.NextID + 5), Conversation: session.Root, Status: session.TaskPending})
	default:
		b.Conversations = append(b.Conversations, session.Conversation{ID: session.Root}, session.Conversation{ID: session.Root})
	}
}

// compare reads everything from both stores.
func (o *oracle) compare() {
	o.Helper()
	agree(o, "conversations", func(s session.Storage) (any, error) { return s.Conversations() })
	for _, c := range append(o.conversations, 1<<40) {
		q := session.EntryQuery{Conversation: c}
		agree(o, q, func(s session.Storage) (any, error) { return s.Entries(q) })
		some := session.EntryQuery{Conversation: c, From: pick(o, o.entries), To: pick(o, o.entries), Limit: o.rnd.IntN(4)}
		agree(o, some, func(s session.Storage) (any, error) { return s.Entries(some) })
		for _, at := range []session.EntryID{0, pick(o, o.entries)} {
			agree(o, fmt.Sprintf("head of %d at %d", c, at), func(s session.Storage) (any, error) { return s.NewestHead(c, at) })
		}
		status := pick(o, [][]session.SubmissionStatus{nil, {session.SubmissionQueued}, {session.SubmissionPlaced, session.SubmissionQueued}})
		agree(o, fmt.Sprintf("submissions of %d", c), func(s session.Storage) (any, error) { return s.Submissions(c, status...) })
		request := fmt.Sprint("r", o.rnd.IntN(20))
		agree(o, request, func(s session.Storage) (any, error) { return s.SubmissionByRequest(c, request) })
	}
	for range 6 {
		q := session.TaskQuery{Live: o.chance(50), Limit: o.rnd.IntN(4)}
		if o.chance(50) {
			q.Conversation = pick(o, o.conversations)
		}
		if o.chance(50) {
			q.Owner = pick(o, o.tasks)
		}
		agree(o, q, func(s session.Storage) (any, error) { return s.Tasks(q) })
	}
	entry, task := pick(o, o.entries), pick(o, o.tasks)
	agree(o, "entry", func(s session.Storage) (any, error) { return s.Entry(entry) })
	agree(o, "task", func(s session.Storage) (any, error) { return s.Task(task) })
	past := []session.Seq{0, o.state.Seq, o.state.Seq + 1}
	for n := range o.state.Seq {
		if o.last {
			past = append(past, n+1)
		} else if n < oraclePast {
			past = append(past, 1+session.Seq(o.rnd.Int64N(int64(o.state.Seq))))
		}
	}
	for _, at := range past {
		for address := range o.docs {
			agree(o, fmt.Sprintf("%+v at %d", address, at), func(s session.Storage) (any, error) { return s.Document(address, at) })
		}
		agree(o, fmt.Sprintf("documents at %d", at), func(s session.Storage) (any, error) { return s.Documents(session.ScopeConversation, 1, at) })
	}
}

func agree(o *oracle, what any, read func(session.Storage) (any, error)) {
	o.Helper()
	want, wantErr := read(o.model)
	got, gotErr := read(o.Storage)
	if errors.Is(wantErr, session.ErrNotFound) != errors.Is(gotErr, session.ErrNotFound) || (wantErr == nil) != (gotErr == nil) {
		o.Errorf("%+v: got error %v, the memory store says %v", what, gotErr, wantErr)
		return
	}
	if diff := cmp.Diff(want, got, byMeaning); diff != "" {
		o.Errorf("%+v (-memory +store):\n%s", what, diff)
	}
}

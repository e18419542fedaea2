package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// The size of an oracle run. An operation is one record drafted, right or wrong.
const (
	oracleRunOps = 1_000 // operations of one run
	oracleBatch  = 8     // most operations of a batch
	oracleWhole  = 75    // batches between two comparisons of everything; after the others a sample is compared
	oracleSample = 4     // reads of a sample
	oraclePast   = 4     // past commits at which documents are compared
)

// oracleOps is how many operations Oracle performs: make soak asks for a million.
var oracleOps = flag.Int("oracle.ops", 20_000, "random operations that a store and the memory store are compared over")

// oracleFailed are the numbers of runs that once found a difference. They are always run.
var oracleFailed = []uint64{}

// Oracle applies random batches, some of them wrong, to the store and to the memory store, and compares what both hold after
// every batch. Now and then it reopens the store. The randomness is fixed: a failure names its run, which repeats alone with
// -run; its number then belongs into oracleFailed.
func Oracle(t *testing.T, open Opener) {
	runs := slices.Clone(oracleFailed)
	for run := range uint64(*oracleOps+oracleRunOps-1) / oracleRunOps {
		if !slices.Contains(oracleFailed, run) {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		t.Run(fmt.Sprintf("run %d", run), func(t *testing.T) {
			o := &oracle{rnd: rand.New(rand.NewPCG(run, 0)), model: session.NewMemory(), docs: map[session.Address]bool{}}
			o.subject = start(t, open, false)
			if _, err := o.model.Acquire(context.Background()); err != nil {
				t.Fatal(err)
			}
			for n := 1; o.ops < oracleRunOps; n++ {
				o.step()
				if n%oracleWhole == 0 {
					o.compare()
				} else {
					o.sample()
				}
				if t.Failed() {
					t.Fatalf("run %d differs after %d operations", run, o.ops)
				}
			}
			o.compare()
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
	gone          []session.ConversationID // removed
	ops           int
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
	for range 1 + o.rnd.IntN(oracleBatch) {
		next.draft(&b)
		next.ops++
	}
	if o.chance(2) {
		b.Durability = session.Synced
	}
	if o.chance(15) {
		o.spoil(&b)
		next.ops++
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
		next.forget(b.Removals)
		*o = next
	} else {
		o.state.NextID, o.ops = max(o.state.NextID, before), next.ops
	}
	if o.chance(3) {
		seq := o.state.Seq
		o.again()
		if o.state.Seq != seq {
			o.Errorf("after a reopen the sequence is %d, want %d", o.state.Seq, seq)
		}
	}
}

// forget keeps removed conversations and their documents out of what is drafted next; they are still compared.
func (o *oracle) forget(gone []session.ConversationID) {
	if len(gone) == 0 {
		return
	}
	o.gone = append(o.gone[:len(o.gone):len(o.gone)], gone...)
	o.conversations = slices.DeleteFunc(o.conversations, func(c session.ConversationID) bool { return slices.Contains(gone, c) })
	o.live = slices.DeleteFunc(o.live, func(w session.DocumentWrite) bool {
		return w.Address.Scope == session.ScopeConversation && slices.Contains(gone, session.ConversationID(w.Address.Owner))
	})
}

func (o *oracle) draft(b *session.Batch) {
	switch o.rnd.IntN(16) {
	case 15:
		c := pick(o, o.conversations)
		for _, t := range o.tasksOf(c) { // mostly it could go
			if o.chance(95) && !slices.ContainsFunc(b.Tasks, func(drafted session.Task) bool { return drafted.ID == t.ID }) {
				t.Status, t.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Aborted}
				b.Tasks = append(b.Tasks, t)
			}
		}
		b.Removals = append(b.Removals, c)
	case 0:
		c := session.Conversation{ID: session.ConversationID(o.id()), Owner: pick(o, o.tasks)}
		if o.chance(70) {
			c.Parent = &session.Fork{Conversation: pick(o, o.conversations), At: pick(o, o.entries)}
		}
		b.Conversations = append(b.Conversations, c)
		o.conversations = append(o.conversations, c.ID)
	case 1, 2, 3, 4:
		e := session.Entry{ID: session.EntryID(o.id()), Conversation: pick(o, o.conversations), Kind: "app.note", Model: o.maybe(), Data: o.maybe()}
		if o.chance(25) {
			e.Head = e.ID
		}
		if o.chance(20) {
			e.Edits = []session.Edit{{Target: pick(o, o.entries), Model: o.maybe()}}
		}
		b.Entries = append(b.Entries, e)
		o.entries = append(o.entries[:len(o.entries):len(o.entries)], e.ID)
	case 5, 6:
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
	case 7, 8:
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
		w.Address = session.Address{Scope: session.ScopeConversation, Owner: int64(pick(o, o.conversations)), Kind: "app.doc", Key: fmt.Sprint(o.rnd.IntN(4))}
		if o.chance(25) {
			w.Address.Scope, w.Address.Owner = session.ScopeTask, int64(pick(o, o.tasks))
		}
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
	switch o.rnd.IntN(6) {
	case 4:
		b.Removals = append(b.Removals, session.Root)
	case 5:
		b.Removals = append(b.Removals, 1<<40)
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

// tasksOf returns the live tasks of a conversation.
func (o *oracle) tasksOf(c session.ConversationID) []session.Task {
	tasks, err := o.model.Tasks(session.TaskQuery{Conversation: c, Live: true})
	if err != nil {
		o.Fatal(err)
	}
	return tasks
}

// compare reads everything from both stores.
func (o *oracle) compare() {
	o.Helper()
	agree(o, "conversations", func(s session.Storage) (any, error) { return s.Conversations() })
	for _, c := range slices.Concat(o.conversations, o.gone, []session.ConversationID{1 << 40}) {
		q := session.EntryQuery{Conversation: c}
		agree(o, q, func(s session.Storage) (any, error) { return s.Entries(q) })
		agree(o, "head", func(s session.Storage) (any, error) { return s.NewestHead(c, 0) })
		agree(o, "submissions", func(s session.Storage) (any, error) { return s.Submissions(c) })
		agree(o, "tasks", func(s session.Storage) (any, error) { return s.Tasks(session.TaskQuery{Conversation: c}) })
	}
	past := []session.Seq{0, o.state.Seq, o.state.Seq + 1}
	for range oraclePast {
		past = append(past, 1+session.Seq(o.rnd.Int64N(int64(o.state.Seq)+1)))
	}
	for address := range o.docs {
		for _, at := range past {
			agree(o, fmt.Sprintf("%+v at %d", address, at), func(s session.Storage) (any, error) { return s.Document(address, at) })
		}
	}
	for range oracleSample {
		o.sample()
	}
}

// sample compares some reads.
func (o *oracle) sample() {
	o.Helper()
	for range oracleSample {
		c := pick(o, o.conversations)
		if o.chance(5) {
			c = pick(o, o.gone)
		}
		entry, task := pick(o, o.entries), pick(o, o.tasks)
		switch o.rnd.IntN(9) {
		case 0, 1:
			q := session.EntryQuery{Conversation: c, From: pick(o, o.entries), To: pick(o, o.entries), Limit: o.rnd.IntN(4)}
			agree(o, q, func(s session.Storage) (any, error) { return s.Entries(q) })
		case 2:
			agree(o, fmt.Sprintf("head of %d at %d", c, entry), func(s session.Storage) (any, error) { return s.NewestHead(c, entry) })
		case 3:
			status := pick(o, [][]session.SubmissionStatus{nil, {session.SubmissionQueued}, {session.SubmissionPlaced, session.SubmissionQueued}})
			agree(o, fmt.Sprintf("submissions of %d", c), func(s session.Storage) (any, error) { return s.Submissions(c, status...) })
		case 4:
			request := fmt.Sprint("r", o.rnd.IntN(20))
			agree(o, request, func(s session.Storage) (any, error) { return s.SubmissionByRequest(c, request) })
		case 5:
			q := session.TaskQuery{Live: o.chance(50), Limit: 1 + o.rnd.IntN(4)}
			if o.chance(50) {
				q.Conversation = c
			}
			if o.chance(50) {
				q.Owner = task
			}
			agree(o, q, func(s session.Storage) (any, error) { return s.Tasks(q) })
		case 6:
			agree(o, "entry", func(s session.Storage) (any, error) { return s.Entry(entry) })
			agree(o, "task", func(s session.Storage) (any, error) { return s.Task(task) })
		default:
			o.sampleDocuments(c, task)
		}
	}
}

func (o *oracle) sampleDocuments(c session.ConversationID, task session.TaskID) {
	o.Helper()
	at := session.Seq(o.rnd.Int64N(int64(o.state.Seq) + 2))
	agree(o, fmt.Sprintf("documents of %d at %d", c, at), func(s session.Storage) (any, error) {
		return s.Documents(session.ScopeConversation, int64(c), at)
	})
	agree(o, fmt.Sprintf("documents of task %d", task), func(s session.Storage) (any, error) { return s.Documents(session.ScopeTask, int64(task), 0) })
	if w := pick(o, o.live); w.ID != 0 {
		agree(o, fmt.Sprintf("%+v at %d", w.Address, at), func(s session.Storage) (any, error) { return s.Document(w.Address, at) })
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
	if reflect.DeepEqual(want, got) {
		return // the cheap way to the common answer
	}
	if diff := cmp.Diff(want, got, byMeaning); diff != "" {
		o.Errorf("%+v (-memory +store):\n%s", what, diff)
	}
}

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
)

// ErrRemoved ends the feed of a conversation that was removed.
var ErrRemoved = errors.New("session: the conversation was removed")

// Frame is an item of a feed: a *Snapshot or a *Change. Its content belongs to everybody: readers do not change it.
type Frame interface{ isFrame() }

// Snapshot is a conversation as one commit left it.
type Snapshot struct {
	Seq          Seq // newest commit of the session
	Conversation Conversation
	Entries      []Entry      // the active ones, oldest first: from where the newest head points
	Documents    []Document   // those of the conversation and of its live tasks, in id order
	Tasks        []Task       // live, in id order
	Submissions  []Submission // queued and placed, in id order
}

// Change is what one commit wrote in a conversation. Snapshot.Apply says what it means.
type Change struct {
	Seq         Seq
	Entries     []Entry
	Documents   []DocumentWrite
	Tasks       []Task
	Submissions []Submission
}

func (*Snapshot) isFrame() {}
func (*Change) isFrame()   {}

// Snapshot reads a conversation; ErrNotFound when there is none. It is a read of records.
func (tx *Tx) Snapshot(c ConversationID) (*Snapshot, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	snap, err := tx.s.snapshot(c)
	if err != nil {
		return nil, fmt.Errorf("snapshot of conversation %d: %w", c, err)
	}
	return snap, nil
}

func (s *Session) snapshot(c ConversationID) (*Snapshot, error) {
	conversation, err := s.storage.Conversation(c)
	if err != nil {
		return nil, err
	}
	snap := &Snapshot{Seq: s.state.Seq, Conversation: conversation}
	head, err := s.storage.NewestHead(c, 0)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if snap.Entries, err = s.storage.Entries(EntryQuery{Conversation: c, From: head.Head}); err != nil {
		return nil, err
	}
	slices.Reverse(snap.Entries)
	if snap.Submissions, err = s.storage.Submissions(c, SubmissionQueued, SubmissionPlaced); err != nil {
		return nil, err
	}
	if snap.Documents, err = s.storage.Documents(ScopeConversation, int64(c), 0); err != nil {
		return nil, err
	}
	for _, t := range s.live {
		if t.Conversation != c {
			continue
		}
		snap.Tasks = append(snap.Tasks, t)
		docs, err := s.storage.Documents(ScopeTask, int64(t.ID), 0)
		if err != nil {
			return nil, err
		}
		snap.Documents = append(snap.Documents, docs...)
	}
	slices.SortFunc(snap.Tasks, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(snap.Documents, func(a, b Document) int { return cmp.Compare(a.ID, b.ID) })
	return snap, nil
}

// WatchConversation yields a Snapshot, then one Change per commit that touched the conversation, in commit order and after
// the commit. A reader that falls behind by WatchFrames or WatchBytes gets one Snapshot instead of what it missed; a commit
// waits for no reader, only reading a Snapshot takes its turn on the line. The feed ends with an error: context.Cause when ctx ends, ErrRemoved, ErrClosed, or why the session broke;
// what waited is delivered first, except after ctx. Breaking off ends it too. It may be iterated more than once, from
// outside of commits and views. Source: durable kernel 10.
func (s *Session) WatchConversation(ctx context.Context, c ConversationID) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		f := &feed{conversation: c, wake: make(chan struct{}, 1), behind: true}
		s.feeds.join(f)
		defer s.feeds.leave(f)
		for {
			frame, err := s.nextFrame(ctx, f)
			if !yield(frame, err) || err != nil {
				return
			}
		}
	}
}

// feed is one reader's queue. feeds.mu guards it, but for wake.
type feed struct {
	conversation ConversationID
	wake         chan struct{} // capacity 1: something changed
	queue        []*Change
	bytes        int
	start        EntryID // where the active entries begin
	behind       bool    // the reader needs a snapshot; nothing is queued until it has one
	end          error
}

// feeds are the readers of a session. The zero value is ready.
type feeds struct {
	mu  sync.Mutex
	all map[*feed]struct{}
	end error // of the session
}

func (fs *feeds) join(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		fs.all = map[*feed]struct{}{}
	}
	fs.all[f] = struct{}{}
	f.end = fs.end
}

func (fs *feeds) leave(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, f)
}

// stop ends every feed, also those to come.
func (fs *feeds) stop(why error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.end == nil {
		fs.end = why
	}
	for f := range fs.all {
		f.close(fs.end)
	}
}

func (f *feed) close(why error) {
	if f.end == nil {
		f.end = why
	}
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// nextFrame waits for what the reader sees next.
func (s *Session) nextFrame(ctx context.Context, f *feed) (Frame, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.feeds.mu.Lock()
		end, behind := f.end, f.behind
		var change *Change
		if len(f.queue) > 0 {
			change, f.queue = f.queue[0], f.queue[1:]
			f.bytes -= change.size()
		}
		s.feeds.mu.Unlock()
		switch {
		case change != nil:
			return change, nil
		case end != nil:
			return nil, end
		case behind:
			if snap, err := s.catchUp(ctx, f); err == nil {
				return snap, nil
			} else if !errors.Is(err, ErrClosed) {
				return nil, err
			}
			continue // closed in between: the feed's end says why
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
	}
}

// catchUp reads a snapshot on the line, where no commit happens, and lets the feed go on behind it.
func (s *Session) catchUp(ctx context.Context, f *feed) (*Snapshot, error) {
	var snap *Snapshot
	err := s.View(ctx, func(tx *Tx) (err error) {
		if snap, err = tx.Snapshot(f.conversation); err != nil {
			return err
		}
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		f.behind, f.start = false, 0
		for _, e := range snap.Entries {
			if e.Head != 0 {
				f.start = e.Head
			}
		}
		return nil
	})
	return snap, err
}

// publish hands a committed batch to the feeds it concerns. The session's tasks are those after the batch.
func (s *Session) publish(b *Batch) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if len(s.feeds.all) == 0 {
		return
	}
	changes := map[ConversationID]*Change{}
	for f := range s.feeds.all {
		if f.end != nil {
			continue
		}
		if f.behind {
			if slices.Contains(b.Removals, f.conversation) {
				f.close(ErrRemoved)
			}
			continue
		}
		change, made := changes[f.conversation]
		if !made {
			change = s.changeOf(f.conversation, b)
			changes[f.conversation] = change
		}
		if change != nil {
			f.push(change)
		}
		if slices.Contains(b.Removals, f.conversation) {
			f.close(ErrRemoved)
		}
	}
}

// push queues a change, or forgets the queue when a snapshot has to take its place.
func (f *feed) push(c *Change) {
	for _, e := range c.Entries {
		if e.Head == 0 {
			continue
		}
		if e.Head < f.start {
			f.behind = true // entries that the reader does not have are active again
		}
		f.start = e.Head
	}
	f.queue = append(f.queue, c)
	f.bytes += c.size()
	if f.behind || len(f.queue) > WatchFrames || f.bytes > WatchBytes {
		f.behind, f.queue, f.bytes = true, nil, 0
	}
	f.signal()
}

func (c *Change) size() (n int) {
	for _, e := range c.Entries {
		n += len(e.Model) + len(e.Data)
	}
	for _, w := range c.Documents {
		n += len(w.Base) + len(w.Delta)
	}
	for _, t := range c.Tasks {
		n += len(t.Checkpoint) + len(t.Input) + len(t.Memos)
	}
	for _, s := range c.Submissions {
		n += len(s.Payload)
	}
	return n
}

// changeOf returns what the batch wrote in a conversation, or nil.
func (s *Session) changeOf(c ConversationID, b *Batch) *Change {
	change := &Change{Seq: b.Seq}
	tasks := map[TaskID]ConversationID{}
	for _, e := range b.Entries {
		if e.Conversation == c {
			change.Entries = append(change.Entries, e)
		}
	}
	for _, t := range b.Tasks {
		if tasks[t.ID] = t.Conversation; t.Conversation == c {
			change.Tasks = append(change.Tasks, t)
		}
	}
	for _, sub := range b.Submissions {
		if sub.Conversation == c {
			change.Submissions = append(change.Submissions, sub)
		}
	}
	for _, w := range b.Documents {
		id := TaskID(w.Address.Owner)
		switch w.Address.Scope {
		case ScopeConversation:
			if ConversationID(w.Address.Owner) == c {
				change.Documents = append(change.Documents, w)
			}
		case ScopeTask:
			if at, ok := tasks[id]; ok && at == c || !ok && s.live[id].Conversation == c {
				change.Documents = append(change.Documents, w)
			}
		}
	}
	slices.SortFunc(change.Entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	if len(change.Entries)+len(change.Tasks)+len(change.Submissions)+len(change.Documents) == 0 {
		return nil
	}
	return change
}

// Apply returns the snapshot that c makes of s; neither changes. Its error means that c does not belong behind s.
func (s *Snapshot) Apply(c *Change) (*Snapshot, error) {
	next := &Snapshot{Seq: c.Seq, Conversation: s.Conversation}
	start := EntryID(0)
	next.Entries = append(slices.Clip(s.Entries), c.Entries...)
	for _, e := range c.Entries {
		if e.Head != 0 {
			start = e.Head
		}
	}
	next.Entries = slices.DeleteFunc(slices.Clone(next.Entries), func(e Entry) bool { return e.ID < start })
	tasks, subs, docs := map[TaskID]Task{}, map[SubmissionID]Submission{}, map[DocumentID]Document{}
	for _, t := range append(slices.Clip(s.Tasks), c.Tasks...) {
		if tasks[t.ID] = t; t.Status == TaskTerminal {
			delete(tasks, t.ID)
		}
	}
	for _, sub := range append(slices.Clip(s.Submissions), c.Submissions...) {
		if subs[sub.ID] = sub; sub.Status != SubmissionQueued && sub.Status != SubmissionPlaced {
			delete(subs, sub.ID)
		}
	}
	for _, doc := range s.Documents {
		docs[doc.ID] = doc
	}
	for _, w := range c.Documents {
		if err := applyWrite(docs, w, c.Seq); err != nil {
			return nil, fmt.Errorf("change of commit %d: %w", c.Seq, err)
		}
	}
	next.Tasks = slices.SortedFunc(maps.Values(tasks), func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	next.Submissions = slices.SortedFunc(maps.Values(subs), func(a, b Submission) int { return cmp.Compare(a.ID, b.ID) })
	next.Documents = slices.SortedFunc(maps.Values(docs), func(a, b Document) int { return cmp.Compare(a.ID, b.ID) })
	return next, nil
}

func applyWrite(docs map[DocumentID]Document, w DocumentWrite, seq Seq) error {
	doc, known := docs[w.ID]
	switch {
	case w.Create:
		docs[w.ID] = Document{ID: w.ID, Address: w.Address, Version: w.Version, Rewindable: w.Rewindable, Created: seq, Value: w.Base}
		return nil
	case !known:
		return fmt.Errorf("document %d: %w", w.ID, ErrNotFound)
	case w.Retire:
		delete(docs, w.ID)
		return nil
	case w.Base != nil:
		doc.Version, doc.Value, doc.Deltas = w.Version, w.Base, 0
	default:
		value, err := Replay(doc.Value, [][]byte{w.Delta})
		if err != nil {
			return fmt.Errorf("document %d: %w", w.ID, err)
		}
		doc.Value, doc.Deltas = value, doc.Deltas+1
	}
	docs[w.ID] = doc
	return nil
}

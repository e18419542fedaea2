package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

// pulled is a feed read step by step.
type pulled struct {
	t    *testing.T
	next func() (session.Frame, error, bool)
}

func follow(t *testing.T, ctx context.Context, s *session.Session, c session.ConversationID) *pulled {
	t.Helper()
	next, stop := iter.Pull2(s.WatchConversation(ctx, c))
	t.Cleanup(stop)
	return &pulled{t, next}
}

func (p *pulled) snapshot() *session.Snapshot {
	p.t.Helper()
	frame, err, ok := p.next()
	snap, full := frame.(*session.Snapshot)
	if err != nil || !ok || !full {
		p.t.Fatalf("got %T, %v, %t, want a snapshot", frame, err, ok)
	}
	return snap
}

func (p *pulled) change() *session.Change {
	p.t.Helper()
	frame, err, ok := p.next()
	change, part := frame.(*session.Change)
	if err != nil || !ok || !part {
		p.t.Fatalf("got %T, %v, %t, want a change", frame, err, ok)
	}
	return change
}

func (p *pulled) ends(want error) {
	p.t.Helper()
	if frame, err, ok := p.next(); !errors.Is(err, want) || frame != nil || !ok {
		p.t.Fatalf("got %+v, %v, want the end: %v", frame, err, want)
	}
	if _, _, ok := p.next(); ok {
		p.t.Fatal("something comes behind the end")
	}
}

func snapshot(t *testing.T, s *session.Session, c session.ConversationID) *session.Snapshot {
	t.Helper()
	var snap *session.Snapshot
	view(t, s, func(tx *session.Tx) (err error) { snap, err = tx.Snapshot(c); return err })
	return snap
}

// wantSame compares but for the commit's number: a change elsewhere raises it.
func wantSame(t *testing.T, what string, got, want *session.Snapshot) {
	t.Helper()
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(session.Snapshot{}, "Seq"),
		cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a) > 0 && len(b) > 0 },
			cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }))}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestASnapshotHoldsWhatIsActive(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "old")
	var head session.EntryID
	var task session.TaskID
	commit(t, s, func(tx *session.Tx) error {
		head = tx.ReserveEntry()
		tx.Append(session.Entry{ID: head, Conversation: session.Root, Kind: "reset", Head: head})
		task = tx.CreateTask(session.Task{Conversation: session.Root, Kind: "app.job", Status: session.TaskPending})
		done := session.Task{Conversation: session.Root, Kind: "app.job", Status: session.TaskTerminal, Outcome: &session.Outcome{Status: session.Completed}}
		tx.CreateTask(done)
		for _, status := range []session.SubmissionStatus{session.SubmissionQueued, session.SubmissionPlaced, session.SubmissionAnswered} {
			tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: string(status), Status: status})
		}
		return job.Put(tx, job.At(int64(task), "out"), counts{Text: "live"})
	})
	say(t, s, session.Root, "new")
	snap := snapshot(t, s, session.Root)
	var got []string
	for _, e := range snap.Entries {
		got = append(got, "entry "+e.Kind)
	}
	for _, doc := range snap.Documents {
		got = append(got, "document "+doc.Address.Kind)
	}
	for _, sub := range snap.Submissions {
		got = append(got, "submission "+sub.RequestID)
	}
	for _, task := range snap.Tasks {
		got = append(got, "task "+string(task.Status))
	}
	want := []string{"entry reset", "entry new", "document test.agent", "document test.job", "submission queued", "submission placed", "task pending"}
	if diff := cmp.Diff(want, got); diff != "" || snap.Conversation.ID != session.Root || snap.Seq != 3 {
		t.Errorf("conversation %d at %d (-want +got):\n%s", snap.Conversation.ID, snap.Seq, diff)
	}
	if err := s.View(t.Context(), func(tx *session.Tx) error { _, err := tx.Snapshot(98); return err }); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("of no conversation: %v", err)
	}
}

// Promise: P-492
func TestAFeedAddsUpToWhatTheStoreHolds(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "r1")
	root := int64(session.Root)
	feed := follow(t, t.Context(), s, session.Root)
	picture := feed.snapshot()
	var task session.TaskID
	var sub session.SubmissionID
	steps := []func(*session.Tx) error{
		note("plain"),
		func(tx *session.Tx) error {
			task = tx.CreateTask(session.Task{Conversation: session.Root, Kind: "app.job", Status: session.TaskPending, Input: []byte(`1`)})
			sub = tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: "r", Status: session.SubmissionQueued, Payload: []byte(`2`)})
			return errors.Join(job.Put(tx, job.At(int64(task), ""), counts{}), board.Put(tx, board.At(root, "k"), counts{}))
		},
		func(tx *session.Tx) error {
			return errors.Join(job.Patch(tx, job.At(int64(task), ""), grow("x"), grow("y")), board.Patch(tx, board.At(root, "k"), grow("z")))
		},
		func(tx *session.Tx) error { // documents alone
			return errors.Join(board.Patch(tx, board.At(root, "k"), grow("!")), agent.Patch(tx, agent.At(root, ""), grow("a")))
		},
		func(tx *session.Tx) error { // a reserved entry comes late, with a head in the middle
			late := tx.ReserveEntry()
			tx.Append(session.Entry{Conversation: session.Root, Kind: "later"})
			tx.Append(session.Entry{ID: late, Conversation: session.Root, Kind: "head", Head: late})
			return nil
		},
		func(tx *session.Tx) error {
			old, err := tx.Submission(sub)
			if err != nil {
				return err
			}
			done, _ := tx.LiveTask(task)
			done.Status, done.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Completed}
			old.Status = session.SubmissionAnswered
			tx.PutTask(done)
			tx.PutSubmission(old)
			return board.Retire(tx, board.At(root, "k"))
		},
		func(tx *session.Tx) error { return board.Put(tx, board.At(root, "k"), counts{N: 2}) },
	}
	for i, step := range steps {
		seq := commit(t, s, step)
		change := feed.change()
		if change.Seq != seq {
			t.Fatalf("step %d: the change is of commit %d, want %d", i, change.Seq, seq)
		}
		next, err := picture.Apply(change)
		if err != nil {
			t.Fatal(err)
		}
		picture = next
		wantSame(t, fmt.Sprintf("after step %d", i), picture, snapshot(t, s, session.Root))
	}
	stray := &session.Change{Seq: 99, Documents: []session.DocumentWrite{{ID: 98, Retire: true}}}
	if _, err := picture.Apply(stray); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a change of something else: %v", err)
	}
}

func TestACommitThatDoesNotTouchAConversationIsNoFrame(t *testing.T) {
	s := open(t, session.NewMemory())
	child := fork(t, s, session.Root, say(t, s, session.Root, "r1"))
	root, side := follow(t, t.Context(), s, session.Root), follow(t, t.Context(), s, child)
	root.snapshot()
	side.snapshot()
	say(t, s, child, "c1")
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{}) }) // a session's document
	say(t, s, session.Root, "r2")
	if got := root.change().Entries; len(got) != 1 || got[0].Kind != "r2" {
		t.Errorf("the source's first change is %+v", got)
	}
	if got := side.change().Entries; len(got) != 1 || got[0].Kind != "c1" {
		t.Errorf("the fork's first change is %+v", got)
	}
}

func TestAReaderThatFallsBehindGetsOneSnapshot(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "first")
	for _, test := range []struct {
		name    string
		commits int
		text    string
		full    bool
	}{
		{"as many frames as fit", session.WatchFrames, "", false},
		{"one more", session.WatchFrames + 1, "", true},
		{"many more", 3 * session.WatchFrames, "", true},
		{"few, but large", 3, strings.Repeat("x", session.WatchBytes/2), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			feed := follow(t, t.Context(), s, session.Root)
			picture := feed.snapshot()
			for n := range test.commits {
				commit(t, s, func(tx *session.Tx) error {
					tx.Append(session.Entry{Conversation: session.Root, Kind: fmt.Sprint(n), Data: fmt.Appendf(nil, "%q", test.text)})
					return nil
				})
			}
			if test.full {
				picture = feed.snapshot()
			} else {
				for range test.commits {
					var err error
					if picture, err = picture.Apply(feed.change()); err != nil {
						t.Fatal(err)
					}
				}
			}
			wantSame(t, "the picture", picture, snapshot(t, s, session.Root))
			say(t, s, session.Root, "goes on")
			if got := feed.change().Entries; len(got) != 1 || got[0].Kind != "goes on" {
				t.Errorf("behind the snapshot comes %+v", got)
			}
		})
	}
}

func TestEntriesThatAreActiveAgainComeAsASnapshot(t *testing.T) {
	s := open(t, session.NewMemory())
	old := say(t, s, session.Root, "old")
	head := func(at session.EntryID) {
		commit(t, s, func(tx *session.Tx) error {
			e := session.Entry{ID: tx.ReserveEntry(), Conversation: session.Root, Kind: "head", Head: at}
			if at == 0 {
				e.Head = e.ID
			}
			tx.Append(e)
			return nil
		})
	}
	head(0)
	feed := follow(t, t.Context(), s, session.Root)
	if n := len(feed.snapshot().Entries); n != 1 {
		t.Fatalf("%d entries are active, want the head alone", n)
	}
	head(0)
	feed.change()
	head(old)
	if n := len(feed.snapshot().Entries); n != 4 {
		t.Fatalf("%d entries are active, want all", n)
	}
}

func TestAFeedEndsWithItsReason(t *testing.T) {
	t.Run("the context", func(t *testing.T) {
		s := open(t, session.NewMemory())
		say(t, s, session.Root, "r1")
		ctx, cancel := context.WithCancelCause(t.Context())
		feed := follow(t, ctx, s, session.Root)
		feed.snapshot()
		say(t, s, session.Root, "waits")
		cancel(errTest)
		feed.ends(errTest)
	})
	t.Run("no conversation", func(t *testing.T) {
		feed := follow(t, t.Context(), open(t, session.NewMemory()), session.Root)
		feed.ends(session.ErrNotFound)
	})
	t.Run("close, behind what waited", func(t *testing.T) {
		s := open(t, session.NewMemory())
		say(t, s, session.Root, "r1")
		feed, late := follow(t, t.Context(), s, session.Root), follow(t, t.Context(), s, session.Root)
		feed.snapshot()
		say(t, s, session.Root, "waits")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		feed.change()
		feed.ends(session.ErrClosed)
		late.ends(session.ErrClosed)
	})
	for name, failure := range map[string]error{"poison": errTest, "another owner": session.ErrStale} {
		t.Run(name, func(t *testing.T) {
			f := &sessiontest.Faulty{Storage: session.NewMemory()}
			s := open(t, f)
			say(t, s, session.Root, "r1")
			feed := follow(t, t.Context(), s, session.Root)
			feed.snapshot()
			f.Before = func(*session.Batch) error { return failure }
			_, err := s.Commit(t.Context(), note("lost"))
			if err == nil {
				t.Fatal("the commit went through")
			}
			if failure == errTest {
				feed.ends(session.ErrPoisoned)
			} else {
				feed.ends(session.ErrStale)
			}
		})
	}
	t.Run("a commit without effect ends nothing", func(t *testing.T) {
		f := &sessiontest.Faulty{Storage: session.NewMemory()}
		s := open(t, f)
		say(t, s, session.Root, "r1")
		feed := follow(t, t.Context(), s, session.Root)
		feed.snapshot()
		f.Before = func(*session.Batch) error { f.Before = nil; return session.ErrNoEffect }
		if _, err := s.Commit(t.Context(), note("refused")); !errors.Is(err, session.ErrNoEffect) {
			t.Fatal(err)
		}
		say(t, s, session.Root, "r2")
		if got := feed.change().Entries; got[0].Kind != "r2" {
			t.Errorf("the change is %+v", got)
		}
	})
}

// The reader never returns from its first frame, and everybody else goes on.
func TestAReaderThatStandsStillSlowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, session.NewMemory())
		say(t, s, session.Root, "r1")
		held, release := make(chan struct{}), make(chan struct{})
		var still sync.WaitGroup
		still.Go(func() {
			for range s.WatchConversation(t.Context(), session.Root) {
				close(held)
				<-release
				break
			}
		})
		<-held
		lively := follow(t, t.Context(), s, session.Root)
		lively.snapshot()
		for n := range 5 * session.WatchFrames {
			say(t, s, session.Root, fmt.Sprint(n))
			if got := lively.change().Entries; got[0].Kind != fmt.Sprint(n) {
				t.Fatalf("the lively reader got %+v", got)
			}
		}
		close(release)
		still.Wait()
	})
}

// Invariant: INV-43
func TestReadersOfEverySpeedEndWithTheSamePicture(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "first")
	const writers, each = 4, 100
	last := session.EntryID(0)
	var writing, reading sync.WaitGroup
	var mu sync.Mutex
	done := make(chan struct{})
	pictures := make(chan *session.Snapshot, 8)
	for n := range cap(pictures) {
		reading.Go(func() {
			var picture *session.Snapshot
			seen := 0
			for frame, err := range s.WatchConversation(t.Context(), session.Root) {
				if err != nil {
					t.Error(err)
					return
				}
				switch frame := frame.(type) {
				case *session.Snapshot:
					picture = frame
				case *session.Change:
					if picture, err = picture.Apply(frame); err != nil {
						t.Error(err)
						return
					}
				}
				if seen++; n%2 == 1 && seen == 3 {
					<-done // fell behind
				}
				mu.Lock()
				end := last
				mu.Unlock()
				if end != 0 && picture.Entries[len(picture.Entries)-1].ID >= end {
					break
				}
			}
			pictures <- picture
		})
	}
	for range writers {
		writing.Go(func() {
			for range each {
				_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
					tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note"})
					return agent.Patch(tx, agent.At(int64(session.Root), ""), grow("x"))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	end := say(t, s, session.Root, "last")
	mu.Lock()
	last = end
	mu.Unlock()
	close(done)
	say(t, s, session.Root, "behind the last") // whoever looked too early looks again
	reading.Wait()
	close(pictures)
	want := snapshot(t, s, session.Root)
	for picture := range pictures {
		if n := len(picture.Entries); n < len(want.Entries)-1 {
			t.Errorf("a reader ended with %d of %d entries", n, len(want.Entries))
			continue
		}
		if diff := cmp.Diff(want.Entries[:len(picture.Entries)], picture.Entries); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	}
}

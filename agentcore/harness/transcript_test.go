package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// counting is a storage that counts the entries it gives out, and is idle when the test says so.
type counting struct {
	session.Storage
	idle    func()
	entries int
}

func (c *counting) OnIdle(f func()) { c.idle = f }

func (c *counting) Entries(q session.EntryQuery) ([]session.Entry, error) {
	list, err := c.Storage.Entries(q)
	c.entries += len(list)
	return list, err
}

// counted is a harness on a counting storage, whose model says hello to everything.
func counted(t *testing.T, storage session.Storage, idle func()) (*Harness, *counting, *scripted.Model) {
	t.Helper()
	c := &counting{Storage: storage}
	model := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) { return scripted.Say("Hello."), nil }), scripted.Options{})
	h, err := Open(t.Context(), c, Options{Idle: idle, Resolve: func(context.Context, json.RawMessage) (Setup, error) {
		return Setup{Provider: model.Provider(), Model: "m", System: "system"}, nil
	}}, session.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, c, model
}

func ask(t *testing.T, h *Harness, id string) {
	t.Helper()
	for _, err := range h.Run(t.Context(), Submit{RequestID: id, Prompt: "Hi from " + id}, nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// random appends entries with heads, system prompts, edits and reserved ids to the main conversation.
func random(t *testing.T, s *session.Session, rng *rand.Rand, n int) {
	t.Helper()
	var reserved []session.EntryID
	last := session.EntryID(1)
	for i := range n {
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			if err := tx.EnsureRoot(); err != nil {
				return err
			}
			e := session.Entry{Conversation: session.Root, Kind: kindUser, Model: mustJSON(llm.TextMessage(llm.RoleUser, fmt.Sprint("text ", i)))}
			switch rng.IntN(8) {
			case 0:
				reserved = append(reserved, tx.ReserveEntry())
				return nil
			case 1:
				if len(reserved) > 0 {
					e.ID, reserved = reserved[0], reserved[1:]
				}
			case 2:
				e.Kind, e.Model = kindSystem, mustJSON(systemContent{fmt.Sprint("system ", i)})
			case 3:
				e.Edits = []session.Edit{{Target: 1 + session.EntryID(rng.IntN(int(last))), Model: mustJSON(llm.TextMessage(llm.RoleUser, fmt.Sprint("edit ", i)))}}
			case 4:
				if rng.IntN(3) == 0 {
					e.Kind, e.ID = "workflow.compaction", tx.ReserveEntry()
					e.Head = 1 + session.EntryID(rng.IntN(int(e.ID)))
				}
			}
			last = tx.Append(e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsReadFromTheNewestHeadGivesTheSameContextAsAllOfIt(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		storage := session.NewMemory()
		s, err := session.Open(t.Context(), storage)
		if err != nil {
			t.Fatal(err)
		}
		random(t, s, rng, 60)
		h := &Harness{sess: s, threads: map[session.ConversationID]*thread{}}
		all := transcript{known: true}
		err = s.View(t.Context(), func(tx *session.Tx) error {
			list, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
			if err != nil {
				return err
			}
			for _, e := range slices.Backward(list) {
				it, err := decodeItem(e)
				if err != nil {
					return err
				}
				all.mirror(it)
			}
			for i := range 30 { // in any order: what is there may have to grow to the front
				cutoff := newest
				if i > 0 {
					cutoff = session.EntryID(1 + rng.IntN(80))
				}
				th, err := h.told(tx, session.Root, cutoff)
				if err != nil {
					return err
				}
				want, got := derive(all.items, cutoff), derive(th.items, cutoff)
				if diff := cmp.Diff(append(story(want), want.system), append(story(got), got.system)); diff != "" {
					t.Errorf("seed %d, cutoff %d, from %d (-all +read):\n%s", seed, cutoff, th.from, diff)
				}
				if th.shown != all.shown {
					t.Errorf("seed %d, cutoff %d: the prompt shown is %q, want %q", seed, cutoff, th.shown, all.shown)
				}
			}
			return nil
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConversationIsReadByItsFirstRequestAndFromItsNewestHead(t *testing.T) {
	storage := session.NewMemory()
	h, _, _ := counted(t, storage, nil)
	for i := range 5 {
		ask(t, h, fmt.Sprint("old ", i))
	}
	if _, err := h.Control(t.Context(), control.Reset{RequestID: "reset", Handoff: "handoff"}, nil); err != nil {
		t.Fatal(err)
	}
	ask(t, h, "new")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, c, model := counted(t, storage.Reopen(), nil)
	if c.entries != 0 {
		t.Errorf("opening reads %d entries", c.entries)
	}
	ask(t, h, "newer")
	if want := 4; c.entries != want { // the reset, and what the turn behind it left: prompt, input, answer
		t.Errorf("the first turn reads %d entries, want %d", c.entries, want)
	}
	ask(t, h, "newest")
	if want := 4; c.entries != want {
		t.Errorf("two turns read %d entries, want %d", c.entries, want)
	}
	r := model.Requests()[1]
	var said []string
	for _, m := range r.Messages {
		said = append(said, m.Text)
	}
	want := []string{"system", "handoff", "Hi from new", "Hello.", "Hi from newer", "Hello.", "Hi from newest"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

func TestAnIdleHarnessHoldsNothingAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idles := 0
		h, c, model := counted(t, session.NewMemory(), func() { idles++ })
		ask(t, h, "one")
		synctest.Wait() // the last step has returned
		c.idle()
		if th := h.threads[session.Root]; th.known || th.items != nil || len(h.setups) != 0 || idles != 1 {
			t.Errorf("idle, it knows %d items and %d setups; told %d times", len(th.items), len(h.setups), idles)
		}
		ask(t, h, "two")
		if n := len(model.Requests()[1].Messages); n != 4 {
			t.Errorf("the second request has %d messages, want the prompt, one exchange and the input", n)
		}
		// A step that runs keeps everything.
		finish := make(chan struct{})
		phase := h.step(func(context.Context, *task.Invocation) error { <-finish; return nil })
		ended := make(chan error)
		go func() { ended <- phase(t.Context(), nil) }()
		synctest.Wait()
		c.idle()
		if !h.threads[session.Root].known || idles != 1 {
			t.Error("it is idle under a step")
		}
		close(finish)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnEntryThatCannotBeReadRefusesTheNextInput(t *testing.T) {
	storage := session.NewMemory()
	h, _, _ := counted(t, storage, nil)
	ask(t, h, "one")
	_, err := h.Session().Commit(t.Context(), func(tx *session.Tx) error {
		tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Model: json.RawMessage(`[]`)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, err = range h.Run(t.Context(), Submit{RequestID: "two", Prompt: "Hi"}, nil) {
		}
		if fault.KindOf(err) != fault.Storage || !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("got %v, want a storage fault that says corrupt", err)
		}
	}
}

func TestRestoreLooksBehindTheNewestHead(t *testing.T) {
	storage := session.NewMemory()
	h, _, _ := counted(t, storage, nil)
	_, err := h.Session().Commit(t.Context(), func(tx *session.Tx) error {
		tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note"})
		return tx.EnsureRoot()
	})
	if err := errors.Join(err, h.ResetIdle(t.Context(), "reset"), h.Close()); err != nil {
		t.Fatal(err)
	}
	h, _, _ = counted(t, storage.Reopen(), nil)
	if _, err := h.Messages(t.Context()); err != nil { // reads from the reset on
		t.Fatal(err)
	}
	if err := h.Restore(t.Context(), nil); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v, want a conflict: the session has a note", err)
	}
}

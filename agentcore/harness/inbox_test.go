package harness_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// follow runs an input of a mode and returns its events' types, deltas joined, and its error.
func follow(ctx context.Context, h *harness.Harness, s harness.Submit) (story []string, err error) {
	for e, err := range h.Run(ctx, s, nil) {
		if err != nil {
			return story, err
		}
		switch e := e.(type) {
		case harness.TextDelta:
			story = append(story, e.Text)
		case harness.TurnEnd:
			story = append(story, string(e.Status))
		}
	}
	return story, nil
}

func TestTheReaderOfASteerHearsTheTurnFromItsBoundaryOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, append(say("I look."), scripted.Call{Name: "read", Args: `{}`}), say("Done."))
		release := make(chan struct{})
		r.do = func(context.Context, tool.Call) (tool.Result, error) {
			<-release
			return tool.Text("ok"), nil
		}
		h := r.open()
		var wg sync.WaitGroup
		read := func(want []string, s harness.Submit) {
			wg.Go(func() {
				got, err := follow(t.Context(), h, s)
				if d := cmp.Diff(want, got); d != "" || err != nil {
					t.Errorf("%s: %v\n%s", s.RequestID, err, d)
				}
			})
			synctest.Wait()
		}
		steer := harness.Submit{RequestID: "r2", Prompt: "two", Mode: control.Steer}
		read([]string{"I look.", "Done.", "answered"}, harness.Submit{RequestID: "r1", Prompt: "one"})
		read([]string{"Done.", "answered"}, steer)
		close(release)
		wg.Wait()
		read([]string{"Done.", "answered"}, steer) // told again
		wg.Wait()
		h.Close()
		h = r.open()
		read([]string{"Done.", "answered"}, steer) // after a restart
		wg.Wait()
		h.Close()
	})
}

func TestTheReaderOfAWithdrawnInputHearsThatItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, do("read", `{}`), say("Done."))
		release := make(chan struct{})
		r.do = func(context.Context, tool.Call) (tool.Result, error) {
			<-release
			return tool.Text("ok"), nil
		}
		h := r.open()
		if _, err := submit(t.Context(), h, harness.Submit{RequestID: "r1", Prompt: "one"}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := follow(t.Context(), h, harness.Submit{RequestID: "r2", Prompt: "two"}); !fault.Is(err, fault.ExecutionAborted) || !strings.Contains(err.Error(), "withdrawn") {
				t.Errorf("the reader heard %v", err)
			}
		})
		synctest.Wait()
		got, err := h.Control(t.Context(), control.Withdraw{RequestID: "c1", InputID: "r2"}, nil)
		if want := (control.Receipt{RequestID: "c1", InputID: "r2", Status: control.Withdrawn}); err != nil || got != want {
			t.Errorf("receipt %+v, %v; want %+v", got, err, want)
		}
		wg.Wait()
		close(release)
		synctest.Wait()
		h.Close()
	})
}

// A command is copied at the call: what its sender does to the slices afterwards changes nothing.
// Promise: P-107
func TestAnInputIsCopiedAtTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, do("read", `{}`), say("One."), say("Two."))
		release := make(chan struct{})
		r.do = func(context.Context, tool.Call) (tool.Result, error) {
			<-release
			return tool.Text("ok"), nil
		}
		h := r.open()
		for _, id := range []string{"r1", "r2"} { // one is placed at once, one is queued
			images := []llm.Block{{Type: llm.Image, Data: []byte("first"), MimeType: "image/png"}}
			if _, err := submit(t.Context(), h, harness.Submit{RequestID: id, Prompt: id, Images: images}); err != nil {
				t.Fatal(err)
			}
			copy(images[0].Data, "other")
		}
		close(release)
		synctest.Wait()
		reqs := r.model.Requests()
		seen := 0
		for _, m := range reqs[len(reqs)-1].Messages {
			for _, image := range m.Images {
				if seen++; !strings.HasSuffix(image, "Zmlyc3Q=") {
					t.Errorf("the model was shown %q", image)
				}
			}
		}
		if seen != 2 {
			t.Errorf("the model was shown %d images, want 2", seen)
		}
		h.Close()
	})
}

// An entry that a layer above commits, and its edits, are part of the next request, as after a restart.
func TestEntriesOfTheLayersAboveReachTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, say("One."), say("Two."), say("Three."))
		h := r.open()
		shown := func(id string) (texts []string) {
			t.Helper()
			if _, err := follow(t.Context(), h, harness.Submit{RequestID: id, Prompt: id}); err != nil {
				t.Fatal(err)
			}
			reqs := r.model.Requests()
			for _, m := range reqs[len(reqs)-1].Messages[1:] {
				texts = append(texts, m.Text)
			}
			return texts
		}
		shown("r1")
		_, err := h.Session().Commit(t.Context(), func(tx *session.Tx) error {
			entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
			if err != nil {
				return err
			}
			note, err := json.Marshal(llm.TextMessage(llm.RoleUser, "note"))
			if err != nil {
				return err
			}
			first := entries[len(entries)-2].ID // behind the system prompt
			tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Model: note, Edits: []session.Edit{{Target: first}}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"One.", "note", "r2"}, shown("r2")); d != "" {
			t.Error(d)
		}
		h.Close()
		h = r.open()
		if d := cmp.Diff([]string{"One.", "note", "r2", "Two.", "r3"}, shown("r3")); d != "" {
			t.Error(d)
		}
		h.Close()
	})
}

// allowing is a host that allows every call.
type allowing struct{}

func (allowing) Approve(context.Context, harness.Approval) error { return nil }

// atOnce calls f from many goroutines at the same moment.
func atOnce(f func()) {
	const senders = 20
	var wg sync.WaitGroup
	for range senders {
		wg.Go(f)
	}
	wg.Wait()
}

// One command sent twenty times at once is one command, and one decision delivered twenty times runs its call once.
// Promise: P-082, P-109
// Invariant: INV-03, INV-15
func TestTwentySendersOfOneCommandAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, do("bash", `{}`), say("One."))
		r.own = true
		h := r.open()
		host := &pausing{}
		if err := h.Resume(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		submit := func(s harness.Submit) {
			atOnce(func() {
				got, err := submit(t.Context(), h, s)
				if want := (control.Receipt{RequestID: s.RequestID, Status: control.Accepted}); err != nil || got != want {
					t.Errorf("receipt %+v, %v; want %+v", got, err, want)
				}
			})
		}
		submit(harness.Submit{RequestID: "r1", Prompt: "one"})
		synctest.Wait()
		submit(harness.Submit{RequestID: "r2", Prompt: "two"})
		atOnce(func() {
			got, err := h.Control(t.Context(), control.Withdraw{RequestID: "c1", InputID: "r2"}, nil)
			if want := (control.Receipt{RequestID: "c1", InputID: "r2", Status: control.Withdrawn}); err != nil || got != want {
				t.Errorf("receipt %+v, %v; want %+v", got, err, want)
			}
		})
		atOnce(func() {
			if err := h.Resume(t.Context(), allowing{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if n := r.bash.Load(); n != 1 {
			t.Errorf("bash ran %d times, want 1", n)
		}
		got, err := follow(t.Context(), h, harness.Submit{RequestID: "r1", Prompt: "one"})
		if d := cmp.Diff([]string{"One.", "answered"}, got); d != "" || err != nil {
			t.Errorf("%v\n%s", err, d)
		}
		var subs []session.Submission
		err = h.Session().View(t.Context(), func(tx *session.Tx) (err error) {
			subs, err = tx.Submissions(session.Root)
			return err
		})
		if err != nil || len(subs) != 2 || subs[1].Status != session.SubmissionWithdrawn {
			t.Errorf("submissions %+v, %v; want r1 answered and r2 withdrawn", subs, err)
		}
		h.Close()
	})
}

// Promise: P-129
func TestAResetKeepsWhatWasSaidInTheTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, say("One."), say("Two."))
		h := r.open()
		if _, err := follow(t.Context(), h, harness.Submit{RequestID: "r1", Prompt: "one"}); err != nil {
			t.Fatal(err)
		}
		kinds := func() (list []string) {
			t.Helper()
			err := h.Session().View(t.Context(), func(tx *session.Tx) error {
				entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
				for _, e := range slices.Backward(entries) {
					list = append(list, e.Kind)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		before := kinds()
		if _, err := h.Control(t.Context(), control.Reset{RequestID: "c1"}, nil); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append(before, "workflow.reset"), kinds()); d != "" {
			t.Error(d)
		}
		if a, err := h.AnswerOf(t.Context(), "r1"); err != nil || a.Text != "One." {
			t.Errorf("the answer before the reset is %q, %v", a.Text, err)
		}
		h.Close()
	})
}

// submit records an input without waiting for its answer.
func submit(ctx context.Context, h *harness.Harness, s harness.Submit) (control.Receipt, error) {
	c := control.Submit{RequestID: s.RequestID, TargetID: s.Conversation, Prompt: s.Prompt, Mode: s.Mode}
	for _, image := range s.Images {
		c.Images = append(c.Images, control.Image{Data: image.Data, MimeType: image.MimeType})
	}
	return h.Control(ctx, c, s.Settings)
}

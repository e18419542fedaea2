package llmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

func everyResponse(t *testing.T, newProvider New) {
	for _, tc := range []struct {
		line  string
		text  string
		calls int
		stop  llm.StopReason
	}{
		{`text "Hello, 漢字 🧭" x5`, "Hello, 漢字 🧭", 0, llm.StopEnd},
		{`think "let me see" x3 | text "so" | call ls {"path":"x"} x4 | call read {}`, "so", 2, llm.StopToolUse},
		{`call ping`, "", 1, llm.StopToolUse},
		{`call write "{\"path\":" | length`, "", 1, llm.StopLength},
		{`call bad "[1]"`, "", 1, llm.StopToolUse},
		{`text "I will call" | lost-call`, "I will call", 0, llm.StopToolUse},
		{`text "cut" | length`, "cut", 0, llm.StopLength},
		{`refuse "no"`, "", 0, llm.StopRefusal},
		{`refuse`, "", 0, llm.StopRefusal},
		{`empty`, "", 0, llm.StopEnd},
	} {
		t.Run(tc.line, func(t *testing.T) {
			s := Follow(t.Context(), t, newProvider(t, scripted.MustParse(tc.line)), ask())
			if s.Done == nil {
				t.Fatalf("got error %v", s.Err)
			}
			m := s.Done.Message
			if m.Text() != tc.text || len(m.Calls()) != tc.calls || m.Stop != tc.stop {
				t.Fatalf("got text %q, %d calls, stop %q", m.Text(), len(m.Calls()), m.Stop)
			}
			if m.Usage == nil {
				t.Fatal("got no usage")
			}
		})
	}
}

func everyFailure(t *testing.T, newProvider New) {
	for _, tc := range []struct {
		line  string
		class llm.Class
		retry bool
	}{
		{`status 401 "who are you"`, llm.Auth, false},
		{`status 400 "no such field"`, llm.Invalid, false},
		{`status 408`, llm.RateLimit, true},
		{`status 409`, llm.RateLimit, true},
		{`status 429 "slow down" retry-after=3`, llm.RateLimit, true},
		{`status 429 "later" retry-after=3600`, llm.RateLimit, false},
		{`status 429 "quota" code=insufficient_quota`, llm.Quota, false},
		{`status 500`, llm.Server, true},
		{`status 529`, llm.Server, true},
		{`overflow`, llm.Overflow, false},
		{`drop`, llm.Connection, true},
		{`drop reset`, llm.Connection, true},
		{`error "overloaded" status=503`, llm.Server, true},
		{`error "wrong" status=400`, llm.Invalid, false},
	} {
		t.Run(tc.line, func(t *testing.T) {
			s := Follow(t.Context(), t, newProvider(t, scripted.MustParse(tc.line)), ask())
			if s.Err == nil {
				t.Fatalf("got %+v", s.Done)
			}
			if s.Err.Class != tc.class || s.Err.Retryable() != tc.retry || !s.Err.Dispatched || s.Err.Produced || s.Err.Error() == "" {
				t.Fatalf("got %+v, retryable %v", s.Err, s.Err.Retryable())
			}
		})
	}
}

func produced(t *testing.T, newProvider New) {
	for _, line := range []string{`text "half" | drop`, `think "hm" | drop reset`, `call ls {} | drop`, `text "half" | error "gone" status=500`} {
		s := Follow(t.Context(), t, newProvider(t, scripted.MustParse(line)), ask())
		if s.Err == nil || !s.Err.Produced || !s.Err.Retryable() || len(s.Blocks) != 1 {
			t.Fatalf("%s: got %+v, blocks %+v", line, s.Err, s.Blocks)
		}
	}
}

// flowing never stops talking, waiting says one word and then nothing.
func flowing() scripted.Response {
	const deltas = 200_000
	return scripted.Reply(scripted.Text{Text: strings.Repeat("x", deltas), Chunks: deltas})
}

func waiting() scripted.Response {
	return scripted.Reply(scripted.Text{Text: "word"}, scripted.Stall{KeepAlive: time.Millisecond})
}

func canceled(t *testing.T, newProvider New, flow bool) {
	script := always(waiting())
	if flow {
		script = always(flowing())
	}
	p := newProvider(t, script)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("stopped by the test")
	within(t, func() {
		after := 0
		for ev, err := range p.Stream(ctx, ask()) {
			if ctx.Err() != nil {
				after++
			}
			if _, ok := ev.(llm.Delta); ok {
				cancel(reason)
			}
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Class != llm.Canceled || e.Retryable() || !e.Produced || !errors.Is(e, reason) {
				t.Errorf("got %#v", err)
			}
			if after != 1 {
				t.Errorf("%d events came behind the cancel", after-1)
			}
			return
		}
		t.Error("the stream ended without an error")
	})
	if s := Follow(t.Context(), t, newProvider(t, always(scripted.Say("again"))), ask()); s.Done == nil {
		t.Fatalf("the next stream failed: %v", s.Err)
	}
}

// within fails t when act does not return in time.
func within(t *testing.T, act func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("still running after %v", patience)
	}
}

func neverSent(t *testing.T, newProvider New) {
	var asked atomic.Int64
	p := newProvider(t, scripted.Func(func(scripted.Request) (scripted.Response, error) {
		asked.Add(1)
		return scripted.Say("x"), nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := Follow(ctx, t, p, ask())
	if s.Err == nil || s.Err.Class != llm.Canceled || s.Err.Dispatched || asked.Load() != 0 {
		t.Fatalf("got %+v after %d requests", s.Err, asked.Load())
	}
}

func broken(t *testing.T, newProvider New) {
	for _, resp := range []scripted.Response{waiting(), flowing()} {
		p := newProvider(t, always(resp))
		within(t, func() {
			for ev, err := range p.Stream(t.Context(), ask()) {
				if err != nil {
					t.Errorf("got %v", err)
				}
				if _, ok := ev.(llm.Delta); ok {
					break
				}
			}
		})
	}
}

func concurrent(t *testing.T, newProvider New) {
	p := newProvider(t, scripted.Func(func(req scripted.Request) (scripted.Response, error) {
		return scripted.Reply(scripted.Text{Text: "you said " + req.LastUser(), Chunks: 8}), nil
	}))
	const streams = 16
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			req := ask()
			said := fmt.Sprintf("number %d", i)
			req.Messages = []llm.Message{llm.TextMessage(llm.RoleUser, said)}
			for ev, err := range p.Stream(t.Context(), req) {
				if err != nil {
					t.Errorf("stream %d: %v", i, err)
				}
				if done, ok := ev.(llm.Done); ok && done.Message.Text() != "you said "+said {
					t.Errorf("stream %d: got %q", i, done.Message.Text())
				}
			}
		})
	}
	wg.Wait()
}

func origin(t *testing.T, newProvider New) {
	p := newProvider(t, always(scripted.Say("x")))
	want := p.Origin("model-1")
	if want.API == "" || want.Provider == "" || want.Model != "model-1" {
		t.Fatalf("got origin %+v", want)
	}
	if s := Follow(t.Context(), t, p, ask()); s.Done == nil || *s.Done.Message.Origin != want {
		t.Fatalf("got %+v, want origin %+v", s.Done, want)
	}
}

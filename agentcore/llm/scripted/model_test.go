package scripted_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// collect runs one request and returns the final message or the error, with the number of events before it.
func collect(ctx context.Context, p llm.Provider, req llm.Request) (llm.Message, int, *llm.Error) {
	n := 0
	for ev, err := range p.Stream(ctx, req) {
		if err != nil {
			e, _ := errors.AsType[*llm.Error](err)
			return llm.Message{}, n, e
		}
		if done, ok := ev.(llm.Done); ok {
			return done.Message, n, nil
		}
		n++
	}
	return llm.Message{}, n, nil
}

func ask(text string) llm.Request {
	return llm.Request{Model: "m", System: "be brief", Messages: []llm.Message{llm.TextMessage(llm.RoleUser, text)}}
}

// providers returns m behind both transports.
func providers(t *testing.T, m *scripted.Model) map[string]llm.Provider {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	overHTTP, err := openaicompletions.New(openaicompletions.Options{BaseURL: server.URL + "/v1", Provider: scripted.ProviderName, HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]llm.Provider{"in process": m.Provider(), "over HTTP": overHTTP}
}

func TestAResponseSaysItsStepsInOrder(t *testing.T) {
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) {
		return scripted.Reply(
			scripted.Thinking{Text: "hm, 漢字", Chunks: 3, Field: "reasoning"},
			scripted.Text{Text: "Let me look.", Chunks: 4},
			scripted.Call{ID: "a", Name: "ls", Args: `{"path":"x"}`, Chunks: 3},
			scripted.Call{Name: "read", Args: `{}`},
			scripted.Usage{Input: 10, Output: 5, Cached: 3, Reasoning: 2},
		), nil
	}), scripted.Options{})
	for name, p := range providers(t, m) {
		t.Run(name, func(t *testing.T) {
			got, _, failure := collect(t.Context(), p, ask("go"))
			if failure != nil {
				t.Fatal(failure)
			}
			number := len(m.Requests())
			want := llm.Message{
				Role: llm.RoleAssistant, Stop: llm.StopToolUse, ID: got.ID,
				Origin: &llm.Origin{API: openaicompletions.API, Provider: scripted.ProviderName, Model: "m"},
				Usage:  &llm.Usage{Input: 10, Output: 5, Total: 15, CachedInput: 3, Reasoning: 2},
				Blocks: []llm.Block{
					{Type: llm.Thinking, Text: "hm, 漢字", Field: "reasoning"},
					{Type: llm.Text, Text: "Let me look."},
					{Type: llm.ToolCall, CallID: "a", Name: "ls", Args: []byte(`{"path":"x"}`)},
					{Type: llm.ToolCall, CallID: "call_" + string(rune('0'+number)) + "_2", Name: "read", Args: []byte(`{}`)},
				},
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Fatalf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestEachFaultShowsOnTheWire(t *testing.T) {
	for _, tc := range []struct {
		name  string
		resp  scripted.Response
		class llm.Class
		check func(llm.Message, *llm.Error) bool
	}{
		{"drop after text", scripted.Reply(scripted.Text{Text: "abc"}, scripted.Drop{}), llm.Connection, func(_ llm.Message, e *llm.Error) bool { return e.Produced }},
		{"drop before text", scripted.Reply(scripted.Drop{}), llm.Connection, func(_ llm.Message, e *llm.Error) bool { return !e.Produced }},
		{"drop after bytes", scripted.Reply(scripted.Text{Text: "abcdef", Chunks: 6}, scripted.Drop{Bytes: 300}), llm.Connection, func(_ llm.Message, e *llm.Error) bool { return e.Produced }},
		{"reset", scripted.Reply(scripted.Text{Text: "abc"}, scripted.Drop{Reset: true}), llm.Connection, func(_ llm.Message, e *llm.Error) bool { return e.Cause != nil }},
		{"status", scripted.Reply(scripted.Status{Code: 429, RetryAfter: "2", ErrorCode: "slow"}), llm.RateLimit, func(_ llm.Message, e *llm.Error) bool {
			return e.RetryAfter == 2*time.Second && e.Code == "slow" && e.Status == 429
		}},
		{"quota", scripted.Reply(scripted.Status{Code: 429, ErrorCode: "insufficient_quota"}), llm.Quota, nil},
		{"overflow", scripted.Reply(scripted.Overflow{}), llm.Overflow, nil},
		{"error frame", scripted.Reply(scripted.Text{Text: "abc"}, scripted.ErrorFrame{Status: 503, Message: "gone"}), llm.Server, func(_ llm.Message, e *llm.Error) bool { return e.Message == "gone" }},
		{"length", scripted.Reply(scripted.Text{Text: "abc"}, scripted.Length{}), "", func(m llm.Message, _ *llm.Error) bool { return m.Stop == llm.StopLength && m.Text() == "abc" }},
		{"lost call", scripted.Reply(scripted.Text{Text: "abc"}, scripted.LostCall{}), "", func(m llm.Message, _ *llm.Error) bool { return m.Stop == llm.StopToolUse && len(m.Calls()) == 0 }},
		{"refuse", scripted.Reply(scripted.Refuse{Text: "no"}), "", func(m llm.Message, _ *llm.Error) bool {
			return m.Stop == llm.StopRefusal && len(m.Blocks) == 1 && m.Blocks[0].Type == llm.Refusal
		}},
		{"empty", scripted.Reply(scripted.Empty{}), "", func(m llm.Message, _ *llm.Error) bool { return m.Stop == llm.StopEnd && len(m.Blocks) == 0 }},
		{"no usage", scripted.Reply(scripted.Text{Text: "abc"}, scripted.NoUsage{}), "", func(m llm.Message, _ *llm.Error) bool { return m.Usage == nil }},
		{"estimated usage", scripted.Say("abcdefgh"), "", func(m llm.Message, _ *llm.Error) bool { return m.Usage.Output == 2 && m.Usage.Input > 10 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) { return tc.resp, nil }), scripted.Options{})
			for name, p := range providers(t, m) {
				msg, _, failure := collect(t.Context(), p, ask("go"))
				switch {
				case tc.class == "" && failure != nil, tc.class != "" && (failure == nil || failure.Class != tc.class):
					t.Fatalf("%s: got error %v, want class %q", name, failure, tc.class)
				case tc.check != nil && !tc.check(msg, failure):
					t.Fatalf("%s: got %+v, %+v", name, msg, failure)
				}
			}
			if err := m.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAnUnplannedRequestFailsLoudly(t *testing.T) {
	m := scripted.New(scripted.Responses(scripted.Say("one")), scripted.Options{})
	for name, p := range providers(t, m) {
		if _, _, failure := collect(t.Context(), p, ask("first")); failure != nil && len(m.Requests()) == 1 {
			t.Fatal(failure)
		}
		_, _, failure := collect(t.Context(), p, ask("what now?"))
		if failure == nil || failure.Class != llm.Invalid || failure.Retryable() || !strings.Contains(failure.Message, `user "what now?"`) {
			t.Fatalf("%s: got %+v", name, failure)
		}
	}
	if unplanned, ok := errors.AsType[*scripted.UnplannedError](m.Err()); !ok || unplanned.Planned != 1 {
		t.Fatalf("got %v", m.Err())
	}
}

func TestAScriptMayLookAtTheRequest(t *testing.T) {
	m := scripted.New(scripted.Func(func(req scripted.Request) (scripted.Response, error) {
		if results := req.Results(); len(results) > 0 {
			return scripted.Say("it said " + results[0].Text), nil
		}
		if !req.HasTool("ls") || req.System() != "be brief" || req.LastUser() != "list" {
			return nil, errors.New("not what I expected")
		}
		return scripted.Reply(scripted.Call{Name: "ls", Args: `{}`}), nil
	}), scripted.Options{})
	p := m.Provider()
	req := ask("list")
	req.Tools = []llm.ToolSpec{{Name: "ls", Schema: []byte(`{"type":"object"}`)}}
	first, _, failure := collect(t.Context(), p, req)
	if failure != nil {
		t.Fatal(failure)
	}
	req.Messages = append(req.Messages, first, llm.Message{
		Role: llm.RoleToolResult, CallID: first.Calls()[0].CallID, ToolName: "ls", Blocks: []llm.Block{{Type: llm.Text, Text: "a.txt"}},
	})
	second, _, failure := collect(t.Context(), p, req)
	if failure != nil || second.Text() != "it said a.txt" {
		t.Fatalf("got %q, %v", second.Text(), failure)
	}
}

func TestEventsAreStreamedOneByOneAtTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Responses(scripted.Reply(scripted.Text{Text: "abcd", Chunks: 4})), scripted.Options{Pace: time.Second})
		begin := time.Now()
		var at []time.Duration
		for ev, err := range m.Provider().Stream(t.Context(), ask("go")) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(llm.Delta); ok {
				at = append(at, time.Since(begin))
			}
		}
		if diff := cmp.Diff(at, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}); diff != "" {
			t.Fatalf("(-got +want):\n%s", diff)
		}
	})
}

func TestAStallLastsAndItsCommentsDoNotResetTheIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) {
			return scripted.Reply(scripted.Text{Text: "a"}, scripted.Stall{KeepAlive: time.Second}), nil
		}), scripted.Options{})
		begin := time.Now()
		_, n, failure := collect(t.Context(), m.Provider(), ask("go"))
		if failure == nil || failure.Class != llm.Connection || !failure.Retryable() || !failure.Produced || n == 0 {
			t.Fatalf("got %+v", failure)
		}
		if waited := time.Since(begin); waited != openaicompletions.DefaultIdleTimeout {
			t.Fatalf("gave up after %v", waited)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin = time.Now()
		_, _, failure = collect(ctx, m.Provider(), ask("go"))
		if failure == nil || failure.Class != llm.Canceled || time.Since(begin) != 2*time.Second {
			t.Fatalf("after %v: got %+v", time.Since(begin), failure)
		}
	})
}

func TestAStallWithAnEndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Responses(scripted.Reply(
			scripted.Stall{For: 5 * time.Second, KeepAlive: 2 * time.Second}, scripted.Text{Text: "late"})), scripted.Options{})
		begin := time.Now()
		msg, _, failure := collect(t.Context(), m.Provider(), ask("go"))
		if failure != nil || msg.Text() != "late" || time.Since(begin) != 5*time.Second {
			t.Fatalf("after %v: got %q, %v", time.Since(begin), msg.Text(), failure)
		}
	})
}

func TestAClosedBodyEndsAWaitingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Responses(scripted.Reply(scripted.Stall{})), scripted.Options{})
		body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`
		hr, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scripted.BaseURL+"/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.RoundTrip(hr)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		synctest.Wait()
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Fatal("a closed body must not look like its end")
		}
	})
}

func TestWhatIsNoRequestIsRefusedAndRemembered(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":        `{`,
		"not streamed":   `{"model":"m","messages":[]}`,
		"a strange part": `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"video"}]}]}`,
	} {
		m := scripted.New(scripted.Responses(scripted.Say("x")), scripted.Options{})
		hr := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		rec := httptest.NewRecorder()
		m.ServeHTTP(rec, hr)
		if rec.Code != http.StatusBadRequest || m.Err() == nil {
			t.Fatalf("%s: got %d, %v", name, rec.Code, m.Err())
		}
	}
	for name, resp := range map[string]scripted.Response{
		"no step":       {},
		"nil step":      {nil},
		"a late status": {scripted.Text{Text: "a"}, scripted.Status{Code: 500}},
		"status 200":    {scripted.Status{Code: 200}},
	} {
		m := scripted.New(scripted.Responses(resp), scripted.Options{})
		if _, _, failure := collect(t.Context(), m.Provider(), ask("go")); failure == nil || m.Err() == nil {
			t.Fatalf("%s: got %v, %v", name, failure, m.Err())
		}
	}
}

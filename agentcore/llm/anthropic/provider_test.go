package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/anthropic"
	"github.com/workflowd/workflowd/agentcore/llm/llmtest"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, o anthropic.Options) *anthropic.Provider {
	t.Helper()
	p, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheProviderKeepsItsContractInProcess(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script scripted.Script) llm.Provider {
		return provider(t, anthropic.Options{BaseURL: scripted.BaseURL, HTTPClient: scripted.New(script, scripted.Options{}).Client()})
	})
}

func TestTheProviderKeepsItsContractOverHTTP(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script scripted.Script) llm.Provider {
		server := httptest.NewServer(scripted.New(script, scripted.Options{}))
		t.Cleanup(server.Close)
		return provider(t, anthropic.Options{BaseURL: server.URL, HTTPClient: server.Client()})
	})
}

func ask() llm.Request {
	return llm.Request{Model: "claude-sonnet-4-5", Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "go")}}
}

func TestTheRequestGoesToTheEndpointWithItsHeaders(t *testing.T) {
	const secret = "sk-ant-very-secret-0123456789"
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) { return scripted.Say("x"), nil }), scripted.Options{})
	var path atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.String())
		m.ServeHTTP(w, r)
	}))
	defer server.Close()
	for base, want := range map[string]string{
		"":                 "/v1/messages",
		"/":                "/v1/messages",
		"/v1":              "/v1/messages",
		"/v1/":             "/v1/messages",
		"/v1/messages":     "/v1/messages",
		"/anthropic":       "/anthropic/v1/messages",
		"/anthropic?a=b":   "/anthropic/v1/messages?a=b",
		"/api/v1/messages": "/api/v1/messages",
	} {
		p := provider(t, anthropic.Options{BaseURL: server.URL + base, APIKey: secret, Headers: http.Header{"Anthropic-Beta": {"x"}}, HTTPClient: server.Client()})
		if s := llmtest.Follow(t.Context(), t, p, ask()); s.Done == nil {
			t.Fatalf("%s: %v", base, s.Err)
		}
		if got := path.Load(); got != want {
			t.Errorf("%q: got %s, want %s", base, got, want)
		}
	}
	h := m.Requests()[0].Header
	if h.Get("X-Api-Key") != secret || h.Get("Anthropic-Version") != anthropic.Version || h.Get("Anthropic-Beta") != "x" || h.Get("Authorization") != "" {
		t.Fatalf("got headers %v", h)
	}
	_, err := anthropic.New(anthropic.Options{BaseURL: "api.example.org", APIKey: secret})
	if !fault.Is(err, fault.InputValidation) || strings.Contains(err.Error(), secret) {
		t.Fatalf("got %v", err)
	}
}

func TestNoErrorTellsTheKey(t *testing.T) {
	const secret = "sk-ant-very-secret-0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key `+r.Header.Get("X-Api-Key")+`"}}`)
	}))
	defer server.Close()
	s := llmtest.Follow(t.Context(), t, provider(t, anthropic.Options{BaseURL: server.URL, APIKey: secret, HTTPClient: server.Client()}), ask())
	if s.Err == nil || s.Err.Class != llm.Auth || strings.Contains(s.Err.Error(), secret) || !strings.Contains(s.Err.Error(), "invalid x-api-key") {
		t.Fatalf("got %v", s.Err)
	}
}

// pacedBody sends its parts, a fixed time before each, and the last one again and again.
type pacedBody struct {
	ctx   context.Context
	parts []string
	pace  time.Duration
}

func (b *pacedBody) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(b.pace):
	}
	n := copy(p, b.parts[0])
	if len(b.parts) > 1 {
		b.parts = b.parts[1:]
	}
	return n, nil
}

func (*pacedBody) Close() error { return nil }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Fault: a stalled stream that only pings (bugs 5). The half call never becomes a message.
func TestPingsDoNotKeepAStalledStreamAlive(t *testing.T) {
	for name, ping := range map[string]string{
		"named":   "event: ping\ndata: {\"type\": \"ping\"}\n\n",
		"unnamed": "data: {\"type\":\"ping\"}\n\n",
		"comment": ": keepalive\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				half := "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"bash\",\"input\":{}}}\n\n"
				p := provider(t, anthropic.Options{BaseURL: "http://h.invalid", HTTPClient: &http.Client{
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &pacedBody{r.Context(), []string{half, ping}, time.Second}}, nil
					})}})
				begin := time.Now()
				s := llmtest.Follow(t.Context(), t, p, ask())
				took := time.Since(begin) - time.Second // until the half call
				if s.Err == nil || s.Err.Class != llm.Connection || !s.Err.Retryable() || !s.Err.Produced || took != anthropic.DefaultIdleTimeout {
					t.Fatalf("after %v: got %+v", took, s.Err)
				}
			})
		})
	}
}

func TestEventsBetweenPingsKeepAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ping := "event: ping\ndata: {\"type\": \"ping\"}\n\n"
		word := "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
		parts := []string{ping, word, ping, word, ping, word, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"}
		p := provider(t, anthropic.Options{BaseURL: "http://h.invalid", IdleTimeout: 10 * time.Second, HTTPClient: &http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &pacedBody{r.Context(), parts, 4 * time.Second}}, nil
			})}})
		if s := llmtest.Follow(t.Context(), t, p, ask()); s.Done == nil || s.Done.Message.Text() != "xxx" {
			t.Fatalf("got %v", s.Err)
		}
	})
}

// Fault: a cancel that does nothing while only keep-alives come (bugs 5).
func TestCancelReleasesAPingingStreamAtOnce(t *testing.T) {
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		_, _ = io.WriteString(w, "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "event: ping\ndata: {\"type\": \"ping\"}\n\n"); err != nil || flush.Flush() != nil {
				break
			}
		}
		close(left)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for ev, err := range provider(t, anthropic.Options{BaseURL: server.URL, HTTPClient: server.Client()}).Stream(ctx, ask()) {
		if _, ok := ev.(llm.Delta); ok {
			cancel()
		}
		if err != nil {
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.Canceled {
				t.Fatalf("got %v", err)
			}
		}
	}
	<-left
}

// A history that the wire has carried once goes back as it came: the thoughts signed, the calls paired.
func TestTheNextRequestCarriesTheAnswerBack(t *testing.T) {
	m := scripted.New(scripted.Responses(
		scripted.Reply(scripted.Thinking{Text: "let me see", Chunks: 3}, scripted.Text{Text: "Looking."}, scripted.Call{ID: "c1", Name: "ls", Args: `{"path":"x"}`, Chunks: 2}),
		scripted.Say("done")), scripted.Options{})
	p := provider(t, anthropic.Options{BaseURL: scripted.BaseURL, HTTPClient: m.Client()})
	req := ask()
	s := llmtest.Follow(t.Context(), t, p, req)
	if s.Done == nil {
		t.Fatal(s.Err)
	}
	req.Messages = append(req.Messages, s.Done.Message, llm.Message{Role: llm.RoleToolResult, CallID: "c1", Blocks: []llm.Block{{Type: llm.Text, Text: "a.txt"}}})
	if s = llmtest.Follow(t.Context(), t, p, req); s.Done == nil || s.Done.Message.Text() != "done" {
		t.Fatal(s.Err)
	}
	got := m.Requests()[1]
	if said := got.Messages[1]; said.Reasoning != "let me see" || said.Text != "Looking." || len(said.Calls) != 1 || said.Calls[0] != (scripted.ToolCall{ID: "c1", Name: "ls", Args: `{"path":"x"}`}) {
		t.Fatalf("got %+v", said)
	}
	if results := got.Results(); len(results) != 1 || results[0].CallID != "c1" || results[0].Text != "a.txt" || !strings.Contains(string(got.Body), `"signature":"signature-1-1"`) {
		t.Fatalf("got %+v", results)
	}
}

func BenchmarkStream(b *testing.B) {
	const deltas = 200
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) {
		return scripted.Reply(scripted.Text{Text: strings.Repeat("word ", deltas), Chunks: deltas}), nil
	}), scripted.Options{})
	p, err := anthropic.New(anthropic.Options{BaseURL: scripted.BaseURL, HTTPClient: m.Client()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range p.Stream(b.Context(), ask()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}

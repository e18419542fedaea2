package openairesponses_test

import (
	"context"
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
	"github.com/workflowd/workflowd/agentcore/llm/llmtest"
	"github.com/workflowd/workflowd/agentcore/llm/openairesponses"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, o openairesponses.Options) *openairesponses.Provider {
	t.Helper()
	p, err := openairesponses.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheProviderKeepsItsContractInProcess(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script scripted.Script) llm.Provider {
		return provider(t, openairesponses.Options{BaseURL: scripted.BaseURL, HTTPClient: scripted.New(script, scripted.Options{}).Client()})
	})
}

func TestTheProviderKeepsItsContractOverHTTP(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script scripted.Script) llm.Provider {
		server := httptest.NewServer(scripted.New(script, scripted.Options{}))
		t.Cleanup(server.Close)
		return provider(t, openairesponses.Options{BaseURL: server.URL + "/v1", HTTPClient: server.Client()})
	})
}

func ask() llm.Request {
	return llm.Request{Model: "gpt-5", Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "go")}}
}

func TestTheRequestGoesToTheEndpointWithItsHeaders(t *testing.T) {
	const secret = "sk-very-secret-0123456789"
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) { return scripted.Say("x"), nil }), scripted.Options{})
	var path atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.String())
		m.ServeHTTP(w, r)
	}))
	defer server.Close()
	for base, want := range map[string]string{
		"/v1":                   "/v1/responses",
		"/v1/":                  "/v1/responses",
		"/v1/responses":         "/v1/responses",
		"/openai?api-version=2": "/openai/responses?api-version=2",
	} {
		p := provider(t, openairesponses.Options{BaseURL: server.URL + base, APIKey: secret, HTTPClient: server.Client()})
		if s := llmtest.Follow(t.Context(), t, p, ask()); s.Done == nil {
			t.Fatalf("%s: %v", base, s.Err)
		}
		if got := path.Load(); got != want {
			t.Errorf("%q: got %s, want %s", base, got, want)
		}
	}
	if h := m.Requests()[0].Header; h.Get("Authorization") != "Bearer "+secret {
		t.Fatalf("got headers %v", h)
	}
	_, err := openairesponses.New(openairesponses.Options{BaseURL: "api.example.org", APIKey: secret})
	if !fault.Is(err, fault.InputValidation) || strings.Contains(err.Error(), secret) {
		t.Fatalf("got %v", err)
	}
}

// pacedBody sends its parts, a fixed time before each, and the last one again and again.
type pacedBody struct {
	ctx   context.Context
	parts []string
}

func (b *pacedBody) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(time.Second):
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

// Fault: a stalled stream that only sends keep-alives (bugs 5).
func TestKeepAlivesDoNotKeepAStalledStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"half\"}\n\n"
		p := provider(t, openairesponses.Options{BaseURL: "http://h.invalid", HTTPClient: &http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				body := &pacedBody{r.Context(), []string{half, "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":7}\n\n"}}
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
			})}})
		begin := time.Now()
		s := llmtest.Follow(t.Context(), t, p, ask())
		took := time.Since(begin) - time.Second // until the half text
		if s.Err == nil || s.Err.Class != llm.Connection || !s.Err.Produced || took != openairesponses.DefaultIdleTimeout {
			t.Fatalf("after %v: got %+v", took, s.Err)
		}
	})
}

// A history that the wire has carried once goes back as it came: reasoning encrypted, in front of its call.
func TestTheNextRequestCarriesTheAnswerBack(t *testing.T) {
	m := scripted.New(scripted.Responses(
		scripted.Reply(scripted.Thinking{Text: "let me see", Chunks: 3}, scripted.Text{Text: "Looking."}, scripted.Call{ID: "c1", Name: "ls", Args: `{"path":"x"}`, Chunks: 2}),
		scripted.Say("done")), scripted.Options{})
	p := provider(t, openairesponses.Options{BaseURL: scripted.BaseURL, HTTPClient: m.Client()})
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
	const exact = `{"encrypted_content":"encrypted-1-0","id":"rs_1_0","status":"completed","summary":[{"text":"let me see","type":"summary_text"}],"type":"reasoning"},` +
		`{"type":"message","role":"assistant","status":"completed","id":"msg_1_1","content":[{"type":"output_text","text":"Looking.","annotations":[]}]},` +
		`{"type":"function_call","call_id":"c1","id":"fc_1_2","name":"ls","arguments":"{\"path\":\"x\"}"}`
	if results := got.Results(); len(results) != 1 || results[0].Text != "a.txt" || !strings.Contains(string(got.Body), exact) {
		t.Fatalf("got %s", got.Body)
	}
}

func BenchmarkStream(b *testing.B) {
	const deltas = 200
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) {
		return scripted.Reply(scripted.Text{Text: strings.Repeat("word ", deltas), Chunks: deltas}), nil
	}), scripted.Options{})
	p, err := openairesponses.New(openairesponses.Options{BaseURL: scripted.BaseURL, HTTPClient: m.Client()})
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

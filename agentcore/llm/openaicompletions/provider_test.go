package openaicompletions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/llmtest"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

const secret = "sk-very-secret-0123456789"

func ask() llm.Request {
	return llm.Request{Model: "m", Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "go")}}
}

// serve answers each request with status, content type and body.
func serve(t *testing.T, status int, contentType, body string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

func provider(t *testing.T, o openaicompletions.Options) *openaicompletions.Provider {
	t.Helper()
	p, err := openaicompletions.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, o := range map[string]openaicompletions.Options{
		"no URL":            {Provider: "p"},
		"no scheme":         {BaseURL: "api.example.org/v1"},
		"another scheme":    {BaseURL: "ftp://api.example.org"},
		"a key with a line": {BaseURL: "http://h/v1", APIKey: secret + "\nx"},
		"a broken URL":      {BaseURL: "http://u:" + secret + "@h:x"},
	} {
		_, err := openaicompletions.New(o)
		if !fault.Is(err, fault.InputValidation) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheRequestGoesToTheEndpointWithItsHeaders(t *testing.T) {
	m := scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) { return scripted.Say("x"), nil }), scripted.Options{})
	var path atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.String())
		m.ServeHTTP(w, r)
	}))
	defer server.Close()
	for base, want := range map[string]string{
		"/v1":                     "/v1/chat/completions",
		"/v1/":                    "/v1/chat/completions",
		"/v1/chat/completions":    "/v1/chat/completions",
		"/deploy?api-version=2":   "/deploy/chat/completions?api-version=2",
		"/a%2Fb":                  "/a%2Fb/chat/completions",
		"":                        "/chat/completions",
		"/v1/chat/completions?x=": "/v1/chat/completions?x=",
	} {
		p := provider(t, openaicompletions.Options{BaseURL: server.URL + base, APIKey: secret, Headers: http.Header{"X-Extra": {"1"}}, HTTPClient: server.Client()})
		if s := llmtest.Follow(t.Context(), t, p, ask()); s.Done == nil {
			t.Fatalf("%s: %v", base, s.Err)
		}
		if got := path.Load(); got != want {
			t.Errorf("%q: got %s, want %s", base, got, want)
		}
	}
	h := m.Requests()[0].Header
	if h.Get("Authorization") != "Bearer "+secret || h.Get("X-Extra") != "1" || h.Get("Accept") != "text/event-stream" {
		t.Fatalf("got headers %v", h)
	}
}

func TestNoErrorTellsTheKey(t *testing.T) {
	const header = "hdr-very-secret-0123456789"
	for name, server := range map[string]*httptest.Server{
		"a body that repeats it":   serve(t, 401, "application/json", `{"error":{"message":"Incorrect API key provided: `+secret+`","code":"`+header+`"}}`),
		"a stream that repeats it": serve(t, 200, "text/event-stream", `data: {"error":{"message":"bad `+secret+` `+header+`"}}`+"\n\n"),
		"a page that repeats it":   serve(t, 500, "text/html", `<p>`+secret+header+`</p>`),
		"no page":                  serve(t, 200, "application/json", secret),
	} {
		p := provider(t, openaicompletions.Options{BaseURL: server.URL, APIKey: secret, Headers: http.Header{"Api-Key": {header}}, HTTPClient: server.Client()})
		s := llmtest.Follow(t.Context(), t, p, ask())
		for err := error(s.Err); err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), header) || strings.Contains(s.Err.Code, header) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestARequestThatNeverLeftIsNotDispatched(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	p := provider(t, openaicompletions.Options{BaseURL: "http://" + address + "/v1", APIKey: secret, HTTPClient: &http.Client{Transport: &http.Transport{}}})
	s := llmtest.Follow(t.Context(), t, p, ask())
	if s.Err == nil || s.Err.Class != llm.Connection || s.Err.Dispatched || !s.Err.Retryable() {
		t.Fatalf("got %+v", s.Err)
	}
}

func TestAnEndpointThatDoesNotStreamIsUnderstood(t *testing.T) {
	server := serve(t, 200, "application/json; charset=utf-8",
		`{"id":"r1","choices":[{"index":0,"message":{"role":"assistant","content":"hello","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	s := llmtest.Follow(t.Context(), t, provider(t, openaicompletions.Options{BaseURL: server.URL, HTTPClient: server.Client()}), ask())
	if s.Done == nil || s.Done.Message.Text() != "hello" || len(s.Done.Message.Calls()) != 1 || s.Done.Message.Usage.Total != 5 {
		t.Fatalf("got %+v, %v", s.Done, s.Err)
	}
	for name, body := range map[string]string{"an error": `{"error":{"message":"gone","code":503}}`, "nothing": ``, "no JSON": `hello`, "half of it": `{"choices":[]}`} {
		server := serve(t, 200, "application/json", body)
		s := llmtest.Follow(t.Context(), t, provider(t, openaicompletions.Options{BaseURL: server.URL, HTTPClient: server.Client()}), ask())
		if s.Err == nil || !s.Err.Retryable() {
			t.Errorf("%s: got %+v", name, s.Err)
		}
	}
}

func TestAConnectionServesTheNextRequestAlthoughTheGoodbyeComesLate(t *testing.T) {
	var connections atomic.Int64
	done := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
		_ = http.NewResponseController(w).Flush()
		<-done // the end of the body follows only when the client has its answer
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	p := provider(t, openaicompletions.Options{BaseURL: server.URL, HTTPClient: server.Client()})
	for i := range 10 {
		for ev, err := range p.Stream(t.Context(), ask()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(llm.Done); ok {
				done <- struct{}{}
				if i%2 == 0 {
					break // a reader that has what it wants
				}
			}
		}
	}
	if n := connections.Load(); n != 1 {
		t.Fatalf("10 requests took %d connections", n)
	}
}

// closeCounter counts the calls of Close.
type closeCounter struct {
	io.Reader
	closed *atomic.Int64
}

func (c closeCounter) Close() error {
	c.closed.Add(1)
	return nil
}

func TestTheBodyIsClosedHoweverTheStreamEnds(t *testing.T) {
	word := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
	for _, tc := range []struct {
		name, kind, body string
		status           int
		leave            bool
	}{
		{"done", "text/event-stream", word + "data: [DONE]\n\n", 200, false},
		{"cut", "text/event-stream", word, 200, false},
		{"left", "text/event-stream", word + word, 200, true},
		{"error frame", "text/event-stream", "data: {\"error\":{\"message\":\"x\"}}\n\n", 200, false},
		{"status", "application/json", "{}", 500, false},
		{"whole", "application/json", "{}", 200, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var closed atomic.Int64
			p := provider(t, openaicompletions.Options{BaseURL: "http://h.invalid", HTTPClient: &http.Client{
				Transport: transport(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: tc.status, Header: http.Header{"Content-Type": {tc.kind}}, Body: closeCounter{strings.NewReader(tc.body), &closed}}, nil
				})}})
			for range p.Stream(t.Context(), ask()) {
				if tc.leave {
					break
				}
			}
			if n := closed.Load(); n == 0 {
				t.Fatal("the body is still open")
			}
		})
	}
}

func TestCancelEndsTheRequestAtTheServer(t *testing.T) {
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := provider(t, openaicompletions.Options{BaseURL: server.URL, HTTPClient: server.Client()})
	for ev, err := range p.Stream(ctx, ask()) {
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

func TestNothingComesBehindACancelEvenFromOneChunk(t *testing.T) {
	server := serve(t, 200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events []string
	for ev, err := range provider(t, openaicompletions.Options{BaseURL: server.URL, HTTPClient: server.Client()}).Stream(ctx, ask()) {
		if e, ok := errors.AsType[*llm.Error](err); ok {
			events = append(events, string(e.Class))
			continue
		}
		events = append(events, fmt.Sprintf("%T", ev))
		cancel()
	}
	if diff := cmp.Diff(events, []string{"llm.BlockStart", "canceled"}); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
}

// slowBody sends its parts, a fixed time before each.
type slowBody struct {
	ctx   context.Context
	parts []string
	pace  time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(b.pace):
	}
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.parts[0])
	b.parts = b.parts[1:]
	return n, nil
}

func (*slowBody) Close() error { return nil }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheIdleLimitCountsEventsAndOnlyTheWaitForThem(t *testing.T) {
	word := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
	for _, tc := range []struct {
		name  string
		parts []string
		pace  time.Duration
		think time.Duration // of the consumer, at each event
		fails bool
	}{
		{"events just in time", []string{word, word, "data: [DONE]\n\n"}, 9 * time.Second, 0, false},
		{"comments do not count", []string{word, ": ping\n\n", ": ping\n\n", word}, 6 * time.Second, 0, true},
		{"half an event does not count", []string{word, "data: {\"choices\"", ":[", "]}\n\n"}, 6 * time.Second, 0, true},
		{"a slow consumer is no idle stream", []string{word, word, "data: [DONE]\n\n"}, time.Second, time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := provider(t, openaicompletions.Options{BaseURL: "http://h.invalid", IdleTimeout: 10 * time.Second, HTTPClient: &http.Client{
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &slowBody{r.Context(), tc.parts, tc.pace}}, nil
					})}})
				var failure error
				for _, err := range p.Stream(t.Context(), ask()) {
					failure = err
					timer := time.NewTimer(tc.think)
					<-timer.C
				}
				e, _ := errors.AsType[*llm.Error](failure)
				if (e != nil) != tc.fails || e != nil && (e.Class != llm.Connection || !e.Retryable() || !strings.Contains(e.Message, "10s")) {
					t.Fatalf("got %v", failure)
				}
			})
		})
	}
}

func TestTheIdleLimitCoversTheWaitForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider(t, openaicompletions.Options{BaseURL: "http://h.invalid", HTTPClient: &http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			})}})
		begin := time.Now()
		s := llmtest.Follow(t.Context(), t, p, ask())
		if s.Err == nil || s.Err.Class != llm.Connection || s.Err.Produced || time.Since(begin) != openaicompletions.DefaultIdleTimeout {
			t.Fatalf("after %v: got %+v", time.Since(begin), s.Err)
		}
	})
}

func TestASlowGoodbyeDoesNotHoldTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider(t, openaicompletions.Options{BaseURL: "http://h.invalid", HTTPClient: &http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				body := &slowBody{r.Context(), []string{"data: [DONE]\n\n", ": bye\n\n"}, time.Hour / 20}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
			})}})
		begin := time.Now()
		if s := llmtest.Follow(t.Context(), t, p, ask()); s.Done == nil {
			t.Fatal(s.Err)
		}
		if over := time.Since(begin) - time.Hour/20; over > time.Second {
			t.Fatalf("held for %v", over)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	const deltas = 200
	p := scripted.Provider(scripted.Func(func(scripted.Request) (scripted.Response, error) {
		return scripted.Reply(scripted.Text{Text: strings.Repeat("word ", deltas), Chunks: deltas}), nil
	}))
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

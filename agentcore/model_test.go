package agentcore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

func TestEachProtocolIsSpokenToItsEndpoint(t *testing.T) {
	// Promise: P-344
	for kind, want := range map[agentcore.APIKind]struct{ path, header, key string }{
		"":                          {"/v1/chat/completions", "Authorization", "Bearer secret-key"},
		agentcore.OpenAICompletions: {"/v1/chat/completions", "Authorization", "Bearer secret-key"},
		agentcore.OpenAIResponses:   {"/v1/responses", "Authorization", "Bearer secret-key"},
		agentcore.AnthropicMessages: {"/v1/messages", "X-Api-Key", "secret-key"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			model := scriptOf(scripted.Reply(scripted.Thinking{Text: "hm"}, scripted.Text{Text: "Let me look."}, scripted.Call{Name: "ls", Args: `{"path":"."}`}), say("done"))
			var mu sync.Mutex
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				paths = append(paths, r.URL.Path)
				mu.Unlock()
				model.ServeHTTP(w, r)
			}))
			defer server.Close()
			a, err := agentcore.New(t.Context(), agentcore.Options{Model: "m", BaseURL: server.URL + "/v1", APIKey: "secret-key", APIKind: kind, Workdir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			_, said, err := follow(a, agentcore.Input{Prompt: "look"}, nil)
			if err != nil || said != "Let me look.done" {
				t.Errorf("the agent said %q, %v", said, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(paths) != 2 || paths[0] != want.path || paths[1] != want.path {
				t.Errorf("asked at %q, want %s twice", paths, want.path)
			}
			requests := model.Requests()
			if got := requests[0].Header.Get(want.header); got != want.key {
				t.Errorf("%s: %q", want.header, got)
			}
			if results := requests[1].Results(); len(results) != 1 || results[0].CallID == "" {
				t.Errorf("the second request answers no call: %s", requests[1].Body)
			}
		})
	}
}

func TestAProviderBringsItsProtocolItsAddressAndItsKey(t *testing.T) {
	// Promise: P-343
	t.Setenv("OPENAI_API_KEY", "a")
	t.Setenv("ANTHROPIC_API_KEY", "b")
	for _, tc := range []struct {
		o    agentcore.Options
		want string
	}{
		{agentcore.Options{Model: "m"}, "openai"},
		{agentcore.Options{Model: "m", Provider: "openai", APIKind: agentcore.OpenAIResponses}, "openai"},
		{agentcore.Options{Model: "m", Provider: "anthropic"}, "anthropic"},
		{agentcore.Options{Model: "m", APIKind: agentcore.AnthropicMessages}, "anthropic"},
		{agentcore.Options{Model: "m", Provider: "acme", BaseURL: "http://localhost", APIKind: agentcore.AnthropicMessages}, "acme"},
	} {
		r, err := tc.o.Resolved(agentcore.Input{Prompt: "x"})
		if err != nil || r.Provider != tc.want {
			t.Errorf("%+v: got provider %q, %v", tc.o, r.Provider, err)
		}
	}
	t.Setenv("ANTHROPIC_API_KEY", "")
	if _, err := (agentcore.Options{Model: "m", Provider: "anthropic"}).Resolved(agentcore.Input{Prompt: "x"}); !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
		t.Errorf("without the key: %v", err)
	}
	for _, tc := range []struct {
		provider string
		kind     agentcore.APIKind
		want     string
	}{
		{"", "", "OPENAI_API_KEY"}, {"", agentcore.AnthropicMessages, "ANTHROPIC_API_KEY"}, {"anthropic", "", "ANTHROPIC_API_KEY"},
		{"openai", agentcore.AnthropicMessages, "OPENAI_API_KEY"}, {"acme", agentcore.OpenAIResponses, "OPENAI_API_KEY"},
	} {
		if got := agentcore.KeyVariable(tc.provider, tc.kind); got != tc.want {
			t.Errorf("%q %q: got %s", tc.provider, tc.kind, got)
		}
	}
}

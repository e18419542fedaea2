package openaicompletions_test

import (
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/llmtest"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheProviderKeepsItsContractInProcess(t *testing.T) {
	llmtest.Run(t, func(_ *testing.T, script scripted.Script) llm.Provider { return scripted.Provider(script) })
}

func TestTheProviderKeepsItsContractOverHTTP(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script scripted.Script) llm.Provider {
		server := httptest.NewServer(scripted.New(script, scripted.Options{}))
		t.Cleanup(server.Close)
		p, err := openaicompletions.New(openaicompletions.Options{BaseURL: server.URL + "/v1", HTTPClient: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

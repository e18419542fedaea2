package scripted

import (
	"net/http"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
)

// BaseURL is the address of a Model in process. Nothing listens there.
const BaseURL = "http://scripted.invalid/v1"

// ProviderName is the provider in the llm.Origin of a Model in process.
const ProviderName = "scripted"

// Provider returns the Chat Completions provider talking to a new Model of script in process, without network.
func Provider(script Script) llm.Provider { return New(script, Options{}).Provider() }

// Provider returns the Chat Completions provider talking to m in process, without network.
func (m *Model) Provider() llm.Provider {
	p, err := openaicompletions.New(openaicompletions.Options{BaseURL: BaseURL, Provider: ProviderName, HTTPClient: m.Client()})
	if err != nil {
		panic("scripted: the constant options are wrong: " + err.Error()) // a defect of this package, not of any input
	}
	return p
}

// Client returns an HTTP client whose requests m answers in process, whatever their host.
func (m *Model) Client() *http.Client { return &http.Client{Transport: m} }

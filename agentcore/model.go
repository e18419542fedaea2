package agentcore

import (
	"os"
	"slices"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/anthropic"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/llm/openairesponses"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// APIKind names a wire protocol.
type APIKind string

// The protocols. Anything else is refused.
const (
	OpenAICompletions APIKind = openaicompletions.API
	OpenAIResponses   APIKind = openairesponses.API
	AnthropicMessages APIKind = anthropic.API
)

// endpoint is a provider that Options.Provider may name without a BaseURL.
type endpoint struct {
	name, url, keyVariable string
	kinds                  []APIKind // what it speaks there; the first is taken where none is asked for
}

// endpoints are the known providers; the first is the default.
var endpoints = []endpoint{
	{"openai", "https://api.openai.com/v1", "OPENAI_API_KEY", []APIKind{OpenAICompletions, OpenAIResponses}},
	{"anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", []APIKind{AnthropicMessages}},
}

// ofKind returns the provider that is meant where only a protocol is named.
func ofKind(kind APIKind) endpoint {
	for _, e := range endpoints {
		if slices.Contains(e.kinds, kind) {
			return e
		}
	}
	return endpoints[0]
}

// known returns the provider of that name.
func known(name string) (e endpoint, ok bool) {
	at := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == name })
	if at < 0 {
		return endpoint{}, false
	}
	return endpoints[at], true
}

// KeyVariable returns the environment variable that usually holds the key of a provider; of one that is not known here, the
// key of an endpoint which speaks kind. Both may be "".
func KeyVariable(provider string, kind APIKind) string {
	if e, ok := known(provider); ok {
		return e.keyVariable
	}
	return ofKind(kind).keyVariable
}

// Provider returns the name of the provider that is meant where only k is named; "" is the default protocol.
func (k APIKind) Provider() string { return ofKind(k).name }

// keyVariables are the environment variables that usually hold keys.
func keyVariables() []string {
	var out []string
	for _, e := range endpoints {
		out = append(out, e.keyVariable)
	}
	return out
}

// provider returns the model endpoint that o names.
func (o Options) provider() (llm.Provider, error) {
	if o.LLM != nil {
		return o.LLM, nil
	}
	if o.Model == "" {
		return nil, fault.New(fault.InputValidation, "model: no model is configured; name one, or inject a provider")
	}
	name, kind := o.Provider, o.APIKind
	if name == "" {
		name = kind.Provider()
	}
	own, isKnown := known(name)
	if kind == "" {
		kind = OpenAICompletions
		if isKnown {
			kind = own.kinds[0]
		}
	}
	call := protocol.Options{BaseURL: o.BaseURL, APIKey: o.APIKey, Provider: name}
	switch {
	case !slices.Contains([]APIKind{OpenAICompletions, OpenAIResponses, AnthropicMessages}, kind):
		return nil, fault.New(fault.InputValidation, "apiKind %q: want %q, %q or %q", kind, OpenAICompletions, OpenAIResponses, AnthropicMessages)
	case call.BaseURL != "":
		return kind.dial(call)
	case !isKnown:
		return nil, fault.New(fault.InputValidation, "provider %q: not known here, so baseUrl is needed", name)
	case !slices.Contains(own.kinds, kind):
		return nil, fault.New(fault.InputValidation, "provider %q: its own endpoint does not speak %q, so baseUrl is needed", name, kind)
	}
	call.BaseURL = own.url
	if call.APIKey == "" {
		if call.APIKey = os.Getenv(own.keyVariable); call.APIKey == "" {
			return nil, fault.New(fault.InputValidation, "provider %q: no key; set %s, or give a key file", name, own.keyVariable)
		}
	}
	return kind.dial(call)
}

// dial returns the client of the protocol.
func (k APIKind) dial(o protocol.Options) (llm.Provider, error) {
	switch k {
	case OpenAIResponses:
		return openairesponses.New(o)
	case AnthropicMessages:
		return anthropic.New(o)
	}
	return openaicompletions.New(o)
}

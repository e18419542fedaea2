package openairesponses

import (
	"context"
	"iter"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// API is the protocol name in llm.Origin.
const API = "openai-responses"

// Options configure a Provider. BaseURL goes up to and without /responses; the key is sent as a bearer token.
type Options = protocol.Options

// Provider is one Responses endpoint. It is safe for concurrent use and holds nothing that needs closing.
type Provider struct{ endpoint *protocol.Endpoint }

var _ llm.Provider = (*Provider)(nil)

var dialect = protocol.Dialect{API: API, Method: protocol.Under("responses"), Auth: protocol.Bearer}

// New returns a Provider. Errors have the kind fault.InputValidation and never hold the key.
func New(o Options) (*Provider, error) {
	e, err := protocol.New(dialect, o)
	if err != nil {
		return nil, err
	}
	return &Provider{e}, nil
}

// Origin identifies the endpoint for model.
func (p *Provider) Origin(model string) llm.Origin { return p.endpoint.Origin(model) }

// Stream sends one request; see llm.Provider.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		origin := p.Origin(req.Model)
		if err := p.endpoint.Stream(ctx, encode(req, origin), newDecoder(origin), yield); err != nil {
			yield(nil, err)
		}
	}
}

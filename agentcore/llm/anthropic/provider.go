package anthropic

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// API is the protocol name in llm.Origin.
const API = "anthropic-messages"

// Options configure a Provider. BaseURL goes up to and with or without /v1; the key is sent as x-api-key.
type Options = protocol.Options

// Provider is one Messages endpoint. It is safe for concurrent use and holds nothing that needs closing.
type Provider struct{ endpoint *protocol.Endpoint }

var _ llm.Provider = (*Provider)(nil)

var dialect = protocol.Dialect{API: API, Method: method, Auth: auth}

// method returns the address of the one method. Base URLs of this protocol are written without the version by custom.
func method(base *url.URL) *url.URL {
	if path := strings.TrimRight(base.Path, "/"); strings.HasSuffix(path, "/v1") || strings.HasSuffix(path, "/messages") {
		return protocol.Under("messages")(base)
	}
	return base.JoinPath("v1", "messages")
}

func auth(header http.Header, key string) {
	header.Set("Anthropic-Version", Version)
	if key != "" {
		header.Set("X-Api-Key", key)
	}
}

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

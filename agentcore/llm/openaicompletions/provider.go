package openaicompletions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/sse"
)

// API is the protocol name in llm.Origin.
const API = "openai-completions"

// Options configure a Provider. Only BaseURL is needed.
type Options struct {
	BaseURL  string      // up to and without /chat/completions; a query is kept
	APIKey   string      // sent as a bearer token; "" sends none
	Provider string      // name in llm.Origin; "" = the host of BaseURL
	Headers  http.Header // added to each request, e.g. an api-key header; their values are secrets

	// HTTPClient sends the requests; nil = a client shared by all providers. It must have no Timeout of its own.
	HTTPClient *http.Client
	// IdleTimeout ends a stream that sends no event for so long, comments not counted; 0 = DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// Provider is one Chat Completions endpoint. It is safe for concurrent use and holds nothing that needs closing.
type Provider struct {
	endpoint string
	name     string
	key      string
	headers  http.Header
	client   *http.Client
	idle     time.Duration
	quirks   quirks
	secrets  []string
}

var _ llm.Provider = (*Provider)(nil)

// sharedClient keeps connections over all providers, because a provider may live for one run only.
var sharedClient = &http.Client{Transport: newTransport()}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // a *http.Transport by the documentation of net/http
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, idleConnections
	t.DisableCompression = true // a compressed stream would be held back
	return t
}

// New returns a Provider. Errors have the kind fault.InputValidation and never hold the key.
func New(o Options) (*Provider, error) {
	base, err := url.Parse(strings.TrimSpace(o.BaseURL))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fault.New(fault.InputValidation, "base URL of provider %q: want http(s)://host/path", o.Provider)
	}
	key := strings.TrimSpace(o.APIKey)
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fault.New(fault.InputValidation, "API key of provider %q holds a control character", o.Provider)
	}
	p := &Provider{
		name: o.Provider, key: key, headers: o.Headers.Clone(), client: o.HTTPClient,
		idle: o.IdleTimeout, quirks: quirksOf(base),
	}
	if p.name == "" {
		p.name = base.Host
	}
	if p.client == nil {
		p.client = sharedClient
	}
	if p.idle <= 0 {
		p.idle = DefaultIdleTimeout
	}
	if !strings.HasSuffix(base.Path, "/chat/completions") {
		base = base.JoinPath("chat", "completions")
	}
	p.endpoint = base.String()
	p.secrets = secretsOf(key, o.Headers, base)
	return p, nil
}

// secretsOf lists what must not appear in an error: the key, header values, and passwords and values in the URL.
func secretsOf(key string, headers http.Header, base *url.URL) []string {
	list := []string{key}
	for _, values := range headers {
		list = append(list, values...)
	}
	if password, ok := base.User.Password(); ok {
		list = append(list, password)
	}
	for _, values := range base.Query() {
		list = append(list, values...)
	}
	const shortest = 6 // shorter values are versions and flags, and hiding them would mangle messages
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < shortest })
}

// Origin identifies the endpoint for model.
func (p *Provider) Origin(model string) llm.Origin {
	return llm.Origin{API: API, Provider: p.name, Model: model}
}

// Stream sends one request; see llm.Provider.
func (p *Provider) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		if err := p.stream(ctx, req, yield); err != nil {
			yield(nil, err)
		}
	}
}

// stream does all of Stream but yielding the last error; nil when Done was yielded or the consumer left.
func (p *Provider) stream(parent context.Context, req llm.Request, yield func(llm.StreamEvent, error) bool) error {
	if parent.Err() != nil {
		return &llm.Error{Class: llm.Canceled, Message: "canceled before the request", Cause: context.Cause(parent)}
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watch := newWatchdog(p.idle, cancel)
	defer watch.stop()

	hr, err := p.request(ctx, req)
	if err != nil {
		return &llm.Error{Class: llm.Invalid, Message: p.clean(err.Error())}
	}
	watch.wait()
	resp, err := p.client.Do(hr)
	if err != nil {
		return p.broken(parent, ctx, err, nil)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p.refused(parent, ctx, resp)
	}
	d := newDecoder(p.Origin(req.Model))
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" {
		return p.whole(parent, ctx, resp.Body, d, yield)
	}
	events := sse.NewReader(resp.Body)
	for {
		watch.wait()
		ev, err := events.Next()
		watch.pause()
		if ctx.Err() != nil {
			return p.broken(parent, ctx, ctx.Err(), d)
		}
		if err != nil {
			err = d.eof(err)
		} else {
			err = d.event(ev)
		}
		left, stop := p.hand(parent, d, yield)
		if d.finished && err == nil && stop == nil { // whoever leaves with the last event too keeps the connection alive
			drain(ctx, cancel, resp.Body)
			return nil
		}
		if left || stop != nil {
			return stop
		}
		if err != nil {
			return p.hide(err)
		}
	}
}

// hand yields what the decoder has. left says that the consumer broke out of its loop.
func (p *Provider) hand(parent context.Context, d *decoder, yield func(llm.StreamEvent, error) bool) (left bool, err error) {
	for i, ev := range d.out {
		if i > 0 && parent.Err() != nil {
			return false, p.broken(parent, parent, parent.Err(), d)
		}
		if !yield(ev, nil) {
			return true, nil
		}
	}
	clear(d.out)
	d.out = d.out[:0]
	return false, nil
}

func (p *Provider) request(ctx context.Context, req llm.Request) (*http.Request, error) {
	body := encode(req, p.Origin(req.Model), p.quirks)
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	hr.Header.Set("Content-Type", "application/json")
	hr.Header.Set("Accept", "text/event-stream")
	hr.Header.Set("User-Agent", "workflowd")
	if p.key != "" {
		hr.Header.Set("Authorization", "Bearer "+p.key)
	}
	for name, values := range p.headers {
		hr.Header[http.CanonicalHeaderKey(name)] = values
	}
	return hr, nil
}

// refused reads an error response.
func (p *Provider) refused(parent, ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil {
		return p.broken(parent, ctx, err, nil)
	}
	return p.hide(llm.Classify(llm.Failure{ // a body that broke off still has its status and first words
		Provider: p.name, Status: resp.StatusCode, Header: resp.Header, Body: body, Now: time.Now(),
	}))
}

// whole reads a body that is one JSON document although a stream was asked for.
func (p *Provider) whole(parent, ctx context.Context, body io.Reader, d *decoder, yield func(llm.StreamEvent, error) bool) error {
	text, err := io.ReadAll(io.LimitReader(body, sse.MaxEvent+1))
	switch {
	case err != nil:
		return p.broken(parent, ctx, err, d)
	case len(text) > sse.MaxEvent:
		return p.hide(d.eof(&sse.TooLargeError{Limit: sse.MaxEvent}))
	}
	err = d.whole(text)
	if left, stop := p.hand(parent, d, yield); left || stop != nil {
		return stop
	}
	if err != nil {
		return p.hide(err)
	}
	return nil
}

// broken sorts a transport error: our own ctx, the idle limit, or the connection. d is nil before the response.
func (p *Provider) broken(parent, ctx context.Context, err error, d *decoder) error {
	e := &llm.Error{Class: llm.Connection, Dispatched: dispatched(err)}
	if d != nil {
		e.Produced, e.Usage, e.Dispatched = len(d.blocks) > 0, d.usage, true
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the wrapper repeats the URL
	}
	switch idle, ok := errors.AsType[*idleError](context.Cause(ctx)); {
	case parent.Err() != nil:
		e.Class, e.Message, e.Cause = llm.Canceled, "canceled", context.Cause(parent)
	case ok:
		e.Message, e.Cause = idle.Error(), idle
	default:
		e.Message, e.Cause = "connection to the model endpoint: "+err.Error(), err
	}
	return p.hide(e)
}

// dispatched reports whether a request that failed with err may have reached the endpoint.
func dispatched(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	return !lookup
}

// hide removes secrets from what err says, and its cause when that would still tell one.
func (p *Provider) hide(err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = &llm.Error{Class: llm.Connection, Message: err.Error(), Dispatched: true}
	}
	e.Message, e.Code = p.clean(e.Message), p.clean(e.Code)
	if e.Cause != nil && e.Cause.Error() != p.clean(e.Cause.Error()) {
		e.Cause = nil
	}
	return e
}

func (p *Provider) clean(s string) string {
	for _, secret := range p.secrets {
		s = strings.ReplaceAll(s, secret, "[hidden]")
	}
	return s
}

// drain reads what follows the terminal event so that the connection can be used again.
func drain(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader) {
	if ctx.Err() != nil {
		return
	}
	timer := time.AfterFunc(drainTime, func() { cancel(nil) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes) // only a courtesy to the next request
}

package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/sse"
)

// Options configure an endpoint of any protocol. Only BaseURL is needed.
type Options struct {
	BaseURL  string      // with or without the path of the protocol's one method; a query is kept
	APIKey   string      // sent the way the protocol wants it; "" sends none
	Provider string      // name in llm.Origin; "" = the host of BaseURL
	Headers  http.Header // added to each request, e.g. an api-key header; their values are secrets

	// HTTPClient sends the requests; nil = a client shared by all endpoints. It must have no Timeout of its own.
	HTTPClient *http.Client
	// IdleTimeout ends a stream that sends no event for so long, comments and pings not counted; 0 = DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// Dialect is what New must know of a protocol.
type Dialect struct {
	API    string                             // the protocol's name in llm.Origin
	Method func(base *url.URL) *url.URL       // the address requests go to
	Auth   func(header http.Header, k string) // puts the key k and fixed headers in
}

// Decoder turns one answer into stream events, which it leaves in its Response. It is pure but for the ids that it mints.
// Errors are *llm.Error and end the answer.
type Decoder interface {
	// Event takes one event of the body, whose bytes are only lent.
	Event(ev sse.Event) error
	// End takes the end of the body: io.EOF, or what broke the connection.
	End(err error) error
	// Whole takes a body that is one JSON document, from an endpoint that does not stream.
	Whole(body []byte) error
	// Idle reports whether ev only says that the connection is alive.
	Idle(ev sse.Event) bool
	// Made returns the answer so far, the same each time.
	Made() *Response
}

// Endpoint is one address that speaks one protocol. It is safe for concurrent use and holds nothing that needs closing.
type Endpoint struct {
	dialect Dialect
	base    *url.URL
	address string
	name    string
	key     string
	headers http.Header
	client  *http.Client
	idle    time.Duration
	secrets secrets
}

// sharedClient keeps connections over all endpoints, because a provider may live for one run only.
var sharedClient = &http.Client{Transport: newTransport()}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // a *http.Transport by the documentation of net/http
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, idleConnections
	t.DisableCompression = true // a compressed stream would be held back
	return t
}

// New returns an Endpoint. Errors have the kind fault.InputValidation and never hold the key.
func New(d Dialect, o Options) (*Endpoint, error) {
	base, err := url.Parse(strings.TrimSpace(o.BaseURL))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fault.New(fault.InputValidation, "base URL of provider %q: want http(s)://host/path", o.Provider)
	}
	key := strings.TrimSpace(o.APIKey)
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fault.New(fault.InputValidation, "API key of provider %q holds a control character", o.Provider)
	}
	e := &Endpoint{
		dialect: d, base: base, address: d.Method(base).String(), name: o.Provider, key: key, headers: o.Headers.Clone(),
		client: o.HTTPClient, idle: o.IdleTimeout, secrets: secretsOf(key, o.Headers, base),
	}
	if e.name == "" {
		e.name = base.Host
	}
	if e.client == nil {
		e.client = sharedClient
	}
	if e.idle <= 0 {
		e.idle = DefaultIdleTimeout
	}
	return e, nil
}

// Under returns a Dialect.Method: base with the elements joined, unless its path ends in them already.
func Under(elements ...string) func(base *url.URL) *url.URL {
	suffix := "/" + strings.Join(elements, "/")
	return func(base *url.URL) *url.URL {
		if strings.HasSuffix(base.Path, suffix) {
			return base
		}
		return base.JoinPath(elements...)
	}
}

// Bearer is the Dialect.Auth of a protocol that takes the key as a bearer token.
func Bearer(header http.Header, key string) {
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
}

// Base returns the base URL. It must not be changed.
func (e *Endpoint) Base() *url.URL { return e.base }

// Origin identifies the endpoint for model.
func (e *Endpoint) Origin(model string) llm.Origin {
	return llm.Origin{API: e.dialect.API, Provider: e.name, Model: model}
}

// Stream sends body and yields the events that d makes of the answer. It yields all of them, and nothing behind the end of
// ctx; the error is not yielded but returned: an *llm.Error without secrets, or nil when Done was yielded or the consumer
// left. The connection is released before Stream returns.
func (e *Endpoint) Stream(ctx context.Context, body []byte, d Decoder, yield func(llm.StreamEvent, error) bool) error {
	if ctx.Err() != nil {
		return &llm.Error{Class: llm.Canceled, Message: "canceled before the request", Cause: context.Cause(ctx)}
	}
	x := exchange{Endpoint: e, parent: ctx, d: d, made: d.Made(), yield: yield}
	var cancel context.CancelCauseFunc
	x.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatchdog(e.idle, cancel)
	defer watch.stop()

	hr, err := e.request(x.ctx, body)
	if err != nil {
		return &llm.Error{Class: llm.Invalid, Message: e.secrets.clean(err.Error())}
	}
	watch.wait()
	resp, err := e.client.Do(hr)
	if err != nil {
		return x.broken(err, false)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return x.refused(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" {
		return x.whole(resp.Body)
	}
	return x.events(resp.Body, watch, cancel)
}

func (e *Endpoint) request(ctx context.Context, body []byte) (*http.Request, error) {
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	hr.Header.Set("Content-Type", "application/json")
	hr.Header.Set("Accept", "text/event-stream")
	hr.Header.Set("User-Agent", "workflowd")
	e.dialect.Auth(hr.Header, e.key)
	for name, values := range e.headers {
		hr.Header[http.CanonicalHeaderKey(name)] = values
	}
	return hr, nil
}

// exchange is one request and its answer.
type exchange struct {
	*Endpoint
	parent context.Context // the caller's
	ctx    context.Context // ends with parent, or by the watchdog
	d      Decoder
	made   *Response
	yield  func(llm.StreamEvent, error) bool
}

func (x *exchange) events(body io.Reader, watch *watchdog, cancel context.CancelCauseFunc) error {
	events := sse.NewReader(body)
	watch.wait()
	for {
		ev, err := events.Next()
		if err == nil && x.ctx.Err() == nil && x.d.Idle(ev) {
			continue // the wait for a real event goes on
		}
		watch.pause()
		if x.ctx.Err() != nil {
			return x.broken(x.ctx.Err(), true)
		}
		if err != nil {
			err = x.d.End(err)
		} else {
			err = x.d.Event(ev)
		}
		left, stop := x.hand()
		if x.made.Finished && err == nil && stop == nil { // whoever leaves with the last event too keeps the connection alive
			drain(x.ctx, cancel, body)
			return nil
		}
		if left || stop != nil {
			return stop
		}
		if err != nil {
			return x.hide(err)
		}
		watch.wait()
	}
}

// hand yields what the decoder has made. left says that the consumer broke out of its loop.
func (x *exchange) hand() (left bool, err error) {
	for i, ev := range x.made.out {
		if i > 0 && x.parent.Err() != nil {
			return false, x.broken(x.parent.Err(), true)
		}
		if !x.yield(ev, nil) {
			return true, nil
		}
	}
	x.made.Forget()
	return false, nil
}

// refused reads an error response.
func (x *exchange) refused(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && x.ctx.Err() != nil {
		return x.broken(err, false)
	}
	return x.hide(llm.Classify(llm.Failure{ // a body that broke off still has its status and first words
		Provider: x.name, Status: resp.StatusCode, Header: resp.Header, Body: body, Now: time.Now(),
	}))
}

// whole reads a body that is one JSON document although a stream was asked for.
func (x *exchange) whole(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, sse.MaxEvent+1))
	switch {
	case err != nil:
		return x.broken(err, true)
	case len(text) > sse.MaxEvent:
		return x.hide(x.made.Cut(&sse.TooLargeError{Limit: sse.MaxEvent}))
	case !json.Valid(text):
		return x.hide(x.made.Fail(&llm.Error{Class: llm.Connection,
			Message: fmt.Sprintf("the endpoint sent %d bytes that are neither a stream nor JSON", len(text))}))
	}
	err = x.d.Whole(text)
	if left, stop := x.hand(); left || stop != nil {
		return stop
	}
	if err != nil {
		return x.hide(err)
	}
	return nil
}

// broken sorts a transport error: the caller's ctx, the idle limit, or the connection. answered says that the response had
// begun.
func (x *exchange) broken(err error, answered bool) error {
	e := &llm.Error{Class: llm.Connection, Dispatched: dispatched(err)}
	if answered {
		x.made.Fail(e)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the wrapper repeats the URL
	}
	switch idle, ok := errors.AsType[*idleError](context.Cause(x.ctx)); {
	case x.parent.Err() != nil:
		e.Class, e.Message, e.Cause = llm.Canceled, "canceled", context.Cause(x.parent)
	case ok:
		e.Message, e.Cause = idle.Error(), idle
	default:
		e.Message, e.Cause = "connection to the model endpoint: "+err.Error(), err
	}
	return x.hide(e)
}

// dispatched reports whether a request that failed with err may have reached the endpoint.
func dispatched(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	return !lookup
}

// hide removes secrets from what err says.
func (x *exchange) hide(err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = &llm.Error{Class: llm.Connection, Message: err.Error(), Dispatched: true}
	}
	x.secrets.hide(e)
	return e
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

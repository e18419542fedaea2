package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure a Model. The zero value answers as fast as it is read.
type Options struct {
	Pace time.Duration // wait before each delta whose step names none
}

// Model serves a Script. It is safe for concurrent use.
type Model struct {
	script Script
	opts   Options

	mu       sync.Mutex // orders requests and the script
	requests []Request
	failures []error
}

var (
	_ http.Handler      = (*Model)(nil)
	_ http.RoundTripper = (*Model)(nil)
)

// New returns a Model of script.
func New(script Script, opts Options) *Model { return &Model{script: script, opts: opts} }

// Requests returns the requests seen so far, in order, also those that the script refused.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Request(nil), m.requests...)
}

// Err returns the errors of requests that the script refused or that were malformed, joined; nil when there was none. A
// test checks it at its end.
func (m *Model) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.failures...)
}

// answer is a planned response: a body to stream, or an error status with its text.
type answer struct {
	status     int
	retryAfter string
	text       []byte
	body       *wire
}

// plan reads the request and asks the script.
func (m *Model) plan(hr *http.Request) answer {
	spoken, known := apiOf(hr.URL.Path)
	if hr.Method != http.MethodPost || !known {
		return m.refuse(http.StatusNotFound, fmt.Errorf("%s %s: the scripted model only knows POST …/chat/completions, …/messages and …/responses", hr.Method, hr.URL.Path))
	}
	var body []byte
	if hr.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(hr.Body, MaxRequest+1)); err != nil {
			return m.refuse(http.StatusBadRequest, fmt.Errorf("read request: %w", err))
		}
	}
	if len(body) > MaxRequest {
		return m.refuse(http.StatusRequestEntityTooLarge, fmt.Errorf("request body over %d bytes", MaxRequest))
	}
	req, err := spoken.parse(body)
	if err != nil {
		return m.refuse(http.StatusBadRequest, err)
	}
	req.Header = hr.Header.Clone()

	m.mu.Lock()
	req.Number = len(m.requests) + 1
	m.requests = append(m.requests, req)
	resp, err := m.script.Next(req)
	m.mu.Unlock()
	if err == nil {
		err = check(resp)
	}
	if err != nil {
		return m.refuse(http.StatusBadRequest, err)
	}
	if len(resp) > 0 {
		switch s := resp[0].(type) {
		case Status:
			if s.Message == "" {
				s.Message = http.StatusText(s.Code)
			}
			return answer{status: s.Code, retryAfter: s.RetryAfter, text: errorBody(s.ErrorCode, s.Message)}
		case Overflow:
			return answer{status: http.StatusBadRequest, text: errorBody("context_length_exceeded",
				"This model's maximum context length is exceeded by your messages. Please reduce their length.")}
		}
	}
	return answer{status: http.StatusOK, body: newWire(req, resp, m.opts.Pace)}
}

// check reports what a script may not answer.
func check(resp Response) error {
	if len(resp) == 0 {
		return errors.New("the script gave a response without steps; Empty{} says nothing on purpose")
	}
	for i, s := range resp {
		switch s := s.(type) {
		case nil:
			return fmt.Errorf("step %d of the response is nil", i+1)
		case Status:
			if s.Code < 400 || s.Code > 599 {
				return fmt.Errorf("step %d of the response: status %d is no error", i+1, s.Code)
			}
			if i > 0 {
				return fmt.Errorf("step %d of the response: a status must come first", i+1)
			}
		case Overflow:
			if i > 0 {
				return fmt.Errorf("step %d of the response: an overflow must come first", i+1)
			}
		}
	}
	return nil
}

func (m *Model) refuse(status int, err error) answer {
	m.mu.Lock()
	m.failures = append(m.failures, err)
	m.mu.Unlock()
	return answer{status: status, text: errorBody("scripted_model", err.Error())}
}

func errorBody(code, message string) []byte {
	type errorJSON struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
	}
	body, err := json.Marshal(struct {
		Error errorJSON `json:"error"`
	}{errorJSON{Message: message, Type: "scripted_error", Code: code}})
	if err != nil { // strings always encode
		return []byte(`{"error":{"message":"unknown"}}`)
	}
	return body
}

func (a answer) header() http.Header {
	h := http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	if a.body == nil {
		h = http.Header{"Content-Type": {"application/json"}}
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	return h
}

// ServeHTTP answers over a real connection, flushing each event.
func (m *Model) ServeHTTP(rw http.ResponseWriter, hr *http.Request) {
	a := m.plan(hr)
	for k, v := range a.header() {
		rw.Header()[k] = v
	}
	rw.WriteHeader(a.status)
	if a.body == nil {
		_, _ = rw.Write(a.text) // the client left; nobody is there to tell
		return
	}
	flush := http.NewResponseController(rw)
	if err := flush.Flush(); err != nil {
		return
	}
	for {
		data, err := a.body.next(hr.Context())
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // breaks the connection, as net/http documents
		}
		if _, err := rw.Write(data); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
}

// RoundTrip answers in process. Reading the response body pulls the events one by one; closing it, or ending the
// request's context, ends a read that waits. It keeps no goroutine.
func (m *Model) RoundTrip(hr *http.Request) (*http.Response, error) {
	if hr.Body != nil {
		defer hr.Body.Close()
	}
	if err := hr.Context().Err(); err != nil {
		return nil, context.Cause(hr.Context())
	}
	a := m.plan(hr)
	resp := &http.Response{
		Status:     fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)),
		StatusCode: a.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        a.header(),
		ContentLength: -1,
		Request:       hr,
	}
	if a.body == nil {
		resp.ContentLength = int64(len(a.text))
		resp.Body = io.NopCloser(strings.NewReader(string(a.text)))
		return resp, nil
	}
	ctx, cancel := context.WithCancelCause(hr.Context())
	resp.Body = &pulledBody{ctx: ctx, cancel: cancel, wire: a.body}
	return resp, nil
}

// errClosed ends reads of a body that its reader closed.
var errClosed = errors.New("read on a closed response body")

// pulledBody is a response body that makes its bytes when they are read. Close may be called from any goroutine.
type pulledBody struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wire   *wire
	rest   []byte
}

// Read returns the next bytes of the response.
func (b *pulledBody) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if len(b.rest) == 0 {
		data, err := b.wire.next(b.ctx)
		if err != nil {
			return 0, err
		}
		b.rest = data
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close releases the body.
func (b *pulledBody) Close() error {
	b.cancel(errClosed)
	return nil
}

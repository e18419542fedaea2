package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// Model is the id of the demo model.
const Model = "workflowd-demo"

// Name is the provider name in llm.Origin.
const Name = "demo"

// baseURL is never opened: the transport answers in process. The domain cannot exist (RFC 2606).
const baseURL = "http://demo.invalid/v1"

// Options configure the demo model. The zero value answers as fast as it is read.
type Options struct {
	Pace time.Duration // pause between text deltas
}

// New returns the demo model as a provider. It holds nothing that needs closing and is safe for concurrent use.
func New(o Options) llm.Provider {
	p, err := openaicompletions.New(openaicompletions.Options{
		BaseURL: baseURL, Provider: Name, HTTPClient: &http.Client{Transport: transport{o.Pace}},
	})
	if err != nil {
		panic(err) // only a bad baseURL, a constant, could cause it
	}
	return p
}

// transport answers each request by a model of its own, so that nothing but the request decides the response.
type transport struct{ pace time.Duration }

// RoundTrip answers in process; see scripted.Model.RoundTrip.
func (t transport) RoundTrip(hr *http.Request) (*http.Response, error) {
	script := scripted.Func(func(req scripted.Request) (scripted.Response, error) { return respond(req, t.pace), nil })
	return scripted.New(script, scripted.Options{}).RoundTrip(hr)
}

// respond is the whole demo model: a pure function of the request.
func respond(req scripted.Request, pace time.Duration) scripted.Response {
	t := turnOf(req)
	next := story(t)
	rest := t.rest(next)
	var out scripted.Response
	usage := scripted.Usage{Input: inputTokens(req)}
	if next.thinking != "" && req.Effort != "" && len(rest) == len(next.text) {
		out = append(out, scripted.Thinking{Text: next.thinking, Chunks: max(len(next.thinking)/bytesPerDelta, 1), Pace: pace})
		usage.Reasoning = tokensOf(len(next.thinking))
	}
	said, cut := fit(rest, req.MaxTokens)
	if said != "" {
		out = append(out, scripted.Text{Text: said, Chunks: next.deltas(len(said)), Pace: pace})
	}
	size := len(said) + len(next.thinking)*min(int(usage.Reasoning), 1)
	if cut {
		out = append(out, scripted.Length{})
	} else {
		for i, c := range next.calls {
			out = append(out, scripted.Call{ID: callID(req.Body, i), Name: c.name, Args: c.args, Chunks: argsDeltas})
			size += len(c.name) + len(c.args)
		}
	}
	usage.Output = tokensOf(size)
	return append(out, usage)
}

// fit cuts text at the output limit of the request, 0 = none.
func fit(text string, maxTokens int) (said string, cut bool) {
	if maxTokens <= 0 || tokensOf(len(text)) <= int64(maxTokens) {
		return text, false
	}
	n := maxTokens * scripted.BytesPerToken
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}

// deltas returns in how many pieces n bytes of the text are sent: the share of the whole text's pieces.
func (a act) deltas(n int) int {
	whole := min(max(len(a.text)/bytesPerDelta, 1), maxDeltas)
	if a.plan {
		whole = max(whole, minPlanDeltas)
	}
	return max((whole*n+len(a.text)-1)/max(len(a.text), 1), 1)
}

// callID names call i of the answer to a request. It depends on the request only, and differs over the requests of a turn.
func callID(body []byte, i int) string {
	const digits = 12 // bytes of the hash: enough to be unique in a session
	sum := sha256.Sum256(body)
	return fmt.Sprintf("call_%s_%d", hex.EncodeToString(sum[:digits]), i+1)
}

func tokensOf(bytes int) int64 {
	return int64((bytes + scripted.BytesPerToken - 1) / scripted.BytesPerToken)
}

// inputTokens estimates a request from its size, images by their number.
func inputTokens(req scripted.Request) int64 {
	size, images := len(req.Body), 0
	for _, m := range req.Messages {
		images += len(m.Images)
		for _, data := range m.Images {
			size -= len(data)
		}
	}
	return tokensOf(max(size, 0)) + int64(images)*imageTokens
}

package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/sse"
)

// wire turns a Response into the bytes of a streamed body, one event at a time. It holds no goroutine: the transport pulls.
type wire struct {
	frames []frame
	cut    int // body bytes after which it ends; -1 = never
	reset  bool
	sent   int
}

// frame is one write: bytes after a wait. hang waits until the client leaves; keep sends comments while waiting.
type frame struct {
	wait time.Duration
	keep time.Duration
	hang bool
	data []byte
	end  bool // the body ends behind this frame
	kill bool // the connection breaks here
}

// builder makes the frames of one response.
type builder struct {
	wire
	id, model string
	pace      time.Duration
	req       Request
	calls     int
	output    int // bytes said
	role      bool
	usage     *Usage
	noUsage   bool
}

// newWire plans the body of resp. Steps that answer without a stream must be gone.
func newWire(req Request, resp Response, pace time.Duration) *wire {
	b := &builder{
		wire: wire{cut: -1}, req: req, model: req.Model, pace: pace,
		id: fmt.Sprintf("chatcmpl-%d", req.Number),
	}
	finish := ""
	for _, s := range resp {
		switch s := s.(type) {
		case Usage:
			b.usage = &s
		case NoUsage:
			b.noUsage = true
		case Drop:
			if s.Bytes > 0 {
				b.cut = s.Bytes
			} else {
				b.frames = append(b.frames, frame{end: true, kill: s.Reset})
			}
			b.reset = b.reset || s.Reset
		case Stall:
			b.frames = append(b.frames, frame{wait: s.For, keep: s.KeepAlive, hang: s.For == 0})
		case ErrorFrame:
			b.errorFrame(s)
		case Length:
			finish = "length"
		case LostCall:
			finish = "tool_calls"
		case Refuse:
			if s.Text != "" {
				b.delta(b.pace, deltaJSON{Refusal: s.Text})
				b.output += len(s.Text)
			}
			finish = "content_filter"
		case Text:
			for _, part := range chunks(s.Text, s.Chunks) {
				b.delta(b.wait(s.Pace), deltaJSON{Content: &part})
			}
			b.output += len(s.Text)
		case Thinking:
			b.thinking(s)
		case Call:
			b.call(s)
		case Empty, Status, Overflow:
		}
	}
	b.finish(finish)
	return &b.wire
}

func (b *builder) wait(own time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return b.pace
}

type functionJSON struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type callJSON struct {
	Index    int          `json:"index"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionJSON `json:"function"`
}

type deltaJSON struct {
	Role             string     `json:"role,omitempty"`
	Content          *string    `json:"content,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningText    string     `json:"reasoning_text,omitempty"`
	Refusal          string     `json:"refusal,omitempty"`
	ToolCalls        []callJSON `json:"tool_calls,omitempty"`
}

type choiceJSON struct {
	Index        int       `json:"index"`
	Delta        deltaJSON `json:"delta"`
	FinishReason *string   `json:"finish_reason"`
}

type usageJSON struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type chunkJSON struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []choiceJSON `json:"choices"`
	Usage   *usageJSON   `json:"usage,omitempty"`
}

func (b *builder) thinking(s Thinking) {
	for _, part := range chunks(s.Text, s.Chunks) {
		d := deltaJSON{ReasoningContent: part}
		switch s.Field {
		case "reasoning":
			d = deltaJSON{Reasoning: part}
		case "reasoning_text":
			d = deltaJSON{ReasoningText: part}
		}
		b.delta(b.wait(s.Pace), d)
	}
	b.output += len(s.Text)
}

func (b *builder) call(s Call) {
	index := b.calls
	b.calls++
	if s.ID == "" {
		s.ID = fmt.Sprintf("call_%d_%d", b.req.Number, b.calls)
	}
	parts := chunks(s.Args, s.Chunks)
	first := callJSON{Index: index, ID: s.ID, Type: "function", Function: functionJSON{Name: s.Name}}
	if len(parts) == 1 {
		first.Function.Arguments, parts = parts[0], nil
	}
	b.delta(b.wait(s.Pace), deltaJSON{ToolCalls: []callJSON{first}})
	for _, part := range parts {
		b.delta(b.wait(s.Pace), deltaJSON{ToolCalls: []callJSON{{Index: index, Function: functionJSON{Arguments: part}}}})
	}
	b.output += len(s.Name) + len(s.Args)
}

func (b *builder) delta(wait time.Duration, d deltaJSON) {
	if !b.role {
		b.role, d.Role = true, "assistant"
	}
	b.chunk(wait, chunkJSON{Choices: []choiceJSON{{Delta: d}}})
}

func (b *builder) chunk(wait time.Duration, c chunkJSON) {
	c.ID, c.Object, c.Created, c.Model = b.id, "chat.completion.chunk", 1, b.model
	b.event(wait, "", c)
}

// event appends one event of v, which the caller built from strings and numbers and which therefore always encodes.
func (b *builder) event(wait time.Duration, typ string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Appendf(nil, `{"error":{"message":%q}}`, err.Error())
	}
	b.raw(wait, typ, text)
}

func (b *builder) raw(wait time.Duration, typ string, text []byte) {
	data, err := sse.AppendEvent(nil, typ, "", text)
	if err != nil {
		data = sse.AppendComment(nil, err.Error())
	}
	b.frames = append(b.frames, frame{wait: wait, data: data})
}

func (b *builder) errorFrame(s ErrorFrame) {
	type errorJSON struct {
		Message    string `json:"message"`
		Type       string `json:"type,omitempty"`
		Code       string `json:"code,omitempty"`
		StatusCode int    `json:"status_code,omitempty"`
	}
	b.event(b.pace, "", struct {
		Error errorJSON `json:"error"`
	}{errorJSON{Message: s.Message, Code: s.ErrorCode, StatusCode: s.Status}})
	b.frames = append(b.frames, frame{end: true})
}

func (b *builder) finish(reason string) {
	if reason == "" {
		reason = "stop"
		if b.calls > 0 {
			reason = "tool_calls"
		}
	}
	d := deltaJSON{}
	if !b.role {
		d.Role = "assistant"
	}
	b.chunk(b.pace, chunkJSON{Choices: []choiceJSON{{Delta: d, FinishReason: &reason}}})
	if b.req.withUsage && !b.noUsage {
		if b.usage == nil {
			b.usage = &Usage{Input: int64(len(b.req.Body) / BytesPerToken), Output: int64((b.output + BytesPerToken - 1) / BytesPerToken)}
		}
		u := &usageJSON{PromptTokens: b.usage.Input, CompletionTokens: b.usage.Output, TotalTokens: b.usage.Input + b.usage.Output}
		u.PromptDetails.CachedTokens = b.usage.Cached
		u.CompletionDetails.ReasoningTokens = b.usage.Reasoning
		b.chunk(0, chunkJSON{Choices: []choiceJSON{}, Usage: u})
	}
	b.raw(0, "", []byte("[DONE]"))
}

// next returns the next bytes of the body: after their wait, io.EOF at its end, io.ErrUnexpectedEOF where the script
// breaks the connection, or the cause of ctx.
func (w *wire) next(ctx context.Context) ([]byte, error) {
	for len(w.frames) > 0 {
		if w.cut >= 0 && w.sent >= w.cut {
			return nil, w.over(w.reset)
		}
		f := &w.frames[0]
		if f.hang || f.wait > 0 {
			wait := f.wait
			if f.keep > 0 && (f.hang || f.keep < f.wait) {
				wait = f.keep
			}
			if err := sleep(ctx, wait); err != nil {
				return nil, err
			}
			if f.wait -= wait; f.hang || f.wait > 0 {
				return w.take([]byte(": keepalive\n\n")), nil
			}
		}
		data, end, kill := f.data, f.end, f.kill
		w.frames = w.frames[1:]
		if end {
			return nil, w.over(kill)
		}
		if len(data) > 0 {
			return w.take(data), nil
		}
	}
	return nil, io.EOF
}

func (w *wire) over(broken bool) error {
	w.frames = nil
	if broken {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// take counts data and cuts it where the body has to end.
func (w *wire) take(data []byte) []byte {
	if w.cut >= 0 && w.sent+len(data) > w.cut {
		data = data[:w.cut-w.sent]
	}
	w.sent += len(data)
	return data
}

// sleep waits for d, or without end when d is 0, and returns the cause of ctx when it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// chunks cuts text into n parts of about equal length at rune borders; fewer when there are not enough runes, and one
// empty part for an empty text.
func chunks(text string, n int) []string {
	if n <= 1 || len(text) <= 1 {
		return []string{text}
	}
	parts := make([]string, 0, min(n, len(text)))
	for left := n; left > 1 && len(text) > 0; left-- {
		at := max(len(text)/left, 1)
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		parts = append(parts, text[:at])
		text = text[at:]
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}

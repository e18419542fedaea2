package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// wire turns a Response into the bytes of a streamed body, one event at a time. It holds no goroutine and makes each event
// when it is asked for: the transport pulls. It is for one goroutine.
type wire struct {
	req   Request
	steps Response
	pace  time.Duration
	head  string // start of each chunk up to the delta of choice 0

	frames []frame // made, not sent
	said   *cutter // the step at hand, when it is cut into deltas
	closed bool    // nothing follows the frames

	role    bool // the first delta is out
	calls   int
	output  int // bytes said
	finish  string
	usage   *Usage
	noUsage bool

	cut   int // body bytes after which it ends; -1 = never
	reset bool
	sent  int
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

// newWire returns the body of resp. Steps that answer without a stream must be gone.
func newWire(req Request, resp Response, pace time.Duration) *wire {
	return &wire{
		req: req, steps: resp, pace: pace, cut: -1,
		head: fmt.Sprintf(`data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1,"model":%s,"choices":[{"index":0,"delta":{`,
			req.Number, quote(req.Model)),
	}
}

// more makes the next frames; false when the response is over.
func (w *wire) more() bool {
	switch {
	case w.said != nil:
		if part, ok := w.said.next(); ok {
			w.said.emit(part)
		} else {
			w.said = nil
		}
	case len(w.steps) > 0:
		s := w.steps[0]
		w.steps = w.steps[1:]
		w.step(s)
	case !w.closed:
		w.closed = true
		w.terminal()
	default:
		return false
	}
	return true
}

func (w *wire) step(s Step) {
	switch s := s.(type) {
	case Usage:
		w.usage = &s
	case NoUsage:
		w.noUsage = true
	case Drop:
		if s.Bytes > 0 {
			w.cut = s.Bytes
		} else {
			w.frames = append(w.frames, frame{end: true, kill: s.Reset})
		}
		w.reset = w.reset || s.Reset
	case Stall:
		w.frames = append(w.frames, frame{wait: s.For, keep: s.KeepAlive, hang: s.For == 0})
	case ErrorFrame:
		w.errorFrame(s)
	case Length:
		w.finish = "length"
	case LostCall:
		w.finish = "tool_calls"
	case Refuse:
		if s.Text != "" {
			w.text("refusal", w.pace, s.Text)
			w.output += len(s.Text)
		}
		w.finish = "content_filter"
	case Text:
		w.say("content", s.Text, s.Chunks, s.Pace)
	case Thinking:
		field := s.Field
		if field == "" {
			field = "reasoning_content"
		}
		w.say(field, s.Text, s.Chunks, s.Pace)
	case Call:
		w.call(s)
	case Empty, Status, Overflow:
	}
}

func (w *wire) wait(own time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return w.pace
}

// say cuts text into deltas of the field.
func (w *wire) say(field, text string, n int, pace time.Duration) {
	w.output += len(text)
	w.said = &cutter{rest: text, left: max(n, 1), emit: func(part string) { w.text(field, w.wait(pace), part) }}
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

// call sends the name first and then the arguments in parts, or all at once.
func (w *wire) call(s Call) {
	index := w.calls
	w.calls++
	if s.ID == "" {
		s.ID = fmt.Sprintf("call_%d_%d", w.req.Number, w.calls)
	}
	w.output += len(s.Name) + len(s.Args)
	first := callJSON{Index: index, ID: s.ID, Type: "function", Function: functionJSON{Name: s.Name}}
	if s.Chunks <= 1 {
		first.Function.Arguments = s.Args
		w.delta(w.wait(s.Pace), `"tool_calls":`+encode([]callJSON{first}))
		return
	}
	w.delta(w.wait(s.Pace), `"tool_calls":`+encode([]callJSON{first}))
	w.said = &cutter{rest: s.Args, left: s.Chunks, emit: func(part string) {
		w.delta(w.wait(s.Pace), `"tool_calls":`+encode([]callJSON{{Index: index, Function: functionJSON{Arguments: part}}}))
	}}
}

// text sends a delta of one text field.
func (w *wire) text(field string, wait time.Duration, text string) {
	w.delta(wait, quote(field)+":"+quote(text))
}

// delta sends a chunk with the delta fields of choice 0; the first one also names the role.
func (w *wire) delta(wait time.Duration, fields string) {
	w.choice(wait, fields, "null")
}

func (w *wire) choice(wait time.Duration, fields, finish string) {
	if !w.role {
		w.role = true
		if fields != "" {
			fields = "," + fields
		}
		fields = `"role":"assistant"` + fields
	}
	const middle, tail = `},"finish_reason":`, "}]}\n\n"
	data := make([]byte, 0, len(w.head)+len(fields)+len(middle)+len(finish)+len(tail))
	data = append(append(append(append(append(data, w.head...), fields...), middle...), finish...), tail...)
	w.frames = append(w.frames, frame{wait: wait, data: data})
}

// encode returns v as JSON. v is made of strings and numbers here, which always encode.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return quote(err.Error())
	}
	return string(text)
}

func quote(s string) string { return encode(s) }

func (w *wire) errorFrame(s ErrorFrame) {
	type errorJSON struct {
		Message    string `json:"message"`
		Type       string `json:"type,omitempty"`
		Code       string `json:"code,omitempty"`
		StatusCode int    `json:"status_code,omitempty"`
	}
	text := encode(struct {
		Error errorJSON `json:"error"`
	}{errorJSON{Message: s.Message, Code: s.ErrorCode, StatusCode: s.Status}})
	w.frames = append(w.frames, frame{wait: w.pace, data: []byte("data: " + text + "\n\n")}, frame{end: true})
}

// terminal sends the finish reason, the usage and the end marker.
func (w *wire) terminal() {
	reason := w.finish
	if reason == "" {
		reason = "stop"
		if w.calls > 0 {
			reason = "tool_calls"
		}
	}
	w.choice(w.pace, "", quote(reason))
	tail := "data: [DONE]\n\n"
	if w.req.withUsage && !w.noUsage {
		if w.usage == nil {
			w.usage = &Usage{Input: int64(len(w.req.Body) / BytesPerToken), Output: int64((w.output + BytesPerToken - 1) / BytesPerToken)}
		}
		u := usageJSON{PromptTokens: w.usage.Input, CompletionTokens: w.usage.Output, TotalTokens: w.usage.Input + w.usage.Output}
		u.PromptDetails.CachedTokens = w.usage.Cached
		u.CompletionDetails.ReasoningTokens = w.usage.Reasoning
		const choices = `"choices":[`
		head := w.head[:strings.LastIndex(w.head, choices)] // the model's name is quoted, so the last one is ours
		w.frames = append(w.frames, frame{data: []byte(head + choices + `],"usage":` + encode(u) + "}\n\n")})
	}
	w.frames = append(w.frames, frame{data: []byte(tail)})
}

// next returns the next bytes of the body: after their wait, io.EOF at its end, io.ErrUnexpectedEOF where the script
// breaks the connection, or the cause of ctx.
func (w *wire) next(ctx context.Context) ([]byte, error) {
	for len(w.frames) > 0 || w.more() {
		if len(w.frames) == 0 {
			continue
		}
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
	w.frames, w.steps, w.said, w.closed = nil, nil, nil, true
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

// cutter cuts a text into parts of about equal length at rune borders: at most left of them, fewer when there are not
// enough runes, one empty part for an empty text.
type cutter struct {
	rest string
	left int
	any  bool
	emit func(part string)
}

// next returns the next part; false when there is none.
func (c *cutter) next() (string, bool) {
	if c.rest == "" && c.any {
		return "", false
	}
	c.any = true
	at := len(c.rest)
	if c.left > 1 && at > 0 {
		for at = max(len(c.rest)/c.left, 1); at < len(c.rest) && !utf8.RuneStart(c.rest[at]); {
			at++
		}
	}
	part := c.rest[:at]
	c.rest = c.rest[at:]
	c.left--
	return part, true
}

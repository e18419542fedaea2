package openaicompletions

import (
	"errors"
	"io"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/sse"
)

// decoder turns the events of one response into stream events.
type decoder struct {
	protocol.Response

	plain   plain // memory of the fast path
	open    int   // index of the open text, thinking or refusal; -1 = none
	calls   calls
	started int // how many of calls.list have a block
	details details
	field   string // of thinking so far
	refused bool
	finish  string
}

var _ protocol.Decoder = (*decoder)(nil)

func newDecoder(origin llm.Origin) *decoder {
	return &decoder{Response: protocol.Response{Origin: origin}, open: -1}
}

// Idle is false: this protocol has no pings.
func (d *decoder) Idle(sse.Event) bool { return false }

// Event takes one event of the body.
func (d *decoder) Event(ev sse.Event) error {
	if ev.Fault != nil {
		return d.Refuse(ev.Fault)
	}
	data := protocol.TrimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]":
		d.end()
		return nil
	}
	if ev.Type == "" && d.plain.parse(data, d.ID == "") {
		return d.chunk(&d.plain.chunk)
	}
	c, err := decodeChunk(data)
	if err != nil {
		return d.Garbled(err, ev.Unterminated)
	}
	if ev.Type == "error" || c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return d.Refuse(data)
	}
	return d.chunk(&c)
}

// End takes the end of the body. Behind a finish reason the answer was complete; only the goodbye is missing.
func (d *decoder) End(err error) error {
	if _, large := errors.AsType[*sse.TooLargeError](err); large || d.finish == "" {
		return d.Cut(err)
	}
	d.end()
	return nil
}

// Whole takes a body that is one JSON document instead of a stream.
func (d *decoder) Whole(body []byte) error {
	if err := d.Event(sse.Event{Data: body}); err != nil {
		return err
	}
	return d.End(io.EOF)
}

func (d *decoder) chunk(c *chunk) error {
	if d.ID == "" {
		d.ID = c.ID
	}
	for _, u := range []*usage{c.Usage, groqUsage(c)} {
		if r := u.report(); r != nil {
			d.Usage = r
		}
	}
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index.OK && ch.Index.N != 0 {
			continue
		}
		if r := ch.Usage.report(); r != nil {
			d.Usage = r
		}
		switch {
		case ch.Delta != nil:
			d.delta(ch.Delta)
		case ch.Message != nil:
			d.delta(ch.Message)
		}
		if err := d.setFinish(ch.Finish); err != nil {
			return err
		}
	}
	return nil
}

func groqUsage(c *chunk) *usage {
	if c.Groq == nil {
		return nil
	}
	return c.Groq.Usage
}

func (d *decoder) delta(in *delta) {
	d.think(in)
	if in.Content.text != "" {
		d.say(llm.Text, in.Content.text)
	}
	if in.Refusal != "" {
		d.refused = true
		d.say(llm.Refusal, string(in.Refusal))
	}
	if len(in.ToolCalls) == 0 && in.FunctionCall == nil {
		return
	}
	d.calls.chunk++
	for _, part := range in.ToolCalls {
		d.call(part)
	}
	if in.FunctionCall != nil {
		d.call(callDelta{Function: *in.FunctionCall})
	}
}

func (d *decoder) think(in *delta) {
	thinking, field := in.thinkingOf(d.field)
	readable := ""
	for _, raw := range in.ReasoningDetails {
		if !d.inside(llm.Thinking) {
			d.start(llm.Block{Type: llm.Thinking})
		}
		readable += d.details.add(raw)
	}
	if thinking == "" && d.field == "" {
		thinking = readable
	}
	if thinking == "" {
		return
	}
	if !d.inside(llm.Thinking) {
		d.start(llm.Block{Type: llm.Thinking, Field: field})
	}
	d.Grow(d.open, thinking)
	if field != "" {
		d.field = field
		d.Block(d.open).Field = field
	}
}

// inside reports whether the open block is of the kind t.
func (d *decoder) inside(t llm.BlockType) bool { return d.open >= 0 && d.Block(d.open).Type == t }

// say appends text of the kind t, in the open block or a new one.
func (d *decoder) say(t llm.BlockType, text string) {
	if !d.inside(t) {
		d.start(llm.Block{Type: t})
	}
	d.Grow(d.open, text)
}

// start closes the open text and begins the next block. Calls stay open beside others.
func (d *decoder) start(b llm.Block) int {
	d.closeText()
	index := d.Start(b)
	if b.Type != llm.ToolCall {
		d.open = index
	}
	return index
}

func (d *decoder) closeText() {
	if d.open < 0 {
		return
	}
	if d.inside(llm.Thinking) {
		d.Block(d.open).Raw = d.details.take()
	}
	d.Stop(d.open)
	d.open = -1
}

// call takes one part of a call. A call without a name waits, and those behind it wait too, so that blocks keep the order
// of first appearance.
func (d *decoder) call(part callDelta) {
	c := d.calls.add(part)
	if c.block >= 0 {
		d.Grow(c.block, string(part.Function.Arguments))
		return
	}
	d.startCalls(false)
}

// startCalls begins the calls whose name is known; last passes over those whose name never came.
func (d *decoder) startCalls(last bool) {
	for ; d.started < len(d.calls.list); d.started++ {
		c := d.calls.list[d.started]
		if c.name == "" {
			if !last {
				return
			}
			continue
		}
		c.block = d.start(llm.Block{Type: llm.ToolCall, CallID: c.id, Name: c.name})
		c.id = d.Block(c.block).CallID
		d.Grow(c.block, string(c.args))
	}
}

// setFinish takes a finish reason; some of them are errors.
func (d *decoder) setFinish(reason string) error {
	switch reason {
	case "":
		return nil
	case "error", "insufficient_system_resource":
		return d.Fail(&llm.Error{Class: llm.Server, Code: reason, Message: "the model ended with the finish reason " + strconv.Quote(reason)})
	case "abort", "aborted", "cancelled", "canceled", "network_error":
		return d.Fail(&llm.Error{Class: llm.Connection, Code: reason, Message: "the model ended with the finish reason " + strconv.Quote(reason)})
	case "model_context_window_exceeded":
		return d.Fail(&llm.Error{Class: llm.Overflow, Code: reason, Message: "the context window of the model is exceeded"})
	}
	d.finish = reason
	return nil
}

// end closes every block and the response.
func (d *decoder) end() {
	if d.Finished {
		return
	}
	d.closeText()
	d.startCalls(true)
	lost := 0
	for _, c := range d.calls.list {
		if c.block < 0 {
			lost++
		}
	}
	d.Done(d.stop(), lost)
}

// stop normalises the finish reason. A call, even a lost one, outweighs "stop"; a refusal outweighs both.
func (d *decoder) stop() llm.StopReason {
	switch d.finish {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return llm.StopLength
	case "content_filter", "refusal", "safety", "sensitive", "SAFETY", "PROHIBITED_CONTENT":
		return llm.StopRefusal
	case "tool_calls", "function_call", "tool_use":
		if !d.refused {
			return llm.StopToolUse
		}
	}
	switch {
	case d.refused:
		return llm.StopRefusal
	case len(d.calls.list) > 0:
		return llm.StopToolUse
	}
	return llm.StopEnd
}

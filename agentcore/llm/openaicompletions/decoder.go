package openaicompletions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/internal/sse"
)

// errCut is the cause of a stream that ended before its end.
var errCut = errors.New("the stream ended before its terminal event")

// decoder turns the events of one response into stream events. It is pure but for the ids that it mints. The caller
// takes out after each step and empties it. Text that it hands out is never changed later.
type decoder struct {
	origin llm.Origin
	out    []llm.StreamEvent

	plain   plain    // memory of the fast path
	blocks  []*block // by index
	open    int      // index of the open text, thinking or refusal; -1 = none
	calls   calls
	started int // how many of calls.list have a block
	details details
	field   string // of thinking so far
	refused bool

	id       string
	finish   string
	usage    *llm.Usage
	finished bool // Done is out
}

// block is content in the making.
type block struct {
	final llm.Block
	text  strings.Builder
}

func newDecoder(origin llm.Origin) *decoder { return &decoder{origin: origin, open: -1} }

// event takes one event of the body. An error is an *llm.Error and ends the response.
func (d *decoder) event(ev sse.Event) error {
	if ev.Fault != nil {
		return d.refuse(ev.Fault)
	}
	data := trimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]":
		d.end()
		return nil
	}
	if ev.Type == "" && d.plain.parse(data, d.id == "") {
		return d.chunk(&d.plain.chunk)
	}
	c, err := decodeChunk(data)
	if err != nil {
		if ev.Unterminated {
			return d.fail(&llm.Error{Class: llm.Connection, Message: errCut.Error(), Cause: io.ErrUnexpectedEOF})
		}
		return d.fail(&llm.Error{Class: llm.Connection, Message: "the endpoint sent data that is not JSON", Cause: err})
	}
	if ev.Type == "error" || c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return d.refuse(data)
	}
	return d.chunk(&c)
}

// eof takes the end of the body. err is io.EOF or what broke the connection.
func (d *decoder) eof(err error) error {
	if err == io.EOF {
		if d.finish != "" {
			d.end()
			return nil
		}
		return d.fail(&llm.Error{Class: llm.Connection, Message: errCut.Error(), Cause: io.ErrUnexpectedEOF})
	}
	if large, ok := errors.AsType[*sse.TooLargeError](err); ok {
		return d.fail(&llm.Error{Class: llm.Invalid, Message: large.Error(), Cause: err})
	}
	if d.finish != "" { // the answer was complete; only the goodbye is missing
		d.end()
		return nil
	}
	return d.fail(&llm.Error{Class: llm.Connection, Message: "the stream broke: " + err.Error(), Cause: err})
}

// fail completes e with what this response did.
func (d *decoder) fail(e *llm.Error) error {
	e.Dispatched = true
	e.Produced = len(d.blocks) > 0
	e.Usage = d.usage
	return e
}

// refuse turns an error that came inside the stream into a typed one.
func (d *decoder) refuse(body []byte) error {
	return d.fail(llm.Classify(llm.Failure{Provider: d.origin.Provider, Body: body}))
}

func (d *decoder) chunk(c *chunk) error {
	if d.id == "" {
		d.id = c.ID
	}
	for _, u := range []*usage{c.Usage, groqUsage(c)} {
		if r := u.report(); r != nil {
			d.usage = r
		}
	}
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index.ok && ch.Index.n != 0 {
			continue
		}
		if r := ch.Usage.report(); r != nil {
			d.usage = r
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
		if d.open < 0 || d.blocks[d.open].final.Type != llm.Thinking {
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
	if d.open < 0 || d.blocks[d.open].final.Type != llm.Thinking {
		d.start(llm.Block{Type: llm.Thinking, Field: field})
	}
	d.say(llm.Thinking, thinking)
	if field != "" {
		d.field = field
		d.blocks[d.open].final.Field = field
	}
}

// say appends text of the kind t, in the open block or a new one.
func (d *decoder) say(t llm.BlockType, text string) {
	if d.open < 0 || d.blocks[d.open].final.Type != t {
		d.start(llm.Block{Type: t})
	}
	d.grow(d.open, text)
}

// start closes the open text and begins the next block. Calls stay open beside others.
func (d *decoder) start(b llm.Block) int {
	d.closeText()
	index := len(d.blocks)
	d.blocks = append(d.blocks, &block{final: b})
	d.out = append(d.out, llm.BlockStart{Index: index, Type: b.Type, CallID: b.CallID, Name: b.Name, Field: b.Field})
	if b.Type != llm.ToolCall {
		d.open = index
	}
	return index
}

func (d *decoder) grow(index int, text string) {
	if text == "" {
		return
	}
	d.blocks[index].text.WriteString(text)
	d.out = append(d.out, llm.Delta{Index: index, Text: text})
}

func (d *decoder) closeText() {
	if d.open < 0 {
		return
	}
	b := d.blocks[d.open]
	b.final.Text = b.text.String()
	if b.final.Type == llm.Thinking {
		b.final.Raw = d.details.take()
	}
	d.out = append(d.out, llm.BlockStop{Index: d.open, Block: b.final})
	d.open = -1
}

// call takes one part of a call. A call without a name waits, and those behind it wait too, so that blocks keep the order
// of first appearance.
func (d *decoder) call(part callDelta) {
	c := d.calls.add(part)
	if c.block >= 0 {
		d.grow(c.block, string(part.Function.Arguments))
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
		if c.id == "" || d.taken(c.id) {
			c.id = ids.New(mintedCall)
		}
		c.block = d.start(llm.Block{Type: llm.ToolCall, CallID: c.id, Name: c.name})
		d.grow(c.block, string(c.args))
	}
}

// mintedCall is the prefix of call ids made here.
const mintedCall = "call_"

// taken reports whether an earlier call of this response has the id.
func (d *decoder) taken(id string) bool {
	for _, b := range d.blocks {
		if b.final.Type == llm.ToolCall && b.final.CallID == id {
			return true
		}
	}
	return false
}

// setFinish takes a finish reason; some of them are errors.
func (d *decoder) setFinish(reason string) error {
	switch reason {
	case "":
		return nil
	case "error", "insufficient_system_resource":
		return d.fail(&llm.Error{Class: llm.Server, Code: reason, Message: "the model ended with the finish reason " + strconv.Quote(reason)})
	case "abort", "aborted", "cancelled", "canceled", "network_error":
		return d.fail(&llm.Error{Class: llm.Connection, Code: reason, Message: "the model ended with the finish reason " + strconv.Quote(reason)})
	case "model_context_window_exceeded":
		return d.fail(&llm.Error{Class: llm.Overflow, Code: reason, Message: "the context window of the model is exceeded"})
	}
	d.finish = reason
	return nil
}

// end closes every block and emits Done.
func (d *decoder) end() {
	if d.finished {
		return
	}
	d.closeText()
	d.startCalls(true)
	lost := 0
	for _, c := range d.calls.list {
		if c.block < 0 {
			lost++
			continue
		}
		b := d.blocks[c.block]
		b.final.Args, b.final.BadArgs = callArgs(b.text.String())
		d.out = append(d.out, llm.BlockStop{Index: c.block, Block: b.final})
	}
	msg := llm.Message{
		Role: llm.RoleAssistant, ID: d.id, Origin: &d.origin, Usage: d.usage,
		Stop: d.stop(), Blocks: make([]llm.Block, 0, len(d.blocks)),
	}
	for _, b := range d.blocks {
		msg.Blocks = append(msg.Blocks, b.final)
	}
	d.out = append(d.out, llm.Done{Message: msg, LostCalls: lost})
	d.finished = true
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

// whole takes a body that is one JSON document instead of a stream.
func (d *decoder) whole(body []byte) error {
	if !json.Valid(body) {
		return d.fail(&llm.Error{Class: llm.Connection, Message: fmt.Sprintf("the endpoint sent %d bytes that are neither a stream nor JSON", len(body))})
	}
	if err := d.event(sse.Event{Data: body}); err != nil {
		return err
	}
	return d.eof(io.EOF)
}

// trimSpace is bytes.TrimSpace for the spaces of JSON.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	return b
}

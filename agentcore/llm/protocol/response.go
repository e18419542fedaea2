package protocol

import (
	"errors"
	"io"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/internal/sse"
)

// errCut is the message of a stream that ended before its end.
var errCut = errors.New("the stream ended before its terminal event")

// MintedCall is the prefix of call ids made here, for calls that came without one or with one that is taken.
const MintedCall = "call_"

// Response is one answer in the making. A Decoder embeds it and calls its methods; the stream events that follow from them
// keep the rules of llm.StreamEvent. Text that it hands out is never changed later. It is for one goroutine.
type Response struct {
	Origin   llm.Origin
	ID       string     // the provider's response id
	Usage    *llm.Usage // as last reported
	StopWhy  string     // the provider's own words on the end
	Finished bool       // Done is out

	out    []llm.StreamEvent
	blocks []*block
}

// block is content in the making.
type block struct {
	final   llm.Block
	text    strings.Builder
	stopped bool
}

// Made returns r.
func (r *Response) Made() *Response { return r }

// Take returns the events made since the last call. They stay valid.
func (r *Response) Take() []llm.StreamEvent {
	out := r.out
	r.out = nil
	return out
}

// Forget drops the events at hand and keeps their memory for the next ones.
func (r *Response) Forget() {
	clear(r.out)
	r.out = r.out[:0]
}

// Len returns how many blocks have started.
func (r *Response) Len() int { return len(r.blocks) }

// Start begins the next block and returns its index. A call without an id, or with that of an earlier one, gets a new id.
func (r *Response) Start(b llm.Block) int {
	if b.Type == llm.ToolCall && (b.CallID == "" || r.taken(b.CallID)) {
		b.CallID = ids.New(MintedCall)
	}
	index := len(r.blocks)
	r.blocks = append(r.blocks, &block{final: b})
	r.out = append(r.out, llm.BlockStart{Index: index, Type: b.Type, CallID: b.CallID, Name: b.Name, Field: b.Field})
	return index
}

// taken reports whether an earlier call of this response has the id.
func (r *Response) taken(id string) bool {
	for _, b := range r.blocks {
		if b.final.Type == llm.ToolCall && b.final.CallID == id {
			return true
		}
	}
	return false
}

// Grow appends text, or argument text, to a block. It does nothing for "" and for a block that has stopped.
func (r *Response) Grow(index int, text string) {
	b := r.blocks[index]
	if text == "" || b.stopped {
		return
	}
	b.text.WriteString(text)
	r.out = append(r.out, llm.Delta{Index: index, Text: text})
}

// Block returns a block for setting what else it holds, until it stops. Its text is that of Grow; set Text only where the
// endpoint's final value differs.
func (r *Response) Block(index int) *llm.Block { return &r.blocks[index].final }

// Grown returns what Grow has appended to a block so far.
func (r *Response) Grown(index int) string { return r.blocks[index].text.String() }

// Stopped reports whether a block has stopped.
func (r *Response) Stopped(index int) bool { return r.blocks[index].stopped }

// Stop says that a block is complete. A call whose arguments are not set takes them from its text. A second Stop does
// nothing.
func (r *Response) Stop(index int) {
	b := r.blocks[index]
	if b.stopped {
		return
	}
	b.stopped = true
	switch b.final.Type {
	case llm.ToolCall:
		if b.final.Args == nil && b.final.BadArgs == "" {
			b.final.Args, b.final.BadArgs = CallArgs(b.text.String())
		}
	case llm.Text, llm.Thinking, llm.Refusal:
		if b.final.Text == "" {
			b.final.Text = b.text.String()
		}
	case llm.Image, llm.Native:
	}
	r.out = append(r.out, llm.BlockStop{Index: index, Block: b.final})
}

// Done stops every open block and ends the response. lost counts calls that were announced and never came.
func (r *Response) Done(stop llm.StopReason, lost int) {
	if r.Finished {
		return
	}
	msg := llm.Message{
		Role: llm.RoleAssistant, ID: r.ID, Origin: &r.Origin, Usage: r.Usage, Stop: stop, StopWhy: r.StopWhy, Blocks: make([]llm.Block, len(r.blocks)),
	}
	for i, b := range r.blocks {
		r.Stop(i)
		msg.Blocks[i] = b.final
	}
	r.out = append(r.out, llm.Done{Message: msg, LostCalls: lost})
	r.Finished = true
}

// produced reports whether anything has come that counts: text, a name, or a complete block. Source: llm.Assembler.
func (r *Response) produced() bool {
	for _, b := range r.blocks {
		if b.stopped || b.final.Name != "" || b.text.Len() > 0 {
			return true
		}
	}
	return false
}

// Fail completes e with what this response did, and returns it.
func (r *Response) Fail(e *llm.Error) error {
	e.Dispatched = true
	e.Produced = r.produced()
	e.Usage = r.Usage
	return e
}

// Refuse turns an error that came inside the stream into a typed one. Body is its JSON.
func (r *Response) Refuse(body []byte) error {
	return r.Fail(llm.Classify(llm.Failure{Provider: r.Origin.Provider, Body: body}))
}

// Garbled is the error of an event that is not JSON. cut says that the body ended within it.
func (r *Response) Garbled(err error, cut bool) error {
	if cut {
		return r.Cut(io.EOF)
	}
	return r.Fail(&llm.Error{Class: llm.Connection, Message: "the endpoint sent data that is not JSON", Cause: err})
}

// Cut is the error of a body that ended before the terminal event: err is io.EOF, or what broke the connection.
func (r *Response) Cut(err error) error {
	if err == io.EOF {
		return r.Fail(&llm.Error{Class: llm.Connection, Message: errCut.Error(), Cause: io.ErrUnexpectedEOF})
	}
	if large, ok := errors.AsType[*sse.TooLargeError](err); ok {
		return r.Fail(&llm.Error{Class: llm.Invalid, Message: large.Error(), Cause: err})
	}
	return r.Fail(&llm.Error{Class: llm.Connection, Message: "the stream broke: " + err.Error(), Cause: err})
}

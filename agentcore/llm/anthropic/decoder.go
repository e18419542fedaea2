package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/sse"
)

// decoder turns the events of one response into stream events.
type decoder struct {
	protocol.Response

	begun   bool
	parts   []*part           // in order of their start
	byIndex map[int64]*part   // by index on the wire
	queries map[string]string // of searches, by their id
	counts  usage
	stop    string // stop reason of the wire
	lost    int    // calls without a name
}

var _ protocol.Decoder = (*decoder)(nil)

func newDecoder(origin llm.Origin) *decoder {
	return &decoder{Response: protocol.Response{Origin: origin}, byIndex: map[int64]*part{}, queries: map[string]string{}}
}

// Idle reports whether ev is a ping.
func (d *decoder) Idle(ev sse.Event) bool {
	const longest = 64 // bytes; a ping has no content
	switch {
	case ev.Fault != nil:
		return false
	case ev.Type == eventPing:
		return true
	case ev.Type != "" || len(ev.Data) > longest || !bytes.Contains(ev.Data, []byte(eventPing)):
		return false
	}
	var in event
	return protocol.Decode(ev.Data, &in) == nil && in.Type == eventPing
}

// Event takes one event of the body.
func (d *decoder) Event(ev sse.Event) error {
	if ev.Fault != nil {
		return d.Refuse(ev.Fault)
	}
	data := protocol.TrimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]": // of relays; an end where the stop reason is known
		if d.stop != "" {
			return d.end()
		}
		return nil
	}
	if p, ok := parsePlain(data); ok && d.grow(p) {
		return nil
	}
	var in event
	if err := protocol.Decode(data, &in); err != nil {
		return d.Garbled(err, ev.Unterminated)
	}
	if in.Type == "" {
		in.Type = protocol.Text(ev.Type)
	}
	if in.Type == eventError || ev.Type == eventError || len(in.Error) > 0 && string(in.Error) != "null" {
		return d.Refuse(data)
	}
	return d.take(&in)
}

// grow appends a plain piece to the block it belongs to, false when that needs more thought.
func (d *decoder) grow(p plain) bool {
	at := d.byIndex[p.index.N]
	if at == nil || at.block < 0 {
		return false
	}
	if p.kind == deltaInput && at.kind != kindTool || p.kind == deltaText && at.kind != kindText || p.kind == deltaThinking && at.kind != kindThinking {
		return false
	}
	d.Grow(at.block, p.text)
	return true
}

func (d *decoder) take(in *event) error {
	switch in.Type {
	case eventStart:
		return d.begin(in.Message)
	case eventBlockStart:
		return d.open(in.Index.N, in.Block)
	case eventBlockDelta:
		return d.delta(in.Index.N, in.Delta)
	case eventBlockStop:
		if p := d.byIndex[in.Index.N]; p != nil {
			d.close(p)
		}
	case eventDelta:
		var of delta
		if len(in.Delta) > 0 && protocol.Decode(in.Delta, &of) == nil && of.StopReason != "" {
			d.stop, d.StopWhy = string(of.StopReason), string(of.Details.Explanation)
		}
		d.count(in.Usage)
	case eventStop:
		return d.end()
	}
	return nil
}

// begin takes a message_start. The same one again says nothing new; another one means that a relay lost its connection and
// began anew in the same body, whose halves must never be mixed. A start may hold content already. Source: bugs 29.
func (d *decoder) begin(m *message) error {
	if m == nil {
		m = &message{}
	}
	if d.begun {
		if m.ID != "" && string(m.ID) == d.ID {
			return nil
		}
		return d.Fail(&llm.Error{Class: llm.Connection, Message: "the endpoint began a second answer within the first"})
	}
	d.begun, d.ID = true, string(m.ID)
	d.count(m.Usage)
	if m.StopReason != "" {
		d.stop, d.StopWhy = string(m.StopReason), string(m.Details.Explanation)
	}
	for i, raw := range m.Content {
		if err := d.open(int64(i), raw); err != nil {
			return err
		}
		d.close(d.byIndex[int64(i)])
	}
	return nil
}

func (d *decoder) count(u *usage) {
	d.counts.add(u)
	d.Usage = d.counts.report()
}

// end takes a message_stop.
func (d *decoder) end() error {
	if d.Finished {
		return nil
	}
	if d.stop == "model_context_window_exceeded" {
		return d.Fail(&llm.Error{Class: llm.Overflow, Code: d.stop, Message: "the context window of the model is exceeded"})
	}
	for _, p := range d.parts {
		d.close(p)
	}
	d.Done(d.stopReason(), d.lost)
	return nil
}

// stopReason normalises the stop reason. A call, even a lost one, outweighs an ordinary end.
func (d *decoder) stopReason() llm.StopReason {
	switch d.stop {
	case "max_tokens":
		return llm.StopLength
	case "refusal", "sensitive":
		return llm.StopRefusal
	case "pause_turn", "compaction":
		return llm.StopPause
	case "tool_use":
		return llm.StopToolUse
	}
	for _, p := range d.parts {
		if p.kind == kindTool {
			return llm.StopToolUse
		}
	}
	return llm.StopEnd
}

// End takes the end of the body, which is none without a message_stop.
func (d *decoder) End(err error) error { return d.Cut(err) }

// Whole takes a body that is one JSON document instead of a stream.
func (d *decoder) Whole(body []byte) error {
	var m message
	if err := protocol.Decode(body, &m); err != nil {
		return d.Garbled(err, false)
	}
	if m.Type != "message" {
		return d.Refuse(body)
	}
	if err := d.begin(&m); err != nil {
		return err
	}
	return d.end()
}

// open takes a content_block_start.
func (d *decoder) open(index int64, raw json.RawMessage) error {
	if d.byIndex[index] != nil {
		return d.Fail(&llm.Error{Class: llm.Connection, Message: "the endpoint began content block " + strconv.FormatInt(index, 10) + " twice"})
	}
	var c content
	if len(raw) == 0 || protocol.Decode(raw, &c) != nil {
		return d.Fail(&llm.Error{Class: llm.Connection, Message: fmt.Sprintf("the endpoint began content block %d without content", index)})
	}
	p := &part{kind: c.Type, block: -1}
	d.parts = append(d.parts, p)
	d.byIndex[index] = p
	switch c.Type {
	case kindText:
		p.block = d.Start(llm.Block{Type: llm.Text})
		p.citations = c.Citations
		d.Grow(p.block, string(c.Text))
	case kindThinking:
		p.block = d.Start(llm.Block{Type: llm.Thinking})
		p.signature = string(c.Signature)
		d.Grow(p.block, string(c.Thinking))
	case kindRedacted:
		p.block = d.Start(llm.Block{Type: llm.Thinking, Raw: raw})
	case kindTool:
		if c.Name == "" {
			d.lost++
			break
		}
		p.block = d.Start(llm.Block{Type: llm.ToolCall, CallID: string(c.ID), Name: string(c.Name)})
		p.raw = c.Input
	default:
		p.block = d.Start(llm.Block{Type: llm.Native, CallID: string(c.ID + c.ToolUseID), Name: c.Type})
		p.raw = raw
	}
	return nil
}

// delta takes a content_block_delta that is not plain, or comes before the start of its block.
func (d *decoder) delta(index int64, raw json.RawMessage) error {
	var in delta
	if len(raw) == 0 || protocol.Decode(raw, &in) != nil {
		return nil
	}
	p := d.byIndex[index]
	if p == nil {
		if p = d.unannounced(index, in); p == nil {
			return nil
		}
	}
	if p.block < 0 {
		return nil
	}
	switch {
	case in.Type == deltaText && p.kind == kindText:
		d.Grow(p.block, string(in.Text))
	case in.Type == deltaThinking && p.kind == kindThinking:
		d.Grow(p.block, string(in.Thinking))
	case in.Type == deltaInput && p.kind == kindTool:
		d.Grow(p.block, string(in.Input))
	case in.Type == deltaSignature && p.kind == kindThinking:
		p.signature += string(in.Signature)
	case in.Type == deltaCitations && p.kind == kindText:
		if len(in.Citation) > 0 {
			p.citations = append(p.citations, in.Citation)
		}
	case in.Type == deltaInput:
		p.input = append(p.input, in.Input...)
	case d.Block(p.block).Type == llm.Native:
		p.merge(raw)
	}
	return nil
}

// unannounced begins the block of a piece of text or thinking that came without a start, nil for other pieces.
func (d *decoder) unannounced(index int64, in delta) *part {
	p := &part{}
	switch in.Type {
	case deltaText:
		p.kind, p.block = kindText, d.Start(llm.Block{Type: llm.Text})
	case deltaThinking:
		p.kind, p.block = kindThinking, d.Start(llm.Block{Type: llm.Thinking})
	default:
		return nil
	}
	d.parts = append(d.parts, p)
	d.byIndex[index] = p
	return p
}

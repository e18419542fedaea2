package openairesponses

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/sse"
)

// decoder turns the events of one response into stream events.
type decoder struct {
	protocol.Response

	plain   event             // memory of the fast path
	items   []*output         // in order of their start
	byIndex map[int64]*output // by output_index
	seen    []uint64          // by sequence number, what came under it
	created bool
}

var _ protocol.Decoder = (*decoder)(nil)

func newDecoder(origin llm.Origin) *decoder {
	return &decoder{Response: protocol.Response{Origin: origin}, byIndex: map[int64]*output{}}
}

// Idle reports whether ev only keeps the connection alive.
func (d *decoder) Idle(ev sse.Event) bool {
	const longest = 128 // bytes; there is nothing in it but a number
	if ev.Fault != nil || len(ev.Data) > longest || !bytes.Contains(ev.Data, []byte(eventKeepAlive)) {
		return false
	}
	var in event
	return protocol.Decode(ev.Data, &in) == nil && (in.Type == eventKeepAlive || in.Type == "response."+eventKeepAlive)
}

// Event takes one event of the body.
func (d *decoder) Event(ev sse.Event) error {
	if ev.Fault != nil {
		return d.Refuse(ev.Fault)
	}
	data := protocol.TrimSpace(ev.Data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	if parsePlain(data, &d.plain) {
		d.take(&d.plain)
		return nil
	}
	var in event
	if err := protocol.Decode(data, &in); err != nil {
		return d.Garbled(err, ev.Unterminated)
	}
	if in.Type == "" {
		in.Type = protocol.Text(ev.Type)
	}
	switch in.Type {
	case eventError:
		return d.Refuse(data)
	case eventCompleted, eventIncomplete, eventFailed, eventCancelled, eventDone:
		return d.terminal(&in)
	case eventCreated:
		if d.created && len(d.items) > 0 && !d.repeated(&in) {
			return d.Fail(&llm.Error{Class: llm.Connection, Message: "the endpoint began a second answer within the first"})
		}
		d.created = true
	case "":
		if len(in.Error) > 0 && string(in.Error) != "null" {
			return d.Refuse(data)
		}
	}
	if in.Response != nil && d.ID == "" {
		d.ID = string(in.Response.ID)
	}
	d.take(&in)
	return nil
}

// seed makes the hashes of one process alike.
var seed = maphash.MakeSeed()

// repeated reports whether an event came before under the same number: a relay that lost its connection sends again what
// it has sent already. Endpoints that count otherwise, or not at all, repeat nothing. Source: bugs 23.
func (d *decoder) repeated(in *event) bool {
	n := in.Number.N
	if !in.Number.OK || n >= maxNumbered {
		return false
	}
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(string(in.Type))
	for _, i := range []protocol.Int{in.Output, in.Content, in.Summary} {
		_ = h.WriteByte(byte(i.N))
	}
	_, _ = h.WriteString(string(in.Delta))
	sum := h.Sum64() | 1
	for int64(len(d.seen)) <= n {
		d.seen = append(d.seen, 0)
	}
	if d.seen[n] == sum {
		return true
	}
	d.seen[n] = sum
	return false
}

// take takes an event that belongs to an item.
func (d *decoder) take(in *event) {
	if d.repeated(in) {
		return
	}
	switch in.Type {
	case eventItemAdded:
		d.added(in)
	case eventItemDone:
		if o := d.added(in); o != nil {
			d.finish(o, in.Item)
		}
	case eventPartAdded, eventPartDone:
		d.part(in)
	case eventTextDelta:
		d.say(in, llm.Text, string(in.Delta))
	case eventNoDelta:
		d.say(in, llm.Refusal, string(in.Delta))
	case eventTextDone:
		d.settle(in, llm.Text, string(in.Text))
	case eventNoDone:
		d.settle(in, llm.Refusal, string(in.Refusal))
	case eventCitation:
		if o := d.find(in, itemMessage); o != nil && len(in.Annotation) > 0 {
			p := d.piece(o, in.Content.N, llm.Text)
			p.annotations = append(p.annotations, in.Annotation)
		}
	case eventSummary:
		d.think(in, fromSummary, in.Summary.N, string(in.Delta))
	case eventThought:
		d.think(in, fromText, in.Content.N, string(in.Delta))
	case eventSummaryDone:
		d.thoughtAll(in, fromSummary, in.Summary.N, string(in.Text))
	case eventThoughtDone:
		d.thoughtAll(in, fromText, in.Content.N, string(in.Text))
	case eventArgs, eventInput:
		if o := d.find(in, itemCall); o != nil {
			d.argue(o, string(in.Delta))
		}
	case eventArgsDone, eventInputDone:
		if o := d.find(in, itemCall); o != nil {
			o.args, o.argued = string(in.Arguments+in.Input), true
		}
	}
}

// terminal takes the event that ends the response.
func (d *decoder) terminal(in *event) error {
	r := in.Response
	if r == nil {
		r = &response{}
	}
	if d.ID == "" {
		d.ID = string(r.ID)
	}
	if u := r.Usage.report(); u != nil {
		d.Usage = u
	}
	status := string(r.Status)
	switch in.Type {
	case eventIncomplete, eventFailed, eventCancelled:
		status = string(in.Type[len("response."):])
	}
	switch status {
	case "failed":
		if len(r.Error) > 0 && string(r.Error) != "null" {
			return d.Refuse(append(append([]byte(`{"error":`), r.Error...), '}'))
		}
		return d.Fail(&llm.Error{Class: llm.Server, Message: "the response failed, and the endpoint did not say why"})
	case "cancelled":
		return d.Fail(&llm.Error{Class: llm.Connection, Message: "the endpoint cancelled the response"})
	}
	d.complete(r.Output)
	lost := 0
	for _, o := range d.items {
		d.close(o)
		if o.isCall() && o.block < 0 {
			lost++
		}
	}
	d.Done(d.stop(status, r), lost)
	return nil
}

// stop normalises how the response ended. A refusal outweighs a call, a call, even a lost one, an ordinary end.
func (d *decoder) stop(status string, r *response) llm.StopReason {
	if status == "incomplete" {
		if r.Incomplete != nil && r.Incomplete.Reason == "content_filter" {
			return llm.StopRefusal
		}
		return llm.StopLength
	}
	stop := llm.StopEnd
	for _, o := range d.items {
		if o.isCall() {
			stop = llm.StopToolUse
		}
		for _, p := range o.pieces {
			if d.Block(p.block).Type == llm.Refusal {
				return llm.StopRefusal
			}
		}
	}
	return stop
}

// complete takes the items of the final response. Those that have come already are passed over: they are told apart by the
// id of a call, and by being the first, second … of their kind, because indices and other ids do not always agree.
func (d *decoder) complete(list []json.RawMessage) {
	came := map[string][]*output{}
	for _, o := range d.items {
		came[o.kind] = append(came[o.kind], o)
	}
	for _, raw := range list {
		var it item
		if protocol.Decode(raw, &it) != nil || it.Type == "" {
			continue
		}
		o := pick(came, it)
		if o == nil {
			o = d.open(it, raw)
		}
		d.finish(o, raw)
	}
}

// pick takes the item that it is out of came; nil when there is none.
func pick(came map[string][]*output, it item) *output {
	list := came[it.Type]
	at := 0
	if it.CallID != "" {
		for i, o := range list {
			if o.callID == string(it.CallID) {
				at = i
			}
		}
		if at < len(list) && list[at].callID != "" && list[at].callID != string(it.CallID) {
			return nil
		}
	}
	if at >= len(list) {
		return nil
	}
	o := list[at]
	came[it.Type] = append(list[:at:at], list[at+1:]...)
	return o
}

// End takes the end of the body, which is none without a terminal event.
func (d *decoder) End(err error) error { return d.Cut(err) }

// Whole takes a body that is one JSON document instead of a stream.
func (d *decoder) Whole(body []byte) error {
	var r response
	if err := protocol.Decode(body, &r); err != nil {
		return d.Garbled(err, false)
	}
	if r.Object != "response" && len(r.Output) == 0 {
		return d.Refuse(body)
	}
	return d.terminal(&event{Type: eventDone, Response: &r})
}

package openairesponses

import (
	"encoding/json"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// output is an output item in the making.
type output struct {
	kind   string // type on the wire
	id     string // as it came first
	callID string // of a call, as the wire has it
	done   bool   // its final value has come

	block  int      // index of its block; -1 of a message, and of a call until its name is known
	pieces []*piece // of a message

	args   string // of a call: final, or pieces while it has no block
	argued bool   // args are final

	source source // of reasoning: where its text comes from
	parts  int64  // of reasoning: index of the part that is being said
}

// piece is a part of the content of a message.
type piece struct {
	index       int64
	block       int
	final       string
	settled     bool
	annotations []json.RawMessage
}

// source is where the text of reasoning comes from. Where an endpoint sends a summary and the thoughts themselves, what
// came first is shown, so that nothing is shown twice.
type source int

const (
	fromNowhere source = iota
	fromSummary
	fromText
)

// betweenParts stands between the parts of reasoning.
const betweenParts = "\n\n"

func (o *output) isCall() bool { return o.kind == itemCall || o.kind == itemCustom }

// added returns the item that an output_item event is about, and begins it when it is new; nil when the event has none. An
// index that is taken by a complete item, or by one of another kind, belongs to a new one.
func (d *decoder) added(in *event) *output {
	var it item
	if len(in.Item) == 0 || protocol.Decode(in.Item, &it) != nil || it.Type == "" {
		return nil
	}
	o := d.byIndex[in.Output.N]
	if !in.Output.OK {
		o = d.byID(string(it.ID))
	}
	if o == nil || o.kind != it.Type || o.done && in.Type == eventItemAdded {
		o = d.open(it, in.Item)
		if in.Output.OK {
			d.byIndex[in.Output.N] = o
		}
	}
	return o
}

func (d *decoder) byID(id string) *output {
	for i := len(d.items) - 1; i >= 0; i-- {
		if id != "" && d.items[i].id == id {
			return d.items[i]
		}
	}
	return nil
}

// find returns the item of a kind that a delta is about: by its index, else by its id, else the last one; a message or
// reasoning that was never announced begins here. nil when there is no such item.
func (d *decoder) find(in *event, kind string) *output {
	o := d.byIndex[in.Output.N]
	if !in.Output.OK {
		if o = d.byID(string(in.ItemID)); o == nil && len(d.items) > 0 {
			o = d.items[len(d.items)-1]
		}
	}
	fits := o != nil && (o.kind == kind || kind == itemCall && o.isCall())
	switch {
	case fits && !o.done:
		return o
	case fits || o != nil || kind == itemCall:
		return nil
	}
	o = d.open(item{Type: kind, ID: in.ItemID}, nil)
	d.byIndex[in.Output.N] = o
	return o
}

// open begins an item.
func (d *decoder) open(it item, raw json.RawMessage) *output {
	o := &output{kind: it.Type, id: string(it.ID), callID: string(it.CallID), block: -1}
	d.items = append(d.items, o)
	switch {
	case it.Type == itemMessage:
	case it.Type == itemReasoning:
		o.block = d.Start(llm.Block{Type: llm.Thinking})
	case o.isCall():
		d.name(o, it)
	default:
		o.block = d.Start(llm.Block{Type: llm.Native, CallID: o.id, Name: it.Type})
	}
	return o
}

// name begins the block of a call once its name is known.
func (d *decoder) name(o *output, it item) {
	if o.callID == "" {
		o.callID = string(it.CallID)
	}
	if o.block >= 0 || it.Name == "" {
		return
	}
	o.block = d.Start(llm.Block{Type: llm.ToolCall, CallID: string(it.CallID), Name: string(it.Name)})
	if !o.argued {
		d.Grow(o.block, o.args)
		o.args = ""
	}
}

// argue appends to the arguments of a call.
func (d *decoder) argue(o *output, more string) {
	switch {
	case o.block >= 0:
		d.Grow(o.block, more)
	case !o.argued:
		o.args += more
	}
}

// piece returns a part of a message, and begins it when it is new.
func (d *decoder) piece(o *output, index int64, t llm.BlockType) *piece {
	for _, p := range o.pieces {
		if p.index == index {
			return p
		}
	}
	p := &piece{index: index, block: d.Start(llm.Block{Type: t})}
	o.pieces = append(o.pieces, p)
	return p
}

// say appends to a part of a message.
func (d *decoder) say(in *event, t llm.BlockType, text string) {
	if o := d.find(in, itemMessage); o != nil {
		d.Grow(d.piece(o, in.Content.N, t).block, text)
	}
}

// settle takes the final text of a part of a message.
func (d *decoder) settle(in *event, t llm.BlockType, text string) {
	if o := d.find(in, itemMessage); o != nil {
		p := d.piece(o, in.Content.N, t)
		p.final, p.settled = text, true
	}
}

// part takes a content_part event.
func (d *decoder) part(in *event) {
	if in.Part.Type != partText && in.Part.Type != partRefusal {
		return // a part of reasoning, whose text comes by itself
	}
	t, text := in.Part.words()
	if in.Type == eventPartDone {
		d.settle(in, t, text)
		return
	}
	d.say(in, t, text)
}

// think appends to reasoning.
func (d *decoder) think(in *event, from source, index int64, text string) {
	o := d.find(in, itemReasoning)
	if o == nil || text == "" || o.source != fromNowhere && o.source != from {
		return
	}
	if o.source == from && o.parts != index {
		d.Grow(o.block, betweenParts)
	}
	o.source, o.parts = from, index
	d.Grow(o.block, text)
}

// thoughtAll takes the final text of a part of reasoning, which is said when nothing of the part has been.
func (d *decoder) thoughtAll(in *event, from source, index int64, text string) {
	if o := d.find(in, itemReasoning); o != nil && (o.source == fromNowhere || o.source == from && o.parts < index) {
		d.think(in, from, index, text)
	}
}

// finish takes the final value of an item.
func (d *decoder) finish(o *output, raw json.RawMessage) {
	var it item
	if o.done || protocol.Decode(raw, &it) != nil {
		return
	}
	switch {
	case o.kind == itemMessage:
		for i, p := range it.Content {
			t, text := p.words()
			at := d.piece(o, int64(i), t)
			at.final, at.settled = text, true
			if len(p.Annotations) > 0 {
				at.annotations = p.Annotations
			}
		}
		if len(o.pieces) == 0 {
			d.piece(o, 0, llm.Text)
		}
		for _, p := range o.pieces {
			d.Block(p.block).Raw = identity(it)
		}
	case o.kind == itemReasoning:
		d.extend(o.block, thoughts(it, o.source))
		d.Block(o.block).Raw = raw
	case o.isCall():
		d.name(o, it)
		if text := string(it.Arguments + it.Input); text != "" || !o.argued {
			o.args, o.argued = text, true
		}
		if o.block >= 0 {
			d.Block(o.block).Raw = identity(it)
		}
	default:
		b := d.Block(o.block)
		b.Raw, b.Search = raw, search(it)
	}
	d.close(o)
}

// close completes the blocks of an item with what has come.
func (d *decoder) close(o *output) {
	if o.done {
		return
	}
	o.done = true
	for _, p := range o.pieces {
		if p.settled {
			d.extend(p.block, p.final)
		}
		d.Block(p.block).Sources = sources(p.annotations)
		d.Stop(p.block)
	}
	if o.block < 0 {
		return
	}
	if o.isCall() && o.argued && o.args != "" {
		if !strings.HasPrefix(o.args, d.Grown(o.block)) { // what was streamed was not the truth
			b := d.Block(o.block)
			b.Args, b.BadArgs = protocol.CallArgs(o.args)
		}
		d.growTo(o.block, o.args)
	}
	d.Stop(o.block)
}

// extend makes text the final text of a block: by a delta where it goes on from what was said, else by replacing that.
func (d *decoder) extend(block int, text string) {
	if text == "" || d.growTo(block, text) {
		return
	}
	d.Block(block).Text = text
}

// growTo appends what text has more than the block, and reports whether it begins with what the block has.
func (d *decoder) growTo(block int, text string) bool {
	more, ok := strings.CutPrefix(text, d.Grown(block))
	if ok {
		d.Grow(block, more)
	}
	return ok
}

// thoughts returns the text of reasoning from where it came so far; of an item that has said nothing, its summary, else the
// thoughts themselves.
func thoughts(it item, from source) string {
	summary, text := join(it.Summary), join(it.Content)
	if from == fromText || from == fromNowhere && summary == "" {
		return text
	}
	return summary
}

func join(parts []part) string {
	var said []string
	for _, p := range parts {
		if p.Text != "" {
			said = append(said, string(p.Text))
		}
	}
	return strings.Join(said, betweenParts)
}

// known is the Raw of a message and of a call: what its item is called, for replay.
type known struct {
	Type  string        `json:"type"`
	ID    protocol.Text `json:"id"`
	Phase protocol.Text `json:"phase"`
}

// identity returns the Raw of a block that belongs to it.
func identity(it item) json.RawMessage {
	b := protocol.Body{}
	b.Raw(`{"type":`).Str(it.Type)
	if it.ID != "" {
		b.Raw(`,"id":`).Str(string(it.ID))
	}
	if it.Phase != "" {
		b.Raw(`,"phase":`).Str(string(it.Phase))
	}
	return b.Raw(`}`).Bytes
}

// search says what an item means for a search, nil when it is none.
func search(it item) *llm.Search {
	if it.Type != itemSearch {
		return nil
	}
	s := &llm.Search{Status: llm.SearchSuccess, Query: string(it.Action.Query)}
	if s.Query == "" && len(it.Action.Queries) > 0 {
		s.Query = string(it.Action.Queries[0])
	}
	switch it.Status {
	case "in_progress", "searching":
		s.Status = llm.SearchRunning
	case "failed", "incomplete":
		s.Status, s.Error = llm.SearchFailed, string(it.Status)
	}
	for _, from := range it.Action.Sources {
		if from.URL != "" {
			s.Sources = append(s.Sources, llm.Source{URL: string(from.URL), Title: string(from.Title)})
		}
	}
	if it.Action.URL != "" && len(s.Sources) == 0 { // a page was opened
		s.Sources = []llm.Source{{URL: string(it.Action.URL)}}
	}
	return s
}

// sources returns the pages that a text cites.
func sources(annotations []json.RawMessage) []llm.Source {
	var out []llm.Source
	for _, raw := range annotations {
		var of struct {
			URL   protocol.Text `json:"url"`
			Title protocol.Text `json:"title"`
		}
		if protocol.Decode(raw, &of) == nil && of.URL != "" {
			out = append(out, llm.Source{URL: string(of.URL), Title: string(of.Title)})
		}
	}
	return out
}

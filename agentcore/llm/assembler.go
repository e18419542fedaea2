package llm

import "strings"

// Assembler builds the message of a response from its stream events, so that what came before a break can be kept. The
// zero value is ready. It is for one goroutine; messages that it returned stay valid and unchanged.
type Assembler struct {
	blocks []*assembled
}

type assembled struct {
	block  Block
	text   strings.Builder
	closed bool
}

// Add takes the next event. Done replaces everything by the blocks of its message.
func (a *Assembler) Add(ev StreamEvent) {
	switch ev := ev.(type) {
	case BlockStart:
		for len(a.blocks) <= ev.Index {
			a.blocks = append(a.blocks, &assembled{})
		}
		a.blocks[ev.Index] = &assembled{block: Block{Type: ev.Type, CallID: ev.CallID, Name: ev.Name}}
	case Delta:
		if ev.Index < len(a.blocks) {
			a.blocks[ev.Index].text.WriteString(ev.Text)
		}
	case BlockStop:
		if ev.Index < len(a.blocks) {
			a.blocks[ev.Index].block, a.blocks[ev.Index].closed = ev.Block, true
		}
	case Done:
		a.blocks = make([]*assembled, len(ev.Message.Blocks))
		for i, b := range ev.Message.Blocks {
			a.blocks[i] = &assembled{block: b, closed: true}
		}
	}
}

// Blocks returns the content so far in order: finished blocks as they are, open text, thinking and refusals as far as they
// came. Calls whose arguments are not complete and empty open blocks are left out. It costs one slice, no copy of text.
func (a *Assembler) Blocks() []Block {
	out := make([]Block, 0, len(a.blocks))
	for _, s := range a.blocks {
		switch {
		case s.closed:
			out = append(out, s.block)
		case s.block.Type != ToolCall && s.text.Len() > 0:
			b := s.block
			b.Text = s.text.String()
			out = append(out, b)
		}
	}
	return out
}

// Partial returns Blocks as an assistant message that stopped for the reason stop.
func (a *Assembler) Partial(origin Origin, stop StopReason) Message {
	return Message{Role: RoleAssistant, Blocks: a.Blocks(), Origin: &origin, Stop: stop}
}

// Empty reports whether nothing has been shown yet: no block has text, arguments or a name.
func (a *Assembler) Empty() bool {
	for _, s := range a.blocks {
		if s.closed || s.block.Name != "" || s.text.Len() > 0 {
			return false
		}
	}
	return true
}

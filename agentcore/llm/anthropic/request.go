package anthropic

import (
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// beganBefore stands in front of a history that begins with an assistant; the endpoint wants a user first.
const beganBefore = "(The conversation began before this point.)"

// cached marks the end of what the endpoint should remember.
const cached = `,"cache_control":{"type":"ephemeral"}`

// encode returns the request body. It is pure, and it grows with the history: up to the end of its messages, and but for
// where the cache mark stands, the body of a turn repeats that of the turn before byte for byte, so that prompt caches hit.
func encode(req llm.Request, origin llm.Origin) []byte {
	steps := slices.Collect(protocol.Steps(req, origin, MaxCallID))
	t := thinkingOf(req, joinsMidway(steps))
	e := &encoder{Body: protocol.NewBody(req)}
	e.Raw(`{"model":`).Str(req.Model).Raw(`,"max_tokens":`).Int(t.maxOut).Raw(`,"stream":true`)
	e.thinking(t)
	e.tools(req)
	if req.System != "" {
		e.Raw(`,"system":[{"type":"text","text":`).Str(req.System).Raw(cached + `}]`)
	}
	e.Raw(`,"messages":[`)
	for _, s := range steps {
		if s.Assistant != nil {
			e.assistant(s)
			e.results(s.Calls)
		} else {
			e.user(s.User)
		}
	}
	e.endMessage()
	if e.mark > 0 {
		e.Bytes = slices.Insert(e.Bytes, e.mark, []byte(cached)...)
	}
	return e.Raw(`]}`).Bytes
}

// encoder appends JSON. Adjacent messages of one role become one.
type encoder struct {
	protocol.Body
	role llm.Role // of the open message, "" = none
	mark int      // where the cache mark goes: in the last block of the last user message
}

func (e *encoder) thinking(t thinking) {
	switch {
	case t.kind == "":
	case t.budget > 0:
		e.Raw(`,"thinking":{"type":`).Str(t.kind).Raw(`,"budget_tokens":`).Int(t.budget).Raw(`}`)
	case t.shown:
		e.Raw(`,"thinking":{"type":`).Str(t.kind).Raw(`,"display":"summarized"}`)
	default:
		e.Raw(`,"thinking":{"type":`).Str(t.kind).Raw(`}`)
	}
	if t.effort != "" {
		e.Raw(`,"output_config":{"effort":`).Str(t.effort).Raw(`}`)
	}
}

// tools declares the tools. Without a system prompt, which comes behind them in the endpoint's memory, the last carries the
// cache mark.
func (e *encoder) tools(req llm.Request) {
	if len(req.Tools) == 0 && !req.WebSearch {
		return
	}
	e.Raw(`,"tools":[`)
	for i, t := range req.Tools {
		e.Next().Raw(`{"name":`).Str(t.Name).Raw(`,"description":`).Str(t.Description).Raw(`,"input_schema":`).Schema(t)
		if req.System == "" && i == len(req.Tools)-1 {
			e.Raw(cached)
		}
		e.Raw(`}`)
	}
	if req.WebSearch {
		e.Next().Raw(`{"type":"web_search_20250305","name":"web_search","max_uses":`).Int(MaxSearches).Raw(`}`)
	}
	e.Raw(`]`)
}

// block begins the next content block, in a message of the role.
func (e *encoder) block(role llm.Role) *protocol.Body {
	if e.role == "" && role == llm.RoleAssistant {
		e.block(llm.RoleUser).Raw(`{"type":"text","text":`).Str(beganBefore)
		e.endBlock()
	}
	if e.role != role {
		e.endMessage()
		e.role = role
		e.Next().Raw(`{"role":`).Str(string(role)).Raw(`,"content":[`)
	}
	return e.Next()
}

// endBlock closes a content block of a user.
func (e *encoder) endBlock() {
	e.mark = len(e.Bytes)
	e.Raw(`}`)
}

func (e *encoder) endMessage() {
	if e.role != "" {
		e.Raw(`]}`)
	}
}

// user writes the text and the images of a user.
func (e *encoder) user(blocks []llm.Block) {
	for _, b := range blocks {
		switch {
		case b.Type == llm.Text && said(b.Text):
			e.block(llm.RoleUser).Raw(`{"type":"text","text":`).Str(b.Text)
			e.endBlock()
		case b.Type == llm.Image && len(b.Data) > 0:
			e.block(llm.RoleUser)
			e.image(b)
			e.endBlock()
		}
	}
}

// said reports whether text has anything that can be seen; the endpoint refuses other text.
func said(text string) bool { return strings.TrimSpace(text) != "" }

// image writes an image up to its closing brace.
func (e *encoder) image(b llm.Block) {
	e.Raw(`{"type":"image","source":{"type":"base64","media_type":`).Str(protocol.MimeType(b)).Raw(`,"data":"`).Base64(b.Data).Raw(`"}`)
}

// results writes the results of calls, the first thing in the user message behind them.
func (e *encoder) results(calls []protocol.Call) {
	for _, c := range calls {
		e.block(llm.RoleUser).Raw(`{"type":"tool_result","tool_use_id":`).Str(c.ID)
		if c.Result == nil || c.Result.IsError {
			e.Raw(`,"is_error":true`)
		}
		text := c.Said(protocol.NoOutput)
		if !said(text) {
			text = protocol.NoOutput
		}
		if c.Result == nil || !protocol.HasImages(c.Result.Blocks) {
			e.Raw(`,"content":`).Str(text)
		} else {
			e.Raw(`,"content":[`)
			for _, b := range c.Result.Blocks {
				switch {
				case b.Type == llm.Text && said(b.Text):
					e.Next().Raw(`{"type":"text","text":`).Str(b.Text).Raw(`}`)
				case b.Type == llm.Image && len(b.Data) > 0:
					e.Next()
					e.image(b)
					e.Raw(`}`)
				}
			}
			e.Raw(`]`)
		}
		e.endBlock()
	}
}

// assistant writes what the assistant said: its blocks in order, without those that the endpoint would refuse. What only the
// endpoint itself understands goes back to the same model of the same provider, and what belongs to its own tools only when
// the message ended by itself, so that no call of them lacks its result.
func (e *encoder) assistant(s protocol.Step) {
	blocks := s.Assistant.Blocks
	last := len(blocks) // behind the last block that is no thinking: a message may not end in thoughts
	for last > 0 && (blocks[last-1].Type == llm.Thinking || !e.sends(s, &blocks[last-1])) {
		last--
	}
	calls := s.Calls
	for i := range blocks[:last] {
		b := &blocks[i]
		if !e.sends(s, b) {
			continue
		}
		e.block(llm.RoleAssistant)
		switch b.Type {
		case llm.Text, llm.Refusal:
			e.Raw(`{"type":"text","text":`).Str(b.Text)
			if s.Same && s.Ended && b.Type == llm.Text && len(b.Raw) > 0 {
				e.Raw(`,"citations":`).JSON(b.Raw, '[', `[]`)
			}
			e.Raw(`}`)
		case llm.Thinking:
			if of := signedOf(b); of.Type == kindRedacted {
				e.JSON(b.Raw, '{', `{}`)
			} else {
				e.Raw(`{"type":"thinking","thinking":`).Str(b.Text).Raw(`,"signature":`).Str(string(of.Signature)).Raw(`}`)
			}
		case llm.ToolCall:
			c := calls[0]
			calls = calls[1:]
			e.Raw(`{"type":"tool_use","id":`).Str(c.ID).Raw(`,"name":`).Str(protocol.Clean(b.Name, maxName, "tool"))
			e.Raw(`,"input":`).JSON(b.Args, '{', `{}`).Raw(`}`)
		case llm.Native:
			e.JSON(b.Raw, '{', `{}`)
		case llm.Image:
		}
	}
}

// sends reports whether a block of an assistant goes into the request.
func (e *encoder) sends(s protocol.Step, b *llm.Block) bool {
	switch b.Type {
	case llm.Text, llm.Refusal:
		return said(b.Text)
	case llm.Thinking:
		return s.Same && replayable(b)
	case llm.ToolCall:
		return slices.ContainsFunc(s.Calls, func(c protocol.Call) bool { return c.Block == b })
	case llm.Native:
		return s.Same && s.Ended && native(protocol.Unquote(protocol.Field(b.Raw, "type")))
	case llm.Image:
	}
	return false
}

// native reports whether kind, on the wire, is one that a Native block may hold.
func native(kind string) bool {
	switch kind {
	case "", kindText, kindThinking, kindRedacted, kindTool:
		return false
	}
	return true
}

// signedOf reads the Raw of thinking.
func signedOf(b *llm.Block) (of signed) {
	if len(b.Raw) > 0 && protocol.Decode(b.Raw, &of) != nil {
		return signed{}
	}
	return of
}

// replayable reports whether thinking can go back: signed, or redacted. Without a signature it was cut off.
func replayable(b *llm.Block) bool {
	of := signedOf(b)
	return of.Type == kindThinking && of.Signature != "" || of.Type == kindRedacted
}

// joinsMidway reports whether the history ends in a round of tools that began without thoughts to send back.
func joinsMidway(steps []protocol.Step) bool {
	if len(steps) == 0 {
		return false
	}
	s := steps[len(steps)-1]
	if len(s.Calls) == 0 {
		return false
	}
	return !s.Same || !replayable(&s.Assistant.Blocks[0])
}

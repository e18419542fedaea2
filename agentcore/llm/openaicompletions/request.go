package openaicompletions

import (
	"encoding/base64"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// encode returns the request body. It is pure, and it grows with the history: up to the end of its messages, the body of
// a turn repeats that of the turn before byte for byte, so that prompt caches hit.
func encode(req llm.Request, origin llm.Origin, q quirks) []byte {
	e := &encoder{origin: origin, buf: make([]byte, 0, sizeOf(req))}
	e.raw(`{"model":`).str(req.Model)
	e.raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	if q.cacheKey && req.CacheKey != "" {
		e.raw(`,"prompt_cache_key":`).str(req.CacheKey)
	}
	if req.Effort.Named() {
		e.raw(`,"reasoning_effort":`).str(string(req.Effort.Fold()))
	}
	e.tools(req, q)
	e.raw(`,"messages":[`)
	if req.System != "" {
		e.item().raw(`{"role":"system","content":`).str(req.System).raw(`}`)
	}
	e.messages(req)
	e.raw(`]`)
	if req.MaxTokens > 0 {
		key := `,"max_tokens":`
		if q.completionTokens {
			key = `,"max_completion_tokens":`
		}
		e.raw(key).raw(strconv.Itoa(req.MaxTokens))
	}
	return e.raw(`}`).buf
}

// sizeOf guesses the size of the body, so that most requests are built without growing.
func sizeOf(req llm.Request) int {
	const perMessage, perBody = 128, 512
	n := perBody + len(req.System)
	for i := range req.Messages {
		n += perMessage
		for j := range req.Messages[i].Blocks {
			b := &req.Messages[i].Blocks[j]
			n += len(b.Text) + len(b.Args) + len(b.Raw) + base64.StdEncoding.EncodedLen(len(b.Data)) + perMessage/2
		}
	}
	for _, t := range req.Tools {
		n += len(t.Schema) + len(t.Description) + perMessage
	}
	return n + n/8
}

// encoder appends JSON. items counts the elements of the open array.
type encoder struct {
	buf    []byte
	items  int
	origin llm.Origin
}

func (e *encoder) raw(s string) *encoder {
	e.buf = append(e.buf, s...)
	return e
}

func (e *encoder) str(s string) *encoder {
	e.buf = protocol.AppendString(e.buf, s)
	return e
}

// item begins the next element of the message list.
func (e *encoder) item() *encoder {
	if e.items > 0 {
		e.raw(`,`)
	}
	e.items++
	return e
}

func (e *encoder) tools(req llm.Request, q quirks) {
	if len(req.Tools) == 0 {
		if !q.noEmptyTools && protocol.HasCalls(req.Messages) {
			e.raw(`,"tools":[]`)
		}
		return
	}
	e.raw(`,"tools":[`)
	for i, t := range req.Tools {
		if i > 0 {
			e.raw(`,`)
		}
		e.raw(`{"type":"function","function":{"name":`).str(t.Name).raw(`,"description":`).str(t.Description).raw(`,"parameters":`)
		e.buf = protocol.AppendRaw(e.buf, t.Schema, '{', `{"type":"object","properties":{}}`)
		e.raw(`}}`)
	}
	e.raw(`]`)
}

// messages writes the history: behind each assistant message its results, then the images of the results as a user message.
func (e *encoder) messages(req llm.Request) {
	for step := range protocol.Steps(req, e.origin, MaxCallID) {
		if step.Assistant == nil {
			e.user(step.User)
			continue
		}
		e.assistant(step)
		var images []llm.Block
		for _, c := range step.Calls {
			images = e.result(c, images)
		}
		if len(images) > 0 {
			e.user(append([]llm.Block{{Type: llm.Text, Text: protocol.ImagesOf}}, images...))
		}
	}
}

// assistant writes the message; nothing when nothing is left of it.
func (e *encoder) assistant(step protocol.Step) {
	m := step.Assistant
	said := m.Text()
	for i := range m.Blocks {
		if m.Blocks[i].Type == llm.Refusal {
			said += m.Blocks[i].Text
		}
	}
	if said == "" && len(step.Calls) == 0 {
		return
	}
	e.item().raw(`{"role":"assistant","content":`)
	if said == "" {
		e.raw(`null`)
	} else {
		e.str(said)
	}
	if step.Same {
		e.thinking(m)
	}
	for i, c := range step.Calls {
		if i == 0 {
			e.raw(`,"tool_calls":[`)
		} else {
			e.raw(`,`)
		}
		e.raw(`{"id":`).str(c.ID).raw(`,"type":"function","function":{"name":`).str(c.Block.Name)
		e.raw(`,"arguments":`).str(string(protocol.AppendRaw(nil, c.Block.Args, '{', `{}`))).raw(`}}`)
	}
	if len(step.Calls) > 0 {
		e.raw(`]`)
	}
	e.raw(`}`)
}

// thinking writes the thinking of m back in the fields it came in.
func (e *encoder) thinking(m *llm.Message) {
	for _, field := range thinkingFields {
		text := ""
		for i := range m.Blocks {
			if b := &m.Blocks[i]; b.Type == llm.Thinking && b.Field == field {
				text += b.Text
			}
		}
		if text != "" {
			e.raw(`,`).str(field).raw(`:`).str(text)
		}
	}
	n := 0
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != llm.Thinking || len(b.Raw) == 0 {
			continue
		}
		entries := protocol.AppendRaw(nil, b.Raw, '[', `[]`)
		if entries = protocol.TrimSpace(entries[1 : len(entries)-1]); len(entries) == 0 {
			continue
		}
		if n == 0 {
			e.raw(`,"reasoning_details":[`)
		} else {
			e.raw(`,`)
		}
		e.buf = append(e.buf, entries...)
		n++
	}
	if n > 0 {
		e.raw(`]`)
	}
}

// result writes the tool message of c and returns images with those of the result.
func (e *encoder) result(c protocol.Call, images []llm.Block) []llm.Block {
	instead := protocol.NoOutput
	if c.Result != nil && protocol.HasImages(c.Result.Blocks) {
		instead = protocol.SeeImages
		for _, b := range c.Result.Blocks {
			if b.Type == llm.Image && len(b.Data) > 0 {
				images = append(images, b)
			}
		}
	}
	e.item().raw(`{"role":"tool","tool_call_id":`).str(c.ID).raw(`,"content":`).str(c.Said(instead)).raw(`}`)
	return images
}

// user writes a user message: a string, or parts when there are images. Without content it writes nothing.
func (e *encoder) user(blocks []llm.Block) {
	if !protocol.HasImages(blocks) {
		if said := protocol.JoinText(blocks); said != "" {
			e.item().raw(`{"role":"user","content":`).str(said).raw(`}`)
		}
		return
	}
	e.item().raw(`{"role":"user","content":[`)
	n := 0
	for _, b := range blocks {
		if b.Type == llm.Text && b.Text == "" || b.Type == llm.Image && len(b.Data) == 0 || b.Type != llm.Text && b.Type != llm.Image {
			continue
		}
		if n > 0 {
			e.raw(`,`)
		}
		n++
		if b.Type == llm.Text {
			e.raw(`{"type":"text","text":`).str(b.Text).raw(`}`)
			continue
		}
		mime := b.MimeType
		if mime == "" {
			mime = "image/png"
		}
		e.raw(`{"type":"image_url","image_url":{"url":"data:`)
		quoted := protocol.AppendString(nil, mime)
		e.buf = append(e.buf, quoted[1:len(quoted)-1]...)
		e.raw(`;base64,`)
		e.buf = base64.StdEncoding.AppendEncode(e.buf, b.Data)
		e.raw(`"}}`)
	}
	e.raw(`]}`)
}

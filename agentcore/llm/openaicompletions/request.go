package openaicompletions

import (
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// encode returns the request body. It is pure, and it grows with the history: up to the end of its messages, the body of
// a turn repeats that of the turn before byte for byte, so that prompt caches hit.
func encode(req llm.Request, origin llm.Origin, q quirks) []byte {
	e := &encoder{protocol.NewBody(req), origin}
	e.Raw(`{"model":`).Str(req.Model)
	e.Raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	if q.cacheKey && req.CacheKey != "" {
		e.Raw(`,"prompt_cache_key":`).Str(req.CacheKey)
	}
	if req.Effort.Named() {
		e.Raw(`,"reasoning_effort":`).Str(string(req.Effort.Fold()))
	}
	e.tools(req, q)
	e.Raw(`,"messages":[`)
	if req.System != "" {
		e.Next().Raw(`{"role":"system","content":`).Str(req.System).Raw(`}`)
	}
	e.messages(req)
	e.Raw(`]`)
	if req.MaxTokens > 0 {
		key := `,"max_tokens":`
		if q.completionTokens {
			key = `,"max_completion_tokens":`
		}
		e.Raw(key).Int(req.MaxTokens)
	}
	return e.Raw(`}`).Bytes
}

// encoder appends JSON.
type encoder struct {
	protocol.Body
	origin llm.Origin
}

func (e *encoder) tools(req llm.Request, q quirks) {
	if len(req.Tools) == 0 {
		if !q.noEmptyTools && protocol.HasCalls(req.Messages) {
			e.Raw(`,"tools":[]`)
		}
		return
	}
	e.Raw(`,"tools":[`)
	for _, t := range req.Tools {
		e.Next().Raw(`{"type":"function","function":{"name":`).Str(t.Name).Raw(`,"description":`).Str(t.Description).Raw(`,"parameters":`).Schema(t).Raw(`}}`)
	}
	e.Raw(`]`)
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
	e.Next().Raw(`{"role":"assistant","content":`)
	if said == "" {
		e.Raw(`null`)
	} else {
		e.Str(said)
	}
	if step.Same {
		e.thinking(m)
	}
	if len(step.Calls) > 0 {
		e.Raw(`,"tool_calls":[`)
	}
	for _, c := range step.Calls {
		e.Next().Raw(`{"id":`).Str(c.ID).Raw(`,"type":"function","function":{"name":`).Str(c.Block.Name)
		e.Raw(`,"arguments":`).Str(string(protocol.AppendRaw(nil, c.Block.Args, '{', `{}`))).Raw(`}}`)
	}
	if len(step.Calls) > 0 {
		e.Raw(`]`)
	}
	e.Raw(`}`)
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
			e.Raw(`,`).Str(field).Raw(`:`).Str(text)
		}
	}
	details := protocol.Body{}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != llm.Thinking || len(b.Raw) == 0 {
			continue
		}
		entries := protocol.AppendRaw(nil, b.Raw, '[', `[]`)
		if entries = protocol.TrimSpace(entries[1 : len(entries)-1]); len(entries) > 0 {
			details.Next().Raw(string(entries))
		}
	}
	if len(details.Bytes) > 0 {
		e.Raw(`,"reasoning_details":[`).Raw(string(details.Bytes)).Raw(`]`)
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
	e.Next().Raw(`{"role":"tool","tool_call_id":`).Str(c.ID).Raw(`,"content":`).Str(c.Said(instead)).Raw(`}`)
	return images
}

// user writes a user message: a string, or parts when there are images. Without content it writes nothing.
func (e *encoder) user(blocks []llm.Block) {
	if !protocol.HasImages(blocks) {
		if said := protocol.JoinText(blocks); said != "" {
			e.Next().Raw(`{"role":"user","content":`).Str(said).Raw(`}`)
		}
		return
	}
	e.Next().Raw(`{"role":"user","content":[`)
	for _, b := range blocks {
		switch {
		case b.Type == llm.Text && b.Text != "":
			e.Next().Raw(`{"type":"text","text":`).Str(b.Text).Raw(`}`)
		case b.Type == llm.Image && len(b.Data) > 0:
			e.Next().Raw(`{"type":"image_url","image_url":{"url":`).DataURL(b).Raw(`}}`)
		}
	}
	e.Raw(`]}`)
}

package openaicompletions

import (
	"encoding/base64"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// The texts that stand where the history has none. The model reads them.
const (
	lostResult = "The tool did not return a result: it was interrupted and its outcome is unknown."
	noOutput   = "(no output)"
	seeImages  = "(see the attached images)"
	imagesOf   = "Images returned by the tools:"
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
	e.messages(req.Messages)
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
	ids    callIDs
}

func (e *encoder) raw(s string) *encoder {
	e.buf = append(e.buf, s...)
	return e
}

func (e *encoder) str(s string) *encoder {
	e.buf = appendString(e.buf, s)
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
		if !q.noEmptyTools && hasCalls(req.Messages) {
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
		e.buf = appendRaw(e.buf, t.Schema, '{', `{"type":"object","properties":{}}`)
		e.raw(`}}`)
	}
	e.raw(`]`)
}

func hasCalls(messages []llm.Message) bool {
	for i := range messages {
		for j := range messages[i].Blocks {
			if messages[i].Blocks[j].Type == llm.ToolCall {
				return true
			}
		}
	}
	return false
}

// messages writes the history. The results of an assistant message follow it at once, in call order, whatever came
// between; then the images of the results as a user message; then what came between. Results without a call are dropped.
func (e *encoder) messages(list []llm.Message) {
	for i := 0; i < len(list); i++ {
		switch list[i].Role {
		case llm.RoleUser:
			e.user(list[i].Blocks)
		case llm.RoleAssistant:
			end := i + 1
			for end < len(list) && list[end].Role != llm.RoleAssistant {
				end++
			}
			e.turn(&list[i], list[i+1:end])
		case llm.RoleToolResult:
		}
	}
}

// turn writes an assistant message and the results among rest; the loop of messages writes the users in rest.
func (e *encoder) turn(m *llm.Message, rest []llm.Message) {
	var calls []pairedCall
	taken := make([]bool, len(rest))
	for i := range m.Blocks {
		if m.Blocks[i].Type != llm.ToolCall || m.Blocks[i].Name == "" {
			continue
		}
		c := pairedCall{call: &m.Blocks[i]}
		for j := range rest {
			if rest[j].Role == llm.RoleToolResult && !taken[j] && rest[j].CallID == c.call.CallID {
				taken[j], c.result = true, &rest[j]
				break
			}
		}
		if c.result != nil || !unfinished(m.Stop) {
			calls = append(calls, c)
		}
	}
	if !e.assistant(m, calls) {
		return
	}
	var images []llm.Block
	for _, c := range calls {
		images = e.result(c, images)
	}
	if len(images) > 0 {
		e.user(append([]llm.Block{{Type: llm.Text, Text: imagesOf}}, images...))
	}
}

// pairedCall is a call with the id that it has in this request, and its result; nil when it has none.
type pairedCall struct {
	call   *llm.Block
	result *llm.Message
	id     string
}

// unfinished reports whether a message with this stop never ran its calls, so that those without a result are left out.
func unfinished(stop llm.StopReason) bool {
	switch stop {
	case llm.StopInterrupted, llm.StopAborted, llm.StopLength, llm.StopRefusal:
		return true
	case llm.StopEnd, llm.StopToolUse, llm.StopPause:
	}
	return false
}

// assistant writes the message and gives the calls their ids. It reports false, and writes nothing, when nothing is left.
func (e *encoder) assistant(m *llm.Message, calls []pairedCall) bool {
	said := m.Text()
	for i := range m.Blocks {
		if m.Blocks[i].Type == llm.Refusal {
			said += m.Blocks[i].Text
		}
	}
	if said == "" && len(calls) == 0 {
		return false
	}
	e.item().raw(`{"role":"assistant","content":`)
	if said == "" {
		e.raw(`null`)
	} else {
		e.str(said)
	}
	if m.Origin != nil && *m.Origin == e.origin {
		e.thinking(m)
	}
	for i := range calls {
		c := &calls[i]
		c.id = e.ids.next(c.call.CallID)
		if i == 0 {
			e.raw(`,"tool_calls":[`)
		} else {
			e.raw(`,`)
		}
		e.raw(`{"id":`).str(c.id).raw(`,"type":"function","function":{"name":`).str(c.call.Name)
		e.raw(`,"arguments":`).str(string(appendRaw(nil, c.call.Args, '{', `{}`))).raw(`}}`)
	}
	if len(calls) > 0 {
		e.raw(`]`)
	}
	e.raw(`}`)
	return true
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
		entries := appendRaw(nil, b.Raw, '[', `[]`)
		if entries = trimSpace(entries[1 : len(entries)-1]); len(entries) == 0 {
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
func (e *encoder) result(c pairedCall, images []llm.Block) []llm.Block {
	said := lostResult
	if c.result != nil {
		had := len(images)
		said = ""
		for _, b := range c.result.Blocks {
			switch {
			case b.Type == llm.Image && len(b.Data) > 0:
				images = append(images, b)
			case b.Type == llm.Text && said == "":
				said = b.Text
			case b.Type == llm.Text:
				said += "\n" + b.Text
			}
		}
		switch {
		case said == "" && len(images) > had:
			said = seeImages
		case said == "":
			said = noOutput
		}
	}
	e.item().raw(`{"role":"tool","tool_call_id":`).str(c.id).raw(`,"content":`).str(said).raw(`}`)
	return images
}

// user writes a user message: a string, or parts when there are images. Without content it writes nothing.
func (e *encoder) user(blocks []llm.Block) {
	said, images := "", false
	for _, b := range blocks {
		switch {
		case b.Type == llm.Image && len(b.Data) > 0:
			images = true
		case b.Type == llm.Text && b.Text != "" && said == "":
			said = b.Text
		case b.Type == llm.Text && b.Text != "":
			said += "\n" + b.Text
		}
	}
	switch {
	case !images && said == "":
		return
	case !images:
		e.item().raw(`{"role":"user","content":`).str(said).raw(`}`)
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
		quoted := appendString(nil, mime)
		e.buf = append(e.buf, quoted[1:len(quoted)-1]...)
		e.raw(`;base64,`)
		e.buf = base64.StdEncoding.AppendEncode(e.buf, b.Data)
		e.raw(`"}}`)
	}
	e.raw(`]}`)
}

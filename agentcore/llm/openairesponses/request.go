package openairesponses

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/ids"
)

// encode returns the request body. It is pure, and it grows with the history: up to the end of its input, the body of a turn
// repeats that of the turn before byte for byte, so that prompt caches hit.
func encode(req llm.Request, origin llm.Origin) []byte {
	e := &encoder{Body: protocol.NewBody(req)}
	e.Raw(`{"model":`).Str(req.Model).Raw(`,"stream":true,"store":false`)
	e.include(req)
	if key := req.CacheKey; key != "" {
		if len(key) > maxCacheKey {
			key = ids.Derived("", key)
		}
		e.Raw(`,"prompt_cache_key":`).Str(key)
	}
	if effort := effortOf(req.Model, req.Effort); effort != "" {
		e.Raw(`,"reasoning":{"effort":`).Str(string(effort)).Raw(`,"summary":"auto"}`)
	}
	e.tools(req)
	if req.System != "" {
		e.Raw(`,"instructions":`).Str(req.System)
	}
	e.Raw(`,"input":[`)
	for s := range protocol.Steps(req, origin, MaxCallID) {
		if s.Assistant == nil {
			e.user(s.User)
			continue
		}
		e.assistant(s)
		for _, c := range s.Calls {
			e.result(c)
		}
	}
	e.Raw(`]`)
	if req.MaxTokens > 0 {
		e.Raw(`,"max_output_tokens":`).Int(req.MaxTokens)
	}
	return e.Raw(`}`).Bytes
}

// encoder appends JSON.
type encoder struct {
	protocol.Body
	message string // id of the open message
	open    bool   // a message is open
	sent    map[string]bool
}

// include asks for what travels with the history, since nothing is stored at the provider.
func (e *encoder) include(req llm.Request) {
	if !req.WebSearch && !reasons(req.Model) {
		return
	}
	e.Raw(`,"include":[`)
	if reasons(req.Model) {
		e.Next().Str("reasoning.encrypted_content")
	}
	if req.WebSearch {
		e.Next().Str("web_search_call.action.sources")
	}
	e.Raw(`]`)
}

func (e *encoder) tools(req llm.Request) {
	if len(req.Tools) == 0 && !req.WebSearch {
		return
	}
	e.Raw(`,"tools":[`)
	for _, t := range req.Tools {
		e.Next().Raw(`{"type":"function","name":`).Str(t.Name).Raw(`,"description":`).Str(t.Description).Raw(`,"parameters":`).Schema(t).Raw(`,"strict":false}`)
	}
	if req.WebSearch {
		e.Next().Raw(`{"type":"web_search"}`)
	}
	e.Raw(`]`)
}

// user writes the text and the images of a user.
func (e *encoder) user(blocks []llm.Block) {
	begun := false
	for _, b := range blocks {
		if b.Type == llm.Text && b.Text != "" || b.Type == llm.Image && len(b.Data) > 0 {
			if !begun {
				e.Next().Raw(`{"type":"message","role":"user","content":[`)
			}
			begun = true
			e.part(b)
		}
	}
	if begun {
		e.Raw(`]}`)
	}
}

// part writes a text or an image that is input.
func (e *encoder) part(b llm.Block) {
	switch {
	case b.Type == llm.Text && b.Text != "":
		e.Next().Raw(`{"type":"input_text","text":`).Str(b.Text).Raw(`}`)
	case b.Type == llm.Image && len(b.Data) > 0:
		e.Next().Raw(`{"type":"input_image","detail":"auto","image_url":`).DataURL(b).Raw(`}`)
	}
}

// result writes the result of a call.
func (e *encoder) result(c protocol.Call) {
	e.Next().Raw(`{"type":"function_call_output","call_id":`).Str(c.ID).Raw(`,"output":`)
	if c.Result == nil || !protocol.HasImages(c.Result.Blocks) {
		e.Str(c.Said(protocol.NoOutput)).Raw(`}`)
		return
	}
	e.Raw(`[`)
	for _, b := range c.Result.Blocks {
		e.part(b)
	}
	e.Raw(`]}`)
}

// assistant writes what the assistant said, item by item. The provider's own items, and the ids that tie items together, go
// back to the same model of the same provider and only all at once: an item that misses another one is refused.
func (e *encoder) assistant(s protocol.Step) {
	blocks := s.Assistant.Blocks
	own := s.Same && s.Ended && complete(blocks) && e.fresh(blocks)
	send := make([]bool, len(blocks)) // reasoning that goes back
	named := own
	last := len(blocks)
	for last > 0 && blocks[last-1].Type == llm.Thinking {
		last--
	}
	for i := range blocks {
		if blocks[i].Type == llm.Thinking {
			send[i] = own && i < last && encrypted(blocks[i].Raw)
			named = named && send[i]
		}
	}
	calls := s.Calls
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case llm.Text, llm.Refusal:
			e.say(b, named)
		case llm.Thinking:
			if send[i] {
				e.item().JSON(b.Raw, '{', `{}`)
			}
		case llm.ToolCall:
			if len(calls) > 0 && calls[0].Block == b {
				e.call(calls[0], named)
				calls = calls[1:]
			}
		case llm.Native:
			if own {
				e.item().JSON(b.Raw, '{', `{}`)
			}
		case llm.Image:
		}
	}
	e.endMessage()
}

// fresh reports whether no item of the blocks has been sent before, and takes note of them: one item twice is refused.
func (e *encoder) fresh(blocks []llm.Block) bool {
	var list []string
	for i := range blocks {
		id := protocol.Unquote(protocol.Field(blocks[i].Raw, "id"))
		if id == "" || len(list) > 0 && list[len(list)-1] == id && blocks[i].Type == llm.Text && blocks[i-1].Type == llm.Text { // parts of one message
			continue
		}
		if e.sent[id] || slices.Contains(list, id) {
			return false
		}
		list = append(list, id)
	}
	if e.sent == nil {
		e.sent = map[string]bool{}
	}
	for _, id := range list {
		e.sent[id] = true
	}
	return true
}

// item begins an item that is no message.
func (e *encoder) item() *protocol.Body {
	e.endMessage()
	return e.Next()
}

// say writes text as a part of the open message, or of a new one where it belongs to another.
func (e *encoder) say(b *llm.Block, named bool) {
	if b.Text == "" {
		return
	}
	of := known{}
	if named {
		of = knownOf(b.Raw)
	}
	if !e.open || e.message != string(of.ID) || of.ID == "" {
		e.item().Raw(`{"type":"message","role":"assistant","status":"completed"`)
		if id := string(of.ID); fits(id, "msg_") {
			e.Raw(`,"id":`).Str(id)
		}
		if of.Phase != "" {
			e.Raw(`,"phase":`).Str(string(of.Phase))
		}
		e.Raw(`,"content":[`)
		e.open, e.message = true, string(of.ID)
	}
	e.Next().Raw(`{"type":"output_text","text":`).Str(b.Text).Raw(`,"annotations":[]}`)
}

func (e *encoder) endMessage() {
	if e.open {
		e.Raw(`]}`)
	}
	e.open = false
}

func (e *encoder) call(c protocol.Call, named bool) {
	e.item().Raw(`{"type":"function_call","call_id":`).Str(c.ID)
	if id := string(knownOf(c.Block.Raw).ID); named && fits(id, "fc_") {
		e.Raw(`,"id":`).Str(id)
	}
	e.Raw(`,"name":`).Str(protocol.Clean(c.Block.Name, maxName, "tool"))
	e.Raw(`,"arguments":`).Str(string(protocol.AppendRaw(nil, c.Block.Args, '{', `{}`))).Raw(`}`)
}

// fits reports whether the endpoint takes id as that of an item whose ids begin with prefix.
func fits(id, prefix string) bool {
	return strings.HasPrefix(id, prefix) && len(id) <= maxItemID && !strings.HasSuffix(id, "_") && protocol.Clean(id, maxItemID, "") == id
}

// knownOf reads the Raw of a message and of a call.
func knownOf(raw json.RawMessage) (of known) {
	if len(raw) > 0 && protocol.Decode(raw, &of) != nil {
		return known{}
	}
	return of
}

// encrypted reports whether raw is a reasoning item that can be understood without the provider having stored it.
func encrypted(raw json.RawMessage) bool {
	var it item
	return len(raw) > 0 && protocol.Decode(raw, &it) == nil && it.Type == itemReasoning && it.Encrypted != ""
}

// complete reports whether every native item can go back: it is whole, and none waits for an output that nobody gave.
func complete(blocks []llm.Block) bool {
	type waiting struct{ kind, callID string }
	var calls, outputs []waiting
	for i := range blocks {
		if blocks[i].Type != llm.Native {
			continue
		}
		var it item
		if len(blocks[i].Raw) == 0 || protocol.Decode(blocks[i].Raw, &it) != nil || !native(it.Type) {
			return false
		}
		if it.CallID == "" {
			continue
		}
		if of, ok := strings.CutSuffix(it.Type, "_output"); ok {
			outputs = append(outputs, waiting{of, string(it.CallID)})
		} else {
			calls = append(calls, waiting{it.Type, string(it.CallID)})
		}
	}
	if len(calls) != len(outputs) {
		return false
	}
	for i := range calls {
		if calls[i] != outputs[i] {
			return false
		}
	}
	return true
}

// native reports whether kind, on the wire, is one that a Native block may hold.
func native(kind string) bool {
	switch kind {
	case "", itemMessage, itemReasoning, itemCall, itemCustom:
		return false
	}
	return true
}

package anthropic

import (
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// The names of the wire that are acted upon.
const (
	eventStart      = "message_start"
	eventBlockStart = "content_block_start"
	eventBlockDelta = "content_block_delta"
	eventBlockStop  = "content_block_stop"
	eventDelta      = "message_delta"
	eventStop       = "message_stop"
	eventPing       = "ping"
	eventError      = "error"

	kindText         = "text"
	kindThinking     = "thinking"
	kindRedacted     = "redacted_thinking"
	kindTool         = "tool_use"
	kindServerTool   = "server_tool_use"
	kindSearchResult = "web_search_tool_result"

	deltaText      = "text_delta"
	deltaThinking  = "thinking_delta"
	deltaSignature = "signature_delta"
	deltaInput     = "input_json_delta"
	deltaCitations = "citations_delta"

	toolSearch = "web_search"
)

// event is one data event. Its fields take any JSON value without failing, so that one odd field never costs a stream.
type event struct {
	Type    protocol.Text   `json:"type"`
	Index   protocol.Int    `json:"index"`
	Message *message        `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// message is the message of a message_start, or a whole one of an endpoint that does not stream.
type message struct {
	Type       protocol.Text     `json:"type"`
	ID         protocol.Text     `json:"id"`
	Content    []json.RawMessage `json:"content"`
	StopReason protocol.Text     `json:"stop_reason"`
	Details    stopDetails       `json:"stop_details"`
	Usage      *usage            `json:"usage"`
}

// stopDetails say why a response was refused.
type stopDetails struct {
	Explanation protocol.Text `json:"explanation"`
}

// content is a content block, as far as it is understood.
type content struct {
	Type      string            `json:"type"`
	ID        protocol.Text     `json:"id"`
	ToolUseID protocol.Text     `json:"tool_use_id"`
	Name      protocol.Text     `json:"name"`
	Text      protocol.Text     `json:"text"`
	Thinking  protocol.Text     `json:"thinking"`
	Signature protocol.Text     `json:"signature"`
	Input     json.RawMessage   `json:"input"`
	Content   json.RawMessage   `json:"content"`
	Citations []json.RawMessage `json:"citations"`
}

// delta is a piece of a content block, or of the message.
type delta struct {
	Type       protocol.Text   `json:"type"`
	Text       protocol.Text   `json:"text"`
	Thinking   protocol.Text   `json:"thinking"`
	Signature  protocol.Text   `json:"signature"`
	Input      protocol.Text   `json:"partial_json"`
	Citation   json.RawMessage `json:"citation"`
	StopReason protocol.Text   `json:"stop_reason"`
	Details    stopDetails     `json:"stop_details"`
}

// plain is what nearly all events of a stream are: one piece of text, of thinking or of arguments.
type plain struct {
	index protocol.Int
	kind  string // of the delta; "" when the event is something else
	text  string
}

// parsePlain reads data without reflection, reporting false for everything but the plain pieces; the result is then
// undefined. Where it accepts an event it reads what encoding/json reads; a fuzz test holds the two against each other.
func parsePlain(data []byte) (p plain, ok bool) {
	c := protocol.NewCursor(data)
	var typed, inside bool
	var text [3]struct {
		said string
		set  bool
	}
	ok = c.Object(func(key []byte) bool {
		switch string(key) {
		case "type":
			v, ok := c.ASCII()
			if !ok || typed || string(v) != eventBlockDelta {
				return false
			}
			typed = true
			return true
		case "index":
			return !p.index.OK && c.Index(&p.index)
		case "delta":
			if inside {
				return false
			}
			inside = true
			return c.Object(func(key []byte) bool {
				slot := 0
				switch string(key) {
				case "type":
					v, ok := c.ASCII()
					if !ok || p.kind != "" {
						return false
					}
					p.kind = plainKind(v)
					return p.kind != ""
				case "text":
				case "thinking":
					slot = 1
				case "partial_json":
					slot = 2
				default:
					return false
				}
				if text[slot].set {
					return false
				}
				text[slot].set = true
				return c.Text(&text[slot].said)
			})
		}
		return false
	})
	if !ok || !c.AtEnd() || !typed || !p.index.OK {
		return p, false
	}
	switch p.kind {
	case deltaText:
		p.text = text[0].said
	case deltaThinking:
		p.text = text[1].said
	case deltaInput:
		p.text = text[2].said
	default:
		return p, false
	}
	return p, true
}

// plainKind returns the constant that equals v, so that nothing is allocated.
func plainKind(v []byte) string {
	switch string(v) {
	case deltaText:
		return deltaText
	case deltaThinking:
		return deltaThinking
	case deltaInput:
		return deltaInput
	}
	return ""
}

package scripted

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Request is what the model was asked, parsed and raw, the same whatever the protocol. It is read-only.
type Request struct {
	Number    int // 1 for the first request of the Model
	Model     string
	Messages  []Message
	Tools     []string // names in the order of the request
	Effort    string   // reasoning_effort
	MaxTokens int      // max_completion_tokens or max_tokens
	CacheKey  string   // prompt_cache_key
	Header    http.Header
	Body      []byte

	api       api
	withUsage bool // a report was asked for; only Chat Completions asks
}

// api is a protocol.
type api int

const (
	chatCompletions api = iota
	messages
	responses
)

// apiOf returns the protocol whose method the path names.
func apiOf(path string) (api, bool) {
	for a, suffix := range map[api]string{chatCompletions: "/chat/completions", messages: "/messages", responses: "/responses"} {
		if strings.HasSuffix(path, suffix) {
			return a, true
		}
	}
	return 0, false
}

func (a api) dialect(req Request) dialect {
	switch a {
	case messages:
		return &anthropic{}
	case responses:
		return newOpenAI(req)
	}
	return newChat(req)
}

var errNoStream = errors.New("request body: stream is not true, the scripted model only streams")

// parse reads a request body.
func (a api) parse(body []byte) (req Request, err error) {
	switch a {
	case messages:
		req, err = parseMessages(body)
	case responses:
		req, err = parseResponses(body)
	default:
		req, err = parseChat(body)
	}
	req.Body, req.api = body, a
	return req, err
}

// Message is one message of a request. Text joins the text parts of a content list.
type Message struct {
	Role      string // system, user, assistant, tool
	Text      string
	Images    []string // data URLs
	Calls     []ToolCall
	CallID    string // of a tool message
	Reasoning string // replayed thinking, whatever its field
}

// ToolCall is a call in an assistant message of a request.
type ToolCall struct {
	ID, Name, Args string
}

// System returns the text of the system messages.
func (r Request) System() string {
	var parts []string
	for _, m := range r.Messages {
		if m.Role == "system" || m.Role == "developer" {
			parts = append(parts, m.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// LastUser returns the text of the newest user message, "" when there is none.
func (r Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// Results returns the tool messages that answer the newest assistant message, in order; nil when a later assistant or no
// tool spoke.
func (r Request) Results() []Message {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != "assistant" {
			continue
		}
		var out []Message
		for _, m := range r.Messages[i+1:] {
			if m.Role == "tool" {
				out = append(out, m)
			}
		}
		return out
	}
	return nil
}

// HasTool reports whether the request offers the tool name.
func (r Request) HasTool(name string) bool {
	for _, t := range r.Tools {
		if t == name {
			return true
		}
	}
	return false
}

func (r Request) lastWords() string {
	if len(r.Messages) == 0 {
		return "none"
	}
	m := r.Messages[len(r.Messages)-1]
	text := []rune(m.Text)
	if len(text) > lastWordsRunes {
		text = append(text[:lastWordsRunes:lastWordsRunes], '…')
	}
	return fmt.Sprintf("%s %q", m.Role, string(text))
}

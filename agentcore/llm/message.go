package llm

import "encoding/json"

// Role says who speaks.
type Role string

// The roles of a transcript. System text travels in Request.System, not as a message.
const (
	RoleUser       Role = "user"
	RoleAssistant  Role = "assistant"
	RoleToolResult Role = "toolResult"
)

// Message is one entry of the model's context. Which fields count depends on Role:
// user: Blocks of Text and Image; assistant: Blocks in the provider's order, plus Origin, Stop and Usage;
// toolResult: CallID, ToolName, IsError and Blocks of Text and Image. The zero value is not a valid message.
// Values are shared freely and must not be changed once made.
type Message struct {
	Role     Role       `json:"role"`
	Blocks   []Block    `json:"blocks,omitempty"`
	CallID   string     `json:"callId,omitempty"`
	ToolName string     `json:"toolName,omitempty"`
	IsError  bool       `json:"isError,omitempty"`
	Origin   *Origin    `json:"origin,omitempty"`
	Stop     StopReason `json:"stop,omitempty"`
	StopWhy  string     `json:"stopWhy,omitempty"` // the provider's own words on Stop, where it gave some: why it refused
	Usage    *Usage     `json:"usage,omitempty"`
	ID       string     `json:"id,omitempty"` // the provider's response id, when it gave one
}

// Origin says which endpoint wrote an assistant message. Replay-only content (thinking, signatures, native items) is sent
// back only to the same origin.
type Origin struct {
	API      string `json:"api"` // openai-completions, openai-responses, anthropic-messages
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// BlockType names the kinds of content.
type BlockType string

// The block types. Native holds provider content kept verbatim for replay, such as a search that the provider ran itself; it
// is never shown and never run here.
const (
	Text     BlockType = "text"
	Thinking BlockType = "thinking"
	ToolCall BlockType = "toolCall"
	Image    BlockType = "image"
	Refusal  BlockType = "refusal"
	Native   BlockType = "native"
)

// Block is one piece of content. Text carries text, thinking and refusals; the call fields belong to ToolCall; Data and
// MimeType to Image; Raw to Native and to provider details that must return unchanged (thinking signatures, encrypted
// reasoning, citations). A Native block names in Name what it is on the wire and in CallID the provider's own call; Search
// says what it means where it belongs to a search.
type Block struct {
	Type     BlockType       `json:"type"`
	Text     string          `json:"text,omitempty"`
	CallID   string          `json:"callId,omitempty"`   // as the provider gave it, or minted when it gave none
	Name     string          `json:"name,omitempty"`     // tool name
	Args     json.RawMessage `json:"args,omitempty"`     // a JSON object; nil when BadArgs is set
	BadArgs  string          `json:"badArgs,omitempty"`  // the arguments as received when they are not a JSON object: never run
	Data     []byte          `json:"data,omitempty"`     // image bytes
	MimeType string          `json:"mimeType,omitempty"` // image type
	Field    string          `json:"field,omitempty"`    // wire field the thinking came in, to send it back the same way
	Raw      json.RawMessage `json:"raw,omitempty"`      // verbatim provider content for replay
	Search   *Search         `json:"search,omitempty"`   // of a Native block
	Sources  []Source        `json:"sources,omitempty"`  // what a Text block cites
}

// Search is a search that the provider ran itself, as far as one Native block tells. A later block with the same CallID
// tells more.
type Search struct {
	Status  SearchStatus `json:"status"`
	Query   string       `json:"query,omitempty"`
	Sources []Source     `json:"sources,omitempty"` // what it found
	Error   string       `json:"error,omitempty"`   // the provider's code, of a failed one
}

// SearchStatus is how far a search is. Source: spec create-agent "Web search".
type SearchStatus string

// The statuses.
const (
	SearchRunning SearchStatus = "running"
	SearchSuccess SearchStatus = "success"
	SearchFailed  SearchStatus = "failed"
)

// Source is a page that was found or cited. CitedText is the passage, where the provider gives it.
type Source struct {
	URL       string `json:"url"`
	Title     string `json:"title,omitempty"`
	CitedText string `json:"citedText,omitempty"`
}

// TextMessage returns a message of role with one text block.
func TextMessage(role Role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Type: Text, Text: text}}}
}

// Text returns the concatenated text blocks of m.
func (m Message) Text() string { return m.join(Text) }

// Thinking returns the concatenated thinking blocks of m.
func (m Message) Thinking() string { return m.join(Thinking) }

func (m Message) join(t BlockType) string {
	n, last := 0, ""
	for _, b := range m.Blocks {
		if b.Type == t {
			n, last = n+len(b.Text), b.Text
		}
	}
	if n == len(last) {
		return last
	}
	out := make([]byte, 0, n)
	for _, b := range m.Blocks {
		if b.Type == t {
			out = append(out, b.Text...)
		}
	}
	return string(out)
}

// Calls returns the tool-call blocks of m in order.
func (m Message) Calls() []Block {
	var calls []Block
	for _, b := range m.Blocks {
		if b.Type == ToolCall {
			calls = append(calls, b)
		}
	}
	return calls
}

package openaicompletions

import (
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// chunk is one data event. Its fields take any JSON value without failing, so that one odd field never costs a stream.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Groq    *struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Index   protocol.Int `json:"index"`
	Delta   *delta       `json:"delta"`
	Message *delta       `json:"message"` // of servers that answer without streaming
	Finish  string       `json:"finish_reason"`
	Usage   *usage       `json:"usage"`
}

type delta struct {
	Content          content           `json:"content"`
	ReasoningContent protocol.Text     `json:"reasoning_content"`
	Reasoning        protocol.Text     `json:"reasoning"`
	ReasoningText    protocol.Text     `json:"reasoning_text"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	Refusal          protocol.Text     `json:"refusal"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"`
}

type callDelta struct {
	Index    protocol.Int  `json:"index"`
	ID       protocol.Text `json:"id"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      protocol.Text `json:"name"`
	Arguments arguments     `json:"arguments"`
}

// arguments is the raw argument text of a call: a string's value, null as nothing, any other value as its own JSON.
type arguments string

// UnmarshalJSON takes any value.
func (v *arguments) UnmarshalJSON(raw []byte) error {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		*v = arguments(protocol.Unquote(raw))
	case string(raw) == "null":
		*v = ""
	default:
		*v = arguments(raw)
	}
	return nil
}

// content is a string, or a list of text and thinking parts.
type content struct{ text, thinking string }

// UnmarshalJSON takes any value.
func (v *content) UnmarshalJSON(raw []byte) error {
	*v = content{}
	if len(raw) > 0 && raw[0] != '[' {
		v.text = protocol.Unquote(raw)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     protocol.Text   `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if protocol.Decode(raw, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		switch p.Type {
		case "thinking":
			var inner content
			if err := inner.UnmarshalJSON(p.Thinking); err == nil {
				v.thinking += inner.text
			}
		default:
			v.text += string(p.Text)
		}
	}
	return nil
}

// decodeChunk reads one data event. It fails only when data is not JSON.
func decodeChunk(data []byte) (chunk, error) {
	var c chunk
	err := protocol.Decode(data, &c)
	return c, err
}

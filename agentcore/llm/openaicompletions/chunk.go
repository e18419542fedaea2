package openaicompletions

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
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
	Index   number `json:"index"`
	Delta   *delta `json:"delta"`
	Message *delta `json:"message"` // of servers that answer without streaming
	Finish  string `json:"finish_reason"`
	Usage   *usage `json:"usage"`
}

type delta struct {
	Content          content           `json:"content"`
	ReasoningContent text              `json:"reasoning_content"`
	Reasoning        text              `json:"reasoning"`
	ReasoningText    text              `json:"reasoning_text"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	Refusal          text              `json:"refusal"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"`
}

type callDelta struct {
	Index    number        `json:"index"`
	ID       text          `json:"id"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      text      `json:"name"`
	Arguments arguments `json:"arguments"`
}

// number is an integer that says whether it was there.
type number struct {
	n  int
	ok bool
}

// UnmarshalJSON takes a whole number or a string holding one; anything else counts as absent.
func (v *number) UnmarshalJSON(raw []byte) error {
	if len(raw) > 1 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	n, err := strconv.Atoi(string(raw))
	*v = number{n: n, ok: err == nil && n >= 0}
	return nil
}

// text is a string; other JSON values count as absent.
type text string

// UnmarshalJSON takes a string.
func (v *text) UnmarshalJSON(raw []byte) error {
	*v = text(unquote(raw))
	return nil
}

// unquote returns the value of a JSON string, "" for any other JSON value.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	body := raw[1 : len(raw)-1]
	for _, c := range body {
		if c == '\\' || c >= utf8.RuneSelf {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(body)
}

// arguments is the raw argument text of a call: a string's value, null as nothing, any other value as its own JSON.
type arguments string

// UnmarshalJSON takes any value.
func (v *arguments) UnmarshalJSON(raw []byte) error {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		*v = arguments(unquote(raw))
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
		v.text = unquote(raw)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     text            `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil && !isTypeError(err) {
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

func isTypeError(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// decodeChunk reads one data event. It fails only when data is not JSON.
func decodeChunk(data []byte) (chunk, error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil && !isTypeError(err) {
		return chunk{}, err
	}
	return c, nil
}

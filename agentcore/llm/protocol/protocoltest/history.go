package protocoltest

import (
	"encoding/json"
	"strings"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// User returns a user message.
func User(blocks ...llm.Block) llm.Message { return llm.Message{Role: llm.RoleUser, Blocks: blocks} }

// Said returns a block of text.
func Said(s string) llm.Block { return llm.Block{Type: llm.Text, Text: s} }

// Image returns an image with data in place of pixels.
func Image(data string) llm.Block {
	return llm.Block{Type: llm.Image, Data: []byte(data), MimeType: "image/png"}
}

// CallOf returns a call.
func CallOf(id, name, args string) llm.Block {
	return llm.Block{Type: llm.ToolCall, CallID: id, Name: name, Args: json.RawMessage(args)}
}

// Result returns the result of the call id.
func Result(id, text string, more ...llm.Block) llm.Message {
	return llm.Message{Role: llm.RoleToolResult, CallID: id, Blocks: append([]llm.Block{Said(text)}, more...)}
}

// Stopped returns m with another stop reason.
func Stopped(m llm.Message, stop llm.StopReason) llm.Message {
	m.Stop = stop
	return m
}

// Writer makes assistant messages of one endpoint.
type Writer llm.Origin

// Said returns an assistant message that stopped for its tools.
func (w Writer) Said(blocks ...llm.Block) llm.Message {
	origin := llm.Origin(w)
	return llm.Message{Role: llm.RoleAssistant, Blocks: blocks, Origin: &origin, Stop: llm.StopToolUse}
}

// Foreign returns an assistant message of another model.
func (w Writer) Foreign(blocks ...llm.Block) llm.Message {
	w.Model = "another"
	return w.Said(blocks...)
}

// Case is a request with a name, which is that of its golden file too.
type Case struct {
	Name    string
	Request llm.Request
}

// Tools are two declared tools, one of them without schema.
var Tools = []llm.ToolSpec{
	{Name: "ls", Description: "List \"files\"", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
	{Name: "ping"},
}

// roundOfTools is the case that also declares them.
const roundOfTools = "a round of tools"

// Cases are the histories that every protocol must send rightly. Source: bugs 31, 32, 34, 35, 41.
func Cases(w Writer) []Case {
	long := strings.Repeat("a", 93)
	list := []struct {
		name     string
		messages []llm.Message
	}{
		{"images of a user", []llm.Message{User(Said("what is this?"), Image("abc"), llm.Block{Type: llm.Image})}},
		{roundOfTools, []llm.Message{
			User(Said("list")), w.Said(Said("Let me look."), CallOf("c1", "ls", `{"path":"x"}`), CallOf("c2", "ping", `{}`)),
			Result("c1", "a.txt"), Result("c2", ""), Stopped(w.Said(Said("done")), llm.StopEnd)}},
		{"results are adjacent and in call order", []llm.Message{
			User(Said("list")), w.Said(CallOf("c1", "ls", `{}`), CallOf("c2", "ping", `{}`)),
			Result("c2", "pong"), User(Said("stop after this")), Result("c1", "a.txt"), User(Said("and tell me"))}},
		{"a missing result is made up and a lone one dropped", []llm.Message{
			Result("c0", "from nowhere"), User(Said("list")), w.Said(CallOf("c1", "ls", `{}`), CallOf("c2", "ping", `{}`)),
			Result("c1", "a.txt"), Result("c1", "twice"), User(Said("go on")), w.Said(CallOf("c3", "ls", `{}`))}},
		{"calls of an unfinished message without result are dropped", []llm.Message{
			User(Said("list")), Stopped(w.Said(Said("I will"), CallOf("c1", "ls", `{}`)), llm.StopInterrupted), User(Said("go on")),
			Stopped(w.Said(CallOf("c2", "ls", `{}`)), llm.StopLength), User(Said("shorter")),
			Stopped(w.Said(CallOf("c3", "ls", `{}`), CallOf("c4", "ping", `{}`)), llm.StopAborted), Result("c3", "a.txt")}},
		{"empty messages are removed", []llm.Message{
			User(), User(Said("")), User(Said("hi")), w.Said(), w.Said(llm.Block{Type: llm.Thinking, Text: "hm"}), User(Said("still there?"))}},
		{"images of results", []llm.Message{
			User(Said("look")), w.Said(CallOf("c1", "read", `{}`), CallOf("c2", "read", `{}`)),
			Result("c1", "", Image("abc")), Result("c2", "a picture", Image("def")), User(Said("well?"))}},
		{"call ids of other protocols", []llm.Message{
			User(Said("x")), w.Said(CallOf("call_1|fc_aaa", "ls", `{}`), CallOf("call_1|fc_bbb", "ls", `{}`), CallOf("functions.ls:0", "ls", `{}`),
				CallOf(long+"a", "ls", `{}`), CallOf(long+"b", "ls", `{}`), CallOf("x\ny", "ls", `{}`), CallOf("", "ls", `{}`)),
			Result("call_1|fc_bbb", "second"), Result("call_1|fc_aaa", "first"), Result("functions.ls:0", "third"), Result(long+"a", "fourth"),
			Result(long+"b", "fifth"), Result("x\ny", "sixth"), Result("", "seventh")}},
		{"the same call id in two turns", []llm.Message{
			User(Said("x")), w.Said(CallOf("call_1", "read", `{"path":"a"}`)), Result("call_1", "A"),
			w.Said(CallOf("call_1", "bash", `{"command":"touch b"}`)), User(Said("go on"))}},
		{"two calls of one message with the same id", []llm.Message{
			User(Said("x")), w.Said(CallOf("0", "read", `{"path":"a"}`), CallOf("0", "read", `{"path":"b"}`)), Result("0", "A"), Result("0", "B")}},
		{"bad arguments go back as an object", []llm.Message{
			User(Said("x")), w.Said(llm.Block{Type: llm.ToolCall, CallID: "c1", Name: "ls", BadArgs: "[1]"}, CallOf("c2", "ls", `{"a"`), CallOf("c3", "ls", `{"a":"\ud83d"}`)),
			Result("c1", "an object is needed"), Result("c2", "an object is needed"), Result("c3", "fine")}},
		{"a refusal stays in the history as words", []llm.Message{
			User(Said("x")), Stopped(w.Said(llm.Block{Type: llm.Refusal, Text: "No."}), llm.StopRefusal), User(Said("why?"))}},
		{"a history that begins with the assistant", []llm.Message{Stopped(w.Said(Said("As I said.")), llm.StopEnd), User(Said("go on"))}},
	}
	cases := []Case{
		{"a system prompt and a user", llm.Request{Model: w.Model, System: "Be brief.", Messages: []llm.Message{User(Said("hi"))}}},
		{"images that the model cannot see", llm.Request{Model: w.Model, TextOnly: true, Messages: []llm.Message{
			User(Said("look"), Image("abc")), w.Said(CallOf("c1", "read", `{}`)), Result("c1", "a picture", Image("def"))}}},
	}
	for _, c := range list {
		req := llm.Request{Model: w.Model, Messages: c.messages}
		if c.name == roundOfTools {
			req.Tools = Tools
		}
		cases = append(cases, Case{c.name, req})
	}
	return cases
}

// Odd maps text that must not reach the wire as it is to what it becomes. Source: bugs 32.
var Odd = map[string]struct{ In, Want string }{
	"cut rune":            {"a\xf0\x9f\xa7", "a\uFFFD\uFFFD\uFFFD"},
	"bytes of no text":    {"\xff\xfe\x80", "\uFFFD\uFFFD\uFFFD"},
	"encoded surrogate":   {"\xed\xa0\xbd", "\uFFFD\uFFFD\uFFFD"},
	"controls":            {"\x00\x1b[31m\x7f\t\r\n", "\x00\x1b[31m\x7f\t\r\n"},
	"separators and HTML": {"\u2028<&>", "\u2028<&>"},
	"the real U+FFFD":     {"\uFFFD", "\uFFFD"},
}

// AnyMessages makes histories, most of them broken. raws are values for what the protocol keeps for replay.
func AnyMessages(w Writer, raws ...string) *rapid.Generator[[]llm.Message] {
	ids := rapid.SampledFrom([]string{"", "c1", "c1|x", "c1_2", "c2", "a:b", strings.Repeat("z", 70), strings.Repeat("z", 71)})
	block := rapid.Custom(func(t *rapid.T) llm.Block {
		return llm.Block{
			Type:   rapid.SampledFrom([]llm.BlockType{llm.Text, llm.Thinking, llm.ToolCall, llm.Image, llm.Refusal, llm.Native}).Draw(t, "type"),
			Text:   string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "text")),
			CallID: ids.Draw(t, "id"),
			Name:   rapid.SampledFrom([]string{"", "ls", "\xff", "a.b", strings.Repeat("n", 200)}).Draw(t, "name"),
			Args:   json.RawMessage(rapid.SampledFrom([]string{"", "{}", `{"a":"\ud83d"}`, `[`, "null", "{\"a\":\"\xff\"}"}).Draw(t, "args")),
			Data:   []byte(rapid.SampledFrom([]string{"", "x"}).Draw(t, "data")),
			Field:  rapid.SampledFrom([]string{"", "reasoning", "other"}).Draw(t, "field"),
			Raw:    json.RawMessage(rapid.SampledFrom(append([]string{"", "[]", `[{"a":1}]`, "{}", "["}, raws...)).Draw(t, "raw")),
		}
	})
	message := rapid.Custom(func(t *rapid.T) llm.Message {
		m := llm.Message{
			Role:    rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleToolResult, "other"}).Draw(t, "role"),
			CallID:  ids.Draw(t, "callId"),
			IsError: rapid.Bool().Draw(t, "isError"),
			Stop:    rapid.SampledFrom([]llm.StopReason{"", llm.StopToolUse, llm.StopInterrupted, llm.StopLength, llm.StopPause}).Draw(t, "stop"),
			Blocks:  rapid.SliceOfN(block, 0, 4).Draw(t, "blocks"),
		}
		if rapid.Bool().Draw(t, "here") {
			origin := llm.Origin(w)
			m.Origin = &origin
		}
		return m
	})
	return rapid.SliceOfN(message, 0, 12)
}

package compaction

import (
	"strings"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/tokens"
)

// Render writes messages as labelled text, one piece each, so that a model reads a transcript and does not go on with it.
// Long tool results are cut. Source: durable kernel 6.4.
func Render(messages []llm.Message) []string {
	var pieces []string
	for _, m := range messages {
		if text := render(m); text != "" {
			pieces = append(pieces, text)
		}
	}
	return pieces
}

func render(m llm.Message) string {
	var b strings.Builder
	say := func(label, text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString("[" + label + "]\n" + text + "\n\n")
		}
	}
	if m.Role == llm.RoleToolResult {
		label := "result of " + m.ToolName
		if m.IsError {
			label = "failed result of " + m.ToolName
		}
		say(label, clip(m.Text(), MaxResultText))
		return b.String()
	}
	for _, block := range m.Blocks {
		switch block.Type {
		case llm.Text, llm.Refusal:
			say(string(m.Role), block.Text)
		case llm.Thinking:
			say("thinking", block.Text)
		case llm.ToolCall:
			say("call of "+block.Name, string(block.Args)+block.BadArgs)
		case llm.Image:
			say(string(m.Role), "(an image)")
		case llm.Native:
		}
	}
	return b.String()
}

// cutMark marks text that was cut.
const cutMark = " … (cut)"

// clip returns at most n bytes of a text, at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:edge(s, n)] + cutMark
}

// edge is the last rune's edge of s at or before n.
func edge(s string, n int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// Chunks packs pieces, in order, into texts of at most room tokens. A piece that is larger is cut into several.
func Chunks(pieces []string, room int64) []string {
	var chunks []string
	var b strings.Builder
	used := int64(0)
	flush := func() {
		if b.Len() > 0 {
			chunks = append(chunks, b.String())
			b.Reset()
			used = 0
		}
	}
	for _, piece := range pieces {
		for _, part := range split(piece, room) {
			n := tokens.Text(part) + 1 // estimates are rounded
			if used+n > room {
				flush()
			}
			b.WriteString(part)
			used += n
		}
	}
	flush()
	return chunks
}

// split cuts a text into parts of at most room tokens.
func split(s string, room int64) []string {
	var parts []string
	for tokens.Text(s)+1 > room {
		n := len(s)
		for tokens.Text(s[:n])+1 > room { // halves, then a little more than needed: any cut that fits is good
			n = edge(s, n/2)
		}
		for step := n / 2; step > 0; step /= 2 {
			if to := edge(s, n+step); to < len(s) && tokens.Text(s[:to])+1 <= room {
				n = to
			}
		}
		if n == 0 {
			return append(parts, s)
		}
		parts, s = append(parts, s[:n]), s[n:]
	}
	return append(parts, s)
}

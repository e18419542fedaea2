// Package tokens estimates how full a model's context is.
//
// The newest complete response's own count is trusted, and what came after it is estimated on top; billed usage of
// several responses is never summed. Source: spec create-agent "Live context".
package tokens

import (
	"unicode"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// The constants of the estimate. Source: spec create-agent "Live context"; notes of measured tokenisers.
const (
	bytesPerToken = 4    // of text that is not CJK
	imageTokens   = 1200 // an image of ordinary size
)

// Text estimates the tokens of s: CJK, kana and hangul count one each, everything else a quarter per character.
func Text(s string) int64 {
	wide, other := 0, 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			other++
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
			wide++
		} else {
			other++
		}
	}
	return int64(wide + (other+bytesPerToken-1)/bytesPerToken)
}

// Message estimates one message.
func Message(m llm.Message) int64 {
	var n int64
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Image:
			n += imageTokens
		case llm.ToolCall:
			n += Text(b.Name) + int64(len(b.Args)+len(b.BadArgs)+bytesPerToken-1)/bytesPerToken
		case llm.Text, llm.Thinking, llm.Refusal:
			n += Text(b.Text)
		case llm.Native:
		}
	}
	return n
}

// Request estimates a whole request: from the newest message that carries a provider's count, plus everything after it;
// without one, from the system prompt, the tools and every message.
func Request(req llm.Request) int64 {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := req.Messages[i]
		if m.Role == llm.RoleAssistant && m.Usage != nil && m.Usage.Total > 0 && m.Stop != llm.StopAborted && m.Stop != llm.StopInterrupted {
			return m.Usage.Total + sum(req.Messages[i+1:])
		}
	}
	n := Text(req.System) + sum(req.Messages)
	for _, t := range req.Tools {
		n += Text(t.Name) + Text(t.Description) + int64(len(t.Schema))/bytesPerToken
	}
	return n
}

func sum(ms []llm.Message) int64 {
	var n int64
	for _, m := range ms {
		n += Message(m)
	}
	return n
}

package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// part is a content block in the making.
type part struct {
	kind  string // type on the wire
	block int    // index of its block, -1 of a call without a name

	signature string            // of thinking
	citations []json.RawMessage // of text
	raw       json.RawMessage   // input of a call as it began; a native block as it began
	input     []byte            // input of a native block, from deltas
	closed    bool
}

// signed is the Raw of thinking: what must return with its text. Redacted thinking keeps the wire's own object.
type signed struct {
	Type      string        `json:"type"`
	Signature protocol.Text `json:"signature"`
}

// close completes the block of p.
func (d *decoder) close(p *part) {
	if p.closed || p.block < 0 {
		return
	}
	p.closed = true
	b := d.Block(p.block)
	switch p.kind {
	case kindText:
		b.Raw, b.Sources = citations(p.citations)
	case kindThinking:
		if p.signature != "" {
			b.Raw = protocol.AppendString([]byte(`{"type":"thinking","signature":`), p.signature)
			b.Raw = append(b.Raw, '}')
		}
	case kindRedacted:
	case kindTool:
		if d.Grown(p.block) == "" {
			b.Args, b.BadArgs = protocol.CallArgs(string(p.raw))
		}
	default:
		b.Raw = p.native()
		b.Search = d.search(b.Raw)
	}
	d.Stop(p.block)
}

// native returns the block as it would have come in one piece.
func (p *part) native() json.RawMessage {
	if len(p.input) > 0 && json.Valid(p.input) {
		return protocol.SetField(p.raw, "input", p.input)
	}
	return p.raw
}

// merge adds the fields of an unknown delta to a native block: text grows, anything else is set.
func (p *part) merge(raw json.RawMessage) {
	fields, err := protocol.Fields(raw)
	if err != nil {
		return
	}
	for _, f := range fields {
		if f.Name == "type" || string(f.Value) == "null" {
			continue
		}
		value := f.Value
		if more := protocol.Unquote(value); more != "" {
			value = protocol.AppendString(nil, protocol.Unquote(protocol.Field(p.raw, f.Name))+more)
		}
		p.raw = protocol.SetField(p.raw, f.Name, value)
	}
}

// search says what a native block means for a search, nil when it is no part of one.
func (d *decoder) search(raw json.RawMessage) *llm.Search {
	var c content
	if protocol.Decode(raw, &c) != nil {
		return nil
	}
	switch {
	case c.Type == kindServerTool && c.Name == toolSearch:
		var input struct {
			Query protocol.Text `json:"query"`
		}
		if len(c.Input) > 0 && protocol.Decode(c.Input, &input) != nil {
			return nil
		}
		d.queries[string(c.ID)] = string(input.Query)
		return &llm.Search{Status: llm.SearchRunning, Query: string(input.Query)}
	case c.Type == kindSearchResult:
		return found(c.Content, d.queries[string(c.ToolUseID)])
	}
	return nil
}

// found reads the content of a search result: a list of pages, or an error.
func found(raw json.RawMessage, query string) *llm.Search {
	var pages []struct {
		URL   protocol.Text `json:"url"`
		Title protocol.Text `json:"title"`
	}
	if text := strings.TrimSpace(string(raw)); strings.HasPrefix(text, "[") && protocol.Decode(raw, &pages) == nil {
		s := &llm.Search{Status: llm.SearchSuccess, Query: query}
		for _, p := range pages {
			if p.URL != "" {
				s.Sources = append(s.Sources, llm.Source{URL: string(p.URL), Title: string(p.Title)})
			}
		}
		return s
	}
	return &llm.Search{Status: llm.SearchFailed, Query: query, Error: protocol.Unquote(protocol.Field(raw, "error_code"))}
}

// citations returns what text cites, verbatim for replay and as sources; nil for nothing.
func citations(list []json.RawMessage) (raw json.RawMessage, sources []llm.Source) {
	if len(list) == 0 {
		return nil, nil
	}
	raw = append(raw, '[')
	for i, c := range list {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, c...)
		var of struct {
			URL       protocol.Text `json:"url"`
			Title     protocol.Text `json:"title"`
			CitedText protocol.Text `json:"cited_text"`
		}
		if protocol.Decode(c, &of) == nil && of.URL != "" {
			sources = append(sources, llm.Source{URL: string(of.URL), Title: string(of.Title), CitedText: string(of.CitedText)})
		}
	}
	return append(raw, ']'), sources
}

package compaction

import (
	"errors"
	"fmt"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/tokens"
)

// Errors of a compaction. The context stays as it is.
var (
	// ErrNoRoom reports a window in which not even a part of the context can be summarised.
	ErrNoRoom = errors.New("the model's window is too small to summarise the context")
	// ErrSummary reports a response that is no summary.
	ErrSummary = errors.New("the model gave no usable summary")
)

// SummaryLimit is the output limit of one summary request: every request reserves it. Source: P-534.
func SummaryLimit(window int64) int { return int(min(MaxSummary, window/summaryShare)) }

// Room is how many tokens of text one request may hold beside its instructions and its answer.
func Room(window int64, instructions string) (int64, error) {
	room := window - int64(SummaryLimit(window)) - tokens.Text(prompt.Summarise(instructions, true))
	if room < leastPart {
		return 0, ErrNoRoom
	}
	return room, nil
}

// Work is how far the calls of a compaction have come: first one for each chunk, then one for each group of summaries,
// until one summary is left. It is a value, stored with every summary, so that a crash repeats one call at most.
type Work struct {
	Level   int      `json:"level,omitempty"`   // 0 = chunks of the transcript
	Inputs  []string `json:"inputs,omitempty"`  // of a level above 0
	Outputs []string `json:"outputs,omitempty"` // summaries of this level, in order
}

// Next returns the text to summarise now. merge says that it consists of summaries; done that Summary has the result.
func (w Work) Next(chunks []string) (text string, merge, done bool) {
	in := w.inputs(chunks)
	if len(w.Outputs) == len(in) {
		return "", false, true
	}
	return in[len(w.Outputs)], w.Level > 0, false
}

func (w Work) inputs(chunks []string) []string {
	if w.Level == 0 {
		return chunks
	}
	return w.Inputs
}

// Took adds the summary of what Next returned, and begins the next level when this one is complete.
func (w Work) Took(chunks []string, summary string, room int64) (Work, error) {
	w.Outputs = append(w.Outputs[:len(w.Outputs):len(w.Outputs)], summary)
	if len(w.Outputs) < len(w.inputs(chunks)) || len(w.Outputs) == 1 {
		return w, nil
	}
	labelled := make([]string, len(w.Outputs))
	for i, s := range w.Outputs {
		labelled[i] = fmt.Sprintf("[summary of part %d]\n%s\n\n", i+1, strings.TrimSpace(s))
	}
	groups := Chunks(labelled, room)
	if len(groups) >= len(labelled) {
		return w, fmt.Errorf("%w: two summaries do not fit into it", ErrNoRoom)
	}
	return Work{Level: w.Level + 1, Inputs: groups}, nil
}

// Summary is the result, once Next says done.
func (w Work) Summary() string {
	if len(w.Outputs) == 0 {
		return ""
	}
	return w.Outputs[0]
}

// Request asks for the summary of a text. instructions are what a person wants to be kept; merge says that the text is
// summaries of parts in order.
func Request(model string, window int64, instructions, text string, merge bool) llm.Request {
	return llm.Request{Model: model, System: prompt.Summarise(instructions, merge), MaxTokens: SummaryLimit(window),
		Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "<transcript>\n"+text+"</transcript>")}}
}

// Valid returns the summary in a response: text, from one that ended by itself and calls nothing. Source: P-512 to P-516.
func Valid(m llm.Message) (string, error) {
	text := strings.TrimSpace(m.Text())
	switch {
	case m.Stop == llm.StopLength:
		return "", fmt.Errorf("%w: it was cut off at the output limit", ErrSummary)
	case len(m.Calls()) > 0:
		return "", fmt.Errorf("%w: it called a tool", ErrSummary)
	case m.Stop != llm.StopEnd:
		return "", fmt.Errorf("%w: it ended with %q", ErrSummary, m.Stop)
	case text == "":
		return "", fmt.Errorf("%w: it is empty", ErrSummary)
	}
	return text, nil
}

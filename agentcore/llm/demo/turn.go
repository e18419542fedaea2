package demo

import (
	"regexp"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

// turn is what the demo model knows: the newest request of the user, and what came of it so far.
type turn struct {
	plan    bool
	request string     // the newest words of the user that are no continuation prompt
	tools   offer      // what may be called
	done    []exchange // calls since then, with their results, in order
	parts   []string   // the pieces of an unfinished answer behind the last results
}

// exchange is a call and its result.
type exchange struct {
	id, name, args, result string
}

// turnOf reads the request.
func turnOf(req scripted.Request) turn {
	t := turn{plan: strings.Contains(req.System(), "<plan-mode>"), tools: offerOf(req.Body)}
	from := start(t, req.Messages)
	return t.since(req.Messages, from)
}

// start returns the index of the newest user message that is no continuation prompt, -1 when there is none. A prompt of
// ours is known by its text; other words that ask to go on count only behind an answer of ours that stopped half way.
func start(t turn, messages []scripted.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != "user" {
			continue
		}
		text := strings.TrimSpace(messages[i].Text)
		ours := slices.Contains(continuations, text)
		if !ours && !(goOn.MatchString(text) && len(verbs(text)) == 0) {
			return i
		}
		before := start(t, messages[:i])
		if before < 0 && !ours {
			return i
		}
		if !ours {
			earlier := t.since(messages[:i], before)
			whole := story(earlier).text
			if said := earlier.heard(whole); said == "" || len(said) >= len(whole) {
				return i
			}
		}
		return before
	}
	return -1
}

// continuations are the prompts of the harness that ask for the rest of an answer.
var continuations = []string{
	prompt.ContinueDropped(true), prompt.ContinueDropped(false),
	prompt.ContinueLength(), prompt.ContinueLostCall(), prompt.ContinueEmpty(),
}

var goOn = regexp.MustCompile(`(?i)\b(continue|carry on|go on|keep going|resume)\b|\bwhere (you|it) (stopped|left off|broke off)\b`)

// since fills t from the messages behind index from.
func (t turn) since(messages []scripted.Message, from int) turn {
	t.done, t.parts = nil, nil
	if from >= 0 {
		t.request = strings.TrimSpace(messages[from].Text)
	}
	for _, m := range messages[from+1:] {
		switch m.Role {
		case "assistant":
			if len(m.Calls) == 0 {
				if m.Text != "" {
					t.parts = append(t.parts, m.Text)
				}
				continue
			}
			t.parts = nil
			for _, c := range m.Calls {
				t.done = append(t.done, exchange{id: c.ID, name: c.Name, args: c.Args})
			}
		case "tool":
			for i := range t.done {
				if t.done[i].id == m.CallID {
					t.done[i].result = m.Text
				}
			}
		}
	}
	return t
}

// heard returns what is already there of text: the pieces said so far, as far back as they are its beginning, or more
// than all of it. Pieces of another origin, in front of ours, are passed over.
func (t turn) heard(text string) string {
	for i := range t.parts {
		said := strings.Join(t.parts[i:], "")
		if strings.HasPrefix(text, said) || strings.HasPrefix(said, text) {
			return said
		}
	}
	return ""
}

// rest returns what is still to be said of a: nothing when only the end of the stream was lost and all words had come.
func (t turn) rest(a act) string { return a.text[min(len(t.heard(a.text)), len(a.text)):] }

// called returns the exchanges of the tools named, in order.
func (t turn) called(names ...string) []exchange {
	var out []exchange
	for _, e := range t.done {
		if slices.Contains(names, e.name) {
			out = append(out, e)
		}
	}
	return out
}

package demo

import (
	"testing"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

// points are the places of a turn at which a response can be cut: before each response, and what it then is.
type point struct {
	messages []scripted.Message
	text     string
	calls    []scripted.ToolCall
}

func pointsOf(k *talk, user string) []point {
	k.user(user)
	var out []point
	for {
		text, calls := k.next()
		out = append(out, point{k.messages[:len(k.messages):len(k.messages)], text, calls})
		if len(calls) == 0 {
			return out
		}
		k.round(text, calls)
	}
}

// talks are turns whose responses are cut.
func talks(t *testing.T) map[string]*talk {
	return map[string]*talk{
		"Add a “flag” — größer":                        {t: t, plan: true, tools: looking},
		"write a.txt: grüße; run `make`":               {t: t, tools: all, ws: workspace{map[string]string{"bash": "…\nfertig ✓\n"}}},
		"Where is main?":                               {t: t, tools: all},
		prompt.RevisePlan(3, "# Plan: x\n", "y \"z\""): {t: t, plan: true, tools: looking},
	}
}

func borders(text string) []int {
	var out []int
	for i := range text {
		out = append(out, i)
	}
	return append(out, len(text))
}

func TestACutAnswerIsCarriedOnBehindEveryOffset(t *testing.T) {
	for user, k := range talks(t) {
		for n, p := range pointsOf(k, user) {
			for _, at := range borders(p.text) {
				k.messages = p.messages
				if at > 0 {
					k.assistant(p.text[:at])
				}
				k.user(prompt.ContinueDropped(at > 0))
				rest, calls := k.next()
				joined(t, n, p, p.text[:at]+rest, calls)
				if at == len(p.text) && rest != "" {
					t.Errorf("response %d, cut behind its end: %q is added to an answer whose words are all there", n, rest)
				}
			}
		}
	}
}

// Every offset is the first cut once, with a second half way behind it, and the second cut once, behind a third.
func TestAnAnswerCutTwiceIsCarriedOnBehindTheSecondCut(t *testing.T) {
	for user, k := range talks(t) {
		for n, p := range pointsOf(k, user) {
			offsets := borders(p.text)
			last := len(offsets) - 1
			for i := 1; i < last; i++ {
				cutTwice(t, k, n, p, offsets[i], offsets[(i+1+last)/2])
				if third := last / 3; i > third && third > 0 {
					cutTwice(t, k, n, p, offsets[third], offsets[i])
				}
			}
		}
	}
}

func cutTwice(t *testing.T, k *talk, n int, p point, first, second int) {
	t.Helper()
	k.messages = p.messages
	k.assistant(p.text[:first])
	k.user(prompt.ContinueDropped(true))
	k.assistant(p.text[first:second])
	k.user(prompt.ContinueDropped(true))
	rest, calls := k.next()
	joined(t, n, p, p.text[:second]+rest, calls)
}

func joined(t *testing.T, n int, p point, got string, calls []scripted.ToolCall) {
	t.Helper()
	if !utf8.ValidString(got) || got != p.text {
		t.Fatalf("response %d, put together:\n%q\nwant:\n%q", n, got, p.text)
	}
	if len(calls) != len(p.calls) {
		t.Fatalf("response %d carried on: %d calls, want %d", n, len(calls), len(p.calls))
	}
	for i := range calls {
		if calls[i].Name != p.calls[i].Name || calls[i].Args != p.calls[i].Args {
			t.Fatalf("response %d carried on: call %v, want %v", n, calls[i], p.calls[i])
		}
	}
}

func TestWhichUserMessagesContinueATurn(t *testing.T) {
	k := &talk{t: t}
	k.user("Hello")
	whole, _ := k.next()
	half := whole[:len(whole)/2]
	for _, tt := range []struct {
		name string
		said []string // assistant and user in turn
		rest bool
	}{
		{"a lost call is asked for again", []string{half, prompt.ContinueLostCall()}, true},
		{"words of a person that ask to go on, behind half an answer", []string{half, "please continue"}, true},
		{"twice", []string{half[:9], "go on", half[9:], "Go on!"}, true},
		{"the same words behind another answer are a request", []string{"Something else.", "please continue"}, false},
		{"the same words behind a whole answer are a request", []string{whole, "please continue"}, false},
		{"another request behind half an answer is a request", []string{half, "What else?"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &talk{t: t}
			k.user("Hello")
			for i, text := range tt.said {
				if i%2 == 0 {
					k.assistant(text)
				} else {
					k.user(text)
				}
			}
			got, _ := k.next()
			if rest := half+got == whole; rest != tt.rest {
				t.Errorf("response %q: carried on = %t, want %t", got, rest, tt.rest)
			}
		})
	}
}

func TestAnEmptyAnswerIsGivenAgainInFull(t *testing.T) {
	k := &talk{t: t}
	k.user("Hello")
	whole, _ := k.next()
	k.user(prompt.ContinueEmpty())
	if again, _ := k.next(); again != whole {
		t.Errorf("answer %q, want %q", again, whole)
	}
}

func TestAnAnswerBegunByAnotherModelIsGivenInFull(t *testing.T) {
	k := &talk{t: t}
	k.user("Hello")
	whole, _ := k.next()
	k.assistant("Another model began with this")
	k.user(prompt.ContinueDropped(true))
	if full, _ := k.next(); full != whole {
		t.Fatalf("answer %q, want %q", full, whole)
	}
	k.assistant(whole[:20])
	k.user(prompt.ContinueDropped(true))
	if rest, _ := k.next(); whole[:20]+rest != whole {
		t.Errorf("rest %q", rest)
	}
}

package demo

import (
	"fmt"
	"regexp"
	"strings"
)

// noTools answers a request that offers no tools.
func noTools(t turn) string {
	s := "I can only answer plainly here: this request offers me no tools, so I have read none of your files.\n\n"
	if t.request != "" {
		s += "You asked: " + quote(t.request) + "\n\n"
	}
	return s + "I am a script that looks at requests; I know nothing by myself. **Next:** ask again with tools, for example in build mode.\n\n" + signature
}

// report is the final answer in build mode.
func report(t turn, f facts) string {
	var b strings.Builder
	can, cannot := t.deeds()
	done := t.called("write", "bash")
	typed := t.called(submitTool)
	switch {
	case len(typed) > 0:
		fmt.Fprintf(&b, "I handed in an answer in the shape that was asked for; the tool said %s\n", stop(quote(typed[len(typed)-1].result)))
	case len(can)+len(cannot) > 0:
		summary(&b, can, cannot, done)
	default:
		findings(&b, t, f)
	}
	b.WriteString("\n## What I looked at\n\n")
	for _, e := range evidence(f) {
		b.WriteString("- " + e + "\n")
	}
	b.WriteString("\n**Next:** " + following(can, done, f) + "\n\n" + signature)
	return b.String()
}

// outcome sorts what a tool said: the wire has no flag for it. The text itself is always quoted beside it.
type outcome int

const (
	answered outcome = iota
	failed
	interrupted
)

// The words of failures: a call that a crash or a person stopped, and what tools say in their first or last line.
var (
	interruption = regexp.MustCompile(`(?i)\binterrupted\b|outcome is unknown|stopped by the user|no result for this call`)
	exitStatus   = regexp.MustCompile(`(?i)\bexit(?:ed)?\b[^\n\d]{0,30}[1-9]|timed out|\bkilled\b|stopped before`)
	failureWords = regexp.MustCompile(`(?i)^error\b|no such file|denied|not found|outside|not allowed|no longer available|could not|cannot|invalid|refused`)
)

func outcomeOf(e exchange) outcome {
	text := strings.TrimSpace(e.result)
	first, _, _ := strings.Cut(text, "\n")
	last := text[strings.LastIndexByte(text, '\n')+1:]
	switch {
	case interruption.MatchString(first):
		return interrupted
	case exitStatus.MatchString(last), e.name != "bash" && failureWords.MatchString(first):
		return failed
	}
	return answered
}

// summary reports each deed with what its tool said.
func summary(b *strings.Builder, can, cannot []deed, done []exchange) {
	var sorted [interrupted + 1]int
	for _, e := range done {
		sorted[outcomeOf(e)]++
	}
	fmt.Fprintf(b, "%d of %s called.", min(len(done), len(can)), count(len(can)+len(cannot), "requested tool call was", "requested tool calls were"))
	if n := sorted[failed]; n > 0 {
		fmt.Fprintf(b, " %s an error.", count(n, "result reports", "results report"))
	}
	if n := sorted[interrupted]; n > 0 {
		fmt.Fprintf(b, " %s interrupted: what came of it is unknown, and I did not try again.", count(n, "call was", "calls were"))
	}
	b.WriteString("\n\n")
	for i, d := range can {
		if i >= len(done) {
			break
		}
		fmt.Fprintf(b, "%d. %s: %s\n", i+1, upper(d.String()), said(done[i]))
	}
	for _, d := range cannot {
		fmt.Fprintf(b, "- Not done: %s. The tool %s was not offered to me.\n", d.String(), code(d.tool()))
	}
}

// said quotes a result: on the line when it is one line, else as a block.
func said(e exchange) string {
	lines := strings.Split(strings.TrimSpace(e.result), "\n")
	word := map[outcome]string{answered: "it said", failed: "the tool reports an error", interrupted: "interrupted; the tool said"}[outcomeOf(e)]
	if len(lines) == 1 {
		if lines[0] == "" {
			return word + " nothing."
		}
		return stop(word + " " + quote(lines[0]))
	}
	var b strings.Builder
	b.WriteString(word + ":\n")
	for _, line := range lines[:min(len(lines), linesShown)] {
		b.WriteString("   > " + code(line) + "\n")
	}
	if more := len(lines) - linesShown; more > 0 {
		fmt.Fprintf(&b, "   > and %s\n", count(more, "more line", "more lines"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// findings answers a question with what the files say.
func findings(b *strings.Builder, t turn, f facts) {
	r, read := f.main()
	switch {
	case len(f.matches) > 0:
		fmt.Fprintf(b, "Your files say this about %s:\n\n", quote(t.goal()))
		for _, m := range f.matches[:min(len(f.matches), matchesShown)] {
			fmt.Fprintf(b, "- %s: %s\n", code(place(m)), code(m.text))
		}
		if read && r.heading != "" {
			fmt.Fprintf(b, "- %s is headed %s%s\n", code(r.file), quote(r.heading), also(r))
		}
	case read && r.heading != "":
		fmt.Fprintf(b, "I found no line about %s. The closest is %s, headed %s%s\n", quote(t.goal()), code(r.file), quote(r.heading), also(r))
	default:
		fmt.Fprintf(b, "I found nothing about %s: %s.\n", quote(t.goal()), looked(f))
	}
}

func also(r reading) string {
	if r.sentence == "" {
		return "."
	}
	return stop(" and says: " + quote(r.sentence))
}

// following is the one next step.
func following(can []deed, done []exchange, f facts) string {
	for i, e := range done {
		if i < len(can) && outcomeOf(e) != answered {
			return "check what became of the request to " + can[i].String() + ", then ask again if you want it."
		}
	}
	for i, d := range can {
		if i < len(done) && d.file != "" {
			return "open " + code(d.file) + " and read what is in it."
		}
	}
	if len(f.matches) > 0 {
		return "open " + code(place(f.matches[0])) + "."
	}
	if len(f.names()) > 0 {
		return "open " + startingPoint(f) + "."
	}
	return "ask me to write a file, for example `write notes.md: first line`."
}

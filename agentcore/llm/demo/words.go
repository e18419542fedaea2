package demo

import (
	"fmt"
	"strings"
	"unicode"
)

// signature is the last line of every final answer.
const signature = "_The built-in demo model wrote this: a script, not a language model. For a real model, name it with `--model` and its endpoint with `--base-url`._"

// clip makes s one line of at most quoteRunes, without control characters.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > quoteRunes {
		s = strings.TrimSpace(string(runes[:quoteRunes-1])) + "…"
	}
	return s
}

// code quotes s as Markdown code.
func code(s string) string { return "`" + strings.ReplaceAll(clip(s), "`", "'") + "`" }

// quote quotes s as words. Marks that Markdown would take for its own are code.
func quote(s string) string {
	if s = clip(s); strings.ContainsAny(s, "*_<[`#|") {
		return code(s)
	}
	return `"` + strings.ReplaceAll(s, `"`, "'") + `"`
}

// stop ends a sentence whose last words are quoted.
func stop(s string) string {
	if end := strings.TrimRight(s, "\"`"); end != "" && strings.ContainsAny(end[len(end)-1:], ".!?") {
		return s
	}
	return s + "."
}

func codes(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, code(n))
	}
	return out
}

// join lists words as a sentence does.
func join(words []string) string {
	switch len(words) {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// some lists the first names as code and counts the others.
func some(names []string) string {
	shown := codes(names[:min(len(names), namesShown)])
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return join(shown)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func files(n int) string   { return count(n, "file", "files") }
func matches(n int) string { return count(n, "match", "matches") }

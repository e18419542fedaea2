package anthropic

import (
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// how a model thinks.
type how int

const (
	byBudget how = iota // a fixed number of tokens
	adaptive            // as much as the effort says
	never
)

// traits are what a request must know of a model. The zero value thinks by budget and can stop thinking.
type traits struct {
	how    how
	xhigh  bool   // the level between high and max exists
	shown  bool   // thoughts come back only when they are asked for
	off    string // the type of thinking that turns it off; "" = it cannot be turned off
	maxOut int    // most tokens of output
}

// version is the generation of a model: 405 is 4.5.
const (
	version3_5 = 305
	version3_7 = 307
	version4_1 = 401
	version4_6 = 406
	version4_7 = 407
	version5_5 = 505
	newest     = 999
)

// traitsOf derives the traits from the name of a model. Models not known by name are taken for imitations, which think by
// budget. Source: durable-kernel 15.6, reference pages of the models ("Extended thinking", "Effort", migration guides).
func traitsOf(model string) traits {
	family, v := generation(model)
	t := traits{off: "disabled", maxOut: 64_000}
	switch {
	case family == "":
		return t
	case v < version3_7:
		t.how, t.off, t.maxOut = never, "", 8192
		if v < version3_5 {
			t.maxOut = 4096
		}
		return t
	case v < version4_6:
		if family == "opus" && v <= version4_1 {
			t.maxOut = 32_000
		}
		return t
	}
	t.how, t.maxOut = adaptive, 128_000
	t.xhigh, t.shown = v >= version4_7, v >= version4_7
	switch {
	case family == "fable", family == "mythos", family == "opus" && v >= version5_5:
		t.off = ""
	case family == "sonnet" && v >= version5_5:
		t.off = "between_tools"
	}
	return t
}

// generation reads family and version from names such as claude-opus-4-5-20251101, claude-3-7-sonnet-latest and
// vendor/claude-haiku-4.5. The family is "" for other models; a family without a version is the newest.
func generation(model string) (family string, version int) {
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return strings.ContainsRune("-./:@_ ", r) })
	for i, w := range words {
		switch w {
		case "opus", "sonnet", "haiku", "fable", "mythos":
			if v := number(words[i+1:]); v > 0 {
				return w, v
			}
			for j := range i {
				if words[j] == "claude" {
					if v := number(words[j+1 : i]); v > 0 {
						return w, v
					}
				}
			}
			return w, newest
		case "claude":
			if v := number(words[i+1:]); v > 0 && v < version3_5 { // claude-2.1
				return "claude", v
			}
		}
	}
	return "", 0
}

// number reads "4 5 …" as 405 and "4 …" as 400; 0 when no generation stands at the start.
func number(words []string) int {
	small := func(i int) int {
		if i >= len(words) || len(words[i]) == 0 || len(words[i]) > 2 {
			return -1
		}
		n := 0
		for _, c := range words[i] {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	major := small(0)
	if major <= 0 {
		return 0
	}
	return major*100 + max(small(1), 0)
}

// thinking is what a request says about thoughts and how much it may say in all.
type thinking struct {
	kind   string // type of thinking; "" = not mentioned
	budget int    // tokens, of kind enabled
	shown  bool   // ask for the thoughts
	effort string // "" = not mentioned
	maxOut int
}

// thinkingOf maps a level to what model knows. Empty effort turns thinking off, as far as it can be. A level that the model
// lacks becomes the one below, which costs no more; "minimal" is "low" where nothing is lower. loop says that the request
// carries on a round of tools that began without thoughts, which models that think by budget refuse to join in the middle.
// Source: P-375, P-377, durable-kernel 15.6.
func thinkingOf(req llm.Request, loop bool) thinking {
	t := traitsOf(req.Model)
	out := thinking{maxOut: req.MaxTokens}
	if out.maxOut <= 0 {
		out.maxOut = min(defaultOutput, t.maxOut)
	}
	level := req.Effort.Fold()
	switch {
	case t.how == never:
		return out
	case !level.Named() && t.off == "":
		level = llm.EffortLow
	case !level.Named():
		out.kind = t.off
		return out
	}
	if t.how == adaptive {
		out.kind, out.shown, out.effort = "adaptive", t.shown, effortOf(level, t.xhigh)
		return out
	}
	budget := budgetOf(level)
	if total := out.maxOut + budget; total <= t.maxOut {
		out.maxOut = total
	} else {
		out.maxOut = max(out.maxOut, t.maxOut)
	}
	budget = min(budget, out.maxOut-minOutput)
	if loop || budget < minBudget {
		out.kind = t.off
		return out
	}
	out.kind, out.budget = "enabled", budget
	return out
}

func effortOf(level llm.Effort, xhigh bool) string {
	switch level {
	case llm.EffortMinimal:
		return string(llm.EffortLow)
	case llm.EffortXHigh:
		if !xhigh {
			return string(llm.EffortHigh)
		}
	}
	return string(level)
}

func budgetOf(level llm.Effort) int {
	switch level {
	case llm.EffortMinimal:
		return budgetMinimal
	case llm.EffortLow:
		return budgetLow
	case llm.EffortMedium:
		return budgetMedium
	}
	return budgetHigh
}

package openairesponses

import (
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// levels are the names of reasoning efforts, lowest first.
var levels = []llm.Effort{llm.EffortMinimal, llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortXHigh, llm.EffortMax}

// family is what is known of models whose names begin alike.
type family struct {
	prefix string
	know   []llm.Effort // the levels they know; none: they do not reason
}

// families are OpenAI's models, the longer prefix first. A model of another name takes every level as it is. Source:
// durable-kernel 15.6, reference pages of the models.
var families = []family{
	{"gpt-3.5", nil}, {"gpt-4", nil}, {"chatgpt-4", nil}, {"gpt-5-chat", nil},
	{"o1", levels[1:4]}, {"o3", levels[1:4]}, {"o4", levels[1:4]},
	{"gpt-5-pro", levels[3:4]}, {"gpt-5-codex", levels[1:4]}, {"gpt-5.1-codex-max", levels[1:5]}, {"gpt-5.1", levels[1:4]},
	{"gpt-5.", levels[1:5]}, {"gpt-5", levels[:4]},
}

// familyOf finds the family of a model; a vendor in front of the name does not matter.
func familyOf(model string) (family, bool) {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, f := range families {
		rest, ok := strings.CutPrefix(name, f.prefix)
		if ok && (rest == "" || strings.HasSuffix(f.prefix, ".") || strings.ContainsRune("-.:@", rune(rest[0])) || f.prefix == "gpt-4") {
			return f, true
		}
	}
	return family{}, false
}

// reasons reports whether a model reasons, as far as it is known: others refuse what belongs to reasoning.
func reasons(model string) bool {
	f, known := familyOf(model)
	return !known || len(f.know) > 0
}

// effortOf returns the level to name for a model, "" for none. A level that it lacks becomes the next one above, or, at the
// upper end, the one below. Source: P-375, P-376.
func effortOf(model string, level llm.Effort) llm.Effort {
	level = level.Fold()
	if !level.Named() || !reasons(model) {
		return ""
	}
	f, known := familyOf(model)
	at := slices.Index(levels, level)
	if !known || at < 0 || slices.Contains(f.know, level) {
		return level
	}
	for _, above := range levels[at:] {
		if slices.Contains(f.know, above) {
			return above
		}
	}
	return f.know[len(f.know)-1]
}

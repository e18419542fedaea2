// Package prompt holds every word the product says to a model, as text files beside the code.
//
// System joins the sections of a system prompt in a fixed order, so that equal settings give equal bytes: the provider's
// prompt cache depends on it. Nothing here reads a clock or the environment.
package prompt

import (
	_ "embed"
	"strconv"
	"strings"
)

var (
	//go:embed persona.md
	persona string
	//go:embed communication.md
	communication string
	//go:embed plan.md
	plan string
	//go:embed continue_dropped.md
	continueDropped string
	//go:embed continue_length.md
	continueLength string
	//go:embed continue_lostcall.md
	continueLostCall string
	//go:embed continue_empty.md
	continueEmpty string
	//go:embed plan_revise.md
	planRevise string
	//go:embed summarise.md
	summarise string
	//go:embed summary.md
	summary string
	//go:embed submit.md
	submit string
	//go:embed submit_missing.md
	submitMissing string
)

// Sections are the parts of a system prompt. Persona "" means the built-in one.
type Sections struct {
	Persona string
	Workdir string
	Plan    bool
	Tools   []string // names, in the order offered
}

// System returns the system prompt: persona, communication guide, workspace facts, and the plan contract in plan mode.
// The communication guide is part of every mode and persona. Source: spec create-agent, O 780-799.
func System(s Sections) string {
	who := strings.TrimSpace(s.Persona)
	if who == "" {
		who = strings.TrimSpace(persona)
	}
	var b strings.Builder
	section(&b, "persona", who)
	section(&b, "communication", communication)
	facts := "Working directory: " + s.Workdir
	if len(s.Tools) > 0 {
		facts += "\nTools: " + strings.Join(s.Tools, ", ")
	}
	section(&b, "workspace", facts)
	if s.Plan {
		section(&b, "plan-mode", plan)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Add appends a section of a project's own to a system prompt.
func Add(system, key, text string) string {
	var b strings.Builder
	b.WriteString(system)
	if system != "" {
		b.WriteByte('\n')
	}
	section(&b, key, text)
	return strings.TrimSuffix(b.String(), "\n")
}

func section(b *strings.Builder, key, text string) {
	b.WriteString("<" + key + ">\n" + strings.TrimSpace(text) + "\n</" + key + ">\n")
}

// ContinueDropped asks the model to go on after its answer was cut off. visible says whether it can see its own text.
func ContinueDropped(visible bool) string {
	see := "Nothing of your interrupted answer is in the conversation."
	if visible {
		see = "Your interrupted answer, as far as it came, is in the conversation above."
	}
	return strings.TrimSpace(strings.ReplaceAll(continueDropped, "{{visible}}", see))
}

// ContinueLength asks for the intended action, short, after the output limit cut an answer.
func ContinueLength() string { return strings.TrimSpace(continueLength) }

// ContinueLostCall asks for a tool call again that was announced and did not arrive.
func ContinueLostCall() string { return strings.TrimSpace(continueLostCall) }

// ContinueEmpty asks for the answer that did not come.
func ContinueEmpty() string { return strings.TrimSpace(continueEmpty) }

// RevisePlan hands a declined plan back with the person's instructions.
func RevisePlan(revision int, text, instructions string) string {
	if strings.TrimSpace(instructions) == "" {
		instructions = "(none given)"
	}
	return strings.NewReplacer("{{revision}}", strconv.Itoa(revision), "{{plan}}", text, "{{instructions}}", instructions).
		Replace(strings.TrimSpace(planRevise))
}

// Submit asks for an answer in the form of a call of the tool.
func Submit(tool string) string {
	return strings.ReplaceAll(strings.TrimSpace(submit), "{{tool}}", tool)
}

// SubmitMissing asks once more, after a turn that ended without the call.
func SubmitMissing(tool string) string {
	return strings.ReplaceAll(strings.TrimSpace(submitMissing), "{{tool}}", tool)
}

// Summarise asks for a summary of a transcript. instructions are a person's, "" = none; merge says that the transcript
// consists of summaries of parts in order.
func Summarise(instructions string, merge bool) string {
	text := strings.TrimSpace(summarise)
	if merge {
		text += "\n\nThe transcript consists of summaries of one conversation's parts, in order. Make one summary of them: where they differ, the later part counts."
	}
	if instructions = strings.TrimSpace(instructions); instructions != "" {
		text += "\n\nThe user asks you to mind this in particular:\n" + instructions
	}
	return text
}

// Summary is how a summary stands in the context in place of what it summarises.
func Summary(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(summary), "{{summary}}", strings.TrimSpace(text))
}

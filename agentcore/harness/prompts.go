package harness

import "github.com/workflowd/workflowd/agentcore/prompt"

// promptKind names the continuation prompts.
type promptKind int

const (
	promptNone promptKind = iota
	promptDropped
	promptLength
	promptLostCall
	promptEmpty
)

func (p promptKind) text(visible bool) string {
	switch p {
	case promptLength:
		return prompt.ContinueLength()
	case promptLostCall:
		return prompt.ContinueLostCall()
	case promptEmpty:
		return prompt.ContinueEmpty()
	case promptNone, promptDropped:
	}
	return prompt.ContinueDropped(visible)
}

package turn

import (
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

// Response is all that the next step of a turn depends on, once a model request has ended.
type Response struct {
	Err      *llm.Error     // the stream died, or never began
	Stop     llm.StopReason // a complete response's reason
	StopWhy  string         // the provider's own words on it
	Calls    int            // complete calls
	Lost     int            // calls that were announced and never came
	Spoke    bool           // visible text or a refusal
	Produced bool           // text, thinking or the beginning of a call
	Before   bool           // an interrupted piece of this very answer has text: an end without more completes it
}

// Decision is what happens next.
type Decision struct {
	Act     Action
	Kind    RetryKind // resend, carryOn
	Budget  Budget
	Attempt int
	Most    int
	Delay   time.Duration
	Reason  string     // why: for the retry row, or the cause of a failure
	Failure fault.Kind // fail
	Prompt  Prompt     // carryOn
}

// Action is the kind of step a turn takes.
type Action int

const (
	Answer  Action = iota // the turn is answered
	Round                 // run the calls
	Resend                // same request again, after delay
	CarryOn               // keep the text, ask the model to go on
	Compact               // make the context smaller, then ask again
	Fail                  // the turn is unanswered
	Abandon               // somebody stopped it: the abort phase takes over
)

// Next decides what follows a response. It is a pure function: the table of a turn.
func Next(b Budget, r Response) Decision {
	switch {
	case r.Err != nil && r.Err.Class == llm.Canceled:
		return Decision{Act: Abandon}
	case r.Err != nil && r.Err.Class == llm.Overflow && b.Overflow < MaxOverflow:
		b.Overflow++
		return Decision{Act: Compact, Budget: b, Reason: r.Err.Error()}
	case r.Err != nil && !r.Err.Retryable():
		return Decision{Act: Fail, Failure: fault.ModelError, Reason: r.Err.Error()}
	case r.Err != nil:
		return died(b, r)
	case r.Stop == llm.StopLength:
		return Spend(b, Length, CarryOn, promptLength, "the output limit was reached",
			fmt.Sprintf("the answer hit the output limit again after %d attempts to carry on; raise maxTokens", MaxLength))
	case r.Stop == llm.StopRefusal && r.Spoke, r.Stop == llm.StopEnd && r.Spoke && r.Calls == 0 && r.Lost == 0:
		return Decision{Act: Answer}
	case r.Stop == llm.StopRefusal:
		return Decision{Act: Fail, Failure: fault.ModelError, Reason: withheld(r.StopWhy)}
	case r.Calls > 0:
		return Decision{Act: Round}
	case r.Stop == llm.StopToolUse || r.Lost > 0:
		b.LostCalls += max(r.Lost, 1)
		return Spend(b, LostCall, CarryOn, promptLostCall, "a tool call was announced and did not arrive",
			fmt.Sprintf("%d tool calls were lost on the way; the model's endpoint drops them", b.LostCalls))
	case r.Spoke || r.Before:
		return Decision{Act: Answer}
	case b.Empty >= MaxEmpty:
		return Decision{Act: Fail, Failure: fault.EmptyAnswer, Reason: "the model ended without an answer, twice"}
	}
	b.Empty++
	return Decision{Act: CarryOn, Prompt: promptEmpty, Budget: b, Attempt: b.Empty, Most: MaxEmpty, Reason: "the model ended without an answer"}
}

// withheld says that there is no answer, and why where the provider said so.
func withheld(why string) string {
	const said = "the provider withheld the answer"
	if why == "" {
		return said
	}
	return said + ": " + why
}

func died(b Budget, r Response) Decision {
	act, words := Resend, noPrompt
	if r.Produced {
		act, words = CarryOn, PromptDropped
	}
	d := Spend(b, Dropped, act, words, r.Err.Error(),
		fmt.Sprintf("the model's stream was cut off again after %d attempts to carry on: %v", MaxConnection, r.Err))
	if d.Act != Fail {
		d.Delay = Backoff(d.Attempt, r.Err.RetryAfter)
	}
	return d
}

// Spend takes one attempt of a kind and decides for act, or for Fail with the words exhausted.
func Spend(b Budget, kind RetryKind, act Action, words Prompt, reason, exhausted string) Decision {
	after, attempt, most, ok := b.spend(kind)
	if !ok {
		return Decision{Act: Fail, Failure: fault.ModelError, Reason: exhausted}
	}
	return Decision{Act: act, Kind: kind, Prompt: words, Budget: after, Attempt: attempt, Most: most, Reason: reason}
}

// RetryKind says why a turn had to be carried on.
type RetryKind string

// The kinds. Source: spec promises R-01.
const (
	Dropped  RetryKind = "dropped"   // the connection died
	Recovery RetryKind = "recovery"  // the host restarted in mid-answer
	Length   RetryKind = "length"    // the model's output limit
	LostCall RetryKind = "lost-call" // a call was announced and never came
)

// Budget counts consecutive failures of a turn. A complete response resets it; text and reopening do not. The zero value
// is a full budget. It is a value: spending returns a new one.
type Budget struct {
	Connection int `json:"connection,omitempty"`
	Length     int `json:"length,omitempty"`
	Empty      int `json:"empty,omitempty"`
	LostCalls  int `json:"lostCalls,omitempty"` // calls that went missing, for the final message
	Overflow   int `json:"overflow,omitempty"`  // compactions because the provider said that the context is too long
}

// spend takes one attempt of kind. ok is false when none is left; attempt and most are what a retry row shows.
func (b Budget) spend(kind RetryKind) (after Budget, attempt, most int, ok bool) {
	switch kind {
	case Length:
		if b.Length >= MaxLength {
			return b, b.Length, MaxLength, false
		}
		b.Length++
		return b, b.Length, MaxLength, true
	case Dropped, Recovery, LostCall:
	}
	if b.Connection >= MaxConnection {
		return b, b.Connection, MaxConnection, false
	}
	b.Connection++
	return b, b.Connection, MaxConnection, true
}

// Backoff returns the wait before attempt (from 1). A wait named by the server wins, up to the cap.
func Backoff(attempt int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return min(retryAfter, MaxBackoff)
	}
	d := BaseBackoff
	for range attempt - 1 {
		if d *= 2; d >= MaxBackoff {
			return MaxBackoff
		}
	}
	return d
}

// Prompt names the continuation prompts.
type Prompt int

const (
	noPrompt Prompt = iota
	PromptDropped
	promptLength
	promptLostCall
	promptEmpty
)

// Text returns the prompt; visible says that the model can see its own cut text.
func (p Prompt) Text(visible bool) string {
	switch p {
	case promptLength:
		return prompt.ContinueLength()
	case promptLostCall:
		return prompt.ContinueLostCall()
	case promptEmpty:
		return prompt.ContinueEmpty()
	case noPrompt, PromptDropped:
	}
	return prompt.ContinueDropped(visible)
}

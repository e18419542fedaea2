package harness

import (
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

// response is all that the next step of a turn depends on, once a model request has ended.
type response struct {
	err      *llm.Error     // the stream died, or never began
	stop     llm.StopReason // a complete response's reason
	calls    int            // complete calls
	lost     int            // calls that were announced and never came
	spoke    bool           // visible text or a refusal
	produced bool           // text, thinking or the beginning of a call
	before   bool           // an interrupted piece of this very answer has text: an end without more completes it
}

// decision is what happens next.
type decision struct {
	act     action
	kind    RetryKind // resend, carryOn
	budget  Budget
	attempt int
	most    int
	delay   time.Duration
	reason  string     // why: for the retry row, or the cause of a failure
	failure fault.Kind // fail
	prompt  promptKind // carryOn
}

type action int

const (
	answer  action = iota // the turn is answered
	round                 // run the calls
	resend                // same request again, after delay
	carryOn               // keep the text, ask the model to go on
	fail                  // the turn is unanswered
	abandon               // somebody stopped it: the abort phase takes over
)

// next decides what follows a response. It is a pure function: the table of a turn.
func next(b Budget, r response) decision {
	switch {
	case r.err != nil && r.err.Class == llm.Canceled:
		return decision{act: abandon}
	case r.err != nil && !r.err.Retryable():
		return decision{act: fail, failure: fault.ModelError, reason: r.err.Error()}
	case r.err != nil:
		return died(b, r)
	case r.stop == llm.StopLength:
		return spend(b, Length, carryOn, promptLength, "the output limit was reached",
			fmt.Sprintf("the answer hit the output limit again after %d attempts to carry on; raise maxTokens", MaxLength))
	case r.stop == llm.StopRefusal && r.spoke, r.stop == llm.StopEnd && r.spoke && r.calls == 0 && r.lost == 0:
		return decision{act: answer}
	case r.stop == llm.StopRefusal:
		return decision{act: fail, failure: fault.ModelError, reason: "the provider withheld the answer"}
	case r.calls > 0:
		return decision{act: round}
	case r.stop == llm.StopToolUse || r.lost > 0:
		b.LostCalls += max(r.lost, 1)
		return spend(b, LostCall, carryOn, promptLostCall, "a tool call was announced and did not arrive",
			fmt.Sprintf("%d tool calls were lost on the way; the model's endpoint drops them", b.LostCalls))
	case r.spoke || r.before:
		return decision{act: answer}
	case b.Empty >= MaxEmpty:
		return decision{act: fail, failure: fault.EmptyAnswer, reason: "the model ended without an answer, twice"}
	}
	b.Empty++
	return decision{act: carryOn, prompt: promptEmpty, budget: b, attempt: b.Empty, most: MaxEmpty, reason: "the model ended without an answer"}
}

func died(b Budget, r response) decision {
	act, words := resend, promptNone
	if r.produced {
		act, words = carryOn, promptDropped
	}
	d := spend(b, Dropped, act, words, r.err.Error(),
		fmt.Sprintf("the model's stream was cut off again after %d attempts to carry on: %v", MaxConnection, r.err))
	if d.act != fail {
		d.delay = backoff(d.attempt, r.err.RetryAfter)
	}
	return d
}

func spend(b Budget, kind RetryKind, act action, words promptKind, reason, exhausted string) decision {
	after, attempt, most, ok := b.spend(kind)
	if !ok {
		return decision{act: fail, failure: fault.ModelError, reason: exhausted}
	}
	return decision{act: act, kind: kind, prompt: words, budget: after, attempt: attempt, most: most, reason: reason}
}

// boundary is a safe point at which queued submissions are placed.
type boundary int

const (
	afterTools boundary = iota // a round is finished and the turn goes on
	atEnd                      // the turn has its answer
	atRest                     // nothing is under way: the queue of a failed turn is released
)

// selectAt returns which of queue a boundary places: all resets, and one input (-1 = none). A steer joins behind a round;
// an end takes the oldest steer, else the oldest input; a queue at rest goes on with its oldest input, whatever its mode.
// Source: durable kernel 4.2, design "Open cases".
func selectAt(b boundary, queue []queued) (resets []int, input int) {
	steer, oldest := -1, -1
	for i, q := range queue {
		switch {
		case q.input.Reset != nil:
			resets = append(resets, i)
			continue
		case q.input.Mode == Steer && steer < 0:
			steer = i
		}
		if oldest < 0 {
			oldest = i
		}
	}
	switch {
	case b == afterTools || b == atEnd && steer >= 0:
		return resets, steer
	}
	return resets, oldest
}

// Budget counts consecutive failures of a turn. A complete response resets it; text and reopening do not. The zero value
// is a full budget. It is a value: spending returns a new one.
type Budget struct {
	Connection int `json:"connection,omitempty"`
	Length     int `json:"length,omitempty"`
	Empty      int `json:"empty,omitempty"`
	LostCalls  int `json:"lostCalls,omitempty"` // calls that went missing, for the final message
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

// backoff returns the wait before attempt (from 1). A wait named by the server wins, up to the cap.
func backoff(attempt int, retryAfter time.Duration) time.Duration {
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

package scripted

import "time"

// Step is one thing that a response does, in order. The kinds are Text, Thinking, Call, Usage, NoUsage, and the faults
// Drop, Status, Overflow, Length, LostCall, Stall, ErrorFrame, Refuse, Empty.
type Step interface{ isStep() }

// Response is one answer of the model. Without a fault it ends as the protocol says: finish reason tool_calls when it has
// a call, else stop; then usage; then [DONE].
type Response []Step

// Text says Text in Chunks deltas of about equal length (0 = one), Pace apart (0 = the model's pace).
type Text struct {
	Text   string
	Chunks int
	Pace   time.Duration
}

// Thinking is reasoning in the wire field Field ("" = reasoning_content), cut like Text.
type Thinking struct {
	Text   string
	Field  string
	Chunks int
	Pace   time.Duration
}

// Call is one tool call. Args is sent as it is and may be broken JSON; "" sends an empty string. An empty ID gets
// "call_<request>_<n>". The arguments are cut like Text.
type Call struct {
	ID     string
	Name   string
	Args   string
	Chunks int
	Pace   time.Duration
}

// Usage is the token report of the response. Without it the report is an estimate from the lengths (BytesPerToken).
type Usage struct{ Input, Output, Cached, Reasoning int64 }

// NoUsage leaves the token report out.
type NoUsage struct{}

// Drop ends the body without a terminal event, here or, with Bytes > 0, as soon as the body has that many bytes. The end
// is a polite one unless Reset is set, which breaks the connection.
type Drop struct {
	Bytes int
	Reset bool
}

// Status answers with an HTTP error instead of a stream. It must be the first step. RetryAfter is sent as given (seconds
// or an HTTP date); Code is the provider's error code; Message "" gets the status text.
type Status struct {
	Code       int
	RetryAfter string
	ErrorCode  string
	Message    string
}

// Overflow answers 400 context_length_exceeded. It must be the first step.
type Overflow struct{}

// Length ends the response at the output limit (finish reason length).
type Length struct{}

// LostCall ends the response with finish reason tool_calls whatever calls it has: none is a lost call.
type LostCall struct{}

// Stall sends nothing but a comment each KeepAlive (0 = not even that) for For; For 0 lasts until the client leaves.
type Stall struct {
	For       time.Duration
	KeepAlive time.Duration
}

// ErrorFrame sends an error inside the open stream and ends the body. Status is the error's own status_code, 0 = none.
type ErrorFrame struct {
	Status    int
	ErrorCode string
	Message   string
}

// Refuse ends the response with a refusal: the text as delta.refusal where there is one, finish reason content_filter.
type Refuse struct{ Text string }

// Empty is a response that ends with nothing in it.
type Empty struct{}

func (Text) isStep()       {}
func (Thinking) isStep()   {}
func (Call) isStep()       {}
func (Usage) isStep()      {}
func (NoUsage) isStep()    {}
func (Drop) isStep()       {}
func (Status) isStep()     {}
func (Overflow) isStep()   {}
func (Length) isStep()     {}
func (LostCall) isStep()   {}
func (Stall) isStep()      {}
func (ErrorFrame) isStep() {}
func (Refuse) isStep()     {}
func (Empty) isStep()      {}

// Reply returns a Response of steps.
func Reply(steps ...Step) Response { return steps }

// Say returns a Response of one text.
func Say(text string) Response { return Response{Text{Text: text}} }

// ends reports whether nothing but usage can follow s in one response.
func ends(s Step) bool {
	switch s := s.(type) {
	case Drop:
		return s.Bytes == 0
	case Stall:
		return s.For == 0
	case Status, Overflow, Length, LostCall, ErrorFrame, Refuse, Empty:
		return true
	}
	return false
}

package llm

import (
	"fmt"
	"time"
)

// Class sorts provider failures by what the caller must do.
type Class string

// The classes. Only Connection, RateLimit and Server are worth another attempt.
const (
	Connection Class = "connection" // dropped, reset, timed out, ended without a terminal event
	RateLimit  Class = "rate_limit" // 408, 409, 429 without a quota meaning
	Server     Class = "server"     // any 5xx, overloaded
	Overflow   Class = "overflow"   // the context is larger than the window
	Quota      Class = "quota"      // money or a long-term limit is used up
	Auth       Class = "auth"       // 401, 403
	Invalid    Class = "invalid"    // the request is wrong
	Filtered   Class = "filtered"   // a policy of the provider refused the request
	Canceled   Class = "canceled"   // our own ctx ended
)

// Error is the one error type of Provider.Stream. Message is the provider's own words where it gave some, without
// credentials. Partial is the response as far as it came; its usage counts.
type Error struct {
	Class      Class
	Status     int // HTTP status, 0 when none was received
	Code       string
	Message    string
	RetryAfter time.Duration // 0 = the server named none
	Dispatched bool          // the request may have reached the provider
	Produced   bool          // at least one block with content was yielded
	Usage      *Usage
	Cause      error
}

// Error names class, status and the provider's message.
func (e *Error) Error() string {
	switch {
	case e.Status != 0 && e.Message != "":
		return fmt.Sprintf("model endpoint answered %d: %s", e.Status, e.Message)
	case e.Status != 0:
		return fmt.Sprintf("model endpoint answered %d", e.Status)
	case e.Message != "":
		return e.Message
	case e.Cause != nil:
		return e.Cause.Error()
	}
	return "model endpoint: " + string(e.Class)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// MaxRetryAfter is the longest server-named wait that is still a pause and not a refusal. Source: design "Numbers".
const MaxRetryAfter = 60 * time.Second

// Retryable reports whether another attempt, or a continuation, can help.
func (e *Error) Retryable() bool {
	switch e.Class {
	case Connection, RateLimit, Server:
		return e.RetryAfter <= MaxRetryAfter
	case Overflow, Quota, Auth, Invalid, Filtered, Canceled:
	}
	return false
}

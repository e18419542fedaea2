package openaicompletions

import "time"

// DefaultIdleTimeout ends a stream that sent no event for so long; comments do not count. Source: design "Numbers".
const DefaultIdleTimeout = 300 * time.Second

// MaxCallID is the longest call id that every endpoint takes, in bytes of [A-Za-z0-9_-]. Source: durable-kernel 15.2.
const MaxCallID = 40

// maxErrorBody is how much of an error response is read, in bytes.
const maxErrorBody = 64 << 10

// After the terminal event the rest of the body is read, so that the connection can serve the next request, within these
// bounds in bytes and time. Source: measured, a new TLS connection costs more than 100 ms.
const (
	drainBytes = 64 << 10
	drainTime  = 100 * time.Millisecond
)

// idleConnections is how many connections per endpoint wait for the next request.
const idleConnections = 64

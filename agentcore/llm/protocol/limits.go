package protocol

import "time"

// DefaultIdleTimeout ends a stream that sent no event for so long; comments and pings do not count. Source: design
// "Numbers".
const DefaultIdleTimeout = 300 * time.Second

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

// shortestSecret is the length in bytes from which a value is hidden; shorter ones are versions and flags, and hiding them
// would mangle messages.
const shortestSecret = 6

// maxIndexDigits bounds the indices that a Cursor reads; larger ones are read the slow way.
const maxIndexDigits = 6

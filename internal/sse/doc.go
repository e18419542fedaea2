// Package sse reads and writes event streams (text/event-stream).
//
// One Reader serves every protocol. It follows the WHATWG rules (LF, CRLF and lone CR end lines, a leading byte order mark
// is dropped, comments are skipped, one space after the colon belongs to the syntax) with three differences that real
// endpoints make necessary: an event that the end of the body cuts off before its blank line is delivered and flagged, an
// event without data but with a type is delivered, and the value of a non-standard `error:` line is kept.
//
//	bytes ─▶ Reader.Next ─▶ Event … Event ─▶ io.EOF, a read error, or *TooLargeError
package sse

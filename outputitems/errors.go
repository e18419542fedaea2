package outputitems

import (
	"fmt"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Error says what is wrong with the form of an item or a chunk: Pointer is the RFC 6901 pointer of the place, Detail one line
// for people.
type Error = strictjson.Error

// Reason is why an accumulator refuses a chunk.
type Reason string

// The reasons.
const (
	Gap           Reason = "gap"           // an append behind the end of the known text
	Contradiction Reason = "contradiction" // an append whose bytes differ from the known text
	NotOpen       Reason = "not-open"      // a chunk before its item's open
	Reopened      Reason = "reopened"      // an open that differs from the one before
	Closed        Reason = "closed"        // a change of an item that is done
	Invalid       Reason = "invalid"       // a chunk that is malformed, or does not suit its item; Cause says why
)

// ApplyError is the refusal of one chunk; the accumulator is as before. For an append Offset is where its text begins, or
// with Contradiction the first byte that differs, and Length is how many bytes of the item's text are known.
type ApplyError struct {
	ItemID string
	Op     Op
	Reason Reason
	Offset int
	Length int
	Cause  error // an *Error with Invalid, else nil
}

// Error names the item, the operation, the reason and, where they matter, the offsets.
func (e *ApplyError) Error() string {
	head := fmt.Sprintf("%s item %q: ", e.Op, e.ItemID)
	switch e.Reason {
	case Gap:
		return head + fmt.Sprintf("gap: the chunk begins at byte %d, the known text ends at %d", e.Offset, e.Length)
	case Contradiction:
		return head + fmt.Sprintf("contradiction: byte %d differs from the known text of %d bytes", e.Offset, e.Length)
	case NotOpen:
		return head + "the item was not opened"
	case Reopened:
		return head + "the item was opened before with other data"
	case Closed:
		return head + "the item is done and the chunk would change it"
	}
	return head + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *ApplyError) Unwrap() error { return e.Cause }

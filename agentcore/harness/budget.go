package harness

import "time"

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

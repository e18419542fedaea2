package compaction

import (
	"fmt"
	"math"
	"slices"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/tokens"
)

// Settings of a conversation. The zero value compacts at FullPercent and keeps DefaultKeep.
type Settings struct {
	Off     bool  `json:"off,omitempty"`           // neither at the threshold nor after an overflow; by hand still
	Reserve int64 `json:"reserveTokens,omitempty"` // compacts earlier, when that is earlier
	Keep    int64 `json:"keepRecentTokens,omitempty"`
}

// Threshold is how full a context may get. output is the output limit of a request, 0 when there is none: room for it is
// kept. Source: P-040, P-522, P-815, bugs 46.
func Threshold(window int64, output int, s Settings) int64 {
	limit := window * FullPercent / 100
	if s.Reserve > 0 {
		limit = min(limit, window-s.Reserve)
	}
	if output > 0 {
		limit = min(limit, window-int64(output))
	}
	return max(limit, window/summaryShare) // settings that leave no room at all are not meant
}

// Due reports whether a context is full. An unknown window (0) never is.
func Due(used, window int64, output int, s Settings) bool {
	return window > 0 && !s.Off && used >= Threshold(window, output, s)
}

// Item is one message of a context, in the order the model sees them.
type Item struct {
	ID      int64 // of its entry; results stand behind their call, whatever their number
	Message llm.Message
	Turn    bool // it begins a turn of the user
	Fixed   bool // it cannot be kept: the summary that is there now
}

// Cut returns the entry from which on a context is kept: walking back from the end as far as the messages have room, then the
// next beginning of a user's turn, else the nearest assistant message; the newest message is always kept. ok is false when
// nothing would be left to summarise. A call and its results stay together. Source: durable kernel 6.3, P-536 to P-541.
func Cut(items []Item, window int64, s Settings) (from int64, ok bool) {
	keep := s.Keep
	if keep <= 0 {
		keep = DefaultKeep
	}
	keep = min(keep, window/keepShare)
	at, sum := len(items), int64(0)
	for at > 0 {
		if sum += tokens.Message(items[at-1].Message); sum > keep {
			break
		}
		at--
	}
	turn, assistant, before := -1, -1, -1
	results := lowestResults(items)
	for i := range items {
		if !begins(items[i], results[i]) {
			continue
		}
		switch {
		case i < at:
			before = i
		case items[i].Turn && turn < 0:
			turn = i
		case items[i].Message.Role == llm.RoleAssistant && assistant < 0:
			assistant = i
		}
	}
	chosen := turn
	if chosen < 0 {
		chosen = assistant
	}
	if chosen < 0 {
		chosen = before
	}
	if chosen <= 0 || !anything(items[:chosen]) {
		return 0, false
	}
	return items[chosen].ID, true
}

// begins reports whether the kept part may begin with a message: one of user or assistant, before which no call is open.
// result is the lowest number of a result from there on: one of a call before the cut would be left alone.
func begins(it Item, result int64) bool {
	role := it.Message.Role
	return !it.Fixed && (role == llm.RoleUser || role == llm.RoleAssistant) && result >= it.ID
}

// lowestResults returns for each message the lowest number of a result from there on.
func lowestResults(items []Item) []int64 {
	lowest, least := make([]int64, len(items)), int64(math.MaxInt64)
	for i := range slices.Backward(items) {
		if items[i].Message.Role == llm.RoleToolResult {
			least = min(least, items[i].ID)
		}
		lowest[i] = least
	}
	return lowest
}

// anything reports whether there is more than the summary that is there now.
func anything(items []Item) bool {
	for _, it := range items {
		if !it.Fixed {
			return true
		}
	}
	return false
}

// Size estimates the tokens of a context.
func Size(items []Item) (n int64) {
	for _, it := range items {
		n += tokens.Message(it.Message)
	}
	return n
}

// Largest names the message of a context that takes most room.
func Largest(items []Item) (name string, size int64) {
	for _, it := range items {
		if n := tokens.Message(it.Message); n > size {
			size = n
			switch it.Message.Role {
			case llm.RoleToolResult:
				name = "result of the tool " + it.Message.ToolName
			case llm.RoleAssistant:
				name = "last answer"
			case llm.RoleUser:
				name = "input"
			}
		}
	}
	return name, size
}

// TooLarge says what has to become shorter. Source: P-537.
func TooLarge(name string, size, window int64) string {
	return fmt.Sprintf("the %s takes about %d tokens, more than the model's window of %d: shorten it, or declare the window if it is larger", name, size, window)
}

// OpenRound is the assistant message whose calls may still run: the last one, when only results stand behind it. 0 = none.
func OpenRound(items []Item) int64 {
	for _, it := range slices.Backward(items) {
		switch {
		case it.Message.Role == llm.RoleToolResult:
		case len(it.Message.Calls()) > 0:
			return it.ID
		default:
			return 0
		}
	}
	return 0
}

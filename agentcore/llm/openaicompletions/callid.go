package openaicompletions

import (
	"strconv"
	"strings"
)

// callIDs maps stored call ids to ids that the endpoint takes: at most MaxCallID bytes of [A-Za-z0-9_-], each used once in
// a request. An id depends only on the calls before it, so the ids of a growing history stay as they were. Stored ids
// never change.
type callIDs struct {
	used map[string]int // id -> number of the last suffix tried for it
}

// next returns the id for the next call, which is stored as raw.
func (c *callIDs) next(raw string) string {
	if c.used == nil {
		c.used = map[string]int{}
	}
	base := sanitise(raw)
	if _, taken := c.used[base]; !taken {
		c.used[base] = 1
		return base
	}
	for n := c.used[base] + 1; ; n++ {
		suffix := "_" + strconv.Itoa(n)
		id := base[:min(len(base), MaxCallID-len(suffix))] + suffix
		if _, taken := c.used[id]; !taken {
			c.used[base], c.used[id] = n, 1
			return id
		}
	}
}

// sanitise keeps the part before a bar (the rest is an item id of another protocol) and replaces what is not allowed.
func sanitise(raw string) string {
	head, _, _ := strings.Cut(raw, "|")
	out := make([]byte, 0, min(len(head), MaxCallID))
	for i := 0; i < len(head) && len(out) < MaxCallID; i++ {
		c := head[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			c = '_'
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return "call"
	}
	return string(out)
}

package protocol

import (
	"strconv"
	"strings"
)

// CallIDs maps stored call ids to ids that an endpoint takes: at most Max bytes of [A-Za-z0-9_-], each used once in a
// request. An id depends only on the calls before it, so the ids of a growing history stay as they were. Stored ids never
// change. The zero value with Max set is ready.
type CallIDs struct {
	Max  int
	used map[string]int // id -> number of the last suffix tried for it
}

// Next returns the id for the next call, which is stored as raw.
func (c *CallIDs) Next(raw string) string {
	if c.used == nil {
		c.used = map[string]int{}
	}
	head, _, _ := strings.Cut(raw, "|") // the rest is an item id of another protocol
	base := Clean(head, c.Max, "call")
	if _, taken := c.used[base]; !taken {
		c.used[base] = 1
		return base
	}
	for n := c.used[base] + 1; ; n++ {
		suffix := "_" + strconv.Itoa(n)
		id := base[:min(len(base), c.Max-len(suffix))] + suffix
		if _, taken := c.used[id]; !taken {
			c.used[base], c.used[id] = n, 1
			return id
		}
	}
}

// Clean replaces each byte of s outside [A-Za-z0-9_-] by "_" and cuts what is longer than most; nothing becomes instead.
func Clean(s string, most int, instead string) string {
	if s == "" {
		return instead
	}
	if len(s) <= most && clean(s) {
		return s
	}
	out := []byte(s[:min(len(s), most)])
	for i, c := range out {
		if !allowed(c) {
			out[i] = '_'
		}
	}
	return string(out)
}

func clean(s string) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func allowed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

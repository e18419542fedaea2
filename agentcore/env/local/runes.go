package local

import "unicode/utf8"

// wholeRunes returns how much of b can be handed on without cutting a UTF-8 sequence that later bytes may complete.
// Bytes that can never become one are not held back.
func wholeRunes(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		at := len(b) - back
		if !utf8.RuneStart(b[at]) {
			continue
		}
		if utf8.FullRune(b[at:]) {
			return len(b)
		}
		return at
	}
	return len(b)
}

package strictjson

import (
	"encoding/binary"
	"math/bits"
)

// validDepth is how deep values may nest. Source: encoding/json, whose decoder refuses more.
const validDepth = 10000

// Valid reports whether data is one JSON value, exactly as json.Valid does, in a fraction of the time: a commit validates
// every body it stores.
func Valid(data []byte) bool {
	at := validValue(data, pastSpace(data, 0), validDepth)
	return at >= 0 && pastSpace(data, at) == len(data)
}

func pastSpace(d []byte, at int) int {
	for at < len(d) && (d[at] == ' ' || d[at] == '\n' || d[at] == '\t' || d[at] == '\r') {
		at++
	}
	return at
}

// The functions below return where the text that begins at at ends, or -1 when it is not what they are named after.

func validValue(d []byte, at, depth int) int {
	if at >= len(d) {
		return -1
	}
	switch c := d[at]; {
	case c == '"':
		return validString(d, at+1)
	case c == '{':
		return validList(d, at+1, depth-1, '}')
	case c == '[':
		return validList(d, at+1, depth-1, ']')
	case c == '-' || isDigit(c):
		return validNumber(d, at)
	case c == 't':
		return validWord(d, at, "true")
	case c == 'f':
		return validWord(d, at, "false")
	case c == 'n':
		return validWord(d, at, "null")
	}
	return -1
}

func validWord(d []byte, at int, word string) int {
	if len(d)-at < len(word) || string(d[at:at+len(word)]) != word {
		return -1
	}
	return at + len(word)
}

// validList is the inside of an object or an array up to its end.
func validList(d []byte, at, depth int, end byte) int {
	if depth < 0 {
		return -1
	}
	if at = pastSpace(d, at); at < len(d) && d[at] == end {
		return at + 1
	}
	for {
		if at = pastSpace(d, at); end == '}' {
			if at >= len(d) || d[at] != '"' {
				return -1
			}
			if at = validString(d, at+1); at < 0 {
				return -1
			}
			if at = pastSpace(d, at); at >= len(d) || d[at] != ':' {
				return -1
			}
			at = pastSpace(d, at+1)
		}
		if at = validValue(d, at, depth); at < 0 {
			return -1
		}
		if at = pastSpace(d, at); at >= len(d) {
			return -1
		}
		switch d[at] {
		case end:
			return at + 1
		case ',':
			at++
		default:
			return -1
		}
	}
}

// Eight bytes at a time: every byte of ones is 1, the high bit of every byte of highs is set.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// validString is the inside of a string up to its closing quote.
func validString(d []byte, at int) int {
	for {
		for at+8 <= len(d) {
			x := binary.LittleEndian.Uint64(d[at:])
			quote, slash := x^(ones*'"'), x^(ones*'\\')
			// The lowest high bit marks the first control character, quote or backslash.
			if m := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs; m != 0 {
				at += bits.TrailingZeros64(m) / 8
				break
			}
			at += 8
		}
		for at < len(d) && d[at] >= ' ' && d[at] != '"' && d[at] != '\\' {
			at++
		}
		switch {
		case at >= len(d) || d[at] < ' ':
			return -1
		case d[at] == '"':
			return at + 1
		}
		if at = validEscape(d, at+1); at < 0 {
			return -1
		}
	}
}

// validEscape is what follows a backslash.
func validEscape(d []byte, at int) int {
	if at >= len(d) {
		return -1
	}
	switch d[at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 1
	case 'u':
		if len(d)-at < 5 {
			return -1
		}
		for _, c := range d[at+1 : at+5] {
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return at + 5
	}
	return -1
}

func validNumber(d []byte, at int) int {
	if d[at] == '-' {
		at++
	}
	switch {
	case at < len(d) && d[at] == '0':
		at++
	default:
		if at = pastDigits(d, at); at < 0 {
			return -1
		}
	}
	if at < len(d) && d[at] == '.' {
		if at = pastDigits(d, at+1); at < 0 {
			return -1
		}
	}
	if at < len(d) && d[at]|0x20 == 'e' {
		if at++; at < len(d) && (d[at] == '+' || d[at] == '-') {
			at++
		}
		return pastDigits(d, at)
	}
	return at
}

// pastDigits wants at least one.
func pastDigits(d []byte, at int) int {
	begin := at
	for at < len(d) && isDigit(d[at]) {
		at++
	}
	if at == begin {
		return -1
	}
	return at
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

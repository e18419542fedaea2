package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// normal returns args as one compact JSON object in valid UTF-8 without lone surrogates; nothing and null become {}.
func normal(args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}"), nil
	}
	if args[0] != '{' {
		return nil, errors.New("(root): the arguments must be one JSON object")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, args); err != nil {
		return nil, fmt.Errorf("(root): the arguments are not valid JSON: %w", err)
	}
	return strictjson.Repair(out.Bytes()), nil
}

// withoutOptionalNulls drops top-level properties whose value is null and which the schema does not require. args is a
// compact JSON object; the order of the rest is kept.
func withoutOptionalNulls(schema, args json.RawMessage) json.RawMessage {
	var s struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return args
	}
	var out bytes.Buffer
	dec := json.NewDecoder(bytes.NewReader(args))
	if _, err := dec.Token(); err != nil {
		return args
	}
	out.WriteByte('{')
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return args
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return args
		}
		key, ok := name.(string)
		if !ok || string(value) == "null" && !slices.Contains(s.Required, key) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, err := json.Marshal(key)
		if err != nil {
			return args
		}
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// wholeNumbers rewrites numbers such as 3.0 and 1e3 as integers. doc is compact valid JSON.
func wholeNumbers(doc json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); {
		switch c := doc[i]; {
		case c == '"':
			end := i + 1
			for doc[end] != '"' {
				if doc[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, doc[i:end+1]...)
			i = end + 1
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(doc) && strings.IndexByte("0123456789+-.eE", doc[end]) >= 0 {
				end++
			}
			out = append(out, whole(string(doc[i:end]))...)
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

func whole(number string) string {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.ContainsAny(number, ".eE") || f != math.Trunc(f) || math.Abs(f) > maxExactInt {
		return number
	}
	return strconv.FormatInt(int64(f), 10)
}

// unfit gives a decoding error of valid JSON the form of a violation: pointer, colon, message.
func unfit(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("/%s: %s does not fit a value of type %v", strings.ReplaceAll(e.Field, ".", "/"), e.Value, e.Type)
	}
	if err != nil {
		return fmt.Errorf("(root): %w", err)
	}
	return nil
}

// refusal is the error the model reads when arguments do not fit: every reason with its pointer, then what was received.
func refusal(name string, received json.RawMessage, reason error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "the arguments of %s were refused, nothing ran:\n", name)
	for line := range strings.SplitSeq(reason.Error(), "\n") {
		b.WriteString("  " + line + "\n")
	}
	echo := strings.ToValidUTF8(string(received), "\uFFFD")
	if len(echo) > MaxEchoBytes {
		echo = strings.ToValidUTF8(echo[:MaxEchoBytes], "") + fmt.Sprintf("… (%d bytes in all)", len(received))
	}
	b.WriteString("received: " + echo)
	return &ArgumentError{Tool: name, text: b.String(), cause: reason}
}

// ArgumentError says that a call's arguments do not fit the tool's schema. Its text is for the model.
type ArgumentError struct {
	Tool  string
	text  string
	cause error
}

// Error lists pointer and message of every violation and repeats the arguments, bounded by MaxEchoBytes.
func (e *ArgumentError) Error() string { return e.text }

// Unwrap returns the validator's error.
func (e *ArgumentError) Unwrap() error { return e.cause }

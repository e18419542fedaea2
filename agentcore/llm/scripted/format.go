package scripted

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns r in the text form that Parse reads, for messages of failed tests and for writing stories.
func (r Response) String() string {
	parts := make([]string, len(r))
	for i, s := range r {
		parts[i] = format(s)
	}
	return strings.Join(parts, " | ")
}

func format(s Step) string {
	var b formatter
	switch s := s.(type) {
	case Text:
		b.add("text").quote(s.Text).cut(s.Chunks, s.Pace)
	case Thinking:
		b.add("think").quote(s.Text).cut(s.Chunks, s.Pace).option("field", s.Field)
	case Call:
		b.add("call").add(s.Name)
		switch {
		case strings.HasPrefix(s.Args, "{") && json.Valid([]byte(s.Args)) && !strings.Contains(s.Args, "\n"):
			b.add(s.Args)
		case s.Args != "":
			b.quote(s.Args)
		}
		b.option("id", s.ID).cut(s.Chunks, s.Pace)
	case Usage:
		b.add("usage").count("in", s.Input).count("out", s.Output).count("cached", s.Cached).count("reasoning", s.Reasoning)
	case NoUsage:
		b.add("nousage")
	case Drop:
		b.add("drop").count("bytes", int64(s.Bytes))
		if s.Reset {
			b.add("reset")
		}
	case Status:
		b.add("status").add(strconv.Itoa(s.Code))
		if s.Message != "" {
			b.quote(s.Message)
		}
		b.option("code", s.ErrorCode).option("retry-after", s.RetryAfter)
	case Overflow:
		b.add("overflow")
	case Length:
		b.add("length")
	case LostCall:
		b.add("lost-call")
	case Stall:
		b.add("stall").duration("for", s.For).duration("keepalive", s.KeepAlive)
	case ErrorFrame:
		b.add("error").quote(s.Message).option("code", s.ErrorCode).count("status", int64(s.Status))
	case Refuse:
		b.add("refuse")
		if s.Text != "" {
			b.quote(s.Text)
		}
	case Empty:
		b.add("empty")
	default:
		b.add(fmt.Sprintf("%T", s))
	}
	return strings.Join(b.words, " ")
}

// formatter collects the words of a step, without those that have no value.
type formatter struct{ words []string }

func (f *formatter) add(word string) *formatter {
	f.words = append(f.words, word)
	return f
}

func (f *formatter) quote(s string) *formatter { return f.add(strconv.Quote(s)) }

func (f *formatter) option(key, value string) *formatter {
	if value == "" {
		return f
	}
	return f.add(key + "=" + value)
}

func (f *formatter) count(key string, n int64) *formatter {
	if n == 0 {
		return f
	}
	return f.option(key, strconv.FormatInt(n, 10))
}

func (f *formatter) duration(key string, d time.Duration) *formatter {
	if d == 0 {
		return f
	}
	return f.option(key, d.String())
}

func (f *formatter) cut(chunks int, pace time.Duration) *formatter {
	if chunks > 0 {
		f.add("x" + strconv.Itoa(chunks))
	}
	return f.duration("pace", pace)
}

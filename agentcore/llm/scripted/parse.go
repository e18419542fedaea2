package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Parse reads responses in text form, as story files have them:
//
//	think "the user wants a build" | call bash {"command":"make"} | text "built; tests pass"
//
// Steps are separated by `|`. A step that cannot stand behind the one before in one response begins the next response:
// anything but another call, a fault or a usage behind a call, anything but a usage behind an end. So the line above is
// two responses, and `status 429 retry-after=2 | text "x"` is a refusal and then an answer. A leading `model:` is passed
// over, `||` begins the next response in any case.
//
//	text "…" [xN] [pace=20ms]                   think "…" [xN] [pace=…] [field=reasoning]
//	call NAME {json} | "broken json" [id=…] [xN] usage [in=N] [out=N] [cached=N] [reasoning=N]     nousage
//	drop [bytes=N] [reset]                      status CODE ["message"] [code=…] [retry-after=…]
//	overflow   length   lost-call   empty       refuse ["…"]
//	stall [for=30s] [keepalive=1s]              error "message" [code=…] [status=N]
//
// Strings are Go strings. Errors name the byte where the text stops making sense.
func Parse(text string) ([]Response, error) {
	p := &parser{all: text, rest: strings.TrimPrefix(strings.TrimSpace(text), "model:")}
	var out []Response
	fresh := true
	for {
		s, err := p.step()
		if err != nil {
			return nil, err
		}
		if fresh || !follows(out[len(out)-1], s) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
		if p.space(); p.rest == "" {
			return out, nil
		}
		if !p.take("|") {
			return nil, p.errorf("want | between steps")
		}
		fresh = p.take("|")
	}
}

// MustParse is Parse of lines known to be right, one or more responses each, as a List. It panics when they are not.
func MustParse(lines ...string) *List {
	list := &List{}
	for _, line := range lines {
		responses, err := Parse(line)
		if err != nil {
			panic("scripted: " + err.Error())
		}
		list.responses = append(list.responses, responses...)
	}
	return list
}

// follows reports whether s can stand behind the steps of r in one response.
func follows(r Response, s Step) bool {
	called := false
	for _, before := range r {
		if ends(before) {
			switch s.(type) {
			case Usage, NoUsage:
				return true
			}
			return false
		}
		_, isCall := before.(Call)
		called = called || isCall
	}
	switch s.(type) {
	case Status, Overflow, Empty:
		return false
	case Text, Thinking:
		return !called
	case Refuse:
		return !called
	}
	return true
}

// parser walks one line.
type parser struct{ all, rest string }

func (p *parser) errorf(format string, args ...any) error {
	at := len(p.all) - len(p.rest)
	return fmt.Errorf("script %q, byte %d: %s", p.all, max(at, 0), fmt.Sprintf(format, args...))
}

func (p *parser) space() { p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace) }

func (p *parser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// word takes what stands before the next space or bar.
func (p *parser) word() string {
	p.space()
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r == '|' || unicode.IsSpace(r) })
	if end < 0 {
		end = len(p.rest)
	}
	w := p.rest[:end]
	p.rest = p.rest[end:]
	return w
}

// quoted takes a Go string; found is false when none stands here.
func (p *parser) quoted() (s string, found bool, err error) {
	p.space()
	if !strings.HasPrefix(p.rest, `"`) && !strings.HasPrefix(p.rest, "`") {
		return "", false, nil
	}
	q, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		return "", false, p.errorf("string without end or with a bad escape")
	}
	s, err = strconv.Unquote(q)
	if err != nil {
		return "", false, p.errorf("string: %v", err)
	}
	p.rest = p.rest[len(q):]
	return s, true, nil
}

// options takes xN, flags and key=value up to the next bar.
func (p *parser) options(allowed ...string) (options, error) {
	o := options{}
	for {
		p.space()
		if p.rest == "" || p.rest[0] == '|' {
			return o, nil
		}
		at := *p
		word := p.word()
		key, value, _ := strings.Cut(word, "=")
		if n, isCount := strings.CutPrefix(word, "x"); isCount && n != "" && strings.Trim(n, "0123456789") == "" {
			key, value = "x", n
		}
		if !contains(allowed, key) {
			return nil, at.errorf("%q does not belong here; allowed: %s", word, strings.Join(allowed, " "))
		}
		if _, twice := o[key]; twice {
			return nil, at.errorf("%q stands twice", key)
		}
		o[key] = value
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// options are the named settings of a step.
type options map[string]string

func (o options) number(key string, most int64) (int64, error) {
	value, ok := o[key]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s=%q: want a whole number from 0 to %d", key, value, most)
	}
	return n, nil
}

func (o options) duration(key string) (time.Duration, error) {
	value, ok := o[key]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > maxTextPace {
		return 0, fmt.Errorf("%s=%q: want a duration up to %v", key, value, maxTextPace)
	}
	return d, nil
}

// step reads one step.
func (p *parser) step() (Step, error) {
	p.space()
	at := *p
	switch verb := p.word(); verb {
	case "text", "think":
		return p.said(verb)
	case "call":
		return p.call()
	case "usage":
		return p.usage()
	case "nousage":
		return bare(p, NoUsage{})
	case "overflow":
		return bare(p, Overflow{})
	case "length":
		return bare(p, Length{})
	case "lost-call":
		return bare(p, LostCall{})
	case "empty":
		return bare(p, Empty{})
	case "drop", "stall", "status", "error", "refuse":
		return p.fault(verb)
	default:
		return nil, at.errorf("unknown step %q", verb)
	}
}

func bare(p *parser, s Step) (Step, error) {
	if _, err := p.options(); err != nil {
		return nil, err
	}
	return s, nil
}

func (p *parser) said(verb string) (Step, error) {
	said, found, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, p.errorf(`%s wants a string`, verb)
	}
	allowed := []string{"x", "pace"}
	if verb == "think" {
		allowed = append(allowed, "field")
	}
	o, err := p.options(allowed...)
	if err != nil {
		return nil, err
	}
	chunks, pace, err := o.cut()
	if err != nil {
		return nil, p.errorf("%v", err)
	}
	if verb == "text" {
		return Text{Text: said, Chunks: chunks, Pace: pace}, nil
	}
	return Thinking{Text: said, Field: o["field"], Chunks: chunks, Pace: pace}, nil
}

func (o options) cut() (int, time.Duration, error) {
	n, err := o.number("x", MaxChunks)
	if err != nil {
		return 0, 0, err
	}
	pace, err := o.duration("pace")
	return int(n), pace, err
}

func (p *parser) call() (Step, error) {
	c := Call{Name: p.word()}
	if c.Name == "" {
		return nil, p.errorf("call wants the name of a tool")
	}
	args, found, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if c.Args = args; !found && strings.HasPrefix(p.rest, "{") {
		dec := json.NewDecoder(strings.NewReader(p.rest))
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, p.errorf("arguments: %v", err)
		}
		c.Args, p.rest = string(bytes.TrimSpace(raw)), p.rest[dec.InputOffset():]
	}
	o, err := p.options("x", "pace", "id")
	if err != nil {
		return nil, err
	}
	c.ID = o["id"]
	if c.Chunks, c.Pace, err = o.cut(); err != nil {
		return nil, p.errorf("%v", err)
	}
	return c, nil
}

func (p *parser) usage() (Step, error) {
	o, err := p.options("in", "out", "cached", "reasoning")
	if err != nil {
		return nil, err
	}
	const most = 1 << 40
	var u Usage
	for key, field := range map[string]*int64{"in": &u.Input, "out": &u.Output, "cached": &u.Cached, "reasoning": &u.Reasoning} {
		if *field, err = o.number(key, most); err != nil {
			return nil, p.errorf("%v", err)
		}
	}
	return u, nil
}

func (p *parser) fault(verb string) (Step, error) {
	code := 0
	if verb == "status" {
		n, err := strconv.Atoi(p.word())
		if err != nil || n < http.StatusBadRequest || n > 599 {
			return nil, p.errorf("status wants an error code from 400 to 599")
		}
		code = n
	}
	said := ""
	if verb == "status" || verb == "error" || verb == "refuse" {
		var err error
		if said, _, err = p.quoted(); err != nil {
			return nil, err
		}
	}
	o, err := p.options(map[string][]string{
		"drop": {"bytes", "reset"}, "stall": {"for", "keepalive"}, "status": {"code", "retry-after"}, "error": {"code", "status"},
	}[verb]...)
	if err != nil {
		return nil, err
	}
	const mostBytes = 1 << 30
	var s Step
	switch verb {
	case "drop":
		var n int64
		n, err = o.number("bytes", mostBytes)
		_, reset := o["reset"]
		s = Drop{Bytes: int(n), Reset: reset}
	case "stall":
		var st Stall
		if st.For, err = o.duration("for"); err == nil {
			st.KeepAlive, err = o.duration("keepalive")
		}
		s = st
	case "status":
		s = Status{Code: code, RetryAfter: o["retry-after"], ErrorCode: o["code"], Message: said}
	case "error":
		var n int64
		n, err = o.number("status", 599)
		s = ErrorFrame{Status: int(n), ErrorCode: o["code"], Message: said}
	case "refuse":
		s = Refuse{Text: said}
	}
	if err != nil {
		return nil, p.errorf("%v", err)
	}
	return s, nil
}

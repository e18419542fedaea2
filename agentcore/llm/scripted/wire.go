package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// wire turns a Response into the bytes of a streamed body, one event at a time. It holds no goroutine and makes each event
// when it is asked for: the transport pulls. It is for one goroutine.
type wire struct {
	req   Request
	talk  dialect
	steps Response
	pace  time.Duration

	frames []frame // made, not sent
	said   *cutter // the step at hand, when it is cut into deltas
	closed bool    // nothing follows the frames

	calls   int
	output  int    // bytes said
	finish  finish // why the response ends
	words   string // of a refusal
	usage   *Usage
	noUsage bool

	cut   int // body bytes after which it ends; -1 = never
	reset bool
	sent  int
}

// finish is why a response ends. The zero value is an ordinary end.
type finish int

const (
	ordinary finish = iota
	atLength
	forTools
	refused
)

// voice is the kind of text that a delta carries.
type voice int

const (
	inText voice = iota
	inThought
	inRefusal
)

// dialect writes the events of one protocol, by calling wire.event.
type dialect interface {
	// start writes what comes before the first step.
	start(w *wire)
	// say writes a delta of text. field is the wire field that a step asks for, "" for the usual one.
	say(w *wire, wait time.Duration, v voice, field, part string)
	// call begins call number index with the first part of its arguments; args goes on.
	call(w *wire, wait time.Duration, index int, c Call, part string)
	args(w *wire, wait time.Duration, index int, part string)
	// fault writes an error inside the stream, end what ends a response.
	fault(w *wire, s ErrorFrame)
	end(w *wire)
}

// event queues the bytes of one event.
func (w *wire) event(wait time.Duration, data string) {
	w.frames = append(w.frames, frame{wait: wait, data: []byte(data)})
}

// frame is one write: bytes after a wait. hang waits until the client leaves; keep sends comments while waiting.
type frame struct {
	wait time.Duration
	keep time.Duration
	hang bool
	data []byte
	end  bool // the body ends behind this frame
	kill bool // the connection breaks here
}

// newWire returns the body of resp. Steps that answer without a stream must be gone.
func newWire(req Request, resp Response, pace time.Duration) *wire {
	w := &wire{req: req, talk: req.api.dialect(req), steps: resp, pace: pace, cut: -1}
	w.talk.start(w)
	return w
}

// more makes the next frames; false when the response is over.
func (w *wire) more() bool {
	switch {
	case w.said != nil:
		if part, ok := w.said.next(); ok {
			w.said.emit(part)
		} else {
			w.said = nil
		}
	case len(w.steps) > 0:
		s := w.steps[0]
		w.steps = w.steps[1:]
		w.step(s)
	case !w.closed:
		w.closed = true
		if w.usage == nil {
			w.usage = &Usage{Input: int64(len(w.req.Body) / BytesPerToken), Output: int64((w.output + BytesPerToken - 1) / BytesPerToken)}
		}
		w.talk.end(w)
	default:
		return false
	}
	return true
}

func (w *wire) step(s Step) {
	switch s := s.(type) {
	case Usage:
		w.usage = &s
	case NoUsage:
		w.noUsage = true
	case Drop:
		if s.Bytes > 0 {
			w.cut = s.Bytes
		} else {
			w.frames = append(w.frames, frame{end: true, kill: s.Reset})
		}
		w.reset = w.reset || s.Reset
	case Stall:
		w.frames = append(w.frames, frame{wait: s.For, keep: s.KeepAlive, hang: s.For == 0})
	case ErrorFrame:
		w.talk.fault(w, s)
		w.frames = append(w.frames, frame{end: true})
	case Length:
		w.finish = atLength
	case LostCall:
		w.finish = forTools
	case Refuse:
		if s.Text != "" {
			w.talk.say(w, w.pace, inRefusal, "", s.Text)
			w.output += len(s.Text)
		}
		w.finish, w.words = refused, s.Text
	case Text:
		w.say(inText, "", s.Text, s.Chunks, s.Pace)
	case Thinking:
		w.say(inThought, s.Field, s.Text, s.Chunks, s.Pace)
	case Call:
		w.call(s)
	case Empty, Status, Overflow:
	}
}

func (w *wire) wait(own time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return w.pace
}

// say cuts text into deltas.
func (w *wire) say(v voice, field, text string, n int, pace time.Duration) {
	w.output += len(text)
	w.said = &cutter{rest: text, left: max(n, 1), emit: func(part string) { w.talk.say(w, w.wait(pace), v, field, part) }}
}

// call sends the name first and then the arguments in parts, or all at once.
func (w *wire) call(s Call) {
	index := w.calls
	w.calls++
	if s.ID == "" {
		s.ID = fmt.Sprintf("call_%d_%d", w.req.Number, w.calls)
	}
	w.output += len(s.Name) + len(s.Args)
	if s.Chunks <= 1 {
		w.talk.call(w, w.wait(s.Pace), index, s, s.Args)
		return
	}
	w.talk.call(w, w.wait(s.Pace), index, s, "")
	w.said = &cutter{rest: s.Args, left: s.Chunks, emit: func(part string) { w.talk.args(w, w.wait(s.Pace), index, part) }}
}

// encode returns v as JSON. v is made of strings, numbers and JSON here, which always encode.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return quote(err.Error())
	}
	return string(text)
}

func quote(s string) string { return encode(s) }

// next returns the next bytes of the body: after their wait, io.EOF at its end, io.ErrUnexpectedEOF where the script
// breaks the connection, or the cause of ctx.
func (w *wire) next(ctx context.Context) ([]byte, error) {
	for len(w.frames) > 0 || w.more() {
		if len(w.frames) == 0 {
			continue
		}
		if w.cut >= 0 && w.sent >= w.cut {
			return nil, w.over(w.reset)
		}
		f := &w.frames[0]
		if f.hang || f.wait > 0 {
			wait := f.wait
			if f.keep > 0 && (f.hang || f.keep < f.wait) {
				wait = f.keep
			}
			if err := sleep(ctx, wait); err != nil {
				return nil, err
			}
			if f.wait -= wait; f.hang || f.wait > 0 {
				return w.take([]byte(": keepalive\n\n")), nil
			}
		}
		data, end, kill := f.data, f.end, f.kill
		w.frames = w.frames[1:]
		if end {
			return nil, w.over(kill)
		}
		if len(data) > 0 {
			return w.take(data), nil
		}
	}
	return nil, io.EOF
}

func (w *wire) over(broken bool) error {
	w.frames, w.steps, w.said, w.closed = nil, nil, nil, true
	if broken {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// take counts data and cuts it where the body has to end.
func (w *wire) take(data []byte) []byte {
	if w.cut >= 0 && w.sent+len(data) > w.cut {
		data = data[:w.cut-w.sent]
	}
	w.sent += len(data)
	return data
}

// sleep waits for d, or without end when d is 0, and returns the cause of ctx when it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// cutter cuts a text into parts of about equal length at rune borders: at most left of them, fewer when there are not
// enough runes, one empty part for an empty text.
type cutter struct {
	rest string
	left int
	any  bool
	emit func(part string)
}

// next returns the next part; false when there is none.
func (c *cutter) next() (string, bool) {
	if c.rest == "" && c.any {
		return "", false
	}
	c.any = true
	at := len(c.rest)
	if c.left > 1 && at > 0 {
		for at = max(len(c.rest)/c.left, 1); at < len(c.rest) && !utf8.RuneStart(c.rest[at]); {
			at++
		}
	}
	part := c.rest[:at]
	c.rest = c.rest[at:]
	c.left--
	return part, true
}

package sse

import (
	"bytes"
	"fmt"
	"io"
	"iter"
)

// Event is one event of a stream. Data and Fault belong to the Reader and are valid until the next call of Next: copy what
// must live longer.
type Event struct {
	Type  string // value of `event:`; "" when the event named none
	ID    string // last event id in force
	Data  []byte // data lines joined by LF; nil when there was none
	Fault []byte // value of a non-standard `error:` line; nil when there was none

	// Unterminated says that the body ended before the blank line of this event, so Data may be cut.
	Unterminated bool
}

// TooLargeError says that one event passed the size limit. Nothing of it was delivered.
type TooLargeError struct{ Limit int }

// Error names the limit in bytes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event stream: one event has more than %d bytes", e.Limit)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Reader reads events from a body in a single pass. It is for one goroutine. However the bytes are cut into reads, the
// events are the same.
type Reader struct {
	src   io.Reader
	limit int

	buf      []byte // buf[pos:end] is unread
	pos, end int
	lf, cr   int // index of the next LF / CR at or behind pos; end when none is known so far
	skipLF   bool
	started  bool  // the first line is behind us
	err      error // of src; sticky

	typ, id  string
	data     []byte
	fault    []byte
	hasData  bool
	hasFault bool
	hasType  bool
}

// NewReader returns a Reader of src with the limit MaxEvent.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, limit: MaxEvent, buf: make([]byte, readSize)}
}

// Events yields the events of src. An error other than the end of the body is yielded last. See Reader.Next for ownership.
func Events(src io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := NewReader(src)
		for {
			ev, err := r.Next()
			if err == io.EOF {
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Next returns the next event, whose bytes stay valid until the call after. At the end of the body it returns io.EOF, after
// an event that was cut off (Event.Unterminated) where there is one. Other errors are those of the source and
// *TooLargeError; after an error every call returns it again.
func (r *Reader) Next() (Event, error) {
	r.reset()
	for {
		line, err := r.line()
		if err != nil {
			if len(line) > 0 {
				r.field(line)
			}
			if r.pending() {
				return r.event(true), nil
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if r.pending() {
				return r.event(false), nil
			}
			r.reset()
			continue
		}
		r.field(line)
		if len(r.data)+len(r.fault) > r.limit {
			r.reset()
			r.err, r.pos, r.end = &TooLargeError{Limit: r.limit}, 0, 0
			r.lf, r.cr = 0, 0
			return Event{}, r.err
		}
	}
}

func (r *Reader) reset() {
	r.data, r.fault = r.data[:0], r.fault[:0]
	r.hasData, r.hasFault, r.hasType = false, false, false
}

func (r *Reader) pending() bool { return r.hasData || r.hasFault || r.hasType }

func (r *Reader) event(cut bool) Event {
	ev := Event{ID: r.id, Unterminated: cut}
	if r.hasType {
		ev.Type = r.typ
	}
	if r.hasData {
		ev.Data = r.data
	}
	if r.hasFault {
		ev.Fault = r.fault
	}
	return ev
}

// line returns the next line without its end. With an error (sticky, also io.EOF) it returns what stood behind the last
// line end, once.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && r.pos < r.end {
			if r.buf[r.pos] == '\n' {
				r.pos++
				r.lf = r.seek('\n', r.pos, r.end)
			}
			r.skipLF = false
		}
		if at := min(r.lf, r.cr); at < r.end {
			line := r.buf[r.pos:at]
			r.pos = at + 1
			if at == r.cr {
				r.skipLF = true
				r.cr = r.seek('\r', r.pos, r.end)
			} else {
				r.lf = r.seek('\n', r.pos, r.end)
			}
			return r.first(line), nil
		}
		if r.err != nil {
			rest := r.buf[r.pos:r.end]
			r.pos, r.lf, r.cr = r.end, r.end, r.end
			return r.first(rest), r.err
		}
		r.fill()
	}
}

// first drops a byte order mark from the first line of the stream.
func (r *Reader) first(line []byte) []byte {
	if r.started {
		return line
	}
	r.started = true
	return bytes.TrimPrefix(line, byteOrderMark)
}

func (r *Reader) seek(c byte, from, to int) int {
	if i := bytes.IndexByte(r.buf[from:to], c); i >= 0 {
		return from + i
	}
	return to
}

// fill reads once more behind buf[pos:end], which holds no line end.
func (r *Reader) fill() {
	if r.pos > 0 {
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.pos = 0
	}
	if r.end > r.limit {
		r.err, r.end = &TooLargeError{Limit: r.limit}, 0
		r.lf, r.cr = 0, 0
		r.reset()
		return
	}
	if r.end == len(r.buf) {
		grown := make([]byte, 2*len(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		from := r.end
		r.end += n
		r.lf, r.cr = r.seek('\n', from, r.end), r.seek('\r', from, r.end)
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// field takes one line that is not empty.
func (r *Reader) field(line []byte) {
	name, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(name) {
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data, r.hasData = append(r.data, value...), true
	case "event":
		if r.typ != string(value) {
			r.typ = string(value)
		}
		r.hasType = len(value) > 0
	case "id":
		if bytes.IndexByte(value, 0) < 0 && r.id != string(value) {
			r.id = string(value)
		}
	case "error":
		r.fault, r.hasFault = append(r.fault[:0], value...), true
	}
}

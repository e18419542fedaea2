package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// ErrField is returned for an event type or id that cannot stand in one line.
var ErrField = errors.New("event stream: a type or id with a line break")

// Writer writes events, one Write call each. It is for one goroutine and does not flush: the owner of the connection
// decides when. The zero value is not usable.
type Writer struct {
	dst io.Writer
	buf []byte
}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Event writes one event. Empty typ and id are left out. Line breaks of any kind in data become separate data lines and
// come back as LF. Errors are ErrField and those of the destination.
func (w *Writer) Event(typ, id string, data []byte) error {
	out, err := AppendEvent(w.buf[:0], typ, id, data)
	if err != nil {
		return err
	}
	w.buf = out
	_, err = w.dst.Write(out)
	return err
}

// Comment writes a line that readers ignore, the usual keep-alive. Line breaks in text become further comment lines.
func (w *Writer) Comment(text string) error {
	w.buf = AppendComment(w.buf[:0], text)
	_, err := w.dst.Write(w.buf)
	return err
}

// AppendEvent appends the wire form of one event to dst, as Writer.Event writes it.
func AppendEvent(dst []byte, typ, id string, data []byte) ([]byte, error) {
	if strings.ContainsAny(typ, "\r\n") || strings.ContainsAny(id, "\r\n\x00") {
		return dst, ErrField
	}
	if typ != "" {
		dst = append(append(append(dst, "event: "...), typ...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	return append(appendLines(dst, "data: ", data), '\n'), nil
}

// AppendComment appends the wire form of a comment to dst.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

// appendLines appends data behind prefix, one line for each of its lines.
func appendLines(dst []byte, prefix string, data []byte) []byte {
	for {
		dst = append(dst, prefix...)
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			return append(append(dst, data...), '\n')
		}
		dst = append(append(dst, data[:i]...), '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

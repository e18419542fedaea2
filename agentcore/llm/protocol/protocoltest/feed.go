package protocoltest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/sse"
)

// smallFile is the size in bytes up to which a recording is cut at every offset, others at event borders and at someCuts
// offsets. Source: design "How it is proved".
const (
	smallFile   = 8 << 10
	someCuts    = 2000
	decodedCuts = 30 // of a file, besides the whole and the byte by byte one
)

// RunEveryWay decodes body with each kind of line end, whole, byte by byte and cut in two, and returns the one outcome.
func RunEveryWay(t *testing.T, newDecoder func() protocol.Decoder, body []byte) Outcome {
	t.Helper()
	whole := Run(t, newDecoder(), bytes.NewReader(body))
	f := feeder{newDecoder: newDecoder, whole: whole}
	f.feed(t, "as it is", body, false)
	if bytes.IndexByte(body, '\r') < 0 {
		f.feed(t, "CRLF", bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")), true)
		f.feed(t, "CR", bytes.ReplaceAll(body, []byte("\n"), []byte("\r")), true)
	}
	return whole
}

// feeder checks that bodies come to the outcome whole however they are cut.
type feeder struct {
	newDecoder func() protocol.Decoder
	whole      Outcome
}

// feed decodes body in one, byte by byte, and cut. A cut can only change what the event reader delivers: each cut is compared
// there, and some of them decoded to the end as well. near compares events only, and of a large body those around the cut.
func (f feeder) feed(t *testing.T, ends string, body []byte, near bool) {
	t.Helper()
	same := func(how string, src io.Reader) {
		t.Helper()
		if diff := Diff(Run(t, f.newDecoder(), src), f.whole); diff != "" {
			t.Fatalf("%s, %s differs (-cut +whole):\n%s", ends, how, diff)
		}
	}
	same("in one", bytes.NewReader(body))
	same("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
	want := eventsOf(t, bytes.NewReader(body))
	offsets, borders := cuts(body)
	every := max(len(offsets)/decodedCuts, 1)
	for i, at := range offsets {
		switch {
		case !near && i%every == 0:
			same(fmt.Sprintf("cut at %d", at), &cutReader{[2][]byte{body[:at:at], body[at:]}})
		case near && len(body) > smallFile:
			from, to := around(borders, at, len(body))
			part := body[from:to:to]
			sameEvents(t, ends, at, &cutReader{[2][]byte{part[: at-from : at-from], part[at-from:]}}, eventsOf(t, bytes.NewReader(part)))
		default:
			sameEvents(t, ends, at, &cutReader{[2][]byte{body[:at:at], body[at:]}}, want)
		}
	}
}

func sameEvents(t *testing.T, ends string, at int, src io.Reader, want []sse.Event) {
	t.Helper()
	r := sse.NewReader(src)
	for n := 0; ; n++ {
		ev, err := r.Next()
		if err == io.EOF && n == len(want) {
			return
		}
		if err != nil || n == len(want) || !sameEvent(ev, want[n]) {
			t.Fatalf("%s, cut at %d: event %d is %q, %v", ends, at, n, ev.Data, err)
		}
	}
}

// around returns borders about two events before and behind at.
func around(borders []int, at, end int) (from, to int) {
	const events = 2
	i, _ := slices.BinarySearch(borders, at)
	if i >= events {
		from = borders[i-events]
	}
	if to = end; i+events < len(borders) {
		to = borders[i+events]
	}
	return from, to
}

// cutReader returns its two parts one Read each.
type cutReader struct{ parts [2][]byte }

func (c *cutReader) Read(p []byte) (int, error) {
	for i := range c.parts {
		if len(c.parts[i]) > 0 {
			n := copy(p, c.parts[i])
			c.parts[i] = c.parts[i][n:]
			return n, nil
		}
	}
	return 0, io.EOF
}

func sameEvent(a, b sse.Event) bool {
	return bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Fault, b.Fault) && a.Type == b.Type && a.Unterminated == b.Unterminated
}

func eventsOf(t *testing.T, src io.Reader) []sse.Event {
	t.Helper()
	var out []sse.Event
	for ev, err := range sse.Events(src) {
		if err != nil {
			t.Fatal(err)
		}
		ev.Data, ev.Fault = bytes.Clone(ev.Data), bytes.Clone(ev.Fault)
		out = append(out, ev)
	}
	return out
}

// cuts returns where to cut: at every offset of a small body, at the borders between events and at seeded offsets of a larger
// one. borders are the offsets behind a blank line.
func cuts(body []byte) (at, borders []int) {
	blank := []byte("\n\n")
	switch {
	case bytes.Contains(body, []byte("\r\n")):
		blank = []byte("\r\n\r\n")
	case bytes.IndexByte(body, '\n') < 0:
		blank = []byte("\r\r")
	}
	for i := 1; i < len(body); i++ {
		border := bytes.HasSuffix(body[:i], blank)
		if border {
			borders = append(borders, i)
		}
		if len(body) <= smallFile || border || bytes.HasPrefix(body[i:], blank) {
			at = append(at, i)
		}
	}
	if len(body) > smallFile {
		rng := rand.New(rand.NewPCG(1, uint64(len(body))))
		for range someCuts {
			at = append(at, 1+rng.IntN(len(body)-1))
		}
	}
	return at, borders
}

package sse

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// read is an event that outlives the Reader.
type read struct {
	Type, ID, Data, Fault string
	Cut                   bool
}

func readAll(src io.Reader) ([]read, error) {
	var out []read
	r := NewReader(src)
	for {
		ev, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, read{ev.Type, ev.ID, string(ev.Data), string(ev.Fault), ev.Unterminated})
	}
}

// cutReader returns its parts one Read each.
type cutReader struct{ parts [][]byte }

func (c *cutReader) Read(p []byte) (int, error) {
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.parts[0])
	if c.parts[0] = c.parts[0][n:]; len(c.parts[0]) == 0 {
		c.parts = c.parts[1:]
	}
	return n, nil
}

var streams = []struct {
	name string
	body string
	want []read
}{
	{"LF ends lines", "data: a\n\ndata: b\n\n", []read{{Data: "a"}, {Data: "b"}}},
	{"CRLF ends lines", "data: a\r\n\r\ndata: b\r\n\r\n", []read{{Data: "a"}, {Data: "b"}}},
	{"a lone CR ends lines", "data: a\r\rdata: b\r\r", []read{{Data: "a"}, {Data: "b"}}},
	{"endings may be mixed", "data: a\r\n\ndata: b\n\rdata: c\r\r\n", []read{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
	{"a byte order mark is dropped once", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", []read{{Data: "a"}, {Data: "c"}}},
	{"the space after the colon is optional and only one is taken", "data:a\n\ndata:  b\n\n", []read{{Data: "a"}, {Data: " b"}}},
	{"data lines are joined by LF", "data: a\ndata\ndata: b\n\n", []read{{Data: "a\n\nb"}}},
	{"comments and unknown fields are no events", ": ping\n\nretry: 10\nfoo: bar\n\ndata: a\n: x\n\n", []read{{Data: "a"}}},
	{"the type holds for one event, the id for all that follow", "event: t\nid: 7\ndata: a\n\ndata: b\n\n", []read{{Type: "t", ID: "7", Data: "a"}, {ID: "7", Data: "b"}}},
	{"an id with NUL is ignored", "id: 1\x002\ndata: a\n\n", []read{{Data: "a"}}},
	{"a type without data is an event", "event: ping\n\n", []read{{Type: "ping"}}},
	{"an error line is kept", "data: a\n\nerror: {\"x\":1}\n\n", []read{{Data: "a"}, {Fault: `{"x":1}`}}},
	{"the last event needs no blank line and is flagged", "data: a\n\ndata: [DONE]", []read{{Data: "a"}, {Data: "[DONE]", Cut: true}}},
	{"the last event may lack only the blank line", "data: a\n", []read{{Data: "a", Cut: true}}},
	{"an empty data field is an event", "data\n\ndata:\n\n", []read{{}, {}}},
	{"U+2028, U+2029 and U+0085 break no line", "data: a\u2028b\u2029c\u0085d\n\n", []read{{Data: "a\u2028b\u2029c\u0085d"}}},
	{"text of several bytes survives", "data: zażółć 🧭 漢字\r\n\r\n", []read{{Data: "zażółć 🧭 漢字"}}},
	{"an empty body has no event", "", nil},
	{"blank lines alone are no events", "\n\r\n\r\n\n", nil},
}

func TestReaderFollowsTheEventStreamRulesForEveryCut(t *testing.T) {
	for _, tc := range streams {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Fatalf("whole (-got +want):\n%s", diff)
			}
			got, err = readAll(iotest.OneByteReader(strings.NewReader(tc.body)))
			if diff := cmp.Diff(got, tc.want); err != nil || diff != "" {
				t.Fatalf("byte by byte: %v (-got +want):\n%s", err, diff)
			}
			for cut := range len(tc.body) + 1 {
				got, err = readAll(&cutReader{parts: [][]byte{[]byte(tc.body[:cut]), []byte(tc.body[cut:])}})
				if diff := cmp.Diff(got, tc.want); err != nil || diff != "" {
					t.Fatalf("cut at %d: %v (-got +want):\n%s", cut, err, diff)
				}
			}
		})
	}
}

func TestALineOfMegabytesArrivesWhole(t *testing.T) {
	long := strings.Repeat("k", 3<<20)
	got, err := readAll(strings.NewReader("data: " + long + "\n\ndata: b\n\n"))
	if err != nil || len(got) != 2 || got[0].Data != long || got[1].Data != "b" {
		t.Fatalf("got %d events, %v", len(got), err)
	}
}

func TestAnEventOverTheLimitIsAnErrorThatNamesTheSize(t *testing.T) {
	for name, body := range map[string]string{
		"one line":   "data: a\n\ndata: " + strings.Repeat("k", MaxEvent),
		"many lines": "data: a\n\n" + strings.Repeat("data: "+strings.Repeat("k", 1<<20)+"\n", MaxEvent>>20+1) + "\ndata: b\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(body))
			large, ok := errors.AsType[*TooLargeError](err)
			if !ok || large.Limit != MaxEvent || !strings.Contains(err.Error(), strconv.Itoa(MaxEvent)) {
				t.Fatalf("got error %v", err)
			}
			if len(got) != 1 || got[0].Data != "a" {
				t.Fatalf("got %d events before the error", len(got))
			}
		})
	}
}

func TestAReadErrorComesAfterWhatWasReadAndStays(t *testing.T) {
	broken := errors.New("connection reset")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	for _, want := range []string{"a", "b"} {
		ev, err := r.Next()
		if err != nil || string(ev.Data) != want {
			t.Fatalf("got %q, %v; want %q", ev.Data, err, want)
		}
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Fatalf("got %v", err)
		}
	}
}

func TestASourceThatNeverAdvancesIsAnError(t *testing.T) {
	if _, err := readAll(idle{}); err != io.ErrNoProgress {
		t.Fatalf("got %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestEventsStopsWhenTheLoopBreaks(t *testing.T) {
	n := 0
	for ev, err := range Events(strings.NewReader("data: a\n\ndata: b\n\n")) {
		if err != nil || string(ev.Data) != "a" {
			t.Fatalf("got %q, %v", ev.Data, err)
		}
		n++
		break
	}
	if n != 1 {
		t.Fatalf("got %d rounds", n)
	}
}

func TestReadingAllocatesNothingPerEvent(t *testing.T) {
	body := bytes.Repeat([]byte("event: delta\ndata: {\"x\":1}\n\n"), 1000)
	src := bytes.NewReader(body)
	r := NewReader(src)
	allocs := testing.AllocsPerRun(5, func() {
		src.Reset(body)
		r.err = nil
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	})
	if allocs > 1 {
		t.Fatalf("got %v allocations for 1000 events", allocs)
	}
}

func FuzzReaderIsIndifferentToCuts(f *testing.F) {
	for _, tc := range streams {
		f.Add([]byte(tc.body), uint16(3), uint16(9))
	}
	f.Fuzz(func(t *testing.T, body []byte, a, b uint16) {
		whole, err := readAll(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		i, j := int(a)%(len(body)+1), int(b)%(len(body)+1)
		i, j = min(i, j), max(i, j)
		cut, err := readAll(&cutReader{parts: [][]byte{body[:i:i], body[i:j:j], body[j:]}})
		if diff := cmp.Diff(cut, whole); err != nil || diff != "" {
			t.Fatalf("cut at %d and %d: %v (-cut +whole):\n%s", i, j, err, diff)
		}
		single, err := readAll(iotest.OneByteReader(bytes.NewReader(body)))
		if diff := cmp.Diff(single, whole); err != nil || diff != "" {
			t.Fatalf("byte by byte: %v (-single +whole):\n%s", err, diff)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	body := bytes.Repeat([]byte("data: "+strings.Repeat("x", 250)+"\n\n"), 1000)
	src := bytes.NewReader(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(body)
		r := NewReader(src)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}

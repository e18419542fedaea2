package sse

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTheWriterWritesTheReaderReads(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, ev := range []read{{Data: "a"}, {Type: "t", ID: "9", Data: "two\nlines"}, {Type: "t", ID: "10", Data: ""}} {
		if err := w.Event(ev.Type, ev.ID, []byte(ev.Data)); err != nil {
			t.Fatal(err)
		}
		if err := w.Comment("keep\nalive"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readAll(&out)
	want := []read{{Data: "a"}, {Type: "t", ID: "9", Data: "two\nlines"}, {Type: "t", ID: "10"}}
	if diff := cmp.Diff(got, want); err != nil || diff != "" {
		t.Fatalf("%v (-got +want):\n%s", err, diff)
	}
}

func TestAWriterRefusesLineBreaksInTypeAndID(t *testing.T) {
	w := NewWriter(&bytes.Buffer{})
	if err := w.Event("a\nb", "", nil); !errors.Is(err, ErrField) {
		t.Fatalf("type: got %v", err)
	}
	if err := w.Event("", "a\rb", nil); !errors.Is(err, ErrField) {
		t.Fatalf("id: got %v", err)
	}
}

func FuzzWriterRoundTrip(f *testing.F) {
	f.Add("t", "1", []byte("a\r\nb\rc\n"))
	f.Add("", "", []byte(" x"))
	f.Fuzz(func(t *testing.T, typ, id string, data []byte) {
		wire, err := AppendEvent(nil, typ, id, data)
		if err != nil {
			return
		}
		got, err := readAll(bytes.NewReader(wire))
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		if err != nil || len(got) != 1 || got[0] != (read{Type: typ, ID: id, Data: want}) {
			t.Fatalf("got %+v, %v; want %q", got, err, want)
		}
	})
}

package openaicompletions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/sse"
)

// smallFile is the size up to which a recording is cut at every offset, others at event borders and at someCuts offsets.
// Source: design "How it is proved".
const (
	smallFile   = 8 << 10
	someCuts    = 2000
	decodedCuts = 30 // of a file, besides the whole and the byte by byte one
)

// outcome is what a stream came to.
type outcome struct {
	Text, Thinking, Refusal string
	Calls                   []llm.Block
	Stop                    llm.StopReason
	Usage                   *llm.Usage
	Order                   []string
	ID                      string
	Lost                    int
	Err                     *llm.Error
	Raw                     []string
}

// run decodes a body and checks the rules that hold for every stream.
func run(t *testing.T, src io.Reader) outcome {
	t.Helper()
	d := newDecoder(llm.Origin{API: API, Provider: "p", Model: "m"})
	r := sse.NewReader(src)
	var events []llm.StreamEvent
	var failure error
	for failure == nil && !d.finished {
		ev, err := r.Next()
		if err != nil {
			failure = d.eof(err)
		} else {
			failure = d.event(ev)
		}
		events = append(events, d.out...)
		d.out = d.out[:0]
	}
	return summarise(t, events, failure)
}

// summarise folds events and checks that starts, deltas, stops and Done agree.
func summarise(t *testing.T, events []llm.StreamEvent, failure error) outcome {
	t.Helper()
	var out outcome
	var blocks []llm.Block
	var stops []bool
	var asm llm.Assembler
	for i, ev := range events {
		asm.Add(ev)
		switch ev := ev.(type) {
		case llm.BlockStart:
			if ev.Index != len(blocks) {
				t.Fatalf("block %d starts when %d have started", ev.Index, len(blocks))
			}
			if ev.Type == llm.ToolCall && (ev.Name == "" || ev.CallID == "") {
				t.Fatalf("a call starts without name or id: %+v", ev)
			}
			blocks = append(blocks, llm.Block{Type: ev.Type, CallID: ev.CallID, Name: ev.Name})
			stops = append(stops, false)
			out.order(ev.Type)
		case llm.Delta:
			blocks[ev.Index].Text += ev.Text
		case llm.BlockStop:
			if stops[ev.Index] {
				t.Fatalf("block %d stops twice", ev.Index)
			}
			stops[ev.Index] = true
			if ev.Block.Type != llm.ToolCall && ev.Block.Text != blocks[ev.Index].Text {
				t.Fatalf("block %d: deltas %q, stop %q", ev.Index, blocks[ev.Index].Text, ev.Block.Text)
			}
			blocks[ev.Index] = ev.Block
		case llm.Done:
			if i != len(events)-1 {
				t.Fatal("events behind Done")
			}
			if diff := cmp.Diff(ev.Message.Blocks, blocks, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("Done and stops differ (-done +stops):\n%s", diff)
			}
			out.Stop, out.Usage, out.ID, out.Lost = ev.Message.Stop, ev.Message.Usage, ev.Message.ID, ev.LostCalls
			out.Calls = ev.Message.Calls()
		}
	}
	for _, b := range blocks {
		switch b.Type {
		case llm.Text:
			out.Text += b.Text
		case llm.Thinking:
			out.Thinking += b.Text
			if b.Raw != nil {
				out.Raw = append(out.Raw, string(b.Raw))
			}
		case llm.Refusal:
			out.Refusal += b.Text
		}
	}
	if failure != nil {
		e, ok := errors.AsType[*llm.Error](failure)
		if !ok {
			t.Fatalf("error without a type: %v", failure)
		}
		if e.Produced == asm.Empty() {
			t.Fatalf("Produced is %v, the partial is empty: %v", e.Produced, asm.Empty())
		}
		out.Err = e
	}
	return out
}

func (o *outcome) order(t llm.BlockType) {
	name := map[llm.BlockType]string{llm.Text: "text", llm.Thinking: "reasoning", llm.ToolCall: "tool_call", llm.Refusal: "refusal"}[t]
	for _, seen := range o.Order {
		if seen == name {
			return
		}
	}
	o.Order = append(o.Order, name)
}

// equalOutcome compares all but minted ids.
var equalOutcome = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".CallID" }, cmp.Comparer(func(a, b string) bool {
		return a == b || strings.HasPrefix(a, mintedCall) && strings.HasPrefix(b, mintedCall)
	})),
	cmpopts.IgnoreFields(llm.Error{}, "Cause"),
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

// runEveryWay decodes body whole, byte by byte and cut, and returns the one outcome. A cut can only change what the event
// reader delivers: each cut is compared there, and some of them decoded to the end as well.
func runEveryWay(t *testing.T, body []byte) outcome {
	t.Helper()
	whole := run(t, bytes.NewReader(body))
	same := func(how string, src io.Reader) {
		t.Helper()
		if diff := cmp.Diff(run(t, src), whole, equalOutcome); diff != "" {
			t.Fatalf("%s differs (-cut +whole):\n%s", how, diff)
		}
	}
	same("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
	want := eventsOf(t, bytes.NewReader(body))
	offsets := cuts(body)
	every := max(len(offsets)/decodedCuts, 1)
	for i, at := range offsets {
		if i%every == 0 {
			same(fmt.Sprintf("cut at %d", at), &cutReader{[2][]byte{body[:at:at], body[at:]}})
			continue
		}
		r := sse.NewReader(&cutReader{[2][]byte{body[:at:at], body[at:]}})
		for n := 0; ; n++ {
			ev, err := r.Next()
			if err == io.EOF && n == len(want) {
				break
			}
			if err != nil || n == len(want) || !sameEvent(ev, want[n]) {
				t.Fatalf("cut at %d: event %d is %q, %v", at, n, ev.Data, err)
			}
		}
	}
	return whole
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

// cuts returns every offset of a small body, and the event borders and seeded offsets of a larger one.
func cuts(body []byte) []int {
	var at []int
	for i := 1; i < len(body); i++ {
		if len(body) <= smallFile || bytes.HasPrefix(body[i:], []byte("\n\n")) {
			at = append(at, i)
		}
	}
	if len(body) > smallFile {
		rng := rand.New(rand.NewPCG(1, uint64(len(body))))
		for range someCuts {
			at = append(at, 1+rng.IntN(len(body)-1))
		}
	}
	return at
}

// recorded is one line of index.jsonl, as far as it matters here.
type recorded struct {
	File     string
	Protocol string
	Expected struct {
		Text, Reasoning, Refusal, Stop string
		RunTools                       bool   `json:"run_tools"`
		FinishReason                   string `json:"finish_reason"`
		ToolCalls                      []struct {
			ID, Name string
			Args     json.RawMessage
			RawArgs  string `json:"raw_args"`
		} `json:"tool_calls"`
		Usage      *struct{ Input, Output, Total, Cached, Reasoning *int64 }
		BlockOrder []string `json:"block_order"`
		Error      *struct{ Message string }
	}
}

var stops = map[string]llm.StopReason{
	"stop": llm.StopEnd, "tool_use": llm.StopToolUse, "length": llm.StopLength, "refusal": llm.StopRefusal, "pause": llm.StopPause,
}

// TestWireRecordings decodes each stream of index.jsonl in testdata and, where WORKFLOWD_WIRE_DIR is set, in that folder.
// Promise: P-078
func TestWireRecordings(t *testing.T) {
	dirs := []string{"testdata/wire"}
	if dir := os.Getenv("WORKFLOWD_WIRE_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		index, err := os.Open(filepath.Join(dir, "index.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer index.Close()
		scan := bufio.NewScanner(index)
		scan.Buffer(nil, 4<<20)
		files := 0
		for scan.Scan() {
			var rec recorded
			if err := json.Unmarshal(scan.Bytes(), &rec); err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			if rec.Protocol != API {
				continue
			}
			files++
			t.Run(filepath.Base(rec.File), func(t *testing.T) {
				t.Parallel()
				body, err := os.ReadFile(filepath.Join(dir, rec.File))
				if err != nil {
					t.Fatal(err)
				}
				rec.compare(t, runEveryWay(t, body))
			})
		}
		if err := scan.Err(); err != nil || files == 0 {
			t.Fatalf("%s: %d files, %v", dir, files, err)
		}
	}
}

func (rec recorded) compare(t *testing.T, got outcome) {
	t.Helper()
	want := rec.Expected
	if diff := cmp.Diff([]string{got.Text, got.Thinking, got.Refusal}, []string{want.Text, want.Reasoning, want.Refusal}); diff != "" {
		t.Errorf("text, reasoning, refusal (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got.Order, want.BlockOrder, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("order (-got +want):\n%s", diff)
	}
	switch {
	case want.Stop == "error" || want.Stop == "incomplete":
		if got.Err == nil {
			t.Fatal("got no error")
		}
		if want.Error != nil && !strings.Contains(got.Err.Message, want.Error.Message) {
			t.Errorf("got error %q, want %q", got.Err.Message, want.Error.Message)
		}
	case got.Err != nil:
		t.Fatalf("got error %v", got.Err)
	case got.Stop != stops[want.Stop]:
		t.Errorf("got stop %q, want %q", got.Stop, want.Stop)
	}
	if got.Err == nil {
		rec.compareCalls(t, got)
	}
	if want.Usage == nil {
		if got.Usage != nil {
			t.Errorf("got usage %+v, want none", got.Usage)
		}
		return
	}
	if got.Usage == nil {
		t.Fatal("got no usage")
	}
	for _, f := range []struct {
		name string
		got  int64
		want *int64
	}{
		{"input", got.Usage.Input, want.Usage.Input}, {"output", got.Usage.Output, want.Usage.Output},
		{"total", got.Usage.Total, want.Usage.Total}, {"cached", got.Usage.CachedInput, want.Usage.Cached},
		{"reasoning", got.Usage.Reasoning, want.Usage.Reasoning},
	} {
		if f.want == nil && f.got != 0 || f.want != nil && f.got != *f.want {
			t.Errorf("usage %s: got %d, want %v", f.name, f.got, f.want)
		}
	}
}

func (rec recorded) compareCalls(t *testing.T, got outcome) {
	t.Helper()
	want := rec.Expected.ToolCalls
	if len(got.Calls) != len(want) {
		t.Fatalf("got %d calls, want %d", len(got.Calls), len(want))
	}
	runnable := got.Stop == llm.StopToolUse && len(got.Calls) > 0
	seen := map[string]bool{}
	for i, c := range got.Calls {
		w := want[i]
		if c.Name != w.Name || w.ID != "" && c.CallID != w.ID {
			t.Errorf("call %d: got %s %s, want %s %s", i, c.CallID, c.Name, w.ID, w.Name)
		}
		if c.CallID == "" || seen[c.CallID] {
			t.Errorf("call %d: id %q is empty or not unique", i, c.CallID)
		}
		seen[c.CallID] = true
		if string(w.Args) == "null" {
			if c.BadArgs != w.RawArgs || c.Args != nil {
				t.Errorf("call %d: got args %s, bad %q; want bad %q", i, c.Args, c.BadArgs, w.RawArgs)
			}
			runnable = false
			continue
		}
		var a, b any
		if err := errors.Join(json.Unmarshal(c.Args, &a), json.Unmarshal(w.Args, &b)); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("call %d (-got +want):\n%s", i, diff)
		}
	}
	if runnable != rec.Expected.RunTools {
		t.Errorf("run tools: got %v, want %v", runnable, rec.Expected.RunTools)
	}
}

package protocoltest

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// Protocol is what Recordings must know of a protocol.
type Protocol struct {
	API string
	New func() protocol.Decoder
	// Kind names a block the way block_order does.
	Kind func(b llm.Block) string
	// FirstOnly says that block_order lists each kind once, where it first appears.
	FirstOnly bool
}

// expected is what an index says of a stream.
type expected struct {
	Text, Reasoning, Refusal, Stop, ID string
	AcceptAlso                         string `json:"accept_also"`
	RunTools                           bool   `json:"run_tools"`
	ReasoningParts                     int    `json:"reasoning_parts"`
	ToolCalls                          []struct {
		ID, Name, Type string
		Args           json.RawMessage
		RawArgs        string `json:"raw_args"`
	} `json:"tool_calls"`
	ServerToolCalls []struct {
		ID, Name string
		Args     json.RawMessage
	} `json:"server_tool_calls"`
	OtherItems []string `json:"other_items"`
	Usage      *struct {
		Input, Output, Total, Cached, Reasoning *int64
		CacheRead                               *int64 `json:"cache_read"`
		CacheWrite                              *int64 `json:"cache_write"`
	}
	BlockOrder []string                  `json:"block_order"`
	Signatures []int                     // lengths of thinking signatures
	Redacted   int                       `json:"redacted_thinking"`
	Error      *struct{ Message string } // words that the error must have
}

// finalDiffers is the quirk of a stream whose final text contradicts its deltas.
const finalDiffers = "text-delta-vs-done-differs"

var stops = map[string]llm.StopReason{
	"stop": llm.StopEnd, "tool_use": llm.StopToolUse, "length": llm.StopLength, "refusal": llm.StopRefusal, "pause": llm.StopPause,
}

// Recordings decodes each stream of index.jsonl in testdata/wire and, where WORKFLOWD_WIRE_DIR is set, in that folder, in a
// subtest named after the file.
func Recordings(t *testing.T, p Protocol) {
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
			var rec struct {
				File     string
				Protocol string
				Quirks   []string
				Expected expected
			}
			if err := json.Unmarshal(scan.Bytes(), &rec); err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			if rec.Protocol != p.API {
				continue
			}
			files++
			t.Run(filepath.Base(rec.File), func(t *testing.T) {
				t.Parallel()
				body, err := os.ReadFile(filepath.Join(dir, rec.File))
				if err != nil {
					t.Fatal(err)
				}
				got := RunEveryWay(t, p.New, body)
				if len(got.Differs) > 0 != slices.Contains(rec.Quirks, finalDiffers) {
					t.Errorf("blocks %v say in the end something else than their deltas, the quirks are %q", got.Differs, rec.Quirks)
				}
				p.compare(t, got, rec.Expected)
			})
		}
		if err := scan.Err(); err != nil || files == 0 {
			t.Fatalf("%s: %d files, %v", dir, files, err)
		}
	}
}

func (p Protocol) compare(t *testing.T, got Outcome, want expected) {
	t.Helper()
	if want.AcceptAlso != "" && got.Err != nil { // a dropped connection in place of the second of two answers
		if got.Err.Class != llm.Connection || !got.Err.Retryable() {
			t.Fatalf("got %v", got.Err)
		}
		return
	}
	if got.Joined(llm.Text) != want.Text || got.Joined(llm.Refusal) != want.Refusal {
		t.Errorf("got text %q, refusal %q; want %q, %q", got.Joined(llm.Text), got.Joined(llm.Refusal), want.Text, want.Refusal)
	}
	thinking := got.Joined(llm.Thinking)
	if want.ReasoningParts > 1 { // the index joins parts without the blank line that we put between them
		thinking, want.Reasoning = strings.ReplaceAll(thinking, "\n", ""), strings.ReplaceAll(want.Reasoning, "\n", "")
	}
	if thinking != want.Reasoning {
		t.Errorf("got reasoning %q, want %q", thinking, want.Reasoning)
	}
	if diff := cmp.Diff(p.order(got.Blocks), want.BlockOrder, cmpopts.EquateEmpty()); diff != "" {
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
		want.compareCalls(t, got)
		want.compareNative(t, got)
		if want.ID != "" && got.ID != want.ID {
			t.Errorf("got id %q, want %q", got.ID, want.ID)
		}
	}
	want.compareUsage(t, got.Usage)
}

func (p Protocol) order(blocks []llm.Block) []string {
	var out []string
	for _, b := range blocks {
		name := p.Kind(b)
		seen := false
		for _, s := range out {
			seen = seen || p.FirstOnly && s == name
		}
		if !seen {
			out = append(out, name)
		}
	}
	return out
}

func (want expected) compareUsage(t *testing.T, got *llm.Usage) {
	t.Helper()
	if want.Usage == nil {
		if got != nil {
			t.Errorf("got usage %+v, want none", got)
		}
		return
	}
	if got == nil {
		t.Fatal("got no usage")
	}
	value := func(v *int64) int64 {
		if v == nil {
			return 0
		}
		return *v
	}
	u := want.Usage // input of chat and responses holds the cached tokens already, the other's does not
	in := value(u.Input) + value(u.CacheRead) + value(u.CacheWrite)
	total := in + value(u.Output)
	if u.Total != nil {
		total = *u.Total
	}
	if diff := cmp.Diff(*got, llm.Usage{
		Input: in, Output: value(u.Output), Total: total,
		CachedInput: value(u.Cached) + value(u.CacheRead), CacheWrite: value(u.CacheWrite), Reasoning: value(u.Reasoning),
	}); diff != "" {
		t.Errorf("usage (-got +want):\n%s", diff)
	}
}

func (want expected) compareCalls(t *testing.T, got Outcome) {
	t.Helper()
	calls := got.Calls()
	if len(calls) != len(want.ToolCalls) {
		t.Fatalf("got %d calls, want %d", len(calls), len(want.ToolCalls))
	}
	runnable := got.Stop == llm.StopToolUse && len(calls) > 0
	seen := map[string]bool{}
	for i, c := range calls {
		w := want.ToolCalls[i]
		if c.Name != w.Name || w.ID != "" && c.CallID != w.ID {
			t.Errorf("call %d: got %s %s, want %s %s", i, c.CallID, c.Name, w.ID, w.Name)
		}
		if c.CallID == "" || seen[c.CallID] {
			t.Errorf("call %d: id %q is empty or not unique", i, c.CallID)
		}
		seen[c.CallID] = true
		switch {
		case string(w.Args) == "null":
			runnable = false
			if c.BadArgs != w.RawArgs || c.Args != nil {
				t.Errorf("call %d: got args %s, bad %q; want bad %q", i, c.Args, c.BadArgs, w.RawArgs)
			}
		case w.Type == "custom_tool_call": // its input is text, which none of our tools takes: it is reported, never run
			if text := protocol.Unquote(w.Args); c.BadArgs != text {
				t.Errorf("call %d: got bad %q, want %q", i, c.BadArgs, text)
			}
		default:
			sameJSON(t, c.Args, w.Args)
		}
	}
	if runnable != want.RunTools {
		t.Errorf("run tools: got %v, want %v", runnable, want.RunTools)
	}
}

// compareNative checks what the provider did on its own: it is kept for replay and never taken for a call.
func (want expected) compareNative(t *testing.T, got Outcome) {
	t.Helper()
	var names []string
	var used []llm.Block
	redacted := 0
	var signatures []int
	for _, b := range got.Blocks {
		var raw struct{ Type, Signature string }
		if b.Raw != nil {
			if err := protocol.Decode(b.Raw, &raw); err != nil {
				t.Fatalf("block %+v keeps no JSON: %v", b, err)
			}
		}
		switch {
		case b.Type == llm.Native && strings.HasSuffix(raw.Type, "tool_use"):
			used = append(used, b)
		case b.Type == llm.Native:
			names = append(names, raw.Type)
		case raw.Type == "redacted_thinking":
			redacted++
		case raw.Signature != "":
			signatures = append(signatures, len(raw.Signature))
		}
	}
	if diff := cmp.Diff(signatures, want.Signatures, cmpopts.EquateEmpty()); diff != "" || redacted != want.Redacted {
		t.Errorf("got %d redacted, want %d; signatures (-got +want):\n%s", redacted, want.Redacted, diff)
	}
	if diff := cmp.Diff(names, want.OtherItems, cmpopts.EquateEmpty()); diff != "" && want.OtherItems != nil {
		t.Errorf("other items (-got +want):\n%s", diff)
	}
	if len(used) != len(want.ServerToolCalls) {
		t.Fatalf("got %d calls of the provider's own tools, want %d", len(used), len(want.ServerToolCalls))
	}
	for i, w := range want.ServerToolCalls {
		var raw struct {
			ID, Name string
			Input    json.RawMessage
		}
		if err := json.Unmarshal(used[i].Raw, &raw); err != nil || raw.ID != w.ID || raw.Name != w.Name || used[i].CallID != w.ID {
			t.Errorf("call %d of the provider's own: got %s, %v; want %s %s", i, used[i].Raw, err, w.ID, w.Name)
		}
		sameJSON(t, raw.Input, w.Args)
	}
}

func sameJSON(t *testing.T, got, want json.RawMessage) {
	t.Helper()
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal(want, &b)); err != nil {
		t.Fatalf("got %q, want %q: %v", got, want, err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

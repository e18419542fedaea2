package scripted

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestALineReadsAsResponses(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []Response
	}{
		{`text "hi"`, []Response{{Text{Text: "hi"}}}},
		{`model: text "a | b" x3 pace=20ms`, []Response{{Text{Text: "a | b", Chunks: 3, Pace: 20 * time.Millisecond}}}},
		{`model: call bash {"command":"make | tee {x}"} | text "built; tests pass"`, []Response{
			{Call{Name: "bash", Args: `{"command":"make | tee {x}"}`}}, {Text{Text: "built; tests pass"}}}},
		{`think "hm" field=reasoning | text "so" | call ls {} | call read {"path":"x"} id=c1 x2`, []Response{
			{Thinking{Text: "hm", Field: "reasoning"}, Text{Text: "so"}, Call{Name: "ls", Args: "{}"}, Call{Name: "read", Args: `{"path":"x"}`, ID: "c1", Chunks: 2}}}},
		{`call write "{\"path\":" | length | usage out=9`, []Response{{Call{Name: "write", Args: `{"path":`}, Length{}, Usage{Output: 9}}}},
		{`call ping | drop reset | text "x"`, []Response{{Call{Name: "ping"}, Drop{Reset: true}}, {Text{Text: "x"}}}},
		{`text "half" | drop bytes=100 | call ls {}`, []Response{{Text{Text: "half"}, Drop{Bytes: 100}, Call{Name: "ls", Args: "{}"}}}},
		{`status 429 "slow down" retry-after=2 code=rate | overflow | empty | text "x"`, []Response{
			{Status{Code: 429, Message: "slow down", RetryAfter: "2", ErrorCode: "rate"}}, {Overflow{}}, {Empty{}}, {Text{Text: "x"}}}},
		{`lost-call | refuse | refuse "no" | stall for=3s keepalive=1s | text "x" | stall`, []Response{
			{LostCall{}}, {Refuse{}}, {Refuse{Text: "no"}}, {Stall{For: 3 * time.Second, KeepAlive: time.Second}, Text{Text: "x"}, Stall{}}}},
		{`text "a" || text "b" | nousage | error "gone" status=503 code=x`, []Response{
			{Text{Text: "a"}}, {Text{Text: "b"}, NoUsage{}, ErrorFrame{Message: "gone", Status: 503, ErrorCode: "x"}}}},
	} {
		t.Run(tc.line, func(t *testing.T) {
			got, err := Parse(tc.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Fatalf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestALineThatMakesNoSenseIsAnErrorThatNamesThePlace(t *testing.T) {
	for line, want := range map[string]string{
		``:                         `unknown step ""`,
		`sing "x"`:                 `unknown step "sing"`,
		`text`:                     "wants a string",
		`text "x`:                  "string without end",
		`text "x" y`:               `"y" does not belong here`,
		`text "x" x2 x3`:           "stands twice",
		`text "x" pace=2days`:      "want a duration",
		`text "x" "y"`:             "does not belong here",
		`call`:                     "name of a tool",
		`call ls {"a":}`:           "arguments",
		`status 200`:               "400 to 599",
		`drop bytes=-1`:            "whole number",
		`text "x" | `:              "unknown step",
		`usage in=1 in=2`:          "stands twice",
		`text "x" x99999999999999`: "whole number",
	} {
		if _, err := Parse(line); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "byte") {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

func TestTextIsCutAtRuneBorders(t *testing.T) {
	for n := range 12 {
		var parts []string
		c := cutter{rest: "a漢字🧭b", left: max(n, 1)}
		for part, ok := c.next(); ok; part, ok = c.next() {
			parts = append(parts, part)
		}
		if strings.Join(parts, "") != "a漢字🧭b" || len(parts) > max(n, 1) {
			t.Fatalf("%d: got %q", n, parts)
		}
		for _, p := range parts {
			if strings.ToValidUTF8(p, "?") != p {
				t.Fatalf("%d: got %q", n, parts)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`model: call bash {"command":"make"} | text "built; tests pass"`, `think "hm" x3 pace=1ms | usage in=3 | drop bytes=7 reset`,
		`status 429 "slow" retry-after=2 | overflow || empty | stall for=1s | error "x" status=500`, "text `raw` | refuse \"no\" | lost-call | nousage",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := Parse(line)
		if err != nil {
			return
		}
		parts := make([]string, len(got))
		for i, r := range got {
			parts[i] = r.String()
		}
		again, err := Parse(strings.Join(parts, " || "))
		if err != nil {
			t.Fatalf("%q prints as %q: %v", line, parts, err)
		}
		if diff := cmp.Diff(again, got); diff != "" {
			t.Fatalf("%q prints as %q (-again +first):\n%s", line, parts, diff)
		}
	})
}

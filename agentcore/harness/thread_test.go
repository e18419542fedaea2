package harness

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

func user(id session.EntryID, text string) item {
	return item{id: id, kind: kindUser, model: true, message: llm.TextMessage(llm.RoleUser, text)}
}

func said(id session.EntryID, stop llm.StopReason, blocks ...llm.Block) item {
	return item{id: id, kind: kindAssistant, model: true, message: llm.Message{Role: llm.RoleAssistant, Stop: stop, Blocks: blocks}}
}

func called(id, name string) llm.Block {
	return llm.Block{Type: llm.ToolCall, CallID: id, Name: name, Args: json.RawMessage(`{}`)}
}

func words(s string) llm.Block { return llm.Block{Type: llm.Text, Text: s} }

func result(id session.EntryID, call, text string) item {
	m := llm.TextMessage(llm.RoleToolResult, text)
	m.CallID = call
	return item{id: id, kind: kindToolResult, model: true, message: m}
}

// edits is an entry that is nothing but edits.
func edits(id session.EntryID, list ...edit) item { return item{id: id, kind: "app.edit", edits: list} }

func without(target session.EntryID) edit { return edit{target: target, omit: true} }

func instead(target session.EntryID, text string) edit {
	return edit{target: target, message: llm.TextMessage(llm.RoleUser, text)}
}

// story writes a context as one line a message.
func story(c modelContext) []string {
	var out []string
	for _, m := range c.messages {
		s := string(m.Role) + " " + m.Text()
		for _, b := range m.Calls() {
			s += "call " + b.CallID + " " + b.Name + " "
		}
		if m.Role == llm.RoleToolResult {
			s += " for " + m.CallID
		}
		out = append(out, s)
	}
	return out
}

func TestDerive(t *testing.T) {
	cases := []struct {
		name   string
		items  []item
		cutoff session.EntryID
		want   []string
	}{
		{"results stand behind their calls in call order, whatever order they came in",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "read"), called("b", "ls")), result(3, "2.1", "second"), user(4, "steer"), result(5, "2.0", "first")}, 5,
			[]string{"user go", "assistant call a read call b ls ", "toolResult first for a", "toolResult second for b", "user steer"}},
		{"a call without a result gets one that says so",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "bash"))}, 2,
			[]string{"user go", "assistant call a bash ", "toolResult " + missingResult + " for a"}},
		{"a result without its call is left out", []item{user(1, "go"), result(2, "9.0", "lost")}, 2, []string{"user go"}},
		{"equal provider ids in two turns keep their own results",
			[]item{user(1, "x"), said(2, llm.StopToolUse, called("c1", "read")), result(3, "2.0", "one"), said(4, llm.StopToolUse, called("c1", "bash")), result(5, "4.0", "two")}, 5,
			[]string{"user x", "assistant call c1 read ", "toolResult one for c1", "assistant call c1 bash ", "toolResult two for c1"}},
		{"an interrupted answer keeps its text and loses its calls",
			[]item{user(1, "go"), said(2, llm.StopInterrupted, words("Half of"), called("a", "bash")), user(3, "carry on")}, 3,
			[]string{"user go", "assistant Half of", "user carry on"}},
		{"a call cut by the output limit is not replayed", []item{user(1, "go"), said(2, llm.StopLength, called("a", "write"))}, 2, []string{"user go"}},
		{"an aborted answer is invisible to the model", []item{user(1, "go"), said(2, llm.StopAborted, words("never mind")), user(3, "again")}, 3, []string{"user go", "user again"}},
		{"nothing behind the cutoff counts", []item{user(1, "go"), user(2, "later")}, 1, []string{"user go"}},
		{"a head marker starts the context anew, with itself first",
			[]item{user(1, "old"), user(2, "kept"), {id: 3, kind: "workflow.compaction", head: 2, model: true, message: llm.TextMessage(llm.RoleUser, "summary")}, user(4, "new")}, 4,
			[]string{"user summary", "user kept", "user new"}},
		{"an edit omits an entry or shows another message in its place",
			[]item{user(1, "secret"), user(2, "long text"), edits(3, without(1), instead(2, "short"))}, 3, []string{"user short"}},
		{"the newest edit of a target wins",
			[]item{user(1, "a"), edits(2, without(1)), edits(3, instead(1, "b")), edits(4, instead(1, "c"))}, 4, []string{"user c"}},
		{"an edit behind the cutoff does not count", []item{user(1, "a"), edits(2, without(1))}, 1, []string{"user a"}},
		{"an edit before the active range does not count",
			[]item{user(1, "kept"), edits(2, without(1)), {id: 3, kind: kindReset, head: 3}, user(4, "new"), edits(5, without(1))}, 5, []string{"user new"}},
		{"an edit made before a head marker does not reach what the marker keeps",
			[]item{edits(1, without(3)), user(2, "old"), user(3, "kept"), {id: 4, kind: "workflow.compaction", head: 3, model: true, message: llm.TextMessage(llm.RoleUser, "summary")}}, 4,
			[]string{"user summary", "user kept"}},
		{"a head marker's own edits count, and a marker can be edited",
			[]item{user(1, "old"), user(2, "kept"), {id: 3, kind: "workflow.compaction", head: 2, model: true, message: llm.TextMessage(llm.RoleUser, "summary"), edits: []edit{instead(2, "cut")}}, edits(4, instead(3, "shorter"))}, 4,
			[]string{"user shorter", "user cut"}},
		{"an edited result stays with its call, and an omitted one is missed",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "read"), called("b", "ls")), result(3, "2.0", "very long"), result(4, "2.1", "gone"), edits(5, instead(3, "long"), without(4))}, 5,
			[]string{"user go", "assistant call a read call b ls ", "toolResult long for a", "toolResult " + missingResult + " for b"}},
		{"an omitted answer takes the results of its calls with it",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "read")), result(3, "2.0", "x"), edits(4, without(2))}, 4, []string{"user go"}},
		{"a reset shows nothing said before, and its handoff first",
			[]item{user(1, "old"), {id: 2, kind: kindReset, head: 2, model: true, message: llm.TextMessage(llm.RoleUser, "handoff")}, user(3, "new")}, 3, []string{"user handoff", "user new"}},
		{"a reset without a handoff leaves nothing", []item{user(1, "old"), {id: 2, kind: kindReset, head: 2}}, 2, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, story(derive(c.items, c.cutoff))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTheNewestSystemPromptOfTheActiveRangeCounts(t *testing.T) {
	items := []item{{id: 1, kind: kindSystem, model: true, system: "one"}, user(2, "go"), {id: 3, kind: kindSystem, model: true, system: "two"}}
	if got := derive(items, 3).system; got != "two" {
		t.Errorf("system = %q, want two", got)
	}
	if got := derive(items, 2).system; got != "one" {
		t.Errorf("system before the change = %q, want one", got)
	}
}

func TestASystemPromptCanBeEdited(t *testing.T) {
	items := []item{{id: 1, kind: kindSystem, model: true, system: "one"}, {id: 2, kind: kindSystem, model: true, system: "two"},
		edits(3, without(2)), edits(4, edit{target: 1, system: "uno"})}
	if got := derive(items, 3).system; got != "one" {
		t.Errorf("system without the newest entry = %q, want one", got)
	}
	if got := derive(items, 4).system; got != "uno" {
		t.Errorf("edited system = %q, want uno", got)
	}
}

func TestAnEntryWithEditsIsReadFromItsRecord(t *testing.T) {
	it, err := decodeItem(session.Entry{ID: 9, Kind: "app.edit", Edits: []session.Edit{{Target: 1}, {Target: 2, Model: mustJSON(llm.TextMessage(llm.RoleUser, "x"))}, {Target: 3, Model: mustJSON(systemContent{"s"})}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(it.edits) != 3 || !it.edits[0].omit || it.edits[1].message.Text() != "x" || it.edits[2].system != "s" {
		t.Errorf("edits = %+v", it.edits)
	}
	if _, err := decodeItem(session.Entry{ID: 9, Edits: []session.Edit{{Target: 1, Model: json.RawMessage(`[]`)}}}); err == nil {
		t.Error("an edit that is no message was read")
	}
}

// restored derives what a restored transcript shows.
func restored(t *testing.T, messages []llm.Message) []llm.Message {
	t.Helper()
	next := session.EntryID(40)
	entries, err := restoredEntries(messages, func() session.EntryID { next++; return next })
	if err != nil {
		t.Fatal(err)
	}
	items := []item{user(1, "an earlier one")}
	for _, e := range entries {
		it, err := decodeItem(e)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	if !untouched(items) {
		t.Error("what was restored counts as said here")
	}
	return derive(items, next).messages
}

func TestWhatIsRestoredIsShownAgain(t *testing.T) {
	at := func(call, text string) llm.Message {
		m := llm.TextMessage(llm.RoleToolResult, text)
		m.CallID = call
		return m
	}
	calls := func(stop llm.StopReason, ids ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAssistant, Stop: stop, Blocks: []llm.Block{words("so")}}
		for _, id := range ids {
			m.Blocks = append(m.Blocks, called(id, "ls"))
		}
		return m
	}
	hi, so := llm.TextMessage(llm.RoleUser, "hi"), llm.TextMessage(llm.RoleAssistant, "so")
	for _, c := range []struct {
		name string
		give []llm.Message
		want []string
	}{
		{"nothing", nil, nil},
		{"text", []llm.Message{hi, so}, []string{"user hi", "assistant so"}},
		{"results find their calls in whatever order", []llm.Message{calls(llm.StopToolUse, "a", "b"), at("b", "2"), at("a", "1")},
			[]string{"assistant socall a ls call b ls ", "toolResult 1 for a", "toolResult 2 for b"}},
		{"one id in two answers", []llm.Message{calls(llm.StopToolUse, "a"), at("a", "1"), hi, calls(llm.StopToolUse, "a"), at("a", "2")},
			[]string{"assistant socall a ls ", "toolResult 1 for a", "user hi", "assistant socall a ls ", "toolResult 2 for a"}},
		{"a call without a result, its id used again", []llm.Message{calls(llm.StopToolUse, "a"), calls(llm.StopToolUse, "a"), at("a", "2")},
			[]string{"assistant socall a ls ", "toolResult " + missingResult + " for a", "assistant socall a ls ", "toolResult 2 for a"}},
		{"a result of no call, a second one, and one before its call", []llm.Message{at("x", "?"), at("a", "early"), calls(llm.StopToolUse, "a"), at("a", "1"), at("a", "again")},
			[]string{"assistant socall a ls ", "toolResult 1 for a"}},
		{"an interrupted answer loses its calls", []llm.Message{calls(llm.StopInterrupted, "a"), at("a", "1"), hi}, []string{"assistant so", "user hi"}},
		{"an id that looks like one of ours", []llm.Message{at("43.0", "?"), calls(llm.StopToolUse, "43.1"), at("43.1", "1")},
			[]string{"assistant socall 43.1 ls ", "toolResult 1 for 43.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := restored(t, c.give)
			if d := cmp.Diff(c.want, story(modelContext{messages: got})); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(got, restored(t, got)); d != "" {
				t.Errorf("restored once more: %s", d)
			}
		})
	}
	if _, err := restoredEntries([]llm.Message{{Role: "system"}}, func() session.EntryID { return 1 }); err == nil {
		t.Error("a message of no role was restored")
	}
}

func TestAnythingButRestoredMessagesIsAHistory(t *testing.T) {
	for _, it := range []item{{kind: kindSystem}, {kind: kindContinuation}, {kind: "workflow.compaction"}, {kind: "app.note"}} {
		if untouched([]item{{kind: kindRestore}, it}) {
			t.Errorf("%s is no history", it.kind)
		}
	}
}

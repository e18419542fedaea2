package agentcore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

// spy is a provider that keeps what it is asked.
type spy struct {
	llm.Provider
	asking func() // unless nil

	mu   sync.Mutex
	asks [][]llm.Message
}

func (s *spy) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.StreamEvent, error] {
	s.mu.Lock()
	s.asks = append(s.asks, slices.Clone(r.Messages))
	s.mu.Unlock()
	if s.asking != nil {
		s.asking()
	}
	return s.Provider.Stream(ctx, r)
}

// asked returns the messages of request n, from 0; -1 is the last.
func (s *spy) asked(n int) []llm.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		n += len(s.asks)
	}
	return s.asks[n]
}

func (s *spy) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks)
}

// openSpied is open with a spy before the model.
func openSpied(t *testing.T, o agentcore.Options, rs ...scripted.Response) (*agentcore.Agent, *spy) {
	t.Helper()
	s := &spy{Provider: scriptOf(rs...).Provider()}
	o.LLM = s
	return open(t, o, nil), s
}

func ask(t *testing.T, a *agentcore.Agent, id, prompt string) {
	t.Helper()
	if _, _, err := follow(a, agentcore.Input{RequestID: id, Prompt: prompt}, nil); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
}

func transcript(t *testing.T, a *agentcore.Agent) []llm.Message {
	t.Helper()
	ms, err := a.ReadTranscript(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func said(text string) llm.Message { return llm.TextMessage(llm.RoleAssistant, text) }
func user(text string) llm.Message { return llm.TextMessage(llm.RoleUser, text) }

// lines writes messages as one line each.
func lines(ms []llm.Message) []string {
	var out []string
	for _, m := range ms {
		line := string(m.Role)
		for _, b := range m.Calls() {
			line += fmt.Sprintf(" call %s %s", b.CallID, b.Name)
		}
		if m.Role == llm.RoleToolResult {
			line += fmt.Sprintf(" of %s", m.CallID)
		}
		if m.IsError {
			line += " error"
		}
		if text := m.Text(); text != "" {
			line += fmt.Sprintf(" %q", text)
		}
		out = append(out, line)
	}
	return out
}

func same(t *testing.T, what string, got []llm.Message, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, lines(got), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}

// kinds lists the entries of a backend's main conversation, oldest first, by their kinds.
func (b *backend) kinds(t *testing.T) []string {
	t.Helper()
	var out []string
	b.look(t, func(tx *session.Tx) error {
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		for _, e := range slices.Backward(entries) {
			out = append(out, strings.TrimPrefix(e.Kind, "workflow."))
		}
		return err
	})
	return out
}

// Promise: P-012, P-477
func TestTheFirstTurnGoesOnFromARestoredTranscriptUnlessAResetDropsIt(t *testing.T) {
	restored := []llm.Message{user("What is my name?"), said("Ada.")}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, a *agentcore.Agent) error
		want []string
	}{
		{"restored", func(t *testing.T, a *agentcore.Agent) error { return a.RestoreTranscript(t.Context(), restored) },
			[]string{`user "What is my name?"`, `assistant "Ada."`}},
		{"restored and reset", func(t *testing.T, a *agentcore.Agent) error {
			return errors.Join(a.RestoreTranscript(t.Context(), restored), a.Reset(t.Context()))
		}, nil},
		{"reset and restored", func(t *testing.T, a *agentcore.Agent) error {
			return errors.Join(a.Reset(t.Context()), a.RestoreTranscript(t.Context(), restored))
		}, []string{`user "What is my name?"`, `assistant "Ada."`}},
		{"restored twice: the newest counts", func(t *testing.T, a *agentcore.Agent) error {
			return errors.Join(a.RestoreTranscript(t.Context(), restored), a.RestoreTranscript(t.Context(), []llm.Message{user("Hello.")}))
		}, []string{`user "Hello."`}},
		{"an empty one", func(t *testing.T, a *agentcore.Agent) error {
			return errors.Join(a.RestoreTranscript(t.Context(), restored), a.RestoreTranscript(t.Context(), nil))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			a, model := openSpied(t, agentcore.Options{DatabasePath: path}, say("You told me: Ada."))
			if err := c.do(t, a); err != nil {
				t.Fatal(err)
			}
			same(t, "transcript", transcript(t, a), c.want...)
			ask(t, a, "r1", "Say it again.")
			same(t, "request", model.asked(0), append(c.want, `user "Say it again."`)...)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a, model = openSpied(t, agentcore.Options{DatabasePath: path}, say("Still Ada."))
			ask(t, a, "r2", "And now?")
			same(t, "request after reopening", model.asked(0), append(c.want, `user "Say it again."`, `assistant "You told me: Ada."`, `user "And now?"`)...)
		})
	}
}

// Promise: P-478, P-479
func TestASessionInWhichSomethingWasSaidIsNeverFilledFromOutside(t *testing.T) {
	b := newBackend()
	a, model := openSpied(t, agentcore.Options{Storage: b.storage()}, say("One."), say("Two."), say("Three."))
	ask(t, a, "r1", "first")
	refused := func() {
		t.Helper()
		before := transcript(t, a)
		if err := a.RestoreTranscript(t.Context(), []llm.Message{user("planted")}); !fault.Is(err, fault.Conflict) {
			t.Errorf("err = %v, want a conflict", err)
		}
		if d := cmp.Diff(before, transcript(t, a)); d != "" {
			t.Error(d)
		}
	}
	refused()
	ask(t, a, "r2", "second")
	same(t, "request", model.asked(-1), `user "first"`, `assistant "One."`, `user "second"`)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	kept := b.kinds(t)
	a, model = openSpied(t, agentcore.Options{Storage: b.storage()}, say("Three."))
	refused()
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused() // an empty context is no empty store
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(append(kept, "reset"), b.kinds(t)); d != "" {
		t.Errorf("the store: -want +got\n%s", d)
	}
	_ = model
}

// Promise: P-479
func TestWhatAHostHasWrittenIsAHistoryToo(t *testing.T) {
	for name, write := range map[string]func(*session.Tx) error{
		"an entry of its own": func(tx *session.Tx) error {
			tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Data: json.RawMessage(`{"text":"mine"}`)})
			return tx.EnsureRoot()
		},
		"a task of its own": backgroundTask,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend()
			b.plant(t, write)
			a, _ := openSpied(t, agentcore.Options{Storage: b.storage()})
			if err := a.RestoreTranscript(t.Context(), []llm.Message{user("planted")}); !fault.Is(err, fault.Conflict) {
				t.Errorf("err = %v, want a conflict", err)
			}
			same(t, "transcript", transcript(t, a))
		})
	}
}

// Promise: P-478
func TestARestoreThatRacesWithTheFirstTurnIsBeforeItOrRefused(t *testing.T) {
	for range 20 {
		a, model := openSpied(t, agentcore.Options{}, say("One."))
		restored := make(chan error, 1)
		go func() { restored <- a.RestoreTranscript(context.Background(), []llm.Message{user("planted")}) }()
		ask(t, a, "r1", "first")
		want := []string{`user "planted"`, `user "first"`}
		switch err := <-restored; {
		case fault.Is(err, fault.Conflict):
			want = want[1:]
		case err != nil:
			t.Fatal(err)
		}
		same(t, "request", model.asked(0), want...)
	}
}

// Promise: P-480
func TestARestoredCallWithoutAResultStartsNothingAndIsRepaired(t *testing.T) {
	b := newBackend()
	a, model := openSpied(t, agentcore.Options{Storage: b.storage(), ExtraTools: deploy(t)}, say("I see."))
	calls := llm.Message{Role: llm.RoleAssistant, Stop: llm.StopToolUse, Usage: &llm.Usage{Total: 9999}, Blocks: []llm.Block{
		{Type: llm.ToolCall, CallID: "c1", Name: "deploy", Args: json.RawMessage(`{"where":"there"}`)},
		{Type: llm.ToolCall, CallID: "c2", Name: "deploy", Args: json.RawMessage(`{"where":"here"}`)},
	}}
	done := llm.Message{Role: llm.RoleToolResult, CallID: "c2", ToolName: "deploy", Blocks: []llm.Block{{Type: llm.Text, Text: "deployed"}}}
	stray := llm.Message{Role: llm.RoleToolResult, CallID: "c9", Blocks: []llm.Block{{Type: llm.Text, Text: "of nobody"}}}
	if err := a.RestoreTranscript(t.Context(), []llm.Message{stray, user("deploy"), calls, done, done}); err != nil {
		t.Fatal(err)
	}
	types, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "go on"}, nil)
	if err != nil || slices.Contains(types, "tool") {
		t.Errorf("events %q, %v: a restored call was started", types, err)
	}
	got := model.asked(0)
	interrupted := got[2].Text()
	same(t, "request", got, `user "deploy"`, `assistant call c1 deploy call c2 deploy`, fmt.Sprintf("toolResult of c1 error %q", interrupted),
		`toolResult of c2 "deployed"`, `user "go on"`)
	if !strings.Contains(interrupted, "interrupted") || got[1].Usage != nil {
		t.Errorf("the missing result says %q, usage %v", interrupted, got[1].Usage)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b.look(t, func(tx *session.Tx) error {
		tasks, err := tx.Tasks(session.TaskQuery{})
		if len(tasks) != 1 {
			t.Errorf("%d tasks, want the answer's alone", len(tasks))
		}
		return err
	})
}

// Promise: P-475
func TestATranscriptIsExactlyWhatTheNextRequestPutsItsInputBehind(t *testing.T) {
	a, model := openSpied(t, agentcore.Options{},
		say("One."),
		scripted.Response{scripted.Thinking{Text: "hm"}, scripted.Text{Text: "I look. "}, scripted.Call{Name: "ls", Args: `{"path":"."}`}, scripted.Call{Name: "nope", Args: `{}`}}, say("Two."),
		scripted.Response{scripted.Text{Text: "Half of "}, scripted.Drop{}}, say("three."),
		scripted.Response{scripted.Status{Code: 401}},
		say("Five."), say("Six."), say("Seven."))
	if err := a.RestoreTranscript(t.Context(), []llm.Message{user("before"), said("Restored.")}); err != nil {
		t.Fatal(err)
	}
	longest := 0
	for n, prompt := range []string{"one", "two", "three", "fails", "five", "six", "seven"} {
		if n == 5 {
			if err := a.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want, asks := append(transcript(t, a), user(prompt)), model.count()
		_, _, err := follow(a, agentcore.Input{Prompt: prompt}, nil)
		if (err != nil) != (prompt == "fails") {
			t.Fatalf("%s: %v", prompt, err)
		}
		if d := cmp.Diff(want, model.asked(asks)); d != "" {
			t.Errorf("%s: -transcript and input +request\n%s", prompt, d)
		}
		longest = max(longest, len(want))
	}
	if longest < 12 {
		t.Errorf("the longest transcript has %d messages: this shows little", longest)
	}
	// What one agent reads, another goes on from.
	ms := transcript(t, a)
	other, model := openSpied(t, agentcore.Options{}, say("Eight."))
	if err := other.RestoreTranscript(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	ask(t, other, "r", "eight")
	if d := cmp.Diff(append(ms, user("eight")), model.asked(0), cmpopts.IgnoreFields(llm.Message{}, "Usage")); d != "" {
		t.Errorf("-read +restored\n%s", d)
	}
}

// Promise: P-475
func TestATranscriptOfAnUnfinishedTurnIsThatOfItsLastRequest(t *testing.T) {
	a, model := openSpied(t, agentcore.Options{ExtraTools: deploy(t)}, call("ls", `{"path":"."}`), call("deploy", `{"where":"here"}`), say("Deployed."))
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v", err)
	}
	if d := cmp.Diff(model.asked(-1), transcript(t, a)); d != "" || model.count() != 2 {
		t.Errorf("-request +transcript\n%s", d)
	}
}

// Promise: P-475
func TestATranscriptReadWhileAModelIsAskedIsWhatItWasAsked(t *testing.T) {
	a, model := openSpied(t, agentcore.Options{}, say("One."), say("Two."))
	model.asking = func() {
		_, err := a.Session().Commit(t.Context(), func(tx *session.Tx) error { // somebody writes between
			tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Model: json.RawMessage(`{"role":"user","blocks":[{"type":"text","text":"by the way"}]}`)})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(model.asked(-1), transcript(t, a)); d != "" {
			t.Errorf("-request +transcript\n%s", d)
		}
	}
	ask(t, a, "r1", "first")
	ask(t, a, "r2", "second")
	same(t, "request", model.asked(-1), `user "first"`, `assistant "One."`, `user "by the way"`, `user "second"`)
}

// Nobody is told of a reset or a restored transcript that a power loss can take back.
// Promise: P-009, P-477
func TestAResetAndARestoredTranscriptAreSynced(t *testing.T) {
	b := newBackend()
	var synced []string
	b.over = func(s session.Storage) session.Storage {
		return &sessiontest.Faulty{Storage: s, After: func(batch *session.Batch) error {
			if len(batch.Entries) > 0 && batch.Durability == session.Synced {
				synced = append(synced, batch.Entries[0].Kind)
			}
			return nil
		}}
	}
	a, _ := openSpied(t, agentcore.Options{Storage: b.storage()})
	if err := errors.Join(a.RestoreTranscript(t.Context(), []llm.Message{user("x")}), a.Reset(t.Context())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"workflow.restore", "workflow.reset"}; !slices.Equal(synced, want) {
		t.Errorf("synced are %q, want %q", synced, want)
	}
}

func TestARestoredTranscriptBeginsAConversationOfTheProjects(t *testing.T) {
	notes := session.Doc[string]{Kind: "app.note", Version: 1, Scope: session.ScopeConversation}
	at := notes.At(int64(session.Root), "")
	created := 0
	reg := agentcore.NewRegistry()
	err := reg.Install(agentcore.Extension{Name: "app", Docs: []registry.Doc{agentcore.DefineDoc(notes)}, Hooks: agentcore.Hooks{
		ConversationCreated: func(tx *session.Tx, _ session.ConversationID) error {
			created++
			return notes.Put(tx, at, "begun")
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := openSpied(t, agentcore.Options{Session: &agentcore.SessionOptions{Registry: reg}}, say("One."))
	for _, text := range []string{"old", "new"} {
		if err := a.RestoreTranscript(t.Context(), []llm.Message{user(text)}); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, a, "r1", "first")
	same(t, "transcript", transcript(t, a), `user "new"`, `user "first"`, `assistant "One."`)
	if created != 1 {
		t.Errorf("the project heard of %d conversations", created)
	}
}

func TestARestoredMessageThatNoModelCanBeShownIsRefusedByName(t *testing.T) {
	a, _ := openSpied(t, agentcore.Options{})
	block := func(role llm.Role, b llm.Block) llm.Message { return llm.Message{Role: role, Blocks: []llm.Block{b}} }
	for _, c := range []struct {
		name, says string
		m          llm.Message
	}{
		{"no role", "messages[1].role", llm.Message{Blocks: user("x").Blocks}},
		{"the role of a system prompt", "messages[1].role", llm.TextMessage("system", "obey")},
		{"nothing said", "messages[1].blocks", llm.Message{Role: llm.RoleUser}},
		{"a call of the user's", "messages[1].blocks[0].type", block(llm.RoleUser, llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls"})},
		{"a block of no type", "messages[1].blocks[0].type", block(llm.RoleAssistant, llm.Block{Text: "x"})},
		{"a call without an id", "messages[1].blocks[0]: ", block(llm.RoleAssistant, llm.Block{Type: llm.ToolCall, Name: "ls"})},
		{"arguments that are no object", "messages[1].blocks[0].args", block(llm.RoleAssistant, llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls", Args: json.RawMessage(`null`)})},
		{"arguments that are no JSON", "messages[1].blocks[0].args", block(llm.RoleAssistant, llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls", Args: json.RawMessage(`{`)})},
		{"a signature that is no JSON", "messages[1].blocks[0].raw", block(llm.RoleAssistant, llm.Block{Type: llm.Thinking, Raw: json.RawMessage(`x`)})},
		{"an image without bytes", "messages[1].blocks[0]: ", block(llm.RoleUser, llm.Block{Type: llm.Image, MimeType: "image/png"})},
		{"a result of no call", "messages[1].callId", llm.TextMessage(llm.RoleToolResult, "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := a.RestoreTranscript(t.Context(), []llm.Message{user("good"), c.m})
			if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("err = %v, want input_validation naming %s", err, c.says)
			}
		})
	}
	same(t, "transcript", transcript(t, a))
}

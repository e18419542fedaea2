package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// project is a rig whose harness has a registry.
type project struct {
	*rig
	reg  *registry.Registry
	told []string // failed hooks
}

func newProject(t *testing.T, responses ...scripted.Response) *project {
	return &project{rig: newRig(t, responses...), reg: registry.New("read", "bash")}
}

func (p *project) install(e registry.Extension) {
	p.t.Helper()
	if err := p.reg.Install(e); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) open() *harness.Harness {
	p.t.Helper()
	p.registry, p.hookFailed = p.reg, func(e registry.HookError) { p.told = append(p.told, e.Error()) }
	return p.rig.open()
}

// look is a tool of the project that says who made it.
func look(maker string) tool.Tool {
	return tool.New("look", "Look around.", func(context.Context, tool.Call, struct{}) (tool.Result, error) { return tool.Text(maker), nil })
}

// Promise: P-202
func TestWhatIsInstalledOrRemovedChangesTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, do("look", "{}"), say("One."), say("Two."), say("Three."))
		h := p.open()
		defer h.Close()
		p.do = nil
		p.install(registry.Extension{Name: "app", Tools: []tool.Tool{look("first")}, Sections: []registry.Section{{Key: "rules", Text: "Be kind."}}})
		got, err := run(t.Context(), h, "r1", "go", nil)
		p.check(got, err, "call look {}", "result first", "text One.", "answered")
		if err := p.reg.Uninstall("app"); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context(), h, "r2", "again", nil); err != nil {
			t.Fatal(err)
		}
		p.install(registry.Extension{Name: "late", Tools: []tool.Tool{look("second")}})
		if _, err := run(t.Context(), h, "r3", "and again", nil); err != nil {
			t.Fatal(err)
		}
		want := [][]string{{"read", "bash", "look"}, {"read", "bash", "look"}, {"read", "bash"}, {"read", "bash", "look"}}
		var tools [][]string
		for _, r := range p.model.Requests() {
			tools = append(tools, r.Tools)
		}
		if d := cmp.Diff(want, tools); d != "" {
			t.Errorf("tools of the requests: %s", d)
		}
		system := func(i int) string { return p.model.Requests()[i].Messages[0].Text }
		if !strings.Contains(system(0), "<rules>\nBe kind.\n</rules>") || strings.Contains(system(2), "rules") {
			t.Errorf("the section is not where its extension is: %q, then %q", system(0), system(2))
		}
	})
}

// Promise: P-216
func TestACallThatRunsIsFinishedByTheToolItBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, do("look", "{}"), do("look", "{}"), say("Done."))
		began, release := make(chan struct{}), make(chan struct{})
		slow := tool.New("look", "Look around.", func(context.Context, tool.Call, struct{}) (tool.Result, error) {
			close(began)
			<-release
			return tool.Text("old"), nil
		})
		p.install(registry.Extension{Name: "app", Tools: []tool.Tool{slow}})
		h := p.open()
		defer h.Close()
		go func() {
			<-began
			if err := p.reg.Replace(registry.Extension{Name: "app", Tools: []tool.Tool{look("new")}}); err != nil {
				t.Error(err)
			}
			close(release)
		}()
		got, err := run(t.Context(), h, "r1", "go", nil)
		p.check(got, err, "call look {}", "result old", "call look {}", "result new", "text Done.", "answered")
	})
}

// Each hook takes part in a turn; what it changes is what the model, the tool and the record see.
// Promise: P-201
func TestHooksTakePartInATurn(t *testing.T) {
	var rounds []string
	asked := false
	cases := []struct {
		name   string
		hooks  registry.Hooks
		script []scripted.Response
		want   []string
		check  func(t *testing.T, p *project)
	}{
		{"BeforeTool changes the arguments", registry.Hooks{BeforeTool: func(_ context.Context, c registry.ToolCall) (registry.ToolDecision, error) {
			return registry.Proceed{Args: json.RawMessage(`{"by":"hook"}`)}, nil
		}}, []scripted.Response{do("bash", `{"by":"model"}`), say("Done.")},
			[]string{`call bash {"by":"model"}`, `result ok {"by":"hook"}`, "text Done.", "answered"}, nil},
		{"BeforeTool blocks a call", registry.Hooks{BeforeTool: func(_ context.Context, c registry.ToolCall) (registry.ToolDecision, error) {
			return registry.Block{Reason: "not on a Sunday"}, nil
		}}, []scripted.Response{do("bash", `{}`), say("Well.")},
			[]string{"call bash {}", "result not on a Sunday blocked", "text Well.", "answered"},
			func(t *testing.T, p *project) {
				if n := p.bash.Load(); n != 0 {
					t.Errorf("the blocked call ran %d times", n)
				}
			}},
		{"AfterTool replaces a result", registry.Hooks{AfterTool: func(_ context.Context, _ registry.ToolCall, r tool.Result) (tool.Result, error) {
			return tool.Text("[" + r.Text() + "]"), nil
		}}, []scripted.Response{do("read", `{}`), say("Done.")}, []string{"call read {}", "result [ok {}]", "text Done.", "answered"}, nil},
		{"AfterTools is told of the round, in call order", registry.Hooks{AfterTools: func(_ context.Context, round []registry.ToolOutcome) error {
			for _, o := range round {
				rounds = append(rounds, fmt.Sprintf("%s %s = %s", o.Call.Name, o.Call.Args, o.Result.Text()))
			}
			return nil
		}}, []scripted.Response{{scripted.Call{Name: "read", Args: `{"n":1}`}, scripted.Call{Name: "nope", Args: `{}`}, scripted.Call{Name: "read", Args: `{"n":2}`}}, say("Done.")}, nil,
			func(t *testing.T, p *project) {
				want := []string{`read {"n":1} = ok {"n":1}`, `nope {} = There is no tool "nope" here. Use one of the tools you were given.`, `read {"n":2} = ok {"n":2}`}
				if d := cmp.Diff(want, rounds); d != "" {
					t.Error(d)
				}
			}},
		{"AfterTools is told when no call could run", registry.Hooks{AfterTools: func(_ context.Context, round []registry.ToolOutcome) error {
			rounds = append(rounds, fmt.Sprint(len(round)))
			return errors.New("told by the test")
		}}, []scripted.Response{do("nope", `{}`), say("Done.")}, nil, func(t *testing.T, p *project) {
			if d := cmp.Diff([]string{"1"}, rounds); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]string{`hook AfterTools of extension "app": told by the test`}, p.told); d != "" {
				t.Error(d)
			}
		}},
		{"BeforeRequest changes what is sent, and only that", registry.Hooks{BeforeRequest: func(_ context.Context, r llm.Request) (llm.Request, error) {
			r.Tools = r.Tools[:1]
			r.Messages = append(r.Messages, llm.TextMessage(llm.RoleUser, "by the hook"))
			return r, nil
		}}, []scripted.Response{do("bash", `{}`), say("Done.")},
			[]string{"call bash {}", `result There is no tool "bash" here. Use one of the tools you were given. tool_unavailable`, "text Done.", "answered"},
			func(t *testing.T, p *project) {
				if got := p.model.Requests()[1].LastUser(); got != "by the hook" {
					t.Errorf("the last message sent is %q", got)
				}
				if n := p.bash.Load(); n != 0 {
					t.Errorf("a call of a tool that was not offered ran %d times", n)
				}
			}},
		{"AfterResponse replaces what was said before anybody saw it", registry.Hooks{AfterResponse: func(_ context.Context, m llm.Message) (llm.Message, error) {
			for i := range m.Blocks {
				m.Blocks[i].Text = strings.ReplaceAll(m.Blocks[i].Text, "secret", "***")
			}
			return m, nil
		}}, []scripted.Response{{scripted.Text{Text: "It is a secret.", Chunks: 5}}}, []string{"text It is a ***.", "answered"}, nil},
		{"AfterResponse takes a call away", registry.Hooks{AfterResponse: func(_ context.Context, m llm.Message) (llm.Message, error) {
			m.Blocks, m.Stop = []llm.Block{{Type: llm.Text, Text: "No call."}}, llm.StopEnd
			return m, nil
		}}, []scripted.Response{do("bash", `{}`)}, []string{"text No call.", "answered"}, nil},
		{"OnYield lets the model go on", registry.Hooks{OnYield: func(_ context.Context, m llm.Message) (registry.YieldDecision, error) {
			if asked {
				return registry.Accept{}, nil
			}
			asked = true
			return registry.GoOn{Prompt: "Are you sure?"}, nil
		}}, []scripted.Response{say("Yes."), say("Quite.")}, []string{"text Yes.", "text Quite.", "answered"},
			func(t *testing.T, p *project) {
				if got := p.model.Requests()[1].LastUser(); got != "Are you sure?" {
					t.Errorf("the model was asked %q", got)
				}
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rounds, asked = nil, false
				p := newProject(t, c.script...)
				p.install(registry.Extension{Name: "app", Hooks: c.hooks})
				h := p.open()
				got, err := run(t.Context(), h, "r1", "go", nil)
				if c.want != nil {
					p.check(got, err, c.want...)
				} else if err != nil {
					t.Error(err)
				}
				if c.check != nil {
					c.check(t, p)
				}
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
				h = p.open() // told again from the record: the same
				again, err := run(t.Context(), h, "r1", "go", nil)
				p.check(again, err, got...)
				h.Close()
			})
		})
	}
}

func TestAnAnswerThatAHookSentBackIsNotTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, say("Yes."), say("No."), say("Another."))
		back := true
		p.install(registry.Extension{Name: "app", Hooks: registry.Hooks{OnYield: func(context.Context, llm.Message) (registry.YieldDecision, error) {
			defer func() { back = false }()
			if back {
				return registry.GoOn{Prompt: "Sure?"}, nil
			}
			return nil, nil
		}}})
		h := p.open()
		defer h.Close()
		if _, err := run(t.Context(), h, "r1", "go", nil); err != nil {
			t.Fatal(err)
		}
		if a, err := h.AnswerOf(t.Context(), "r1"); err != nil || a.Text != "No." {
			t.Errorf("the answer is %q, %v, want No.", a.Text, err)
		}
	})
}

// A hook that wants to go on is not heard when somebody has spoken meanwhile.
func TestAQueuedInputGoesBeforeAHookThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, say("One."), say("Two."))
		asks := true
		var h *harness.Harness
		p.install(registry.Extension{Name: "app", Hooks: registry.Hooks{OnYield: func(ctx context.Context, _ llm.Message) (registry.YieldDecision, error) {
			if !asks {
				return nil, nil
			}
			asks = false
			_, err := h.Control(ctx, control.Submit{RequestID: "r2", Prompt: "two"}, nil)
			return registry.GoOn{Prompt: "Sure?"}, err
		}}})
		h = p.open()
		defer h.Close()
		if _, err := run(t.Context(), h, "r1", "one", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := p.model.Requests()[1].LastUser(); got != "two" {
			t.Errorf("the second request asks %q, want two", got)
		}
	})
}

// note is a document of the project, which forks take over.
var note = session.Doc[string]{Kind: "app.note", Version: 1, Scope: session.ScopeConversation, Fork: session.ForkCurrent}

// Promise: P-132
func TestAProjectDraftsWhatConversationsStartWithAndForksTakeItsDocumentsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, say("First."), say("In the fork."))
		var made atomic.Int64
		refuse := false
		var identities []string
		p.install(registry.Extension{Name: "app", Docs: []registry.Doc{registry.DocOf(note)}, Hooks: registry.Hooks{
			BeforeRequest: func(_ context.Context, r llm.Request) (llm.Request, error) {
				identities = append(identities, r.CacheKey)
				return r, nil
			},
			ConversationCreated: func(tx *session.Tx, c session.ConversationID) error {
				if made.Add(1); refuse {
					return errors.New("no more")
				}
				if c != session.Root {
					return nil
				}
				return note.Put(tx, note.At(int64(c), ""), "from the start")
			}}})
		h := p.open()
		defer h.Close()
		if _, err := run(t.Context(), h, "r1", "one", nil); err != nil {
			t.Fatal(err)
		}
		var at session.EntryID
		read := func(c session.ConversationID) (text string) {
			t.Helper()
			if err := h.Session().View(t.Context(), func(tx *session.Tx) (err error) {
				list, err := tx.Entries(session.EntryQuery{Conversation: session.Root, Limit: 1})
				if err != nil {
					return err
				}
				at = list[0].ID
				text, err = note.Get(tx, note.At(int64(c), ""))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return text
		}
		if got := read(session.Root); got != "from the start" {
			t.Errorf("the main conversation starts with %q", got)
		}
		r, err := h.Control(t.Context(), control.Fork{RequestID: "f1", EntryID: at}, nil)
		if err != nil || r.ForkID == 0 || read(r.ForkID) != "from the start" {
			t.Fatalf("receipt %+v, %v; the fork's note is %q", r, err, read(r.ForkID))
		}
		if _, err := submit(t.Context(), h, harness.Submit{RequestID: "r2", Conversation: r.ForkID, Prompt: "two"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(identities) != 2 || identities[0] == "" || identities[0] == identities[1] {
			t.Errorf("the identities of source and fork with the provider are %q, want two", identities)
		}
		refuse = true
		if _, err := h.Control(t.Context(), control.Fork{RequestID: "f2", EntryID: at}, nil); err == nil || !strings.Contains(err.Error(), "no more") {
			t.Errorf("a conversation that the project refuses = %v", err)
		}
		if made.Load() != 3 {
			t.Errorf("%d conversations were drafted, want 3", made.Load())
		}
	})
}

// A hook of a call that was not decided yet is asked again after a crash; the effect comes once.
func TestHooksOfACallAreAskedAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t, do("bash", `{}`), say("Done."))
		p.own = true
		asked := 0
		p.install(registry.Extension{Name: "app", Hooks: registry.Hooks{BeforeTool: func(context.Context, registry.ToolCall) (registry.ToolDecision, error) {
			asked++
			return nil, nil
		}}})
		h := p.open()
		if _, err := run(t.Context(), h, "r1", "go", &pausing{}); !fault.Is(err, fault.UserInputRequired) {
			t.Fatalf("the turn ended in %v, want a pause", err)
		}
		h.Close()
		h = p.open()
		defer h.Close()
		got, err := run(t.Context(), h, "r1", "go", allowing{})
		p.check(got, err, "call bash {}", "result ok {}", "text Done.", "answered")
		if n := p.bash.Load(); n != 1 || asked != 2 {
			t.Errorf("the call ran %d times and the hook was asked %d times, want 1 and 2", n, asked)
		}
	})
}

// A call that takes its process down again and again is given up, and the model hears of it.
func TestADeadlyCallIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, do("read", `{}`), say("Another way, then."))
		began := make(chan struct{}, 100)
		r.do = func(ctx context.Context, c tool.Call) (tool.Result, error) {
			began <- struct{}{}
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		runs := 0
		for range harness.MaxToolRestarts + 3 {
			dying := &mortal{Storage: r.storage.Reopen()}
			h := r.openOn(dying)
			ctx, cancel := context.WithCancelCause(t.Context())
			var err error
			done := make(chan struct{})
			var got []string
			go func() { defer close(done); got, err = run(ctx, h, "r1", "go", nil) }()
			synctest.Wait()
			select {
			case <-began:
				runs++
			default:
				<-done
				r.check(got, err, "call read {}", "result The program ended 10 times while this call ran, so it was not run again. Its outcome is unknown. Do it another way. interrupted", "text Another way, then.", "answered")
				if runs != harness.MaxToolRestarts+1 {
					t.Errorf("the call ran %d times, want once and %d more", runs, harness.MaxToolRestarts)
				}
				cancel(nil)
				h.Close()
				return
			}
			dying.dead.Store(true) // the process is gone: nothing it still writes lands
			h.Close()
			cancel(task.ErrSuspended)
			<-done
		}
		t.Error("the call was never given up")
	})
}

// mortal is a store that no longer takes commits once its process is dead.
type mortal struct {
	session.Storage
	dead atomic.Bool
}

func (m *mortal) Commit(b *session.Batch) error {
	if m.dead.Load() {
		return errPowerCut
	}
	return m.Storage.Commit(b)
}

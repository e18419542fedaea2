package agentcore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
	"github.com/workflowd/workflowd/store/sqlite"
)

// A store that begins to fail at commit n, whatever n is: the run ends with kind storage, and nobody asks the model any
// more.
// Promise: P-472
func TestAFailingStoreEndsTheRunAndNoModelIsAskedBehindIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		once  bool
	}{
		{"the effect is unknown", errors.New("the disk fell off"), false},
		{"the effect is unknown, once", errors.New("a cable was loose"), true},
		{"certainly nothing is written", fmt.Errorf("%w: the disk is full", session.ErrNoEffect), false},
	} {
		for name, place := range places {
			t.Run(c.name+", "+name, func(t *testing.T) {
				failures := 0
				for failsAt(t, place(t), failures, c.cause, c.once) {
					failures++
				}
				if failures < 4 { // the input, its round, the result, the answer
					t.Errorf("the run has %d commits", failures)
				}
			})
		}
	}
}

// failsAt reports whether a run got as far as commit n.
func failsAt(t *testing.T, place func(wrap) agentcore.StorageFactory, n int, cause error, once bool) bool {
	t.Helper()
	model := scriptOf(call("write", `{"path":"n.txt","content":"x"}`), say("Written."), say("Unasked."))
	commits, asked := 0, -1
	a, err := agentcore.New(t.Context(), agentcore.Options{Model: "m", LLM: model.Provider(), Workdir: t.TempDir(),
		Storage: place(func(s session.Storage) session.Storage {
			return &sessiontest.Faulty{Storage: s, Before: func(*session.Batch) error {
				commits++
				if commits <= n || once && commits > n+1 {
					return nil
				}
				if asked < 0 {
					asked = len(model.Requests())
				}
				return cause
			}}
		})})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = follow(a, agentcore.Input{RequestID: "r1", Prompt: "write"}, nil)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if asked < 0 {
		if err != nil {
			t.Errorf("without a failure: %v", err)
		}
		return false
	}
	if !fault.Is(err, fault.Storage) || len(model.Requests()) != asked {
		t.Errorf("commit %d failed: the run ends with %v (%s), and the model is asked %d times behind it", n, err, fault.KindOf(err), len(model.Requests())-asked)
	}
	return true
}

// unread is a storage that cannot be read any more.
type unread struct {
	session.Storage
	from *int // how many reads still go well
}

var errUnread = errors.New("the disk reads nothing")

func (u unread) SubmissionByRequest(c session.ConversationID, id string) (session.Submission, error) {
	if *u.from--; *u.from < 0 {
		return session.Submission{}, errUnread
	}
	return u.Storage.SubmissionByRequest(c, id)
}

func (u unread) Submission(id session.SubmissionID) (session.Submission, error) {
	if *u.from--; *u.from < 0 {
		return session.Submission{}, errUnread
	}
	return u.Storage.Submission(id)
}

// Promise: P-472
func TestAStoreThatCannotBeReadEndsTheRunToo(t *testing.T) {
	for n := range 4 {
		b, left := newBackend(), n
		b.over = func(s session.Storage) session.Storage { return unread{s, &left} }
		model := scriptOf(say("Hello."))
		_, _, err := follow(open(t, agentcore.Options{Storage: b.storage()}, model), agentcore.Input{RequestID: "r1", Prompt: "hello"}, nil)
		if want := max(0, n-2); !fault.Is(err, fault.Storage) || len(model.Requests()) != want { // the last of them is in the answer's commit
			t.Errorf("read %d failed: %v (%s), %d requests", n, err, fault.KindOf(err), len(model.Requests()))
		}
	}
}

// A store that refuses one write of a turn, and certainly did not write it, ends the turn too; the ending is on record.
// Promise: P-472, P-800
func TestAStoreThatRefusesAnAnswerEndsTheTurnForGood(t *testing.T) {
	b := newBackend()
	model := scriptOf(say("Unheard."), say("Unasked."))
	b.over = func(s session.Storage) session.Storage {
		return &sessiontest.Faulty{Storage: s, Before: func(batch *session.Batch) error {
			for _, e := range batch.Entries {
				if e.Kind == "workflow.assistant" && len(batch.Submissions) > 0 && batch.Submissions[0].Status == session.SubmissionAnswered {
					return fmt.Errorf("%w: the disk is full", session.ErrNoEffect)
				}
			}
			return nil
		}}
	}
	in := agentcore.Input{RequestID: "r1", Prompt: "hello"}
	for range 2 {
		a := open(t, agentcore.Options{Storage: b.storage()}, model)
		for range 2 {
			if _, _, err := follow(a, in, nil); !fault.Is(err, fault.Storage) || !strings.Contains(err.Error(), "the disk is full") || len(model.Requests()) != 1 {
				t.Errorf("err = %v (%s), %d requests", err, fault.KindOf(err), len(model.Requests()))
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Promise: P-800
func TestAFailedOrStoppedTurnIsToldAgainWithItsEnding(t *testing.T) {
	stop := errors.New("enough")
	for _, c := range []struct {
		name string
		rs   []scripted.Response
		stop bool
		kind fault.Kind
	}{
		{"failed", []scripted.Response{call("ls", `{"path":"."}`), {scripted.Status{Code: 401, Message: "who are you"}}}, false, fault.ModelError},
		{"stopped", []scripted.Response{call("ls", `{"path":"."}`), {scripted.Text{Text: "I will never e"}, scripted.Stall{}}}, true, fault.ExecutionAborted},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, model := filepath.Join(t.TempDir(), "s.db"), scriptOf(c.rs...)
			in := agentcore.Input{RequestID: "r1", Prompt: "go"}
			a := open(t, agentcore.Options{DatabasePath: path}, model)
			ctx, cancel := context.WithCancelCause(t.Context())
			var first error
			tools := 0
			for e, err := range a.Run(ctx, in, nil) {
				switch e := e.(type) {
				case agentcore.ToolEvent:
					tools++
				case agentcore.TextDelta:
					if c.stop && e.Text != "" {
						cancel(stop)
					}
				}
				first = err
			}
			cancel(nil)
			if !fault.Is(first, c.kind) {
				t.Fatalf("err = %v", first)
			}
			for range 2 {
				told := 0
				for e, err := range a.Run(t.Context(), in, nil) {
					if _, ok := e.(agentcore.ToolEvent); ok {
						told++
					}
					if err != nil && (!fault.Is(err, c.kind) || err.Error() != first.Error()) {
						t.Errorf("told again: %v, first %v", err, first)
					}
				}
				if len(model.Requests()) != 2 || told != tools {
					t.Errorf("%d requests; %d tool events, first %d", len(model.Requests()), told, tools)
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				a = open(t, agentcore.Options{DatabasePath: path}, model)
			}
		})
	}
}

// Promise: P-474
func TestTranscriptsInAnOldKeyValueFormAreNeitherReadNorTouched(t *testing.T) {
	dir := t.TempDir()
	path := sessionPath(dir, chat, "main")
	old := map[string]string{
		filepath.Join(dir, "transcript:"+chat+".json"):                     `[{"role":"user","content":"planted"}]`,
		filepath.Join(filepath.Dir(path), "main.json"):                     `{"transcript":[{"role":"user","content":"planted"}]}`,
		filepath.Join(filepath.Dir(path), "kv", "transcript", "main.kv"):   "planted",
		strings.TrimSuffix(path, filepath.Ext(path)) + ".transcript.jsonl": `{"role":"user","content":"planted"}`,
	}
	for name, text := range old {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	a, model := openSpied(t, agentcore.Options{DatabasePath: path}, say("Hello."))
	ask(t, a, "r1", "hello")
	same(t, "request", model.asked(0), `user "hello"`)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range old {
		if got := string(read(t, name)); got != text {
			t.Errorf("%s is now %q", name, got)
		}
	}
	// A key-value database where the session's file would be is another program's.
	theirs := filepath.Join(dir, "kv.db")
	db, err := sqlite.Open(theirs, sqlite.Options{})
	if err == nil {
		_, err = db.Exec(`CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT)`)
	}
	if err == nil {
		_, err = db.Exec(`INSERT INTO kv VALUES ('transcript', '[{"role":"user","content":"planted"}]')`)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before := read(t, theirs)
	if _, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: theirs, Model: "m", LLM: model}); !errors.Is(err, sqlite.ErrForeign) || !fault.Is(err, fault.Storage) {
		t.Errorf("err = %v, want that it is another program's", err)
	}
	if !bytes.Equal(before, read(t, theirs)) {
		t.Error("the other program's database changed")
	}
}

// planner is a host that keeps the plans it is asked about, and has an answer or none.
type planner struct {
	doubter
	asked  []agentcore.PlanRequest
	answer *agentcore.PlanDecision
}

func (p *planner) ApprovePlan(_ context.Context, r agentcore.PlanRequest) (agentcore.PlanDecision, error) {
	p.asked = append(p.asked, r)
	if p.answer == nil {
		return agentcore.PlanDecision{}, fault.New(fault.UserInputRequired, "ask somebody")
	}
	return *p.answer, nil
}

// Promise: P-481, P-482
func TestAMemoryAgentKeepsItsPausesWhileItLives(t *testing.T) {
	t.Run("a call", func(t *testing.T) {
		model := scriptOf(call("deploy", `{"where":"here"}`), say("Deployed."), call("deploy", `{"where":"here"}`))
		o := agentcore.Options{ExtraTools: deploy(t)}
		in := agentcore.Input{RequestID: "r1", Prompt: "deploy"}
		a := open(t, o, model)
		for range 2 {
			if _, _, err := follow(a, in, doubter{}); !fault.Is(err, fault.UserInputRequired) || len(model.Requests()) != 1 {
				t.Fatalf("%v, %d requests", err, len(model.Requests()))
			}
		}
		if _, text, err := follow(a, in, doubter{decided: true}); err != nil || text != "Deployed." || len(model.Requests()) != 2 {
			t.Errorf("%q, %v, %d requests", text, err, len(model.Requests()))
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := follow(open(t, o, model), in, doubter{}); !fault.Is(err, fault.UserInputRequired) || len(model.Requests()) != 3 {
			t.Errorf("a new agent: %v, %d requests: want the turn from its beginning", err, len(model.Requests()))
		}
	})
	t.Run("a plan", func(t *testing.T) {
		model := scriptOf(say("1. Do it"), say("1. Do it"))
		in := agentcore.Input{RequestID: "r1", Prompt: "plan", Agent: permission.Plan}
		a, host := open(t, agentcore.Options{}, model), &planner{}
		for range 2 {
			if _, _, err := follow(a, in, host); !fault.Is(err, fault.UserInputRequired) {
				t.Fatal(err)
			}
		}
		host.answer = &agentcore.PlanDecision{Approve: true}
		if _, _, err := follow(a, in, host); err != nil || len(model.Requests()) != 1 {
			t.Errorf("%v, %d requests", err, len(model.Requests()))
		}
		if ids := host.asked; len(ids) != 3 || ids[0] != ids[1] || ids[0] != ids[2] {
			t.Errorf("the plan was put to the host as %+v", ids)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		other := &planner{}
		if _, _, err := follow(open(t, agentcore.Options{}, model), in, other); !fault.Is(err, fault.UserInputRequired) || len(model.Requests()) != 2 || other.asked[0].RequestID == host.asked[0].RequestID {
			t.Errorf("a new agent: %v, %d requests, asked %+v", err, len(model.Requests()), other.asked)
		}
	})
}

// Promise: P-002
func TestOneScriptLeavesTheSameRecordsInMemoryAndInAFile(t *testing.T) {
	work := t.TempDir()
	tell := func(o agentcore.Options) []string {
		o.Workdir, o.ExtraTools = work, deploy(t)
		a := open(t, o, scriptOf(
			call("ls", `{"path":"."}`), scripted.Response{scripted.Thinking{Text: "hm"}, scripted.Text{Text: "Half"}, scripted.Length{}}, say(" an answer."),
			call("deploy", `{"where":"here"}`), say("Deployed."),
			scripted.Response{scripted.Status{Code: 401}},
			say("1. Do it")))
		if err := a.RestoreTranscript(t.Context(), []llm.Message{user("before"), said("Restored.")}); err != nil {
			t.Fatal(err)
		}
		ask(t, a, "r1", "one")
		if err := a.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, host := range []agentcore.Host{doubter{}, doubter{decided: true}} {
			_, _, err := follow(a, agentcore.Input{RequestID: "r2", Prompt: "two"}, host)
			if err != nil && !fault.Is(err, fault.UserInputRequired) {
				t.Fatal(err)
			}
		}
		if _, _, err := follow(a, agentcore.Input{RequestID: "r3", Prompt: "three"}, nil); !fault.Is(err, fault.ModelError) {
			t.Fatal(err)
		}
		if _, _, err := follow(a, agentcore.Input{RequestID: "r4", Prompt: "four", Agent: permission.Plan}, &planner{answer: &agentcore.PlanDecision{Approve: true}}); err != nil {
			t.Fatal(err)
		}
		return records(t, a)
	}
	memory, file := tell(agentcore.Options{}), tell(agentcore.Options{DatabasePath: filepath.Join(t.TempDir(), "s.db")})
	if d := cmp.Diff(memory, file); d != "" || len(memory) < 30 {
		t.Errorf("%d records, -memory +file\n%s", len(memory), d)
	}
}

// records are the entries, tasks and inputs of an agent, as text. Ids become ranks: those of an answer's live part lie
// between them, and how often that is written depends on the clock. So do the numbers of commits.
func records(t *testing.T, a *agentcore.Agent) []string {
	t.Helper()
	var all []any
	ranks := map[int64]int{}
	err := a.Session().View(t.Context(), func(tx *session.Tx) error {
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		tasks, terr := tx.Tasks(session.TaskQuery{})
		subs, serr := tx.Submissions(session.Root)
		var ids []int64
		for _, e := range slices.Backward(entries) {
			e.Seq = 0
			all, ids = append(all, e), append(ids, int64(e.ID))
		}
		for _, k := range tasks {
			all, ids = append(all, k), append(ids, int64(k.ID))
		}
		for _, s := range subs {
			if strings.HasPrefix(s.RequestID, "r") && len(s.RequestID) > 2 { // minted
				s.RequestID = "minted"
			}
			all, ids = append(all, s), append(ids, int64(s.ID))
		}
		slices.Sort(ids)
		for i, id := range ids {
			ranks[id] = i
		}
		return errors.Join(err, terr, serr)
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range all {
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		raw, err = json.Marshal(ranked("", v, ranks))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%T %s", r, bytes.ReplaceAll(raw, []byte(a.SessionID()), []byte("STORE"))))
	}
	return out
}

// idKeys name the fields that hold ids.
var idKeys = []string{"id", "head", "byTask", "owner", "on", "entry", "answer", "sub", "joined", "cutoff", "turn"}

func ranked(key string, v any, ranks map[int64]int) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = ranked(k, v[k], ranks)
		}
		delete(v, "durationMs")
	case []any:
		for i := range v {
			v[i] = ranked(key, v[i], ranks)
		}
	case float64:
		if slices.Contains(idKeys, key) {
			return rank(ranks, int64(v))
		}
	case string:
		if at := presentation.FindStringSubmatch(v); at != nil && (key == "callId" || key == "recordId") {
			entry, err := strconv.ParseInt(at[2], 10, 64)
			if err == nil {
				return at[1] + rank(ranks, entry) + at[3]
			}
		}
	}
	return v
}

// presentation is a call id or a bill's: with the store or without, entry and index.
var presentation = regexp.MustCompile(`^(.*/)?(\d+)(\.\d+)$`)

func rank(ranks map[int64]int, id int64) string {
	if n, ok := ranks[id]; ok {
		return fmt.Sprintf("#%d", n)
	}
	return "#unwritten" // reserved for an answer that failed
}

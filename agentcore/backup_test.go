package agentcore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// doubter is a host that cannot decide calls until it has made up its mind.
type doubter struct{ decided bool }

func (d doubter) ApproveToolCall(context.Context, agentcore.ToolApproval) error {
	if d.decided {
		return nil
	}
	return fault.New(fault.UserInputRequired, "ask somebody")
}

func (doubter) ApprovePlan(context.Context, agentcore.PlanRequest) (agentcore.PlanDecision, error) {
	return agentcore.PlanDecision{}, errors.New("no plans here")
}

func (doubter) ReportUsage(context.Context, agentcore.UsageReport) error { return nil }

func deploy(t *testing.T) []tool.Tool {
	t.Helper()
	type args struct {
		Where string `json:"where"`
	}
	return []tool.Tool{tool.New("deploy", "deploys", func(context.Context, tool.Call, args) (tool.Result, error) { return tool.Text("deployed"), nil })}
}

// paused leaves a session file at path in the middle of a turn: a call waits for a person, a second input for its turn.
func paused(t *testing.T, path string) {
	t.Helper()
	_ = agentcore.Drain() // what closings of earlier tests failed at is not of this one
	a, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Workdir: t.TempDir(), ExtraTools: deploy(t),
		Model: "m", LLM: scriptOf(call("deploy", `{"where":"here"}`)).Provider()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("got %v", err)
	}
	if err := errors.Join(a.Close(), agentcore.Drain()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Promise: P-317, P-318, P-823
func TestUnfinishedWorkOfAnImportedSessionGoesOn(t *testing.T) {
	dir := t.TempDir()
	source, backup, restored := filepath.Join(dir, "a.db"), filepath.Join(dir, "backup.db"), filepath.Join(dir, "b.db")
	paused(t, source)
	if err := agentcore.ExportDatabase(t.Context(), source, backup); err != nil {
		t.Fatal(err)
	}
	before := read(t, source)
	if err := agentcore.ImportDatabase(t.Context(), backup, restored); err != nil {
		t.Fatal(err)
	}
	a := open(t, agentcore.Options{DatabasePath: restored, ExtraTools: deploy(t)}, scriptOf(call("deploy", `{"where":"here"}`), say("Deployed.")))
	if _, text, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{decided: true}); err != nil || text != "Deployed." {
		t.Errorf("%q, %v", text, err)
	}
	if !bytes.Equal(before, read(t, source)) {
		t.Error("the source changed")
	}
}

// Promise: P-319, P-323, P-325
func TestARefusedCopySaysWhyByItsKind(t *testing.T) {
	dir := t.TempDir()
	path, other, none := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "none.db")
	running := open(t, agentcore.Options{DatabasePath: path}, scriptOf(say("Hello.")))
	if _, _, err := follow(running, agentcore.Input{RequestID: "r1", Prompt: "hello"}, nil); err != nil {
		t.Fatal(err)
	}
	paused(t, other)
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database\n"), 200), 0o600); err != nil {
		t.Fatal(err)
	}
	before := read(t, other)
	for _, test := range []struct {
		name, from, to string
		want           fault.Kind
	}{
		{"in use", path, none, fault.SessionBusy},
		{"the other in use", other, path, fault.Conflict},
		{"nothing there", none, filepath.Join(dir, "x.db"), fault.NotFound},
		{"no session", text, none, fault.InputValidation},
		{"it exists", path, other, fault.SessionBusy},
	} {
		for verb, transfer := range map[string]func(context.Context, string, string) error{"export": agentcore.ExportDatabase, "import": agentcore.ImportDatabase} {
			if err := transfer(t.Context(), test.from, test.to); !fault.Is(err, test.want) {
				t.Errorf("%s, %s: %v, want %s", verb, test.name, err, test.want)
			}
		}
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused copy left a file: %v", err)
	}
	if !bytes.Equal(before, read(t, other)) {
		t.Error("an existing session changed")
	}
}

// Promise: P-327, P-328
func TestABackupHoldsNoKeyAndNoFileOfTheWorkspace(t *testing.T) {
	const key, secret = "sk-planted-4711", "content of a workspace file"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"content": "Hello."}, "finish_reason": "stop"}}})
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", chunk)
	}))
	t.Cleanup(server.Close)
	workdir := t.TempDir()
	if err := os.WriteFile(filepath.Join(workdir, "notes.txt"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "a.db"), filepath.Join(dir, "backup.db")
	a, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Workdir: workdir, Model: "m", BaseURL: server.URL, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "a prompt to find again"}, nil)
	if err != nil || text != "Hello." {
		t.Fatalf("%q, %v", text, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := agentcore.ExportDatabase(t.Context(), path, backup); err != nil { // waits for the closing by itself
		t.Fatal(err)
	}
	copied := read(t, backup)
	if bytes.Contains(copied, []byte(key)) || bytes.Contains(copied, []byte(secret)) {
		t.Error("the backup holds what it must not")
	}
	if !bytes.Contains(copied, []byte("a prompt to find again")) {
		t.Error("the backup does not hold the conversation: this proves nothing")
	}
	http.DefaultClient.CloseIdleConnections()
}

package agentcore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
)

var errOwned = errors.New("backend: somebody else has it")

// backend is a host's own place for one session: its data outlives its owners, of which there is one at a time.
//
// mu guards owned and log.
type backend struct {
	data *session.Memory
	over func(session.Storage) session.Storage // nil = the data itself

	mu    sync.Mutex
	owned bool
	log   []string
}

func newBackend() *backend { return &backend{data: session.NewMemory()} }

func (b *backend) storage() agentcore.StorageFactory {
	return agentcore.StorageFactory{Label: "shelf 4", Open: func(context.Context) (session.Storage, func() error, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.owned {
			return nil, nil, errOwned
		}
		b.owned = true
		b.log = append(b.log, "open")
		var s session.Storage = b.data.Reopen()
		if b.over != nil {
			s = b.over(s)
		}
		return backendStorage{s, b}, b.release, nil
	}}
}

func (b *backend) release() error {
	b.note("release")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owned = false
	return nil
}

func (b *backend) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, what)
}

// did checks what happened to the backend so far.
func (b *backend) did(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := cmp.Diff(want, b.log); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// look reads the data from outside.
func (b *backend) look(t *testing.T, do func(*session.Tx) error) {
	t.Helper()
	s, err := session.Open(t.Context(), b.data.Reopen())
	if err == nil {
		err = errors.Join(s.View(t.Context(), do), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

type backendStorage struct {
	session.Storage
	b *backend
}

func (s backendStorage) Close() error {
	s.b.note("close")
	return s.Storage.Close()
}

// Promise: P-310, P-312
func TestATurnRunsOnAHostsOwnStorageWhichIsReleasedOnceBehindItsEnd(t *testing.T) {
	b := newBackend()
	a := open(t, agentcore.Options{Storage: b.storage()}, scriptOf(call("write", `{"path":"n.txt","content":"x"}`), say("Written.")))
	if _, text, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "write"}, nil); err != nil || text != "Written." {
		t.Fatalf("%q, %v", text, err)
	}
	b.did(t, "open")
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	b.did(t, "open", "close", "release")
	b.look(t, func(tx *session.Tx) error {
		sub, err := tx.SubmissionByRequest(session.Root, "r1")
		if sub.Status != session.SubmissionAnswered {
			t.Errorf("the backend holds %+v", sub)
		}
		return err
	})
}

// Promise: P-309
func TestAStorageAndADatabasePathExcludeEachOther(t *testing.T) {
	b, path := newBackend(), filepath.Join(t.TempDir(), "deep", "s.db")
	for _, o := range []agentcore.Options{
		{DatabasePath: path, Storage: b.storage()},
		{Storage: agentcore.StorageFactory{Label: "shelf 4"}},
		{Storage: b.storage(), SessionID: "\xff"},
	} {
		o.Model, o.LLM = "m", scriptOf().Provider()
		if _, err := agentcore.New(t.Context(), o); !fault.Is(err, fault.InputValidation) {
			t.Errorf("err = %v, want input_validation", err)
		}
	}
	b.did(t)
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

// Promise: P-311
func TestAnOwnershipErrorOfTheHostIsTheErrorOfNew(t *testing.T) {
	b := newBackend()
	a := open(t, agentcore.Options{Storage: b.storage()}, scriptOf(say("Hello.")))
	_, err := agentcore.New(t.Context(), agentcore.Options{Storage: b.storage(), Model: "m", LLM: scriptOf().Provider()})
	if !errors.Is(err, errOwned) || !strings.Contains(err.Error(), "shelf 4") || !fault.Is(err, fault.Storage) {
		t.Errorf("err = %v (%s)", err, fault.KindOf(err))
	}
	if _, _, err := follow(a, agentcore.Input{Prompt: "hello"}, nil); err != nil {
		t.Errorf("the owner was disturbed: %v", err)
	}
	b.did(t, "open")
	typed := agentcore.StorageFactory{Label: "x", Open: func(context.Context) (session.Storage, func() error, error) {
		return nil, nil, fault.New(fault.SessionBusy, "process 7 has it")
	}}
	if _, err := agentcore.New(t.Context(), agentcore.Options{Storage: typed, Model: "m", LLM: scriptOf().Provider()}); !fault.Is(err, fault.SessionBusy) {
		t.Errorf("err = %v, want the kind that the host gave", err)
	}
}

// unreadable is a storage that fails as soon as it is used.
type unreadable struct{ session.Storage }

func (unreadable) Acquire(context.Context) (session.State, error) {
	return session.State{}, session.ErrCorrupt
}

// Promise: P-312
func TestAStorageIsReleasedAlsoWhenNewFailsBehindIt(t *testing.T) {
	b := newBackend()
	b.over = func(s session.Storage) session.Storage { return unreadable{s} }
	fails := func(o agentcore.Options, kind fault.Kind) {
		t.Helper()
		o.Model, o.LLM, o.Storage = "m", scriptOf().Provider(), b.storage()
		if _, err := agentcore.New(t.Context(), o); !fault.Is(err, kind) {
			t.Errorf("err = %v, want %s", err, kind)
		}
	}
	fails(agentcore.Options{}, fault.Storage)
	b.did(t, "open", "close", "release")
	b.over = nil
	open(t, agentcore.Options{Storage: b.storage(), SessionID: "one"}, scriptOf()).Close()
	fails(agentcore.Options{SessionID: "two"}, fault.Conflict)
	b.did(t, "open", "close", "release", "open", "close", "release", "open", "close", "release")
	released := 0
	nothing := agentcore.StorageFactory{Open: func(context.Context) (session.Storage, func() error, error) {
		return nil, func() error { released++; return nil }, nil
	}}
	if _, err := agentcore.New(t.Context(), agentcore.Options{Storage: nothing, Model: "m", LLM: scriptOf().Provider()}); !fault.Is(err, fault.Internal) || released != 1 {
		t.Errorf("err = %v, released %d times", err, released)
	}
}

// Promise: P-313
func TestTheSameDataOpenedAgainGoesOn(t *testing.T) {
	b := newBackend()
	in := agentcore.Input{RequestID: "r1", Prompt: "deploy"}
	a := open(t, agentcore.Options{Storage: b.storage(), ExtraTools: deploy(t)}, scriptOf(call("deploy", `{"where":"here"}`)))
	if _, _, err := follow(a, in, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v", err)
	}
	id := a.SessionID()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	model := scriptOf(say("Deployed."))
	a = open(t, agentcore.Options{Storage: b.storage(), ExtraTools: deploy(t)}, model)
	if _, text, err := follow(a, in, doubter{decided: true}); err != nil || text != "Deployed." || a.SessionID() != id || len(model.Requests()) != 1 {
		t.Errorf("%q, %v, %d requests", text, err, len(model.Requests()))
	}
}

// Promise: P-314, P-315
func TestExportAndOfflineCancelKnowOurFilesAndNothingElse(t *testing.T) {
	b := newBackend()
	a := open(t, agentcore.Options{Storage: b.storage(), ExtraTools: deploy(t)}, scriptOf(call("deploy", `{"where":"here"}`)))
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// The host keeps a file of its own for the session, where ours would be.
	dir := t.TempDir()
	ours := sessionPath(dir, chat, "main")
	theirs := filepath.Join(filepath.Dir(ours), "theirs.json")
	paused(t, ours)
	if err := os.WriteFile(theirs, []byte(`{"backend":"shelf 4"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for verb, transfer := range map[string]func(context.Context, string, string) error{"export": agentcore.ExportDatabase, "import": agentcore.ImportDatabase} {
		to := filepath.Join(dir, verb+".db")
		if err := transfer(t.Context(), theirs, to); !fault.Is(err, fault.InputValidation) {
			t.Errorf("%s: err = %v, want input_validation", verb, err)
		}
		if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s left a file: %v", verb, err)
		}
	}
	n, err := agentcore.CancelConversation(t.Context(), agentcore.CancelOptions{AgentStoreDir: dir, Conversation: chat})
	if err != nil || n != 2 {
		t.Errorf("%d tasks ended, %v: want those of our file", n, err)
	}
	if got := string(read(t, theirs)); got != `{"backend":"shelf 4"}` {
		t.Errorf("the host's file is now %s", got)
	}
	b.did(t, "open", "close", "release")
	b.look(t, func(tx *session.Tx) error {
		if len(tx.LiveTasks()) != 2 {
			t.Errorf("%d live tasks in the backend, want 2", len(tx.LiveTasks()))
		}
		return nil
	})
}

// Promise: P-316
func TestASessionWithAPathAndNothingElseIsASQLiteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := open(t, agentcore.Options{DatabasePath: path}, scriptOf(say("Hello.")))
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "hello"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), agentcore.Drain()); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	if !bytes.HasPrefix(read(t, path), []byte("SQLite format 3\x00")) || !slices.Equal(names, []string{"s.db", "s.db.lock"}) {
		t.Errorf("files %q; %s begins with %q", names, path, read(t, path)[:16])
	}
}

// Promise: P-302
func TestTheFileAndTheWorkingDirectoryAreAllThatGoingOnNeeds(t *testing.T) {
	before, after, work := t.TempDir(), t.TempDir(), t.TempDir()
	path, moved := filepath.Join(before, "s.db"), filepath.Join(after, "other name.db")
	in := agentcore.Input{RequestID: "r1", Prompt: "note it, deploy, and read it back"}
	a := open(t, agentcore.Options{DatabasePath: path, Workdir: work, ExtraTools: deploy(t)},
		scriptOf(call("write", `{"path":"note.txt","content":"noted"}`), call("deploy", `{"where":"here"}`)))
	if _, _, err := follow(a, in, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v", err)
	}
	if err := errors.Join(a.Close(), agentcore.Drain(), os.Rename(path, moved), os.RemoveAll(before)); err != nil {
		t.Fatal(err)
	}
	model := scripted.New(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
		if last := r.Messages[len(r.Messages)-1]; last.Text == "deployed" {
			return call("read", `{"path":"note.txt"}`), nil
		} else {
			return say("It says: " + last.Text), nil
		}
	}), scripted.Options{})
	a = open(t, agentcore.Options{DatabasePath: moved, ExtraTools: deploy(t)}, model)
	if _, text, err := follow(a, in, doubter{decided: true}); err != nil || !strings.Contains(text, "noted") {
		t.Errorf("%q, %v", text, err)
	}
}

// Promise: P-007
func TestASessionKeepsTheNameItWasMadeWith(t *testing.T) {
	for _, place := range []struct {
		name string
		at   func() agentcore.Options
	}{
		{"file", func() func() agentcore.Options {
			path := filepath.Join(t.TempDir(), "s.db")
			return func() agentcore.Options { return agentcore.Options{DatabasePath: path} }
		}()},
		{"backend", func() func() agentcore.Options {
			b := newBackend()
			return func() agentcore.Options { return agentcore.Options{Storage: b.storage()} }
		}()},
	} {
		t.Run(place.name, func(t *testing.T) {
			named := func(id string) (string, error) {
				o := place.at()
				o.SessionID, o.Model, o.LLM = id, "m", scriptOf(say("Hello.")).Provider()
				a, err := agentcore.New(t.Context(), o)
				if err != nil {
					return "", err
				}
				first := a.SessionID()
				if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "hello"}, nil); err != nil {
					return "", err
				}
				if now := a.SessionID(); now != first {
					t.Errorf("it changed from %q to %q", first, now)
				}
				return first, a.Close()
			}
			for _, c := range []struct{ give, want string }{{"chat-7 / main", "chat-7 / main"}, {"", "chat-7 / main"}, {"chat-7 / main", "chat-7 / main"}} {
				if got, err := named(c.give); err != nil || got != c.want {
					t.Errorf("given %q: %q, %v", c.give, got, err)
				}
			}
			_, err := named("another")
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "chat-7 / main") {
				t.Errorf("another name: %v, want a conflict that says the first", err)
			}
		})
	}
}

// Promise: P-007
func TestASessionWithoutANameHasThatOfItsStoreForGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := open(t, agentcore.Options{DatabasePath: path}, scriptOf(say("Hello.")))
	id := a.SessionID()
	if _, _, err := follow(a, agentcore.Input{Prompt: "hello"}, nil); err != nil || id == "" {
		t.Fatal(id, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, SessionID: "late", Model: "m", LLM: scriptOf().Provider()}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a name given later: %v, want a conflict", err)
	}
	if again := open(t, agentcore.Options{DatabasePath: path, SessionID: id}, scriptOf()); again.SessionID() != id {
		t.Errorf("%q, want %q", again.SessionID(), id)
	}
	unused := filepath.Join(t.TempDir(), "unused.db") // opened before, and nothing was said
	if err := open(t, agentcore.Options{DatabasePath: unused}, scriptOf()).Close(); err != nil {
		t.Fatal(err)
	}
	if a := open(t, agentcore.Options{DatabasePath: unused, SessionID: "first"}, scriptOf()); a.SessionID() != "first" {
		t.Errorf("%q, want first", a.SessionID())
	}
}

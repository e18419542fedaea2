package sessionstore

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Files written by released versions are kept for ever and must open for ever. writeOld makes the one of this version,
// once, before its release; afterwards the file does not change.
var writeOld = flag.Bool("write-old", false, "write testdata/v1.db instead of reading it")

const (
	oldFile = "testdata/v1.db"
	oldMost = 64 * 1024 // bytes
)

// Records of the old file.
var (
	oldFork = session.Conversation{ID: 20, Parent: &session.Fork{Conversation: session.Root, At: 3}, Owner: 10}
	oldTask = session.Task{ID: 10, Conversation: session.Root, Kind: "app.job", Version: 2, Background: true, Status: session.TaskWaiting,
		Phase: "await", Checkpoint: []byte(`{"phase":"await"}`), On: []session.TaskID{11}, Policy: "failFast", Abort: true, AbortReason: "stop",
		Epoch: 1, Input: []byte(`"in"`), Memos: []byte(`{"k":1}`)}
	oldDone = session.Task{ID: 11, Conversation: session.Root, Kind: "app.job", Version: 1, Owner: 10, Status: session.TaskTerminal, Epoch: 1,
		Outcome: &session.Outcome{Status: session.Failed, Result: []byte(`1`), Error: "broke", Reason: "because"}}
	oldSubmission = session.Submission{ID: 12, Conversation: session.Root, RequestID: "run_1/agent#1", Digest: "d", Status: session.SubmissionAnswered,
		Payload: []byte(`{"text":"hi"}`), Entry: 3, Answer: 5, Reason: "r", Detail: "x"}
	oldEntries = []session.Entry{ // newest first, as the fork sees them
		{ID: 21, Conversation: 20, Seq: 2, Kind: "pi.reset", Model: []byte(`"handoff"`), Head: 21, ByTask: 10,
			Edits: []session.Edit{{Target: 3, Model: []byte(`"edited"`)}, {Target: 2}}},
		{ID: 3, Conversation: session.Root, Seq: 1, Kind: "pi.user", Model: []byte(`{"text":"é"}`), Data: []byte(`[1.50]`)},
		{ID: 2, Conversation: session.Root, Seq: 1, Kind: "app.note"},
	}
	oldAgent = session.Address{Scope: session.ScopeConversation, Owner: 1, Kind: "pi.agent"}
	oldLive  = session.Address{Scope: session.ScopeTask, Owner: 10, Kind: "pi.live", Key: "k"}
)

func createOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v1.db")
	o := acquired(t, path)
	o.state.NextID = 40
	change := func(id session.DocumentID, ops string) session.DocumentWrite {
		return session.DocumentWrite{ID: id, Delta: []byte(ops)}
	}
	o.must(t, session.Batch{
		Conversations: []session.Conversation{{ID: session.Root}, oldFork},
		Entries:       []session.Entry{oldEntries[1], oldEntries[2], {ID: 5, Conversation: session.Root, Kind: "pi.assistant"}},
		Tasks:         []session.Task{oldTask, oldDone}, Submissions: []session.Submission{oldSubmission},
		Documents: []session.DocumentWrite{
			{ID: 30, Address: oldAgent, Version: 1, Rewindable: true, Create: true, Base: []byte(`{"model":"a"}`)},
			{ID: 31, Address: oldLive, Version: 2, Create: true, Base: []byte(`{"text":"","tools":[1]}`)},
		}})
	o.must(t, session.Batch{Entries: []session.Entry{oldEntries[0]}, Documents: []session.DocumentWrite{
		change(30, `[{"op":"set","path":"/model","value":"b"}]`),
		change(31, `[{"op":"append","path":"/text","value":"abc"},{"op":"splice","path":"/tools/-","value":[2,3]}]`)}})
	o.must(t, session.Batch{Documents: []session.DocumentWrite{{ID: 30, Retire: true}, change(31, `[{"op":"trim","path":"/text","n":1}]`)}})
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(oldFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(oldFile, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheFileOfTheFirstVersionOpensForEver(t *testing.T) {
	if *writeOld {
		createOld(t)
	}
	text, err := os.ReadFile(oldFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > oldMost {
		t.Errorf("%d bytes, at most %d", len(text), oldMost)
	}
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o := acquired(t, path)
	if s := o.state; s.StoreID == "" || s.Epoch != 2 || s.Seq != 3 || s.NextID != 40 {
		t.Errorf("got %+v", s)
	}
	is := func(what string, got any, err error, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	fork, err := o.Conversation(20)
	is("fork", fork, err, oldFork)
	entries, err := o.Entries(session.EntryQuery{Conversation: 20})
	is("entries", entries, err, oldEntries)
	head, err := o.NewestHead(20, 0)
	is("head", head.ID, err, session.EntryID(21))
	tasks, err := o.Tasks(session.TaskQuery{})
	is("tasks", tasks, err, []session.Task{oldTask, oldDone})
	sub, err := o.SubmissionByRequest(session.Root, oldSubmission.RequestID)
	is("submission", sub, err, oldSubmission)
	for at, want := range map[session.Seq]string{1: `{"model":"a"}`, 2: `{"model":"b"}`} {
		doc, err := o.Document(oldAgent, at)
		is("rewindable document", string(doc.Value), err, want)
	}
	doc, err := o.Document(oldLive, 0)
	is("live document", doc, err, session.Document{ID: 31, Address: oldLive, Version: 2, Created: 1, Value: []byte(`{"text":"ab","tools":[1,2,3]}`), Deltas: 2})
	o.must(t, o.note(`"goes on"`))
}

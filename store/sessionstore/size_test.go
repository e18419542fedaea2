package sessionstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
)

// The session that the goal is about. Source: design 6.
const (
	goalRounds = 8         // tool rounds
	goalResult = 1 << 10   // bytes of one result
	goalBytes  = 48 * 1024 // of the file, closed
)

// rounds drafts a session of n tool rounds and its answer, in the shape the kernel writes: per round one commit with the
// assistant entry and the call's task, one with the result; a live document that grows with the answer.
func (o *owner) rounds(t testing.TB, n int) {
	o.root(t)
	result := fmt.Appendf(nil, `{"content":%q}`, bytes.Repeat([]byte("r"), goalResult))
	entry := func(kind string, model []byte) session.Entry {
		return session.Entry{ID: session.EntryID(o.id()), Conversation: session.Root, Kind: kind, Model: model}
	}
	user := entry("pi.user", []byte(`{"role":"user","content":[{"type":"text","text":"do the work"}]}`))
	o.must(t, session.Batch{Durability: session.Synced, Entries: []session.Entry{user}, Submissions: []session.Submission{{
		ID: session.SubmissionID(o.id()), Conversation: session.Root, RequestID: "run_1/agent#1", Digest: "0123456789abcdef", Status: session.SubmissionPlaced, Entry: user.ID}}})
	live := session.DocumentWrite{ID: session.DocumentID(o.id()), Address: session.Address{Scope: session.ScopeConversation, Owner: 1, Kind: "pi.live"},
		Create: true, Version: 1, Base: []byte(`{"text":""}`)}
	o.must(t, session.Batch{Documents: []session.DocumentWrite{live}})
	live.Create = false
	for round := range n {
		task := session.Task{ID: session.TaskID(o.id()), Conversation: session.Root, Kind: "pi.tool", Version: 1, Status: session.TaskPending, Phase: "run",
			Checkpoint: []byte(`{"phase":"run"}`), Input: fmt.Appendf(nil, `{"callId":"call_%d","name":"read","arguments":{"path":"file_%d.go"}}`, round, round)}
		assistant := entry("pi.assistant", fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"toolCall","id":"call_%d","name":"read","arguments":{"path":"file_%d.go"}}],"usage":{"input":100,"output":20}}`, round, round))
		o.must(t, session.Batch{Entries: []session.Entry{assistant}, Tasks: []session.Task{task}})
		task.Status, task.Phase, task.Checkpoint = session.TaskTerminal, "", nil
		task.Outcome = &session.Outcome{Status: session.Completed}
		live.Base = []byte(`{"text":""}`)
		o.must(t, session.Batch{Entries: []session.Entry{entry("pi.tool-result", result)}, Tasks: []session.Task{task}, Documents: []session.DocumentWrite{live}})
	}
	live.Base, live.Delta = nil, []byte(`[{"op":"append","path":"/text","value":"some words of the answer"}]`)
	for range 20 {
		o.must(t, session.Batch{Documents: []session.DocumentWrite{live}})
	}
	live.Base, live.Delta = []byte(`{"text":""}`), nil
	answer := entry("pi.assistant", fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"text","text":%q}]}`, bytes.Repeat([]byte("word "), 200)))
	o.must(t, session.Batch{Durability: session.Synced, Entries: []session.Entry{answer}, Documents: []session.DocumentWrite{live}})
}

func closedSize(t *testing.T, rounds int) int64 {
	path := filepath.Join(t.TempDir(), "x.db")
	o := acquired(t, path)
	o.rounds(t, rounds)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	var sum int64
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

func TestASessionOfEightToolRoundsIsSmallAndGrowsLinearly(t *testing.T) {
	small, large := closedSize(t, goalRounds), closedSize(t, 8*goalRounds)
	t.Logf("%d rounds: %d bytes; %d rounds: %d bytes", goalRounds, small, 8*goalRounds, large)
	if small > goalBytes {
		t.Errorf("%d bytes on disk, at most %d", small, goalBytes)
	}
	if large > 8*small {
		t.Errorf("eight times the rounds take %d bytes after %d", large, small)
	}
}

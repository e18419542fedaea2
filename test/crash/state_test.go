//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/store/sessionstore"
)

// state is what the files of a place hold. It is read from a copy, so that looking changes nothing.
type state struct {
	runs     []runState // oldest first
	sessions map[string]sessionState
	work     map[string]fileState // files of the working directory, by name
}

type runState struct {
	runlog.Run
	events []runlog.Event
	nodes  []runlog.Node
	usage  []runlog.UsageRecord
	asked  []runlog.Request
}

type sessionState struct {
	store   string
	entries []entry // oldest first
	live    []session.Task
	inputs  []session.Submission
}

// entry is an entry with its parts decoded.
type entry struct {
	session.Entry
	message llm.Message
	system  string
	data    entryFacts
}

// entryFacts is what the tests read of an entry's data.
type entryFacts struct {
	Usage []struct {
		RecordID string    `json:"recordId"`
		Usage    llm.Usage `json:"usage"`
	} `json:"usage"`
	Call *struct {
		Entry session.EntryID `json:"entry"`
		Index int             `json:"index"`
		Name  string          `json:"name"`
		Code  string          `json:"code"`
	} `json:"call"`
}

// fileState is what tells one writing of a file from the next.
type fileState struct {
	text  string
	inode uint64
	mtime int64
}

// lockSuffix and the log of a database stay where they are: a copy belongs to nobody.
const lockSuffix = ".lock"

func look(t *testing.T, s scenario, p *place) state {
	t.Helper()
	st := state{sessions: map[string]sessionState{}, work: map[string]fileState{}}
	copied, stores := copyData(t, s.dataDir(p))
	st.runs = readRuns(t, filepath.Join(copied, runsFile))
	for _, path := range stores {
		state := readSession(t, path)
		st.sessions[state.store] = state
	}
	st.readWork(t, p)
	return st
}

// runsFile is the file of the runs in a data directory.
const runsFile = "workflowd.db"

// copyData copies what a data directory holds, and names the copies of the sessions.
func copyData(t *testing.T, dir string) (copied string, sessions []string) {
	t.Helper()
	copied = t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(path, lockSuffix) || strings.HasSuffix(path, "-shm") {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(copied, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if strings.HasSuffix(path, ".db") && filepath.Dir(path) != dir {
			sessions = append(sessions, to)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, raw, 0o600)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return copied, sessions
}

func readRuns(t *testing.T, path string) []runState {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	store, err := runstore.Open(path)
	must(t, err)
	defer func() { must(t, store.Close()) }()
	runs, err := store.Runs(runlog.RunQuery{})
	must(t, err)
	slices.Reverse(runs)
	var list []runState
	for _, r := range runs {
		one := runState{Run: r}
		one.events, err = store.Events(r.ID, 0, 0)
		must(t, err)
		one.nodes, err = store.Nodes(r.ID)
		must(t, err)
		one.usage, err = store.Usage(r.ID)
		must(t, err)
		one.asked, err = store.Requests(runlog.RequestQuery{Run: r.ID})
		must(t, err)
		list = append(list, one)
	}
	return list
}

func readSession(t *testing.T, path string) (st sessionState) {
	t.Helper()
	ctx := context.Background()
	storage, err := sessionstore.Open(ctx, path, sessionstore.Options{MustExist: true})
	must(t, err)
	s, err := session.Open(ctx, storage)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	st.store = s.StoreID()
	must(t, s.View(ctx, func(tx *session.Tx) error {
		st.live = slices.Clone(tx.LiveTasks())
		list, err := tx.Submissions(session.Root)
		if err != nil {
			return err
		}
		st.inputs = list
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		if errors.Is(err, session.ErrNotFound) { // killed before the first input
			return nil
		}
		for _, e := range slices.Backward(entries) {
			st.entries = append(st.entries, decode(t, e))
		}
		return err
	}))
	return st
}

func decode(t *testing.T, e session.Entry) entry {
	t.Helper()
	out := entry{Entry: e}
	if e.Kind == "workflow.system" {
		var s struct {
			Text string `json:"text"`
		}
		must(t, json.Unmarshal(e.Model, &s))
		out.system = s.Text
	} else {
		must(t, json.Unmarshal(e.Model, &out.message))
	}
	must(t, json.Unmarshal(e.Data, &out.data))
	return out
}

func (st *state) readWork(t *testing.T, p *place) {
	t.Helper()
	list, err := os.ReadDir(p.work)
	must(t, err)
	for _, d := range list {
		info, err := d.Info()
		must(t, err)
		raw, err := os.ReadFile(filepath.Join(p.work, d.Name()))
		must(t, err)
		st.work[d.Name()] = fileState{string(raw), inode(t, info), info.ModTime().UnixNano()}
	}
}

// payload is what the run's agent node ended in.
func (r runState) payload(t *testing.T) agentnode.Payload {
	t.Helper()
	for _, n := range r.nodes {
		if n.Path == agentnode.DefaultName {
			var p agentnode.Payload
			must(t, json.Unmarshal(n.Output, &p))
			return p
		}
	}
	t.Fatalf("run %s has no agent node", r.ID)
	return agentnode.Payload{}
}

//go:build unix

package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
)

// leftover begins the name of a half-written file: a kill may leave one, and it is no one's file.
const leftover = ".workflowd-write-"

// trial is one story with its interruptions.
type trial struct {
	s     scenario
	b     *baseline // nil while the baseline itself is told
	p     *place
	ends  []ended // of every process, in order
	lefts []state // what each kill left, in order
}

// ran notes the end of a process and what a kill left.
func (tr *trial) ran(t *testing.T, e ended) {
	t.Helper()
	tr.ends = append(tr.ends, e)
	if e.killed {
		tally.killed()
		tr.lefts = append(tr.lefts, look(t, tr.s, tr.p))
	}
}

// check holds the end of a trial against everything that must be true. The last process has ended by itself.
func (tr *trial) check(t *testing.T) state {
	t.Helper()
	last := tr.ends[len(tr.ends)-1]
	if last.code != 0 {
		t.Fatalf("the command that carried on failed: %s", last)
	}
	if len(tr.lefts) > 0 {
		tally.restarted(last.took)
	}
	end := look(t, tr.s, tr.p)
	for i, r := range end.runs {
		one := end.sessions[r.payload(t).SessionID]
		checkLog(t, r)
		checkItems(t, r, one)
		checkSession(t, r, one)
		st := storyOf(t, one)
		if tr.b != nil {
			if diff := cmp.Diff(tr.b.expected(t, st), st); diff != "" {
				t.Errorf("run %s tells another story (-want +got):\n%s", r.ID, diff)
			}
		}
		tr.checkInterrupted(t, one)
		if i == len(end.runs)-1 && !jsonl(last.out) {
			tr.checkOutput(t, last, st)
		}
	}
	if len(end.runs) == 0 {
		t.Fatal("there is no run")
	}
	tr.checkReconnects(t, end)
	tr.checkKept(t, end)
	tr.checkExecuted(t, end)
	tr.checkEffects(t, end)
	if jsonl(last.out) {
		tr.checkReader(t, end)
	}
	return end
}

func jsonl(out string) bool { return strings.HasPrefix(out, `{"seq":`) }

// checkLog: numbers 1..n, one end, which is last.
func checkLog(t *testing.T, r runState) {
	t.Helper()
	if r.Status != runlog.Succeeded || r.LastSeq != runlog.Seq(len(r.events)) {
		t.Errorf("run %s: %s, last number %d, %d events", r.ID, r.Status, r.LastSeq, len(r.events))
	}
	for i, e := range r.events {
		if e.Seq != runlog.Seq(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
		if e.Kind.Terminal() != (i == len(r.events)-1) {
			t.Errorf("event %d of %d is %s", e.Seq, len(r.events), e.Kind)
		}
		if i > 0 && e.Epoch < r.events[i-1].Epoch {
			t.Errorf("event %d was written by owner %d, behind one of owner %d", e.Seq, e.Epoch, r.events[i-1].Epoch)
		}
	}
	for _, q := range r.asked {
		if q.Status != runlog.RequestHasAnswer {
			t.Errorf("request %s (%s) is %s", q.ID, q.Title, q.Status)
		}
	}
}

// checkItems: whoever reads the log, in one go or with any number of reconnections, sees exactly the items of the output;
// their text is the session's.
func checkItems(t *testing.T, r runState, s sessionState) {
	t.Helper()
	p := r.payload(t)
	want := encoded(t, p.Items)
	if got := encoded(t, fold(t, r.events).items(t)); got != want {
		t.Errorf("run %s: the log folds to other items than the output's:\n%s\noutput:\n%s", r.ID, got, want)
	}
	for _, it := range p.Items {
		if _, ring := it.Ring(); !ring && (it.Status == outputitems.StatusRunning || it.Status == outputitems.StatusWaiting) {
			t.Errorf("item %s is still %s", it.ID, it.Status)
		}
	}
	var said strings.Builder
	for _, e := range s.entries {
		if e.Kind == "workflow.assistant" {
			said.WriteString(e.message.Text())
		}
	}
	if p.Answer() != said.String() {
		t.Errorf("the items say %q, the session %q", p.Answer(), said.String())
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	must(t, err)
	return string(raw)
}

// checkSession: every input has its one end, nothing is left to do, each input stands once, each bill counts once and is
// the run's.
func checkSession(t *testing.T, r runState, s sessionState) {
	t.Helper()
	if len(s.live) > 0 {
		t.Errorf("%d tasks are still live, the first is %+v", len(s.live), s.live[0])
	}
	for _, in := range s.inputs {
		if in.Status != session.SubmissionAnswered || in.Answer == 0 {
			t.Errorf("input %q is %s", in.RequestID, in.Status)
		}
	}
	placed, ids := 0, map[session.EntryID]bool{}
	bills := map[string]workflow.Usage{}
	for _, e := range s.entries {
		if ids[e.ID] {
			t.Errorf("entry %d is there twice", e.ID)
		}
		ids[e.ID] = true
		if e.Kind == "workflow.user" {
			placed++
		}
		for _, u := range e.data.Usage {
			if _, known := bills[u.RecordID]; known {
				t.Errorf("bill %s is in the session twice", u.RecordID)
			}
			bills[u.RecordID] = asUsage(r.payload(t).Provider, r.payload(t).Model, u.Usage)
		}
	}
	if placed != len(s.inputs) || placed == 0 {
		t.Errorf("%d inputs, %d user entries", len(s.inputs), placed)
	}
	reported := map[string]workflow.Usage{}
	for _, u := range r.usage {
		if _, known := reported[u.RecordID]; known {
			t.Errorf("bill %s is in the run twice", u.RecordID)
		}
		reported[u.RecordID] = u.Usage
	}
	if diff := cmp.Diff(bills, reported); diff != "" {
		t.Errorf("the run's usage is not the session's (-session +run):\n%s", diff)
	}
}

func asUsage(provider, model string, u llm.Usage) workflow.Usage {
	return workflow.Usage{Provider: provider, Model: model, Input: u.Input, Output: u.Output, Total: u.Total,
		CachedInput: u.CachedInput, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning}
}

// checkInterrupted: only a call that a kill caught between its intent and its result is reported as interrupted, and it
// is one of those that must not run twice.
func (tr *trial) checkInterrupted(t *testing.T, s sessionState) {
	t.Helper()
	for _, e := range s.entries {
		if c := e.data.Call; c != nil && c.Code == "interrupted" {
			id := fmt.Sprintf("%d.%d", c.Entry, c.Index)
			if !slices.Contains(tr.s.unsafe, c.Name) {
				t.Errorf("call %s of %s is safe, and was given up as interrupted", id, c.Name)
			}
			if !slices.ContainsFunc(tr.lefts, func(left state) bool { return left.sessions[s.store].caught(id) }) {
				t.Errorf("call %s of %s was reported as interrupted, and no kill caught it", id, c.Name)
			}
		}
	}
}

// caught reports whether the call's intent was committed and its result was not.
func (s sessionState) caught(id string) bool {
	intent, done := false, false
	for _, e := range s.entries {
		for i, b := range e.message.Blocks {
			intent = intent || b.Type == llm.ToolCall && fmt.Sprintf("%d.%d", e.ID, i) == id
		}
		done = done || e.message.Role == llm.RoleToolResult && e.message.CallID == id
	}
	return intent && !done
}

// checkKept: what was committed when a kill came is in the end, unchanged.
func (tr *trial) checkKept(t *testing.T, end state) {
	t.Helper()
	for i, left := range tr.lefts {
		for _, was := range left.runs {
			j := slices.IndexFunc(end.runs, func(r runState) bool { return r.ID == was.ID })
			if j < 0 || len(end.runs[j].events) < len(was.events) {
				t.Errorf("kill %d: run %s, or events of it, are lost", i+1, was.ID)
				continue
			}
			for k, e := range was.events {
				if diff := cmp.Diff(e, end.runs[j].events[k]); diff != "" {
					t.Errorf("kill %d: event %d became another:\n%s", i+1, e.Seq, diff)
				}
			}
		}
		for store, was := range left.sessions {
			now := map[session.EntryID]session.Entry{}
			for _, e := range end.sessions[store].entries {
				now[e.ID] = e.Entry
			}
			for _, e := range was.entries {
				if diff := cmp.Diff(e.Entry, now[e.ID]); diff != "" {
					t.Errorf("kill %d: entry %d became another:\n%s", i+1, e.ID, diff)
				}
			}
		}
	}
}

// checkExecuted: a call whose result was committed is never executed again, an unsafe one not even without.
func (tr *trial) checkExecuted(t *testing.T, end state) {
	t.Helper()
	names := map[string]string{} // of calls
	for store, s := range end.sessions {
		for _, e := range s.entries {
			for i, b := range e.message.Blocks {
				if b.Type == llm.ToolCall {
					names[fmt.Sprintf("%s/%d.%d", store, e.ID, i)] = b.Name
				}
			}
		}
	}
	ran := map[string]int{}
	kills := 0
	for i, e := range tr.ends {
		for _, h := range e.hits {
			if h.point != "harness.tool.before" {
				continue
			}
			ran[h.by]++
			name := names[h.by]
			if name == "" {
				t.Errorf("process %d executed call %s, which is not in the session", i+1, h.by)
			}
			if ran[h.by] > 1 && slices.Contains(tr.s.unsafe, name) {
				t.Errorf("process %d executed call %s of %s for the %d. time", i+1, h.by, name, ran[h.by])
			}
			store, call, _ := strings.Cut(h.by, "/")
			if kills > 0 {
				if s, known := tr.lefts[kills-1].sessions[store]; known && s.finished(call) {
					t.Errorf("process %d executed call %s of %s again, whose result was committed", i+1, h.by, name)
				}
			}
		}
		if e.killed {
			kills++
		}
	}
	for id, name := range names {
		store, call, _ := strings.Cut(id, "/")
		if ran[id] == 0 && !end.sessions[store].interruptedCall(call) {
			t.Errorf("call %s of %s has a result and was never executed", id, name)
		}
	}
}

// finished reports whether the call has its result.
func (s sessionState) finished(id string) bool {
	return slices.ContainsFunc(s.entries, func(e entry) bool { return e.message.Role == llm.RoleToolResult && e.message.CallID == id })
}

func (s sessionState) interruptedCall(id string) bool {
	return slices.ContainsFunc(s.entries, func(e entry) bool {
		return e.message.Role == llm.RoleToolResult && e.message.CallID == id && e.data.Call.Code == "interrupted"
	})
}

// checkEffects: a trace of each effect once; none is missing unless its call was interrupted; the written file has its one
// text and was never written again.
func (tr *trial) checkEffects(t *testing.T, end state) {
	t.Helper()
	lost := map[string]int{}
	for _, r := range end.runs {
		for name, n := range storyOf(t, end.sessions[r.payload(t).SessionID]).interrupted() {
			lost[name] += n
		}
	}
	lines := strings.Fields(end.work[sideLog].text)
	if twice := slices.Compact(slices.Sorted(slices.Values(lines))); len(twice) != len(lines) {
		t.Errorf("effects happened twice: %q", lines)
	}
	want, tool := []string(nil), ""
	switch tr.s.workflow {
	case "agent":
		want, tool = []string{"one", "two"}, "bash"
	case "hand":
		want, tool = []string{"taken"}, handTool
	}
	if missing := len(want) - len(lines); missing < 0 || missing > lost[tool] {
		t.Errorf("effects %q of %q, %d calls were interrupted", lines, want, lost[tool])
	}
	if tr.s.workflow == "agent" {
		f, there := end.work[written]
		switch {
		case !there && lost["write"] == 0:
			t.Errorf("%s was not written", written)
		case there && f.text != writtenText:
			t.Errorf("%s holds %q", written, f.text)
		}
	}
	allowed := map[string]bool{written: tr.s.workflow == "agent", sideLog: len(want) > 0}
	for name := range end.work {
		if _, mine := files[name]; !mine && !allowed[name] && !strings.HasPrefix(name, leftover) {
			t.Errorf("the working directory has %s", name)
		}
	}
	for i, left := range tr.lefts {
		if was, there := left.work[written]; there && was != end.work[written] {
			t.Errorf("kill %d: %s was written again: %+v, then %+v", i+1, written, was, end.work[written])
		}
		if !bytes.HasPrefix([]byte(end.work[sideLog].text), []byte(left.work[sideLog].text)) {
			t.Errorf("kill %d: %s lost lines", i+1, sideLog)
		}
	}
}

// checkOutput: stdout is what the story ends in.
func (tr *trial) checkOutput(t *testing.T, last ended, st story) {
	t.Helper()
	if tr.b == nil {
		return
	}
	got, want := tr.p.plain(last.out), tr.b.out
	if before, ok := strings.CutSuffix(want, strings.TrimSpace(tr.b.story.answer())+"\n"); ok {
		want = before + strings.TrimSpace(tr.b.expected(t, st).answer()) + "\n"
	} else if tr.s.workflow != "demo" {
		t.Errorf("the output does not end in the answer: %s", want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another output (-want +got):\n%s", diff)
	}
}

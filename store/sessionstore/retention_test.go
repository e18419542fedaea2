package sessionstore

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// How much more than in proportion a larger session may take. The trees of the file grow a level now and then.
const growthSlack = 1.05

func (o *owner) pages(t testing.TB) (n int64) {
	t.Helper()
	if err := o.db.Query("PRAGMA page_count", nil, func(r *sqlite.Row) error { n = r.Int64(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// fill gives a conversation entries of about half a KiB, some with a task, a submission and a document.
func (o *owner) fill(t testing.TB, c session.ConversationID, entries int) {
	t.Helper()
	past := session.DocumentWrite{ID: session.DocumentID(o.id()), Address: session.Address{Scope: session.ScopeConversation, Owner: int64(c), Kind: "pi.agent"},
		Create: true, Rewindable: true, Version: 1, Base: []byte(`{"model":"a"}`)}
	o.must(t, session.Batch{Conversations: []session.Conversation{{ID: c}}, Documents: []session.DocumentWrite{past}})
	past.Create = false
	for n := 0; n < entries; {
		var b session.Batch
		for range min(20, entries-n) {
			b.Entries = append(b.Entries, session.Entry{ID: session.EntryID(o.id()), Conversation: c, Kind: "app.note", Model: fmt.Appendf(nil, `"%0500d"`, n)})
			n++
		}
		b.Tasks = []session.Task{{ID: session.TaskID(o.id()), Conversation: c, Kind: "app.job", Status: session.TaskTerminal,
			Outcome: &session.Outcome{Status: session.Completed}, Input: fmt.Appendf(nil, `"%0200d"`, n)}}
		b.Submissions = []session.Submission{{ID: session.SubmissionID(o.id()), Conversation: c, RequestID: fmt.Sprint("r", n), Digest: "d", Status: session.SubmissionAnswered}}
		past.Base = fmt.Appendf(nil, `{"model":"%0100d"}`, n)
		b.Documents = []session.DocumentWrite{past}
		o.must(t, b)
	}
}

// Invariant: INV-08
func TestASessionGrowsInProportionToItsEntries(t *testing.T) {
	sizes := []int{1_000, 10_000, 50_000}
	first := 0.0
	for _, entries := range sizes {
		o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
		o.fill(t, session.Root, entries)
		each := float64(o.pages(t)*pageSize) / float64(entries)
		t.Logf("%d entries: %.0f bytes each", entries, each)
		if first == 0 {
			first = each
		}
		if each > first*growthSlack {
			t.Errorf("an entry of %d takes %.0f bytes, one of %d took %.0f", entries, each, sizes[0], first)
		}
	}
}

// Invariant: INV-42
func TestTheSpaceOfARemovedConversationIsUsedAgain(t *testing.T) {
	o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
	o.fill(t, session.Root, 200)
	kept := map[string]int64{}
	tables := []string{"conversations", "entries", "tasks", "submissions", "documents", "revisions"}
	for _, table := range tables {
		kept[table] = o.count(t, table)
	}
	grown := int64(0)
	for round := range 5 {
		c := session.ConversationID(o.id())
		o.fill(t, c, 1_000)
		if round == 0 {
			grown = o.pages(t)
		}
		if got := o.pages(t); got > grown+grown/100 {
			t.Fatalf("round %d: the file grew from %d to %d pages", round, grown, got)
		}
		o.must(t, session.Batch{Removals: []session.ConversationID{c}})
		for _, table := range tables {
			if got := o.count(t, table); got != kept[table] {
				t.Errorf("round %d: %d rows in %s, want %d", round, got, table, kept[table])
			}
		}
	}
	if problems := o.check(t); problems != "ok" {
		t.Errorf("the file is damaged: %s", problems)
	}
}

func (o *owner) check(t testing.TB) (said string) {
	t.Helper()
	if err := o.db.Query("PRAGMA integrity_check", nil, func(r *sqlite.Row) error { said += r.Text(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return said
}

func TestARemovalTouchesItsOwnConversationThroughIndexes(t *testing.T) {
	o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
	for _, sql := range append([]string{selectLive}, removal...) {
		err := o.db.Query("EXPLAIN QUERY PLAN "+sql, []any{1}, func(r *sqlite.Row) error {
			if step := r.Text(3); len(step) >= 4 && step[:4] == "SCAN" {
				t.Errorf("%s: %s", sql, step)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

package sessionstore

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

func TestEveryQueryIsServedByAnIndex(t *testing.T) {
	o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
	live, _ := taskQuery(session.TaskQuery{Live: true})
	ofRoot, _ := taskQuery(session.TaskQuery{Conversation: 1, Limit: 1})
	ofConversation, _ := taskQuery(session.TaskQuery{Conversation: 2, Limit: 1})
	liveOf, _ := taskQuery(session.TaskQuery{Conversation: 1, Live: true})
	ofOwner, _ := taskQuery(session.TaskQuery{Owner: 1})
	const sorted = "USE TEMP B-TREE FOR ORDER BY"
	for _, test := range []struct {
		sql  string
		want []string
	}{
		{selectConversation, []string{"SEARCH conversations USING INTEGER PRIMARY KEY (rowid=?)"}},
		{selectConversations, []string{"SCAN conversations"}}, // all of them, in key order
		{selectEntry, []string{"SEARCH entries USING INTEGER PRIMARY KEY (rowid=?)"}},
		{selectRoot, []string{"SEARCH entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{selectEntries, []string{"SEARCH entries USING INDEX entries_conversation (conversation=? AND rowid>? AND rowid<?)"}},
		{selectHead, []string{"SEARCH entries USING INDEX entries_head (conversation=? AND rowid<?)"}},
		{selectTask, []string{"SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"}},
		{live, []string{"SCAN tasks USING INDEX tasks_live", sorted}}, // the partial index holds live tasks only
		{ofRoot, []string{"SCAN tasks"}},                              // nearly all of them are the main conversation's, in key order
		{ofConversation, []string{"SEARCH tasks USING INDEX tasks_conversation (conversation=?)"}},
		{liveOf, []string{"SEARCH tasks USING INDEX tasks_live (conversation=?)"}},
		{ofOwner, []string{"SEARCH tasks USING INTEGER PRIMARY KEY (rowid>?)"}},
		{selectSubmission, []string{"SEARCH submissions USING INTEGER PRIMARY KEY (rowid=?)"}},
		{selectByRequest, []string{"SEARCH submissions USING INDEX submissions_request (conversation=? AND request_id=?)"}},
		{selectSubmissions, []string{"SEARCH submissions USING INDEX submissions_status (conversation=?)", sorted}},
		{selectWithStatus, []string{"SEARCH submissions USING INDEX submissions_status (conversation=? AND status=?)"}},
		{selectDocument, []string{"SEARCH documents USING INDEX documents_address (scope=? AND owner=? AND kind=? AND key=?)"}},
		{selectDocuments, []string{"SEARCH documents USING INDEX documents_address (scope=? AND owner=?)", sorted}},
		{selectRevisions, []string{"SEARCH revisions USING PRIMARY KEY (document=? AND seq<?)"}},
		{dropRevisions, []string{"SCALAR SUBQUERY 1", "SEARCH documents USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH revisions USING PRIMARY KEY (document=?)"}},
	} {
		var args []any
		for range strings.Count(test.sql, "?") {
			args = append(args, 1)
		}
		var got []string
		if err := o.db.Query("EXPLAIN QUERY PLAN "+test.sql, args[:parameters(test.sql)], func(r *sqlite.Row) error { got = append(got, r.Text(3)); return nil }); err != nil {
			t.Fatalf("%s: %v", test.sql, err)
		}
		for i := range got {
			got[i] = strings.TrimSpace(got[i])
		}
		if diff := cmp.Diff(sortedCopy(test.want), sortedCopy(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.sql, diff)
		}
	}
}

// parameters counts the arguments of a statement: the highest of ?N and of the plain ones, which count on from it.
func parameters(sql string) int {
	highest := 0
	for i := range len(sql) {
		if sql[i] != '?' {
			continue
		}
		if i+1 < len(sql) && '1' <= sql[i+1] && sql[i+1] <= '9' {
			highest = max(highest, int(sql[i+1]-'0'))
		} else {
			highest++
		}
	}
	return highest
}

func sortedCopy(list []string) []string {
	list = slices.Clone(list)
	slices.SortFunc(list, strings.Compare)
	return list
}

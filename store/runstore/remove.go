package runstore

import (
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/store/sqlite"
)

// The edge between the commit that hides runs and those that delete what is theirs.
var runsHidden = faultpoint.New("runstore.remove.hidden")

// removed is the status of a run that is being deleted. Its id is another one, so that nothing finds it by that.
const (
	removed    = "removed"
	notRemoved = "r.status <> '" + removed + "'"
)

// ended selects the runs that are over, in the words of the index; needed those that a live run was forked from.
const (
	ended  = `r.status IN ('succeeded', 'failed', 'aborted', 'expired')`
	needed = `EXISTS (SELECT 1 FROM wf_run f WHERE f.forked_from = r.id AND f.forked_from <> ''
		AND f.status NOT IN ('succeeded', 'failed', 'aborted', 'expired'))`

	selectNewest = `SELECT r.finished_at, r.id FROM wf_run r WHERE r.workflow = ? AND ` + ended +
		` ORDER BY r.finished_at DESC, r.id DESC LIMIT 1 OFFSET ?`
	selectEnded = runColumns + ` WHERE r.workflow = ? AND ` + ended + ` AND (r.finished_at, r.id) <= (?, ?)
		AND r.finished_at < ? AND NOT ` + needed + ` ORDER BY r.finished_at, r.id LIMIT ?`

	hide = `UPDATE wf_run AS r SET status = '` + removed + `', id = '` + removed + `:' || r.n, workflow = '', request_id = r.n,
		conversation = '', forked_from = '' WHERE r.id = ? AND ` + ended + ` AND NOT ` + needed
	selectHidden = `SELECT n FROM wf_run WHERE status = '` + removed + `'
		AND status NOT IN ('succeeded', 'failed', 'aborted', 'expired') LIMIT 1`
	dropRun  = `DELETE FROM wf_run WHERE n = ?`
	dropBlob = `DELETE FROM wf_blob WHERE sha256 = ?1
		AND NOT EXISTS (SELECT 1 FROM wf_event WHERE data_ref = ?1) AND NOT EXISTS (SELECT 1 FROM wf_node WHERE output_ref = ?1)
		AND NOT EXISTS (SELECT 1 FROM wf_cache WHERE output_ref = ?1)
		AND NOT EXISTS (SELECT 1 FROM wf_run WHERE input_ref = ?1) AND NOT EXISTS (SELECT 1 FROM wf_run WHERE fork_ref = ?1)`
)

// part is a table with rows of a run: how to see the blobs of its first rows, and how to delete these. Both take the run and
// how many.
type part struct{ refs, drop string }

var parts = []part{
	{
		`SELECT data_ref FROM (SELECT data_ref FROM wf_event WHERE run = ? ORDER BY seq LIMIT ?) WHERE data_ref IS NOT NULL`,
		`DELETE FROM wf_event WHERE run = ?1 AND seq IN (SELECT seq FROM wf_event WHERE run = ?1 ORDER BY seq LIMIT ?2)`,
	},
	{
		`SELECT output_ref FROM (SELECT output_ref FROM wf_node WHERE run = ? ORDER BY path, visit LIMIT ?) WHERE output_ref IS NOT NULL`,
		`DELETE FROM wf_node WHERE n IN (SELECT n FROM wf_node WHERE run = ? ORDER BY path, visit LIMIT ?)`,
	},
	{"", `DELETE FROM wf_source WHERE run = ?1 AND source IN (SELECT source FROM wf_source WHERE run = ?1 ORDER BY source LIMIT ?2)`},
	{"", `DELETE FROM wf_request WHERE n IN (SELECT n FROM wf_request WHERE run = ? LIMIT ?)`},
	{"", `DELETE FROM wf_effect WHERE run = ?1 AND (path, visit, key) IN
		(SELECT path, visit, key FROM wf_effect WHERE run = ?1 ORDER BY path, visit, key LIMIT ?2)`},
	{"", `DELETE FROM wf_signal WHERE n IN (SELECT n FROM wf_signal WHERE run = ? LIMIT ?)`},
	{"", `DELETE FROM wf_usage WHERE n IN (SELECT n FROM wf_usage WHERE run = ? LIMIT ?)`},
}

const runRefs = `SELECT input_ref FROM wf_run WHERE n = ?1 AND input_ref IS NOT NULL
	UNION SELECT fork_ref FROM wf_run WHERE n = ?1 AND fork_ref IS NOT NULL`

// Ended implements runlog.Store.
func (r *Reader) Ended(q runlog.EndedQuery) (list []runlog.Run, err error) {
	var newest int64
	var id string
	found := false
	err = r.query(selectNewest, []any{q.Workflow, q.Keep}, func(row *sqlite.Row) error {
		newest, id, found = row.Int64(0), row.Text(1), true
		return nil
	})
	if err != nil || !found {
		return nil, err
	}
	before := millis(q.Before)
	if q.Before.IsZero() {
		before = newest + 1
	}
	err = r.query(selectEnded, []any{q.Workflow, newest, id, before, limit(q.Limit)}, func(row *sqlite.Row) error {
		run, err := readRun(row)
		list = append(list, run)
		return err
	})
	return list, err
}

// Remove implements runlog.Store. One commit takes the runs out of sight, further ones delete their rows.
func (s *Store) Remove(epoch int64, ids []runlog.RunID) ([]runlog.RunID, error) {
	var gone []runlog.RunID
	err := s.writer.Submit(sqlite.Fast, func(tx *sqlite.Tx) error {
		gone = gone[:0]
		if err := inForce(tx, epoch); err != nil {
			return err
		}
		for _, id := range ids {
			n, err := tx.Exec(hide, string(id))
			if err != nil {
				return err
			}
			if n > 0 {
				gone = append(gone, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, translate(err)
	}
	runsHidden.Hit()
	for more := true; more; {
		err := s.writer.Submit(sqlite.Fast, func(tx *sqlite.Tx) (err error) {
			if err = inForce(tx, epoch); err == nil {
				more, err = sweep(tx, RemoveRows)
			}
			return err
		})
		if err != nil {
			return gone, translate(err)
		}
	}
	return gone, nil
}

// inForce checks that the epoch is the owner's.
func inForce(tx *sqlite.Tx, epoch int64) error {
	same := false
	err := tx.Query(`SELECT epoch = ? FROM wf_owner`, []any{epoch}, func(r *sqlite.Row) error { same = r.Bool(0); return nil })
	if err == nil && !same {
		err = runlog.ErrStale
	}
	return err
}

// sweep deletes about as many rows of hidden runs, and reports whether there may be more.
func sweep(tx *sqlite.Tx, rows int64) (more bool, err error) {
	for rows > 0 {
		run, found := int64(0), false
		err := tx.Query(selectHidden, nil, func(r *sqlite.Row) error { run, found = r.Int64(0), true; return nil })
		if err != nil || !found {
			return false, err
		}
		for _, p := range parts {
			n, err := dropSome(tx, p, run, rows)
			if err != nil {
				return false, err
			}
			if rows -= n; rows <= 0 {
				return true, nil
			}
		}
		var refs [][]byte
		if err := tx.Query(runRefs, []any{run}, collect(&refs)); err != nil {
			return false, err
		}
		if _, err := tx.Exec(dropRun, run); err != nil {
			return false, err
		}
		if err := dropBlobs(tx, refs); err != nil {
			return false, err
		}
		rows--
	}
	return true, nil
}

// dropSome deletes at most so many rows of a run's part, and the blobs that only they needed.
func dropSome(tx *sqlite.Tx, p part, run, most int64) (int64, error) {
	var refs [][]byte
	if p.refs != "" {
		if err := tx.Query(p.refs, []any{run, most}, collect(&refs)); err != nil {
			return 0, err
		}
	}
	n, err := tx.Exec(p.drop, run, most)
	if err != nil {
		return 0, err
	}
	return n, dropBlobs(tx, refs)
}

func collect(refs *[][]byte) func(*sqlite.Row) error {
	return func(r *sqlite.Row) error {
		*refs = append(*refs, r.Bytes(0))
		return nil
	}
}

func dropBlobs(tx *sqlite.Tx, refs [][]byte) error {
	for _, ref := range refs {
		if _, err := tx.Exec(dropBlob, ref); err != nil {
			return err
		}
	}
	return nil
}

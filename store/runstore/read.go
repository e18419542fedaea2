package runstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/workflow/userinput"
)

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// unpack decodes a part of a record that the store itself encoded.
func unpack[T any](raw []byte, into *T) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("runstore: damaged record: %w", err)
	}
	return nil
}

const runColumns = `SELECT r.id, r.workflow, r.version, r.fingerprint, r.request_id, r.digest, r.conversation, r.project, r.labels,
	coalesce(r.input, (SELECT bytes FROM wf_blob WHERE sha256 = r.input_ref)), r.deadline, r.created_at, r.status, r.reason,
	r.cancel_requested, r.failure, r.result_path, r.result_visit, r.wake_at, r.started_at, r.finished_at, r.last_seq,
	(SELECT coalesce(o.output, (SELECT bytes FROM wf_blob WHERE sha256 = o.output_ref)) FROM wf_node o
		WHERE o.run = r.n AND o.path = r.result_path AND o.visit = r.result_visit),
	coalesce(r.fork, (SELECT bytes FROM wf_blob WHERE sha256 = r.fork_ref)) FROM wf_run r`

func readRun(r *sqlite.Row) (runlog.Run, error) {
	run := runlog.Run{
		ID: runlog.RunID(r.Text(0)), Workflow: r.Text(1), Version: int(r.Int64(2)), Fingerprint: r.Text(3), RequestID: r.Text(4),
		Digest: r.Text(5), Conversation: r.Text(6), Project: r.Text(7), Input: r.Bytes(9), Deadline: moment(r.Int64(10)),
		CreatedAt: moment(r.Int64(11)), Status: runlog.RunStatus(r.Text(12)), Reason: r.Text(13), CancelRequested: r.Bool(14),
		Result: runlog.NodeKey{Path: r.Text(16), Visit: int(r.Int64(17))}, WakeAt: moment(r.Int64(18)),
		StartedAt: moment(r.Int64(19)), FinishedAt: moment(r.Int64(20)), LastSeq: runlog.Seq(r.Int64(21)), Output: r.Bytes(22),
	}
	if run.Status == runlog.Succeeded && run.Result == (runlog.NodeKey{}) {
		run.Output = run.Input
	}
	return run, errors.Join(unpack(r.Bytes(8), &run.Labels), unpack(r.Bytes(15), &run.Failure), unpack(r.Bytes(23), &run.ForkedFrom))
}

func (s *Reader) oneRun(where string, args ...any) (run runlog.Run, err error) {
	found := false
	err = s.query(runColumns+where, args, func(r *sqlite.Row) (err error) {
		found = true
		run, err = readRun(r)
		return err
	})
	if err == nil && !found {
		err = runlog.ErrNotFound
	}
	return run, err
}

// Run implements runlog.Store.
func (s *Reader) Run(id runlog.RunID) (runlog.Run, error) {
	return s.oneRun(` WHERE r.id = ?`, string(id))
}

// RunByRequest implements runlog.Store.
func (s *Reader) RunByRequest(workflow, requestID string) (runlog.Run, error) {
	return s.oneRun(` WHERE r.workflow = ? AND r.request_id = ?`, workflow, requestID)
}

// filter builds a WHERE clause; its texts are few, because statements are kept.
type filter struct {
	clauses []string
	args    []any
}

func (f *filter) add(there bool, clause string, args ...any) {
	if there {
		f.clauses, f.args = append(f.clauses, clause), append(f.args, args...)
	}
}

func (f *filter) String() string {
	if len(f.clauses) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.clauses, " AND ")
}

// anyOf is an SQL list of as many places as there are values.
func anyOf[T ~string](column string, values []T) (string, []any) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	return column + " IN (?" + strings.Repeat(", ?", max(0, len(values)-1)) + ")", args
}

// noLimit is SQLite's way to say "all".
const noLimit = -1

func limit(n int) int {
	if n > 0 {
		return n
	}
	return noLimit
}

// Runs implements runlog.Store.
func (s *Reader) Runs(q runlog.RunQuery) (list []runlog.Run, err error) {
	var f filter
	in, states := anyOf("r.status", q.Status)
	f.add(len(q.Status) > 0, in, states...)
	f.add(len(q.Status) > 0 && live(q.Status), `r.status NOT IN ('succeeded', 'failed', 'aborted', 'expired')`) // names the index
	f.add(len(q.Status) == 0, notRemoved)
	f.add(q.Workflow != "", "r.workflow = ?", q.Workflow)
	f.add(q.Version != 0, "r.version = ?", q.Version)
	f.add(q.Conversation != "", "r.conversation = ?", q.Conversation)
	f.add(q.Project != "", "r.project = ?", q.Project)
	f.add(q.Before != "", "r.id < ?", string(q.Before))
	err = s.query(runColumns+f.String()+` ORDER BY r.id DESC LIMIT ?`, append(f.args, limit(q.Limit)), func(r *sqlite.Row) error {
		run, err := readRun(r)
		list = append(list, run)
		return err
	})
	return list, err
}

func live(states []runlog.RunStatus) bool {
	for _, s := range states {
		if s.Terminal() {
			return false
		}
	}
	return true
}

// Nodes implements runlog.Store.
func (s *Reader) Nodes(id runlog.RunID) (list []runlog.Node, err error) {
	const columns = `SELECT o.path, o.visit, o.attempt, o.status, o.first_seq,
		coalesce(o.output, (SELECT bytes FROM wf_blob WHERE sha256 = o.output_ref)), o.failure, o.failures, o.reason, o.waits,
		o.wake_at, o.started_at, o.finished_at, o.inline, o.input_hash, o.kept_from, o.last_seq
		FROM wf_run r JOIN wf_node o ON o.run = r.n WHERE r.id = ? ORDER BY o.n`
	err = s.query(columns, []any{string(id)}, func(r *sqlite.Row) error {
		n := runlog.Node{
			NodeKey: runlog.NodeKey{Path: r.Text(0), Visit: int(r.Int64(1))}, Attempt: int(r.Int64(2)),
			Status: runlog.NodeStatus(r.Text(3)), FirstSeq: runlog.Seq(r.Int64(4)), Output: r.Bytes(5), Failures: int(r.Int64(7)),
			Reason: r.Text(8), WakeAt: moment(r.Int64(10)), StartedAt: moment(r.Int64(11)), FinishedAt: moment(r.Int64(12)),
			Inline: r.Bool(13), InputHash: r.Text(14), From: runlog.RunID(r.Text(15)), LastSeq: runlog.Seq(r.Int64(16)),
		}
		err := errors.Join(unpack(r.Bytes(6), &n.Failure), unpack(r.Bytes(9), &n.Waits))
		list = append(list, n)
		return err
	})
	return list, s.exists(id, len(list), err)
}

// exists turns an empty answer about a run that is not there into runlog.ErrNotFound.
func (s *Reader) exists(id runlog.RunID, rows int, err error) error {
	if err != nil || rows > 0 {
		return err
	}
	found := false
	err = s.query(`SELECT 1 FROM wf_run WHERE id = ?`, []any{string(id)}, func(*sqlite.Row) error { found = true; return nil })
	if err == nil && !found {
		err = runlog.ErrNotFound
	}
	return err
}

const eventColumns = `SELECT e.seq, e.at, e.epoch, e.path, e.visit, e.attempt, e.kind,
	coalesce(e.data, (SELECT bytes FROM wf_blob WHERE sha256 = e.data_ref)), e.retract, e.source, e.aux
	FROM wf_event e WHERE e.run = (SELECT n FROM wf_run WHERE id = ?) AND e.seq > ?`

func (s *Reader) events(sql string, args ...any) (list []runlog.Event, err error) {
	err = s.query(sql, args, func(r *sqlite.Row) error {
		list = append(list, runlog.Event{
			Seq: runlog.Seq(r.Int64(0)), At: moment(r.Int64(1)), Epoch: r.Int64(2), Node: r.Text(3), Visit: int(r.Int64(4)),
			Attempt: int(r.Int64(5)), Kind: runlog.EventKind(r.Text(6)), Data: r.Bytes(7), Retract: runlog.Seq(r.Int64(8)),
			Source: r.Text(9), Aux: r.Bool(10),
		})
		return nil
	})
	return list, err
}

// Events implements runlog.Store.
func (s *Reader) Events(id runlog.RunID, after runlog.Seq, most int) ([]runlog.Event, error) {
	list, err := s.events(eventColumns+` ORDER BY e.seq LIMIT ?`, string(id), int64(after), limit(most))
	return list, s.exists(id, len(list), err)
}

// Chunks implements runlog.Store.
func (s *Reader) Chunks(id runlog.RunID, key runlog.NodeKey, after runlog.Seq, most int) ([]runlog.Event, error) {
	const chunks = ` AND e.path = ? AND e.visit = ?
		AND e.kind IN ('node.chunk', 'item.open', 'item.append', 'item.set', 'item.done') ORDER BY e.seq LIMIT ?`
	list, err := s.events(eventColumns+chunks, string(id), int64(after), key.Path, key.Visit, limit(most))
	return list, s.exists(id, len(list), err)
}

const requestColumns = `SELECT q.id, r.id, r.workflow, r.conversation, q.path, q.visit, q.key, q.kind, q.title, q.payload, q.schema,
	q.status, q.answer, q.answered_by, q.opened_at, q.resolved_at, q.expires_at FROM wf_request q JOIN wf_run r ON r.n = q.run`

func readRequest(r *sqlite.Row) runlog.Request {
	return runlog.Request{
		ID: r.Text(0), Run: runlog.RunID(r.Text(1)), Workflow: r.Text(2), Conversation: r.Text(3),
		Node: runlog.NodeKey{Path: r.Text(4), Visit: int(r.Int64(5))}, Key: r.Text(6), Kind: userinput.Kind(r.Text(7)),
		Title: r.Text(8), Payload: r.Bytes(9), Schema: r.Bytes(10), Status: runlog.RequestStatus(r.Text(11)), Answer: r.Bytes(12),
		AnsweredBy: r.Text(13), OpenedAt: moment(r.Int64(14)), ResolvedAt: moment(r.Int64(15)), ExpiresAt: moment(r.Int64(16)),
	}
}

// Request implements runlog.Store.
func (s *Reader) Request(id string) (q runlog.Request, err error) {
	found := false
	err = s.query(requestColumns+` WHERE q.id = ? AND `+notRemoved, []any{id}, func(r *sqlite.Row) error {
		q, found = readRequest(r), true
		return nil
	})
	if err == nil && !found {
		err = runlog.ErrNotFound
	}
	return q, err
}

// Requests implements runlog.Store.
func (s *Reader) Requests(q runlog.RequestQuery) (list []runlog.Request, err error) {
	var f filter
	in, states := anyOf("q.status", q.Status)
	f.add(len(q.Status) > 0, in, states...)
	f.add(q.Run != "", "r.id = ?", string(q.Run))
	f.add(q.Conversation != "", "r.conversation = ?", q.Conversation)
	f.add(q.Run == "", notRemoved)
	err = s.query(requestColumns+f.String()+` ORDER BY q.opened_at, q.id LIMIT ?`, append(f.args, limit(q.Limit)), func(r *sqlite.Row) error {
		list = append(list, readRequest(r))
		return nil
	})
	return list, err
}

// Effects implements runlog.Store.
func (s *Reader) Effects(id runlog.RunID, key runlog.NodeKey) (list []runlog.Effect, err error) {
	const columns = `SELECT key, done, result, wake_at FROM wf_effect
		WHERE run = (SELECT n FROM wf_run WHERE id = ?) AND path = ? AND visit = ? ORDER BY key`
	err = s.query(columns, []any{string(id), key.Path, key.Visit}, func(r *sqlite.Row) error {
		list = append(list, runlog.Effect{Node: key, Key: r.Text(0), Done: r.Bool(1), Result: r.Bytes(2), WakeAt: moment(r.Int64(3))})
		return nil
	})
	return list, s.exists(id, len(list), err)
}

// Signals implements runlog.Store.
func (s *Reader) Signals(id runlog.RunID) (list []runlog.Signal, err error) {
	const columns = `SELECT id, topic, payload FROM wf_signal
		WHERE run = (SELECT n FROM wf_run WHERE id = ?) AND consumed = 0 ORDER BY n`
	err = s.query(columns, []any{string(id)}, func(r *sqlite.Row) error {
		list = append(list, runlog.Signal{ID: r.Text(0), Topic: r.Text(1), Payload: r.Bytes(2)})
		return nil
	})
	return list, s.exists(id, len(list), err)
}

// HasSignal implements runlog.Store.
func (s *Reader) HasSignal(id runlog.RunID, signal string) (known bool, err error) {
	const find = `SELECT 1 FROM wf_signal WHERE run = (SELECT n FROM wf_run WHERE id = ?) AND id = ?`
	err = s.query(find, []any{string(id), signal}, func(*sqlite.Row) error { known = true; return nil })
	if known {
		return true, err
	}
	return false, s.exists(id, 0, err)
}

// Usage implements runlog.Store.
func (s *Reader) Usage(id runlog.RunID) (list []runlog.UsageRecord, err error) {
	const columns = `SELECT record_id, path, visit, usage FROM wf_usage WHERE run = (SELECT n FROM wf_run WHERE id = ?) ORDER BY n`
	err = s.query(columns, []any{string(id)}, func(r *sqlite.Row) error {
		u := runlog.UsageRecord{RecordID: r.Text(0), Node: runlog.NodeKey{Path: r.Text(1), Visit: int(r.Int64(2))}}
		err := unpack(r.Bytes(3), &u.Usage)
		list = append(list, u)
		return err
	})
	return list, s.exists(id, len(list), err)
}

// Cached implements runlog.Store.
func (s *Store) Cached(key string, version int, input string) (c runlog.Cached, err error) {
	const find = `SELECT coalesce(output, (SELECT bytes FROM wf_blob WHERE sha256 = output_ref)), at, run, path, visit
		FROM wf_cache WHERE key = ? AND version = ? AND input = ?`
	found := false
	err = s.query(find, []any{key, version, input}, func(r *sqlite.Row) error {
		found = true
		c = runlog.Cached{
			Key: key, Version: version, Input: input, Output: r.Bytes(0), At: moment(r.Int64(1)), Run: runlog.RunID(r.Text(2)),
			Node: runlog.NodeKey{Path: r.Text(3), Visit: int(r.Int64(4))},
		}
		return nil
	})
	if err == nil && !found {
		err = runlog.ErrNotFound
	}
	return c, err
}

// Definitions implements runlog.Store.
func (s *Reader) Definitions() (list []runlog.Definition, err error) {
	const columns = `SELECT name, version, fingerprint, graph, created_at FROM wf_def ORDER BY name, version`
	err = s.query(columns, nil, func(r *sqlite.Row) error {
		list = append(list, runlog.Definition{
			Name: r.Text(0), Version: int(r.Int64(1)), Fingerprint: r.Text(2), Graph: r.Bytes(3), CreatedAt: moment(r.Int64(4)),
		})
		return nil
	})
	return list, err
}

package runstore

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/sqlite"
)

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Commit implements runlog.Store.
func (s *Store) Commit(b *runlog.Batch) error {
	return translate(s.writer.Submit(durability(b), func(tx *sqlite.Tx) error { return commit(tx, b) }))
}

func durability(b *runlog.Batch) sqlite.Durability {
	if b.Durability == runlog.Synced {
		return sqlite.Synced
	}
	return sqlite.Fast
}

// commit writes one batch inside a transaction.
func commit(tx *sqlite.Tx, b *runlog.Batch) error {
	if b.Create != nil {
		if err := create(tx, b); err != nil {
			return err
		}
	}
	run, last, err := own(tx, b)
	if err != nil {
		return err
	}
	next, err := appendEvents(tx, run, last, b.Events)
	if err != nil {
		return err
	}
	if err := change(tx, run, last, next, b.Change); err != nil {
		return err
	}
	for i := range b.Nodes {
		if err := writeNode(tx, run, next, &b.Nodes[i], b); err != nil {
			return err
		}
	}
	return errors.Join(people(tx, run, b), memory(tx, run, b), cache(tx, b))
}

// own finds the run and checks that the epoch is in force.
func own(tx *sqlite.Tx, b *runlog.Batch) (run, last int64, err error) {
	epoch, found := int64(0), false
	const find = `SELECT o.epoch, r.n, r.last_seq FROM wf_owner o LEFT JOIN wf_run r ON r.id = ?`
	err = tx.Query(find, []any{string(b.Run)}, func(r *sqlite.Row) error {
		epoch, run, last, found = r.Int64(0), r.Int64(1), r.Int64(2), !r.Null(1)
		return nil
	})
	switch {
	case err != nil:
		return 0, 0, err
	case epoch != b.Epoch:
		return 0, 0, runlog.ErrStale
	case !found:
		return 0, 0, runlog.ErrNotFound
	}
	return run, last, nil
}

func create(tx *sqlite.Tx, b *runlog.Batch) error {
	c := b.Create
	input, ref, err := stored(tx, c.Input)
	if err != nil {
		return err
	}
	labels, err := optional(&c.Labels, len(c.Labels) > 0)
	if err != nil {
		return err
	}
	var source string
	var fork, forkRef any
	if c.ForkedFrom != nil {
		raw, err := json.Marshal(c.ForkedFrom)
		if err != nil {
			return err
		}
		source = string(c.ForkedFrom.Run)
		if fork, forkRef, err = stored(tx, raw); err != nil {
			return err
		}
	}
	const insert = `INSERT INTO wf_run (id, workflow, version, fingerprint, request_id, digest, conversation, project, labels,
		input, input_ref, deadline, created_at, status, reason, cancel_requested, result_path, result_visit, wake_at,
		started_at, finished_at, last_seq, forked_from, fork, fork_ref)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, '', 0, 0, 0, 0, 0, ?, ?, ?) ON CONFLICT DO NOTHING`
	n, err := tx.Exec(insert, string(c.ID), c.Workflow, c.Version, c.Fingerprint, c.RequestID, c.Digest, c.Conversation,
		c.Project, labels, input, ref, millis(c.Deadline), millis(c.CreatedAt), string(c.Status), source, fork, forkRef)
	if err == nil && n == 0 {
		return runlog.ErrExists
	}
	if err != nil || source == "" {
		return err
	}
	there := false
	err = tx.Query(`SELECT 1 FROM wf_run WHERE id = ? AND id <> ?`, []any{source, string(c.ID)}, func(*sqlite.Row) error { there = true; return nil })
	if err == nil && !there {
		err = runlog.ErrNotFound
	}
	return err
}

// appendEvents numbers and writes the events, without the chunks whose source is known.
func appendEvents(tx *sqlite.Tx, run, last int64, events []runlog.Event) (int64, error) {
	for i := range events {
		e := &events[i]
		e.Seq = 0
		if e.Kind == runlog.NodeRetracted {
			_, err := tx.Exec(`DELETE FROM wf_source WHERE run = ? AND path = ? AND visit = ?`, run, e.Node, e.Visit)
			if err != nil {
				return 0, err
			}
		}
		var source any
		if e.Source != "" {
			source = e.Source
			const claim = `INSERT OR IGNORE INTO wf_source (run, source, path, visit) VALUES (?, ?, ?, ?)`
			n, err := tx.Exec(claim, run, e.Source, e.Node, e.Visit)
			if err != nil {
				return 0, err
			}
			if n == 0 {
				continue
			}
		}
		data, ref, err := stored(tx, e.Data)
		if err != nil {
			return 0, err
		}
		last++
		const insert = `INSERT INTO wf_event (run, seq, at, epoch, path, visit, attempt, kind, data, data_ref, retract, source, aux)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
		_, err = tx.Exec(insert, run, last, millis(e.At), e.Epoch, e.Node, e.Visit, e.Attempt, string(e.Kind), data, ref,
			int64(e.Retract), source, e.Aux)
		if err != nil {
			return 0, err
		}
		e.Seq = runlog.Seq(last)
	}
	return last, nil
}

func change(tx *sqlite.Tx, run, last, next int64, c *runlog.RunChange) error {
	if c == nil {
		if next == last {
			return nil
		}
		_, err := tx.Exec(`UPDATE wf_run SET last_seq = ? WHERE n = ?`, next, run)
		return err
	}
	failure, err := optional(c.Failure, c.Failure != nil)
	if err != nil {
		return err
	}
	const update = `UPDATE wf_run SET last_seq = ?, status = ?, reason = ?, cancel_requested = ?, failure = ?, result_path = ?,
		result_visit = ?, wake_at = ?, started_at = ?, finished_at = ?, version = ?, fingerprint = ? WHERE n = ?`
	_, err = tx.Exec(update, next, string(c.Status), c.Reason, c.CancelRequested, failure, c.Result.Path, c.Result.Visit,
		millis(c.WakeAt), millis(c.StartedAt), millis(c.FinishedAt), c.Version, c.Fingerprint, run)
	return err
}

func writeNode(tx *sqlite.Tx, run, last int64, n *runlog.Node, b *runlog.Batch) error {
	first := n.FirstSeq
	if first == 0 {
		first = b.FirstSeq(n.NodeKey)
	}
	output, ref, err := stored(tx, n.Output)
	if err != nil {
		return err
	}
	failure, err := optional(n.Failure, n.Failure != nil)
	if err != nil {
		return err
	}
	waits, err := optional(&n.Waits, len(n.Waits) > 0)
	if err != nil {
		return err
	}
	const upsert = `INSERT INTO wf_node (run, path, visit, attempt, status, first_seq, output, output_ref, failure, failures,
		reason, waits, wake_at, started_at, finished_at, inline, input_hash, kept_from, last_seq)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run, path, visit) DO UPDATE SET attempt = excluded.attempt, status = excluded.status,
		first_seq = excluded.first_seq, output = excluded.output, output_ref = excluded.output_ref, failure = excluded.failure,
		failures = excluded.failures, reason = excluded.reason, waits = excluded.waits, wake_at = excluded.wake_at,
		started_at = excluded.started_at, finished_at = excluded.finished_at, inline = excluded.inline,
		input_hash = excluded.input_hash, kept_from = excluded.kept_from, last_seq = excluded.last_seq`
	_, err = tx.Exec(upsert, run, n.Path, n.Visit, n.Attempt, string(n.Status), int64(first), output, ref, failure, n.Failures,
		n.Reason, waits, millis(n.WakeAt), millis(n.StartedAt), millis(n.FinishedAt), n.Inline,
		n.InputHash, string(n.From), last)
	return err
}

// people writes requests, their ends, and signals.
func people(tx *sqlite.Tx, run int64, b *runlog.Batch) error {
	for _, q := range b.Open {
		const insert = `INSERT OR IGNORE INTO wf_request (id, run, path, visit, key, kind, title, payload, schema, status, answer,
			answered_by, opened_at, resolved_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
		_, err := tx.Exec(insert, q.ID, run, q.Node.Path, q.Node.Visit, q.Key, string(q.Kind), q.Title, []byte(q.Payload),
			[]byte(q.Schema), string(q.Status), []byte(q.Answer), q.AnsweredBy, millis(q.OpenedAt), millis(q.ResolvedAt), millis(q.ExpiresAt))
		if err != nil {
			return err
		}
	}
	for _, to := range b.Resolve {
		const update = `UPDATE wf_request SET status = ?, answer = ?, answered_by = ?, resolved_at = ?
			WHERE id = ? AND run = ? AND status = 'open'`
		_, err := tx.Exec(update, string(to.Status), []byte(to.Answer), to.By, millis(to.At), to.RequestID, run)
		if err != nil {
			return err
		}
	}
	for _, s := range b.Signals {
		const insert = `INSERT OR IGNORE INTO wf_signal (run, id, topic, payload, consumed) VALUES (?, ?, ?, ?, ?)`
		if _, err := tx.Exec(insert, run, s.ID, s.Topic, []byte(s.Payload), s.Consumed); err != nil {
			return err
		}
	}
	for _, id := range b.Consume {
		if _, err := tx.Exec(`UPDATE wf_signal SET consumed = 1 WHERE run = ? AND id = ?`, run, id); err != nil {
			return err
		}
	}
	return nil
}

// memory writes journals and usage.
func memory(tx *sqlite.Tx, run int64, b *runlog.Batch) error {
	for _, e := range b.Effects {
		var err error
		if e.Forget {
			const forget = `DELETE FROM wf_effect WHERE run = ? AND path = ? AND visit = ? AND key = ?`
			_, err = tx.Exec(forget, run, e.Node.Path, e.Node.Visit, e.Key)
		} else {
			const upsert = `INSERT OR REPLACE INTO wf_effect (run, path, visit, key, done, result, wake_at) VALUES (?, ?, ?, ?, ?, ?, ?)`
			_, err = tx.Exec(upsert, run, e.Node.Path, e.Node.Visit, e.Key, e.Done, []byte(e.Result), millis(e.WakeAt))
		}
		if err != nil {
			return err
		}
	}
	for _, u := range b.Usage {
		raw, err := json.Marshal(u.Usage)
		if err != nil {
			return err
		}
		const upsert = `INSERT INTO wf_usage (run, record_id, path, visit, usage) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (run, record_id) DO UPDATE SET path = excluded.path, visit = excluded.visit, usage = excluded.usage`
		if _, err := tx.Exec(upsert, run, u.RecordID, u.Node.Path, u.Node.Visit, raw); err != nil {
			return err
		}
	}
	return nil
}

// cache writes values that other runs may take.
func cache(tx *sqlite.Tx, b *runlog.Batch) error {
	for _, c := range b.Cache {
		output, ref, err := stored(tx, c.Output)
		if err != nil {
			return err
		}
		const upsert = `INSERT OR REPLACE INTO wf_cache (key, version, input, output, output_ref, at, run, path, visit)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
		_, err = tx.Exec(upsert, c.Key, c.Version, c.Input, output, ref, millis(c.At), string(b.Run), c.Node.Path, c.Node.Visit)
		if err != nil {
			return err
		}
	}
	return nil
}

// PutDefinition implements runlog.Store.
func (s *Store) PutDefinition(d runlog.Definition, replace bool) error {
	return translate(s.writer.Submit(sqlite.Synced, func(tx *sqlite.Tx) error {
		const insert = `INSERT INTO wf_def (name, version, fingerprint, graph, created_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`
		n, err := tx.Exec(insert, d.Name, d.Version, d.Fingerprint, []byte(d.Graph), millis(d.CreatedAt))
		if err != nil || n > 0 {
			return err
		}
		same := false
		err = tx.Query(`SELECT fingerprint = ? FROM wf_def WHERE name = ? AND version = ?`, []any{d.Fingerprint, d.Name, d.Version},
			func(r *sqlite.Row) error { same = r.Bool(0); return nil })
		switch {
		case err != nil || same:
			return err
		case !replace:
			return runlog.ErrDefinition
		}
		const update = `UPDATE wf_def SET fingerprint = ?, graph = ?, created_at = ? WHERE name = ? AND version = ?`
		_, err = tx.Exec(update, d.Fingerprint, []byte(d.Graph), millis(d.CreatedAt), d.Name, d.Version)
		return err
	}))
}

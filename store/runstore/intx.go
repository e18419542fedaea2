package runstore

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/workflow"
)

// TablePrefix begins the names of the tables that belong to programs; ours begin with wf_.
const TablePrefix = "app_"

// InTx implements runlog.Store.
func (s *Store) InTx(b *runlog.Batch, effect func(workflow.Tx) (json.RawMessage, error)) (out json.RawMessage, err error) {
	err = s.writer.Submit(durability(b), func(tx *sqlite.Tx) error {
		run, _, err := own(tx, b)
		if err != nil {
			return err
		}
		e, done := &b.Effects[0], false
		const find = `SELECT result FROM wf_effect WHERE run = ? AND path = ? AND visit = ? AND key = ? AND done`
		err = tx.Query(find, []any{run, e.Node.Path, e.Node.Visit, e.Key}, func(r *sqlite.Row) error {
			out, done = r.Bytes(0), true
			return nil
		})
		if err != nil || done {
			return err
		}
		err = tx.Guest(belongsToPrograms, func(g *sqlite.Guest) (err error) {
			out, err = effect(guest{g})
			return err
		})
		if err != nil {
			return err
		}
		e.Done, e.Result = true, out
		return memory(tx, run, b)
	})
	if err != nil {
		return nil, translate(err)
	}
	return out, nil
}

func belongsToPrograms(name string) bool {
	return len(name) > len(TablePrefix) && strings.EqualFold(name[:len(TablePrefix)], TablePrefix)
}

// guest implements workflow.Tx.
type guest struct{ g *sqlite.Guest }

// Exec implements workflow.Tx.
func (t guest) Exec(sql string, args ...any) (int64, error) {
	n, err := t.g.Exec(sql, args...)
	return n, named(err)
}

// errEnough ends a query whose reader has enough.
var errEnough = errors.New("enough")

// Query implements workflow.Tx.
func (t guest) Query(sql string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		err := t.g.Query(sql, args, func(row []any) error {
			if !yield(row, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, named(err))
		}
	}
}

// named gives a refusal its kind and says what is allowed.
func named(err error) error {
	if errors.Is(err, sqlite.ErrNotYours) {
		return fault.New(fault.InputValidation, "only tables and indexes whose names begin with %q, and no transactions: %w", TablePrefix, err)
	}
	return err
}

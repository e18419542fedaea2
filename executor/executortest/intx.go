package executortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// tally is an effect that leaves two rows, and how often it ran.
func tally(ran *int) func(workflow.Tx) (json.RawMessage, error) {
	return func(tx workflow.Tx) (json.RawMessage, error) {
		*ran++
		for _, sql := range []string{
			`CREATE TABLE IF NOT EXISTS app_tally (n INTEGER NOT NULL)`, `INSERT INTO app_tally VALUES (1)`, `INSERT INTO app_tally VALUES (2)`,
		} {
			if _, err := tx.Exec(sql); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(fmt.Sprint(*ran)), nil
	}
}

func inTx(t *testing.T, b *bench) {
	id, node, ran := b.begin("r1"), runlog.NodeKey{Path: "n", Visit: 1}, 0
	call := func(run runlog.RunID, epoch int64, key string, effect func(workflow.Tx) (json.RawMessage, error)) (string, error) {
		batch := &runlog.Batch{Run: run, Epoch: epoch, Effects: []runlog.Effect{{Node: node, Key: key}}}
		out, err := b.InTx(batch, effect)
		if b.h.Every {
			b.reopen()
		}
		return string(out), err
	}
	if !b.h.Tx {
		if _, err := call(id, b.epoch, "k", tally(&ran)); !errors.Is(err, runlog.ErrUnsupported) || ran != 0 {
			t.Errorf("ran %d times, %v", ran, err)
		}
		return
	}
	rows := func() string {
		t.Helper()
		var all []string
		_, err := call(id, b.epoch, "look", func(tx workflow.Tx) (json.RawMessage, error) {
			for row, err := range tx.Query(`SELECT n FROM app_tally ORDER BY n`) {
				if err != nil {
					return nil, err
				}
				all = append(all, fmt.Sprint(row...))
			}
			return nil, errors.New("only a look")
		})
		if err == nil || err.Error() != "only a look" {
			t.Fatal(err)
		}
		return strings.Join(all, " ")
	}
	for range 2 {
		if out, err := call(id, b.epoch, "k", tally(&ran)); err != nil || out != "1" || ran != 1 {
			t.Errorf("ran %d times, %s %v", ran, out, err)
		}
	}
	refused := errors.New("refused")
	for name, effect := range map[string]func(workflow.Tx) error{
		"an error":           func(workflow.Tx) error { return refused },
		"a statement":        func(tx workflow.Tx) error { _, err := tx.Exec(`INSERT INTO app_tally VALUES (NULL)`); return err },
		"no own table":       func(tx workflow.Tx) error { _, err := tx.Exec(`DELETE FROM wf_run`); return err },
		"a look elsewhere":   func(tx workflow.Tx) error { return first(tx, `SELECT * FROM wf_event`) },
		"the end of it":      func(tx workflow.Tx) error { _, err := tx.Exec(`COMMIT`); return err },
		"an error passed by": func(tx workflow.Tx) error { _, _ = tx.Exec(`DELETE FROM wf_effect`); return nil },
	} {
		_, err := call(id, b.epoch, "bad", func(tx workflow.Tx) (json.RawMessage, error) {
			if _, err := tally(new(int))(tx); err != nil {
				return nil, err
			}
			return json.RawMessage("1"), effect(tx)
		})
		if err == nil || name == "an error" && !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		if (strings.HasPrefix(name, "no own") || strings.HasPrefix(name, "a look")) && !fault.Is(err, fault.InputValidation) {
			t.Errorf("%s: %v", name, err)
		}
		if got := rows(); got != "1 2" {
			t.Errorf("%s left %s", name, got)
		}
	}
	list, err := b.Effects(id, node)
	check(t, []runlog.Effect{{Node: node, Key: "k", Done: true, Result: json.RawMessage("1")}}, list, err)
	b.must(&runlog.Batch{Run: id, Effects: []runlog.Effect{{Node: node, Key: "intent"}}})
	if out, err := call(id, b.epoch, "intent", tally(&ran)); err != nil || out != "2" {
		t.Errorf("an intent is no result: %s %v", out, err)
	}
	if _, err := call("nobody", b.epoch, "k", tally(&ran)); !errors.Is(err, runlog.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	old := b.epoch
	b.acquire()
	if _, err := call(id, old, "stale", tally(&ran)); !errors.Is(err, runlog.ErrStale) || ran != 2 {
		t.Errorf("of an owner of before: ran %d times, %v", ran, err)
	}
	b.reopen()
	if got := rows(); got != "1 1 2 2" {
		t.Errorf("kept %s", got)
	}
}

// first reads one row.
func first(tx workflow.Tx, sql string) error {
	for _, err := range tx.Query(sql) {
		return err
	}
	return nil
}

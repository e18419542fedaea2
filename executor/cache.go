package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow/graph"
)

// inputDigest names what a node computes its value from, and the type of that value: a node that declares the same key by
// accident does not get what it cannot read. Input without a canonical form (a member that occurs twice) is compared as it
// is written.
func inputDigest(n *graph.Node, input json.RawMessage) string {
	text, err := strictjson.Canonical(input)
	if err != nil {
		text = input
	}
	sum := sha256.Sum256(append([]byte(n.Out+" "), text...))
	return hex.EncodeToString(sum[:])
}

// recall ends a visit that has not begun with what an earlier success of the same left behind, when there is one and it is
// young enough. It reports whether there is nothing to enter any more.
func (o *owner) recall(v *visit) bool {
	n := v.Node()
	if n.CacheKey == "" || v.Again {
		return false
	}
	found, err := o.shared(n, inputDigest(n, v.Input))
	switch {
	case errors.Is(err, runlog.ErrNotFound):
		return false
	case err != nil:
		o.fatal = storeError(err, "shared results of %q", n.CacheKey)
		return true
	case n.CacheMS > 0 && o.e.now().Sub(found.At) >= time.Duration(n.CacheMS)*time.Millisecond:
		return false
	}
	o.goes()
	r := &v.record
	r.Status, r.Output, r.StartedAt, r.FinishedAt = runlog.NodeIsDone, found.Output, o.stamp(), o.stamp()
	o.event(runlog.NodeSucceeded, v, map[string]any{"cached": map[string]any{
		"runId": found.Run, "path": found.Node.Path, "visit": found.Node.Visit, "at": found.At,
	}})
	o.committed(func(err error) {
		if err == nil {
			cacheTaken.Hit()
		}
	})
	o.settled(v, schedule.Outcome{Value: schedule.Value{Raw: found.Output, Origin: v.Key}})
	return true
}

// shared finds a result, that of the next commit included.
func (o *owner) shared(n *graph.Node, input string) (runlog.Cached, error) {
	for _, c := range slices.Backward(o.next.Cache) {
		if c.Key == n.CacheKey && c.Version == n.Version && c.Input == input {
			return c, nil
		}
	}
	return o.e.store.Cached(n.CacheKey, n.Version, input)
}

// remember keeps the value of a visit that has just succeeded for those who would compute the same.
func (o *owner) remember(v *visit) {
	n := v.Node()
	if n.CacheKey == "" {
		return
	}
	o.next.Cache = append(o.next.Cache, runlog.Cached{
		Key: n.CacheKey, Version: n.Version, Input: inputDigest(n, v.Input), Output: v.record.Output, At: o.stamp(),
		Run: o.id, Node: v.Key,
	})
}

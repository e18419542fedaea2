package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow/graph"
)

// hashBytes is how much of a SHA-256 names an input: 128 bits keep accidents out.
const hashBytes = 16

// Hash names what a visit computes from: the kind, version and types of its node, and the canonical JSON of its inputs. Path
// and visit are not in it; they are the key of the record that it stands in.
func Hash(n *graph.Node, inputs ...json.RawMessage) string {
	hash, _ := hashed(signature(n), inputs)
	return hash
}

// signature is the part of a hash that is the same for all visits of a node.
func signature(n *graph.Node) []byte {
	return fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", n.Kind, n.Version, n.In, n.Out)
}

// hashed adds the inputs to a text that begins with the node's signature, and hashes it.
func hashed(text []byte, inputs []json.RawMessage) (hash string, _ []byte) {
	for _, in := range inputs {
		text = append(text, 0)
		if canonical(in) {
			text = append(text, in...)
			continue
		}
		if plain, err := strictjson.Canonical(in); err == nil {
			text = append(text, plain...)
		} else { // a type encoded itself as JSON that has no canonical form
			text = append(append(text, 0), in...)
		}
	}
	sum, name := sha256.Sum256(text), [2 * hashBytes]byte{}
	hex.Encode(name[:], sum[:hashBytes])
	return string(name[:]), text
}

// canonical reports whether JSON needs no look: a number, true, false, null without space around.
func canonical(raw json.RawMessage) bool {
	for _, c := range raw {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '.' {
			return false
		}
	}
	return len(raw) > 0
}

// hash is Hash of a step's node; its text is used again.
func (s *Machine) hash(at place, inputs ...json.RawMessage) (hash string) {
	hash, s.text = hashed(append(s.text[:0], at.s.signature...), inputs)
	if cap(s.text) > mostText {
		s.text = nil
	}
	return hash
}

// Source is what a run takes over from the run that it was forked from. nil stands for a run that is no fork. It does not
// change.
type Source struct {
	from  runlog.RunID
	kept  map[runlog.NodeKey]*runlog.Node // results that count while their input is the same
	again map[runlog.NodeKey]bool
	edits map[runlog.NodeKey]json.RawMessage
}

// NewSource prepares what fork says of its source, whose records are given. A result counts when it was there at the fork:
// a value, or a failure that the graph went on with.
func NewSource(p *Plan, fork *runlog.Fork, source *runlog.Run, records []runlog.Node) *Source {
	s := &Source{
		from: fork.Run, kept: map[runlog.NodeKey]*runlog.Node{}, again: map[runlog.NodeKey]bool{},
		edits: map[runlog.NodeKey]json.RawMessage{},
	}
	for _, key := range fork.At {
		s.again[key] = true
	}
	for _, e := range fork.Edits {
		s.edits[e.NodeKey] = e.Input
	}
	caught := p.catches(source, records)
	for i := range records {
		r := &records[i]
		if r.InputHash == "" || r.LastSeq > fork.Seq {
			continue
		}
		if r.Status == runlog.NodeIsDone || r.Status == runlog.NodeHasFailed && caught(r) {
			s.kept[r.NodeKey] = r
		}
	}
	return s
}

// catches returns whether a failure was handed to a catch, or is a result in a partial map, and did not end the run.
func (p *Plan) catches(run *runlog.Run, records []runlog.Node) func(*runlog.Node) bool {
	handled := map[string][]*graph.Node{} // input hash -> catches that got it
	for i := range records {
		if n := p.node(records[i].Path); n != nil && n.Kind == graph.Catch {
			handled[records[i].InputHash] = append(handled[records[i].InputHash], n)
		}
	}
	return func(r *runlog.Node) bool {
		if f := run.Failure; f != nil && f.Node == r.Path && f.Visit == r.Visit {
			return false
		}
		if n := p.mapOf(r.Path); n != nil && n.Partial {
			return true
		}
		for hash, catches := range handled {
			for _, n := range catches {
				if hash == Hash(n, encode(r.Failure)) {
					return true
				}
			}
		}
		return false
	}
}

// mapOf is the map that an element's path names, nil when it is no element.
func (p *Plan) mapOf(path string) *graph.Node {
	if s, element := p.step(path); s != nil && element >= 0 {
		return s.node
	}
	return nil
}

// node is the node of the graph that a path names, nil when there is none.
func (p *Plan) node(path string) *graph.Node {
	if i, known := p.at[path]; known {
		return &p.graph.Nodes[i]
	}
	return nil
}

// key is the visit of a step.
func (at place) key() runlog.NodeKey { return runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit} }

// given is the input of a visit: its own, or the one that the fork gave it.
func (s *Machine) given(key runlog.NodeKey, own json.RawMessage) json.RawMessage {
	if s.source != nil {
		if edited, is := s.source.edits[key]; is {
			return edited
		}
	}
	return own
}

// first is what a loop begins with. A value that the fork gave it is recorded, because it may become the result of the run.
func (s *Machine) first(at place, own Value) Value {
	raw := s.given(at.key(), nil)
	if raw == nil {
		return own
	}
	key := runlog.NodeKey{Path: at.s.node.Path, Visit: -at.f.visit}
	if s.records[key] == nil {
		s.decided = append(s.decided, runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true, Output: raw})
	}
	return Value{raw, key}
}

// fresh reports whether everything at a step runs again, whatever it computes from.
func (s *Machine) fresh(at place) bool {
	return at.f != nil && (at.f.fresh || s.source != nil && s.source.again[at.key()])
}

// again reports whether a visit was named by the fork, or is in a loop or map that was.
func (s *Machine) again(at place, key runlog.NodeKey) bool {
	return s.source != nil && s.source.again[key] || s.fresh(at)
}

// keep takes a visit's result over from the source when it was computed from the same. It returns the run's own record of
// it, nil when there is nothing to keep.
func (s *Machine) keep(at place, key runlog.NodeKey, hash string) *runlog.Node {
	if s.source == nil || s.again(at, key) {
		return nil
	}
	old := s.source.kept[key]
	if old == nil || old.InputHash != hash {
		return nil
	}
	n := *old
	n.From, n.FirstSeq, n.Waits = cmp.Or(old.From, s.source.from), 0, nil
	s.records[key] = &n
	s.decided = append(s.decided, n)
	return &n
}

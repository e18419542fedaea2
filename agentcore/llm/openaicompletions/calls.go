package openaicompletions

import (
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// call is a tool call while its parts arrive.
type call struct {
	id, name string
	args     []byte
	slot     protocol.Int // index on the wire
	chunk    int          // number of the chunk that touched it last
	block    int          // index of its block once started, else -1
}

// calls tells the parts of parallel calls apart. Endpoints disagree about index, id and name, so a part belongs to
//
//	with an index     the newest call of that index, unless its id or name says that another call begins
//	with an id only   the call of that id, else a new one
//	with neither      the last call, unless it brings a name that starts another call
type calls struct {
	list  []*call // in order of first appearance
	chunk int     // number of the chunk at hand
}

// add takes one part and returns its call.
func (c *calls) add(part callDelta) *call {
	target := c.find(part)
	if target == nil {
		target = &call{slot: part.Index, block: -1}
		c.list = append(c.list, target)
	}
	if target.id == "" {
		target.id = string(part.ID)
	}
	if target.name == "" {
		target.name = string(part.Function.Name)
	}
	target.args = append(target.args, part.Function.Arguments...)
	target.chunk = c.chunk
	return target
}

// find returns the call that part continues, nil when it begins a new one.
func (c *calls) find(part callDelta) *call {
	switch {
	case part.Index.OK:
		for i := len(c.list) - 1; i >= 0; i-- {
			if c.list[i].slot == part.Index {
				if c.list[i].goesOn(part, false) {
					return c.list[i]
				}
				return nil
			}
		}
	case part.ID != "":
		for i := len(c.list) - 1; i >= 0; i-- {
			if c.list[i].id == string(part.ID) {
				return c.list[i]
			}
		}
	case len(c.list) > 0:
		last := c.list[len(c.list)-1]
		if last.goesOn(part, part.Function.Name != "" && last.chunk == c.chunk) {
			return last
		}
	}
	return nil
}

// goesOn reports whether part continues c. sameChunk says that c and a part with a name stand in one chunk without an
// index, which makes them two calls.
func (c *call) goesOn(part callDelta, sameChunk bool) bool {
	id, name := string(part.ID), string(part.Function.Name)
	switch {
	case sameChunk:
		return false
	case id != "" && c.id != "" && id == c.id:
		return true
	case id != "" && c.id != "":
		return name == "" && !complete(c.args) // an id that changes within one call
	case name == "" || c.name == "":
		return true
	case name != c.name:
		return false
	}
	return !complete(c.args) || part.Function.Arguments == "" // the name is repeated with each part
}

// complete reports whether text is a whole JSON value, so that more text can only belong to another call.
func complete(text []byte) bool { return len(text) > 0 && json.Valid(text) }

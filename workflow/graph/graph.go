package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Format is the value of Graph.Format that this package writes and reads.
const Format = "workflowd.graph/1"

// Input is the pseudo path of the run's input.
const Input = "$input"

// Kind says what a node does.
type Kind string

// The kinds. Func and Stream run a user's node; Catch and Finally run one in their case; the others decide inline.
const (
	Func    Kind = "node"
	Stream  Kind = "stream"
	Apply   Kind = "apply"   // a pure function of its inputs
	Switch  Kind = "switch"  // chooses one of Cases
	Merge   Kind = "merge"   // the result of the chosen case; its first input is the switch, then one per case
	Map     Kind = "map"     // runs its node for each element of a list
	Loop    Kind = "loop"    // repeats the nodes of its scope
	Catch   Kind = "catch"   // runs its node when the input failed
	Finally Kind = "finally" // runs its node whatever happened to the input
)

// Graph is the document. It is plain data; callers do not change one that they were handed.
type Graph struct {
	Format      string          `json:"format"`
	Name        string          `json:"name"`
	Version     int             `json:"version"`
	Description string          `json:"description,omitempty"`
	Fingerprint string          `json:"fingerprint"` // of everything else in the document
	Input       TypeID          `json:"input"`
	Output      TypeID          `json:"output"`
	Result      string          `json:"result"` // path of the node whose value is the run's
	Nodes       []Node          `json:"nodes"`
	Edges       []Edge          `json:"edges"`
	Types       map[TypeID]Type `json:"types"`
}

// Node is one step. Fields beside Path, Kind, In and Out belong to single kinds.
type Node struct {
	Path        string   `json:"path"`
	Kind        Kind     `json:"kind"`
	Type        string   `json:"type,omitempty"` // what to draw, from the node's description
	Description string   `json:"description,omitempty"`
	Version     int      `json:"version,omitempty"`
	In          TypeID   `json:"in,omitempty"` // of its first input
	Out         TypeID   `json:"out"`
	Chunk       TypeID   `json:"chunk,omitempty"`
	Scope       string   `json:"scope,omitempty"`  // path of the loop whose body it belongs to
	When        *Guard   `json:"when,omitempty"`   // the case it belongs to
	Cases       []string `json:"cases,omitempty"`  // of a switch
	Result      string   `json:"result,omitempty"` // of a loop: path of the node that ends one turn
	Max         int      `json:"max,omitempty"`    // of a loop: turns; of a map: elements at a time
	Resumes     bool     `json:"resumes,omitempty"`
	SessionKey  string   `json:"sessionKey,omitempty"`
	Attempts    int      `json:"attempts,omitempty"`
	Partial     bool     `json:"partial,omitempty"` // of a map: a failure is an element of the result
	BackoffMS   int64    `json:"backoffMs,omitempty"`
	TimeoutMS   int64    `json:"timeoutMs,omitempty"`     // of an attempt
	IdleMS      int64    `json:"idleTimeoutMs,omitempty"` // of a stream: without a chunk
	CacheKey    string   `json:"cacheKey,omitempty"`      // of the results that runs share
	CacheMS     int64    `json:"cacheTtlMs,omitempty"`    // how old they may be, 0 = any age
}

// Guard makes a node part of one case of a switch.
type Guard struct {
	Switch string `json:"switch"`
	Case   string `json:"case"`
}

// Edge carries the value of From to To. The inputs of a node are its edges in document order.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// TypeID names a type by its content: equal schemas have equal ids in every document.
type TypeID string

// Type is a type that travels along edges, as JSON Schema. Name is the Go name, for people.
type Type struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Sign sets the fingerprint.
func (g *Graph) Sign() error {
	sum, err := g.sum()
	g.Fingerprint = sum
	return err
}

func (g *Graph) sum() (string, error) {
	unsigned := *g
	unsigned.Fingerprint = ""
	raw, err := json.Marshal(unsigned)
	if err != nil {
		return "", fmt.Errorf("fingerprint of workflow %q: %w", g.Name, err)
	}
	return digest(raw), nil
}

// digestBytes is how much of a SHA-256 names a graph or type: 128 bits keep accidents out.
const digestBytes = 16

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:digestBytes])
}

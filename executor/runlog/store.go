package runlog

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/workflowd/workflowd/workflow"
)

// Durability is what a commit promises when it returns.
type Durability int

// Fast survives a killed process; Synced survives a power loss too. Source: design "Ten rules" 4.
const (
	Fast Durability = iota
	Synced
)

// Errors of a Store. Nothing was written when one of these is returned. After any other error of Commit the effect is
// unknown: the owner stops and reads the store again.
var (
	// ErrStale reports that another owner's epoch is in force.
	ErrStale = errors.New("runlog: another owner took over")
	// ErrNotFound reports a record that does not exist, also the source of a fork.
	ErrNotFound = errors.New("runlog: not found")
	// ErrExists reports a start whose request id is taken.
	ErrExists = errors.New("runlog: the request id is taken")
	// ErrDefinition reports a definition that is stored with another fingerprint.
	ErrDefinition = errors.New("runlog: the version is registered with another graph")
	// ErrUnsupported reports what a kind of store cannot do.
	ErrUnsupported = errors.New("runlog: not supported by this kind of store")
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("runlog: closed")
)

// Batch is one atomic commit about one run. Commit sets Seq of each event; an event whose Source is known already is
// dropped and keeps Seq 0.
type Batch struct {
	Run        RunID
	Epoch      int64
	Durability Durability
	Create     *Run // a new run, ErrExists when its request id is taken; the source of a fork must be there
	Change     *RunChange
	Nodes      []Node
	Events     []Event
	Open       []Request    // ignored when the id exists
	Resolve    []Resolution // of requests that are open; others stay as they are
	Effects    []Effect     // upsert by node and key
	Signals    []Signal     // ignored when the id exists
	Consume    []string     // signal ids
	Usage      []UsageRecord
	Cache      []Cached // upsert by key, version and input; Run is the batch's

	first map[NodeKey]Seq // of the numbered events
}

// fewEvents is up to how many events a look through them costs less than a map.
const fewEvents = 8

// FirstSeq returns the number of the batch's first event of a visit, 0 when it has none. It is for stores, and for owners
// after a commit: the events must be numbered.
func (b *Batch) FirstSeq(key NodeKey) Seq {
	if len(b.Events) <= fewEvents {
		for i := range b.Events {
			if e := &b.Events[i]; e.Seq != 0 && e.Node == key.Path && e.Visit == key.Visit {
				return e.Seq
			}
		}
		return 0
	}
	if b.first == nil {
		b.first = make(map[NodeKey]Seq, len(b.Nodes))
		for i := range b.Events {
			e := &b.Events[i]
			at := NodeKey{e.Node, e.Visit}
			if _, known := b.first[at]; !known && e.Seq != 0 {
				b.first[at] = e.Seq
			}
		}
	}
	return b.first[key]
}

// State is what a Store knows at open.
type State struct {
	StoreID string // identity of the store, minted when it was created
	Epoch   int64  // this owner's epoch: one more than any before
}

// Store keeps runs. Commits about one run come one at a time, of different runs at the same time; reads at any time, and
// see every commit that returned. Implementations: Memory (the specification) and store/runstore.
type Store interface {
	// Acquire starts ownership: it raises the epoch. It is called once, before anything else.
	Acquire(ctx context.Context) (State, error)
	// Commit writes the batch whole or not at all. It is not cancelled half-way. The store keeps the JSON in it, not the
	// batch or its slices.
	Commit(b *Batch) error

	// InTx commits a batch whose only part is one effect that is to happen in the same transaction: it runs effect and
	// records what it returns as done. When the entry is done already it returns the recorded result and runs nothing. An
	// error of effect is returned as it is and leaves nothing. It may come beside a commit of the same run. A store without
	// transactions for others returns ErrUnsupported and runs nothing.
	InTx(b *Batch, effect func(workflow.Tx) (json.RawMessage, error)) (json.RawMessage, error)

	Run(id RunID) (Run, error)
	RunByRequest(workflow, requestID string) (Run, error)
	// Runs returns matching runs, newest first.
	Runs(q RunQuery) ([]Run, error)
	// Nodes returns the records of a run in the order in which they were first written.
	Nodes(id RunID) ([]Node, error)
	// Events returns events after a number, at most limit (0 = all), in order.
	Events(id RunID, after Seq, limit int) ([]Event, error)
	// Chunks returns the chunk events of one visit after a number, at most limit (0 = all), in order, retracted ones
	// included. Auxiliary ones are included too.
	Chunks(id RunID, key NodeKey, after Seq, limit int) ([]Event, error)
	Request(id string) (Request, error)
	// Requests returns matching requests, oldest first.
	Requests(q RequestQuery) ([]Request, error)
	Effects(id RunID, key NodeKey) ([]Effect, error)
	// Signals returns the unread signals of a run, oldest first.
	Signals(id RunID) ([]Signal, error)
	// HasSignal reports whether a signal of that id was ever sent to the run.
	HasSignal(id RunID, signal string) (bool, error)
	Usage(id RunID) ([]UsageRecord, error)
	// Ended returns runs of a workflow that have ended, the longest ended first, without those that a live run was forked
	// from.
	Ended(q EndedQuery) ([]Run, error)
	// Remove deletes runs that have ended, with everything that is theirs, and returns those it deleted. A run that is live
	// or that a live run was forked from stays, one that does not exist is passed over. Readers see a run whole or not at
	// all. It works in commits of bounded size; after an error or a crash between them the next Remove, of whatever runs,
	// goes on. The request ids of removed runs are free again.
	Remove(epoch int64, ids []RunID) ([]RunID, error)
	// Cached returns the newest value under key, version and input, whatever its age.
	Cached(key string, version int, input string) (Cached, error)
	// PutDefinition stores d, or checks that it is stored with the same fingerprint: ErrDefinition. With replace it
	// overwrites.
	PutDefinition(d Definition, replace bool) error
	// Definitions returns all, by name and version.
	Definitions() ([]Definition, error)
	Close() error
}

// RunQuery selects runs. Zero fields do not filter.
type RunQuery struct {
	Status       []RunStatus
	Workflow     string
	Version      int
	Conversation string
	Project      string
	Before       RunID // only runs older than this one
	Limit        int
}

// EndedQuery selects runs that have ended.
type EndedQuery struct {
	Workflow string
	Before   time.Time // only those that ended before it; zero = whenever
	Keep     int       // not the so many that ended last
	Limit    int       // 0 = all
}

// RequestQuery selects requests. Zero fields do not filter.
type RequestQuery struct {
	Status       []RequestStatus
	Run          RunID
	Conversation string
	Limit        int
}

package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// NodeContext is what a node may ask of its run. It is cancelled when the run is cancelled, the host leaves, ownership is
// lost or the deadline passes; context.Cause then returns an *Error with the kind that Abort reports. It is valid until
// the node returns and safe for concurrent use.
type NodeContext interface {
	context.Context
	Run() RunInfo
	UserInput() UserInput
	ToolPermissions() ToolPermissions
	TokenUsage() TokenUsage
	Storage() Storage
	Output() OutputSink
	Abort() AbortSignal
	Clock() Clock
	Journal() Journal
}

// RunInfo says where in which run a node is. Visit and Attempt count from 1: a visit is a turn of the enclosing loop, an
// attempt is an entry into the node's code. Epoch is the owner's.
type RunInfo struct {
	RunID        string
	WorkflowName string
	Version      int
	Conversation string // "" = the run belongs to no conversation
	Project      string
	Path         string // of the node; an element of a Map ends in [index]
	Element      int    // 1-based element number inside a Map, 0 outside
	Visit        int
	Attempt      int
	Epoch        int64
	Labels       map[string]string // shared; do not change
}

// UserInput asks people. A request is one row under (path, visit, key) that outlives the process.
type UserInput interface {
	// Request returns the recorded answer. While there is none it opens the request and returns *userinput.Required, which
	// the node hands on: the run is parked and the node entered again when the answer is there. The same key with another
	// kind, payload or schema is a conflict.
	Request(request userinput.Request) (json.RawMessage, error)
}

// TokenUsage collects what models consumed.
type TokenUsage interface {
	// Report stores the usage under recordID, replacing an earlier report of the same record, and returns once committed.
	Report(recordID string, usage Usage) error
}

// Usage is the consumption of one model response, in tokens.
type Usage struct {
	Provider    string `json:"provider,omitempty"`
	Model       string `json:"model,omitempty"`
	Input       int64  `json:"inputTokens"`
	Output      int64  `json:"outputTokens"`
	Total       int64  `json:"totalTokens"`
	CachedInput int64  `json:"cachedInputTokens,omitempty"`
	CacheWrite  int64  `json:"cacheCreationTokens,omitempty"`
	Reasoning   int64  `json:"reasoningTokens,omitempty"`
}

// Storage names the places where a node keeps things beside the run. A zero field means that the host set none.
type Storage struct {
	AgentStoreDir string // directory of the durable agent sessions
	FilesDir      string // directory of the content-addressed files
}

// OutputSink takes auxiliary items: what a node shows beside its own chunks.
type OutputSink interface {
	// Emit logs the chunk under the node's path. It returns once the chunk is accepted for the next flush, in order with
	// the node's other chunks, and blocks while the log is behind.
	Emit(chunk outputitems.Chunk) error
}

// AbortSignal tells why a node must stop.
type AbortSignal interface {
	Done() <-chan struct{}
	// Cause is "" while the node may go on, then fault.ExecutionAborted (a person or the run stopped it), fault.Suspended
	// (the host leaves, work is kept), fault.OwnerLost (another process owns the run) or DeadlineExceeded.
	Cause() fault.Kind
}

// DeadlineExceeded is the kind of a run that did not end in time.
const DeadlineExceeded fault.Kind = "deadline_exceeded"

// Clock is the time of the run.
type Clock interface{ Now() time.Time }

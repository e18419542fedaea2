package compaction

// The numbers of compaction, in tokens unless they say otherwise. Source: spec create-agent "Context compaction", durable
// kernel 6 and 11.
const (
	// FullPercent of the window is where a context is compacted, before a request.
	FullPercent = 90
	// DefaultKeep is how much of the newest context an automatic compaction keeps, at most a keepShare of the window.
	DefaultKeep = 20_000
	// MaxSummary bounds one summary, at most a summaryShare of the window.
	MaxSummary = 13_107
	// MaxResultText bounds what a summary request shows of one tool result, in bytes.
	MaxResultText = 2000

	keepShare    = 5 // one fifth of the window
	summaryShare = 4
	leastPart    = 64 // less room than that for a text is none
)

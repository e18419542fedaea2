package anthropic

import "github.com/workflowd/workflowd/agentcore/llm/protocol"

// DefaultIdleTimeout ends a stream that sent no event for so long; comments and pings do not count.
const DefaultIdleTimeout = protocol.DefaultIdleTimeout

// Version is the version of the protocol that is spoken. Source: reference of the Messages API.
const Version = "2023-06-01"

// MaxCallID is the longest call id that the endpoint takes, in bytes of [A-Za-z0-9_-]. Source: durable-kernel 11.
const MaxCallID = 64

// maxName is the longest name of a tool that the endpoint takes, in bytes of [A-Za-z0-9_-]. Source: reference.
const maxName = 128

// MaxSearches is how many searches one request may make. Source: spec create-agent "Web search".
const MaxSearches = 5

// Tokens of output. The protocol wants a limit in each request. Source: durable-kernel 11, 15.6.
const (
	defaultOutput = 32_000 // limit of a request that names none, where the model can say as much
	minOutput     = 1024   // what a thinking budget leaves for the answer
	minBudget     = 1024   // smallest budget that the endpoint takes
)

// budgets are the thinking tokens of a level, for models that think by budget.
const (
	budgetMinimal = 1024
	budgetLow     = 2048
	budgetMedium  = 8192
	budgetHigh    = 16384
)

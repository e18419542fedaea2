package openairesponses

import "github.com/workflowd/workflowd/agentcore/llm/protocol"

// DefaultIdleTimeout ends a stream that sent no event for so long; comments and keep-alive events do not count.
const DefaultIdleTimeout = protocol.DefaultIdleTimeout

// Lengths that the endpoint takes, in bytes of [A-Za-z0-9_-]. Source: durable-kernel 11, 15.2.
const (
	MaxCallID = 64
	maxItemID = 64
	maxName   = 64
)

// maxCacheKey is the longest prompt_cache_key, in bytes. Source: reference of the Responses API.
const maxCacheKey = 64

// maxNumbered bounds the sequence numbers for which repeats are looked for.
const maxNumbered = 1 << 20

package openaicompletions

import "github.com/workflowd/workflowd/agentcore/llm/protocol"

// DefaultIdleTimeout ends a stream that sent no event for so long; comments do not count.
const DefaultIdleTimeout = protocol.DefaultIdleTimeout

// MaxCallID is the longest call id that every endpoint takes, in bytes of [A-Za-z0-9_-]. Source: durable-kernel 15.2.
const MaxCallID = 40

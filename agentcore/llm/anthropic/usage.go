package anthropic

import (
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// usage is a token report. Each is cumulative and may leave counts out, which then keep their value.
type usage struct {
	Input      protocol.Int `json:"input_tokens"`
	Output     protocol.Int `json:"output_tokens"`
	CacheRead  protocol.Int `json:"cache_read_input_tokens"`
	CacheWrite protocol.Int `json:"cache_creation_input_tokens"`
	Details    *struct {
		Thinking protocol.Int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// add takes a later report over u.
func (u *usage) add(later *usage) {
	if later == nil {
		return
	}
	for _, c := range []struct{ to, from *protocol.Int }{
		{&u.Input, &later.Input}, {&u.Output, &later.Output}, {&u.CacheRead, &later.CacheRead}, {&u.CacheWrite, &later.CacheWrite},
	} {
		if c.from.OK {
			*c.to = *c.from
		}
	}
	if later.Details != nil && later.Details.Thinking.OK {
		u.Details = later.Details
	}
}

// report returns u on our scale, nil when nothing was reported. The wire's input leaves the cached tokens out.
func (u *usage) report() *llm.Usage {
	if !u.Input.OK && !u.Output.OK && !u.CacheRead.OK && !u.CacheWrite.OK {
		return nil
	}
	out := &llm.Usage{Input: u.Input.N + u.CacheRead.N + u.CacheWrite.N, Output: u.Output.N, CachedInput: u.CacheRead.N, CacheWrite: u.CacheWrite.N}
	out.Total = out.Input + out.Output
	if u.Details != nil {
		out.Reasoning = u.Details.Thinking.N
	}
	return out
}

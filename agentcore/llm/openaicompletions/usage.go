package openaicompletions

import (
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// usage is a token report as endpoints shape it.
type usage struct {
	Prompt     protocol.Int `json:"prompt_tokens"`
	Completion protocol.Int `json:"completion_tokens"`
	Total      protocol.Int `json:"total_tokens"`
	CacheHit   protocol.Int `json:"prompt_cache_hit_tokens"`
	Cached     protocol.Int `json:"cached_tokens"`
	Reasoning  protocol.Int `json:"reasoning_tokens"`
	CacheWrite protocol.Int `json:"cache_creation_input_tokens"`

	PromptDetails struct {
		Cached     protocol.Int `json:"cached_tokens"`
		CacheWrite protocol.Int `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning protocol.Int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func first(counts ...protocol.Int) int64 {
	for _, c := range counts {
		if c.OK {
			return c.N
		}
	}
	return 0
}

// report returns u on our scale, nil when it reports nothing. The counts are those of the wire: some endpoints leave
// reasoning out of completion_tokens and count it in total_tokens only.
func (u *usage) report() *llm.Usage {
	if u == nil || !u.Prompt.OK && !u.Completion.OK && !u.Total.OK {
		return nil
	}
	out := &llm.Usage{
		Input: u.Prompt.N, Output: u.Completion.N, Total: u.Total.N,
		CachedInput: first(u.PromptDetails.Cached, u.CacheHit, u.Cached),
		CacheWrite:  first(u.PromptDetails.CacheWrite, u.CacheWrite),
		Reasoning:   first(u.CompletionDetails.Reasoning, u.Reasoning),
	}
	if !u.Total.OK {
		out.Total = out.Input + out.Output
	}
	return out
}

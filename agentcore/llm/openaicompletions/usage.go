package openaicompletions

import (
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// usage is a token report as endpoints shape it.
type usage struct {
	Prompt     tokens `json:"prompt_tokens"`
	Completion tokens `json:"completion_tokens"`
	Total      tokens `json:"total_tokens"`
	CacheHit   tokens `json:"prompt_cache_hit_tokens"`
	Cached     tokens `json:"cached_tokens"`
	Reasoning  tokens `json:"reasoning_tokens"`
	CacheWrite tokens `json:"cache_creation_input_tokens"`

	PromptDetails struct {
		Cached     tokens `json:"cached_tokens"`
		CacheWrite tokens `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning tokens `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// tokens is a count that was reported or not.
type tokens struct {
	n  int64
	ok bool
}

// UnmarshalJSON takes a number; anything else counts as not reported.
func (v *tokens) UnmarshalJSON(raw []byte) error {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		*v = tokens{n, n >= 0}
		return nil
	}
	const most = 1 << 53 // whole numbers of JSON
	f, err := strconv.ParseFloat(string(raw), 64)
	*v = tokens{}
	if err == nil && f >= 0 && f < most {
		*v = tokens{int64(f), true}
	}
	return nil
}

func first(counts ...tokens) int64 {
	for _, c := range counts {
		if c.ok {
			return c.n
		}
	}
	return 0
}

// report returns u on our scale, nil when it reports nothing. The counts are those of the wire: some endpoints leave
// reasoning out of completion_tokens and count it in total_tokens only.
func (u *usage) report() *llm.Usage {
	if u == nil || !u.Prompt.ok && !u.Completion.ok && !u.Total.ok {
		return nil
	}
	out := &llm.Usage{
		Input: u.Prompt.n, Output: u.Completion.n, Total: u.Total.n,
		CachedInput: first(u.PromptDetails.Cached, u.CacheHit, u.Cached),
		CacheWrite:  first(u.PromptDetails.CacheWrite, u.CacheWrite),
		Reasoning:   first(u.CompletionDetails.Reasoning, u.Reasoning),
	}
	if !u.Total.ok {
		out.Total = out.Input + out.Output
	}
	return out
}

package openaicompletions

import (
	"net/url"
	"strings"
)

// quirks are the differences between endpoints that a request must know. The zero value is the widest common dialect.
type quirks struct {
	completionTokens bool // the output limit is max_completion_tokens; max_tokens is refused for newer models
	cacheKey         bool // prompt_cache_key is understood
	noEmptyTools     bool // an empty tools list is refused
}

// quirkTable names the endpoints that differ, by the end of the host name. Everything else gets the zero value: max_tokens,
// no cache key, and an empty tools list where the history has calls, which relays to Anthropic models demand. Source:
// durable-kernel 15.2 and the reference pages of the endpoints.
var quirkTable = []struct {
	host string
	quirks
}{
	{"api.openai.com", quirks{completionTokens: true, cacheKey: true, noEmptyTools: true}},
	{"openai.azure.com", quirks{completionTokens: true, noEmptyTools: true}},
	{"api.groq.com", quirks{completionTokens: true, noEmptyTools: true}},
	{"api.cerebras.ai", quirks{completionTokens: true, noEmptyTools: true}},
	{"api.x.ai", quirks{completionTokens: true, noEmptyTools: true}},
}

func quirksOf(base *url.URL) quirks {
	host := strings.ToLower(base.Hostname())
	for _, q := range quirkTable {
		if host == q.host || strings.HasSuffix(host, "."+q.host) {
			return q.quirks
		}
	}
	return quirks{}
}

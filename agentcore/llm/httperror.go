package llm

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Failure is what an endpoint said when it failed: an HTTP error response, or an error inside an open stream (Status 0
// unless the frame names one). Body is the response body or the frame's JSON.
type Failure struct {
	Provider string // name of the provider, "" when unknown
	Status   int
	Header   http.Header
	Body     []byte
	Now      time.Time // to turn a Retry-After date into a wait
}

// Classify turns a failure into a typed error with Dispatched set. It is pure: one table of statuses, codes and texts for
// all protocols. Throttling texts win over overflow texts, because some throttles mention "too many tokens"; overflow wins
// over the status; money wins over a retry. Source: durable-kernel 15.4, 15.5.
func Classify(f Failure) *Error {
	w := wordsOf(f.Body)
	e := &Error{
		Status: f.Status, Code: w.code, Message: w.message, Dispatched: true,
		RetryAfter: retryAfter(f.Header, f.Now),
	}
	status := f.Status
	if status == 0 {
		status = w.status
		e.Status = status
	}
	if e.Message == "" && status != 0 {
		e.Message = http.StatusText(status)
	}
	e.Class = classOf(status, strings.ToLower(w.code+"\n"+w.kind+"\n"+w.message+"\n"+w.detail), f)
	return e
}

func classOf(status int, text string, f Failure) Class {
	switch {
	case hasAny(text, quotaTexts) || status == http.StatusPaymentRequired:
		return Quota
	case status == http.StatusTooManyRequests || hasAny(text, throttleTexts):
		return RateLimit
	case hasAny(text, overflowTexts) || status == http.StatusRequestEntityTooLarge:
		return Overflow
	case status == http.StatusBadRequest && len(f.Body) == 0 && strings.Contains(strings.ToLower(f.Provider), "cerebras"):
		return Overflow // this provider says nothing else
	case status >= http.StatusInternalServerError:
		return Server
	case status == http.StatusRequestTimeout || status == http.StatusConflict:
		return RateLimit
	case status == http.StatusUnauthorized || status == http.StatusForbidden || hasAny(text, authTexts):
		return Auth
	case hasAny(text, filterTexts):
		return Filtered
	case status >= http.StatusBadRequest || hasAny(text, invalidTexts):
		return Invalid
	case hasAny(text, serverTexts) || status == 0:
		return Server // an error inside a stream with no better name: the endpoint gave up half-way
	}
	return Invalid // a status that is neither success nor an error, such as a redirect
}

// hasAny reports whether text has one of the phrases, all lower case. A phrase "a…b" wants a, and b behind it.
func hasAny(text string, phrases []string) bool {
	for _, p := range phrases {
		first, second, two := strings.Cut(p, "…")
		if i := strings.Index(text, first); i >= 0 && (!two || strings.Contains(text[i+len(first):], second)) {
			return true
		}
	}
	return false
}

// The phrases, compared in lower case with code, type and message of the error.
var (
	quotaTexts = []string{
		"insufficient_quota", "insufficient quota", "insufficient balance", "insufficient_balance", "insufficient credit",
		"exceeded your current quota", "quota exceeded", "out of budget", "budget exceeded", "billing_hard_limit",
		"monthly limit", "monthly usage limit", "weekly limit", "available balance", "free usage limit", "usage limit reached",
		"credit balance is too low", "out of credits", "no credits", "used all available credits", "payment required",
		"usage_limit_reached", "billing_not_active", "billing_error",
	}
	throttleTexts = []string{
		"rate limit", "rate_limit", "rate-limit", "ratelimit", "too many requests", "too_many_requests", "throttl",
	}
	overflowTexts = []string{
		"context_length_exceeded", "prompt is too long", "request_too_large", "input is too long for requested model",
		"input too long", "prompt tokens exceed", "exceeds the context window", "exceed context limit", "maximum context length",
		"input token count…exceeds the maximum", "maximum prompt length is", "reduce the length of the messages",
		"maximum allowed input length", "longer than the context", "longer than the model's context", "token…exceeds the limit of",
		"available context size", "exceed_context_size", "greater than the context length", "context window exceeds limit",
		"exceeded model token limit", "tokens but the configured context size", "model_context_window_exceeded",
		"prompt too long", "max context length", "range of input length should be", "too many tokens", "too_many_tokens",
		"token limit exceeded", "too_many_prompt_tokens", "length of all messages is too long", "context size has been exceeded",
		"context length exceeded",
	}
	authTexts = []string{
		"invalid_api_key", "api key not valid", "api_key_invalid", "incorrect api key", "invalid api key", "authentication_error",
		"unauthorized", "permission_error", "permission_denied",
	}
	filterTexts = []string{
		"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "content management policy",
		"data_inspection_failed", "flagged by moderation", "sensitive_words_detected",
	}
	invalidTexts = []string{
		"invalid_request_error", "tool_use_failed", "not_found_error", "model_not_found", "invalid_argument", "invalid_model",
		"badrequesterror", "bad_request", "unsupported_value", "invalid-argument",
	}
	serverTexts = []string{"overloaded", "server_error", "service unavailable", "internal error", "timed out", "try again"}
)

// words is what the error body said, however it was shaped.
type words struct {
	code, kind, message, detail string
	status                      int
}

// wordsOf reads the shapes in use: {"error":{…}}, {"error":"text"}, {"message":…,"code":…}, {"detail":…}, a list holding
// one of them, or plain text.
func wordsOf(body []byte) words {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return words{message: plain(body)}
	}
	w := wordsIn(top)
	if raw, ok := top["error"]; ok {
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) == nil && inner != nil {
			outer := w
			w = wordsIn(inner)
			if w.message == "" {
				w.message = outer.message
			}
		} else if text := scalar(raw); text != "" {
			w.message = text
		}
	}
	return w
}

func wordsIn(obj map[string]json.RawMessage) words {
	w := words{code: scalar(obj["code"]), kind: scalar(obj["type"]), message: scalar(obj["message"])}
	if w.kind == "" {
		w.kind = scalar(obj["error_type"])
	}
	if w.message == "" {
		w.message = scalar(obj["detail"])
	}
	for _, key := range []string{"status_code", "code", "status"} {
		if n, err := strconv.Atoi(scalar(obj[key])); err == nil && n >= 400 && n < 600 {
			w.status = n
			break
		}
	}
	w.detail = strings.Join([]string{scalar(obj["status"]), string(obj["metadata"]), string(obj["details"])}, "\n")
	return w
}

// scalar returns a JSON string's text or a number's digits, "" for anything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// maxPlainError is how many bytes of a body that is no JSON become the message; pages of proxies are longer.
const maxPlainError = 300

func plain(body []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), maxPlainError)]), ""))
	return strings.Join(strings.Fields(text), " ")
}

// retryAfter reads retry-after-ms and Retry-After in seconds or as a date; 0 when absent, unreadable or past.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return wait(ms / 1000)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return wait(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// maxWait is the longest wait that is told apart: a year is as final as more.
const maxWait = 365 * 24 * time.Hour

func wait(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
}

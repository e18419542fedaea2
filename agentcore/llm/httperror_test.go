package llm

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestAFailureIsClassifiedByStatusCodeAndText(t *testing.T) {
	for _, tc := range []struct {
		name     string
		provider string
		status   int
		body     string
		want     Class
	}{
		{"408 is worth another attempt", "", 408, `{}`, RateLimit},
		{"409 is worth another attempt", "", 409, `{}`, RateLimit},
		{"429 is worth another attempt", "", 429, `{"error":{"message":"slow down"}}`, RateLimit},
		{"429 with a used-up quota is final", "", 429, `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}`, Quota},
		{"429 with a monthly limit is final", "", 429, `{"error":{"message":"Monthly limit reached. Resets in 16 days"}}`, Quota},
		{"402 is money", "", 402, ``, Quota},
		{"403 about credits is money", "", 403, `{"error":"Your team has used all available credits"}`, Quota},
		{"500", "", 500, ``, Server},
		{"503", "", 503, `<html><body>bad gateway</body></html>`, Server},
		{"529", "", 529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, Server},
		{"a throttle that mentions tokens is no overflow", "", 400, `{"error":{"message":"Rate limit: too many tokens per minute"}}`, RateLimit},
		{"overflow by code", "", 400, `{"error":{"code":"context_length_exceeded","message":"x"}}`, Overflow},
		{"overflow by text with numbers between", "", 400, `{"error":{"message":"The input token count (12345) exceeds the maximum number of tokens allowed (10000)."}}`, Overflow},
		{"413 is an overflow", "", 413, ``, Overflow},
		{"a bare 400 is an overflow at Cerebras", "cerebras", 400, ``, Overflow},
		{"a bare 400 is a wrong request elsewhere", "", 400, ``, Invalid},
		{"500 inside prose is no status", "", 400, `{"error":{"message":"max_tokens must be at most 500"}}`, Invalid},
		{"401", "", 401, `{"error":"Invalid username or password."}`, Auth},
		{"403", "", 403, ``, Auth},
		{"404", "", 404, `Not Found`, Invalid},
		{"422", "", 422, `{"detail":"wrong"}`, Invalid},
		{"a content policy", "", 400, `{"error":{"code":"content_policy_violation","message":"no"}}`, Filtered},
		{"a redirect", "", 302, ``, Invalid},
		{"an error frame without a status", "", 0, `{"error":{"message":"failed to decode, try again"}}`, Server},
		{"an error frame with a status of its own", "", 0, `{"error":{"message":"x","status_code":400}}`, Invalid},
		{"an error frame with a numeric code", "", 0, `{"error":{"code":429,"message":"Provider returned error"}}`, RateLimit},
		{"an error frame of a wrong request", "", 0, `{"error":{"type":"invalid_request_error","message":"x"}}`, Invalid},
		{"an error frame about money", "", 0, `{"type":"error","error":{"type":"billing_error","message":"x"}}`, Quota},
		{"an error frame of a busy endpoint", "", 0, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Server},
		{"an error frame of a throttle", "", 0, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, RateLimit},
		{"an error frame of a wrong key", "", 0, `{"type":"error","error":{"type":"authentication_error","message":"x"}}`, Auth},
		{"an error frame of a request that is too large", "", 0, `{"type":"error","error":{"type":"request_too_large","message":"x"}}`, Overflow},
		{"an error frame of Responses", "", 0, `{"type":"error","code":"server_error","message":"x","param":null}`, Server},
		{"an error frame that holds a list", "", 0, `[{"error":{"code":503,"message":"x"}}]`, Server},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Classify(Failure{Provider: tc.provider, Status: tc.status, Body: []byte(tc.body)})
			if got.Class != tc.want {
				t.Fatalf("got %s, want %s", got.Class, tc.want)
			}
			if !got.Dispatched {
				t.Fatal("an answered request must count as dispatched")
			}
		})
	}
}

func TestTheServerNamesTheWait(t *testing.T) {
	now := time.Date(2026, 10, 21, 7, 27, 30, 0, time.UTC)
	for _, tc := range []struct {
		name, key, value string
		want             time.Duration
		retry            bool
	}{
		{"seconds", "retry-after", "2", 2 * time.Second, true},
		{"a fraction", "retry-after", "0.5", 500 * time.Millisecond, true},
		{"milliseconds", "retry-after-ms", "1500", 1500 * time.Millisecond, true},
		{"zero milliseconds", "retry-after-ms", "0", 0, true},
		{"a date", "retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", 30 * time.Second, true},
		{"a past date", "retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", 0, true},
		{"days are a refusal", "retry-after", "1382400", 1382400 * time.Second, false},
		{"more than a duration holds", "retry-after", "1e300", maxWait, false},
		{"no number at all", "retry-after", "NaN", 0, true},
		{"negative", "retry-after", "-3", 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			h.Set(tc.key, tc.value)
			got := Classify(Failure{Status: 429, Header: h, Now: now})
			if got.RetryAfter != tc.want || got.Retryable() != tc.retry {
				t.Fatalf("got %v, retryable %v; want %v, %v", got.RetryAfter, got.Retryable(), tc.want, tc.retry)
			}
		})
	}
}

// TestWireHTTPErrors compares the classification with recorded error responses, where WORKFLOWD_WIRE_DIR names them.
func TestWireHTTPErrors(t *testing.T) {
	lines := []string{
		`{"n":0,"provider":"own","status":429,"headers":{"retry-after":"1"},"body":"{\"error\":{\"code\":\"rate_limit_exceeded\"}}","expected":{"error_class":"rate_limit","retry":true}}`,
		`{"n":0,"provider":"own","status":400,"body":"{\"error\":{\"code\":\"context_length_exceeded\"}}","expected":{"error_class":"overflow","compact_and_retry_once":true}}`,
	}
	if dir := os.Getenv("WORKFLOWD_WIRE_DIR"); dir != "" {
		file, err := os.Open(filepath.Join(dir, "http-errors.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		scan := bufio.NewScanner(file)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			lines = append(lines, scan.Text())
		}
		if err := scan.Err(); err != nil {
			t.Fatal(err)
		}
	}
	classes := map[string]Class{
		"overflow": Overflow, "rate_limit": RateLimit, "server": Server, "auth": Auth, "quota": Quota,
		"replay": Invalid, "tool_use_failed": Invalid, "validation": Invalid, "not_found": Invalid, "invalid": Invalid,
		"filtered": Filtered, "content_filter": Filtered,
	}
	for i, line := range lines {
		var in struct {
			N        int
			Provider string
			Status   int
			Headers  map[string]string
			Body     string
			Expected struct {
				Class   string `json:"error_class"`
				Retry   bool
				Compact bool `json:"compact_and_retry_once"`
			}
		}
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		t.Run(strconv.Itoa(in.N)+"-"+in.Provider, func(t *testing.T) {
			h := http.Header{}
			for k, v := range in.Headers {
				h.Set(k, v)
			}
			got := Classify(Failure{Provider: in.Provider, Status: in.Status, Header: h, Body: []byte(in.Body)})
			want, known := classes[in.Expected.Class]
			if !known {
				t.Fatalf("unknown class %q", in.Expected.Class)
			}
			if got.Class != want || got.Retryable() != in.Expected.Retry || (got.Class == Overflow) != in.Expected.Compact {
				t.Fatalf("got %s (retry %v), want %s (retry %v): %s", got.Class, got.Retryable(), want, in.Expected.Retry, in.Body)
			}
			if got.Message == "" {
				t.Fatal("the provider's words are missing")
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(429, []byte(`{"error":{"code":429}}`), "1")
	f.Add(0, []byte(`[null]`), "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		got := Classify(Failure{Status: status, Body: body, Header: http.Header{"Retry-After": {after}}})
		if got.Class == "" || got.Error() == "" || got.RetryAfter < 0 {
			t.Fatalf("got %+v", got)
		}
	})
}

package protocol

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// secrets are the values that must not appear in an error.
type secrets []string

// secretsOf lists the key, header values, and passwords and values in the URL.
func secretsOf(key string, headers http.Header, base *url.URL) secrets {
	list := []string{key}
	for _, values := range headers {
		list = append(list, values...)
	}
	if password, ok := base.User.Password(); ok {
		list = append(list, password)
	}
	for _, values := range base.Query() {
		list = append(list, values...)
	}
	var out secrets
	for _, s := range list {
		if len(s) >= shortestSecret {
			out = append(out, s)
		}
	}
	return out
}

func (s secrets) clean(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[hidden]")
	}
	return text
}

// hide cleans what e says, and drops its cause when that would still tell a secret.
func (s secrets) hide(e *llm.Error) {
	e.Message, e.Code = s.clean(e.Message), s.clean(e.Code)
	if e.Cause != nil && e.Cause.Error() != s.clean(e.Cause.Error()) {
		e.Cause = nil
	}
}

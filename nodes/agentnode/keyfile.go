package agentnode

import (
	"os"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// ReadKeyFile returns the key in a file, without surrounding white space. The error names the file, never its content.
func ReadKeyFile(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fault.New(fault.InputValidation, "read key file: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fault.New(fault.InputValidation, "key file %q: want one line with the key", path)
	}
	return key, nil
}

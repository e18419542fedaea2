package permission

import (
	"fmt"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// Policy decides which built-in tools exist and how far the file tools reach. The zero value counts as Workspace.
// Source: spec create-agent "Permission policy", P-418 to P-424.
type Policy string

// The policies.
const (
	ReadOnly  Policy = "read-only" // no write, edit and bash; files inside the roots
	Workspace Policy = "workspace" // every tool; files inside the roots
	Auto      Policy = "auto"      // every tool; files anywhere
)

// ParsePolicy returns the policy named s; "" is Workspace. Another text is a fault.InputValidation that lists the names.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return Workspace, nil
	case ReadOnly, Workspace, Auto:
		return p, nil
	}
	return "", fault.New(fault.InputValidation, "permission policy %q: want %s", clip(s), oneOf(ReadOnly, Workspace, Auto))
}

// UnmarshalText is ParsePolicy, so that JSON and configuration are as strict as code.
func (p *Policy) UnmarshalText(text []byte) error {
	parsed, err := ParsePolicy(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// Mode is what a turn is for. The zero value counts as Build.
type Mode string

// The modes. Source: spec create-agent "Plan mode".
const (
	Build Mode = "build"
	Plan  Mode = "plan"
)

// ParseMode returns the mode named s; "" is Build. Another text is a fault.InputValidation.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Build, nil
	case Build, Plan:
		return m, nil
	}
	return "", fault.New(fault.InputValidation, "agent mode %q: want %s", clip(s), oneOf(Build, Plan))
}

func oneOf[T ~string](names ...T) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, " or ")
}

// maxEcho bounds how much of a wrong name an error repeats.
const maxEcho = 64

func clip(s string) string {
	if len(s) > maxEcho {
		return strings.ToValidUTF8(s[:maxEcho], "") + "…"
	}
	return s
}

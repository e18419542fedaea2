package permission

import (
	"fmt"
	"slices"
)

// The names of the built-in tools. Source: P-400.
const (
	Read    = "read"
	Ls      = "ls"
	Find    = "find"
	Grep    = "grep"
	Write   = "write"
	Edit    = "edit"
	Bash    = "bash"
	AskUser = "ask_user"
)

// Builtins returns the names of all built-in tools in the order in which they are offered.
func Builtins() []string { return []string{Read, Ls, Find, Grep, Write, Edit, Bash, AskUser} }

// Filter returns the built-in tools that exist under a policy and mode, in a fixed order. A non-nil only narrows them
// and never adds one (P-407); names in it that are not built-in are not looked at, for they may be a host's own tools.
func Filter(p Policy, m Mode, only []string) []string {
	names := []string{}
	for _, name := range Builtins() {
		if Check(name, p, m) == nil && (only == nil || slices.Contains(only, name)) {
			names = append(names, name)
		}
	}
	return names
}

// Check returns nil when a call of the tool may run under the policy and mode now in force, else an error for the model
// that says why and what else it can do. It holds for offers, forged calls and recovered calls alike (P-436, P-438).
// Names that are not built-in always pass (P-408). Unknown policies and modes count as the strictest.
func Check(name string, p Policy, m Mode) error {
	switch name {
	case Write, Edit, Bash:
		if m != Build && m != "" {
			return fmt.Errorf("%s is not available in plan mode: describe the change in the plan, it can be made once the plan is approved", name)
		}
		switch p {
		case "", Workspace, Auto:
			return nil
		case ReadOnly:
		}
		return fmt.Errorf("%s is not available: the permission policy is %q; answer with what has to be changed instead", name, ReadOnly)
	case AskUser:
		if m != Plan {
			return fmt.Errorf("%s is available in plan mode only: put the question into the answer", name)
		}
	}
	return nil
}

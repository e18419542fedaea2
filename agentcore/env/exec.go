package env

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Stream names where a chunk of output came from.
type Stream string

// The streams. With Command.Merge everything is Stdout.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Command is one program to run. Exactly one of Script and Argv is set. Its standard input is empty. The command and all
// it started run in a group of their own that is killed together; what it leaves running after a normal end stays until
// Cleanup.
type Command struct {
	Script   string   // for the environment's shell (bash -c)
	Argv     []string // program and arguments, no shell
	Dir      string   // "" = the environment's Dir
	Env      []string // "NAME=value", added to the environment's own variables or replacing them
	CleanEnv bool     // start from nothing instead of the environment's own variables
	// Timeout bounds the wall clock; 0 = no limit. Negative or above MaxTimeout is Invalid. What runs longer is killed
	// and ends with code Timeout.
	Timeout time.Duration
	Merge   bool // stderr goes where stdout goes, in the order written
	// Output receives what the command writes, as it comes, one call at a time; nil discards. A chunk is valid during the
	// call only and never ends inside a UTF-8 sequence that the next chunk completes. While Output blocks, the command
	// blocks: memory stays bounded. An error kills the command.
	Output func(Stream, []byte) error
}

// Exit is how a command ended. It is meaningful beside an error of code Timeout, Aborted or CallbackFailed too.
type Exit struct {
	Code     int           // 128+n after signal n
	Signal   string        // the signal's name, "" for a normal exit
	Duration time.Duration // wall clock, monotonic
	Detached bool          // output was still open when the command had ended: something runs on in the background
}

// Check returns an *Error of code Invalid when the command cannot be meant.
func (c Command) Check() error {
	var reason error
	switch {
	case (c.Script == "") == (len(c.Argv) == 0):
		reason = errors.New("exactly one of script and argv is needed")
	case strings.ContainsRune(c.Script, 0):
		reason = errors.New("the script contains a NUL byte")
	case c.Timeout < 0 || c.Timeout > MaxTimeout:
		reason = fmt.Errorf("timeout %v is not between 0 and %v", c.Timeout, MaxTimeout)
	}
	for _, arg := range c.Argv {
		if strings.ContainsRune(arg, 0) {
			reason = errors.New("an argument contains a NUL byte")
		}
	}
	for _, v := range c.Env {
		if strings.ContainsRune(v, 0) || strings.IndexByte(v, '=') <= 0 {
			reason = fmt.Errorf("variable %q is not NAME=value", v)
		}
	}
	if reason == nil {
		return nil
	}
	return &Error{Op: "run", Code: Invalid, Cause: reason}
}

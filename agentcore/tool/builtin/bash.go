package builtin

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed bash.md
var bashDoc string

type bashIn struct {
	Command string  `json:"command" jsonschema:"minLength=1,description=Command for bash -c"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"exclusiveMinimum=0,maximum=2147483,description=Seconds after which it is killed"`
}

// bashDetails is what people see of a command.
type bashDetails struct {
	ExitCode   int    `json:"exitCode"`
	Signal     string `json:"signal,omitempty"`
	DurationMs int64  `json:"durationMs"`
	Bytes      int64  `json:"bytes"` // of the whole output
	File       string `json:"file,omitempty"`
	Background bool   `json:"background,omitempty"` // something runs on and holds the output
}

func newBash(p place) tool.Tool {
	return tool.New(permission.Bash, bashDoc, p.bash)
}

func (p place) bash(ctx context.Context, call tool.Call, in bashIn) (tool.Result, error) {
	timeout := DefaultTimeout
	if in.Timeout > 0 {
		timeout = max(time.Duration(in.Timeout*float64(time.Second)), 1)
	}
	c := capture{ctx: ctx, env: p.env, call: call}
	exit, err := p.env.Exec(ctx, env.Command{Script: in.Command, Timeout: timeout, Merge: true, Output: c.chunk})
	c.flush()
	text, cut, shown, all := c.tail.end()
	if cut {
		c.toFile()
	}
	spillErr := c.close()
	code := env.CodeOf(err)
	switch code {
	case "", env.Timeout:
	case env.Aborted:
		if c.total == 0 {
			return tool.Result{}, err // it may not even have started
		}
	default:
		return tool.Result{}, err
	}

	var notes []string
	if cut {
		notes = append(notes, c.whole(shown, all, spillErr))
	}
	switch {
	case code == env.Timeout:
		notes = append(notes, fmt.Sprintf("killed after %v; give a longer timeout, or start it with & and its output in a file", timeout))
	case code == env.Aborted:
		notes = append(notes, "stopped before it had ended")
	case exit.Signal != "":
		notes = append(notes, fmt.Sprintf("exit code %d, ended by signal: %s", exit.Code, exit.Signal))
	case exit.Code != 0:
		notes = append(notes, fmt.Sprintf("exit code %d", exit.Code))
	}
	if exit.Detached {
		notes = append(notes, "a background process still holds the output; what it writes from now on is lost")
	}
	if text == "" && len(notes) == 0 {
		text = "(no output)"
	}
	if len(notes) > 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "[" + strings.Join(notes, "; ") + "]"
	}
	res := tool.Text(text)
	res.IsError = code != "" || exit.Code != 0
	res.Details, err = json.Marshal(bashDetails{ExitCode: exit.Code, Signal: exit.Signal, DurationMs: exit.Duration.Milliseconds(),
		Bytes: c.total, File: c.path(), Background: exit.Detached})
	return res, err
}

// capture takes the output of one command: live to people, its end to the model, the whole to a file when it is long.
type capture struct {
	ctx  context.Context
	env  env.Environment
	call tool.Call

	clean   cleaner
	text    []byte // scratch
	tail    tail
	total   int64  // raw bytes
	early   []byte // raw bytes until they are too many to be shown
	file    env.TempFile
	spilled int64
	spill   error // the file is not whole
}

func (c *capture) chunk(_ env.Stream, raw []byte) error {
	c.total += int64(len(raw))
	c.keep(raw)
	c.text = c.clean.add(c.text[:0], raw)
	c.show(c.text)
	return nil
}

func (c *capture) show(text []byte) {
	if len(text) > 0 {
		c.tail.add(text)
		c.call.Output(string(text))
	}
}

// flush ends the text: a CR at the very end was a line end that overwrote nothing.
func (c *capture) flush() {
	if c.clean.cr {
		c.clean.cr = false
		c.show([]byte{'\n'})
	}
}

// keep holds raw output back while all of it can be shown, and writes it to a file once it cannot. Output without text
// in it, such as terminal sequences, counts too. A file that cannot be written is told to the model; the command goes on.
func (c *capture) keep(raw []byte) {
	if c.spill != nil {
		return
	}
	if c.file == nil {
		c.early = append(c.early, raw...)
		if len(c.early) <= MaxOutputBytes && c.tail.lines < MaxOutputLines {
			return
		}
		c.toFile()
		return
	}
	c.append(raw)
}

// toFile begins the file with all that came so far.
func (c *capture) toFile() {
	if c.file != nil || c.spill != nil {
		return
	}
	if c.file, c.spill = c.env.Temp(context.WithoutCancel(c.ctx), "bash-"+rand.Text()+".log"); c.spill == nil {
		c.append(c.early)
	}
	c.early = nil
}

func (c *capture) append(raw []byte) {
	if c.spilled+int64(len(raw)) > MaxSpillBytes {
		c.spill = fmt.Errorf("it is longer than %s", size(MaxSpillBytes))
		return
	}
	n, err := c.file.Write(raw)
	c.spilled += int64(n)
	c.spill = err
}

func (c *capture) close() error {
	if c.file == nil {
		return c.spill
	}
	return errors.Join(c.spill, c.file.Close())
}

func (c *capture) path() string {
	if c.file == nil {
		return ""
	}
	return c.file.Path()
}

// whole says what is shown of a long output and where the rest is.
func (c *capture) whole(shown, all int, spill error) string {
	note := fmt.Sprintf("the last %d of %d lines, %s in all", shown, all, size(c.total))
	switch {
	case c.file == nil:
		return fmt.Sprintf("%s; the rest was not kept: %v", note, spill)
	case spill != nil:
		return fmt.Sprintf("%s; only the first %s are in %s: %v", note, size(c.spilled), c.path(), spill)
	}
	return fmt.Sprintf("%s; the whole output is in %s until the session closes, read it with bash, for example sed -n 1,200p", note, c.path())
}

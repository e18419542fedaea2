package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/strictjson"
)

// MaxCommand bounds the JSON of a command, in bytes: images come in it.
const MaxCommand = 32 << 20

// Encode returns a command as JSON, its type first.
func Encode(c Command) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "command %s %q: %w", c.Type(), c.Head().RequestID, err)
	}
	return fmt.Appendf(nil, `{"type":%q,%s`, c.Type(), body[1:]), nil
}

// Decode reads a command, strictly: an unknown type or member, a wrong value, one too large. Errors are of kind
// input_validation and say where. It checks what can be known without the session; Check is a part of it.
func Decode(raw []byte) (Command, error) {
	if len(raw) > MaxCommand {
		return nil, fault.New(fault.InputValidation, "command: %d bytes are over the limit of %d", len(raw), MaxCommand)
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fault.New(fault.InputValidation, "command: %w", err)
	}
	read, known := readers[head.Type]
	if !known {
		return nil, fault.New(fault.InputValidation, "/type: %q is none of %s", head.Type, strings.Join(slices.Sorted(maps.Keys(readers)), ", "))
	}
	c, err := read(raw)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "command %s: %w", head.Type, err)
	}
	return c, Check(c)
}

var readers = map[string]func([]byte) (Command, error){
	"submit": reader[Submit], "withdraw": reader[Withdraw], "promote": reader[Promote], "compact": reader[Compact],
	"reset": reader[Reset], "fork": reader[Fork], "delete": reader[Delete], "configure": reader[Configure], "plan": reader[Plan],
	"cancel": reader[Cancel], "snapshot": reader[Snapshot], "task": reader[Task],
}

// reader reads one type of command.
func reader[C Command](raw []byte) (Command, error) {
	var members map[string]json.RawMessage
	if err := strictjson.Decode(raw, MaxCommand, &members); err != nil {
		return nil, err
	}
	delete(members, "type")
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	var c C
	if err := strictjson.Decode(body, len(body), &c); err != nil {
		return nil, err
	}
	return c, nil
}

// Check refuses what no session can carry out. Errors are of kind input_validation.
func Check(c Command) error {
	h := c.Head()
	switch {
	case h.RequestID == "":
		return invalid("/requestId", "must not be empty")
	case h.TargetID < 0:
		return invalid("/targetId", "must be a conversation's number")
	}
	switch c := c.(type) {
	case Submit:
		if c.Prompt == "" && len(c.Images) == 0 {
			return invalid("/prompt", "must not be empty without images")
		}
		if c.Mode != "" && c.Mode != Steer && c.Mode != FollowUp && c.Mode != Reject {
			return invalid("/mode", "%q is none of steer, followUp, reject", c.Mode)
		}
	case Withdraw:
		return named("/inputId", c.InputID)
	case Promote:
		return named("/inputId", c.InputID)
	case Fork:
		if c.EntryID <= 0 {
			return invalid("/entryId", "must be the number of an entry")
		}
	case Delete:
		if c.TargetID == 0 || c.TargetID == session.Root {
			return invalid("/targetId", "the main conversation is removed by its host, with its file")
		}
	case Plan:
		for i, item := range c.Items {
			switch item.Status {
			case "pending", "in_progress", "completed":
			default:
				return invalid(fmt.Sprintf("/items/%d/status", i), "%q is none of pending, in_progress, completed", item.Status)
			}
		}
	case Cancel:
		switch {
		case c.Scope != Foreground && c.Scope != All && c.Scope != OneTask:
			return invalid("/scope", "%q is none of foreground, all, task", c.Scope)
		case c.Scope == OneTask && c.TaskID <= 0:
			return invalid("/taskId", "scope task needs the number of a task")
		case c.Scope != OneTask && c.TaskID != 0:
			return invalid("/taskId", "scope %s takes none", c.Scope)
		}
	case Task:
		if len(c.Input) > 0 {
			if _, err := session.TaskInput(c.Input); err != nil {
				return fault.New(fault.InputValidation, "/input: %w", err)
			}
		}
		return named("/name", c.Name)
	case Compact, Reset, Configure, Snapshot:
	}
	return nil
}

func named(pointer, value string) error {
	if value == "" {
		return invalid(pointer, "must not be empty")
	}
	return nil
}

func invalid(pointer, format string, args ...any) error {
	return fault.New(fault.InputValidation, "%s: %s", pointer, fmt.Sprintf(format, args...))
}

// Clone returns a copy that shares no memory with c: a command is copied before anything waits. Source: P-107.
func Clone(c Command) Command {
	switch c := c.(type) {
	case Submit:
		c.Images = slices.Clone(c.Images)
		for i := range c.Images {
			c.Images[i].Data = bytes.Clone(c.Images[i].Data)
		}
		return c
	case Configure:
		if c.Model != nil {
			model := *c.Model
			c.Model = &model
		}
		if c.Effort != nil {
			effort := *c.Effort
			c.Effort = &effort
		}
		return c
	case Plan:
		c.Items = slices.Clone(c.Items)
		return c
	case Task:
		c.Input = bytes.Clone(c.Input)
		return c
	default: // plain values
		return c
	}
}

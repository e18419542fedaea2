package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// decide answers a request that was just opened: a person at a terminal, --yes, or a scratch run by itself, visibly. An
// answer that is there already (the log is read from its start) is left alone.
func (j *job) decide(ctx context.Context, engine *executor.Engine, e executor.Event) error {
	var opened struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(e.Data, &opened); err != nil {
		return err
	}
	q, err := engine.Request(opened.ID)
	if err != nil || q.Status != runlog.RequestOpen {
		return err
	}
	answer, who, err := j.answer(ctx, q)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = engine.Answer(ctx, q.ID, raw, who)
	if fault.Is(err, fault.Conflict) { // somebody was faster: theirs counts, and the log tells it
		return nil
	}
	return err
}

func (j *job) answer(ctx context.Context, q runlog.Request) (workflow.Decision, string, error) {
	yes := workflow.Decision{Decision: "approve"}
	decidable := q.Kind == workflow.InputPlan || q.Kind == workflow.InputApproval
	switch {
	case j.f.yes && decidable:
		fmt.Fprintf(j.a.Err, "? %s: approved by --yes\n", q.Title)
		return yes, "--yes", nil
	case j.f.noInput:
		return yes, "", fault.New(fault.UserInputRequired, "run %s waits for request %s (%s), and --no-input forbids asking", q.Run, q.ID, q.Title)
	case j.a.interactive() && decidable:
		d, err := ask(ctx, j.a.IO, q)
		return d, "the terminal", err
	case j.scratch != nil && decidable:
		fmt.Fprintf(j.a.Err, "? %s: nobody is at a terminal, so the demo approves it itself\n", q.Title)
		return yes, "the demo itself", nil
	}
	return yes, "", fault.New(fault.UserInputRequired, "run %s waits for request %s (%s)", q.Run, q.ID, q.Title)
}

// ask puts a decision to the person at the terminal.
func ask(ctx context.Context, s IO, q runlog.Request) (workflow.Decision, error) {
	lines := make(chan string)
	failed := make(chan error, 1)
	go func() { // a read of a terminal cannot be interrupted: the goroutine ends with the process or its next line
		r := bufio.NewReader(s.In)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				failed <- err
				return
			}
			select {
			case lines <- strings.TrimSpace(line):
			case <-ctx.Done():
				return
			}
		}
	}()
	revising := false
	for {
		if revising {
			fmt.Fprint(s.Err, "? what should change: ")
		} else {
			fmt.Fprintf(s.Err, "? %s  [a]pprove [r]evise › ", q.Title)
		}
		select {
		case line := <-lines:
			switch {
			case revising && line != "":
				return workflow.Decision{Decision: "deny", Reason: line}, nil
			case strings.EqualFold(line, "a"), strings.EqualFold(line, "approve"):
				return workflow.Decision{Decision: "approve"}, nil
			case strings.EqualFold(line, "r"), strings.EqualFold(line, "revise"):
				revising = true
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				err = fault.New(fault.UserInputRequired, "run %s waits for request %s (%s), and the input ended", q.Run, q.ID, q.Title)
			}
			return workflow.Decision{}, err
		case <-ctx.Done():
			return workflow.Decision{}, context.Cause(ctx)
		}
	}
}

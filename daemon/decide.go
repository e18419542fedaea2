package daemon

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow/userinput"
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

func (j *job) answer(ctx context.Context, q runlog.Request) (d userinput.Decision, who string, err error) {
	yes := userinput.Decision{Decision: "approve"}
	if q.Kind != userinput.Plan && q.Kind != userinput.Approval {
		fmt.Fprintf(j.a.Err, "? %s  %s\n", clean(title(q)), clean(string(q.Payload)))
		return d, "", withHint(waiting(q), "answer it with 'runs answer "+q.ID+" --answer JSON', where the JSON fits "+wanted(q)+"; then "+j.same(q.Run)+" carries it on")
	}
	switch {
	case j.f.yes:
		return yes, "--yes", nil
	case j.f.noInput:
	case j.a.interactive():
		d, err = j.a.ask(ctx, q)
		return d, "a person at the terminal", err
	case j.scratch != nil:
		return yes, "the demo itself, because nobody is at a terminal", nil
	}
	return d, "", withHint(waiting(q), j.same(q.Run)+" carries it on: at a terminal it asks you, with --yes it approves")
}

// same is the command that carries a run on, in words.
func (j *job) same(id executor.RunID) string {
	if j.scratch == nil && j.f.requestID == "" {
		return "the same command with --request-id " + string(id)
	}
	return "the same command"
}

// title is what a list calls a request.
func title(q runlog.Request) string { return cmp.Or(q.Title, q.Key) }

// wanted is the schema that an answer has to fit.
func wanted(q runlog.Request) string {
	switch {
	case len(q.Schema) > 0:
		return clean(string(q.Schema))
	case q.Kind == userinput.Plan, q.Kind == userinput.Approval:
		return `{"decision":"approve"} or {"decision":"deny","reason":"…"}`
	}
	return "no schema: any JSON will do"
}

func waiting(q runlog.Request) error {
	return fault.New(fault.UserInputRequired, "run %s waits for request %s (%s)", q.Run, q.ID, title(q))
}

// ask puts a decision to the person at the terminal.
func (a *app) ask(ctx context.Context, q runlog.Request) (userinput.Decision, error) {
	no := "revise"
	if q.Kind == userinput.Approval {
		no = "deny"
		fmt.Fprintf(a.Err, "  %s\n", clean(string(q.Payload)))
	}
	question := fmt.Sprintf("? %s  [a]pprove [%s]%s › ", clean(title(q)), no[:1], no[1:])
	for refused := false; ; {
		fmt.Fprint(a.Err, question)
		line, err := a.readLine(ctx)
		switch {
		case err != nil:
			return userinput.Decision{}, err
		case refused && line != "":
			return userinput.Decision{Decision: "deny", Reason: line}, nil
		case refused:
		case strings.EqualFold(line, "a"), strings.EqualFold(line, "approve"):
			return userinput.Decision{Decision: "approve"}, nil
		case strings.EqualFold(line, no[:1]), strings.EqualFold(line, no):
			refused, question = true, "? what should change, or why › "
		}
	}
}

// readLine returns the next line that the person types. One goroutine reads for the whole command, from the first
// question on: a read of a terminal cannot be interrupted, so it ends with the process.
func (a *app) readLine(ctx context.Context) (string, error) {
	if a.typed == nil {
		a.typed = make(chan string)
		go func() {
			defer close(a.typed)
			for in := bufio.NewScanner(a.In); in.Scan(); {
				a.typed <- strings.TrimSpace(in.Text())
			}
		}()
	}
	select {
	case line, ok := <-a.typed:
		if !ok {
			return "", withHint(fault.New(fault.UserInputRequired, "the input ended before an answer"), "the same command asks again")
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

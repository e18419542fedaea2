package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// databaseFile is the name of the run store in a data directory.
const databaseFile = "workflowd.db"

// runFlags are the flags of run.
type runFlags struct {
	model        modelFlags
	pairs        []string
	input        string
	requestID    string
	conversation string
	dataDir      string
	demoDir      string
	output       string
	noInput, yes bool
	pace         string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run WORKFLOW",
		Short: "Run a workflow and print its result",
		Long: `Run a workflow and print its result on stdout; progress goes to stderr.

A run started with --request-id is found again by it: the same command carries on an interrupted run, and prints the
result of a finished one without doing anything twice.

Workflows:
` + a.listing(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withHint(usage("run: want the name of one workflow"), a.thereAre())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.pairs, "input", "i", nil, "one field of the input, as name=value; repeat for more")
	flags.StringVar(&f.input, "input-json", "", "the whole input as JSON, or @FILE")
	flags.StringVar(&f.requestID, "request-id", "", "identity of the run: the same one again carries it on")
	flags.StringVar(&f.conversation, "conversation", "", "conversation the run belongs to; none = one of its own")
	flags.StringVar(&f.dataDir, "data-dir", "", "where runs and sessions are kept; none = $WORKFLOWD_DATA_DIR, else the user's data directory")
	flags.StringVar(&f.demoDir, "demo-dir", "", "scratch directory of a workflow that brings its own input (demo)")
	flags.StringVar(&f.output, "output", "text", "text, json (one document) or jsonl (every event)")
	flags.BoolVar(&f.noInput, "no-input", false, "never ask: a question ends the command with exit code 5")
	flags.BoolVar(&f.yes, "yes", false, "approve every request")
	flags.StringVar(&f.pace, "pace", "", "pause between the demo model's words, e.g. 20ms")
	f.model.add(flags)
	return c
}

func (a *app) names() []string {
	var names []string
	for _, p := range a.parts {
		if d, err := p.Definition(agentnode.Options{}); err == nil {
			names = append(names, d.Graph().Name)
		}
	}
	return names
}

func (a *app) thereAre() string { return "there are: " + strings.Join(a.names(), ", ") }

// listing has a line for each workflow: its name and what it does.
func (a *app) listing() string {
	var b strings.Builder
	for _, p := range a.parts {
		if d, err := p.Definition(agentnode.Options{}); err == nil {
			fmt.Fprintf(&b, "  %-10s %s\n", d.Graph().Name, p.Description())
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// job is one run being followed.
type job struct {
	a       *app
	f       runFlags
	part    Part
	def     *workflow.Definition
	start   executor.Start
	data    string
	scratch *Prepared
	begin   func(context.Context, *executor.Engine) (runlog.Run, error) // begins or finds the run
}

func (a *app) run(ctx context.Context, name string, f runFlags) error {
	j, err := a.prepare(ctx, name, f)
	if err != nil {
		return err
	}
	if err := usable(j.data); err != nil {
		return err
	}
	engine, err := executor.Open(ctx, "sqlite:"+filepath.Join(j.data, databaseFile), executor.Foreground())
	if err != nil {
		return err
	}
	runErr := j.follow(ctx, engine)
	return errors.Join(runErr, engine.Close())
}

// prepare reads the command line. It touches nothing but a scratch directory, and that last.
func (a *app) prepare(ctx context.Context, name string, f runFlags) (*job, error) {
	switch f.output {
	case "text", "json", "jsonl":
	default:
		return nil, usage("--output %q: want text, json or jsonl", f.output)
	}
	j := &job{a: a, f: f, start: executor.Start{Workflow: name, RequestID: f.requestID, Conversation: f.conversation, Project: agentnode.DefaultProject}}
	j.begin = j.startRun
	var err error
	if j.part, err = a.find(name); err != nil {
		return nil, err
	}
	scratch, ok := j.part.(Scratch)
	switch {
	case f.demoDir == "":
	case !ok:
		return nil, usage("--demo-dir: workflow %q takes its input from -i", name)
	case len(f.pairs) > 0 || f.input+f.requestID+f.dataDir != "":
		return nil, usage("--demo-dir: brings its own; leave out -i, --input-json, --request-id and --data-dir")
	}
	agent, err := a.agent(ctx, f, ok)
	if err != nil {
		return nil, err
	}
	if f.demoDir != "" {
		return j, j.take(scratch, agent)
	}
	if j.def, err = j.part.Definition(agent); err != nil {
		return nil, err
	}
	if j.data, err = dataDir(f.dataDir); err != nil {
		return nil, err
	}
	if j.start.Input, err = readInput(f.pairs, f.input, j.def); err != nil {
		return nil, err
	}
	return j, withHint(j.part.Check(j.start.Input), j.takes())
}

// take takes input and place from a scratch part.
func (j *job) take(s Scratch, agent agentnode.Options) error {
	p, err := s.Prepare(j.f.demoDir)
	if err != nil {
		return err
	}
	j.scratch, j.start.Input, j.start.RequestID, j.data = &p, p.Input, p.RequestID, p.DataDir
	if j.a.interactive() && j.f.pace == "" {
		agent.DemoPace = p.Pace
	}
	j.def, err = s.Definition(agent)
	return err
}

// agent is the model and policy that the flags choose, looked at before anything is started.
func (a *app) agent(ctx context.Context, f runFlags, scratch bool) (agentnode.Options, error) {
	o, err := f.model.options()
	if err != nil {
		return o, err
	}
	if scratch && o.Model == "" && o.Provider == "" {
		o.Model = agentnode.DemoModel
	}
	if o.DemoPace, err = pace(f.pace); err != nil {
		return o, err
	}
	if err := reachable(ctx, f.model.baseURL); err != nil {
		return o, err
	}
	_, _, err = o.ModelInUse()
	return o, withHint(err, "without --model the built-in demo model answers")
}

// takes says which fields the workflow's input has.
func (j *job) takes() string {
	var fields []string
	for name, p := range properties(j.def) {
		field := "-i " + name + "=" + strings.ToUpper(name)
		if p.Description != "" {
			field += " (" + p.Description + ")"
		}
		fields = append(fields, field)
	}
	slices.Sort(fields)
	if _, ok := j.part.(Scratch); ok {
		fields = append(fields, "or --demo-dir DIR, which brings its own")
	}
	return j.start.Workflow + " takes " + strings.Join(fields, ", ")
}

func (a *app) find(name string) (Part, error) {
	for _, p := range a.parts {
		d, err := p.Definition(agentnode.Options{})
		if err != nil {
			return nil, err
		}
		if d.Graph().Name == name {
			return p, nil
		}
	}
	return nil, withHint(fault.New(fault.NotFound, "workflow %q: not known here", name), a.thereAre())
}

// dataDir is where runs are kept: the flag, the environment, the user's data directory.
func dataDir(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = os.Getenv("WORKFLOWD_DATA_DIR")
	}
	if dir == "" {
		base := os.Getenv("XDG_DATA_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", usage("--data-dir: %w", err)
			}
			base = filepath.Join(home, ".local", "share")
		}
		dir = filepath.Join(base, "workflowd")
	}
	return filepath.Abs(dir)
}

// usable makes the data directory and finds out that it can be written, before anything is opened in it.
func usable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return withHint(fault.New(fault.Storage, "data directory: %w", err), "choose another with --data-dir, or change its permissions")
	}
	name := filepath.Join(dir, ".writable") // one name: what a kill leaves behind is found again
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return withHint(fault.New(fault.Storage, "data directory is not writable: %w", err), "choose another with --data-dir, or change its permissions")
	}
	if err := errors.Join(f.Close(), os.Remove(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // a twin of ours was faster
		return fault.New(fault.Storage, "data directory: %w", err)
	}
	return nil
}

func (j *job) startRun(ctx context.Context, engine *executor.Engine) (runlog.Run, error) {
	run, err := engine.Start(ctx, j.start)
	if fault.Is(err, fault.InputValidation) {
		err = withHint(err, j.takes())
	}
	return run, err
}

// follow begins or finds the run, shows it, answers what it asks, and prints its result.
func (j *job) follow(ctx context.Context, engine *executor.Engine) error {
	if err := engine.Register(j.def); err != nil {
		return err
	}
	run, err := j.begin(ctx, engine)
	if err != nil {
		return err
	}
	p := newProgress(j.a.IO, j.def.Graph(), j.f.output)
	p.begin(run, j.scratch != nil && run.LastSeq > 1)
	var waits error // for a person who is not here: the command ends once nothing else moves
	for event, err := range engine.Events(ctx, run.ID, 0) {
		if err != nil {
			return j.left(ctx, engine, run.ID, err)
		}
		if err := p.show(event); err != nil {
			return err
		}
		switch event.Kind {
		case runlog.RequestOpened:
			err := j.decide(ctx, engine, event)
			if fault.Is(err, fault.UserInputRequired) {
				waits = errors.Join(waits, err)
			} else if err != nil {
				return j.left(ctx, engine, run.ID, err)
			}
		case runlog.RunWaiting:
			if waits != nil {
				return waits
			}
		}
	}
	return j.finish(ctx, engine, run.ID, p)
}

// left ends a command whose reader was interrupted. A scratch run is left as it is, to be carried on by the same command;
// any other is stopped for good, as the first interrupt of a command asks for.
func (j *job) left(ctx context.Context, engine *executor.Engine, id executor.RunID, err error) error {
	if ctx.Err() == nil {
		return err
	}
	j.a.restore() // a second interrupt ends the process
	if j.scratch != nil {
		fmt.Fprintln(j.a.Err, "interrupted; the same command carries on from here")
		return quiet{context.Canceled}
	}
	ctx = context.WithoutCancel(ctx)
	if err := engine.Cancel(ctx, id, "interrupted"); err != nil {
		return err
	}
	run, err := engine.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(j.a.Err, "%s %s\n", run.ID, run.Status)
	return quiet{context.Canceled}
}

func (j *job) finish(ctx context.Context, engine *executor.Engine, id executor.RunID, p *progress) error {
	run, err := engine.Wait(ctx, id)
	if err != nil {
		return err
	}
	usage, err := engine.Usage(id)
	if err != nil {
		return err
	}
	text := ""
	if run.Status == runlog.Succeeded && j.f.output != outputID {
		if text, err = j.part.Text(run.Output); err != nil {
			return err
		}
		if isTerminal(j.a.Out) {
			text = clean(text)
		}
	}
	shown := p.end(run, usage, text)
	switch {
	case j.f.output == "json":
		err = json.NewEncoder(j.a.Out).Encode(run)
	case j.f.output == "text" && run.Status == runlog.Succeeded && !shown:
		_, err = fmt.Fprintln(j.a.Out, strings.TrimRight(text, "\n"))
	}
	if err == nil && j.scratch != nil && j.scratch.Finish != nil { // last: until the result is out, the run is not finished with
		err = j.scratch.Finish()
	}
	return errors.Join(err, ended(run))
}

// ended is the error that a run's end means, nil for success.
func ended(run runlog.Run) error {
	switch {
	case run.Status == runlog.Succeeded:
		return nil
	case run.Status == runlog.Aborted, run.Status == runlog.Expired:
		return fault.New(fault.ExecutionAborted, "run %s: %s %s", run.ID, run.Status, run.Reason)
	case run.Failure == nil:
		return fault.New(fault.Internal, "run %s: %s %s", run.ID, run.Status, run.Reason)
	case run.Failure.Kind == fault.InputValidation:
		return fault.New(fault.InputValidation, "run %s: %s: %s", run.ID, run.Failure.Node, run.Failure.Message)
	case run.Failure.Kind == fault.ModelError:
		return withHint(fault.New(fault.ModelError, "run %s: %s: %s", run.ID, run.Failure.Node, run.Failure.Message),
			"check the key, the model's name and the endpoint, then start again")
	}
	return fault.New(fault.Internal, "run %s: %s: %s", run.ID, run.Failure.Node, run.Failure.Message)
}

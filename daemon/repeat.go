package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
)

// outputID is the output of a command whose result is the id of a run.
const outputID = "id"

// repeatFlags are the flags of fork and rerun.
type repeatFlags struct {
	at, input string
	version   int
	run       runFlags
}

func (a *app) repeatCommands(f *runsFlags) []*cobra.Command {
	fork := a.runCommandOn("fork RUN", "Run a node again, with another input, and what follows from it; print the new run's id", f, a.forkRun)
	rerun := a.runCommandOn("rerun RUN", "Run again what failed, and what follows from it; print the new run's id", f, a.rerunRun)
	for _, c := range []*cobra.Command{fork, rerun} {
		c.Long = c.Short + `.

Everything else keeps its result: a node that would compute from the same input is not executed again. The first line of
stdout is the new run's id; progress goes to stderr. The same command with --request-id finds its run again.

NODE is a path as 'workflowd runs show' prints it, with # and a number for a visit that is not the newest. $input is the
input of the run.`
		flags := c.Flags()
		flags.StringVar(&f.repeat.at, "at", "", "the node that runs again; rerun takes those that failed when none is named")
		flags.StringVar(&f.repeat.input, "input", "", "what the node gets instead of its own input: JSON, or @FILE")
		flags.IntVar(&f.repeat.version, "workflow-version", 0, "version of the workflow to run under; 0 = the run's own, or the newest")
		flags.StringVar(&f.repeat.run.requestID, "request-id", "", "identity of the new run: the same one again carries it on")
		flags.BoolVar(&f.repeat.run.noInput, "no-input", false, "never ask: a question ends the command with exit code 5")
		flags.BoolVar(&f.repeat.run.yes, "yes", false, "approve every request")
		flags.StringVar(&f.repeat.run.pace, "pace", "", "pause between the demo model's words, e.g. 20ms")
		f.repeat.run.model.add(flags)
	}
	return []*cobra.Command{fork, rerun}
}

func (a *app) forkRun(ctx context.Context, e *executor.Engine, id string, f *runsFlags) error {
	if f.repeat.at == "" {
		return withHint(usage("runs fork: want --at NODE"), "'workflowd runs show "+id+"' lists them, 'workflowd runs rerun "+id+"' repeats what failed")
	}
	return a.repeat(ctx, e, id, f)
}

func (a *app) rerunRun(ctx context.Context, e *executor.Engine, id string, f *runsFlags) error {
	if f.repeat.at == "" && f.repeat.input != "" {
		return usage("--input: needs --at, the node that gets it")
	}
	return a.repeat(ctx, e, id, f)
}

// repeat forks a run and carries the fork on.
func (a *app) repeat(ctx context.Context, e *executor.Engine, id string, f *runsFlags) error {
	input := f.repeat.input
	if name, ok := strings.CutPrefix(input, "@"); ok {
		raw, err := readFile(name)
		if err != nil {
			return usage("--input: %w", err)
		}
		input = string(raw)
	}
	source, err := e.Run(runlog.RunID(id))
	if err != nil {
		return err
	}
	j := &job{a: a, f: f.repeat.run}
	j.f.output = outputID
	if j.part, err = a.find(source.Workflow); err != nil {
		return err
	}
	_, scratch := j.part.(Scratch)
	agent, err := a.agent(ctx, j.f, scratch)
	if err != nil {
		return err
	}
	if j.def, err = j.part.Definition(agent); err != nil {
		return err
	}
	j.begin = func(ctx context.Context, e *executor.Engine) (runlog.Run, error) {
		run, err := e.Fork(ctx, source.ID, f.repeat.at, executor.ForkOptions{
			Input: json.RawMessage(input), Version: f.repeat.version, RequestID: j.f.requestID,
		})
		switch {
		case err != nil:
			return run, repeatHint(err, id, f.repeat.at)
		case f.asJSON:
			err = json.NewEncoder(a.Out).Encode(run)
		default:
			_, err = fmt.Fprintln(a.Out, run.ID)
		}
		return run, err
	}
	return j.follow(ctx, e)
}

// repeatHint says where the names of nodes are to be found.
func repeatHint(err error, id, at string) error {
	switch {
	case fault.Is(err, fault.InputValidation) && at == "":
		return withHint(err, "--at NODE does, 'workflowd runs show "+id+"' lists them")
	case fault.Is(err, fault.NotFound):
		return withHint(err, "'workflowd runs show "+id+"' lists what has begun")
	}
	return err
}

// pruneFlags are the flags of prune. Their texts are empty when they were not given.
type pruneFlags struct {
	older    string
	keep     int
	workflow string
}

func (a *app) pruneCommand(f *runsFlags) *cobra.Command {
	c := &cobra.Command{Use: "prune", Short: "Remove runs that have ended, by age and by number", Args: noArguments,
		Long: `Remove runs that have ended, with everything that is theirs: events, requests, sessions that no conversation has.

A run goes when it ended longer ago than --older and is not among the --keep of its workflow that ended last; either may be
left out. Live runs stay, and so do those that a live run was forked from.`}
	flags := c.Flags()
	flags.StringVar(&f.prune.older, "older", "", "only runs that ended longer ago than this, e.g. 720h")
	flags.IntVar(&f.prune.keep, "keep", 0, "not the so many of each workflow that ended last")
	flags.StringVar(&f.prune.workflow, "workflow", "", "only runs of this workflow")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !flags.Changed("older") && !flags.Changed("keep") {
			return usage("runs prune: want --older DURATION, --keep N or both")
		}
		r := executor.Retention{Workflow: f.prune.workflow, Keep: f.prune.keep}
		if f.prune.older != "" {
			var err error
			if r.Older, err = time.ParseDuration(f.prune.older); err != nil || r.Older < 0 {
				return usage("--older %q: want a duration such as 720h", f.prune.older)
			}
		}
		if r.Keep < 0 {
			return usage("--keep %d: want a number from 0", r.Keep)
		}
		return withRuns(c.Context(), f.dataDir, func(e *executor.Engine) error { return a.prune(c.Context(), e, r, f) })
	}
	return c
}

func (a *app) prune(ctx context.Context, e *executor.Engine, r executor.Retention, f *runsFlags) error {
	dir, err := dataDir(f.dataDir)
	if err != nil {
		return err
	}
	removed, err := e.Prune(ctx, r, func(run runlog.Run) error { return removeSessions(e, dir, &run) })
	if f.asJSON {
		return errors.Join(err, json.NewEncoder(a.Out).Encode(map[string]int{"removed": removed}))
	}
	_, told := fmt.Fprintf(a.Out, "%d runs removed\n", removed)
	return errors.Join(err, told)
}

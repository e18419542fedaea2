package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// runsFlags are shared by the commands that look at runs.
type runsFlags struct {
	dataDir, status, reason, answer string
	asJSON, deny                    bool
	limit                           int
}

func (a *app) runsCommand() *cobra.Command {
	var f runsFlags
	c := &cobra.Command{Use: "runs", Short: "List, show, cancel and answer the runs of a data directory", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listRuns(c.Context(), f) }}
	c.PersistentFlags().StringVar(&f.dataDir, "data-dir", "", "where runs are kept, as for run")
	c.PersistentFlags().BoolVar(&f.asJSON, "json", false, "print JSON")
	list := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listRuns(c.Context(), f) }}
	for _, with := range []*cobra.Command{c, list} {
		with.Flags().StringVar(&f.status, "status", "", "only runs in this state")
		with.Flags().IntVar(&f.limit, "limit", defaultRuns, "at most so many")
	}
	show := a.runCommandOn("show RUN", "Show a run: its nodes, requests and tokens", &f, a.showRun)
	cancel := a.runCommandOn("cancel RUN", "Stop a run for good", &f, a.cancelRun)
	cancel.Flags().StringVar(&f.reason, "reason", "stopped from the command line", "why, for the record")
	answer := a.runCommandOn("answer REQUEST", "Approve a waiting request, deny it with --deny, or answer a question with --answer", &f, a.answerRequest)
	answer.Flags().StringVar(&f.answer, "answer", "", "what a question asks for, as JSON or @FILE")
	answer.Flags().BoolVar(&f.deny, "deny", false, "deny; a plan goes back for revision")
	answer.Flags().StringVar(&f.reason, "reason", "", "what should change, or why not")
	c.AddCommand(list, show, cancel, answer)
	return c
}

// defaultRuns is how many runs a list shows.
const defaultRuns = 50

func (a *app) runCommandOn(use, short string, f *runsFlags, do func(context.Context, *executor.Engine, string, *runsFlags) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("runs %s: want one id", use)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return withRuns(c.Context(), f.dataDir, func(e *executor.Engine) error { return do(c.Context(), e, args[0], f) })
		}}
}

// withRuns opens the runs of a data directory that exists. Nothing there is carried on.
func withRuns(ctx context.Context, flag string, do func(*executor.Engine) error) error {
	dir, err := dataDir(flag)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return withHint(fault.New(fault.NotFound, "no runs in %s", dir), "start one with 'workflowd run', or name another --data-dir")
	}
	engine, err := executor.Open(ctx, "sqlite:"+path, executor.Foreground())
	if err != nil {
		return err
	}
	return errors.Join(do(engine), engine.Close())
}

func (a *app) listRuns(ctx context.Context, f runsFlags) error {
	q := runlog.RunQuery{Limit: f.limit}
	if f.status != "" {
		q.Status = []runlog.RunStatus{runlog.RunStatus(f.status)}
		known := false
		for _, s := range runlog.RunStatuses() {
			known = known || string(s) == f.status
		}
		if !known {
			return usage("--status %q: want one of %v", f.status, runlog.RunStatuses())
		}
	}
	return withRuns(ctx, f.dataDir, func(e *executor.Engine) error {
		runs, err := e.Runs(q)
		if err != nil {
			return err
		}
		if f.asJSON {
			return json.NewEncoder(a.Out).Encode(struct {
				Data []runlog.Run `json:"data"`
			}{runs})
		}
		w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "RUN\tWORKFLOW\tSTATUS\tAGE\tWAITING FOR")
		for _, r := range runs {
			waits, err := waitingFor(e, r)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Workflow, r.Status, age(time.Since(r.CreatedAt)), waits)
		}
		return w.Flush()
	})
}

// waitingFor names the open requests of a run.
func waitingFor(e *executor.Engine, r runlog.Run) (string, error) {
	if r.Status != runlog.Waiting {
		return r.Reason, nil
	}
	requests, err := e.Requests(runlog.RequestQuery{Run: r.ID, Status: []runlog.RequestStatus{runlog.RequestOpen}})
	var open []string
	for _, q := range requests {
		open = append(open, fmt.Sprintf("%s (%s)", title(q), q.ID))
	}
	return strings.Join(open, ", "), err
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (a *app) showRun(_ context.Context, e *executor.Engine, id string, f *runsFlags) error {
	run, err := e.Run(runlog.RunID(id))
	if err != nil {
		return err
	}
	nodes, err := e.Nodes(run.ID)
	if err != nil {
		return err
	}
	usage, err := e.Usage(run.ID)
	if err != nil {
		return err
	}
	requests, err := e.Requests(runlog.RequestQuery{Run: run.ID})
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(a.Out).Encode(struct {
			Run      runlog.Run           `json:"run"`
			Nodes    []runlog.Node        `json:"nodes"`
			Requests []runlog.Request     `json:"requests"`
			Usage    []runlog.UsageRecord `json:"usage"`
		}{run, nodes, requests, usage})
	}
	fmt.Fprintf(a.Out, "%s  %s %d  %s %s\n", run.ID, run.Workflow, run.Version, run.Status, run.Reason)
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, n := range nodes {
		fmt.Fprintf(w, "  %s\t%s\tattempt %d\n", n.Path, n.Status, n.Attempt)
	}
	for _, q := range requests {
		fmt.Fprintf(w, "? %s\t%s\t%s %s\n", q.ID, q.Status, title(q), q.AnsweredBy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var total workflow.Usage
	for _, u := range usage {
		total.Input += u.Usage.Input
		total.Output += u.Usage.Output
	}
	if run.Failure != nil {
		fmt.Fprintf(a.Out, "failed in %s: %s\n", run.Failure.Node, clean(run.Failure.Message))
	}
	_, err = fmt.Fprintf(a.Out, "%d model calls, %d tokens in, %d out\n", len(usage), total.Input, total.Output)
	return err
}

// cancelRun marks a run. It is settled at once when nothing of it runs anywhere, else by whoever carries it on.
func (a *app) cancelRun(ctx context.Context, e *executor.Engine, id string, f *runsFlags) error {
	if err := e.Cancel(ctx, runlog.RunID(id), f.reason); err != nil {
		return err
	}
	run, err := e.Run(runlog.RunID(id))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s %s\n", run.ID, run.Status)
	return err
}

func (a *app) answerRequest(ctx context.Context, e *executor.Engine, id string, f *runsFlags) error {
	raw, what, err := f.answered()
	if err != nil {
		return err
	}
	q, err := e.Request(id)
	if err != nil {
		return err
	}
	receipt, err := e.Answer(ctx, id, raw, "the command line")
	if fault.Is(err, fault.InputValidation) {
		return withHint(err, "an answer is given with --answer JSON and fits "+wanted(q))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s %s; carry run %s on with the command that started it\n", receipt.RequestID, what, q.Run)
	return err
}

// answered is the answer that the flags give, and a word for it.
func (f *runsFlags) answered() (raw json.RawMessage, what string, err error) {
	if f.answer == "" {
		d := userinput.Decision{Decision: "approve", Reason: f.reason}
		if f.deny {
			d.Decision = "deny"
		}
		raw, err = json.Marshal(d)
		return raw, d.Decision, err
	}
	if f.deny || f.reason != "" {
		return nil, "", usage("--answer: it is the whole answer; leave out --deny and --reason")
	}
	if name, file := strings.CutPrefix(f.answer, "@"); file {
		raw, err = readFile(name)
		if err != nil {
			return nil, "", usage("--answer: %w", err)
		}
		return raw, "answered", nil
	}
	return json.RawMessage(f.answer), "answered", nil
}

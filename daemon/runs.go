package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/reader"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// runsFlags are shared by the commands that look at runs.
type runsFlags struct {
	dataDir, status, reason, answer string
	asJSON, deny                    bool
	limit                           int
	after                           int64
	repeat                          repeatFlags
	prune                           pruneFlags
}

func (a *app) runsCommand() *cobra.Command {
	var f runsFlags
	c := &cobra.Command{Use: "runs", Short: "List, show, follow, repeat, answer and remove the runs of a data directory", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.listRuns(f) }}
	c.PersistentFlags().StringVar(&f.dataDir, "data-dir", "", "where runs are kept, as for run")
	c.PersistentFlags().BoolVar(&f.asJSON, "json", false, "print JSON")
	list := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.listRuns(f) }}
	for _, with := range []*cobra.Command{c, list} {
		with.Flags().StringVar(&f.status, "status", "", "only runs in this state")
		with.Flags().IntVar(&f.limit, "limit", defaultRuns, "at most so many")
	}
	show := a.lookAt("show RUN", "Show a run: where it comes from, its nodes, requests and tokens", &f, a.showRun)
	watch := a.lookAt("watch RUN", "Follow the events of a run until its end, also while another process works on it", &f, a.watchRun)
	watch.Flags().Int64Var(&f.after, "after", 0, "begin behind this event")
	cancel := a.runCommandOn("cancel RUN", "Stop a run for good", &f, a.cancelRun)
	cancel.Flags().StringVar(&f.reason, "reason", "stopped from the command line", "why, for the record")
	answer := a.runCommandOn("answer REQUEST", "Approve a waiting request, deny it with --deny, or answer a question with --answer", &f, a.answerRequest)
	answer.Flags().StringVar(&f.answer, "answer", "", "what a question asks for, as JSON or @FILE")
	answer.Flags().BoolVar(&f.deny, "deny", false, "deny; a plan goes back for revision")
	answer.Flags().StringVar(&f.reason, "reason", "", "what should change, or why not")
	c.AddCommand(list, show, watch, cancel, answer, a.pruneCommand(&f))
	c.AddCommand(a.repeatCommands(&f)...)
	return c
}

// defaultRuns is how many runs a list shows.
const defaultRuns = 50

// oneID is a command about one run or request.
func oneID(use, short string, do func(context.Context, string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("runs %s: want one id", use)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return do(c.Context(), args[0]) }}
}

func (a *app) runCommandOn(use, short string, f *runsFlags, do func(context.Context, *executor.Engine, string, *runsFlags) error) *cobra.Command {
	return oneID(use, short, func(ctx context.Context, id string) error {
		return withRuns(ctx, f.dataDir, func(e *executor.Engine) error { return do(ctx, e, id, f) })
	})
}

// lookAt is a command that changes nothing.
func (a *app) lookAt(use, short string, f *runsFlags, do func(context.Context, *reader.Reader, string, *runsFlags) error) *cobra.Command {
	return oneID(use, short, func(ctx context.Context, id string) error {
		return readRuns(f.dataDir, func(r *reader.Reader) error { return do(ctx, r, id, f) })
	})
}

// database is the file of runs of a data directory that has one.
func database(flag string) (string, error) {
	dir, err := dataDir(flag)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", withHint(fault.New(fault.NotFound, "no runs in %s", dir), "start one with 'workflowd run', or name another --data-dir")
	}
	return path, nil
}

// withRuns owns the runs of a data directory. Nothing there is carried on.
func withRuns(ctx context.Context, flag string, do func(*executor.Engine) error) error {
	path, err := database(flag)
	if err != nil {
		return err
	}
	engine, err := executor.Open(ctx, "sqlite:"+path, executor.Foreground())
	if err != nil {
		return err
	}
	return errors.Join(do(engine), engine.Close())
}

// readRuns reads the runs of a data directory, also while another process owns it.
func readRuns(flag string, do func(*reader.Reader) error) error {
	path, err := database(flag)
	if err != nil {
		return err
	}
	r, err := reader.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

func (a *app) listRuns(f runsFlags) error {
	q := runlog.RunQuery{Limit: f.limit}
	if f.status != "" {
		q.Status = []runlog.RunStatus{runlog.RunStatus(f.status)}
		if !slices.Contains(runlog.RunStatuses(), q.Status[0]) {
			return usage("--status %q: want one of %v", f.status, runlog.RunStatuses())
		}
	}
	return readRuns(f.dataDir, func(r *reader.Reader) error {
		runs, err := r.Runs(q)
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
		for _, run := range runs {
			waits, err := waitingFor(r, run)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", run.ID, run.Workflow, run.Status, age(time.Since(run.CreatedAt)), waits)
		}
		return w.Flush()
	})
}

// waitingFor names the open requests of a run.
func waitingFor(r *reader.Reader, run runlog.Run) (string, error) {
	if run.Status != runlog.Waiting {
		return run.Reason, nil
	}
	requests, err := r.Requests(runlog.RequestQuery{Run: run.ID, Status: []runlog.RequestStatus{runlog.RequestOpen}})
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

func (a *app) showRun(_ context.Context, r *reader.Reader, id string, f *runsFlags) error {
	run, err := r.Run(runlog.RunID(id))
	if err != nil {
		return err
	}
	nodes, err := r.Nodes(run.ID)
	if err != nil {
		return err
	}
	usage, err := r.Usage(run.ID)
	if err != nil {
		return err
	}
	requests, err := r.Requests(runlog.RequestQuery{Run: run.ID})
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
	if from := run.ForkedFrom; from != nil {
		fmt.Fprintf(a.Out, "forked from %s at %s\n", from.Run, visits(from.At))
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, n := range nodes {
		how := fmt.Sprintf("attempt %d", n.Attempt)
		if n.From != "" {
			how = "kept from " + string(n.From)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", visits([]runlog.NodeKey{n.NodeKey}), n.Status, how)
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

// visits names visits as --at takes them; the first one of a node is its path alone.
func visits(keys []runlog.NodeKey) string {
	var names []string
	for _, key := range keys {
		name := key.Path
		if key.Visit > 1 {
			name += fmt.Sprintf("#%d", key.Visit)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// watchRun shows the events of a run until it ends, and ends as the run does. It carries nothing on.
func (a *app) watchRun(ctx context.Context, r *reader.Reader, id string, f *runsFlags) error {
	if f.after < 0 {
		return usage("--after %d: want the number of an event, from 0", f.after)
	}
	run, err := r.Run(runlog.RunID(id))
	if err != nil {
		return err
	}
	g, err := r.Graph(&run)
	if err != nil {
		return err
	}
	after, lines := runlog.Seq(f.after), json.NewEncoder(a.Out)
	p := newProgress(IO{Out: a.Out, Err: a.Out}, g, "text")
	first := runlog.Seq(0) // text is folded from the beginning, whatever is shown of it
	if f.asJSON {
		first = after
	}
	shown := p.out
	for event, err := range r.Events(ctx, run.ID, first) {
		if err == nil && f.asJSON {
			err = lines.Encode(event)
		} else if err == nil {
			if p.out = io.Discard; event.Seq > after {
				p.out = shown
			}
			err = p.show(event)
		}
		if err != nil && ctx.Err() != nil {
			return quiet{context.Canceled}
		}
		if err != nil {
			return err
		}
	}
	if run, err = r.Run(run.ID); err != nil {
		return err
	}
	usage, err := r.Usage(run.ID)
	if err != nil {
		return err
	}
	if !f.asJSON {
		p.out = shown
		p.end(run, usage, "")
	}
	return ended(run)
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

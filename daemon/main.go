package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore"
)

// Main runs the command line over the parts and exits the process.
func Main(parts ...Part) {
	os.Exit(Run(context.Background(), os.Args[1:], IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, parts...))
}

// IO is where a command reads and writes.
type IO struct {
	In  io.Reader
	Out io.Writer // the result, nothing else
	Err io.Writer // progress, questions, errors
}

// interactive reports whether a person is at both ends.
func (s IO) interactive() bool { return isTerminal(s.In) && isTerminal(s.Err) }

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Run executes one command line and returns its exit code. It handles SIGINT and SIGTERM while it runs.
func Run(ctx context.Context, args []string, stdio IO, parts ...Part) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{IO: stdio, parts: parts, restore: stop}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if behind := agentcore.Drain(); err == nil {
		err = behind
	}
	code := Exit(err)
	if err != nil && !isQuiet(err) {
		fmt.Fprintf(stdio.Err, "%s: %s\n", root.Name(), told(err))
	}
	return code
}

// app is one command line.
type app struct {
	IO
	parts   []Part
	restore func()      // gives signals their usual meaning back: a second interrupt ends the process
	typed   chan string // lines of the person at the terminal, once something was asked
}

// noArguments refuses arguments and names the commands there are.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasParent() {
		return usage("%s: takes no argument, got %q", c.Name(), args[0])
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return withHint(usage("unknown command %q", args[0]), "there are: "+strings.Join(names, ", "))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "workflowd",
		Short:         "Durable workflows with streaming nodes and agents",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
	root.AddCommand(a.runCommand(), a.runsCommand(), a.exportCommand(), a.importCommand(), a.graphCommand(), a.doctorCommand(), a.versionCommand())
	return root
}

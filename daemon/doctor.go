package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/store/sqlite"
)

// finding is one line of the doctor.
type finding struct {
	state string // ok, warn, fail
	what  string
	text  string
	hint  string
}

func (a *app) doctorCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{Use: "doctor", Short: "Check the installation: data directory, model, tools", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), f) }}
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "data directory to check")
	f.model.add(c.Flags())
	return c
}

func (a *app) doctor(ctx context.Context, f runFlags) error {
	failed := 0
	for _, x := range []finding{checkData(ctx, f.dataDir), checkModel(ctx, f.model), checkShell(), a.checkWorkflows()} {
		if _, err := fmt.Fprintf(a.Out, "%-5s %-10s %s\n", x.state, x.what, x.text); err != nil {
			return err
		}
		if x.hint != "" {
			if _, err := fmt.Fprintf(a.Out, "hint: %s\n", x.hint); err != nil {
				return err
			}
		}
		if x.state == "fail" {
			failed++
		}
	}
	if failed > 0 {
		return quiet{fault.New(fault.Internal, "%d checks failed", failed)}
	}
	return nil
}

func failure(what string, err error) finding {
	return finding{"fail", what, oneLine(err), hintOf(err)}
}

func checkData(ctx context.Context, flag string) finding {
	dir, err := dataDir(flag)
	if err == nil {
		err = usable(dir)
	}
	if err != nil {
		return failure("data dir", err)
	}
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return finding{"ok", "data dir", fmt.Sprintf("%s writable, no runs yet, sqlite %s", dir, sqlite.Version()), ""}
	}
	engine, err := executor.Open(ctx, "sqlite:"+path, executor.Foreground())
	if fault.Is(err, fault.SessionBusy) {
		return finding{"warn", "data dir", oneLine(err), hintOf(err)}
	}
	if err != nil {
		return failure("data dir", err)
	}
	runs, err := engine.Runs(runlog.RunQuery{})
	if err = errors.Join(err, engine.Close()); err != nil {
		return failure("data dir", err)
	}
	live := 0
	for _, r := range runs {
		if !r.Status.Terminal() {
			live++
		}
	}
	return finding{"ok", "data dir", fmt.Sprintf("%s writable, %d runs, %d of them unfinished, sqlite %s", dir, len(runs), live, sqlite.Version()), ""}
}

func checkModel(ctx context.Context, m modelFlags) finding {
	o, err := m.options()
	if err == nil {
		err = reachable(ctx, m.baseURL)
	}
	if err != nil {
		return failure("model", err)
	}
	name, provider, err := o.ModelInUse()
	if err != nil {
		return failure("model", err)
	}
	return finding{"ok", "model", fmt.Sprintf("%s from %s", name, provider), ""}
}

func checkShell() finding {
	path, err := exec.LookPath("bash")
	if err != nil {
		return finding{"warn", "bash", "not on PATH: the bash tool answers with an error", "install bash"}
	}
	return finding{"ok", "bash", path + " (commands are not confined)", ""}
}

func (a *app) checkWorkflows() finding {
	for _, p := range a.parts {
		if _, err := p.Definition(agentnode.Options{}); err != nil {
			return failure("workflows", err)
		}
	}
	return finding{"ok", "workflows", strings.Join(a.names(), ", "), ""}
}

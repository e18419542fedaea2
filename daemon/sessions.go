package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// agentsDir holds the session files in a data directory. Source: design 2 "Storage".
const agentsDir = "agents"

// sessionFlags name one session of a data directory.
type sessionFlags struct{ dataDir, project, key, as string }

func (f *sessionFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "where sessions are kept, as for run")
	c.Flags().StringVar(&f.project, "project", agentnode.DefaultProject, "project of the conversation")
	c.Flags().StringVar(&f.key, "session", agentnode.DefaultKey, "key of the session in its conversation")
}

func (f *sessionFlags) path(conversation string) (string, error) {
	dir, err := dataDir(f.dataDir)
	if err != nil {
		return "", err
	}
	return sessionstore.DatabasePath(filepath.Join(dir, agentsDir), f.project, conversation, f.key), nil
}

func (a *app) exportCommand() *cobra.Command {
	var f sessionFlags
	c := &cobra.Command{
		Use:   "export CONVERSATION FILE",
		Short: "Copy a conversation's session into a new file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("export: want a conversation and the file to make")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.exportSession(c.Context(), f, args[0], args[1]) },
	}
	f.add(c)
	return c
}

func (a *app) exportSession(ctx context.Context, f sessionFlags, conversation, file string) error {
	path, err := f.path(conversation)
	if err != nil {
		return err
	}
	if err := agentcore.ExportDatabase(ctx, path, file); err != nil {
		return copyHint(err, conversation)
	}
	_, err = fmt.Fprintln(a.Out, file)
	return err
}

func (a *app) importCommand() *cobra.Command {
	var f sessionFlags
	c := &cobra.Command{
		Use:   "import FILE --as CONVERSATION",
		Short: "Make a new conversation's session out of an exported file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("import: want one exported file")
			}
			if f.as == "" {
				return usage("--as: name the conversation to make")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.importSession(c.Context(), f, args[0]) },
	}
	f.add(c)
	c.Flags().StringVar(&f.as, "as", "", "the conversation to make; it must not have such a session")
	return c
}

func (a *app) importSession(ctx context.Context, f sessionFlags, file string) error {
	path, err := f.path(f.as)
	if err != nil {
		return err
	}
	if err := agentcore.ImportDatabase(ctx, file, path); err != nil {
		return copyHint(err, f.as)
	}
	_, err = fmt.Fprintln(a.Out, f.as)
	return err
}

// copyHint says what to do about a copy that was refused.
func copyHint(err error, conversation string) error {
	switch fault.KindOf(err) {
	case fault.Conflict:
		return withHint(err, "nothing is overwritten: name another")
	case fault.NotFound:
		return withHint(err, fmt.Sprintf("check the name %q, --session and --data-dir", strings.TrimSpace(conversation)))
	case fault.SessionBusy:
		return withHint(err, "stop the process that has the session, then copy it")
	}
	if errors.Is(err, context.Canceled) {
		return withHint(err, "no file was made")
	}
	return err
}

// removeSessions removes the sessions of a run outside any conversation: they are kept under its own id, which no run has
// again. A conversation keeps its sessions, whoever began it.
func removeSessions(e *executor.Engine, dir string, run *runlog.Run) error {
	if run.Conversation != "" {
		return nil
	}
	others, err := e.Runs(runlog.RunQuery{Conversation: string(run.ID), Limit: 1})
	if err != nil || len(others) > 0 {
		return err
	}
	project := cmp.Or(run.Project, agentnode.DefaultProject)
	home := filepath.Dir(sessionstore.DatabasePath(filepath.Join(dir, agentsDir), project, string(run.ID), "any"))
	list, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, file := range list {
		if err != nil || filepath.Ext(file.Name()) != sessionstore.Suffix {
			continue
		}
		if err = sessionstore.Remove(filepath.Join(home, file.Name())); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.RemoveAll(home) // the lock files, which nobody needs any more
	}
	kind := fault.Storage
	if _, locked := errors.AsType[*sqlite.ErrLocked](err); locked {
		kind = fault.SessionBusy
	}
	if err != nil {
		return fault.New(kind, "sessions of run %s: %w", run.ID, err)
	}
	return nil
}

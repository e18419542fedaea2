package stock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// DemoRequest is the input of the demo workflow.
type DemoRequest struct {
	Folder string `json:"folder" jsonschema:"minLength=1,description=Folder the agent looks at"`
	Report string `json:"report" jsonschema:"minLength=1,description=File the report is written to"`
}

// DemoReport is what the demo ends in.
type DemoReport struct {
	Path      string `json:"path"`
	Plan      string `json:"plan"`
	ToolCalls int    `json:"toolCalls"`
}

// Text is the report for a terminal.
func (r DemoReport) Text() string {
	path := r.Path
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
	}
	return fmt.Sprintf("The plan was approved after %d tool calls; the report is in %s", r.ToolCalls, path)
}

// Demo is the main job on real files: input, an agent in plan mode that lists, searches and reads, its plan's approval,
// and a report.
func Demo() daemon.Part {
	return demo{daemon.Workflow("an agent looks at a copy of your files, plans, and asks for approval: --demo-dir DIR", func(o agentnode.Options) (*workflow.Workflow[DemoRequest, DemoReport], error) {
		o.Mode = permission.Plan
		return workflow.Define("demo", 1, func(b *workflow.Builder, in workflow.Ref[DemoRequest]) workflow.Ref[DemoReport] {
			input := workflow.Then(b, in, survey)
			payload := workflow.ThenStream(b, input, agentnode.New(o))
			return workflow.Then(b, workflow.Join2(b, in, payload, finding), report)
		})
	}, DemoReport.Text)}
}

// survey counts the folder's files and words the question.
var survey = workflow.Func("input", func(_ workflow.NodeContext, r DemoRequest) (agentcore.Input, error) {
	files := 0
	err := filepath.WalkDir(r.Folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files++
		}
		return err
	})
	if err != nil {
		return agentcore.Input{}, fault.New(fault.InputValidation, "/folder: %w", err)
	}
	return agentcore.Input{
		Prompt:  fmt.Sprintf("What is the next useful piece of work in this folder (%d files)? Plan it, and quote what you saw.", files),
		Workdir: r.Folder,
	}, nil
})

// found joins what the report needs.
type found struct {
	Request DemoRequest       `json:"request"`
	Payload agentnode.Payload `json:"payload"`
}

func finding(r DemoRequest, p agentnode.Payload) found { return found{r, p} }

// report writes the plan into the file. Writing it twice leaves the same bytes.
var report = workflow.Func("report", func(_ workflow.NodeContext, f found) (DemoReport, error) {
	r := DemoReport{Path: f.Request.Report, Plan: f.Payload.Plan(), ToolCalls: f.Payload.ToolCallCount}
	text := fmt.Sprintf("# Plan for %s\n\nApproved. Written by %s after %d tool calls.\n\n%s\n", filepath.Base(f.Request.Folder), f.Payload.Model, r.ToolCalls, r.Plan)
	return r, replaceFile(r.Path, text)
})

// replaceFile writes a file so that a reader sees the old bytes or the new ones. What a kill leaves aside is overwritten by
// the next one.
func replaceFile(path, text string) error {
	aside := path + ".new"
	f, err := os.OpenFile(aside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, werr := f.WriteString(text)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return os.Rename(aside, path)
}

type demo struct{ daemon.Part }

var _ daemon.Scratch = demo{}

// maxCopied bounds what is copied into the workspace: files, and bytes of one file.
const (
	maxCopiedFiles = 5000
	maxCopiedBytes = 256 << 10
)

// copyTree copies the regular files below from into a new directory to. Hidden folders, build results, large files, and
// what may not be read are left out. It makes the copy aside and renames it: a workspace is whole or absent.
func copyTree(from, to, except string) error {
	aside := to + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	files := 0
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && (path == except || leftOut(d.Name())):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(aside, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxCopiedBytes {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		if files++; files > maxCopiedFiles {
			return filepath.SkipAll
		}
		return os.WriteFile(filepath.Join(aside, rel), raw, 0o644)
	})
	if err != nil {
		return err
	}
	return os.Rename(aside, to)
}

func leftOut(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "bin" || folder == "node_modules"
}

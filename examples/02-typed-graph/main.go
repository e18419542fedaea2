// Command 02-typed-graph finds the longest Markdown files of a folder: a stream, a map over a list, a pure step, a failure
// path. Kill it at any moment and run it again: it goes on behind what it has found. Edges whose types do not match do not
// compile.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/workflow"
)

// Folder is the input.
type Folder struct {
	Path string `json:"path" jsonschema:"minLength=1"`
}

// Count is the size of one file.
type Count struct {
	File  string `json:"file"`
	Lines int    `json:"lines"`
}

// find delivers files while it walks. What an earlier attempt delivered is skipped.
var find = workflow.StreamFunc("find", func(ctx workflow.NodeContext, in Folder) iter.Seq2[string, error] {
	known := slices.Collect(workflow.Committed[string](ctx))
	return func(yield func(string, error) bool) {
		err := filepath.WalkDir(in.Path, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir() || filepath.Ext(path) != ".md" || slices.Contains(known, path):
				return err
			case !yield(path, nil):
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}, func(_ workflow.NodeContext, _ Folder, files iter.Seq[string]) ([]string, error) {
	return slices.Collect(files), nil
}, workflow.ResumeAfterCrash())

var count = workflow.Func("count", func(_ workflow.NodeContext, file string) (Count, error) {
	text, err := os.ReadFile(file)
	return Count{file, bytes.Count(text, []byte("\n"))}, err
})

var sorry = workflow.Func("sorry", func(_ workflow.NodeContext, f workflow.Failure) ([]Count, error) {
	log.Printf("%s failed: %s", f.Node, f.Message)
	return nil, nil
})

var longest = workflow.MustDefine("longest", 1, func(b *workflow.Builder, in workflow.Ref[Folder]) workflow.Ref[[]Count] {
	counts := workflow.Map(b, workflow.ThenStream(b, in, find), count)
	sorted := workflow.Apply(b, counts, func(all []Count) []Count {
		slices.SortFunc(all, func(a, b Count) int { return cmp.Or(b.Lines-a.Lines, cmp.Compare(a.File, b.File)) })
		return all[:min(len(all), 3)]
	})
	return workflow.Catch(b, sorted, sorry)
})

func main() {
	if err := run(context.Background(), os.Args[1], ".workflow/runs.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder, data string) (err error) {
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		return err
	}
	engine, err := executor.Open(ctx, "sqlite:"+data)
	if err != nil {
		return err
	}
	defer engine.Close()
	flow, err := executor.Register(engine, longest)
	if err != nil {
		return err
	}
	started, err := flow.Start(ctx, Folder{folder}, executor.RequestID("longest:"+folder)) // the same id is the same run
	if err != nil {
		return err
	}
	top, err := started.Result(ctx)
	for _, c := range top {
		fmt.Printf("%4d %s\n", c.Lines, filepath.Base(c.File))
	}
	return err
}

// Command 04-fan-out counts the words of many files, four at a time, and shows each as it is done. A file that cannot be
// read is one line of the result and not the end of the others. Kill it and run it again: what was counted stays counted.
//
//	go run ./examples/04-fan-out run counts --request-id 1 -i files='["README.md","CHANGELOG.md","missing.md"]'
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// Input names the files.
type Input struct {
	Files []string `json:"files" jsonschema:"minItems=1"`
}

// Row is what became of one file.
type Row struct {
	File    string `json:"file"`
	Words   int    `json:"words"`
	Problem string `json:"problem,omitempty"`
}

var slots = make(chan struct{}, 4) // how many files are read at a time

var count = workflow.Func("count", func(ctx workflow.NodeContext, file string) (Row, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return Row{}, ctx.Err()
	}
	text, err := os.ReadFile(file)
	if err != nil { // caught here: an error that leaves the node stops the other elements
		return Row{File: file, Problem: err.Error()}, nil
	}
	return Row{File: file, Words: len(bytes.Fields(text))}, nil
})

var counts = workflow.MustDefine("counts", 1, func(b *workflow.Builder, in workflow.Ref[Input]) workflow.Ref[[]Row] {
	files := workflow.Apply(b, in, func(in Input) []string { return in.Files })
	return workflow.Map(b, files, count) // element i is the node count[i], with a record of its own
})

func table(rows []Row) (text string) {
	for _, r := range rows {
		text += fmt.Sprintf("%6d %s %s\n", r.Words, r.File, r.Problem)
	}
	return text
}

var command = daemon.Workflow("count the words of files",
	func(agentnode.Options) (*workflow.Workflow[Input, []Row], error) { return counts, nil }, table)

func main() { daemon.Main(command) }

package daemon

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/nodes/agentnode"
)

func (a *app) graphCommand() *cobra.Command {
	format := ""
	c := &cobra.Command{
		Use:   "graph WORKFLOW",
		Short: "Print a workflow's graph: JSON, Mermaid or DOT",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("graph: want the name of one workflow")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.graph(args[0], format) },
	}
	c.Flags().StringVar(&format, "format", "json", "json, mermaid or dot")
	return c
}

func (a *app) graph(name, format string) error {
	part, err := a.find(name)
	if err != nil {
		return err
	}
	d, err := part.Definition(agentnode.Options{})
	if err != nil {
		return err
	}
	text := ""
	switch format {
	case "json":
		raw, err := json.MarshalIndent(d.Graph(), "", "  ")
		if err != nil {
			return err
		}
		text = string(raw) + "\n"
	case "mermaid":
		text = d.Graph().Mermaid()
	case "dot":
		text = d.Graph().DOT()
	default:
		return usage("--format %q: want json, mermaid or dot", format)
	}
	_, err = fmt.Fprint(a.Out, text)
	return err
}

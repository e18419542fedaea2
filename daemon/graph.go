package daemon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/nodes/agentnode"
)

func (a *app) graphCommand() *cobra.Command {
	format := ""
	c := &cobra.Command{
		Use:   "graph WORKFLOW",
		Short: "Print a workflow's graph: JSON, YAML, Mermaid or DOT",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("graph: want the name of one workflow")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.graph(args[0], format) },
	}
	c.Flags().StringVar(&format, "format", "json", "json, yaml, mermaid or dot")
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
	raw, err := json.MarshalIndent(d.Graph(), "", "  ")
	if err != nil {
		return err
	}
	text := ""
	switch format {
	case "json":
		text = string(raw) + "\n"
	case "yaml":
		if text, err = yamlOf(raw); err != nil {
			return err
		}
	case "mermaid":
		text = d.Graph().Mermaid()
	case "dot":
		text = d.Graph().DOT()
	default:
		return usage("--format %q: want json, yaml, mermaid or dot", format)
	}
	_, err = fmt.Fprint(a.Out, text)
	return err
}

// yamlOf writes a JSON document as YAML: the same members in the same order, for any reader of YAML.
func yamlOf(raw []byte) (string, error) {
	var doc any
	if err := yaml.UnmarshalWithOptions(raw, &doc, yaml.UseOrderedMap()); err != nil {
		return "", fmt.Errorf("the document as YAML: %w", err)
	}
	tree, err := yaml.ValueToNode(doc, yaml.IndentSequence(true))
	if err != nil {
		return "", fmt.Errorf("the document as YAML: %w", err)
	}
	ast.Walk(quoting{}, tree)
	return tree.String() + "\n", nil
}

// quoting quotes the strings that some reader of YAML would take for something else.
type quoting struct{}

// Visit implements ast.Visitor.
func (q quoting) Visit(n ast.Node) ast.Visitor {
	if s, is := n.(*ast.StringNode); is && !plain.MatchString(s.Value) && !strings.HasPrefix(s.Value, `"`) { // quoted by the library
		s.Token.Type = token.DoubleQuoteType
	}
	return q
}

// plain are the strings that we leave to the library: words. Some of them are truth values, which it knows; a digest that
// looks like a number with an exponent it does not.
var plain = regexp.MustCompile(`^[A-Za-z$][A-Za-z0-9_$./-]*$`)

package daemon

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/workflowd/workflowd/workflow"
)

// maxInput bounds an input read from a file, in bytes.
const maxInput = 20 << 20

// readInput makes the run's input from name=value pairs or JSON. A value that the field's schema says is a string is taken
// as it is; every other one is JSON. Syntax, names and types are checked afterwards, with a pointer.
func readInput(pairs []string, text string, d *workflow.Definition) (json.RawMessage, error) {
	if text != "" && len(pairs) > 0 {
		return nil, usage("--input-json and -i: give one of them")
	}
	if name, ok := strings.CutPrefix(text, "@"); ok {
		raw, err := readFile(name)
		if err != nil {
			return nil, usage("--input-json: %w", err)
		}
		text = string(raw)
	}
	if text != "" {
		return json.RawMessage(text), nil
	}
	fields := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("-i %q: want name=value", pair)
		}
		if _, twice := fields[name]; twice {
			return nil, usage("-i %s: given twice", name)
		}
		raw, err := fieldValue(d, name, value)
		if err != nil {
			return nil, err
		}
		fields[name] = raw
	}
	return json.Marshal(fields)
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxInput {
		return nil, usage("%s: %d bytes, at most %d", name, info.Size(), maxInput)
	}
	return os.ReadFile(name)
}

// fieldValue is a field's value as JSON: text where the schema wants a string or says nothing, else the JSON it is.
func fieldValue(d *workflow.Definition, name, value string) (json.RawMessage, error) {
	switch p, known := properties(d)[name]; {
	case !known, p.Type == "string", p.Type == "":
		return json.Marshal(value)
	case !json.Valid([]byte(value)):
		return nil, usage("-i %s=%s: want a JSON %s", name, value, p.Type)
	}
	return json.RawMessage(value), nil
}

// property is what a command needs to know of a field.
type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// properties are the fields of the workflow's input, none when it is not an object.
func properties(d *workflow.Definition) map[string]property {
	g := d.Graph()
	var schema struct {
		Properties map[string]property `json:"properties"`
	}
	if err := json.Unmarshal(g.Types[g.Input].Schema, &schema); err != nil {
		return nil // a schema of another shape, such as true: it names no field
	}
	return schema.Properties
}

func pace(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, usage("--pace %q: want a duration such as 20ms", text)
	}
	return d, nil
}

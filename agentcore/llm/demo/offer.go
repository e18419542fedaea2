package demo

import (
	"encoding/json"
	"slices"
)

// offer is the tools of a request: name to parameter schema.
type offer map[string]parameters

// parameters is what the demo reads of a parameter schema.
type parameters struct {
	Properties map[string]json.RawMessage `json:"properties"`
	raw        json.RawMessage
}

// offerOf reads the tools of a request body. A tool whose schema is no object has no known parameters.
func offerOf(body []byte) offer {
	var in struct {
		Tools []struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	out := offer{}
	if json.Unmarshal(body, &in) != nil { // the transport has parsed it before
		return out
	}
	for _, t := range in.Tools {
		p := parameters{raw: t.Function.Parameters}
		if json.Unmarshal(p.raw, &p) != nil {
			p.Properties = nil
		}
		out[t.Function.Name] = p
	}
	return out
}

func (o offer) has(name string) bool {
	_, ok := o[name]
	return ok
}

// call is a tool call to make.
type call struct{ name, args string }

// want is one argument: the names it may have in the schema, likeliest first. An optional one is left out when the schema
// has none of them.
type want struct {
	names    []string
	value    any
	optional bool
}

// call builds a call whose argument names are those of the offered schema.
func (o offer) call(name string, wants ...want) call {
	args := map[string]any{}
	known := o[name].Properties
	for _, w := range wants {
		i := slices.IndexFunc(w.names, func(n string) bool { _, ok := known[n]; return ok })
		switch {
		case i >= 0:
			args[w.names[i]] = w.value
		case !w.optional:
			args[w.names[0]] = w.value
		}
	}
	return call{name, marshal(args)}
}

// marshal encodes values made of strings, numbers, booleans, lists and maps, which always encode.
func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}

var (
	pathNames    = []string{"path", "filePath", "file_path", "file", "dir", "directory"}
	contentNames = []string{"content", "text", "contents"}
	commandNames = []string{"command", "cmd", "script"}
)

// argument returns the first string argument of e that has one of names, "" when there is none.
func (e exchange) argument(names []string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(e.args), &args) != nil {
		return ""
	}
	for _, n := range names {
		var s string
		if json.Unmarshal(args[n], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

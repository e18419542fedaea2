package demo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/internal/schema"
)

func TestATypedAnswerFitsItsSchema(t *testing.T) {
	for _, tt := range []struct{ name, schema, has string }{
		{"strings by the names of the fields", `{"type":"object","properties":{"title":{"type":"string"},"file":{"type":"string"},"summary":{"type":"string"}},"required":["title"],"additionalProperties":false}`, `"title":"Ferry"`},
		{"lists of names and of facts", `{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}},"facts":{"type":"array","items":{"type":"string"},"minItems":3,"maxItems":3}}}`, `"files":["Makefile","README.md"`},
		{"numbers within bounds", `{"type":"object","properties":{"matches":{"type":"integer"},"score":{"type":"number","exclusiveMinimum":0,"maximum":1},"n":{"type":"integer","minimum":100}},"required":["matches","score","n"]}`, `"matches":3`},
		{"fixed values", `{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"const":7},"c":{"type":"boolean"},"d":{"type":"null"},"e":{"type":["null","string"]}},"required":["a","b","c","d","e"]}`, `"a":"x"`},
		{"lengths", `{"type":"object","properties":{"answer":{"type":"string","maxLength":10},"long":{"type":"string","minLength":500}},"required":["answer","long"]}`, `"answer":`},
		{"objects in lists", `{"type":"object","properties":{"steps":{"type":"array","minItems":2,"items":{"type":"object","properties":{"action":{"type":"string"},"path":{"type":"string"}},"required":["action","path"],"additionalProperties":false}}},"required":["steps"]}`, `"path":"README.md"`},
		{"references and alternatives", `{"type":"object","properties":{"a":{"$ref":"#/$defs/p"},"b":{"anyOf":[{"type":"integer"},{"type":"string"}]},"c":{"allOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"type":"object","properties":{"y":{"type":"integer"}},"required":["y"]}]}},"required":["a","b","c"],"$defs":{"p":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`, `"name":"Ferry"`},
		{"a tree that refers to itself", `{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`, `"children":`},
		{"required fields without a schema", `{"type":"object","required":["a"]}`, `"a":`},
		{"anything", `{}`, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &talk{t: t, tools: looking + " submit_answer=" + tt.schema}
			answer := k.run("Describe the project")
			last := k.rounds[len(k.rounds)-1]
			if len(k.rounds) != 4 || len(last) != 1 || last[0].name != submitTool {
				t.Fatalf("story:\n%s", k.story())
			}
			v, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Validate([]byte(last[0].args)); err != nil {
				t.Errorf("%s does not fit:\n%v", last[0].args, err)
			}
			if !strings.Contains(last[0].args, tt.has) {
				t.Errorf("%s lacks %s", last[0].args, tt.has)
			}
			if !strings.Contains(answer, `the tool said "Accepted."`) {
				t.Errorf("answer:\n%s", answer)
			}
		})
	}
}

func TestATypedAnswerComesBehindTheDeeds(t *testing.T) {
	k := &talk{t: t, tools: `bash={"properties":{"command":{}}} submit_answer={"properties":{"result":{"type":"string"}}}`}
	k.run("run `go version`")
	want := `bash {"command":"go version"}` + "\n" + `submit_answer {"result":"run ` + "`go version`" + `: it said \"go version go1.26\". No listing was made."}`
	if got := k.story(); got != want {
		t.Errorf("story:\n%s\nwant:\n%s", got, want)
	}
}

func FuzzTypedAnswer(f *testing.F) {
	for _, s := range []string{`{"properties":{"a":{"$ref":"#"}}}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"type":"array","minItems":9999999}`, `{"properties":{"a":{"maxLength":-1,"minLength":9999999}}}`, `true`, `{"$ref":"#/a/~1"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got := typedAnswer(json.RawMessage(raw), turn{}, facts{})
		var v map[string]any
		if json.Unmarshal([]byte(got), &v) != nil {
			t.Errorf("typedAnswer(%q) = %q, not an object", raw, got)
		}
	})
}

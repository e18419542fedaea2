package daemon

import (
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func TestADocumentAsYAMLSaysTheSame(t *testing.T) {
	const doc = `{"format":"workflowd.graph/1","version":1,"max":0.5,"big":12345678901234567890,"types":{"1234567890123e45":{"name":"[]string"}},
		"result":"$input","partial":true,"none":null,"list":[],"object":{},"nodes":[{"path":"each[0]","in":"0123","out":"1e3"},{"path":"a: b","when":{"case":"yes"}}],
		"texts":["","~","null","on","0x10","- a","#x","it's","line\nline","\u0007","\u2028","é",".inf","2001-01-01","<<","&a","%","{","@"]}`
	const want = `format: workflowd.graph/1
version: 1
max: 0.5
big: 12345678901234567890
types:
  "1234567890123e45":
    name: "[]string"
result: $input
partial: true
none: null
list: []
object: {}
nodes:
  - path: "each[0]"
    in: "0123"
    out: "1e3"
  - path: "a: b"
    when:
      case: "yes"
texts:
  - ""
  - "~"
  - "null"
  - "on"
  - "0x10"
  - "- a"
  - "#x"
  - "it's"
  - "line\nline"
  - "\a"
  - "\u2028"
  - "é"
  - ".inf"
  - "2001-01-01"
  - "<<"
  - "&a"
  - "%"
  - "{"
  - "@"
`
	got, err := yamlOf([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var read, before, after any
	if err := yaml.Unmarshal([]byte(got), &read); err != nil {
		t.Fatal(err)
	}
	back, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(doc), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(back, &after); err != nil {
		t.Fatalf("%v: %s", err, back)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

package schema

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Kind string `json:"kind" jsonschema:"enum=a,enum=b"`
}

type sample struct {
	Path  string            `json:"path" jsonschema:"description=Where to look,minLength=1"`
	Limit int               `json:"limit,omitempty" jsonschema:"minimum=1"`
	Items []inner           `json:"items,omitempty"`
	Again []inner           `json:"again,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
}

type node struct {
	Next []*node `json:"next"`
}

func reflected(t *testing.T, v any) string {
	t.Helper()
	raw, err := Reflect(reflect.TypeOf(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestASchemaIsOneClosedTreeAndTheSameEachTime(t *testing.T) {
	want := `{"properties":{"path":{"type":"string","minLength":1,"description":"Where to look"},"limit":{"type":"integer","minimum":1},` +
		`"items":{"items":{"properties":{"kind":{"type":"string","enum":["a","b"]}},"additionalProperties":false,"type":"object","required":["kind"]},"type":"array"},` +
		`"again":{"items":{"properties":{"kind":{"type":"string","enum":["a","b"]}},"additionalProperties":false,"type":"object","required":["kind"]},"type":"array"},` +
		`"env":{"additionalProperties":{"type":"string"},"type":"object"}},"additionalProperties":false,"type":"object","required":["path"]}`
	for range 5 {
		if diff := cmp.Diff(want, reflected(t, sample{})); diff != "" {
			t.Fatalf("schema (-want +got):\n%s", diff)
		}
	}
	if got, want := reflected(t, struct{}{}), `{"properties":{},"additionalProperties":false,"type":"object"}`; got != want {
		t.Errorf("empty struct: got %s, want %s", got, want)
	}
}

func TestTypesThatAreNoFiniteObjectAreRefused(t *testing.T) {
	for _, v := range []any{node{}, "text", []string{}, map[int]string{}, 3, nil} {
		if raw, err := Reflect(reflect.TypeOf(v)); err == nil {
			t.Errorf("%T: got schema %s, want an error", v, raw)
		}
	}
}

func TestEveryViolationIsListedWithItsPointer(t *testing.T) {
	v, err := Compile([]byte(reflected(t, sample{})))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, doc string
		want      []Violation
	}{
		{"a fitting document passes", `{"path":"a","limit":3,"items":[{"kind":"b"}]}`, nil},
		{"a missing property is named", `{}`, []Violation{{"/path", "required, but missing"}}},
		{"an unknown property is named, escaped", `{"path":"a","x/y~":1}`, []Violation{{"/x~1y~0", "unknown property"}}},
		{"a wrong type inside a list has its index", `{"path":"a","items":[{"kind":"a"},{"kind":7}]}`, []Violation{{"/items/1/kind", "got number, want string"}}},
		{"the whole document is of the wrong type", `[]`, []Violation{{"", "got array, want object"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := v.Validate([]byte(tt.doc))
			if tt.want == nil {
				if err != nil {
					t.Fatalf("got %v, want no error", err)
				}
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			if diff := cmp.Diff(tt.want, e.Violations); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	if err := v.Validate([]byte(`{"path":"a"} trailing`)); err == nil {
		t.Error("a document with trailing text passed")
	}
}

func TestAForeignPatternAcceptsAndIsReported(t *testing.T) {
	v, err := Compile([]byte(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)y"},"b":{"type":"string","pattern":"^v[0-9]"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Validate([]byte(`{"a":"anything","b":"v1"}`)); err != nil {
		t.Errorf("foreign pattern: got %v, want it to pass", err)
	}
	if err := v.Validate([]byte(`{"b":"1"}`)); err == nil {
		t.Error("a pattern that Go can run was not checked")
	}
	if got := v.Warnings(); len(got) != 1 || !strings.Contains(got[0], "(?=x)y") {
		t.Errorf("warnings: got %q, want one about (?=x)y", got)
	}
}

func TestNothingOutsideTheDocumentIsLoaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, file, "http://127.0.0.1:1/s.json", "https://example.invalid/s"} {
		if _, err := Compile([]byte(`{"$ref":"` + ref + `"}`)); err == nil {
			t.Errorf("reference to %s compiled", ref)
		}
	}
	if _, err := Compile([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","$defs":{"n":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/n"}}}`)); err != nil {
		t.Errorf("a reference inside the document: %v", err)
	}
}

func TestAnErrorIsBounded(t *testing.T) {
	v, err := Compile([]byte(`{"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	for i := range 500 {
		doc.WriteString(`,"`)
		doc.WriteString(strings.Repeat("é", 300+i))
		doc.WriteString(`":1`)
	}
	failure := v.Validate([]byte("{" + doc.String()[1:] + "}"))
	e, ok := errors.AsType[*Error](failure)
	if !ok || len(e.Violations) != MaxViolations || e.More != 500-MaxViolations {
		t.Fatalf("got %d violations and %d more", len(e.Violations), e.More)
	}
	if n := len(e.Error()); n > MaxViolations*(2*MaxMessageBytes+16) {
		t.Errorf("error text has %d bytes", n)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`)
	f.Add(`{"oneOf":[{"type":"string"},{"minimum":3}]}`, `7`)
	f.Add(`true`, `null`)
	f.Fuzz(func(t *testing.T, schema, doc string) {
		v, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		if err := v.Validate([]byte(doc)); err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
	})
}

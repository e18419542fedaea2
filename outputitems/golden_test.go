package outputitems_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/workflowd/workflowd/outputitems"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func mustJSON(t testing.TB, v any) outputitems.JSON {
	t.Helper()
	j, err := outputitems.NewJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustChunk(t testing.TB) func(outputitems.Chunk, error) outputitems.Chunk {
	return func(c outputitems.Chunk, err error) outputitems.Chunk {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func fold(t testing.TB, chunks ...outputitems.Chunk) *outputitems.Accumulator {
	t.Helper()
	var a outputitems.Accumulator
	for i, c := range chunks {
		if _, err := a.Apply(c); err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	return &a
}

type object = map[string]any

// goldenItems has one item for each kind and part type, made by the constructors, and the chunks it is made of.
func goldenItems(t *testing.T) map[string][]outputitems.Chunk {
	must := mustChunk(t)
	done := func(id string) outputitems.Chunk { return outputitems.Done(id, outputitems.StatusCompleted) }
	part := func(id string, p outputitems.PartType, content any) []outputitems.Chunk {
		return []outputitems.Chunk{outputitems.OpenPart(id, p, mustJSON(t, content)), done(id)}
	}
	retry := func(id string, k outputitems.RetryKind) []outputitems.Chunk {
		return part(id, outputitems.PartRetry, object{"kind": k, "attempt": 1, "limit": 10})
	}
	return map[string][]outputitems.Chunk{
		"agent-session":           {outputitems.OpenSession("s", mustJSON(t, object{"version": 1, "revision": 7, "turns": []any{}}))},
		"agent-answer":            {outputitems.OpenAnswer("answer-1"), outputitems.AppendText("answer-1", 0, "All **42** tests pass."), done("answer-1")},
		"agent-part-reasoning":    {outputitems.OpenReasoning("r"), outputitems.AppendText("r", 0, "Weigh <both> & \"decide\"."), done("r")},
		"agent-part-text":         {outputitems.OpenText("t"), outputitems.AppendText("t", 0, "Grüße, 世界 \U0001F600\n"), outputitems.SetStatus("t", outputitems.StatusWaiting)},
		"agent-part-tool":         part("tool", outputitems.PartTool, object{"tool": "web_search", "toolCallId": "12.0", "arguments": object{"query": "a<b"}}),
		"agent-part-retry":        retry("retry", outputitems.RetryDropped),
		"agent-part-retry-length": retry("retry-2", outputitems.RetryLength),
		"agent-part-retry-lost":   retry("retry-3", outputitems.RetryLostCall),
		"agent-part-retry-rec":    retry("retry-4", outputitems.RetryRecovery),
		"agent-part-compaction":   part("c", outputitems.PartCompaction, object{"auto": true, "before": 181000, "after": 12000}),
		"agent-part-plan":         part("p", outputitems.PartPlan, object{"version": 2, "items": []any{object{"id": "1", "text": "read", "status": "completed"}}}),
		"agent-part-patch":        part("x", outputitems.PartPatch, object{"path": "a.go", "added": 1, "removed": 2}),
		"agent-part-file":         part("f", outputitems.PartFile, object{"path": "out.png", "file": "fil_1"}),
		"agent-notice":            {outputitems.OpenNotice("n", "Sources: [Go](https://go.dev/)")},
		"agent-notice-plan":       {outputitems.OpenPlan("plan", "1. Read\n2. Write")},
		"agent-error":             {must(outputitems.OpenError("e", "model_error", "the model answered 500 ten times"))},
		"ring":                    {must(outputitems.OpenRing("main", 1000, 200000)), must(outputitems.SetRing("main", 1500.5, 200000))},
		"no-kind": {
			outputitems.Open(outputitems.Item{ID: "own", Status: outputitems.StatusRunning, ContentType: outputitems.TypeText, Content: outputitems.Text("row")}),
			outputitems.SetMetadata("own", outputitems.Patch{"row": mustJSON(t, 1), "Größe": mustJSON(t, []any{nil, "x"})}),
		},
	}
}

// Promise: P-604, P-617, P-662, P-663, P-668
func TestItemsHaveTheDocumentedWireForm(t *testing.T) {
	for name, chunks := range goldenItems(t) {
		t.Run(name, func(t *testing.T) {
			item := fold(t, chunks...).Items()[0]
			encoded, err := outputitems.EncodeItem(item)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "item", name+".json"), encoded)
			decoded, err := outputitems.DecodeItem(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(item, decoded); d != "" {
				t.Errorf("decoded item differs:\n%s", d)
			}
			validate(t, "item", encoded)
		})
	}
}

// Promise: P-604
func TestChunksHaveTheDocumentedWireForm(t *testing.T) {
	must := mustChunk(t)
	chunks := map[string]outputitems.Chunk{
		"open-answer":   outputitems.OpenAnswer("a"),
		"open-plan":     outputitems.OpenPlan("p", "1. Read"),
		"open-tool":     outputitems.OpenPart("t", outputitems.PartTool, mustJSON(t, object{"tool": "bash"})),
		"open-ring":     must(outputitems.OpenRing("main", 0, 200000)),
		"append":        outputitems.AppendText("a", 12, "wörld <b>\u2028"),
		"set-text":      outputitems.SetContent("a", outputitems.Text("again")),
		"set-content":   outputitems.SetContent("t", mustJSON(t, object{"result": []any{1.5, "x"}})),
		"set-null":      outputitems.SetContent("t", outputitems.JSON{}),
		"set-metadata":  outputitems.SetMetadata("t", outputitems.Patch{"tool": mustJSON(t, "bash"), "gone": {}}),
		"set-status":    outputitems.SetStatus("t", outputitems.StatusWaiting),
		"done":          outputitems.Done("a", outputitems.StatusInterrupted),
		"set-all":       {ItemID: "t", Change: outputitems.SetChange{Status: outputitems.StatusRunning, Content: mustJSON(t, 1), Metadata: outputitems.Patch{"m": mustJSON(t, true)}}},
		"open-defaults": {ItemID: "d", Change: outputitems.OpenChange{ContentType: outputitems.TypeJSON}},
	}
	for name, c := range chunks {
		t.Run(name, func(t *testing.T) {
			encoded, err := outputitems.EncodeChunk(c)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "chunk", name+".json"), encoded)
			decoded, err := outputitems.DecodeChunk(encoded)
			if err != nil {
				t.Fatal(err)
			}
			again, err := outputitems.EncodeChunk(decoded)
			if err != nil || !bytes.Equal(encoded, again) {
				t.Errorf("decoded chunk encodes as %s, %v", again, err)
			}
			validate(t, "chunk", encoded)
		})
	}
	for _, op := range outputitems.Ops() {
		covered := func(name string) bool { return strings.HasPrefix(name, string(op)) }
		if !slices.ContainsFunc(keys(chunks), covered) {
			t.Errorf("no golden file for op %s", op)
		}
	}
}

func TestEveryKindAndPartTypeHasAGoldenFile(t *testing.T) {
	kinds, parts, retries := map[outputitems.Kind]bool{}, map[outputitems.PartType]bool{}, map[string]bool{}
	for _, chunks := range goldenItems(t) {
		it := fold(t, chunks...).Items()[0]
		kinds[it.Metadata.Kind], parts[it.Metadata.PartType] = true, true
		var content struct {
			Kind string `json:"kind"`
		}
		if j, ok := it.Content.(outputitems.JSON); ok && it.Metadata.PartType == outputitems.PartRetry {
			if err := json.Unmarshal([]byte(j.String()), &content); err != nil {
				t.Fatal(err)
			}
			retries[content.Kind] = true
		}
	}
	for _, k := range outputitems.Kinds() {
		if !kinds[k] {
			t.Errorf("no item of kind %s", k)
		}
	}
	for _, p := range outputitems.PartTypes() {
		if !parts[p] {
			t.Errorf("no item of part type %s", p)
		}
	}
	for _, r := range outputitems.RetryKinds() {
		if !retries[string(r)] {
			t.Errorf("no retry row of kind %s", r)
		}
	}
}

// Promise: P-662
func TestSchemaEnumeratesTheClosedSets(t *testing.T) {
	var s struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(outputitems.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	enum := func(path ...string) []string {
		t.Helper()
		at := s.Defs[path[0]]
		for _, step := range path[1:] {
			var level map[string]json.RawMessage
			if err := json.Unmarshal(at, &level); err != nil {
				t.Fatalf("%v: %v", path, err)
			}
			at = level[step]
		}
		var words struct {
			Enum []string `json:"enum"`
		}
		if err := json.Unmarshal(at, &words); err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		return words.Enum
	}
	same(t, "kinds", enum("metadata", "properties", "kind"), outputitems.Kinds())
	same(t, "part types", enum("metadata", "properties", "partType"), outputitems.PartTypes())
	same(t, "retry kinds", enum("retry", "properties", "kind"), outputitems.RetryKinds())
	same(t, "statuses", enum("status"), outputitems.Statuses())
	same(t, "operations", enum("chunk", "properties", "op"), outputitems.Ops())
	same(t, "content types", enum("contentType"), outputitems.ContentTypes())
	same(t, "display types", enum("display", "properties", "type"), outputitems.DisplayTypes())
	same(t, "placements", enum("display", "properties", "placement"), outputitems.Placements())
}

func same[T ~string](t *testing.T, what string, schema []string, set []T) {
	t.Helper()
	words := make([]string, len(set))
	for i, w := range set {
		words[i] = string(w)
	}
	if d := cmp.Diff(words, schema); d != "" {
		t.Errorf("%s (-package +schema):\n%s", what, d)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	got = append(got, '\n')
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func validate(t *testing.T, def string, doc []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled(t, def).Validate(v); err != nil {
		t.Errorf("%s does not fit the schema: %v", doc, err)
	}
}

func compiled(t *testing.T, def string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(outputitems.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("items.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("items.json#/$defs/" + def)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}

package workflow_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

var update = flag.Bool("update", false, "rewrite golden files")

func node(name string, options ...workflow.NodeOption) workflow.Node[string, string] {
	return workflow.Func(name, func(_ workflow.NodeContext, s string) (string, error) { return s, nil }, options...)
}

func session(key string) workflow.NodeOption {
	return func(i *workflow.NodeInfo) { i.SessionKey = key }
}

// Each program below testdata/mismatch has one fault, on the line that says so, and the compiler points at it.
func TestWhatDoesNotFitDoesNotCompile(t *testing.T) {
	vet := func(dir string) (string, error) {
		out, err := exec.Command("go", "vet", "./"+dir).CombinedOutput()
		return string(out), err
	}
	if out, err := vet("testdata/fits"); err != nil {
		t.Fatalf("the program without a fault: %v\n%s", err, out)
	}
	programs, err := filepath.Glob("testdata/mismatch/*/main.go")
	if err != nil || len(programs) < 7 {
		t.Fatalf("%d programs, %v", len(programs), err)
	}
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(text), "// fault")
		if !found {
			t.Fatalf("%s marks no fault", program)
		}
		out, err := vet(filepath.Dir(program))
		if err == nil {
			t.Errorf("%s compiled", program)
		}
		if line := fmt.Sprintf("main.go:%d:", strings.Count(before, "\n")+1); !strings.Contains(out, line) {
			t.Errorf("%s: the compiler does not point at %s\n%s", program, line, out)
		}
	}
}

func TestDefineRefusesAGraphThatCannotRunAndPointsAtTheNode(t *testing.T) {
	type in = workflow.Ref[string]
	other := in{}
	workflow.MustDefine("other", 1, func(_ *workflow.Builder, r in) in { other = r; return r })
	tests := []struct {
		name  string
		build func(*workflow.Builder, in) in
		want  graph.Problem
	}{
		{
			"two nodes of one name",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, workflow.Then(b, r, node("twin")), node("twin"))
			},
			graph.Problem{Node: "twin", Message: "the path is taken by another node; give one of them another name"},
		},
		{
			"two nodes with one session",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, workflow.Then(b, r, node("one", session("agent"))), node("two", session("agent")))
			},
			graph.Problem{Node: "two", Message: `session key "agent" belongs to node "one"; set another one, a session has one owner`},
		},
		{
			"a name that is no part of a path",
			func(b *workflow.Builder, r in) in { return workflow.Then(b, r, node("a/b")) },
			graph.Problem{Node: "a/b", Message: `name holds '/'; letters, digits, _, - and . are allowed`},
		},
		{
			"the zero ref",
			func(b *workflow.Builder, _ in) in { return workflow.Then(b, in{}, node("lost")) },
			graph.Problem{Node: "lost", Message: "takes the zero Ref; take one that a verb or the build function's argument gave"},
		},
		{
			"a ref of another workflow",
			func(b *workflow.Builder, _ in) in { return workflow.Then(b, other, node("stray")) },
			graph.Problem{Node: "stray", Message: `takes "$input" of another workflow; use Call to embed a workflow`},
		},
		{
			"a loop without a bound",
			func(b *workflow.Builder, r in) in {
				body := workflow.MustDefine("body", 1, func(b *workflow.Builder, r in) in { return workflow.Then(b, r, node("turn")) })
				return workflow.Loop(b, r, body, func(string) bool { return true }, 0)
			},
			graph.Problem{Node: "body", Message: "a loop needs a bound of turns above 0"},
		},
		{
			"an idle timeout of a node that does not stream",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, r, node("quiet", workflow.Timeout(0, time.Second)))
			},
			graph.Problem{Node: "quiet", Message: "an idle timeout is for nodes that stream; give it a total one"},
		},
		{
			"a cache without a key",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, r, node("n"), workflow.Cache("", time.Hour))
			},
			graph.Problem{Node: "n", Message: "a cache needs a key"},
		},
		{
			"a cache for less than no time",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, r, node("n"), workflow.Cache("k", -time.Hour))
			},
			graph.Problem{Node: "n", Message: "a cache does not keep results for less than no time"},
		},
		{
			"a cleanup that would not run each time",
			func(b *workflow.Builder, r in) in {
				tidy := workflow.Func("tidy", func(workflow.NodeContext, workflow.Failure) (bool, error) { return true, nil }, workflow.Cache("k", 0))
				return workflow.Finally(b, r, tidy)
			},
			graph.Problem{Node: "tidy", Message: "a finally is not cached"},
		},
		{
			"a bound of elements where there are none",
			func(b *workflow.Builder, r in) in { return workflow.Then(b, r, node("n"), workflow.Parallel(2)) },
			graph.Problem{Node: "n", Message: "is no map; only the elements of a map are in work in parallel"},
		},
		{
			"a map of less than no elements at a time",
			func(b *workflow.Builder, r in) in {
				list := workflow.Apply(b, r, func(s string) []string { return []string{s} })
				all := workflow.Map(b, list, node("n"), workflow.Parallel(-1))
				return workflow.Apply(b, all, func(all []string) string { return all[0] })
			},
			graph.Problem{Node: "n", Message: "a map works on at least one element at a time; 0 leaves it to the engine"},
		},
		{
			"a timeout below zero",
			func(b *workflow.Builder, r in) in {
				return workflow.Then(b, r, node("late"), workflow.Timeout(-time.Second, 0))
			},
			graph.Problem{Node: "late", Message: "attempts, backoff and timeouts are not negative"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := workflow.Define("broken", 1, test.build)
			problems, ok := asProblems(err)
			if !ok || !slices.Contains(problems, test.want) {
				t.Errorf("got %v, want among it %v", err, test.want)
			}
		})
	}
}

func asProblems(err error) (graph.Problems, bool) {
	for err != nil {
		if p, ok := err.(graph.Problems); ok { //nolint:errorlint // Problems is a slice, errors.As would compare it
			return p, true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil, false
		}
		err = u.Unwrap()
	}
	return nil, false
}

func TestATypeThatJSONCannotCarryIsRefused(t *testing.T) {
	_, err := workflow.Define("channels", 1, func(_ *workflow.Builder, r workflow.Ref[chan int]) workflow.Ref[chan int] { return r })
	if err == nil || !strings.Contains(err.Error(), "JSON cannot carry a chan") {
		t.Errorf("got %v", err)
	}
}

type request struct {
	Folder string `json:"folder" jsonschema:"description=Folder to review"`
}

type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children,omitempty"`
}

// every holds each verb once; its document is the golden file.
func every(b *workflow.Builder, in workflow.Ref[request]) workflow.Ref[string] {
	walk := workflow.StreamFunc("walk",
		func(workflow.NodeContext, request) iter.Seq2[tree, error] { return func(func(tree, error) bool) {} },
		func(workflow.NodeContext, request, iter.Seq[tree]) ([]string, error) { return nil, nil },
		workflow.ResumeAfterCrash())
	names := workflow.ThenStream(b, in, walk, workflow.Timeout(time.Minute, 10*time.Second))
	upper := workflow.Map(b, names, node("upper"), workflow.Parallel(4))
	checked := workflow.MapPartial(b, names, node("check"))
	joined := workflow.Join2(b, upper, checked, func(all []string, checked []workflow.Element[string]) string {
		return strings.Join(all[len(checked):], " ")
	})
	chosen := workflow.Switch(b, joined, func(s string) string { return s },
		map[string]func(*workflow.Builder, workflow.Ref[string]) workflow.Ref[string]{
			"short": func(_ *workflow.Builder, r workflow.Ref[string]) workflow.Ref[string] { return r },
			"long": func(b *workflow.Builder, r workflow.Ref[string]) workflow.Ref[string] {
				return workflow.Then(b, r, node("shorten", workflow.Retry(3, 10)), workflow.Cache("short", time.Hour))
			},
		})
	part := workflow.MustDefine("part", 1, func(b *workflow.Builder, r workflow.Ref[string]) workflow.Ref[string] {
		return workflow.Then(b, r, node("step"))
	})
	polish := workflow.MustDefine("polish", 1, func(b *workflow.Builder, r workflow.Ref[string]) workflow.Ref[string] {
		return workflow.Then(b, r, node("step"))
	})
	looped := workflow.Loop(b, chosen, polish, func(s string) bool { return s == "" }, 5)
	called := workflow.Call(b, looped, part)
	both := workflow.Join2(b, called, in, func(s string, r request) string { return s + r.Folder })
	sorry := workflow.Func("sorry", func(_ workflow.NodeContext, f workflow.Failure) (string, error) { return f.Message, nil })
	tidy := workflow.Func("tidy", func(workflow.NodeContext, workflow.Failure) (bool, error) { return true, nil })
	return workflow.Finally(b, workflow.Catch(b, both, sorry), tidy)
}

func TestTheGraphDocumentIsStable(t *testing.T) {
	w, err := workflow.Define("every-verb", 1, every)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(w.Definition().Graph(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := filepath.Join("testdata", "graph.golden.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the document changed; runs in flight are pinned to it (-want +got):\n%s", diff)
	}
	again := workflow.MustDefine("every-verb", 1, every)
	if a, b := w.Definition().Graph().Fingerprint, again.Definition().Graph().Fingerprint; a != b {
		t.Errorf("two definitions of one source differ: %s and %s", a, b)
	}
}

func TestADocumentFromOutsideIsValidated(t *testing.T) {
	raw, err := json.Marshal(workflow.MustDefine("every-verb", 1, every).Definition().Graph())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*graph.Graph)
		want string
	}{
		{"as it was", func(*graph.Graph) {}, ""},
		{"a changed byte without a new fingerprint", func(g *graph.Graph) { g.Nodes[0].Description = "other"; g.Fingerprint = "0" }, "does not match the document"},
		{"an edge backwards", func(g *graph.Graph) { g.Edges[0] = graph.Edge{From: "part/step", To: "walk"} }, `node "walk": its input "part/step" comes after it; only a loop repeats`},
		{"an edge out of a loop's body", func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{From: "polish/step", To: "part/step"}) }, `node "part/step": its input "polish/step" is outside of its loop`},
		{"an unknown kind", func(g *graph.Graph) { g.Nodes[0].Kind = "guess" }, `node "walk": kind "guess" is unknown`},
		{"a result that is no node", func(g *graph.Graph) { g.Result = "nowhere" }, `result "nowhere" is not a node`},
		{"another format", func(g *graph.Graph) { g.Format = "x" }, `format is "x"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var g graph.Graph
			if err := json.Unmarshal(raw, &g); err != nil {
				t.Fatal(err)
			}
			test.edit(&g)
			if g.Fingerprint != "0" {
				if err := g.Sign(); err != nil {
					t.Fatal(err)
				}
			}
			err := graph.Validate(&g)
			if got := errorText(err); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

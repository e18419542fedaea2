package daemon

import (
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/workflow"
)

type typedInput struct {
	Name  string   `json:"name"`
	Count int      `json:"count,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

var typed = workflow.MustDefine("typed", 1, func(b *workflow.Builder, in workflow.Ref[typedInput]) workflow.Ref[string] {
	return workflow.Then(b, in, workflow.Func("name", func(_ workflow.NodeContext, in typedInput) (string, error) { return in.Name, nil }))
}).Definition()

func TestPairsBecomeWhatTheFieldIs(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		want  string // "" = refused
	}{
		{"text stays text, whatever it looks like", []string{"name=12"}, `{"name":"12"}`},
		{"text may hold an equals sign and quotes", []string{`name=a="b"`}, `{"name":"a=\"b\""}`},
		{"a number and a list are JSON", []string{"name=x", "count=3", `tags=["a"]`}, `{"count":3,"name":"x","tags":["a"]}`},
		{"an unknown field goes on as text: the check names it", []string{"nme=x"}, `{"nme":"x"}`},
		{"nothing is an empty object", nil, `{}`},
		{"a number that is none", []string{"count=many"}, ""},
		{"a pair without a value", []string{"name"}, ""},
		{"a pair without a name", []string{"=x"}, ""},
		{"a field given twice", []string{"name=a", "name=b"}, ""},
	} {
		got, err := readInput(c.pairs, "", typed)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
		if err != nil && Exit(err) != ExitUsage {
			t.Errorf("%s: exit code %d, want %d", c.name, Exit(err), ExitUsage)
		}
	}
}

func TestTheDataDirectoryIsTheNearestThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("HOME", at("home"))
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("WORKFLOWD_DATA_DIR", "")
	for _, step := range []struct{ variable, value, flag, want string }{
		{"HOME", at("home"), "", at("home/.local/share/workflowd")},
		{"XDG_DATA_HOME", at("xdg"), "", at("xdg/workflowd")},
		{"WORKFLOWD_DATA_DIR", at("named"), "", at("named")},
		{"WORKFLOWD_DATA_DIR", at("named"), at("flag"), at("flag")},
	} {
		t.Setenv(step.variable, step.value)
		if got, err := dataDir(step.flag); err != nil || got != step.want {
			t.Errorf("with %s=%s and --data-dir %q: got %q, %v, want %q", step.variable, step.value, step.flag, got, err, step.want)
		}
	}
}

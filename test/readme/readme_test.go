package readme

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// limit bounds one command; the first one may compile SQLite.
const limit = 10 * time.Minute

// expected is what the output of a command must hold, by the command's beginning.
var expected = map[string][]string{
	"make demo":                        {"✓ read", "┌ plan", "was approved", "tokens in", "the report is in"},
	"make test":                        {"tools/test.sh"},
	"bin/workflowd run agent":          {"README.md"},
	"go run ./examples/01-hello-agent": {"demo model wrote this"},
	"go run ./examples/02-typed-graph": {"promises.md"},
	"go run ./examples/03-human":       {`? how much to pay  {"owner":"ann","amount":120}`, "--answer JSON", "exit status 5"},
	"go run ./examples/04-fan-out":     {"count[0]", "README.md", "nothing open nothing: no such file"},
	"make demo MODEL=gpt-5-mini":       {"OPENAI_API_KEY"},
	"make demo MODEL=qwen3 BASE_URL=":  {"planned by a server", "was approved"},
	"make demo MODEL=name  BASE_URL=":  {"planned by a server", "was approved"},
}

// commands returns the lines of the README's code blocks that are typed into a shell, without their comments.
func commands(t *testing.T, readme []byte) []string {
	t.Helper()
	var out []string
	inside := false
	for line := range strings.SplitSeq(string(readme), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		command, _, _ := strings.Cut(line, "#")
		command = strings.TrimSpace(command)
		if inside && (strings.HasPrefix(command, "make ") || strings.HasPrefix(command, "go ") || strings.HasPrefix(command, "bin/")) {
			out = append(out, command)
		}
	}
	return out
}

// wanted returns what a command's output must hold: that of the longest known beginning.
func wanted(command string) []string {
	best := ""
	for prefix := range expected {
		if strings.HasPrefix(command, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return expected[best]
}

// copyTree copies what git tracks, as the working tree has it.
func copyTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v; the test needs git and a checkout", err)
	}
	dir := t.TempDir()
	for name := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		from, to := filepath.Join(root, string(name)), filepath.Join(dir, string(name))
		raw, err := os.ReadFile(from)
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		}
		info, serr := os.Stat(from)
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryCommandOfTheReadmeDoesWhatItSays(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	list := commands(t, readme)
	if len(list) < len(expected) {
		t.Errorf("the README has %d commands, %d are expected: %q", len(list), len(expected), list)
	}
	dir := copyTree(t)
	server := httptest.NewServer(scripted.New(scripted.Func(func(scripted.Request) (scripted.Response, error) {
		return scripted.Response{scripted.Text{Text: "1. It was planned by a server"}}, nil
	}), scripted.Options{}))
	t.Cleanup(server.Close)
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("k\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range list {
		t.Run(command, func(t *testing.T) {
			want := wanted(command)
			if want == nil {
				t.Fatalf("nothing is known of this command: add what it prints to expected")
			}
			run := command
			for _, url := range []string{"http://127.0.0.1:11434/v1", "https://host/v1"} {
				run = strings.ReplaceAll(run, url, server.URL+"/v1")
			}
			run = strings.ReplaceAll(run, "$HOME/.key", key)
			if command == "make test" {
				run = "make -n test" // what runs this test
			}
			out, err := shell(t, dir, run)
			refused := strings.Contains(command, "gpt-5-mini") || // no key here: it says so and starts nothing
				strings.Contains(command, "03-human") // a person has to answer: it says how
			if (err != nil) != refused {
				t.Errorf("%s: %v\n%s", run, err, out)
			}
			for _, w := range want {
				if !strings.Contains(out, w) {
					t.Errorf("%s: the output lacks %q:\n%s", run, w, out)
				}
			}
		})
	}
}

// shell runs a line as a reader would type it, without keys and with a home of its own.
func shell(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", line)
	c.Dir = dir
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "OPENAI_") || strings.HasPrefix(v, "WORKFLOWD_") || strings.HasPrefix(v, "XDG_DATA_HOME=") || strings.HasPrefix(v, "MAKE")
	})
	c.Env = append(c.Env, "XDG_DATA_HOME="+filepath.Join(dir, "home"), fmt.Sprintf("GOFLAGS=%s -buildvcs=false", os.Getenv("GOFLAGS")))
	out, err := c.CombinedOutput()
	return string(out), err
}

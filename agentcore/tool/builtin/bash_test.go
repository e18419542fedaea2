//go:build unix

package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/permission"
)

type ran struct {
	ExitCode   int
	Signal     string
	Bytes      int64
	File       string
	Background bool
}

// bash runs a command and returns what the model reads, whether as a failure, and the details.
func (b *bench) bash(in args) (string, bool, ran) {
	b.t.Helper()
	res, err := b.call("bash", in)
	if err != nil {
		b.t.Fatal(err)
	}
	var d ran
	if err := json.Unmarshal(res.Details, &d); err != nil {
		b.t.Fatal(err)
	}
	return res.Text(), res.IsError, d
}

// shellName is how bash names itself in its messages: by the path it was started with.
var shellName = regexp.MustCompile(`\S*bash: line`)

func TestBashReturnsOutputAndExitCode(t *testing.T) {
	b := newBench(t, permission.Workspace)
	for _, tt := range []struct {
		name, command, want string
		failed              bool
	}{
		{"both streams in order", "echo out; echo err >&2; echo out", "out\nerr\nout\n", false},
		{"nothing", "true", "(no output)", false},
		{"an exit code", "echo no; exit 3", "no\n[exit code 3]", true},
		{"an exit code alone", "exit 1", "[exit code 1]", true},
		{"no last newline", "printf x; exit 2", "x\n[exit code 2]", true},
		{"a signal", "kill -9 $$", "[exit code 137, ended by signal: killed]", true},
		{"stdin is empty", "cat; echo done", "done\n", false},
		{"a command that begins with a dash", "--version", "bash: line 1: --version: command not found\n[exit code 127]", true},
		{"terminal sequences go", `printf '\033[1;31mred\033[0m \033]0;title\007x\000\n'`, "red x\n", false}, // bugs 32 (d)
		{"a progress line is its last state", `printf '10%%\r50%%\r100%%\ndone\r\n'`, "100%\ndone\n", false},
		{"invalid UTF-8", `printf 'a\377\376\200b'`, "a\uFFFD\uFFFD\uFFFDb", false}, // bugs 32 (c)
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, failed, _ := b.bash(args{"command": tt.command})
			got = shellName.ReplaceAllString(got, "bash: line")
			b.is(tt.command, got, tt.want)
			if failed != tt.failed {
				t.Errorf("failed: got %v", failed)
			}
		})
	}
}

// Promise: P-427. Promise: P-428.
func TestBashIsAProcessOfTheHostInTheWorkdirAndNotConfined(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("../out/v.txt", "secret\n")
	got, _, _ := b.bash(args{"command": "pwd; id -u; cat ../out/v.txt; echo made > ../out/w.txt"})
	b.is("output", got, fmt.Sprintf("%s\n%d\nsecret\n", b.dir, os.Getuid()))
	if text, err := os.ReadFile(filepath.Join(b.dir, "../out/w.txt")); err != nil || string(text) != "made\n" {
		t.Errorf("outside: got %q, %v", text, err)
	}
}

func TestBashKeepsTheEndOfLongOutputAndTheWholeInAFile(t *testing.T) {
	b := newBench(t, permission.Workspace)
	for _, tt := range []struct{ name, command, head, tail string }{
		{"many lines", "seq 5000", "3001\n", "5000\n[the last 2000 of 5000 lines, 23.3 KiB in all; the whole output is in "},
		{"many bytes", "for i in $(seq 1000); do printf '%0100d\\n' $i; done", "", "1000\n[the last 506 of 1000 lines, 98.6 KiB in all; the whole output is in "},
		{"one long line", "head -c 200000 /dev/zero | tr '\\0' x; echo", "xxx", "x\n[the last 1 of 1 lines, 195.3 KiB in all; the whole output is in "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, d := b.bash(args{"command": tt.command})
			if !strings.HasPrefix(got, tt.head) || !strings.Contains(got, tt.tail+d.File+" until") || d.File == "" {
				t.Errorf("head %.20q, end %q", got, got[len(got)-250:])
			}
			whole, _, _ := b.bash(args{"command": "wc -c < " + d.File + "; head -n 1 " + d.File + " | cut -c1-3"})
			if want := fmt.Sprintf("%d\n", d.Bytes); !strings.HasPrefix(whole, want) {
				t.Errorf("the file holds %q bytes, want %s", whole, want)
			}
		})
	}
	got, _, d := b.bash(args{"command": "seq 2000"})
	if d.File != "" || !strings.HasSuffix(got, "2000\n") || !strings.HasPrefix(got, "1\n") {
		t.Errorf("exactly as many lines were cut: %.20q … file %q", got, d.File)
	}
}

// Bugs 32 (a): the limit falls inside 🧭.
func TestBashCutsAtARune(t *testing.T) {
	b := newBench(t, permission.Workspace)
	for shift := range 4 {
		got, _, _ := b.bash(args{"command": fmt.Sprintf("printf '%%s' %s; for i in $(seq 20000); do printf 🧭; done", strings.Repeat("x", 1+shift))})
		if strings.Contains(got, "\uFFFD") || !strings.HasPrefix(got, "🧭") {
			t.Errorf("shift %d: begins %q", shift, got[:8])
		}
	}
}

// Bugs 49.
func TestBashComesBackFromBackgroundChildrenTimeoutsAndCancel(t *testing.T) {
	b := newBench(t, permission.Workspace)
	const soon = 8 * time.Second
	for _, command := range []string{"sleep 126 & echo up", "setsid sleep 126 & echo up"} {
		began := time.Now()
		got, failed, d := b.bash(args{"command": command})
		if !strings.HasPrefix(got, "up\n") || failed || !d.Background || time.Since(began) > soon {
			t.Errorf("%s: got %q after %v", command, got, time.Since(began))
		}
	}
	for _, command := range []string{"echo up; sleep 126", "echo up; setsid sh -c 'trap \"\" TERM; sleep 126' & wait"} {
		began := time.Now()
		got, failed, _ := b.bash(args{"command": command, "timeout": 1})
		if want := "up\n[killed after 1s; "; !strings.HasPrefix(got, want) || !failed || time.Since(began) > soon {
			t.Errorf("%s: got %q after %v", command, got, time.Since(began))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	res, err := b.callWith(ctx, "bash", args{"command": "echo up; sleep 126"}, func(string) { cancel() })
	if err != nil || !res.IsError || res.Text() != "up\n[stopped before it had ended]" || time.Since(began) > soon {
		t.Errorf("cancel: got %q, %v after %v", res.Text(), err, time.Since(began))
	}
	if _, err := b.callWith(ctx, "bash", args{"command": "touch ran"}, nil); err == nil {
		t.Error("a cancelled call ran")
	}
	for _, timeout := range []any{0, -1, 3e9, "2"} {
		b.fails("bash", args{"command": "touch ran", "timeout": timeout}, "/timeout")
	}
	if got := b.text("ls", args{}); strings.Contains(got, "ran") {
		t.Error("a refused command ran")
	}
}

func TestBashHoldsLittleMemoryForMuchOutput(t *testing.T) {
	b := newBench(t, permission.Workspace)
	var peak uint64
	n := 0
	res, err := b.callWith(t.Context(), "bash", args{"command": "yes 0123456789 | head -c 100000000"}, func(string) {
		if n++; n%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
	})
	if err != nil || !strings.Contains(res.Text(), "95.4 MiB in all") {
		t.Fatalf("got …%q, %v", res.Text()[max(0, len(res.Text())-200):], err)
	}
	if peak == 0 || peak > 32<<20 {
		t.Errorf("the heap grew to %d bytes", peak)
	}
}

func TestBashShowsOutputWhileItRuns(t *testing.T) {
	b := newBench(t, permission.Workspace)
	var live strings.Builder
	res, err := b.callWith(t.Context(), "bash", args{"command": `printf 'one \033[1m🧭'; while ! test -e go; do sleep 0.02; done; echo two`}, func(text string) {
		live.WriteString(text)
		if live.String() == "one 🧭" {
			b.file("go", "") // the command waits for this
		}
	})
	if err != nil || live.String() != "one 🧭two\n" || res.Text() != live.String() {
		t.Errorf("live %q, result %q, %v", live.String(), res.Text(), err)
	}
}

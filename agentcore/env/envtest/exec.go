package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/env"
)

func exitCodes(t *testing.T, k *kit) {
	for _, tt := range []struct {
		script string
		code   int
	}{{"true", 0}, {"exit 3", 3}, {"no_such_program_here", 127}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}, {"--help", 127}} {
		_, exit, err := k.exec(env.Command{Script: tt.script})
		if err != nil || exit.Code != tt.code {
			t.Errorf("%s: got %d, %v; want %d", tt.script, exit.Code, err, tt.code)
		}
		if (exit.Signal != "") != (tt.code == 137 || tt.code == 143) {
			t.Errorf("%s: signal %q", tt.script, exit.Signal)
		}
	}
}

func spawn(t *testing.T, k *kit) {
	_, err := k.Env.Exec(t.Context(), env.Command{Argv: []string{"/no/such/program"}})
	k.wantCode("missing program", err, env.SpawnFailed)
	_, err = k.Env.Exec(t.Context(), env.Command{Script: "true", Dir: "/no/such/directory"})
	k.wantCode("missing directory", err, env.SpawnFailed)
	if err == nil || !strings.Contains(err.Error(), "/no/such/directory") {
		t.Errorf("the error does not name the directory: %v", err)
	}
}

func argv(t *testing.T, k *kit) {
	got, _, err := k.exec(env.Command{Argv: []string{"printf", "%s|", "$HOME", "*", "a b", "`id`", ""}})
	if want := "$HOME|*|a b|`id`||"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func variables(t *testing.T, k *kit) {
	if got := k.sh("echo ${PATH:+set}"); got != "set\n" {
		t.Errorf("PATH is %q", got)
	}
	got, _, err := k.exec(env.Command{Script: "echo $A$B", Env: []string{"A=1", "B=x=y"}})
	if err != nil || got != "1x=y\n" {
		t.Errorf("added: got %q, %v", got, err)
	}
	got, _, err = k.exec(env.Command{Script: "echo \"[$HOME]$A\"", Env: []string{"A=1"}, CleanEnv: true})
	if err != nil || got != "[]1\n" {
		t.Errorf("clean: got %q, %v", got, err)
	}
	k.sh("mkdir sub")
	got, _, err = k.exec(env.Command{Script: "basename \"$PWD\"; basename \"$(pwd -P)\"", Dir: "sub"})
	if err != nil || got != "sub\nsub\n" {
		t.Errorf("directory: got %q, %v", got, err)
	}
}

func stdin(t *testing.T, k *kit) {
	began := time.Now()
	if got := k.sh("cat; read x || echo end; (: < /dev/tty) 2>/dev/null || echo no terminal"); got != "end\nno terminal\n" {
		t.Errorf("got %q", got)
	}
	k.soon("cat", began)
}

func streams(t *testing.T, k *kit) {
	var out, errs strings.Builder
	first := make(chan struct{})
	_, err := k.Env.Exec(t.Context(), env.Command{Script: "echo one; while ! test -e go; do sleep 0.02; done; echo two >&2",
		Output: func(s env.Stream, chunk []byte) error {
			if s == env.Stdout {
				out.Write(chunk)
			} else {
				errs.Write(chunk)
			}
			if out.String() == "one\n" {
				select {
				case <-first:
				default:
					close(first)
					k.write("go", "") // the command waits for this: the chunk came while it ran
				}
			}
			return nil
		}})
	if err != nil || out.String() != "one\n" || errs.String() != "two\n" {
		t.Errorf("got %q and %q, %v", out.String(), errs.String(), err)
	}
	if got := k.sh("for i in 1 2 3; do echo out$i; echo err$i >&2; done"); got != "out1\nerr1\nout2\nerr2\nout3\nerr3\n" {
		t.Errorf("merged: got %q", got)
	}
}

func runes(t *testing.T, k *kit) {
	var text strings.Builder
	_, err := k.Env.Exec(t.Context(), env.Command{
		Script: `printf '\360\237'; sleep 0.05; printf '\247'; sleep 0.05; printf '\255|\303'; sleep 0.05; printf '\251|'; printf '\377\376\200|\360\237'`,
		Output: func(_ env.Stream, chunk []byte) error {
			text.WriteString(strings.ToValidUTF8(string(chunk), "?")) // chunk by chunk, as a consumer would
			return nil
		}})
	if got, want := text.String(), "🧭|é|?|?"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	var bad int
	_, err = k.Env.Exec(t.Context(), env.Command{Script: "i=0; while test $i -lt 20000; do printf '漢字🧭é'; i=$((i+1)); done",
		Output: func(_ env.Stream, chunk []byte) error {
			if !utf8.Valid(chunk) {
				bad++
			}
			return nil
		}})
	if err != nil || bad != 0 {
		t.Errorf("%d chunks end inside a rune, %v", bad, err)
	}
}

// timeout and the parts after it are bugs 49.
func timeout(t *testing.T, k *kit) {
	const limit = time.Second // enough for a shell to say "up" on a loaded machine
	for _, script := range []string{
		"echo up; sleep 120; echo never",
		"echo up; sh -c 'trap \"\" TERM; sleep 120; sleep 120'",
		"trap '' TERM; echo up; while :; do sleep 1; done",
		"echo up; sleep 120 | cat | cat",
		"echo up; cat /dev/zero > /dev/null",
	} {
		began := time.Now()
		got, exit, err := k.exec(env.Command{Script: script, Timeout: limit})
		k.wantCode(script, err, env.Timeout)
		if got != "up\n" || exit.Duration < limit {
			t.Errorf("%s: got %q after %v", script, got, exit.Duration)
		}
		k.soon(script, began)
	}
	k.noneLeft("sleep 120")
}

// noneLeft proves that no process of a script is alive. The pattern is kept out of the command that looks for it.
func (k *kit) noneLeft(words string) {
	k.t.Helper()
	pattern := "[" + words[:1] + "]" + words[1:]
	if got := k.sh("ps -eo stat,args | grep -v '^Z' | grep -e '" + pattern + "$' || true"); got != "" {
		k.t.Errorf("still running: %q", got)
	}
}

func cancelRunning(t *testing.T, k *kit) {
	for _, script := range []string{"echo up; sleep 121 & sleep 121", "echo up; yes > /dev/null", "echo up; exec cat /dev/zero"} {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var head strings.Builder
		_, err := k.Env.Exec(ctx, env.Command{Script: script, Output: func(_ env.Stream, chunk []byte) error {
			if head.Len() < 3 {
				head.Write(chunk[:min(3, len(chunk))])
			}
			cancel()
			return nil
		}})
		cancel()
		k.wantCode(script, err, env.Aborted)
		if head.String() != "up\n" {
			t.Errorf("%s: output so far is %q", script, head.String())
		}
		k.soon(script, began)
	}
	k.noneLeft("sleep 121")
}

func callback(t *testing.T, k *kit) {
	full := errors.New("the disk is full")
	began, calls := time.Now(), 0
	_, err := k.Env.Exec(t.Context(), env.Command{Script: "yes", Output: func(env.Stream, []byte) error { calls++; return full }})
	k.wantCode("callback", err, env.CallbackFailed)
	if !errors.Is(err, full) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	k.soon("a failing callback", began)
}

func background(t *testing.T, k *kit) {
	for _, script := range []string{"sleep 122 & echo up", "setsid sleep 122 & echo up", "(while :; do echo noise >&2; sleep 0.01; done) & echo up"} {
		began := time.Now()
		var head strings.Builder
		exit, err := k.Env.Exec(t.Context(), env.Command{Script: script, Output: func(s env.Stream, chunk []byte) error {
			if s == env.Stdout {
				head.Write(chunk)
			}
			return nil
		}})
		if err != nil || exit.Code != 0 || !exit.Detached || head.String() != "up\n" {
			t.Errorf("%s: got %+v, %q, %v", script, exit, head.String(), err)
		}
		k.soon(script, began)
	}
	if exit, err := k.Env.Exec(t.Context(), env.Command{Script: "sleep 0.01 & wait"}); err != nil || exit.Detached {
		t.Errorf("nothing is left here: %+v, %v", exit, err)
	}
}

func limits(t *testing.T, k *kit) {
	for name, c := range map[string]env.Command{
		"nothing to run":       {},
		"script and argv":      {Script: "true", Argv: []string{"true"}},
		"a negative timeout":   {Script: "printf x > made", Timeout: -1},
		"a timeout of a month": {Script: "printf x > made", Timeout: env.MaxTimeout + 1},
		"NUL in the script":    {Script: "printf x > made #\x00"},
		"a broken variable":    {Script: "printf x > made", Env: []string{"novalue"}},
	} {
		_, err := k.Env.Exec(t.Context(), c)
		k.wantCode(name, err, env.Invalid)
	}
	if got := k.sh("ls -A"); got != "" {
		t.Errorf("something ran: %q", got)
	}
}

func cleanup(t *testing.T, k *kit) {
	f, err := k.Env.Temp(t.Context(), "output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := k.sh("cat '" + f.Path() + "'"); got != "kept" {
		t.Errorf("a command reads %q", got)
	}
	if _, err := k.Env.Temp(t.Context(), "../x"); env.CodeOf(err) != env.Invalid {
		t.Errorf("a name with a directory: %v", err)
	}
	running := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := k.Env.Exec(context.Background(), env.Command{Script: "echo up; sleep 123",
			Output: func(env.Stream, []byte) error { close(started); return nil }})
		running <- err
	}()
	<-started
	began := time.Now()
	if err := k.Env.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.wantCode("a command running at cleanup", <-running, env.Aborted)
	if err := k.Env.Cleanup(t.Context()); err != nil {
		t.Errorf("twice: %v", err)
	}
	k.soon("cleanup", began)
	_, err = k.Env.Exec(t.Context(), env.Command{Script: "true"})
	k.wantCode("a command after cleanup", err, env.Aborted)
}

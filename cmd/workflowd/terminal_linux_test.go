package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// terminal is a pseudo terminal with the product behind it and a person before it.
type terminal struct {
	t    *testing.T
	p    *process
	end  *os.File // the person's
	text strings.Builder
	from int // where the next look begins
}

// sit starts `workflowd args` in dir on a terminal of its own, which it controls: ^C interrupts it.
func sit(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() }) // it may be closed with the process already
	var number uint32
	for _, c := range []struct {
		request uintptr
		value   uint32
	}{{syscall.TIOCSPTLCK, 0}, {syscall.TIOCGPTN, 0}} {
		value := c.value
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), c.request, uintptr(unsafe.Pointer(&value))); errno != 0 {
			t.Fatal(errno)
		}
		number = value
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	return &terminal{t: t, end: person, p: launch(t, dir, func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Stderr = program, program, program
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}, args...)}
}

// until reads up to the first match of a pattern behind the last one, and returns what was read.
func (s *terminal) until(pattern string) string {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	buf := make([]byte, 4096)
	for {
		rest := s.text.String()[s.from:]
		if at := want.FindStringIndex(rest); at != nil {
			s.from += at[1]
			return rest[:at[1]]
		}
		n, err := s.end.Read(buf)
		s.text.Write(buf[:n])
		if err != nil && n == 0 {
			s.t.Fatalf("no %q before the terminal ended: %v\n%s", pattern, err, s.text.String())
		}
	}
}

func (s *terminal) types(keys string) {
	s.t.Helper()
	if _, err := s.end.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// leave waits for the end and returns the exit code and all that was to be seen.
func (s *terminal) leave() (int, string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	for {
		n, err := s.end.Read(buf)
		s.text.Write(buf[:n])
		if err != nil { // EIO: the last program has let go of the terminal
			break
		}
	}
	code, _ := s.p.end()
	return code, strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// project is a directory for the demo to look at.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"README.md": "# Hello\n\nA program that says hello.\n", "main.go": "package main\n\nfunc main() { println(\"hello\") }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const question = "? Approve the plan  [a]pprove [r]evise › "

// Text comes while the model speaks, at the demo's own pace; a person is asked once, and decides.
func TestAPersonAtATerminalApprovesThePlan(t *testing.T) {
	t.Parallel()
	s := sit(t, project(t), "run", "demo", "--demo-dir", ".demo")
	first := s.until(`# Plan`)
	if strings.Contains(first, "model wrote this") {
		t.Errorf("the plan came in one piece, or the pattern did not wait:\n%s", first)
	}
	s.until(regexp.QuoteMeta(question))
	s.types("what?\n") // no answer: asked again
	s.until(regexp.QuoteMeta(question))
	s.types("a\n")
	code, text := s.leave()
	if code != 0 || !strings.Contains(text, "\n  ✓ Approve the plan: answered by a person at the terminal\n") || !strings.Contains(text, "The plan was approved after ") {
		t.Fatalf("exit code %d\n%s", code, text)
	}
	for part, n := range map[string]int{"# Plan": 1, "└ the plan is above": 1, "┌ plan": 0, question: 2, "\n  I list the working directory first.\n": 1} {
		if got := strings.Count(text, part); got != n {
			t.Errorf("%q is there %d times, want %d\n%s", part, got, n, text)
		}
	}
	took := regexp.MustCompile(`succeeded in ([\d.]+)s`).FindStringSubmatch(text)
	if took == nil {
		t.Fatalf("no time\n%s", text)
	}
	if d, err := strconv.ParseFloat(took[1], 64); err != nil || d < (500*time.Millisecond).Seconds() {
		t.Errorf("the run took %s s: a person at a terminal is to read along", took[1])
	}
}

// A person sends a plan back in his own words, gets another, and is asked about that one, once.
func TestAPersonSendsAPlanBack(t *testing.T) {
	t.Parallel()
	s := sit(t, project(t), "run", "demo", "--demo-dir", ".demo", "--pace", "1ms")
	s.until(regexp.QuoteMeta(question))
	s.types("r\n")
	s.until(`\? what should change, or why › `)
	s.types("only the README, bitte mit Umläuten\n")
	s.until(regexp.QuoteMeta(question))
	s.types("approve\n")
	code, text := s.leave()
	if code != 0 || !strings.Contains(text, "The plan was approved after ") {
		t.Fatalf("exit code %d\n%s", code, text)
	}
	for part, n := range map[string]int{
		question: 2, "answered by a person at the terminal": 2, "└ the plan is above": 2,
		"✓ Plan 1 was sent back for revision: only the README, bitte mit Umläuten\n": 1, "✓ Plan 2 was approved.\n": 1,
	} {
		if got := strings.Count(text, part); got != n {
			t.Errorf("%q is there %d times, want %d\n%s", part, got, n, text)
		}
	}
}

// ^C at the question stops an agent run for good, and a line that ends the input leaves it waiting.
func TestAnInterruptAtTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  string
		code int
		want string
	}{
		"^C stops the run": {"\x03", 130, " aborted\n"},
		"^D leaves it":     {"\x04", 5, "; the same command asks again\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, project(t), "run", "agent", "-i", "prompt=x", "--plan", "--request-id", "one")
			s.until(regexp.QuoteMeta(question))
			s.types(c.key)
			if code, text := s.leave(); code != c.code || !strings.HasSuffix(text, c.want) {
				t.Errorf("exit code %d, want %d and %q\n%s", code, c.code, c.want, text)
			}
		})
	}
}

// An answer that was read while it came is not printed a second time.
func TestAnAnswerIsShownOnceAtATerminal(t *testing.T) {
	t.Parallel()
	s := sit(t, project(t), "run", "agent", "-i", "prompt=hello")
	code, text := s.leave()
	if n := strings.Count(text, "The built-in demo model wrote this"); code != 0 || n != 1 {
		t.Errorf("exit code %d, the answer is there %d times\n%s", code, n, text)
	}
}

// What a model says cannot move the cursor, rename the window or hide what came before.
func TestControlCharactersDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	model := gate(t, `text "safe \x1b]0;owned\x07\x1b[2J\u009b31m text 漢字"`)
	close(model.open)
	s := sit(t, project(t), append([]string{"run", "agent", "-i", "prompt=hello"}, model.flags...)...)
	code, text := s.leave()
	if code != 0 || strings.ContainsAny(text, "\x1b\x07\u009b") || !strings.Contains(text, "text 漢字\n") {
		t.Errorf("exit code %d\n%q", code, text)
	}
}

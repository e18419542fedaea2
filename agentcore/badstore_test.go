//go:build unix

package agentcore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// childPath makes this binary another process that opens the session it names, says how that went, and holds it until its
// standard input ends.
const childPath = "AGENTCORE_TEST_SESSION"

func init() {
	asChild = func() {
		path := os.Getenv(childPath)
		if path == "" {
			return
		}
		a, err := agentcore.New(context.Background(), agentcore.Options{DatabasePath: path, Model: "m", LLM: scriptOf().Provider()})
		if sayErr := json.NewEncoder(os.Stdout).Encode(opening{fault.KindOf(err), fmt.Sprint(err)}); sayErr != nil {
			panic(sayErr)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, os.Stdin)
			err = errors.Join(err, a.Close(), agentcore.Drain())
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// opening is how the other process says that its opening of a session went.
type opening struct {
	Kind fault.Kind
	Text string
}

// tryNew opens the session at path and closes it again.
func tryNew(t *testing.T, path string) error {
	t.Helper()
	a, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Workdir: t.TempDir(), Model: "m", LLM: scriptOf().Provider()})
	if err == nil {
		err = errors.Join(a.Close(), agentcore.Drain())
	}
	return err
}

// refused checks that an error is of a kind, and names the file and the reason.
func refused(t *testing.T, err error, kind fault.Kind, path, reason string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %q: %v\nwant kind %q, the path %s and %q", fault.KindOf(err), err, kind, path, reason)
	}
}

// tamper changes rows of a session file behind everybody's back.
func tamper(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{MustOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is no session of ours is refused with a kind, by its name and the reason, and stays as it is.
func TestAnAgentRefusesABadFileByNameAndLeavesItAsItIs(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.db")
	paused(t, good)
	file := read(t, good)
	_, log := inUse(t)
	noise := bytes.Repeat([]byte{0xa5, 0x5a, 0x13}, 2000)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, err := sqlite.Open(foreign, sqlite.Options{})
	if err == nil {
		_, err = db.Exec(`CREATE TABLE theirs(x)`)
		err = errors.Join(err, db.Close())
	}
	newer := filepath.Join(t.TempDir(), "newer.db")
	write(t, newer, file)
	tamper(t, newer, `INSERT INTO schema_version SELECT max(version)+1,'later.sql','x' FROM schema_version`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, reason string
		file, log    []byte
	}{
		{"text", "not a database", bytes.Repeat([]byte("no database\n"), 200), nil},
		{"noise with a log", "not a database", noise, log},
		{"a spoilt schema", "not a database", append(append(bytes.Clone(file[:100]), noise[:400]...), file[500:]...), nil},
		{"half a page", "not a database", file[:512], nil},
		{"an empty file whose log is there", "its log is not", nil, log},
		{"another program's database", "another program", read(t, foreign), nil},
		{"a newer version's session", "newer version", read(t, newer), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			write(t, path, test.file)
			if test.log != nil {
				write(t, path+"-wal", test.log)
			}
			for range 2 { // the refusal lets go of the file
				refused(t, tryNew(t, path), fault.Storage, path, test.reason)
				if !bytes.Equal(read(t, path), test.file) {
					t.Error("the file changed")
				}
				if test.log != nil && !bytes.Equal(read(t, path+"-wal"), test.log) {
					t.Error("its log changed")
				}
			}
		})
	}
	dir := t.TempDir()
	refused(t, tryNew(t, dir), fault.Storage, dir, "it is a directory")
}

// A session of which any page is spoilt opens or is refused as above; a turn of it ends as it would have, or in an error of
// kind storage; and it is refused the same way again.
func TestAnAgentOverASpoiltPageFailsByKindOrNotAtAll(t *testing.T) {
	const page = 1024
	good := filepath.Join(t.TempDir(), "good.db")
	paused(t, good)
	file := read(t, good)
	ends := map[string]int{}
	for at := 0; at < len(file); at += page {
		t.Run(fmt.Sprintf("page %d", at/page+1), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			bad := bytes.Clone(file)
			copy(bad[at:at+page], bytes.Repeat([]byte{0xa5, 0x5a}, page))
			write(t, path, bad)
			end := "New refused"
			for again := range 2 {
				a, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Workdir: t.TempDir(), ExtraTools: deploy(t), Model: "m",
					LLM: scriptOf(call("deploy", `{"where":"here"}`), say("Deployed.")).Provider()})
				if err != nil {
					refused(t, err, fault.Storage, path, "")
					continue
				}
				_, text, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{decided: true})
				if end = "Run went well"; err != nil {
					end = "Run failed"
				}
				if err != nil && !fault.Is(err, fault.Storage) || err == nil && text != "Deployed." {
					t.Errorf("time %d: %q, %q %v", again+1, text, fault.KindOf(err), err)
				}
				if err := errors.Join(a.Close(), agentcore.Drain()); err != nil && !errors.Is(err, sqlite.ErrNotDatabase) {
					t.Errorf("close: %v", err)
				}
			}
			ends[end]++
		})
	}
	t.Logf("%d pages: %v", len(file)/page, ends)
	if len(ends) < 3 {
		t.Error("too few ends to prove anything")
	}
}

// A record that is no strict JSON, or of the wrong shape, is an error of kind storage that names the record, when the
// session is opened or when the record is needed. The others are not touched.
func TestAnAgentOverABrokenRecordNamesIt(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.db")
	paused(t, good)
	file := read(t, good)
	for _, test := range []struct{ name, damage, says string }{
		{"no metadata", `DELETE FROM meta`, "no metadata row"},
		{"half a payload", `UPDATE submissions SET payload=CAST('{' AS BLOB)`, "submission 2"},
		{"a payload of another shape", `UPDATE submissions SET payload=CAST('{"prompt":1}' AS BLOB)`, "submission 2"},
		{"half a checkpoint", `UPDATE tasks SET checkpoint=CAST('{"x"' AS BLOB)`, "task"},
		{"an input that is no JSON", `UPDATE tasks SET input=CAST('nope' AS BLOB)`, "task"},
		{"half a message", `UPDATE entries SET model=CAST('{' AS BLOB)`, "entry "},
		{"half the data of an entry", `UPDATE entries SET data=CAST('{' AS BLOB)`, "entry "},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			write(t, path, file)
			tamper(t, path, test.damage)
			a, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Workdir: t.TempDir(), ExtraTools: deploy(t), Model: "m",
				LLM: scriptOf(call("deploy", `{"where":"here"}`), say("Deployed.")).Provider()})
			if err != nil {
				refused(t, err, fault.Storage, path, test.says)
				return
			}
			_, _, err = follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{decided: true})
			refused(t, err, fault.Storage, "", test.says)
			if err := errors.Join(a.Close(), agentcore.Drain()); err != nil {
				t.Error(err)
			}
		})
	}
}

// inUse returns a session file and its log as an owner that was killed in a pause leaves them.
func inUse(t *testing.T) (file, log []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	a := open(t, agentcore.Options{DatabasePath: path, ExtraTools: deploy(t)}, scriptOf(call("deploy", `{"where":"here"}`)))
	if _, _, err := follow(a, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{}); !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("got %v", err)
	}
	return read(t, path), read(t, path+"-wal")
}

// A log that was cut anywhere counts up to its last whole commit: the agent opens, and the turn is done again from there.
func TestAnAgentGoesOnFromALogThatWasCut(t *testing.T) {
	file, log := inUse(t)
	for cut := 0; cut <= len(log); cut += 700 {
		cutPath := filepath.Join(t.TempDir(), "x.db")
		write(t, cutPath, file)
		write(t, cutPath+"-wal", log[:cut])
		b := open(t, agentcore.Options{DatabasePath: cutPath, ExtraTools: deploy(t)}, scriptOf(call("deploy", `{"where":"here"}`), say("Deployed."), say("Deployed.")))
		if _, text, err := follow(b, agentcore.Input{RequestID: "r1", Prompt: "deploy"}, doubter{decided: true}); err != nil || text != "Deployed." {
			t.Errorf("cut at %d of %d: %q, %v", cut, len(log), text, err)
		}
	}
}

// start runs this binary as another process on the session at path, and returns what it says. As nobody it has no rights.
func start(t *testing.T, path string, asNobody bool) (opening, *exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = "/", append(os.Environ(), childPath+"="+path), os.Stderr
	if asNobody && os.Getuid() == 0 { // root may write anywhere: act as nobody, from a place nobody can execute
		const nobody = 65534
		cmd.Path = open4all(t, read(t, os.Args[0]))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var s opening
	if err := json.NewDecoder(out).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s, cmd, in
}

// open4all puts a program where everybody may execute it.
func open4all(t *testing.T, program []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(file); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// Promise: P-300, P-301
func TestAnAgentIsToldWhichProcessHasItsSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	paused(t, path)
	before := read(t, path)
	s, other, hold := start(t, path, false)
	if s.Kind != "" {
		t.Fatalf("the other process: %s %s", s.Kind, s.Text)
	}
	err := tryNew(t, path)
	refused(t, err, fault.SessionBusy, path, fmt.Sprintf("process %d", other.Process.Pid))
	if !bytes.Equal(before, read(t, path)) {
		t.Error("the file changed")
	}
	if err := errors.Join(hold.Close(), other.Wait(), tryNew(t, path)); err != nil {
		t.Errorf("once the other has ended: %v", err)
	}
}

func TestAnAgentIsToldWhatItMayNotWrite(t *testing.T) {
	dir, err := os.MkdirTemp("", "unwritable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.Chmod(dir, 0o700), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "s.db")
	paused(t, path)
	for _, name := range []string{path, path + sqlite.LockSuffix} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	before := read(t, path)
	for _, test := range []struct{ name, path string }{
		{"a session that is there", path},
		{"a new session", filepath.Join(dir, "new.db")},
		{"a new directory", sessionstore.DatabasePath(dir, "p", "c", "main")},
	} {
		s, cmd, _ := start(t, test.path, true)
		if s.Kind != fault.Storage || !strings.Contains(s.Text, dir) || !strings.Contains(s.Text, "cannot be written") {
			t.Errorf("%s: %s %s", test.name, s.Kind, s.Text)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: it opened", test.name)
		}
	}
	if !bytes.Equal(before, read(t, path)) {
		t.Error("the session changed")
	}
	if _, err := os.Stat(filepath.Join(dir, "new.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new file: %v", err)
	}
}

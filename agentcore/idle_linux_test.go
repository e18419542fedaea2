package agentcore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// openBelow lists the files of this process that are open at or below dir.
func openBelow(t *testing.T, dir string) (open []string) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range list {
		name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err != nil {
			continue // it was the listing's own
		}
		if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
			open = append(open, rel)
		}
	}
	return open
}

func TestAnIdleAgentHoldsItsLockAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		model := scripted.New(scripted.Responses(call("write", `{"path":"kept","content":"kept words"}`), say("One."),
			call("read", `{"path":"kept"}`), say("Two.")), scripted.Options{})
		a := open(t, agentcore.Options{DatabasePath: filepath.Join(dir, "x.db"), Workdir: work}, model)
		for i := range 2 {
			if _, _, err := follow(a, agentcore.Input{RequestID: fmt.Sprint(i), Prompt: "go"}, nil); err != nil {
				t.Fatal(err)
			}
			<-time.After(3 * time.Second)
			synctest.Wait()
			if got := openBelow(t, dir); len(got) != 1 || got[0] != "x.db.lock" {
				t.Errorf("idle behind turn %d, open are %q, want the lock", i, got)
			}
		}
		if results := model.Requests()[3].Results(); len(results) == 0 || !strings.Contains(results[len(results)-1].Text, "kept words") {
			t.Errorf("a tool behind the rest returned %+v", results)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/permission"
)

type written struct {
	Path           string
	Bytes          int
	Created        bool
	Added, Removed int
	Diff           string
}

func (b *bench) write(path, content string) (string, written) {
	b.t.Helper()
	res, err := b.call("write", args{"path": path, "content": content})
	if err != nil {
		b.t.Fatal(err)
	}
	var d written
	if err := json.Unmarshal(res.Details, &d); err != nil {
		b.t.Fatal(err)
	}
	return res.Text(), d
}

func TestWriteCreatesReplacesAndShowsTheDifference(t *testing.T) {
	b := newBench(t, permission.Workspace)
	text, d := b.write("new/dir/f.txt", "a\nb\n")
	b.is("created", text, "created new/dir/f.txt: 4 bytes, 2 lines")
	if diff := cmp.Diff(written{"new/dir/f.txt", 4, true, 2, 0, "@@ -0,0 +1,2 @@\n+a\n+b\n"}, d); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	b.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	text, d = b.write("f", "1\n2\n3\n4\nfive\n6\n7\n8\n9")
	b.is("replaced", text, "replaced f: 20 bytes, 9 lines")
	b.is("diff", d.Diff, "@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n-6\n-7\n-8\n-9\n+five\n+6\n+7\n+8\n+9\n\\ No newline at end of file\n")
	if _, d = b.write("f", "1\n2\n3\n4\nfive\n6\n7\n8\n9"); d.Diff != "" || d.Added != 0 || d.Created {
		t.Errorf("the same content: %+v", d)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "f")); err != nil || string(got) != "1\n2\n3\n4\nfive\n6\n7\n8\n9" {
		t.Errorf("content: got %q, %v", got, err)
	}
	text, d = b.write("f", "")
	b.is("emptied", text, "replaced f: 0 bytes, 0 lines")
	b.is("diff", d.Diff, "@@ -1,9 +0,0 @@\n-1\n-2\n-3\n-4\n-five\n-6\n-7\n-8\n-9\n\\ No newline at end of file\n")
}

func TestWriteKeepsModeAndLink(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("script", "old")
	if err := os.Chmod(filepath.Join(b.dir, "script"), 0o750); err != nil {
		t.Fatal(err)
	}
	b.link("link", "script")
	b.write("link", "new\r\n")
	info, err := os.Lstat(filepath.Join(b.dir, "script"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode: got %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(filepath.Join(b.dir, "link")); err != nil || target != "script" {
		t.Errorf("link: got %q, %v", target, err)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "script")); err != nil || string(got) != "new\r\n" {
		t.Errorf("content: got %q, %v", got, err)
	}
}

func TestWriteRefusesWhatIsNoFile(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("d/f", "x")
	b.fails("write", args{"path": "d", "content": ""}, "directory")
	b.fails("write", args{"path": "d/", "content": ""}, "directory")
	b.fails("write", args{"path": "d/f/g", "content": ""}, "not a directory")
	b.fails("write", args{"path": "d/f"}, "/content: required")
	if got := b.text("find", args{"pattern": "**"}); got != "d/\nd/f\n" {
		t.Errorf("left behind: %q", got)
	}
}

// The diff of each write must begin where the one before ended: writes to one file, by two names, are one after another.
func TestWritesToOneFileAreSerialised(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("f", "0\n")
	b.link("alias", "f")
	const writers = 24
	diffs := make(chan string, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, d := b.write([]string{"f", "alias"}[i%2], fmt.Sprintf("%d\n", i+1))
			diffs <- d.Diff
		})
	}
	wg.Wait()
	close(diffs)
	next := map[string]string{}
	for d := range diffs {
		lines := strings.Split(d, "\n")
		if len(lines) != 4 {
			t.Fatalf("diff %q", d)
		}
		from := strings.TrimPrefix(lines[1], "-")
		if other, twice := next[from]; twice {
			t.Fatalf("%q was replaced by %q and by %q: an update was lost", from, other, lines[2])
		}
		next[from] = strings.TrimPrefix(lines[2], "+")
	}
	at := "0"
	for range writers {
		at = next[at]
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "f")); err != nil || string(got) != at+"\n" {
		t.Errorf("the chain ends in %q, the file in %q, %v", at, got, err)
	}
}

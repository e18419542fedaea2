//go:build linux

package strace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATraceReadsAsCalls(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []call
	}{
		{"a whole call", `18 fsync(11</d/x.db-wal>)            = 0`,
			[]call{{pid: 18, name: "fsync", args: "11</d/x.db-wal>", path: "/d/x.db-wal", begun: 1, done: 1}}},
		{"data with every kind of escape", `7 pwrite64(3</d/a b>, "\0a\17712\n\"\\\377"..., 4096, 56) = 4096`,
			[]call{{pid: 7, name: "pwrite64", args: `3</d/a b>, "\0a\17712\n\"\\\377"..., 4096, 56`, path: "/d/a b", text: "\x00a\x7f12\n\"\\\xff", begun: 1, done: 1}}},
		{"a call that others interrupt is one call",
			"1 fsync(3</d/x> <unfinished ...>\n2 write(1<pipe:[9]>, \"hi\\n\", 3) = 3\n1 <... fsync resumed>)  = 0",
			[]call{{pid: 1, name: "fsync", args: "3</d/x>", path: "/d/x", begun: 1, done: 3},
				{pid: 2, name: "write", args: `1<pipe:[9]>, "hi\n", 3`, path: "pipe:[9]", text: "hi\n", begun: 2, done: 2}}},
		{"a read is known in full when it returns",
			"1 read(3<socket:[4]>,  <unfinished ...>\n1 <... read resumed>\"HTTP\", 9) = 4",
			[]call{{pid: 1, name: "read", args: `3<socket:[4]>, "HTTP", 9`, path: "socket:[4]", text: "HTTP", begun: 1, done: 2}}},
		{"two threads interrupt each other",
			"1 fsync(3</d/x> <unfinished ...>\n2 fsync(4</d/y> <unfinished ...>\n1 <... fsync resumed>) = 0\n2 <... fsync resumed>) = 0",
			[]call{{pid: 1, name: "fsync", args: "3</d/x>", path: "/d/x", begun: 1, done: 3},
				{pid: 2, name: "fsync", args: "4</d/y>", path: "/d/y", begun: 2, done: 4}}},
		{"a failed call", `1 fsync(3</d/x>) = -1 EIO (Input/output error)`,
			[]call{{pid: 1, name: "fsync", args: "3</d/x>", path: "/d/x", begun: 1, done: 1, failed: true}}},
		{"a call that never returns", "1 fsync(3</d/x> <unfinished ...>\n1 +++ killed by SIGKILL +++",
			[]call{{pid: 1, name: "fsync", args: "3</d/x>", path: "/d/x", begun: 1},
				{pid: 1, name: ended, args: "+++ killed by SIGKILL +++", begun: 2, done: 2}}},
		{"a program", `1 execve("/usr/bin/bash", ["/usr/bin/bash", "-c", "--", "echo"], 0x1 /* 36 vars */) = 0`,
			[]call{{pid: 1, name: "execve", args: `"/usr/bin/bash", ["/usr/bin/bash", "-c", "--", "echo"], 0x1 /* 36 vars */`, text: "/usr/bin/bash", begun: 1, done: 1}}},
		{"the end of a process, between signals",
			"5 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL} ---\n5 exit_group(0)                     = ?\n5 +++ exited with 0 +++",
			[]call{{pid: 5, name: "exit_group", args: "0", begun: 2}, {pid: 5, name: ended, args: "+++ exited with 0 +++", begun: 3, done: 3}}},
		{"a thread that ends while strace looks", "5 ???( <unfinished ...>\n5 +++ exited with 0 +++",
			[]call{{pid: 5, name: "???", begun: 1}, {pid: 5, name: ended, args: "+++ exited with 0 +++", begun: 2, done: 2}}},
		{"a file that was removed", `1 fsync(3</d/x>(deleted)) = 0`,
			[]call{{pid: 1, name: "fsync", args: "3</d/x>(deleted)", path: "/d/x", begun: 1, done: 1}}},
		{"a connection by its addresses", `1 write(3<TCP:[1.2.3.4:5->6.7.8.9:80]>, "POST", 4) = 4`,
			[]call{{pid: 1, name: "write", args: `3<TCP:[1.2.3.4:5->6.7.8.9:80]>, "POST", 4`, path: "TCP:[1.2.3.4:5->6.7.8.9:80]", text: "POST", begun: 1, done: 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(strings.NewReader(test.text))
			for i := range got {
				got[i].args = strings.TrimSpace(got[i].args)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got, cmp.AllowUnexported(call{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatIsNoTraceIsRefusedByItsLine(t *testing.T) {
	for _, test := range []struct{ name, text, says string }{
		{"no process", "fsync(3) = 0", "line 1: no process"},
		{"no call", "1 fsync(3) = 0\n1 fsync", "line 2: not a call"},
		{"no beginning", "1 <... fsync resumed>) = 0", "line 1: fsync goes on and never began"},
		{"another call goes on", "1 write(3</d/x> <unfinished ...>\n1 <... fsync resumed>) = 0", "line 2: fsync goes on"},
		{"no result", "1 fsync(3</d/x>", "line 1: fsync has no result"},
		{"a string without an end", `1 write(3</d/x>, "abc) = 3`, "line 1: a string without an end"},
		{"an unknown escape", `1 write(3</d/x>, "\q") = 3`, `line 1: escape \q`},
	} {
		if _, err := parse(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.says)
		}
	}
}

// A write is on the disk once a sync that began behind it has returned, of the same file and without an error.
func TestAWriteIsSafeOnceALaterSyncOfItsFileHasReturned(t *testing.T) {
	const line = 9
	for _, test := range []struct {
		name, text string
		want       []int // per write of x: the line of its sync
	}{
		{"synced", "1 write(3</x>, \"a\", 1) = 1\n1 fsync(3</x>) = 0", []int{2}},
		{"one sync for two writes", "1 write(3</x>, \"a\", 1) = 1\n1 write(3</x>, \"b\", 1) = 1\n1 fdatasync(3</x>) = 0", []int{3, 3}},
		{"another file", "1 write(3</x>, \"a\", 1) = 1\n1 fsync(4</y>) = 0", []int{0}},
		{"a sync that failed", "1 write(3</x>, \"a\", 1) = 1\n1 fsync(3</x>) = -1 EIO (Input/output error)", []int{0}},
		{"written behind the sync", "1 fsync(3</x>) = 0\n1 write(3</x>, \"a\", 1) = 1", []int{0}},
		{"the sync began before the write returned",
			"1 write(3</x>, \"a\", 1 <unfinished ...>\n2 fsync(3</x> <unfinished ...>\n1 <... write resumed>) = 1\n2 <... fsync resumed>) = 0", []int{0}},
		{"the sync returned too late", "1 write(3</x>, \"a\", 1) = 1\n1 fsync(3</x> <unfinished ...>" + strings.Repeat("\n2 getpid() = 2", 7) + "\n1 <... fsync resumed>) = 0", []int{0}},
		{"a write that began too late", strings.Repeat("2 getpid() = 2\n", 9) + "1 write(3</x>, \"a\", 1) = 1", nil},
	} {
		calls, err := parse(strings.NewReader(test.text))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if _, got := trace(calls).written("/x", line); !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

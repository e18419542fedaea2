//go:build unix

package crash

import (
	"io/fs"
	"syscall"
	"testing"
)

func inode(t *testing.T, info fs.FileInfo) uint64 {
	t.Helper()
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("no inode of %s", info.Name())
	}
	return s.Ino
}

//go:build !unix

package local

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
)

const openFlags = 0

func chown(*os.File, fs.FileInfo) error { return nil }

func syncDir(*os.Root, string) error { return nil }

func isolate(*exec.Cmd) {}

// killTree ends a process and its descendants. Windows has no gentle way for a program without a console.
func killTree(leader int) error {
	return exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(leader)).Run()
}

func ending(state *os.ProcessState) (code int, signal string) { return state.ExitCode(), "" }

// readNow reads nothing: pipes cannot be read without waiting here.
func readNow(*os.File, []byte) (int, error) { return 0, os.ErrDeadlineExceeded }

//go:build unix

package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// openFlags keep an open from waiting for the other end of a FIFO.
const openFlags = syscall.O_NONBLOCK

// chown gives f the owner of old where it has another.
func chown(f *os.File, old fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok1 := old.Sys().(*syscall.Stat_t)
	have, ok2 := now.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// syncDir makes a rename in a directory durable.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that cannot sync directories
	}
	return errors.Join(err, d.Close())
}

// isolate puts the command into a session of its own: its own process group and no terminal to wait for.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killTree ends the process group of a command whose leader may be gone already: SIGTERM, killGrace, SIGKILL.
func killTree(leader int) error {
	if err := signalGroup(leader, syscall.SIGTERM); err != nil {
		return err
	}
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	poll := time.NewTicker(killPoll)
	defer poll.Stop()
	for syscall.Kill(-leader, 0) == nil {
		select {
		case <-deadline.C:
			return signalGroup(leader, syscall.SIGKILL)
		case <-poll.C:
		}
	}
	return nil
}

// signalGroup signals a group; one that is gone is success. macOS says EPERM for a group of zombies.
func signalGroup(leader int, s syscall.Signal) error {
	if err := syscall.Kill(-leader, s); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// ending returns exit code and signal name, 128+n after signal n.
func ending(state *os.ProcessState) (code int, signal string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return state.ExitCode(), ""
}

// readNow reads what a pipe holds, without waiting: os.ErrDeadlineExceeded when that is nothing.
func readNow(f *os.File, buf []byte) (n int, err error) {
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var got error
	err = conn.Read(func(fd uintptr) bool {
		for got = syscall.EINTR; errors.Is(got, syscall.EINTR); {
			n, got = syscall.Read(int(fd), buf)
		}
		return true // once: the descriptor does not block
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(got, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case got != nil:
		return 0, got
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

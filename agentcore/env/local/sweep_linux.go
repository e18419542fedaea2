package local

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// killStrays ends every process that carries the mark: SIGTERM first, SIGKILL to those left after killGrace.
func (e *Environment) killStrays(ctx context.Context, mark string) error {
	found, err := signalMarked(mark, syscall.SIGTERM)
	if err != nil || found == 0 {
		return err
	}
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	poll := time.NewTicker(killPoll)
	defer poll.Stop()
	for waiting := true; waiting; {
		select {
		case <-deadline.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		case <-poll.C:
			if found, err = signalMarked(mark, 0); err != nil || found == 0 {
				return err
			}
		}
	}
	for range sweepRounds {
		if found, err = signalMarked(mark, syscall.SIGKILL); err != nil || found == 0 {
			return err
		}
	}
	return nil // those left are dead already, or wait in the kernel with the signal pending
}

// signalMarked signals every process whose environment holds the mark and counts them. A process is held by a handle
// while it is looked at, so that its number cannot pass to another one in between.
func signalMarked(mark string, s syscall.Signal) (found int, err error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		ok, err := signalIfMarked(pid, []byte(mark), s)
		if err != nil {
			return found, err
		}
		if ok {
			found++
		}
	}
	return found, nil
}

func signalIfMarked(pid int, mark []byte, s syscall.Signal) (bool, error) {
	variables := filepath.Join("/proc", strconv.Itoa(pid), "environ")
	if text, err := os.ReadFile(variables); err != nil || !bytes.Contains(text, mark) {
		return false, nil // gone, or another user's: not ours
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(variables)
	if err == nil && bytes.Contains(text, mark) {
		err = p.Signal(s)
	} else {
		text, err = nil, nil
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return text != nil, errors.Join(err, p.Release())
}

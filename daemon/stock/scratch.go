package stock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/daemon"
)

// demoPace is the pause between the demo model's words when a person watches.
const demoPace = 12 * time.Millisecond

// demoState is what the scratch directory remembers between commands.
type demoState struct {
	Number int `json:"number"` // of the run that is to be started or carried on
}

// Prepare copies the files of the current directory into a workspace below dir, unless an interrupted run has one, and
// names the run: the same one until it has finished.
func (d demo) Prepare(dir string) (daemon.Prepared, error) {
	here, err := os.Getwd()
	if err != nil {
		return daemon.Prepared{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return daemon.Prepared{}, err
	}
	if dir == here {
		return daemon.Prepared{}, fault.New(fault.InputValidation, "--demo-dir: want a directory of its own, not the one that is looked at")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return daemon.Prepared{}, fault.New(fault.Storage, "demo directory: %w", err)
	}
	stateFile := filepath.Join(dir, "state.json")
	state, err := readState(stateFile)
	if err != nil {
		return daemon.Prepared{}, err
	}
	place := filepath.Join(dir, fmt.Sprintf("workspace-%d", state.Number))
	if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) {
		if err := copyTree(here, place, dir); err != nil {
			return daemon.Prepared{}, fault.New(fault.Storage, "copy the files into %s: %w", place, err)
		}
	}
	input, err := json.Marshal(DemoRequest{Folder: place, Report: filepath.Join(dir, "report.md")})
	if err != nil {
		return daemon.Prepared{}, err
	}
	return daemon.Prepared{
		Input: input, RequestID: fmt.Sprintf("demo-%d", state.Number), DataDir: filepath.Join(dir, "data"), Pace: demoPace,
		Finish: func() error {
			raw, err := json.Marshal(demoState{state.Number + 1})
			if err != nil {
				return err
			}
			return errors.Join(replaceFile(stateFile, string(raw)), os.RemoveAll(place))
		},
	}, nil
}

func readState(file string) (demoState, error) {
	state := demoState{Number: 1}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		return state, fault.New(fault.Storage, "demo state %s: %w", file, err)
	}
	return state, nil
}

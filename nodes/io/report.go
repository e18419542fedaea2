package ionode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/workflowd/workflowd/workflow"
)

// Reports are for the user who runs the workflow; the process's umask narrows them.
const (
	filePerm fs.FileMode = 0o644
	dirPerm  fs.FileMode = 0o755
)

// Written says what Report wrote.
type Written struct {
	Path   string `json:"path"` // absolute
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// Report returns a node that renders its input and writes the bytes to the file that place names; directories are made. A
// reader sees the old file or the new one, never a part, also after a power loss. Entering the node again is harmless: the
// same bytes are written to the same place, and a file that holds them already is not touched.
func Report[T any](name string, place func(workflow.NodeContext, T) (string, error), render func(T) ([]byte, error)) workflow.Node[T, Written] {
	return workflow.Func(name, func(ctx workflow.NodeContext, in T) (Written, error) {
		path, err := place(ctx, in)
		if err != nil {
			return Written{}, fmt.Errorf("place of the report: %w", err)
		}
		if path, err = filepath.Abs(path); err != nil {
			return Written{}, fmt.Errorf("place of the report: %w", err)
		}
		text, err := render(in)
		if err != nil {
			return Written{}, fmt.Errorf("render report %q: %w", path, err)
		}
		if err := write(path, ctx.Run().RunID, text); err != nil {
			return Written{}, fmt.Errorf("write report %q: %w", path, err)
		}
		sum := sha256.Sum256(text)
		return Written{Path: path, Bytes: len(text), SHA256: hex.EncodeToString(sum[:])}, nil
	}, typed("report"))
}

// write replaces the file at path as a whole. What a crash leaves behind has a name of the run's own, which its next
// attempt takes over.
func write(path, run string, text []byte) (err error) {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "."+filepath.Base(path)+"."+run), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the new name last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/agentcore/env"
)

// tempPrefix begins the name of a half-written file beside its target. One that a crash left behind may be deleted.
const tempPrefix = ".workflowd-write-"

// Write puts data beside the target, syncs it and renames it over. Owner and permission bits of an existing file are
// kept as far as the system lets us; extended attributes are not, and another hard link keeps the old content.
func (f *fileSystem) Write(ctx context.Context, path string, data []byte, opts env.WriteOptions) (env.Written, error) {
	const op = "write"
	place, err := f.locate(ctx, op, path)
	if err != nil {
		return env.Written{}, err
	}
	old, err := place.Root.Lstat(place.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return env.Written{}, failure(op, path, err)
	case old.IsDir():
		return env.Written{}, fail(op, path, env.IsDirectory, "it is a directory")
	case !old.Mode().IsRegular():
		return env.Written{}, fail(op, path, env.NotRegular, "it is not a regular file (%s)", describe(old.Mode()))
	default:
		if err := writable(place); err != nil {
			return env.Written{}, failure(op, path, err)
		}
	}
	parent := filepath.Dir(place.Name)
	if opts.Parents {
		if err := place.Root.MkdirAll(parent, env.DefaultDirMode); err != nil {
			return env.Written{}, failure(op, path, err)
		}
	}
	temp := filepath.Join(parent, tempPrefix+rand.Text()+".tmp")
	if err := f.replace(ctx, place, temp, old, data, opts.Mode); err != nil {
		return env.Written{}, failure(op, path, err)
	}
	return env.Written{Path: place.Path, Created: old == nil, Bytes: len(data)}, nil
}

// writable refuses a file that its permissions protect: renaming over it would not ask them.
func writable(place env.Place) error {
	f, err := place.Root.OpenFile(place.Name, os.O_WRONLY|openFlags, 0)
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // such as a program that runs just now: it can be replaced
}

func (f *fileSystem) replace(ctx context.Context, place env.Place, temp string, old fs.FileInfo, data []byte, mode fs.FileMode) (err error) {
	if mode == 0 {
		mode = env.DefaultFileMode
	}
	out, err := place.Root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if gone := place.Root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	_, err = out.Write(data)
	if err == nil && old != nil {
		err = adopt(out, old)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := place.Root.Rename(temp, place.Name); err != nil {
		return err
	}
	return syncDir(place.Root, filepath.Dir(place.Name))
}

// adopt gives out the owner and mode of the file it replaces. An owner that only root could set stays ours.
func adopt(out *os.File, old fs.FileInfo) error {
	if err := chown(out, old); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return out.Chmod(old.Mode() & kept)
}

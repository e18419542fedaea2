package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/agentcore/env"
)

// fileSystem is the files inside one scope.
type fileSystem struct{ scope env.Locator }

var _ env.FileSystem = (*fileSystem)(nil)

// locate resolves path, or says in the seam's words why it cannot.
func (f *fileSystem) locate(ctx context.Context, op, path string) (env.Place, error) {
	if err := ctx.Err(); err != nil {
		return env.Place{}, &env.Error{Op: op, Path: path, Code: env.Aborted, Cause: context.Cause(ctx)}
	}
	place, err := f.scope.Locate(path)
	if err != nil {
		return env.Place{}, failure(op, path, err)
	}
	return place, nil
}

// locateEntry is locate for path itself: a link in its last part is not followed.
func (f *fileSystem) locateEntry(ctx context.Context, op, path string) (env.Place, error) {
	clean := filepath.Clean(path)
	switch base := filepath.Base(clean); {
	case path == "", clean == "~", base == ".", base == "..", base == string(filepath.Separator):
		return f.locate(ctx, op, path)
	default:
		place, err := f.locate(ctx, op, filepath.Dir(clean))
		if err != nil {
			if e, ok := errors.AsType[*env.Error](err); ok {
				e.Path = path
			}
			return place, err
		}
		place.Name, place.Path = filepath.Join(place.Name, base), filepath.Join(place.Path, base)
		return place, nil
	}
}

// failure turns an error of the system into one of the seam.
func failure(op, path string, err error) error {
	if e, ok := errors.AsType[*env.Error](err); ok {
		return e
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok { // op and path are said once
		err = p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		err = l.Err
	}
	code := env.Classify(err)
	if code == env.Unknown && err.Error() == "path escapes from parent" {
		code = env.PermissionDenied // os.Root's own error: a link was swapped in after the path was located
	}
	return &env.Error{Op: op, Path: path, Code: code, Cause: err}
}

func fail(op, path string, code env.Code, format string, args ...any) error {
	return &env.Error{Op: op, Path: path, Code: code, Cause: fmt.Errorf(format, args...)}
}

func infoOf(fi fs.FileInfo) env.Info {
	return env.Info{Name: fi.Name(), Kind: env.KindOf(fi.Mode()), Size: fi.Size(), Mode: fi.Mode(), ModTime: fi.ModTime()}
}

func (f *fileSystem) Canonical(ctx context.Context, path string) (string, error) {
	place, err := f.locate(ctx, "resolve", path)
	return place.Path, err
}

func (f *fileSystem) Stat(ctx context.Context, path string) (env.Info, error) {
	place, err := f.locate(ctx, "stat", path)
	if err != nil {
		return env.Info{}, err
	}
	return lstat("stat", path, place)
}

func (f *fileSystem) Lstat(ctx context.Context, path string) (env.Info, error) {
	place, err := f.locateEntry(ctx, "stat", path)
	if err != nil {
		return env.Info{}, err
	}
	return lstat("stat", path, place)
}

func lstat(op, path string, place env.Place) (env.Info, error) {
	fi, err := place.Root.Lstat(place.Name)
	if err != nil {
		return env.Info{}, failure(op, path, err)
	}
	info := infoOf(fi)
	info.Name = filepath.Base(place.Path)
	return info, nil
}

func (f *fileSystem) Open(ctx context.Context, path string) (env.File, error) {
	place, err := f.locate(ctx, "open", path)
	if err != nil {
		return nil, err
	}
	return openFile("open", path, place.Root, place.Name)
}

func (f *fileSystem) OpenDir(ctx context.Context, path string) (env.Dir, error) {
	place, err := f.locate(ctx, "open", path)
	if err != nil {
		return nil, err
	}
	return openDir("open", path, place.Root, place.Name)
}

func (f *fileSystem) MkdirAll(ctx context.Context, path string) error {
	place, err := f.locate(ctx, "create directory", path)
	if err != nil {
		return err
	}
	if err := place.Root.MkdirAll(place.Name, env.DefaultDirMode); err != nil {
		return failure("create directory", path, err)
	}
	return nil
}

func (f *fileSystem) Rename(ctx context.Context, from, to string) error {
	const op = "rename"
	src, err := f.locateEntry(ctx, op, from)
	if err != nil {
		return err
	}
	dst, err := f.locateEntry(ctx, op, to)
	if err != nil {
		return err
	}
	if src.Root != dst.Root {
		return fail(op, to, env.Invalid, "%q is in another root directory; write the file there and remove it here", from)
	}
	if err := src.Root.Rename(src.Name, dst.Name); err != nil {
		return failure(op, from, err)
	}
	return nil
}

func (f *fileSystem) Remove(ctx context.Context, path string, opts env.RemoveOptions) error {
	const op = "remove"
	place, err := f.locateEntry(ctx, op, path)
	if err != nil {
		return err
	}
	if place.Name == "." {
		return fail(op, path, env.Invalid, "a root directory is not removed")
	}
	fi, err := place.Root.Lstat(place.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && opts.Missing:
		return nil
	case err != nil:
		return failure(op, path, err)
	case fi.IsDir() && opts.Recursive:
		err = place.Root.RemoveAll(place.Name)
	default:
		err = place.Root.Remove(place.Name)
	}
	switch {
	case err == nil || opts.Missing && errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrExist): // what Go calls a directory that is not empty
		return fail(op, path, env.Invalid, "the directory is not empty")
	}
	return failure(op, path, err)
}

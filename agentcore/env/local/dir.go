package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
)

// file is an open regular file.
type file struct {
	*os.File
	info env.Info
}

func (f *file) Info() env.Info { return f.info }

// openFile opens a regular file. It looks before it opens, because opening a FIFO or a device can block or have effects,
// and looks again afterwards, because a link may have taken the name in between.
func openFile(op, path string, root *os.Root, name string) (env.File, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, failure(op, path, err)
	}
	switch kind := env.KindOf(before.Mode()); kind {
	case env.RegularFile:
	case env.Directory:
		return nil, fail(op, path, env.IsDirectory, "it is a directory")
	case env.Link, env.Other:
		return nil, fail(op, path, env.NotRegular, "it is not a regular file (%s)", describe(before.Mode()))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, failure(op, path, err)
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = fail(op, path, env.NotRegular, "it was replaced while it was opened")
	}
	if err != nil {
		return nil, failure(op, path, errors.Join(err, f.Close()))
	}
	info := infoOf(after)
	info.Name = filepath.Base(name)
	return &file{f, info}, nil
}

func describe(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// dir is an open directory.
type dir struct{ root *os.Root }

func openDir(op, path string, root *os.Root, name string) (env.Dir, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, failure(op, path, err)
	}
	if !before.IsDir() {
		return nil, fail(op, path, env.NotDirectory, "it is not a directory")
	}
	d, err := root.OpenRoot(name)
	if err != nil {
		return nil, failure(op, path, err)
	}
	after, err := d.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = fail(op, path, env.NotDirectory, "it was replaced while it was opened")
	}
	if err != nil {
		return nil, failure(op, path, errors.Join(err, d.Close()))
	}
	return &dir{d}, nil
}

func (d *dir) Entries(ctx context.Context) (infos []env.Info, err error) {
	const op = "list"
	if err := ctx.Err(); err != nil {
		return nil, &env.Error{Op: op, Path: d.root.Name(), Code: env.Aborted, Cause: context.Cause(ctx)}
	}
	f, err := d.root.Open(".")
	if err != nil {
		return nil, failure(op, d.root.Name(), err)
	}
	defer func() {
		if cerr := f.Close(); cerr != nil && err == nil {
			err = failure(op, d.root.Name(), cerr)
		}
	}()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, failure(op, d.root.Name(), err)
	}
	infos = make([]env.Info, 0, len(entries))
	for _, entry := range entries {
		fi, err := entry.Info() // lstat
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, failure(op, filepath.Join(d.root.Name(), entry.Name()), err)
		}
		infos = append(infos, infoOf(fi))
	}
	slices.SortFunc(infos, func(a, b env.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// child refuses names that are not one entry of this directory.
func (d *dir) child(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return &env.Error{Op: op, Path: name, Code: env.Aborted, Cause: context.Cause(ctx)}
	}
	if name == "." || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return fail(op, name, env.Invalid, "it is not the name of an entry")
	}
	return nil
}

func (d *dir) File(ctx context.Context, name string) (env.File, error) {
	if err := d.child(ctx, "open", name); err != nil {
		return nil, err
	}
	return openFile("open", filepath.Join(d.root.Name(), name), d.root, name)
}

func (d *dir) Dir(ctx context.Context, name string) (env.Dir, error) {
	if err := d.child(ctx, "open", name); err != nil {
		return nil, err
	}
	return openDir("open", filepath.Join(d.root.Name(), name), d.root, name)
}

func (d *dir) Close() error { return d.root.Close() }

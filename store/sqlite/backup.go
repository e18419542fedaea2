package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/internal/disk"
)

// Backup copies the database file at source, what is in its write-ahead log included, to destination, which must not
// exist. It owns both files while it works, checks that source is a database of the schema (of this or an older version;
// it is not migrated) and that the copy is sound, and syncs it. The source stays as it is; the destination appears whole
// or not at all, also when the process dies or the power fails. ctx stops the copying.
//
// Errors: fs.ErrNotExist (no source), fs.ErrExist (the destination, or a log of that name), *ErrLocked (either has an
// owner), ErrForeign, ErrNewer, ErrNotDatabase, *ErrUnwritable, ErrDiskFull, ErrDisk. Source: P-319 to P-325.
func Backup(ctx context.Context, schema *Schema, source, destination string) error {
	err := backup(ctx, schema, source, destination)
	if err != nil {
		return fmt.Errorf("copy database %q to %q: %w", source, destination, err)
	}
	return nil
}

func backup(ctx context.Context, schema *Schema, source, destination string) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	from, err := ownExisting(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Unlock()) }()
	to, err := ownMissing(destination)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Unlock()) }()

	unfinished := to.path + unfinishedSuffix // left over from a copy that did not end, if it is there
	if err := disk.Delete(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return classify(unfinished, err)
	}
	err = copyPages(ctx, schema, from.path, unfinished)
	if err == nil {
		err = checkSound(unfinished)
	}
	if err == nil {
		err = classify(unfinished, disk.SyncPath(unfinished))
	}
	if err == nil {
		err = giveName(unfinished, to)
	}
	if remove := os.Remove(unfinished); err != nil && !errors.Is(remove, fs.ErrNotExist) {
		err = errors.Join(err, remove)
	}
	return err
}

// ownExisting takes the ownership of a database file that is there.
func ownExisting(path string) (*Lock, error) {
	full, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(full)
	if err != nil {
		return nil, classify(full, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a file", ErrNotDatabase, full)
	}
	return lockResolved(full)
}

// ownMissing takes the ownership of a name that no database and no part of one has.
func ownMissing(path string) (*Lock, error) {
	full, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	if _, err := Resolve(full + unfinishedSuffix); err != nil { // it is copied under that name, opened by SQLite too
		return nil, err
	}
	if err := missing(full); err != nil { // before anything is made
		return nil, err
	}
	made, err := makeParents(full)
	if err != nil {
		return nil, err
	}
	l, err := lockResolved(full)
	if err != nil {
		return nil, err
	}
	l.made = made
	if err := missing(full); err != nil {
		return nil, errors.Join(err, l.Unlock())
	}
	return l, nil
}

// missing refuses a path that exists, or that has a log which would be replayed into a new file.
func missing(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-journal"} {
		switch _, err := os.Lstat(name); {
		case err == nil:
			return fmt.Errorf("%s: %w", name, fs.ErrExist)
		case !errors.Is(err, fs.ErrNotExist):
			return classify(name, err)
		}
	}
	return nil
}

// copyPages writes the pages of source, as one snapshot, into a new file. Nothing is synced.
func copyPages(ctx context.Context, schema *Schema, source, target string) (err error) {
	query := fmt.Sprintf("mode=ro&_query_only=1&_mutex=no&_busy_timeout=%d", BusyTimeout.Milliseconds())
	if log, err := os.Stat(source + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && log.Size() == 0 {
		query += "&immutable=1" // we own it, so it stays as it is; no log and no index appear beside it
	}
	from, err := connect(source, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	applied, err := schema.applied(from)
	if err != nil {
		return err
	}
	if applied == 0 {
		return fmt.Errorf("%w: it has no schema_version", ErrForeign)
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return classify(target, err)
	}
	if err := errors.Join(disk.Fill(f, nil), f.Close()); err != nil {
		return classify(target, err)
	}
	to, err := connect(target, "_mutex=no")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	// The new file needs no journal: until it has its name it does not count.
	if err := to.script("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"); err != nil {
		return err
	}
	return step(ctx, from, to)
}

// step copies backupPages at a time. The source has one owner, this process, so a step that copies nothing is an error.
func step(ctx context.Context, from, to *conn) (err error) {
	b, err := to.raw.Backup("main", from.raw, "main")
	if err != nil {
		return classify(from.path, err)
	}
	defer func() { err = errors.Join(err, classify(to.path, b.Finish())) }()
	for left := math.MaxInt; ; left = b.Remaining() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		done, err := b.Step(backupPages)
		if done || err != nil {
			return classify(to.path, err)
		}
		if b.Remaining() >= left {
			return &ErrLocked{Path: from.path}
		}
	}
}

// checkSound reads the whole copy. immutable: nobody else has it, and no log or index must appear beside it.
func checkSound(path string) (err error) {
	c, err := connect(path, "mode=ro&immutable=1&_query_only=1&_mutex=no")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	said := ""
	if err := c.query("PRAGMA integrity_check(1)", nil, func(r *Row) error { said = r.Text(0); return nil }); err != nil {
		return err
	}
	if said != "ok" {
		return fmt.Errorf("%w: the copy is not sound: %s", ErrNotDatabase, said)
	}
	return nil
}

// giveName gives the finished file its name, which must still be free, and makes the name last.
func giveName(unfinished string, to *Lock) error {
	err := disk.Name(unfinished, to.path)
	if err != nil && !errors.Is(err, fs.ErrExist) { // without second names (FAT, some network shares)
		if err = missing(to.path); err == nil {
			err = disk.Move(unfinished, to.path)
		}
	} else if err == nil {
		err = disk.Delete(unfinished)
	}
	if err != nil {
		return classify(to.path, err)
	}
	for _, dir := range append(to.made, filepath.Dir(to.path)) {
		if err := disk.SyncNames(dir); err != nil {
			return classify(dir, err)
		}
	}
	return nil
}

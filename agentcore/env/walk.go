package env

import (
	"context"
	"fmt"
	"iter"
)

// Entry is one step of a Walk.
type Entry struct {
	Path string // relative to the start, parts joined with "/"
	Info Info
	Dir  Dir // the open parent; valid until the next step
}

// Enter is called once for each directory of a Walk, before its entries are yielded, with its relative path ("" at the
// start). It returns the entries to keep, in order; those left out are neither yielded nor entered.
type Enter func(path string, dir Dir, entries []Info) ([]Info, error)

// Walk yields everything below start, a directory before its entries, siblings in order of name. Links are yielded and not
// followed. A directory that cannot be read yields its Entry with the error and the walk goes on; an error of ctx is last.
// enter may be nil. start stays open and belongs to the caller. At most MaxWalkDepth directories are open at once.
func Walk(ctx context.Context, start Dir, enter Enter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := walker{ctx: ctx, enter: enter, yield: yield}
		w.dir(start, "", Entry{Info: Info{Kind: Directory}}, 0)
	}
}

type walker struct {
	ctx   context.Context
	enter Enter
	yield func(Entry, error) bool
}

// dir walks one open directory; self is the entry that led to it. It reports whether the walk goes on.
func (w *walker) dir(d Dir, path string, self Entry, depth int) bool {
	if err := w.ctx.Err(); err != nil {
		w.yield(self, &Error{Op: "walk", Path: path, Code: Aborted, Cause: err})
		return false
	}
	entries, err := d.Entries(w.ctx)
	if err == nil && w.enter != nil {
		entries, err = w.enter(path, d, entries)
	}
	if err != nil {
		return w.yield(self, err) && w.ctx.Err() == nil
	}
	for _, info := range entries {
		e := Entry{Path: join(path, info.Name), Info: info, Dir: d}
		if !w.yield(e, nil) {
			return false
		}
		if info.Kind == Directory && !w.sub(d, e, depth+1) {
			return false
		}
	}
	return true
}

func (w *walker) sub(d Dir, e Entry, depth int) (goOn bool) {
	if depth > MaxWalkDepth {
		return w.yield(e, &Error{Op: "walk", Path: e.Path, Code: Invalid, Cause: fmt.Errorf("more than %d directories deep", MaxWalkDepth)})
	}
	child, err := d.Dir(w.ctx, e.Info.Name)
	if err != nil {
		return w.yield(e, err) && w.ctx.Err() == nil
	}
	defer func() {
		if err := child.Close(); err != nil && goOn {
			goOn = w.yield(e, err)
		}
	}()
	return w.dir(child, e.Path, e, depth)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

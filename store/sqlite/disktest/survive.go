package disktest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Modes of what Survive writes.
const (
	dirPerm  = 0o700
	filePerm = 0o600
)

// sector is what a disk writes whole or not at all. Bytes.
const sector = 512

// inode is a file's content: what is synced, and the changes since.
type inode struct {
	dir     bool
	synced  []byte
	pending []Event
}

// Luck decides what survives of that which was not synced.
type Luck int

// The lucks.
const (
	Nothing    Luck = iota // only what was synced
	Everything             // all of it: what a killed process leaves
	Beginning              // of each file the changes up to a random one
	Any                    // any of the changes of a file in any combination, torn at sectors
	Lucks                  // how many there are
)

// content returns what is left of n, in memory of its own.
func (l Luck) content(rng *rand.Rand, n *inode) []byte {
	left := bytes.Clone(n.synced)
	pending := n.pending
	if l == Nothing {
		pending = nil
	}
	if l == Beginning {
		pending = pending[:rng.IntN(len(pending)+1)]
	}
	for _, e := range pending {
		if l != Any {
			left = apply(left, e)
			continue
		}
		switch { // a third each: lost, whole, torn
		case rng.IntN(3) == 0:
		case e.Op == Truncate || rng.IntN(2) == 0:
			left = apply(left, e)
		default:
			for at := 0; at < len(e.Data); at += sector {
				if rng.IntN(2) == 0 {
					left = apply(left, Event{Op: Write, At: e.At + int64(at), Data: e.Data[at:min(at+sector, len(e.Data))]})
				}
			}
		}
	}
	return left
}

// apply changes content by e; it may reuse its memory.
func apply(content []byte, e Event) []byte {
	end := int(e.At) + len(e.Data)
	if e.Op == Truncate && end <= len(content) {
		return content[:end]
	}
	if end > len(content) {
		content = append(content, make([]byte, end-len(content))...)
	}
	copy(content[e.At:], e.Data)
	return content
}

// image is the state of the directory at a moment: the names as programs see them, those on the disk, and the changes of
// names that make the one from the other.
type image struct {
	seen, kept map[string]*inode
	changes    []change
}

// change is one name that came (to n) or went (nil).
type change struct {
	name string
	n    *inode
}

func (d *Disk) replay(events []Event) (*image, error) {
	m := &image{seen: map[string]*inode{}, kept: map[string]*inode{}}
	for name, n := range d.names {
		m.seen[name] = &inode{dir: n.dir, synced: n.synced}
		m.kept[name] = m.seen[name]
	}
	for i, e := range events {
		if err := m.step(e); err != nil {
			return m, fmt.Errorf("event %d: %w", i, err)
		}
	}
	return m, nil
}

func (m *image) step(e Event) error {
	n := m.seen[e.Path]
	switch e.Op {
	case Create:
		m.set(e.Path, &inode{})
	case Write:
		if n == nil {
			n = &inode{}
			m.set(e.Path, n)
		}
		n.pending = append(n.pending, e)
	case Truncate, Sync, Rename, Link:
		if n == nil {
			return fmt.Errorf("%s of %s, which is not there", e.Op, e.Path)
		}
		switch e.Op {
		case Truncate:
			n.pending = append(n.pending, e)
		case Sync:
			n.synced, n.pending = Everything.content(nil, n), nil
		case Rename:
			m.set(e.To, n)
			m.set(e.Path, nil)
		case Link:
			m.set(e.To, n)
		}
	case SyncDir:
		left := m.changes[:0]
		for _, c := range m.changes {
			if path.Dir(c.name) == e.Path {
				put(m.kept, c)
			} else {
				left = append(left, c)
			}
		}
		m.changes = left
	case Remove:
		if n != nil {
			m.set(e.Path, nil)
		}
	}
	return nil
}

// set gives n a name, or takes it away; directories on the way are new ones.
func (m *image) set(name string, n *inode) {
	if dir := path.Dir(name); dir != "." && m.seen[dir] == nil {
		m.set(dir, &inode{dir: true})
	}
	c := change{name, n}
	put(m.seen, c)
	m.changes = append(m.changes, c)
}

func put(names map[string]*inode, c change) {
	if c.n == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.n
	}
}

// Survive writes into the directory to what a power loss after the first n events of the journal leaves.
func (d *Disk) Survive(n int, luck Luck, rng *rand.Rand, to string) error {
	m, err := d.replay(d.Journal()[:n])
	if err != nil {
		return err
	}
	changes := m.changes
	switch luck {
	case Nothing:
		changes = nil
	case Beginning, Any:
		changes = changes[:rng.IntN(len(changes)+1)]
	}
	for _, c := range changes {
		put(m.kept, c)
	}
	return write(m.kept, luck, rng, to)
}

func write(left map[string]*inode, luck Luck, rng *rand.Rand, to string) error {
	first := map[*inode]string{} // a file with two names is one file
	for _, name := range slices.Sorted(maps.Keys(left)) {
		n := left[name]
		if !reachable(left, name) {
			continue
		}
		at := filepath.Join(to, name)
		if n.dir {
			if err := os.MkdirAll(at, dirPerm); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), dirPerm); err != nil {
			return err
		}
		if first[n] != "" {
			if err := os.Link(first[n], at); err != nil {
				return err
			}
			continue
		}
		first[n] = at
		if err := os.WriteFile(at, luck.content(rng, n), filePerm); err != nil {
			return err
		}
	}
	return nil
}

// reachable reports whether every directory above name is left.
func reachable(left map[string]*inode, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if left[dir] == nil {
			return false
		}
	}
	return true
}

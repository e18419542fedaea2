package disktest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/workflowd/workflowd/internal/disk"
)

// Op is what an Event did.
type Op int

// The operations. Note is a test's own mark in the journal.
const (
	Create Op = iota
	Write
	Truncate // At is the new size
	Sync
	SyncDir // Path is the directory
	Rename  // Path became To
	Link
	Remove
	Note
)

var opNames = [...]string{"create", "write", "truncate", "sync", "syncdir", "rename", "link", "remove", "note"}

// String is the word for a log.
func (o Op) String() string { return opNames[o] }

// Event is one entry of the journal. Paths are relative to the watched directory.
type Event struct {
	Op       Op
	Path, To string
	At       int64
	Data     []byte
	Note     any
}

// Fault is how an event is refused.
type Fault int

// The faults. A full disk shows at writes and new files; elsewhere it is an I/O error.
const (
	none Fault = iota
	IOError
	Full
)

// The error codes of SQLite's interface. Source: sqlite.org/rescode.html.
const (
	codeFull     = 13
	codeCantOpen = 14
	codeWrite    = 778
	codeSync     = 1034
	codeTruncate = 1546
	codeDelete   = 2570
)

func (f Fault) code(op Op) int {
	switch {
	case f == none || op == SyncDir: // SQLite ignores directories that cannot be synced
		return 0
	case op == Create:
		return codeCantOpen
	case f == Full && op == Write:
		return codeFull
	case op == Write:
		return codeWrite
	case op == Truncate:
		return codeTruncate
	case op == Remove:
		return codeDelete
	}
	return codeSync
}

// Disk is the journal of one directory since Watch. It is safe for concurrent use.
type Disk struct {
	dir   string
	names map[string]*inode // at the start

	mu      sync.Mutex
	journal []Event
	trouble Trouble
	refused bool
	hold    *hold
}

// Trouble is what fails: one event, or with Lasting every one from then on.
type Trouble struct {
	Fault   Fault
	After   int    // so many events are well before; negative = nothing fails
	Lasting bool   // until the next Fail or Refuse
	Path    string // only events at names that begin with it count: a file, its log and what else is beside it; "" = all
}

// meets reports how e fails, and counts it. Paths are relative.
func (tr *Trouble) meets(e Event) Fault {
	if tr.Fault == none || tr.After < 0 || !strings.HasPrefix(e.Path, tr.Path) {
		return none
	}
	if tr.After > 0 {
		tr.After--
		return none
	}
	fault := tr.Fault
	if !tr.Lasting {
		tr.Fault = none
	}
	return fault
}

// hold makes one event wait.
type hold struct {
	after            int
	reached, release chan struct{}
}

var (
	currentMu sync.Mutex
	current   *Disk
)

// Watch starts the journal of dir, whose present content counts as synced. It ends with the test; only one Disk watches
// at a time. Connections that were open before the first Watch of the process are not seen.
func Watch(t testing.TB, dir string) *Disk {
	t.Helper()
	if err := register(); err != nil {
		t.Fatal(err)
	}
	d := &Disk{dir: dir, names: map[string]*inode{}}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		n := &inode{dir: entry.IsDir()}
		if !n.dir {
			if n.synced, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		d.names[d.relative(name)] = n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	currentMu.Lock()
	defer currentMu.Unlock()
	if current != nil {
		t.Fatal("another Disk is watching")
	}
	current = d
	disk.Watch(ours)
	t.Cleanup(func() {
		currentMu.Lock()
		defer currentMu.Unlock()
		current = nil
		disk.Watch(nil)
	})
	return d
}

func (d *Disk) relative(name string) string {
	rel, err := filepath.Rel(d.dir, name)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return filepath.ToSlash(rel)
}

var fromDisk = map[disk.Op]Op{
	disk.Write: Write, disk.Sync: Sync, disk.SyncDir: SyncDir, disk.Rename: Rename, disk.Link: Link, disk.Remove: Remove,
}

func ours(e disk.Event) error {
	fault, watched := happen(Event{Op: fromDisk[e.Op], Path: e.Path, To: e.To, Data: bytes.Clone(e.Data)})
	if !watched && (e.Op == disk.Sync || e.Op == disk.SyncDir) {
		return disk.ErrLeftOut
	}
	switch fault {
	case IOError:
		return &os.PathError{Op: fromDisk[e.Op].String(), Path: e.Path, Err: syscall.EIO}
	case Full:
		return &os.PathError{Op: fromDisk[e.Op].String(), Path: e.Path, Err: syscall.ENOSPC}
	}
	return nil
}

// happen records an event of this process, or refuses it; an event elsewhere than below the watched directory is neither.
func happen(e Event) (f Fault, watched bool) {
	currentMu.Lock()
	d := current
	currentMu.Unlock()
	if d == nil || e.Path == "" {
		return none, false
	}
	if e.Path = d.relative(e.Path); e.Path == "" || strings.HasSuffix(e.Path, "-shm") {
		return none, false
	}
	if e.To != "" {
		e.To = d.relative(e.To)
	}
	if h := d.holds(); h != nil {
		close(h.reached)
		<-h.release
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.trouble.meets(e); f != none {
		d.refused = true
		return f, true
	}
	d.journal = append(d.journal, e)
	return none, true
}

// holds returns the hold whose event is the present one.
func (d *Disk) holds() *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hold
	if h == nil {
		return nil
	}
	if h.after > 0 {
		h.after--
		return nil
	}
	d.hold = nil
	return h
}

// Refuse makes the event after the next n fail, once. A negative n takes that back; Refused then says no.
func (d *Disk) Refuse(n int, f Fault) { d.Fail(Trouble{Fault: f, After: n}) }

// Fail makes events fail from now on. There is one trouble at a time.
func (d *Disk) Fail(tr Trouble) {
	if tr.Path != "" {
		tr.Path = d.relative(tr.Path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble, d.refused = tr, false
}

// Hold makes the event after the next n wait: reached is closed when it is about to happen, and it happens after release,
// which is called once whether it was reached or not.
func (d *Disk) Hold(n int) (reached <-chan struct{}, release func()) {
	h := &hold{after: n, reached: make(chan struct{}), release: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = h
	return h.reached, func() { close(h.release) }
}

// Refused reports whether an event has failed since the last Refuse or Fail.
func (d *Disk) Refused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// Note puts a mark into the journal.
func (d *Disk) Note(what any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.journal = append(d.journal, Event{Op: Note, Note: what})
}

// Journal returns what happened so far.
func (d *Disk) Journal() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal[:len(d.journal):len(d.journal)]
}

// Syncs counts the syncs of files and directories so far.
func (d *Disk) Syncs() int {
	n := 0
	for _, e := range d.Journal() {
		if e.Op == Sync || e.Op == SyncDir {
			n++
		}
	}
	return n
}

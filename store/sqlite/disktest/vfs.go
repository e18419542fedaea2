package disktest

// #cgo linux LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
// #cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
// #include "vfs.h"
import "C"

import (
	"fmt"
	"path/filepath"
	"sync"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // the SQLite library that the layer is put over
)

var register = sync.OnceValue(func() error {
	if rc := C.disktest_register(); rc != 0 {
		return fmt.Errorf("disktest: register the layer: SQLite error %d", int(rc))
	}
	return nil
})

// Reads counts how often SQLite has read from files that were opened behind the first Watch, each time a page or less.
// What its cache answers is no read.
func Reads() int { return int(C.disktest_reads()) }

// ops translates what the C side asks about.
var ops = map[C.int]Op{
	C.DISKTEST_CREATE: Create, C.DISKTEST_WRITE: Write, C.DISKTEST_TRUNCATE: Truncate,
	C.DISKTEST_SYNC: Sync, C.DISKTEST_SYNCDIR: SyncDir, C.DISKTEST_DELETE: Remove,
}

//export disktestEvent
func disktestEvent(op C.int, name *C.char, data unsafe.Pointer, n C.int, off C.longlong) C.int {
	e := Event{Op: ops[op], Path: C.GoString(name), At: int64(off)}
	if op == C.DISKTEST_SYNCDIR {
		e.Path = filepath.Dir(e.Path) // SQLite names a file in it
	}
	if n > 0 {
		e.Data = C.GoBytes(data, n)
	}
	fault, watched := happen(e)
	if !watched && e.Op == Sync {
		return C.DISKTEST_UNWATCHED
	}
	return C.int(fault.code(e.Op))
}

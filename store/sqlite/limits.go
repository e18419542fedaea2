package sqlite

import "time"

// The numbers of this package.
const (
	// BusyTimeout bounds the wait for another process's short lock on the file (a checkpoint, a reader that recovers).
	BusyTimeout = 5 * time.Second
	// DefaultPageSize is used where Options.PageSize is 0. Bytes.
	DefaultPageSize = 4096
	// GroupMost is how many submissions one shared commit takes: it bounds how long the first of them waits for the last.
	GroupMost = 256
	// checkpointPages is how long the write-ahead log grows before a commit moves it into the file. Pages. Source: SQLite's
	// own default.
	checkpointPages = 1000
	// newbornCommits is after how many fast commits a new file is synced so that its log can be moved into it. Until then
	// the log only grows: it bounds that.
	newbornCommits = 64
	// sector is the least that a disk writes whole. Bytes.
	sector = 512
	// backupPages is how much a Backup copies between two looks at its context. Pages.
	backupPages = 256
	// windowsPlainPath is the longest path Windows takes without the \\?\ prefix: 260 minus room for an 8.3 name, which
	// also leaves room for the -wal, -shm and .lock suffixes. Bytes.
	windowsPlainPath = 248
	// unixMostPath is the longest absolute path SQLite's unix VFS opens. Bytes. Source: os_unix.c MAX_PATHNAME less its
	// room for "-journal".
	unixMostPath = 512 - 8
	// closingsMost is how many files at a time are closed behind their callers; it bounds the open handles of sessions that
	// end in a burst.
	closingsMost = 32
	// failuresKept is how many errors of closings wait for Drain.
	failuresKept = 8
	// closingWait is how long an opener waits for an owner that is closing: far beyond what a slow disk needs for a sync.
	closingWait = 5 * time.Second
	// closingPoll is the pause between two looks at it.
	closingPoll = time.Millisecond
	// holderMost bounds what is read of a lock file. Bytes.
	holderMost = 4096
)

// Package disktest is a disk whose power a test can cut, and which can refuse. It links into tests only.
//
//	Watch(t, dir) ─▶ every write, sync, new name and removal below dir goes into a journal, in order:
//	                 SQLite's through a C layer over its VFS, ours through internal/disk
//	Survive(n, luck, to) ─▶ what a power loss just before event n leaves, written out for reopening
//	Refuse(n, IOError)   ─▶ the n-th event from now fails; Fail: the n-th of one file, or all from then on
//	Hold(n)              ─▶ the n-th event from now waits
//
// The model: synced content and synced names are there. Of the rest of a file a luck decides: nothing, everything, a
// beginning, or any part down to a torn sector. Names come and go in the order in which the program made them, up to a
// moment that the luck decides: so do all journalling file systems. SQLite's shared index (-shm) and lock files are worthless after a power loss and are not
// modelled.
package disktest

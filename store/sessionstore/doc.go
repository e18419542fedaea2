// Package sessionstore keeps one session kernel in one SQLite file: it implements session.Storage.
//
// A Store owns its file: an OS lock from Open to Close keeps other owners out, and should that lock be lost (somebody
// deletes the lock file), every commit still carries the owner's epoch and the file refuses the older one whole.
//
//	Open ─▶ lock, template, migrations (store/sqlite) ─▶ Acquire raises the epoch ─▶ Commit … ─▶ Close frees the lock
//	Commit: BEGIN ─▶ UPDATE meta … WHERE epoch = mine (0 rows: stale) ─▶ one statement per record ─▶ COMMIT
//
// With Options.Idle a file that is not used is put away: closed, but still owned. The next use opens it again. With
// Options.Yield it is not owned meanwhile either, and the next use finds out whether somebody else owned it.
//
// Commits read nothing. Reads go through an index each, or through the tables in id order for the main conversation;
// plan_test.go holds the list.
package sessionstore

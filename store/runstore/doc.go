// Package runstore keeps runs in SQLite: runlog.Store on one file with one owner.
//
// Commits of many runs share one transaction (sqlite.Writer), each in a savepoint of its own. Every commit checks the
// epoch in the file, so an owner that lost the file's lock writes nothing. Reads use connections beside the owner's and see
// every commit that returned. JSON longer than BlobBytes is stored once by its hash.
package runstore

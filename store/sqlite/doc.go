// Package sqlite is the thin layer between the stores and SQLite: one owner per file, one connection per owner, prepared
// statements that are kept, a durability chosen per commit, and a group commit for many submitters.
//
//	Open ─▶ owner lock X.lock ─▶ new file? copy of the schema's template ─▶ connection ─▶ migrations ─▶ DB
//	DB.Transact(durability, fn) one transaction: all or nothing
//	Writer.Submit(d, fn)        many of them in one commit, each in a savepoint of its own
//	DB.CloseBehind, Drain       the log is moved into the file behind the caller
//	OpenReader                  a second, read-only connection for queries beside the owner
//
// It speaks to the driver's connection directly, not through database/sql: there is one connection, so a pool would only
// cost; bench_test.go keeps the price of a commit beside the driver's own.
//
// Durability. The file is in WAL mode. A Fast commit (synchronous=NORMAL) survives a killed process. A Synced commit
// (synchronous=FULL) also survives a power loss, and with it every commit before it, because both are in the same
// write-ahead file and a sync covers the whole file.
package sqlite

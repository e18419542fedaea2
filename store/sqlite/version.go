package sqlite

import sqlite3 "github.com/mattn/go-sqlite3"

// Version is the version of the SQLite library that is linked in.
func Version() string {
	v, _, _ := sqlite3.Version()
	return v
}

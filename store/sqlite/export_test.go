package sqlite

// Abandon leaves db as a killed process leaves it: the lock is free, nothing is closed or moved.
func (db *DB) Abandon() error { return db.lock.Unlock() }

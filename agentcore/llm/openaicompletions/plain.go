package openaicompletions

// plain is the fast path.
func (d *decoder) plain([]byte) bool { return false }

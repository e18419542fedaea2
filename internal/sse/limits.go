package sse

// MaxEvent is the most bytes that one event (one line, or all its data lines together) may have. Beyond it the Reader
// fails with *TooLargeError instead of guessing. Source: docs of providers name no limit; whole images travel in one line.
const MaxEvent = 32 << 20

// readSize is the first size of a Reader's buffer in bytes; it grows with the longest line.
const readSize = 4 << 10

// maxEmptyReads is how many reads in a row may return neither bytes nor an error before the source counts as broken.
const maxEmptyReads = 100

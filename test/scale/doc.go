// Package scale opens thousands of sessions in one process that may have 4,096 open files, lets them idle, wakes some, and
// counts what they hold: bytes of heap, goroutines, open files. Counts are judged; times are printed, never judged.
package scale

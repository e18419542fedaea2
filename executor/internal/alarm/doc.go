// Package alarm wakes what sleeps: one goroutine for any number of names, and one small entry for each that has a time.
package alarm

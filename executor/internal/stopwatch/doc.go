// Package stopwatch ends attempts that take too long: as a whole, or by the silence between two chunks.
package stopwatch

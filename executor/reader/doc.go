// Package reader looks at the runs of a file that another process may own, and follows them while it works.
package reader

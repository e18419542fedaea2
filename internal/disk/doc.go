// Package disk is the file operations whose order decides what a power loss leaves behind.
//
// What a program wrote is on the disk after a sync of the file, and the file's name after a sync of its directory; what
// was not synced may be there, in part, or not at all. Code that makes such promises uses these functions, so that a test
// can watch their order and refuse them (store/sqlite/disktest). In production each costs one nil check.
package disk

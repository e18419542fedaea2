#ifndef DISKTEST_VFS_H
#define DISKTEST_VFS_H

#include <stdint.h>

/* What disktestEvent is asked about, before it happens. */
enum {
	DISKTEST_CREATE,   /* a file that was not there is opened */
	DISKTEST_WRITE,
	DISKTEST_TRUNCATE, /* off is the new size */
	DISKTEST_SYNC,
	DISKTEST_SYNCDIR,
	DISKTEST_DELETE,
};

/* The answer to a sync of a file that nobody watches. */
enum { DISKTEST_UNWATCHED = -1 };

/* Puts a watching layer over the default VFS, once. 0 or a SQLite error code. */
int disktest_register(void);

/* How often SQLite has read from a file so far, each time a page or less. */
long long disktest_reads(void);

#endif

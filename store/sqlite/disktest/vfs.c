/* A SQLite VFS that asks a Go function before every operation that changes the disk, and then lets the real one act. */

#include "vfs.h"
#include "_cgo_export.h"

#include <stdlib.h>
#include <string.h>

/* The part of SQLite's documented VFS interface that is used here: sqlite.org/c3ref/{vfs,io_methods,file}.html. The
   layouts are fixed by SQLite for ever; the library itself is linked in by the product's driver. */
typedef struct sqlite3_file sqlite3_file;
typedef struct sqlite3_io_methods sqlite3_io_methods;
typedef struct sqlite3_vfs sqlite3_vfs;
typedef void (*syscall_ptr)(void);

struct sqlite3_file { const sqlite3_io_methods *methods; };

struct sqlite3_io_methods {
	int version;
	int (*close)(sqlite3_file *);
	int (*read)(sqlite3_file *, void *, int, long long);
	int (*write)(sqlite3_file *, const void *, int, long long);
	int (*truncate)(sqlite3_file *, long long);
	int (*sync)(sqlite3_file *, int);
	int (*size)(sqlite3_file *, long long *);
	int (*lock)(sqlite3_file *, int);
	int (*unlock)(sqlite3_file *, int);
	int (*reserved)(sqlite3_file *, int *);
	int (*control)(sqlite3_file *, int, void *);
	int (*sector)(sqlite3_file *);
	int (*traits)(sqlite3_file *);
	int (*shm_map)(sqlite3_file *, int, int, int, void volatile **);
	int (*shm_lock)(sqlite3_file *, int, int, int);
	void (*shm_barrier)(sqlite3_file *);
	int (*shm_unmap)(sqlite3_file *, int);
	int (*fetch)(sqlite3_file *, long long, int, void **);
	int (*unfetch)(sqlite3_file *, long long, void *);
};

struct sqlite3_vfs {
	int version, file_size, most_path;
	sqlite3_vfs *next;
	const char *name;
	void *data;
	int (*open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
	int (*remove)(sqlite3_vfs *, const char *, int);
	int (*access)(sqlite3_vfs *, const char *, int, int *);
	int (*full_path)(sqlite3_vfs *, const char *, int, char *);
	void *(*dl_open)(sqlite3_vfs *, const char *);
	void (*dl_error)(sqlite3_vfs *, int, char *);
	void (*(*dl_sym)(sqlite3_vfs *, void *, const char *))(void);
	void (*dl_close)(sqlite3_vfs *, void *);
	int (*randomness)(sqlite3_vfs *, int, char *);
	int (*sleep)(sqlite3_vfs *, int);
	int (*time)(sqlite3_vfs *, double *);
	int (*last_error)(sqlite3_vfs *, int, char *);
	int (*time64)(sqlite3_vfs *, long long *);
	int (*set_syscall)(sqlite3_vfs *, const char *, syscall_ptr);
	syscall_ptr (*get_syscall)(sqlite3_vfs *, const char *);
	const char *(*next_syscall)(sqlite3_vfs *, const char *);
};

extern sqlite3_vfs *sqlite3_vfs_find(const char *);
extern int sqlite3_vfs_register(sqlite3_vfs *, int);

enum { OK = 0, CANT_OPEN = 14, OPEN_CREATE = 4, ACCESS_EXISTS = 0 };

static sqlite3_vfs *real;
static sqlite3_vfs layer;

/* The layer's file; the real one's follows it in memory. */
typedef struct {
	sqlite3_file base;
	const char *name; /* SQLite keeps it as long as the file is open; NULL = a temporary file, which nobody watches */
	sqlite3_io_methods methods;
} watched;

static sqlite3_file *below(sqlite3_file *f) { return (sqlite3_file *)((watched *)f + 1); }

/* OK, the error to fail with, or for a sync DISKTEST_UNWATCHED. */
static int ask(int op, const char *name, const void *data, int n, long long off) {
	return name == NULL ? OK : disktestEvent(op, (char *)name, (void *)data, n, off);
}

static int file_close(sqlite3_file *f) { return below(f)->methods->close(below(f)); }

static _Atomic long long reads;

long long disktest_reads(void) { return reads; }

static int file_read(sqlite3_file *f, void *p, int n, long long off) {
	reads++;
	return below(f)->methods->read(below(f), p, n, off);
}

static int file_write(sqlite3_file *f, const void *p, int n, long long off) {
	int rc = ask(DISKTEST_WRITE, ((watched *)f)->name, p, n, off);
	if (rc != OK) {
		below(f)->methods->write(below(f), p, n / 2, off); /* a failed write may leave a part */
		return rc;
	}
	return below(f)->methods->write(below(f), p, n, off);
}

static int file_truncate(sqlite3_file *f, long long size) {
	int rc = ask(DISKTEST_TRUNCATE, ((watched *)f)->name, NULL, 0, size);
	return rc != OK ? rc : below(f)->methods->truncate(below(f), size);
}

/* A file that nobody watches is a survivor being read: thousands of syncs of those would prove nothing. */
static int file_sync(sqlite3_file *f, int flags) {
	int rc = ask(DISKTEST_SYNC, ((watched *)f)->name, NULL, 0, 0);
	if (rc != OK) {
		return rc == DISKTEST_UNWATCHED ? OK : rc;
	}
	return below(f)->methods->sync(below(f), flags);
}

static int file_size(sqlite3_file *f, long long *n) { return below(f)->methods->size(below(f), n); }
static int file_lock(sqlite3_file *f, int l) { return below(f)->methods->lock(below(f), l); }
static int file_unlock(sqlite3_file *f, int l) { return below(f)->methods->unlock(below(f), l); }
static int file_reserved(sqlite3_file *f, int *r) { return below(f)->methods->reserved(below(f), r); }
static int file_control(sqlite3_file *f, int op, void *p) { return below(f)->methods->control(below(f), op, p); }
static int file_sector(sqlite3_file *f) { return below(f)->methods->sector(below(f)); }
static int file_traits(sqlite3_file *f) { return below(f)->methods->traits(below(f)); }
static int file_shm_map(sqlite3_file *f, int i, int n, int x, void volatile **p) { return below(f)->methods->shm_map(below(f), i, n, x, p); }
static int file_shm_lock(sqlite3_file *f, int at, int n, int flags) { return below(f)->methods->shm_lock(below(f), at, n, flags); }
static void file_shm_barrier(sqlite3_file *f) { below(f)->methods->shm_barrier(below(f)); }
static int file_shm_unmap(sqlite3_file *f, int del) { return below(f)->methods->shm_unmap(below(f), del); }
static int file_fetch(sqlite3_file *f, long long off, int n, void **p) { return below(f)->methods->fetch(below(f), off, n, p); }
static int file_unfetch(sqlite3_file *f, long long off, void *p) { return below(f)->methods->unfetch(below(f), off, p); }

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out) {
	watched *w = (watched *)f;
	w->base.methods = NULL;
	w->name = name;
	int exists = 1;
	if (name != NULL && (flags & OPEN_CREATE)) {
		real->access(real, name, ACCESS_EXISTS, &exists);
		int rc = exists ? OK : ask(DISKTEST_CREATE, name, NULL, 0, 0);
		if (rc != OK) {
			return rc;
		}
	}
	int rc = real->open(real, name, below(f), flags, out);
	if (below(f)->methods == NULL) {
		return rc;
	}
	w->methods = (sqlite3_io_methods){
		below(f)->methods->version, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock,
		file_unlock, file_reserved, file_control, file_sector, file_traits, file_shm_map, file_shm_lock, file_shm_barrier,
		file_shm_unmap, file_fetch, file_unfetch,
	};
	w->base.methods = &w->methods;
	return rc;
}

static int vfs_remove(sqlite3_vfs *v, const char *name, int sync_dir) {
	int rc = ask(DISKTEST_DELETE, name, NULL, 0, 0);
	return rc != OK ? rc : real->remove(real, name, sync_dir);
}

/* SQLite opens a directory only to sync it, and goes on without where that cannot be done. */
static int open_dir(const char *file, int *fd) {
	ask(DISKTEST_SYNCDIR, file, NULL, 0, 0);
	return CANT_OPEN;
}

int disktest_register(void) {
	if (real != NULL) {
		return OK;
	}
	real = sqlite3_vfs_find(NULL);
	if (real == NULL || real->version < 3) {
		real = NULL;
		return 1;
	}
	int rc = real->set_syscall(real, "openDirectory", (syscall_ptr)open_dir);
	if (rc != OK) {
		return rc;
	}
	layer = *real; /* what is not replaced below goes to the real one, which does not look at its first argument's data */
	layer.name = "disktest";
	layer.next = NULL;
	layer.file_size = (int)sizeof(watched) + real->file_size;
	layer.open = vfs_open;
	layer.remove = vfs_remove;
	return sqlite3_vfs_register(&layer, 1);
}

#ifndef MARFA_POWER_VFS_H
#define MARFA_POWER_VFS_H

#include <stdint.h>

/// A SQLite VFS in memory that knows what a disk has really taken, for tests alone. A write lasts once its file was synced;
/// until then a power cut takes it away, or leaves it, piece by piece. Files are named by path: those of one computer share
/// a prefix. Open a database with `file:/prefix/name?vfs=power`.

/// Asked before every write, sync, truncation and deletion of a computer's files. 0: it is made. 1: it fails, as a disk or a
/// dead process has it; more: it fails with that code of SQLite, `SQLITE_FULL` for one. `is_sync` tells a sync.
typedef int (*marfa_power_gate)(void *context, const char *path, int is_sync);

/// Makes the VFS known to SQLite. More than once does no harm.
int marfa_power_register(void);

/// From now on calls for files whose path begins so are asked for; a gate of NULL asks nobody.
void marfa_power_watch(const char *prefix, marfa_power_gate gate, void *context);

/// The power of a computer goes and comes back: of what was not synced, some is there and some is not, as the seed says. No
/// connection may be open.
void marfa_power_cut(const char *prefix, uint64_t seed);

/// Syncs of a computer's files do nothing from now on, or do again.
void marfa_power_ignore_syncs(const char *prefix, int ignored);

/// Takes the files of a computer away.
void marfa_power_remove(const char *prefix);

#endif

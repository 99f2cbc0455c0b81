#pragma once
// System calls and structures that Swift's Glibc module lacks. Headers stay plain; _GNU_SOURCE is defined in CPosix.c
// alone, or fd_set would differ between modules.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/xattr.h>

/// What statx says of one file. Times are seconds and nanoseconds.
struct marfa_stat {
  uint32_t mode, uid, gid, links;
  uint64_t inode, size, device, mount;
  int64_t mtime_seconds, btime_seconds, ctime_seconds;
  uint32_t mtime_nanoseconds, btime_nanoseconds, ctime_nanoseconds;
  bool has_btime, immutable;
};

/// The type number of the file system a path lies on, or -1.
int64_t marfa_file_system_type(const char *path);

/// statx of `name` relative to `directory` (AT_FDCWD allowed; an empty name is the descriptor itself), never following a
/// last link. Returns 0 or errno.
int marfa_statx(int directory, const char *name, struct marfa_stat *out);
/// The same, following links.
int marfa_statx_follow(int directory, const char *name, struct marfa_stat *out);

enum { MARFA_RENAME_NOREPLACE = 1, MARFA_RENAME_EXCHANGE = 2 };
/// Returns 0 or errno.
int marfa_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags);

/// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS. Returns a descriptor or -errno.
int marfa_open_beneath(int directory, const char *path, int flags, unsigned mode);
/// openat. Returns a descriptor or -errno.
int marfa_openat(int directory, const char *path, int flags, unsigned mode);

/// F_OFD_SETLK for the whole file: 0 unlocks, 1 shares, 2 excludes. Returns 0 or errno.
int marfa_ofd_lock(int descriptor, int mode, bool wait);
/// A one-shot timer on CLOCK_BOOTTIME that many nanoseconds from now. Returns a descriptor or -errno.
int marfa_boottime_timer(uint64_t nanoseconds);
/// Fills memory with random bytes of the kernel. Returns 0 or errno.
int marfa_random(void *bytes, size_t count);
/// Asks for a read lease and gives it back. Returns 0 (nobody writes), EAGAIN (a writer), or another errno.
/// `again`: not 0 where this descriptor was asked about before.
int marfa_probe_writer(int descriptor, int again);

/// Flags Swift cannot see without _GNU_SOURCE.
extern const int marfa_o_path;
/// `CLOCK_BOOTTIME` in nanoseconds.
uint64_t marfa_boottime(void);
// Lets malloc take memory from the system, and give it back, in large steps.
void marfa_malloc_in_large_steps(void);
/// Flushes a stream of C, for standard output and error.
int marfa_write_all(int descriptor, const void *bytes, size_t count);
/// Opens a pseudo-terminal (used by tests of prompts). Returns the master or -errno; the slave's name in `slave`.
int marfa_open_pty(char *slave, size_t size);
/// The peer's user id of a connected unix socket, or -1.
int marfa_peer_uid(int descriptor);
/// Starts a program in a session of its own, its input /dev/null, its output and errors a log, its directory `/`, its
/// signals as usual. Returns its pid or -errno.
int marfa_spawn_detached(const char *program, char *const argv[], char *const envp[], int log_descriptor);

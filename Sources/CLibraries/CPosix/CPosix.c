#define _GNU_SOURCE
#include "CPosix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <spawn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

const int marfa_o_path = O_PATH;

static int fill(int directory, const char *name, int flags, struct marfa_stat *out) {
  struct statx from;
  if (name[0] == 0) flags |= AT_EMPTY_PATH;
  if (statx(directory, name, flags | AT_STATX_SYNC_AS_STAT, STATX_BASIC_STATS | STATX_BTIME | 0x1000 /* STATX_MNT_ID */,
            &from) != 0)
    return errno;
  memset(out, 0, sizeof *out);
  out->mode = from.stx_mode;
  out->uid = from.stx_uid;
  out->gid = from.stx_gid;
  out->links = from.stx_nlink;
  out->inode = from.stx_ino;
  out->size = from.stx_size;
  out->device = ((uint64_t)from.stx_dev_major << 32) | from.stx_dev_minor;
  out->mtime_seconds = from.stx_mtime.tv_sec;
  out->mtime_nanoseconds = from.stx_mtime.tv_nsec;
  out->ctime_seconds = from.stx_ctime.tv_sec;
  out->ctime_nanoseconds = from.stx_ctime.tv_nsec;
  out->has_btime = (from.stx_mask & STATX_BTIME) != 0 && (from.stx_btime.tv_sec != 0 || from.stx_btime.tv_nsec != 0);
  if (out->has_btime) {
    out->btime_seconds = from.stx_btime.tv_sec;
    out->btime_nanoseconds = from.stx_btime.tv_nsec;
  }
#ifdef STATX_MNT_ID
  if (from.stx_mask & STATX_MNT_ID) out->mount = from.stx_mnt_id;
#endif
  out->immutable = (from.stx_attributes_mask & STATX_ATTR_IMMUTABLE) && (from.stx_attributes & STATX_ATTR_IMMUTABLE);
  return 0;
}

int marfa_statx(int directory, const char *name, struct marfa_stat *out) {
  return fill(directory, name, AT_SYMLINK_NOFOLLOW, out);
}

int marfa_statx_follow(int directory, const char *name, struct marfa_stat *out) { return fill(directory, name, 0, out); }

int64_t marfa_file_system_type(const char *path) {
  struct statfs found;
  if (statfs(path, &found) != 0) return -1;
  /* Some types are negative as the signed long of some machines. */
  return (int64_t)(uint32_t)found.f_type;
}

int marfa_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  return renameat2(from_directory, from, to_directory, to, flags) == 0 ? 0 : errno;
}

int marfa_open_beneath(int directory, const char *path, int flags, unsigned mode) {
  struct open_how how;
  memset(&how, 0, sizeof how);
  how.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long result = syscall(437 /* openat2 */, directory, path, &how, sizeof how);
  return result >= 0 ? (int)result : -errno;
}

int marfa_openat(int directory, const char *path, int flags, unsigned mode) {
  int result = openat(directory, path, flags | O_CLOEXEC, mode);
  return result >= 0 ? result : -errno;
}

int marfa_ofd_lock(int descriptor, int mode, bool wait) {
  struct flock lock = {.l_type = mode == 0 ? F_UNLCK : mode == 1 ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
  int result;
  do result = fcntl(descriptor, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

int marfa_boottime_timer(uint64_t nanoseconds) {
  int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0) return -errno;
  struct itimerspec when = {.it_value = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                                         .tv_nsec = (long)(nanoseconds % 1000000000u)}};
  if (nanoseconds == 0) when.it_value.tv_nsec = 1;
  if (timerfd_settime(timer, 0, &when, NULL) != 0) {
    int failure = errno;
    close(timer);
    return -failure;
  }
  return timer;
}

int marfa_random(void *bytes, size_t count) {
  char *next = bytes;
  while (count > 0) {
    ssize_t got = getrandom(next, count, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    next += got;
    count -= (size_t)got;
  }
  return 0;
}

int marfa_probe_writer(int descriptor, int again) {
  // A writer that comes while the lease is held breaks it with a signal; SIGIO would end the process, SIGURG is ignored.
  if (!again) fcntl(descriptor, F_SETSIG, SIGURG);
  if (fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) return errno;
  fcntl(descriptor, F_SETLEASE, F_UNLCK);
  return 0;
}

uint64_t marfa_boottime(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int marfa_write_all(int descriptor, const void *bytes, size_t count) {
  const char *next = bytes;
  while (count > 0) {
    ssize_t written = write(descriptor, next, count);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    next += written;
    count -= (size_t)written;
  }
  return 0;
}

int marfa_open_pty(char *slave, size_t size) {
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return -errno;
  if (grantpt(master) != 0 || unlockpt(master) != 0 || ptsname_r(master, slave, size) != 0) {
    int failure = errno;
    close(master);
    return -failure;
  }
  return master;
}

int marfa_peer_uid(int descriptor) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return (int)peer.uid;
}

int marfa_spawn_detached(const char *program, char *const argv[], char *const envp[], int log_descriptor) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t pid = -1;
  int code = posix_spawn_file_actions_init(&actions);
  if (code != 0) return -code;
  code = posix_spawnattr_init(&attributes);
  if (code != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return -code;
  }
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGTERM);
  sigaddset(&usual, SIGHUP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log_descriptor, 1);
  posix_spawn_file_actions_adddup2(&actions, log_descriptor, 2);
  // A working directory kept would hold its disk busy.
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  code = posix_spawnp(&pid, program, &actions, &attributes, argv, envp);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return code == 0 ? (int)pid : -code;
}

void marfa_malloc_in_large_steps(void) {
  mallopt(M_TOP_PAD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 23);
  // Set with the others, since it no longer follows what is freed once one of them is.
  mallopt(M_MMAP_THRESHOLD, 1 << 22);
}

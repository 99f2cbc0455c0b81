// What a program does to the disk, in order: loaded into it by LD_PRELOAD, with DISK_LOG naming a directory. Each process
// writes a file of its own there, `<pid>.<time>`, a line for each call that succeeded, its fields split by tabs:
//
//   start   <argument 0> <argument 1> ...   once
//   write   <file> <path>               bytes or length of a file changed
//   sync    <file> <path> <by> <site>   a file or a directory was synced
//   enter   <directory> <name> <file> <path> <how>     a name was made: create, mkdir, symlink, link or rename
//   leave   <directory> <name> <path> <by>   a name was taken away, by unlink, rmdir or rename
//   swap    <directory> <name> <directory> <name> <path>   two names were exchanged
//
// A file and a directory are told by device and inode, `8:1234`. Control characters of a path are `?`. `by` is the file of
// the program or the library that called, `site` the innermost returns of the call within the program, by their offsets.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int log_descriptor = -1;

static void put(const char *format, ...) {
  if (log_descriptor < 0) return;
  int kept = errno;
  char line[3 * PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  for (int index = 0; index < length; index++)
    if ((unsigned char)line[index] < 0x20 && line[index] != '\t') line[index] = '?';
  line[length] = '\n';
  syscall(SYS_write, log_descriptor, line, (size_t)length + 1);
  errno = kept;
}

__attribute__((constructor)) static void begin(void) {
  const char *directory = getenv("DISK_LOG");
  if (directory == NULL) return;
  char path[PATH_MAX], words[2048] = "";
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(path, sizeof path, "%s/%d.%lld%09ld", directory, getpid(), (long long)now.tv_sec, now.tv_nsec);
  log_descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int arguments = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
  if (arguments < 0) return;
  long count = syscall(SYS_read, arguments, words, sizeof words - 1);
  syscall(SYS_close, arguments);
  for (long index = 0; index + 1 < count; index++)
    if (words[index] == 0) words[index] = '\t';
  put("start\t%s", words);
}

// A forked child that does not exec writes where its parent does; nothing here forks without exec.

#define REAL(name) \
  static __typeof__(&name) real; \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int is_file(const struct stat *status) { return S_ISREG(status->st_mode) || S_ISDIR(status->st_mode); }

// The file of the program or library an address lies in.
static const char *owner(const void *address, uintptr_t *base) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return "?";
  if (base) *base = (uintptr_t)info.dli_fbase;
  const char *slash = strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

static void synced(int descriptor, const void *caller) {
  int kept = errno;
  struct stat status;
  char link[64], path[PATH_MAX], site[256] = "";
  if (log_descriptor >= 0 && fstat(descriptor, &status) == 0 && is_file(&status)) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    const char *by = owner(caller, NULL);
    void *frames[12];
    int count = backtrace(frames, 12), used = 0;
    size_t end = 0;
    for (int index = 0; index < count && used < 3; index++) {
      uintptr_t base = 0;
      if (strcmp(owner(frames[index], &base), by) != 0) continue;
      end += (size_t)snprintf(site + end, sizeof site - end, used++ ? ";%lx" : "%lx", (uintptr_t)frames[index] - base);
    }
    put("sync\t%lu:%lu\t%s\t%s\t%s", status.st_dev, status.st_ino, path, by, site);
  }
  errno = kept;
}

static void told(const char *event, int descriptor) {
  int kept = errno;
  struct stat status;
  char link[64], path[PATH_MAX];
  if (log_descriptor >= 0 && descriptor != log_descriptor && fstat(descriptor, &status) == 0 && is_file(&status)) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    put("%s\t%lu:%lu\t%s", event, status.st_dev, status.st_ino, path);
  }
  errno = kept;
}

// The directory a name is in, its path, and the name alone.
struct place {
  struct stat directory;
  char path[2 * PATH_MAX];
  const char *name;
};

static int find(int directory, const char *path, struct place *out) {
  char parent[PATH_MAX], link[64];
  const char *slash = strrchr(path, '/');
  out->name = slash ? slash + 1 : path;
  if (slash) snprintf(parent, sizeof parent, "%.*s/", (int)(slash - path), path);
  else snprintf(parent, sizeof parent, ".");
  if (fstatat(directory, parent, &out->directory, 0) != 0) return 0;
  size_t length = 0;
  if (path[0] != '/' && directory >= 0) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t count = readlink(link, out->path, PATH_MAX - 2);
    length = count < 0 ? 0 : (size_t)count;
    out->path[length++] = '/';
  }
  snprintf(out->path + length, sizeof out->path - length, "%s", path);
  return 1;
}

static void entered(int directory, const char *path, const char *how) {
  int kept = errno;
  struct place place;
  struct stat status;
  if (log_descriptor >= 0 && find(directory, path, &place) && fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
    put("enter\t%lu:%lu\t%s\t%lu:%lu\t%s\t%s", place.directory.st_dev, place.directory.st_ino, place.name, status.st_dev,
        status.st_ino, place.path, how);
  errno = kept;
}

static void left(int directory, const char *path, const void *caller) {
  int kept = errno;
  struct place place;
  if (log_descriptor >= 0 && find(directory, path, &place))
    put("leave\t%lu:%lu\t%s\t%s\t%s", place.directory.st_dev, place.directory.st_ino, place.name, place.path,
        owner(caller, NULL));
  errno = kept;
}

static int is_there(int directory, const char *path) {
  int kept = errno;
  struct stat status;
  int found = fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
  errno = kept;
  return found;
}

#define WRITES(type, name, parameters, arguments) \
  type name parameters { \
    REAL(name); \
    type result = real arguments; \
    if (result >= 0) told("write", descriptor); \
    return result; \
  }

WRITES(ssize_t, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
WRITES(ssize_t, pwrite, (int descriptor, const void *bytes, size_t count, off_t offset), (descriptor, bytes, count, offset))
WRITES(ssize_t, pwrite64, (int descriptor, const void *bytes, size_t count, off64_t offset), (descriptor, bytes, count, offset))
WRITES(ssize_t, writev, (int descriptor, const struct iovec *pieces, int count), (descriptor, pieces, count))
WRITES(ssize_t, pwritev, (int descriptor, const struct iovec *pieces, int count, off_t offset), (descriptor, pieces, count, offset))
WRITES(ssize_t, pwritev64, (int descriptor, const struct iovec *pieces, int count, off64_t offset), (descriptor, pieces, count, offset))
WRITES(int, ftruncate, (int descriptor, off_t length), (descriptor, length))
WRITES(int, ftruncate64, (int descriptor, off64_t length), (descriptor, length))
WRITES(int, fallocate, (int descriptor, int mode, off_t offset, off_t length), (descriptor, mode, offset, length))

ssize_t copy_file_range(int from, off64_t *at, int descriptor, off64_t *to, size_t count, unsigned flags) {
  REAL(copy_file_range);
  ssize_t result = real(from, at, descriptor, to, count, flags);
  if (result >= 0) told("write", descriptor);
  return result;
}

int fsync(int descriptor) {
  REAL(fsync);
  int result = real(descriptor);
  if (result == 0) synced(descriptor, __builtin_return_address(0));
  return result;
}

int fdatasync(int descriptor) {
  REAL(fdatasync);
  int result = real(descriptor);
  if (result == 0) synced(descriptor, __builtin_return_address(0));
  return result;
}

// open in its six forms: only a file that was not there before is told of.
static int opened(int directory, const char *path, int flags, int was_there, int result) {
  if (result >= 0 && (flags & O_CREAT) && !was_there) entered(directory, path, "create");
  if (result >= 0 && (flags & O_TRUNC) && was_there) told("write", result);
  return result;
}

#define OPENS_AT(name) \
  int name(int directory, const char *path, int flags, ...) { \
    REAL(name); \
    va_list arguments; \
    va_start(arguments, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments); \
    int was_there = flags & O_CREAT ? is_there(directory, path) : 1; \
    return opened(directory, path, flags, was_there, real(directory, path, flags, mode)); \
  }
#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list arguments; \
    va_start(arguments, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments); \
    int was_there = flags & O_CREAT ? is_there(AT_FDCWD, path) : 1; \
    return opened(AT_FDCWD, path, flags, was_there, real(path, flags, mode)); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)
OPENS(open)
OPENS(open64)

#define ENTERS(name, parameters, arguments, directory, path, how) \
  int name parameters { \
    REAL(name); \
    int result = real arguments; \
    if (result == 0) entered(directory, path, how); \
    return result; \
  }
ENTERS(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path, "mkdir")
ENTERS(mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode), directory, path, "mkdir")
ENTERS(symlink, (const char *target, const char *path), (target, path), AT_FDCWD, path, "symlink")
ENTERS(symlinkat, (const char *target, int directory, const char *path), (target, directory, path), directory, path, "symlink")
ENTERS(link, (const char *from, const char *path), (from, path), AT_FDCWD, path, "link")
ENTERS(linkat, (int from, const char *old, int directory, const char *path, int flags), (from, old, directory, path, flags),
       directory, path, "link")

#define LEAVES(name, parameters, arguments, directory, path) \
  int name parameters { \
    REAL(name); \
    int result = real arguments; \
    if (result == 0) left(directory, path, __builtin_return_address(0)); \
    return result; \
  }
LEAVES(unlink, (const char *path), (path), AT_FDCWD, path)
LEAVES(rmdir, (const char *path), (path), AT_FDCWD, path)
LEAVES(unlinkat, (int directory, const char *path, int flags), (directory, path, flags), directory, path)

static void renamed(int from_directory, const char *from, int to_directory, const char *to, unsigned flags,
                    const void *caller) {
  int kept = errno;
  if (flags & RENAME_EXCHANGE) {
    struct place one, other;
    if (find(from_directory, from, &one) && find(to_directory, to, &other))
      put("swap\t%lu:%lu\t%s\t%lu:%lu\t%s\t%s", one.directory.st_dev, one.directory.st_ino, one.name, other.directory.st_dev,
          other.directory.st_ino, other.name, other.path);
  } else {
    left(from_directory, from, caller);
    entered(to_directory, to, "rename");
  }
  errno = kept;
}

int rename(const char *from, const char *to) {
  REAL(rename);
  int result = real(from, to);
  if (result == 0) renamed(AT_FDCWD, from, AT_FDCWD, to, 0, __builtin_return_address(0));
  return result;
}
int renameat(int from_directory, const char *from, int to_directory, const char *to) {
  REAL(renameat);
  int result = real(from_directory, from, to_directory, to);
  if (result == 0) renamed(from_directory, from, to_directory, to, 0, __builtin_return_address(0));
  return result;
}
int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  REAL(renameat2);
  int result = real(from_directory, from, to_directory, to, flags);
  if (result == 0) renamed(from_directory, from, to_directory, to, flags, __builtin_return_address(0));
  return result;
}

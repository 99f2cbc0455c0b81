#include "PowerVFS.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

// A piece of a write that a disk takes or leaves as a whole.
enum { piece_size = 512, shm_slots = 8, shm_regions = 64 };

typedef struct Change {
  int64_t offset;
  // Less than 0: cut to `offset`.
  int64_t length;
  uint8_t *bytes;
} Change;

typedef struct Bytes {
  uint8_t *start;
  int64_t size, room;
} Bytes;

typedef struct Node {
  struct Node *next;
  char *path;
  // What processes see, and what the disk has taken.
  Bytes now, kept;
  Change *changes;
  int count, room;
  int exists, exists_kept, handles;
  // Locks of the file.
  int shared;
  void *reserved, *pending, *exclusive;
  // The shared memory of its log.
  uint8_t *regions[shm_regions];
  int shm_users, shm_shared[shm_slots];
  void *shm_exclusive[shm_slots];
  // How often its computer has lost its power: no memory outlives that.
  int lives;
} Node;

typedef struct Computer {
  struct Computer *next;
  char *prefix;
  marfa_power_gate gate;
  void *context;
  int ignores_syncs;
} Computer;

typedef struct File {
  sqlite3_file base;
  Node *node;
  int lock, is_temporary, has_shm, life;
  int shm_shared[shm_slots];
} File;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static Node *nodes;
static Computer *computers;

static int begins(const char *path, const char *prefix) { return strncmp(path, prefix, strlen(prefix)) == 0; }

static Computer *computer(const char *path) {
  for (Computer *each = computers; each; each = each->next)
    if (begins(path, each->prefix)) return each;
  return NULL;
}

// What a call answers in place of being made: 0, or the code of SQLite the gate names, or `failure`.
static int refused(Node *node, int is_sync, int failure) {
  pthread_mutex_lock(&guard);
  Computer *found = computer(node->path);
  marfa_power_gate gate = found ? found->gate : NULL;
  void *context = found ? found->context : NULL;
  pthread_mutex_unlock(&guard);
  int answer = gate ? gate(context, node->path, is_sync) : 0;
  return answer == 1 ? failure : answer;
}

static void resize(Bytes *bytes, int64_t size) {
  if (size > bytes->room) {
    int64_t room = bytes->room ? bytes->room : 4096;
    while (room < size) room *= 2;
    bytes->start = realloc(bytes->start, (size_t)room);
    bytes->room = room;
  }
  if (size > bytes->size) memset(bytes->start + bytes->size, 0, (size_t)(size - bytes->size));
  bytes->size = size;
}

static void apply(Bytes *bytes, const Change *change, int64_t from, int64_t length) {
  if (change->length < 0) {
    if (change->offset < bytes->size) resize(bytes, change->offset);
    return;
  }
  int64_t end = change->offset + from + length;
  if (end > bytes->size) resize(bytes, end);
  memcpy(bytes->start + change->offset + from, change->bytes + from, (size_t)length);
}

static void forget_changes(Node *node) {
  for (int at = 0; at < node->count; at++) free(node->changes[at].bytes);
  node->count = 0;
}

static void record(Node *node, int64_t offset, int64_t length, const void *bytes) {
  if (node->count == node->room) {
    node->room = node->room ? node->room * 2 : 16;
    node->changes = realloc(node->changes, sizeof(Change) * (size_t)node->room);
  }
  Change change = {offset, length, NULL};
  if (length > 0) {
    change.bytes = malloc((size_t)length);
    memcpy(change.bytes, bytes, (size_t)length);
  }
  node->changes[node->count++] = change;
  apply(&node->now, &change, 0, length);
}

static Node *find(const char *path) {
  for (Node *each = nodes; each; each = each->next)
    if (strcmp(each->path, path) == 0) return each;
  return NULL;
}

static void release(Node *node) {
  forget_changes(node);
  free(node->changes);
  free(node->now.start);
  free(node->kept.start);
  for (int at = 0; at < shm_regions; at++) free(node->regions[at]);
  free(node->path);
  free(node);
}

// MARK: Files

static int f_close(sqlite3_file *base) {
  File *file = (File *)base;
  pthread_mutex_lock(&guard);
  Node *node = file->node;
  node->handles--;
  if (file->is_temporary) release(node);
  pthread_mutex_unlock(&guard);
  return SQLITE_OK;
}

static int f_read(sqlite3_file *base, void *into, int length, sqlite3_int64 offset) {
  Bytes *bytes = &((File *)base)->node->now;
  if (offset + length <= bytes->size) {
    memcpy(into, bytes->start + offset, (size_t)length);
    return SQLITE_OK;
  }
  memset(into, 0, (size_t)length);
  if (offset < bytes->size) memcpy(into, bytes->start + offset, (size_t)(bytes->size - offset));
  return SQLITE_IOERR_SHORT_READ;
}

static int f_write(sqlite3_file *base, const void *from, int length, sqlite3_int64 offset) {
  File *file = (File *)base;
  int answer = file->is_temporary ? 0 : refused(file->node, 0, SQLITE_IOERR_WRITE);
  if (answer) return answer;
  record(file->node, offset, length, from);
  if (file->is_temporary) forget_changes(file->node);
  return SQLITE_OK;
}

static int f_truncate(sqlite3_file *base, sqlite3_int64 size) {
  File *file = (File *)base;
  int answer = file->is_temporary ? 0 : refused(file->node, 0, SQLITE_IOERR_TRUNCATE);
  if (answer) return answer;
  record(file->node, size, -1, NULL);
  return SQLITE_OK;
}

static int f_sync(sqlite3_file *base, int flags) {
  (void)flags;
  File *file = (File *)base;
  Node *node = file->node;
  if (file->is_temporary) return SQLITE_OK;
  int answer = refused(node, 1, SQLITE_IOERR_FSYNC);
  if (answer) return answer;
  pthread_mutex_lock(&guard);
  Computer *found = computer(node->path);
  int ignored = found && found->ignores_syncs;
  pthread_mutex_unlock(&guard);
  if (ignored) return SQLITE_OK;
  for (int at = 0; at < node->count; at++) apply(&node->kept, &node->changes[at], 0, node->changes[at].length);
  forget_changes(node);
  if (!node->exists_kept) {
    // A new log's directory is synced with it, and so the names of all that lies beside it.
    pthread_mutex_lock(&guard);
    size_t length = (size_t)(strrchr(node->path, '/') - node->path) + 1;
    for (Node *each = nodes; each; each = each->next)
      if (strncmp(each->path, node->path, length) == 0) each->exists_kept = each->exists;
    pthread_mutex_unlock(&guard);
  }
  return SQLITE_OK;
}

static int f_size(sqlite3_file *base, sqlite3_int64 *size) {
  *size = ((File *)base)->node->now.size;
  return SQLITE_OK;
}

static int f_lock(sqlite3_file *base, int wanted) {
  File *file = (File *)base;
  Node *node = file->node;
  if (file->lock >= wanted) return SQLITE_OK;
  if (file->lock == SQLITE_LOCK_NONE) {
    if (node->pending || node->exclusive) return SQLITE_BUSY;
    node->shared++;
    file->lock = SQLITE_LOCK_SHARED;
  }
  if (wanted >= SQLITE_LOCK_RESERVED && file->lock < SQLITE_LOCK_RESERVED) {
    if (node->reserved && node->reserved != file) return SQLITE_BUSY;
    node->reserved = file;
    file->lock = SQLITE_LOCK_RESERVED;
  }
  if (wanted == SQLITE_LOCK_EXCLUSIVE) {
    node->pending = file;
    file->lock = SQLITE_LOCK_PENDING;
    if (node->shared > 1) return SQLITE_BUSY;
    node->exclusive = file;
    file->lock = SQLITE_LOCK_EXCLUSIVE;
  }
  return SQLITE_OK;
}

static int f_unlock(sqlite3_file *base, int wanted) {
  File *file = (File *)base;
  Node *node = file->node;
  if (file->lock > SQLITE_LOCK_SHARED && wanted <= SQLITE_LOCK_SHARED) {
    if (node->reserved == file) node->reserved = NULL;
    if (node->pending == file) node->pending = NULL;
    if (node->exclusive == file) node->exclusive = NULL;
  }
  if (file->lock >= SQLITE_LOCK_SHARED && wanted == SQLITE_LOCK_NONE) node->shared--;
  file->lock = wanted;
  return SQLITE_OK;
}

static int f_reserved(sqlite3_file *base, int *out) {
  *out = ((File *)base)->node->reserved != NULL;
  return SQLITE_OK;
}

static int f_control(sqlite3_file *base, int operation, void *argument) {
  (void)base;
  (void)operation;
  (void)argument;
  return SQLITE_NOTFOUND;
}

static int f_sector(sqlite3_file *base) {
  (void)base;
  return 4096;
}

static int f_device(sqlite3_file *base) {
  (void)base;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int f_shm_map(sqlite3_file *base, int region, int size, int extends, void volatile **out) {
  File *file = (File *)base;
  Node *node = file->node;
  if (region >= shm_regions) return SQLITE_IOERR_SHMSIZE;
  if (!file->has_shm) {
    file->has_shm = 1;
    file->life = node->lives;
    node->shm_users++;
  }
  if (file->life != node->lives) return SQLITE_IOERR_SHMMAP;
  if (!node->regions[region]) {
    if (!extends) {
      *out = NULL;
      return SQLITE_OK;
    }
    node->regions[region] = calloc(1, (size_t)size);
  }
  *out = node->regions[region];
  return SQLITE_OK;
}

static int f_shm_lock(sqlite3_file *base, int offset, int count, int flags) {
  File *file = (File *)base;
  Node *node = file->node;
  if (file->life != node->lives) return SQLITE_OK;
  for (int slot = offset; slot < offset + count; slot++) {
    int others = node->shm_shared[slot] - file->shm_shared[slot];
    int taken = node->shm_exclusive[slot] && node->shm_exclusive[slot] != file;
    if ((flags & SQLITE_SHM_LOCK) && (taken || ((flags & SQLITE_SHM_EXCLUSIVE) && others))) return SQLITE_BUSY;
  }
  for (int slot = offset; slot < offset + count; slot++) {
    if (flags & SQLITE_SHM_SHARED) {
      int wanted = (flags & SQLITE_SHM_LOCK) ? 1 : 0;
      node->shm_shared[slot] += wanted - file->shm_shared[slot];
      file->shm_shared[slot] = wanted;
    } else {
      node->shm_exclusive[slot] = (flags & SQLITE_SHM_LOCK) ? file : NULL;
    }
  }
  return SQLITE_OK;
}

static void f_shm_barrier(sqlite3_file *base) { (void)base; }

static int f_shm_unmap(sqlite3_file *base, int deletes) {
  (void)deletes;
  File *file = (File *)base;
  Node *node = file->node;
  if (!file->has_shm) return SQLITE_OK;
  if (file->life != node->lives) {
    file->has_shm = 0;
    return SQLITE_OK;
  }
  for (int slot = 0; slot < shm_slots; slot++) {
    node->shm_shared[slot] -= file->shm_shared[slot];
    file->shm_shared[slot] = 0;
    if (node->shm_exclusive[slot] == file) node->shm_exclusive[slot] = NULL;
  }
  file->has_shm = 0;
  if (--node->shm_users == 0) {
    for (int at = 0; at < shm_regions; at++) {
      free(node->regions[at]);
      node->regions[at] = NULL;
    }
  }
  return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_reserved,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_device,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

// MARK: The disk

static int v_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags, int *out) {
  (void)vfs;
  File *file = (File *)base;
  memset(file, 0, sizeof *file);
  pthread_mutex_lock(&guard);
  Node *node = name ? find(name) : NULL;
  if (!node || !node->exists) {
    if (name && !(flags & SQLITE_OPEN_CREATE)) {
      pthread_mutex_unlock(&guard);
      return SQLITE_CANTOPEN;
    }
    if (!node) {
      node = calloc(1, sizeof *node);
      node->path = strdup(name ? name : "temporary");
      if (name) {
        node->next = nodes;
        nodes = node;
      }
    }
    node->exists = 1;
  }
  node->handles++;
  pthread_mutex_unlock(&guard);
  file->node = node;
  file->is_temporary = name == NULL;
  file->base.pMethods = &methods;
  if (out) *out = flags;
  return SQLITE_OK;
}

static int v_delete(sqlite3_vfs *vfs, const char *name, int syncs) {
  (void)vfs;
  pthread_mutex_lock(&guard);
  Node *node = find(name);
  pthread_mutex_unlock(&guard);
  if (!node || !node->exists) return SQLITE_IOERR_DELETE_NOENT;
  int answer = refused(node, 0, SQLITE_IOERR_DELETE);
  if (answer) return answer;
  node->exists = 0;
  forget_changes(node);
  if (syncs) {
    node->exists_kept = 0;
    node->kept.size = 0;
    node->now.size = 0;
  } else {
    record(node, 0, -1, NULL);
  }
  return SQLITE_OK;
}

static int v_access(sqlite3_vfs *vfs, const char *name, int flags, int *out) {
  (void)vfs;
  pthread_mutex_lock(&guard);
  Node *node = find(name);
  *out = node && node->exists && (flags != SQLITE_ACCESS_EXISTS || node->now.size > 0);
  pthread_mutex_unlock(&guard);
  return SQLITE_OK;
}

static int v_full(sqlite3_vfs *vfs, const char *name, int room, char *out) {
  (void)vfs;
  if ((int)strlen(name) >= room) return SQLITE_CANTOPEN;
  strcpy(out, name);
  return SQLITE_OK;
}

static sqlite3_vfs *standard(void) { return sqlite3_vfs_find("unix"); }
static uint64_t draw(uint64_t *state) {
  uint64_t drawn = (*state += 0x9E3779B97F4A7C15u);
  drawn = (drawn ^ (drawn >> 30)) * 0xBF58476D1CE4E5B9u;
  drawn = (drawn ^ (drawn >> 27)) * 0x94D049BB133111EBu;
  return drawn ^ (drawn >> 31);
}

static int v_random(sqlite3_vfs *vfs, int count, char *out) {
  (void)vfs;
  static uint64_t state = 1;
  pthread_mutex_lock(&guard);
  for (int at = 0; at < count; at++) out[at] = (char)draw(&state);
  pthread_mutex_unlock(&guard);
  return count;
}
static int v_sleep(sqlite3_vfs *vfs, int microseconds) {
  (void)vfs;
  return microseconds;
}
static int v_time(sqlite3_vfs *vfs, double *out) {
  (void)vfs;
  return standard()->xCurrentTime(standard(), out);
}
static int v_error(sqlite3_vfs *vfs, int room, char *out) {
  (void)vfs;
  if (room > 0) out[0] = 0;
  return 0;
}

static sqlite3_vfs power = {
    .iVersion = 1,
    .szOsFile = sizeof(File),
    .mxPathname = 512,
    .zName = "power",
    .xOpen = v_open,
    .xDelete = v_delete,
    .xAccess = v_access,
    .xFullPathname = v_full,
    .xRandomness = v_random,
    .xSleep = v_sleep,
    .xCurrentTime = v_time,
    .xGetLastError = v_error,
};

int marfa_power_register(void) { return sqlite3_vfs_register(&power, 0); }

static Computer *made(const char *prefix) {
  Computer *found = computer(prefix);
  if (found) return found;
  found = calloc(1, sizeof *found);
  found->prefix = strdup(prefix);
  found->next = computers;
  computers = found;
  return found;
}

void marfa_power_watch(const char *prefix, marfa_power_gate gate, void *context) {
  pthread_mutex_lock(&guard);
  Computer *found = made(prefix);
  found->gate = gate;
  found->context = context;
  pthread_mutex_unlock(&guard);
}

void marfa_power_ignore_syncs(const char *prefix, int ignored) {
  pthread_mutex_lock(&guard);
  made(prefix)->ignores_syncs = ignored;
  pthread_mutex_unlock(&guard);
}

void marfa_power_cut(const char *prefix, uint64_t seed) {
  pthread_mutex_lock(&guard);
  uint64_t state = seed;
  // Nothing of it, all of it, or some pieces.
  uint64_t way = draw(&state) % 4;
  for (Node *node = nodes; node; node = node->next) {
    if (!begins(node->path, prefix)) continue;
    for (int at = 0; at < node->count; at++) {
      Change *change = &node->changes[at];
      int64_t from = 0;
      do {
        int64_t length = change->length < 0 ? -1 : change->length - from;
        if (length > piece_size) length = piece_size;
        if (way == 1 || (way > 1 && draw(&state) % 2)) apply(&node->kept, change, from, length);
        from += piece_size;
      } while (from < change->length);
    }
    forget_changes(node);
    // A connection that was not closed may still point at its memory, which is left to it.
    node->lives++;
    node->shm_users = 0;
    memset(node->regions, 0, sizeof node->regions);
    memset(node->shm_shared, 0, sizeof node->shm_shared);
    memset(node->shm_exclusive, 0, sizeof node->shm_exclusive);
    if (node->exists != node->exists_kept && (way == 1 || (way > 1 && draw(&state) % 2)))
      node->exists_kept = node->exists;
    node->exists = node->exists_kept;
    if (!node->exists) node->kept.size = 0;
    resize(&node->now, node->kept.size);
    if (node->kept.size) memcpy(node->now.start, node->kept.start, (size_t)node->kept.size);
  }
  pthread_mutex_unlock(&guard);
}

void marfa_power_remove(const char *prefix) {
  pthread_mutex_lock(&guard);
  for (Node **at = &nodes; *at;) {
    Node *node = *at;
    if (begins(node->path, prefix) && node->handles == 0) {
      *at = node->next;
      release(node);
    } else {
      at = &node->next;
    }
  }
  for (Computer **at = &computers; *at;) {
    Computer *each = *at;
    if (strcmp(each->prefix, prefix) == 0) {
      *at = each->next;
      free(each->prefix);
      free(each);
    } else {
      at = &each->next;
    }
  }
  pthread_mutex_unlock(&guard);
}

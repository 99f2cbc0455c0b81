#include "include/CLoading.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static _Noreturn void missing(void) {
  dprintf(STDERR_FILENO, "marfa-folders: error while loading shared libraries: %s\n", dlerror());
  _exit(127);
}

void *marfa_symbol(struct marfa_library *library, const char *name) {
  pthread_mutex_lock(&loading);
  if (!library->handle) library->handle = dlopen(library->name, RTLD_LAZY | RTLD_LOCAL);
  if (!library->handle) missing();
  void *found = dlsym(library->handle, name);
  if (!found) missing();
  pthread_mutex_unlock(&loading);
  return found;
}

// For runs under the thread sanitizer alone, loaded by LD_PRELOAD. Swift's Mutex takes a lock nobody holds in code that is
// compiled into ours, and so seen by the sanitizer; one it has to wait for it takes in its library, which is not, and every
// value such a lock guards would count as raced for. These two tell the sanitizer what the library's did.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define SELF __attribute__((swift_context)) void *self
#define SWIFT __attribute__((swiftcall))

typedef SWIFT void (*lock_slow)(uint32_t, SELF);
typedef SWIFT void (*unlock_slow)(SELF);
typedef void (*told)(void *);

static void tell(const char *name, void *lock) {
  told tell = (told)dlsym(RTLD_DEFAULT, name);
  if (tell) tell(lock);
}

SWIFT void locked(uint32_t, SELF) __asm__("$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
SWIFT void locked(uint32_t state, SELF) {
  static lock_slow real;
  if (real == NULL) real = (lock_slow)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
  real(state, self);
  tell("__tsan_acquire", self);
}

SWIFT void unlocked(SELF) __asm__("$s15Synchronization12_MutexHandleV11_unlockSlowyyF");
SWIFT void unlocked(SELF) {
  static unlock_slow real;
  if (real == NULL) real = (unlock_slow)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV11_unlockSlowyyF");
  tell("__tsan_release", self);
  real(self);
}

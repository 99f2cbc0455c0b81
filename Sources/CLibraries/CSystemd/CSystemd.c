// libsystemd, loaded when it is first called.
#include "include/CSystemd.h"

#include <CLoading.h>

static struct marfa_library library = {"libsystemd.so.0", 0};
#define CALL(function) MARFA_LOADED(library, function)

int sd_notify(int unset, const char *state) { return CALL(sd_notify)(unset, state); }
int sd_watchdog_enabled(int unset, uint64_t *microseconds) {
  return CALL(sd_watchdog_enabled)(unset, microseconds);
}

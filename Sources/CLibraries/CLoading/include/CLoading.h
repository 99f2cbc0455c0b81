#pragma once

/// A library that is loaded when it is first called: to load and bind libcurl, libmicrohttpd and what they stand on costs
/// more than many a command that needs neither.
struct marfa_library {
  /// What the loader finds it by, such as `libcurl.so.4`.
  const char *name;
  void *handle;
};

/// The function of a name, the library loaded where it is not yet. Where either is missing the process ends as it would
/// have at its start, had it been linked: with the loader's words and status 127.
void *marfa_symbol(struct marfa_library *library, const char *name);

/// Calls a function of `library`, looked up once. In a definition of that very name, `NAME(...)` becomes a call of the
/// library's.
#define MARFA_LOADED(library, function)                                            \
  ({                                                                               \
    static void *kept;                                                             \
    void *found = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);                        \
    if (!found) {                                                                  \
      found = marfa_symbol(&library, #function);                                   \
      __atomic_store_n(&kept, found, __ATOMIC_RELEASE);                            \
    }                                                                              \
    (__typeof__(&function))found;                                                  \
  })

import Glibc
import MarfaBase

/// Opens a page in the person's browser, as far as there is one: what `xdg-open` says goes nowhere, and its failure is none
/// of ours (C20.7).
func openPage(_ page: Text, _ environment: [Text: Text]) {
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  var attributes = posix_spawnattr_t()
  posix_spawnattr_init(&attributes)
  defer {
    posix_spawn_file_actions_destroy(&actions)
    posix_spawnattr_destroy(&attributes)
  }
  for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
    posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
  }
  // Our threads block SIGINT and SIGTERM; a program of its own must not.
  var none = sigset_t()
  sigemptyset(&none)
  posix_spawnattr_setsigmask(&attributes, &none)
  posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
  // The credential of this run is not the browser's (X22.1).
  let passed = environment.filter { $0.key != "MARFA_API_KEY" }
    .map { String(decoding: $0.key.bytes + [UInt8(ascii: "=")] + $0.value.bytes, as: UTF8.self) }
  var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("xdg-open"), strdup(page.string), nil]
  var variables: [UnsafeMutablePointer<CChar>?] = passed.map { strdup($0) } + [nil]
  defer { for pointer in arguments + variables { free(pointer) } }
  var started: pid_t = 0
  _ = posix_spawnp(&started, "xdg-open", &actions, &attributes, &arguments, &variables)
}

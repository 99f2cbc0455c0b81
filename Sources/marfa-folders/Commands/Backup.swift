import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

/// `add --backup` (P7.2): copies the directory beside itself, by reflink where the disk can, before anything is written.
/// What would be refused all the same is not copied first (C7.2).
func backUp(_ directory: PathBytes, _ folder: EntityID, _ session: Session, _ work: FolderWork) throws(MarfaError) {
  if DirectoryLook.at(directory, session.context.files).state == .folder { return }
  _ = try work.connection().request("GET", "/items/\(folder)")
  guard let status = try? session.context.files.status(directory), status.kind == .directory else { return }
  let stamp = session.context.clock.now.description.prefix(19).replacing(":", with: "")
  let target = directory.parent.appending(
    PathBytes(bytes: directory.name.bytes + Array(" (before sync \(stamp))".utf8)))
  if let taken = try? session.context.files.status(target), taken.kind == .directory {
    throw MarfaError(.invalid, "\(target) is there already; no backup was made and nothing was added")
  }
  let result = runTool(
    ["cp", "-a", "--reflink=auto", "-T", "--"], [directory, target], quiet: session.program.output.json)
  guard result == 0 else {
    throw MarfaError(
      .io, "the directory could not be copied to \(target) ('cp' ended with \(result)); nothing was added")
  }
  session.program.output.note("Copied to \(target)")
}

/// Runs a program of the system and gives its exit status; 127 where it can't be started.
/// - Parameter quiet: whether what it says goes nowhere.
func runTool(_ words: [String], _ paths: [PathBytes], quiet: Bool = false) -> Int32 {
  runTool(words.map { PathBytes($0) } + paths, quiet: quiet)
}

/// The same for words that are bytes.
func runTool(_ words: [PathBytes], quiet: Bool = false) -> Int32 {
  guard let name = words.first else { return 127 }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  defer { posix_spawn_file_actions_destroy(&actions) }
  if quiet {
    for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
    }
  }
  var attributes = posix_spawnattr_t()
  posix_spawnattr_init(&attributes)
  defer { posix_spawnattr_destroy(&attributes) }
  // SIGINT and SIGTERM are blocked here; a program started from here must not inherit that.
  var none = sigset_t()
  sigemptyset(&none)
  posix_spawnattr_setsigmask(&attributes, &none)
  posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
  var argv: [UnsafeMutablePointer<CChar>?] = words.map { word in word.withCString { strdup($0) } }
  argv.append(nil)
  defer { for pointer in argv { free(pointer) } }
  var pid: pid_t = 0
  guard name.withCString({ posix_spawnp(&pid, $0, &actions, &attributes, &argv, environ) }) == 0 else { return 127 }
  var status: Int32 = 0
  while waitpid(pid, &status, 0) < 0 {
    if errno != EINTR { return 127 }
  }
  return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
}

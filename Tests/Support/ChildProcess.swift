import CPosix
import Glibc
import MarfaBase
import Synchronization

/// A started program. What it prints is collected by a thread of its own, so no test blocks a pool's thread.
package final class ChildProcess: Sendable {
  private struct State {
    var out: [UInt8] = []
    var err: [UInt8] = []
    var status: Int32?
  }

  /// The process.
  package let pid: pid_t
  private let input: Mutex<Int32>
  private let state = Mutex(State())

  /// Starts a program with pipes, or with a pseudo-terminal as standard input and error (its output stays a pipe).
  package init(
    _ command: [String], environment: [String: String], directory: String? = nil, terminal: Bool = false,
    screen: Bool = false
  ) throws {
    var out: [Int32] = [-1, -1]
    var err: [Int32] = [-1, -1]
    var inward: [Int32] = [-1, -1]
    guard channel(&out) else { throw ScratchError("no pipe") }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    var flags = Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    var every = sigset_t()
    sigemptyset(&every)
    for number in [SIGINT, SIGTERM, SIGPIPE, SIGHUP] { sigaddset(&every, number) }
    posix_spawnattr_setsigdefault(&attributes, &every)
    if terminal {
      var slave = [CChar](repeating: 0, count: 128)
      let master = marfa_open_pty(&slave, slave.count)
      guard master >= 0 else { throw ScratchError("no pseudo-terminal: \(String(cString: strerror(-master)))") }
      flags |= setSession
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, slave, O_RDWR, 0)
      posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO)
      inward = [-1, master]
      err = [fcntl(master, F_DUPFD_CLOEXEC, 0), -1]
    } else {
      guard channel(&err), channel(&inward) else { throw ScratchError("no pipe") }
      posix_spawn_file_actions_adddup2(&actions, inward[0], STDIN_FILENO)
      posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO)
    }
    // On a screen standard output is the terminal too; its own channel then ends at once.
    posix_spawn_file_actions_adddup2(&actions, terminal && screen ? STDIN_FILENO : out[1], STDOUT_FILENO)
    posix_spawnattr_setflags(&attributes, flags)

    let command = directory.map { ["env", "-C", $0] + command } ?? command
    var argv: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
    var envp: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for pointer in argv + envp { free(pointer) } }
    var started: pid_t = 0
    let failure = posix_spawnp(&started, command[0], &actions, &attributes, &argv, &envp)
    for descriptor in [out[1], err[1], inward[0]] where descriptor >= 0 { close(descriptor) }
    guard failure == 0 else { throw ScratchError("\(command[0]): \(String(cString: strerror(failure)))") }
    pid = started
    input = Mutex(inward[1])
    let (outEnd, errEnd) = (out[0], err[0])
    Thread.start { self.collect(outEnd, errEnd) }
  }

  deinit {
    endInput()
    if status == nil { kill(pid, SIGKILL) }
  }

  /// Reads both streams until the process ended and nothing more lies in them. A program it started may keep them open.
  private func collect(_ out: Int32, _ err: Int32) {
    var ended: Int32?
    var open = [out, err]
    var piece = [UInt8](repeating: 0, count: 65536)
    while true {
      var polled = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      let ready = poll(&polled, nfds_t(polled.count), ended == nil ? 5 : 0)
      for (index, entry) in polled.enumerated() where ready > 0 && entry.revents != 0 {
        let count = read(entry.fd, &piece, piece.count)
        if count > 0 {
          let bytes = piece[..<count]
          state.withLock { if entry.fd == out { $0.out += bytes } else { $0.err += bytes } }
        } else if count == 0 || errno != EINTR {
          open[index] = -1  // poll passes over it
        }
      }
      if ended != nil, ready <= 0 || open == [-1, -1] { break }
      if ended == nil {
        var status: Int32 = 0
        if waitpid(pid, &status, WNOHANG) == pid {
          ended = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
        } else if open == [-1, -1] {
          usleep(2000)
        }
      }
    }
    close(out)
    close(err)
    state.withLock { $0.status = ended }
  }

  /// The exit status; nil while it runs.
  package var status: Int32? { state.withLock { $0.status } }
  /// What it has printed so far.
  package var out: [UInt8] { state.withLock { $0.out } }
  /// What it has printed on standard error so far, or what its terminal showed.
  package var err: [UInt8] { state.withLock { $0.err } }

  /// Types or pipes text to it.
  package func send(_ text: String) {
    let bytes = Array(text.utf8)
    input.withLock { if $0 >= 0 { _ = marfa_write_all($0, bytes, bytes.count) } }
  }

  /// Ends its standard input.
  package func endInput() {
    input.withLock {
      if $0 >= 0 { close($0) }
      $0 = -1
    }
  }

  /// Sends it a signal.
  package func signal(_ number: Int32) { if status == nil { kill(pid, number) } }

  /// Waits until `condition` holds of it.
  /// - Throws: `ScratchError` with all it printed where the deadline passes first.
  package func wait(
    _ what: String, within deadline: Duration = .seconds(120), until condition: (ChildProcess) -> Bool
  ) async throws {
    let end = ContinuousClock.now + deadline
    while !condition(self) {
      guard ContinuousClock.now < end else {
        throw ScratchError(
          "waited \(deadline) for \(what)\n-- out: \(String(decoding: out, as: UTF8.self))\n-- err: "
            + String(decoding: err, as: UTF8.self))
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  /// Waits until it printed a text on either stream.
  package func shows(_ text: String, within deadline: Duration = .seconds(120)) async throws {
    try await wait("'\(text)'", within: deadline) {
      String(decoding: $0.out, as: UTF8.self).contains(text) || String(decoding: $0.err, as: UTF8.self).contains(text)
    }
  }

  /// Waits for its end.
  package func end(within deadline: Duration = .seconds(120)) async throws -> Ran {
    try await wait("its end", within: deadline) { $0.status != nil }
    return state.withLock { Ran(status: $0.status ?? -1, out: $0.out, err: $0.err) }
  }
}

/// `POSIX_SPAWN_SETSID`, which Glibc shows only to GNU sources: the terminal then is the program's own.
private let setSession: Int16 = 0x80

/// Two connected ends, kept from other children from the first moment on (a pipe needs a second call for that). What is
/// written to `ends[1]` is read from `ends[0]`.
private func channel(_ ends: inout [Int32]) -> Bool {
  socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0
}

/// A thread of its own.
package enum Thread {
  /// Runs `body` on one.
  package static func start(_ body: @escaping @Sendable () -> Void) {
    final class Box: Sendable {
      let body: @Sendable () -> Void
      init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body))
    let started = pthread_create(
      &thread, nil,
      { argument in
        if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
        return nil
      }, box.toOpaque())
    if started == 0 { pthread_detach(thread) } else { box.release() }
  }
}

/// Waits until `condition` holds.
/// - Throws: `ScratchError` where the deadline passes first.
package func eventually(
  _ what: String, within deadline: Duration = .seconds(120), _ condition: () throws -> Bool
) async throws {
  let end = ContinuousClock.now + deadline
  while try !condition() {
    guard ContinuousClock.now < end else { throw ScratchError("waited \(deadline) for \(what)") }
    try await Task.sleep(for: .milliseconds(5))
  }
}

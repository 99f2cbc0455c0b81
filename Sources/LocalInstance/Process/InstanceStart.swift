import CPosix
import Glibc
import MarfaBase

extension InstanceHome {
  /// Starts the instance detached where it is not running, and waits until it answers (N2.9). Two commands at once start
  /// one.
  /// - Parameters:
  ///   - program: our own binary, absolute; it is run as `program instance run --data DIR --idle-exit SECONDS`.
  ///   - environment: `NAME=value` lines for it; a credential among them is left out.
  ///   - launcher: words put before the program's, of a command that becomes it in the same process, found by `PATH`. Where
  ///     that fails the instance is started without it.
  /// - Returns: whether this call started it.
  /// - Throws: `.notReady` with the instance's own words after `patience` (10 s), or where it ended first.
  @discardableResult
  public func startOnDemand(
    program: PathBytes, environment: [[UInt8]], launcher: [PathBytes] = [], idleExitSeconds: Int = 600,
    patience: UInt64 = 10_000_000_000
  ) throws(InstanceFailure) -> Bool {
    if isAnswering() { return false }
    try make()
    let deadline = marfa_boottime() + patience
    let lock: InstanceLock?
    do throws(FileError) { lock = try InstanceLock.wait(startLockFile, nanoseconds: patience) } catch {
      throw .failed("\(error)")
    }
    guard let lock else {
      throw .notReady("this machine's own instance is being started by another command and is not ready")
    }
    defer { withExtendedLifetime(lock) {} }
    if isAnswering() { return false }
    var launcher = launcher
    while true {
      let (descriptor, begin) = try openLog()
      defer { close(descriptor) }
      guard let pid = try spawn(launcher, program, environment, idleExitSeconds, descriptor) else {
        launcher = []
        continue
      }
      while true {
        if isAnswering() {
          // The child outlives a short command; a long-lived one must not keep its remains.
          reapWhenEnded(pid)
          return true
        }
        var code: Int32 = 0
        let hasEnded = waitpid(pid, &code, WNOHANG) == pid
        if hasEnded, !launcher.isEmpty, !InstanceLock.holder(lockFile).isHeld, !endedBefore(code) {
          launcher = []
          break
        }
        if marfa_boottime() >= deadline || hasEnded && !InstanceLock.holder(lockFile).isHeld && !endedBefore(code) {
          if !hasEnded { reapWhenEnded(pid) }
          let words = logTail(descriptor, from: begin)
          throw .notReady(
            "this machine's own instance did not start" + (words.isEmpty ? "" : ": \(words)"))
        }
        usleep(20_000)
        // An instance that is just ending held the directory: once it is gone, this one is started again.
        if hasEnded {
          while InstanceLock.holder(lockFile).isHeld, !isAnswering(), marfa_boottime() < deadline { usleep(20_000) }
          break
        }
      }
    }
  }

  /// Whether a child ended because another held the directory (exit 4, N2.3).
  private func endedBefore(_ code: Int32) -> Bool { code & 0x7F == 0 && (code >> 8) & 0xFF == 4 }

  /// Opens the log for appending; one past 1 MiB becomes `instance.log.1` first (N2.10: bounded).
  private func openLog() throws(InstanceFailure) -> (descriptor: Int32, begin: Int64) {
    var found = marfa_stat()
    if log.withCString({ marfa_statx(AT_FDCWD, $0, &found) }) == 0, found.size > 1 << 20 {
      let old = PathBytes(bytes: log.bytes + Array(".1".utf8))
      _ = log.withCString { from in old.withCString { rename(from, $0) } }
    }
    let descriptor = log.withCString { marfa_openat(AT_FDCWD, $0, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600) }
    guard descriptor >= 0 else {
      throw .failed("\(FileError(code: -descriptor, operation: "open", path: log))")
    }
    return (descriptor, Int64(lseek(descriptor, 0, SEEK_END)))
  }

  /// - Returns: the process; nil where the launcher cannot be run.
  private func spawn(
    _ launcher: [PathBytes], _ program: PathBytes, _ environment: [[UInt8]], _ idleExitSeconds: Int, _ log: Int32
  ) throws(InstanceFailure) -> Int32? {
    let words: [PathBytes] = launcher + [program, "instance", "run", "--data", path, "--idle-exit"]
    let arguments = words.map(\.bytes) + [Array("\(idleExitSeconds)".utf8)]
    // K1.4: a credential of this command's is no business of the instance's, and what a service manager tells this process
    // is none either.
    let own = ["MARFA_API_KEY=", "NOTIFY_SOCKET=", "INVOCATION_ID=", "WATCHDOG_PID=", "WATCHDOG_USEC="]
    let kept = environment.filter { line in !own.contains { line.starts(with: $0.utf8) } }
    func copied(_ lines: [[UInt8]]) -> [UnsafeMutablePointer<CChar>?] {
      lines.map { line in
        (line + [0]).withUnsafeBufferPointer { $0.withMemoryRebound(to: CChar.self) { strdup($0.baseAddress!) } }
      }
        + [nil]
    }
    let argv = copied(arguments)
    let envp = copied(kept)
    defer { for each in argv + envp { free(each) } }
    let pid = (launcher.first ?? program).withCString { marfa_spawn_detached($0, argv, envp, log) }
    guard pid > 0 else {
      if !launcher.isEmpty { return nil }
      throw .notReady("this machine's own instance cannot be started: \(String(cString: strerror(-pid)))")
    }
    return pid
  }

  private func logTail(_ descriptor: Int32, from begin: Int64) -> String {
    var bytes = [UInt8](repeating: 0, count: 2000)
    let end = Int64(lseek(descriptor, 0, SEEK_END))
    let count = pread(descriptor, &bytes, bytes.count, off_t(max(begin, end - 2000)))
    let lines = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(whereSeparator: \.isNewline)
    return lines.suffix(3).joined(separator: " ")
  }

  private func reapWhenEnded(_ pid: Int32) {
    var thread = pthread_t()
    let begun = pthread_create(
      &thread, nil,
      { number in
        var code: Int32 = 0
        while waitpid(pid_t(Int(bitPattern: number)), &code, 0) < 0, errno == EINTR {}
        return nil
      }, UnsafeMutableRawPointer(bitPattern: Int(pid)))
    if begun == 0 { pthread_detach(thread) }
  }
}

import CPosix
import Glibc
import MarfaBase

/// Where an instance stands (N2.5). What isn't known is nil.
public struct InstanceStatus: Sendable {
  /// Whether it runs.
  public var isRunning: Bool
  /// `local`, or the address it listens on besides.
  public var url: String?
  /// Its process.
  public var pid: Int32?
  /// Its data directory.
  public var data: PathBytes
  /// Bytes of the files there.
  public var bytes: UInt64?
  /// Items it holds, the bin's included.
  public var items: Int?
  /// Since when it runs, RFC 3339.
  public var since: String?

  /// The object of `instance status --json`.
  public var json: JSON {
    [
      "running": .bool(isRunning), "url": .optional(url.map { Text($0) }), "pid": pid.map { .int($0) } ?? .null,
      "data": .string(data.text), "bytes": bytes.map { .int($0) } ?? .null, "items": items.map { .int($0) } ?? .null,
      "since": .optional(since.map { Text($0) }),
    ]
  }
}

extension InstanceHome {
  /// Where it stands now. Never fails: what can't be told is nil.
  public func status() -> InstanceStatus {
    let holder = InstanceLock.holder(lockFile)
    var status = InstanceStatus(isRunning: holder.isHeld, data: path)
    var found = marfa_stat()
    guard path.withCString({ marfa_statx_follow(AT_FDCWD, $0, &found) }) == 0 else { return status }
    status.bytes = PrivateFile.bytes(below: path)
    if let database = try? Database(path: database.description, mode: .readOnly) {
      try? database.execute("PRAGMA busy_timeout = 1000")
      status.items = (try? database.one("SELECT count(*) FROM item") { $0.int(0) }).flatMap { $0 }
    }
    guard holder.isHeld else { return status }
    status.pid = holder.pid
    if let bytes = (try? PrivateFile.read(statusFile, limit: 65_536)).flatMap({ $0 }),
      let told = try? JSON(parsing: bytes),
      case .object(let members) = told
    {
      if case .string(let url)? = members["url"] { status.url = url.string }
      if case .string(let since)? = members["since"] { status.since = since.string }
    }
    return status
  }

  /// Ends a running instance as SIGTERM does and waits until it is gone (N2.6).
  /// - Returns: whether one ran.
  @discardableResult
  public func stop(patience: UInt64 = 12_000_000_000) throws(InstanceFailure) -> Bool {
    var holder = InstanceLock.holder(lockFile)
    guard holder.isHeld else { return false }
    let deadline = marfa_boottime() + patience
    var told: Int32?
    while holder.isHeld {
      // A process that took the lock meanwhile is another run, and is told as well.
      if let pid = holder.pid, pid != told {
        guard kill(pid, SIGTERM) == 0 || errno == ESRCH else {
          throw .failed("the instance (process \(pid)) cannot be ended: \(String(cString: strerror(errno)))")
        }
        told = pid
      }
      if marfa_boottime() >= deadline {
        throw .failed("the instance\(told.map { " (process \($0))" } ?? "") did not end in time")
      }
      usleep(20_000)
      holder = InstanceLock.holder(lockFile)
    }
    return true
  }
}

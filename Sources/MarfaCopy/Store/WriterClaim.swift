import CPosix
import Glibc
import MarfaBase

/// The writer claim on a store: an exclusive lock on `<store>.lock` beside it, held as long as the folder is worked (X12,
/// H7). The kernel drops it when the process dies, however it dies.
package final class WriterClaim {
  /// What an attempt gave.
  package enum Attempt {
    /// It is ours.
    case taken(WriterClaim)
    /// Another open file holds it, in this process or another.
    case held
    /// The directory that held it is gone: `remove` deleted it meanwhile (H8).
    case noFolder
  }

  private let file: any LockFile
  /// It lies under `/run/user` (H7): it excludes this machine's processes alone, which the storage warning says.
  package let isFallback: Bool
  private var isHeld = true

  private init(_ file: any LockFile, isFallback: Bool) {
    self.file = file
    self.isFallback = isFallback
  }

  /// Says in the lock file who holds it, for messages alone (P7.5): that it is held is the lock.
  private func sign(_ files: any FileSystem) {
    try? file.replaceContents(ClaimOwner(here: files).json.write() + [0x0A])
  }

  /// Who the text of a held claim names; nil where it names nobody.
  package static func owner(
    in state: any Directory, store: PathBytes = "core.sqlite"
  ) -> ClaimOwner? {
    let name = PathBytes(bytes: store.bytes + Array(".lock".utf8))
    guard let bytes = try? state.open(name).read(limit: 4096), let json = try? JSON(parsing: bytes) else { return nil }
    return ClaimOwner(json: json)
  }

  deinit { release() }

  /// Drops it. The lock file stays, empty again (X6).
  package func release() {
    guard isHeld else { return }
    isHeld = false
    try? file.replaceContents([])
    file.unlock()
  }

  /// Tries to take it, without waiting.
  /// - Parameters:
  ///   - state: the open directory the store lies in.
  ///   - store: the store's whole file name; two stores in one directory each have their own claim (X12.1).
  ///   - fallback: where a lock file is kept for a file system without locks.
  /// - Throws: `io` where no lock of any kind is to be had (X12.5).
  package static func attempt(
    in state: any Directory, store: PathBytes = "core.sqlite", files: any FileSystem, fallback: LockFallback? = nil
  ) throws(MarfaError) -> Attempt {
    let name = PathBytes(bytes: store.bytes + Array(".lock".utf8))
    // Each turn is one deletion by somebody else.
    for _ in 0..<100 {
      do throws(FileError) {
        guard let file = try files.lockFile(name, in: state, create: true) else { continue }
        guard try file.lock(.exclusive, wait: false) else { return .held }
        // H8: the path must still lead to the file that was locked.
        let own = try file.status()
        if own.links > 0, let found = try state.status(of: name), found.inode == own.inode {
          let claim = WriterClaim(file, isFallback: false)
          claim.sign(files)
          return .taken(claim)
        }
        file.unlock()
        if try state.status().links == 0 { return .noFolder }
      } catch {
        switch error.code {
        case ENOENT: return .noFolder
        case EOPNOTSUPP, ENOLCK, EINVAL, ENOSYS:
          guard let fallback else { throw noLocks(error) }
          guard let file = try fallback.open("lock", files, after: error) else { return .held }
          return .taken(WriterClaim(file, isFallback: true))
        default: throw MarfaError(error)
        }
      }
    }
    return .held
  }

  static func noLocks(_ error: FileError) -> MarfaError {
    MarfaError(
      .io,
      "the file system of \(error.path) has no locks (\(error.reason)), and none can be kept under /run/user: "
        + "a folder there could be worked by two programs at once")
  }
}

/// Who holds a claim: the machine, the user, the process (P7.5).
package struct ClaimOwner: Hashable, Sendable {
  package var machine: Text?
  package var host: Text?
  package var user: Text?
  package var pid: Int
  /// Tells one claim from another.
  package var since: UInt64

  /// This process.
  init(here files: any FileSystem) {
    machine = ClaimOwner.machine(files)
    var name = [CChar](repeating: 0, count: 256)
    host =
      gethostname(&name, name.count - 1) == 0
      ? Text(bytes: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }) : nil
    user = ClaimOwner.user(geteuid())
    pid = Int(files.writer.pid)
    since = marfa_boottime()
  }

  init?(json: JSON) {
    guard let pid = json["pid"]?.int else { return nil }
    machine = json["machine"]?.text
    host = json["host"]?.text
    user = json["user"]?.text
    self.pid = pid
    since = json["since"]?.text.flatMap { UInt64($0.string) } ?? 0
  }

  var json: JSON {
    [
      "pid": .int(pid), "user": .optional(user), "host": .optional(host), "machine": .optional(machine),
      "since": .string(Text(String(since))),
    ]
  }

  /// Whether it is another computer or another user than this one, in words; nil where it is not, or cannot be told.
  package func stranger(_ files: any FileSystem) -> String? {
    if let machine, let own = ClaimOwner.machine(files), machine != own {
      return "the computer \(host ?? machine)" + (user.map { " (user \($0))" } ?? "")
    }
    if let user, let own = ClaimOwner.user(geteuid()), user != own { return "the user \(user)" }
    return nil
  }

  /// A user's name, else their number.
  package static func user(_ id: UInt32) -> Text? {
    guard let found = getpwuid(id), let name = found.pointee.pw_name else { return Text(String(id)) }
    return Text(String(cString: name))
  }

  /// The machine's id; nil where it has none.
  package static func machine(_ files: any FileSystem) -> Text? {
    for path in ["/etc/machine-id", "/var/lib/dbus/machine-id"] as [PathBytes] {
      guard let bytes = try? files.openDirectory(path.parent).open(path.name).read(limit: 256) else { continue }
      let id = bytes.prefix { $0 > 0x20 }
      if !id.isEmpty { return Text(bytes: Array(id)) }
    }
    return nil
  }
}

/// Where locks are kept for a file system that has none: `/run/user/<uid>/marfa/<name>.lock`, whatever the environment
/// says (H7).
package struct LockFallback: Sendable {
  private let uid: UInt32
  private let name: PathBytes
  private let base: PathBytes

  /// Locks of a store by its id, or of a directory that has none yet by the digest of its path.
  package init(uid: UInt32, name: PathBytes, base: PathBytes? = nil) {
    self.uid = uid
    self.name = name
    self.base = base ?? PathBytes("/run/user/\(uid)")
  }

  /// The locked file; nil where another holds it.
  func open(_ ending: String, _ files: any FileSystem, after failure: FileError) throws(MarfaError) -> (any LockFile)? {
    do throws(FileError) {
      guard let file = try file(ending, files, create: true) else { return nil }
      return try file.lock(.exclusive, wait: false) ? file : nil
    } catch {
      throw WriterClaim.noLocks(failure)
    }
  }

  /// The file, not locked yet; nil where it is missing and not to be made.
  package func file(_ ending: String, _ files: any FileSystem, create: Bool) throws(FileError) -> (any LockFile)? {
    let runtime = try files.openDirectory(base)
    if create {
      do throws(FileError) { try runtime.makeDirectory("marfa", mode: 0o700) } catch {
        if error.code != EEXIST { throw error }
      }
    } else if try runtime.status(of: "marfa") == nil {
      return nil
    }
    let directory = try runtime.directory("marfa")
    let status = try directory.status()
    guard status.owner == uid, status.mode & 0o077 == 0 else {
      throw FileError(code: EACCES, operation: "use", path: base.appending("marfa"))
    }
    return try files.lockFile(PathBytes(bytes: name.bytes + Array(".\(ending)".utf8)), in: directory, create: create)
  }
}

/// Whether a failed lock says that the file system has none (X12.5).
package func tellsNoLocks(_ error: FileError) -> Bool { [EOPNOTSUPP, ENOLCK, EINVAL, ENOSYS].contains(error.code) }

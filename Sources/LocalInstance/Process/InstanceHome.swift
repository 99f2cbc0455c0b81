import CPosix
import Glibc
import MarfaBase

/// The data directory of this machine's own instance (N2.1): its database, blobs, owner key, lock, socket and log.
///
///     let home = InstanceHome(InstanceHome.defaultPath(dataHome: xdg, home: home)!)
///     try home.startOnDemand(program: "/usr/bin/marfa-folders")
///     let key = try home.ownerKey()
public struct InstanceHome: Hashable, Sendable {
  /// The directory, absolute.
  public let path: PathBytes

  /// The instance whose data is there. The path is absolute.
  public init(_ path: PathBytes) { self.path = path }

  /// `$XDG_DATA_HOME/marfa-folders/instance`, where that is absolute, else below `$HOME/.local/share`; nil with neither.
  public static func defaultPath(dataHome: PathBytes?, home: PathBytes?) -> PathBytes? {
    if let dataHome, dataHome.isAbsolute { return dataHome.appending("marfa-folders/instance") }
    guard let home, home.isAbsolute else { return nil }
    return home.appending(".local/share/marfa-folders/instance")
  }

  /// The unix socket our own commands reach it at.
  public var socket: PathBytes { path.appending("instance.sock") }
  /// What it says where there is no journal (N2.10).
  public var log: PathBytes { path.appending("instance.log") }
  var database: PathBytes { path.appending("instance.sqlite") }
  var blobs: PathBytes { path.appending("blobs") }
  var keyFile: PathBytes { path.appending("owner.key") }
  var lockFile: PathBytes { path.appending("instance.lock") }
  var startLockFile: PathBytes { path.appending("start.lock") }
  var statusFile: PathBytes { path.appending("instance.json") }

  /// Whether an instance ever ran here.
  public var holdsData: Bool {
    var found = marfa_stat()
    return database.withCString { marfa_statx(AT_FDCWD, $0, &found) } == 0
  }

  /// The owner's key, as our own commands at `local` read it. Nil where the instance never ran.
  /// - Throws: `InstanceFailure.failed` for a file that is there and can't be used.
  public func ownerKey() throws(InstanceFailure) -> String? {
    let bytes: [UInt8]?
    do throws(FileError) { bytes = try PrivateFile.read(keyFile, limit: 4096) } catch { throw .failed("\(error)") }
    guard let bytes else { return nil }
    let key = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
    guard Self.isKey(key) else { throw .failed("\(keyFile) holds no key") }
    return key
  }

  private static func isKey(_ key: String) -> Bool {
    key.utf8.starts(with: "marfa_k1_".utf8) && (20...200).contains(key.utf8.count)
      && key.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
  }

  /// Makes the directory, mode 0700 whatever stood there.
  func make() throws(InstanceFailure) {
    guard path.isAbsolute, path.isValidUTF8 else { throw .invalid("\(path) cannot hold an instance's data") }
    do throws(FileError) {
      let files = SystemFileSystem()
      // What is acknowledged lasts only where the directories it lies in do.
      try files.syncNames(of: try files.makeDirectories(path, mode: 0o700))
    } catch {
      throw .failed("\(error)")
    }
    var found = marfa_stat()
    let code = path.withCString { marfa_statx_follow(AT_FDCWD, $0, &found) }
    guard code == 0, found.mode & 0o170000 == 0o040000 else { throw .failed("\(path) is no directory") }
    guard found.uid == geteuid() else { throw .failed("\(path) belongs to another user") }
    if found.mode & 0o077 != 0 {
      guard path.withCString({ chmod($0, 0o700) }) == 0 else { throw .failed("\(path) is open to other users") }
    }
  }

  /// The owner's key, minted at the first run.
  func mintedKey() throws(InstanceFailure) -> String {
    if let key = try ownerKey() { return key }
    var random = [UInt8](repeating: 0, count: 32)
    guard marfa_random(&random, 32) == 0 else { throw .failed("the kernel gave no random bytes") }
    let digits = Array("0123456789abcdef".utf8)
    let key =
      "marfa_k1_" + String(decoding: random.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    do throws(FileError) { try PrivateFile.write(keyFile, Array((key + "\n").utf8), lasting: true) } catch {
      throw .failed("\(error)")
    }
    return key
  }

  /// Whether an instance of our own user accepts connections at the socket now.
  public func isAnswering() -> Bool {
    let descriptor = connectUnix(socket)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return marfa_peer_uid(descriptor) == Int32(bitPattern: geteuid())
  }
}

/// The lock of a running instance: held for its life, dropped however it dies.
final class InstanceLock {
  private let descriptor: Int32

  private init(_ descriptor: Int32) { self.descriptor = descriptor }

  deinit { close(descriptor) }

  /// Takes the lock, writing who holds it; nil where another process does. A process that only looks holds it for an
  /// instant, so this tries for a moment.
  static func take(_ path: PathBytes) throws(FileError) -> InstanceLock? {
    let lock = InstanceLock(try open(path))
    var tries = 0
    while flock(lock.descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR else { throw FileError(code: errno, operation: "lock", path: path) }
      tries += 1
      if tries > 10 { return nil }
      usleep(10_000)
    }
    let text = Array("\(getpid())\n".utf8)
    guard ftruncate(lock.descriptor, 0) == 0, marfa_write_all(lock.descriptor, text, text.count) == 0 else {
      throw FileError(code: errno, operation: "write", path: path)
    }
    return lock
  }

  /// Takes the lock, waiting for it at most so long; nil where the time is over.
  static func wait(_ path: PathBytes, nanoseconds: UInt64) throws(FileError) -> InstanceLock? {
    let lock = InstanceLock(try open(path))
    let deadline = marfa_boottime() + nanoseconds
    while flock(lock.descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR else { throw FileError(code: errno, operation: "lock", path: path) }
      if marfa_boottime() >= deadline { return nil }
      usleep(20_000)
    }
    return lock
  }

  /// Whether some process holds the lock, and the pid it wrote.
  static func holder(_ path: PathBytes) -> (isHeld: Bool, pid: Int32?) {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW, 0) }
    guard descriptor >= 0 else { return (false, nil) }
    defer { close(descriptor) }
    if flock(descriptor, LOCK_SH | LOCK_NB) == 0 { return (false, nil) }
    var bytes = [UInt8](repeating: 0, count: 32)
    let count = pread(descriptor, &bytes, 32, 0)
    let text = String(decoding: bytes.prefix(max(0, count)).prefix { $0 >= 0x30 && $0 <= 0x39 }, as: UTF8.self)
    return (true, Int32(text).flatMap { $0 > 1 ? $0 : nil })
  }

  private static func open(_ path: PathBytes) throws(FileError) -> Int32 {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    return descriptor
  }
}

/// Connects to a unix socket, waiting two seconds at most for room in its backlog. A descriptor, or -errno.
func connectUnix(_ path: PathBytes) -> Int32 {
  guard let reach = UnixPath(path) else { return -ENAMETOOLONG }
  let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
  guard descriptor >= 0 else { return -errno }
  var patience = timeval(tv_sec: 2, tv_usec: 0)
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
  let connected = reach.withAddress { connect(descriptor, $0, $1) }
  guard connected == 0 else {
    let code = errno
    close(descriptor)
    return -code
  }
  return descriptor
}

/// A unix socket's path as an address; one longer than an address holds is reached through its directory's descriptor,
/// which this keeps open.
final class UnixPath {
  private let directory: Int32
  private let bytes: [UInt8]

  init?(_ path: PathBytes) {
    let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1
    if path.bytes.count <= room {
      directory = -1
      bytes = path.bytes
      return
    }
    let opened = path.parent.withCString { marfa_openat(AT_FDCWD, $0, marfa_o_path | O_DIRECTORY, 0) }
    guard opened >= 0 else { return nil }
    directory = opened
    bytes = Array("/proc/self/fd/\(opened)/".utf8) + path.name.bytes
    if bytes.count > room { return nil }
  }

  deinit { if directory >= 0 { close(directory) } }

  func withAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }
}

import CPosix
import Glibc
import MarfaBase

/// Why an origin's lock could not be taken: something else is there (X21.5). `invalid`, naming the path.
public struct CredentialLockError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What is not as it must be.
  public var path: PathBytes
  /// Why.
  public var reason: String

  /// The sentence for the person.
  public var description: String { "\(path) \(reason); no credential was read and nothing was sent" }
}

/// The lock that whoever changes or refreshes an origin's kept credential holds meanwhile, across all processes of the
/// user (X21). Dropped when it goes.
///
/// Its place comes from the user database, never from `$HOME`: two programs started with different environments meet.
public struct CredentialLock: ~Copyable {
  private let descriptor: Int32

  deinit { close(descriptor) }

  /// Waits for the lock of an origin (`https://marfa.example`).
  /// - Parameter home: the user's home by the user database; tests name another.
  public init(origin: String, home: PathBytes? = CredentialLock.homeDirectory) throws(CredentialLockError) {
    guard let home else {
      throw CredentialLockError(path: ".marfa-credential-locks", reason: "has no home directory in the user database")
    }
    let place = home.appending(".marfa-credential-locks")
    let directory = try Self.open(directory: place)
    defer { close(directory) }
    let name = PathBytes(ContentHash(of: Array(origin.utf8)).hex + ".lock")
    let path = place.appending(name)
    let opened = name.withCString {
      marfa_openat(directory, $0, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
    }
    guard opened >= 0 else {
      throw CredentialLockError(path: path, reason: "cannot be opened: \(String(cString: strerror(-opened)))")
    }
    var found = marfa_stat()
    let reason: String?
    if marfa_statx(opened, "", &found) != 0 {
      reason = "cannot be read"
    } else if found.mode & 0o170000 != 0o100000 {
      reason = "is no regular file"
    } else if found.uid != geteuid() {
      reason = "belongs to another user"
    } else if found.links != 1 {
      reason = "has more than one name"
    } else if found.mode & 0o077 != 0 {
      reason = "is open to other users"
    } else {
      reason = nil
    }
    if let reason {
      close(opened)
      throw CredentialLockError(path: path, reason: reason)
    }
    while flock(opened, LOCK_EX) != 0 {
      let code = errno
      if code == EINTR { continue }
      close(opened)
      throw CredentialLockError(path: path, reason: "cannot be locked: \(String(cString: strerror(code)))")
    }
    descriptor = opened
  }

  /// Lets the lock go now.
  public consuming func release() {}

  private static func open(directory place: PathBytes) throws(CredentialLockError) -> Int32 {
    if place.withCString({ mkdir($0, 0o700) }) != 0, errno != EEXIST {
      throw CredentialLockError(path: place, reason: "cannot be made: \(String(cString: strerror(errno)))")
    }
    let opened = place.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0) }
    guard opened >= 0 else {
      throw CredentialLockError(path: place, reason: "is not a directory of our own")
    }
    var found = marfa_stat()
    let reason: String?
    if marfa_statx(opened, "", &found) != 0 {
      reason = "cannot be read"
    } else if found.uid != geteuid() {
      reason = "belongs to another user"
    } else if found.mode & 0o077 != 0 {
      reason = "is open to other users"
    } else {
      reason = nil
    }
    if let reason {
      close(opened)
      throw CredentialLockError(path: place, reason: reason)
    }
    return opened
  }

  /// The effective user's home by the user database (X21.2).
  public static var homeDirectory: PathBytes? {
    var entry = passwd()
    var found: UnsafeMutablePointer<passwd>?
    var room = [CChar](repeating: 0, count: 65_536)
    guard getpwuid_r(geteuid(), &entry, &room, room.count, &found) == 0, found != nil, let home = entry.pw_dir else {
      return nil
    }
    let path = PathBytes(bytes: UnsafeBufferPointer(start: home, count: strlen(home)).map { UInt8(bitPattern: $0) })
    return path.isAbsolute ? path : nil
  }
}

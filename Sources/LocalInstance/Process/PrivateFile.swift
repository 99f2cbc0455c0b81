import CPosix
import Glibc
import MarfaBase

/// Small private files of the data directory, 0600, written whole or not at all.
enum PrivateFile {
  /// The bytes of a file of our own user's that no other can read; nil where there is none.
  static func read(_ path: PathBytes, limit: Int) throws(FileError) -> [UInt8]? {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0) }
    if descriptor == -ENOENT { return nil }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    defer { close(descriptor) }
    var found = marfa_stat()
    guard marfa_statx(descriptor, "", &found) == 0, found.mode & 0o170000 == 0o100000, found.uid == geteuid(),
      found.mode & 0o077 == 0
    else { throw FileError(code: EACCES, operation: "trust", path: path) }
    var bytes = [UInt8](repeating: 0, count: limit)
    var count = 0
    while count < limit {
      let got = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress! + count, limit - count) }
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { throw FileError(code: errno, operation: "read", path: path) }
      if got == 0 { break }
      count += got
    }
    return Array(bytes[..<count])
  }

  /// Writes bytes by a temporary file beside and a rename; `lasting`, durably.
  static func write(_ path: PathBytes, _ bytes: [UInt8], lasting: Bool) throws(FileError) {
    let temporary = PathBytes(bytes: path.bytes + Array(".writing".utf8))
    _ = temporary.withCString { unlink($0) }
    let descriptor = temporary.withCString {
      marfa_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "make", path: temporary) }
    var code = marfa_write_all(descriptor, bytes, bytes.count)
    if lasting, code == 0, fsync(descriptor) != 0 { code = errno }
    if close(descriptor) != 0, code == 0 { code = errno }
    if code == 0, temporary.withCString({ from in path.withCString { rename(from, $0) } }) != 0 { code = errno }
    guard code == 0 else {
      _ = temporary.withCString { unlink($0) }
      throw FileError(code: code, operation: "write", path: path)
    }
    if lasting { try syncDirectory(path.parent) }
  }

  /// Makes an empty file where there is none.
  static func touch(_ path: PathBytes) throws(FileError) {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    close(descriptor)
  }

  /// Makes a directory's entries durable.
  static func syncDirectory(_ path: PathBytes) throws(FileError) {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_DIRECTORY, 0) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    defer { close(descriptor) }
    if fsync(descriptor) != 0, errno != EINVAL { throw FileError(code: errno, operation: "sync", path: path) }
  }

  /// Names in a directory, `.` and `..` left out; empty where it is not there.
  static func names(in path: PathBytes) -> [PathBytes] {
    guard let directory = try? SystemFileSystem().openDirectory(path), let entries = try? directory.list() else {
      return []
    }
    return entries.map(\.name)
  }

  /// Bytes of the regular files below a directory.
  static func bytes(below path: PathBytes) -> UInt64 {
    var total: UInt64 = 0
    for name in names(in: path) {
      var found = marfa_stat()
      let child = path.appending(name)
      guard child.withCString({ marfa_statx(AT_FDCWD, $0, &found) }) == 0 else { continue }
      switch found.mode & 0o170000 {
      case 0o100000: total += found.size
      case 0o040000: total += bytes(below: child)
      default: break
      }
    }
    return total
  }
}

import CPosix
import Glibc

/// A file descriptor, owned: closed when it goes out of scope, and never inherited by a child (X12.6).
public struct Descriptor: ~Copyable {
  /// The number, valid while this value lives.
  public let number: Int32

  /// Owns an open descriptor.
  public init(owning number: Int32) { self.number = number }

  deinit { _ = Glibc.close(number) }

  /// Opens `name` relative to `directory`; close-on-exec is added.
  static func open(
    _ name: PathBytes, in directory: Int32, flags: Int32, mode: UInt32 = 0, operation: String = "open"
  ) throws(FileError) -> Descriptor {
    while true {
      let result = name.withCString { marfa_openat(directory, $0, flags, mode) }
      if result >= 0 { return Descriptor(owning: result) }
      if -result != EINTR { throw FileError(code: -result, operation: operation, path: name) }
    }
  }

  /// Closes it and gives what `close` answered: 0, or the error number of a write that failed late (P5.2).
  consuming func close() -> Int32 {
    let number = number
    discard self
    return Glibc.close(number) == 0 || errno == EINTR ? 0 : errno
  }
}

extension FileStatus {
  init(_ from: marfa_stat) {
    let kind: FileKind =
      switch from.mode & 0o170000 {
      case 0o100000: .regular
      case 0o040000: .directory
      case 0o120000: .link
      default: .special
      }
    func nanoseconds(_ seconds: Int64, _ rest: UInt32) -> Int64 {
      let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
      return overflow ? (seconds < 0 ? .min : .max) : product &+ Int64(rest)
    }
    self.init(
      kind: kind, mode: from.mode & 0o7777, size: from.size,
      modified: nanoseconds(from.mtime_seconds, from.mtime_nanoseconds),
      changed: nanoseconds(from.ctime_seconds, from.ctime_nanoseconds), device: from.device, mount: from.mount,
      inode: from.inode, birth: from.has_btime ? nanoseconds(from.btime_seconds, from.btime_nanoseconds) : nil,
      owner: from.uid, group: from.gid, links: from.links, immutable: from.immutable)
  }

  /// What an open descriptor is now.
  static func of(descriptor: Int32, path: PathBytes) throws(FileError) -> FileStatus {
    var found = marfa_stat()
    let code = marfa_statx(descriptor, "", &found)
    guard code == 0 else { throw FileError(code: code, operation: "look", path: path) }
    return FileStatus(found)
  }
}

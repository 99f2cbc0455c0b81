import CPosix
import Glibc

/// The attribute that holds a POSIX access list.
public let accessListAttribute = "system.posix_acl_access"

/// A file of the machine's disk, open for reading.
final class SystemReadableFile: ReadableFile {
  private let descriptor: Descriptor
  private let path: PathBytes
  private let opened: FileStatus
  private var wasProbed = false

  init(_ descriptor: consuming Descriptor, path: PathBytes) throws(FileError) {
    opened = try FileStatus.of(descriptor: descriptor.number, path: path)
    self.descriptor = descriptor
    self.path = path
  }

  func status() throws(FileError) -> FileStatus { try FileStatus.of(descriptor: descriptor.number, path: path) }

  func statusAtOpening() throws(FileError) -> FileStatus { opened }

  func read(limit: Int) throws(FileError) -> [UInt8] {
    var code: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      while true {
        let got = Glibc.read(descriptor.number, buffer.baseAddress, limit)
        if got >= 0 {
          count = got
          return
        }
        if errno != EINTR {
          code = errno
          return
        }
      }
    }
    if code != 0 { throw FileError(code: code, operation: "read", path: path) }
    return bytes
  }

  func hasWriter() -> Bool? {
    // What signal a broken lease sends is told once.
    let result = marfa_probe_writer(descriptor.number, wasProbed ? 1 : 0)
    wasProbed = true
    switch result {
    case 0: return false
    case EAGAIN: return true
    default: return nil
    }
  }

  func attributes() throws(FileError) -> [(name: String, value: [UInt8])] {
    // Most files have none, and need no room for them.
    if flistxattr(descriptor.number, nil, 0) == 0 { return [] }
    var names = [CChar](repeating: 0, count: 65_536)
    let count = flistxattr(descriptor.number, &names, names.count)
    if count < 0 {
      if errno == EOPNOTSUPP || errno == ENOSYS { return [] }
      throw FileError(code: errno, operation: "read attributes", path: path)
    }
    var found: [(name: String, value: [UInt8])] = []
    for part in names[..<count].split(separator: 0) {
      guard let name = String(validating: part.map { UInt8(bitPattern: $0) }, as: UTF8.self) else { continue }
      guard name.utf8.starts(with: "user.".utf8) || name.utf8.elementsEqual(accessListAttribute.utf8) else { continue }
      var value = [UInt8](repeating: 0, count: 65_536)
      let size = fgetxattr(descriptor.number, name, &value, value.count)
      if size < 0 {
        if errno == ENODATA { continue }
        throw FileError(code: errno, operation: "read attributes", path: path)
      }
      found.append((name, Array(value[..<size])))
    }
    return found
  }
}

/// A file of the machine's disk, being made.
final class SystemWritableFile: WritableFile {
  private var descriptor: Descriptor?
  private let path: PathBytes

  init(_ descriptor: consuming Descriptor, path: PathBytes) {
    self.descriptor = consume descriptor
    self.path = path
  }

  private func number() -> Int32 {
    switch descriptor {
    case .some(let descriptor): descriptor.number
    case .none: -1
    }
  }

  func write(_ bytes: [UInt8]) throws(FileError) {
    let number = number()
    let code = bytes.withUnsafeBytes { marfa_write_all(number, $0.baseAddress, $0.count) }
    if code != 0 { throw FileError(code: code, operation: "write", path: path) }
  }

  func setMode(_ mode: UInt32) throws(FileError) {
    if fchmod(number(), mode_t(mode)) != 0 { throw FileError(code: errno, operation: "set mode", path: path) }
  }

  func setOwner(_ owner: UInt32, group: UInt32) throws(FileError) {
    if fchown(number(), owner, group) != 0, errno != EPERM {
      throw FileError(code: errno, operation: "set owner", path: path)
    }
  }

  func setAttribute(_ name: String, _ value: [UInt8]) throws(FileError) {
    if fsetxattr(number(), name, value, value.count, 0) != 0 {
      throw FileError(code: errno, operation: "set attribute", path: path)
    }
  }

  func sync() throws(FileError) {
    if fsync(number()) != 0 { throw FileError(code: errno, operation: "sync", path: path) }
  }

  func status() throws(FileError) -> FileStatus { try FileStatus.of(descriptor: number(), path: path) }

  func close() throws(FileError) {
    guard let open = descriptor.take() else { return }
    let code = open.close()
    if code != 0 { throw FileError(code: code, operation: "close", path: path) }
  }
}

/// A file of the machine's disk that locks are taken on.
final class SystemLockFile: LockFile {
  private let descriptor: Descriptor
  private let path: PathBytes
  private var byDescription = false

  init(_ descriptor: consuming Descriptor, path: PathBytes) {
    self.descriptor = descriptor
    self.path = path
  }

  func lock(_ mode: LockMode, wait: Bool) throws(FileError) -> Bool {
    let operation = (mode == .shared ? LOCK_SH : LOCK_EX) | (wait ? 0 : LOCK_NB)
    while true {
      if flock(descriptor.number, operation) == 0 { return true }
      let code = errno
      switch code {
      case EINTR: continue
      case EWOULDBLOCK: return false
      case EOPNOTSUPP, ENOLCK, EINVAL, ENOSYS:
        let code = marfa_ofd_lock(descriptor.number, mode == .shared ? 1 : 2, wait)
        if code == 0 {
          byDescription = true
          return true
        }
        if code == EAGAIN || code == EACCES { return false }
        throw FileError(code: code, operation: "lock", path: path)
      default: throw FileError(code: code, operation: "lock", path: path)
      }
    }
  }

  func unlock() {
    if byDescription { _ = marfa_ofd_lock(descriptor.number, 0, false) } else { _ = flock(descriptor.number, LOCK_UN) }
  }

  func status() throws(FileError) -> FileStatus { try FileStatus.of(descriptor: descriptor.number, path: path) }

  func contents() throws(FileError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = pread(descriptor.number, &bytes, bytes.count, 0)
    if count < 0 { throw FileError(code: errno, operation: "read", path: path) }
    return Array(bytes[..<count])
  }

  func replaceContents(_ bytes: [UInt8]) throws(FileError) {
    if ftruncate(descriptor.number, 0) != 0 { throw FileError(code: errno, operation: "write", path: path) }
    if !bytes.isEmpty, pwrite(descriptor.number, bytes, bytes.count, 0) != bytes.count {
      throw FileError(code: errno, operation: "write", path: path)
    }
  }
}

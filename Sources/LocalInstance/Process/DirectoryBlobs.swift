import CPosix
import Glibc
import MarfaBase

/// Blobs in a directory, one file each, named by 64 hex digits; read only and 0600.
public final class DirectoryBlobs: InstanceBlobs {
  private let path: PathBytes
  private var count = 0

  /// The blobs in a directory, made 0700 where missing. What a dead process left half-written goes.
  public init(_ path: PathBytes) throws {
    self.path = path
    _ = try SystemFileSystem().makeDirectories(path, mode: 0o700)
    for name in PrivateFile.names(in: path) where name.bytes.starts(with: ".incoming-".utf8) {
      _ = path.appending(name).withCString { unlink($0) }
    }
  }

  private func file(_ hash: ContentHash) -> PathBytes { path.appending(PathBytes(hash.hex)) }

  /// Keeps bytes: written beside, synced, renamed, the directory synced (B2.8, B2.9).
  public func keep(_ bytes: [UInt8], as hash: ContentHash) throws {
    if size(of: hash) == bytes.count { return }
    count += 1
    let temporary = path.appending(PathBytes(".incoming-\(getpid())-\(count)"))
    let descriptor = temporary.withCString { marfa_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL, 0o600) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "make", path: temporary) }
    var code = bytes.withUnsafeBytes { marfa_write_all(descriptor, $0.baseAddress, $0.count) }
    if code == 0, fsync(descriptor) != 0 { code = errno }
    if close(descriptor) != 0, code == 0 { code = errno }
    let target = file(hash)
    if code == 0, temporary.withCString({ from in target.withCString { rename(from, $0) } }) != 0 { code = errno }
    guard code == 0 else {
      _ = temporary.withCString { unlink($0) }
      throw FileError(code: code, operation: "write", path: target)
    }
    try PrivateFile.syncDirectory(path)
  }

  /// Begins a blob beside the others; its file takes its name once it is whole.
  public func begin() throws -> any ArrivingBlob {
    count += 1
    let temporary = path.appending(PathBytes(".incoming-\(getpid())-\(count)"))
    let descriptor = temporary.withCString { marfa_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL, 0o600) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "make", path: temporary) }
    return WrittenBlob(self, descriptor, temporary)
  }

  fileprivate func settle(_ temporary: PathBytes, as hash: ContentHash) throws {
    let target = file(hash)
    guard temporary.withCString({ from in target.withCString { rename(from, $0) } }) == 0 else {
      throw FileError(code: errno, operation: "write", path: target)
    }
    try PrivateFile.syncDirectory(path)
  }

  /// The size of a blob.
  public func size(of hash: ContentHash) -> Int? {
    var found = marfa_stat()
    guard file(hash).withCString({ marfa_statx(AT_FDCWD, $0, &found) }) == 0, found.mode & 0o170000 == 0o100000 else {
      return nil
    }
    return Int(found.size)
  }

  /// Some bytes of a blob.
  public func read(_ hash: ContentHash, from start: Int, count: Int) throws -> [UInt8]? {
    let path = file(hash)
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW, 0) }
    if descriptor == -ENOENT { return nil }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    defer { close(descriptor) }
    let held = max(0, min(count, (size(of: hash) ?? 0) - start))
    var bytes = [UInt8](repeating: 0, count: held)
    var filled = 0
    while filled < held {
      let got = bytes.withUnsafeMutableBytes {
        pread(descriptor, $0.baseAddress! + filled, held - filled, off_t(start + filled))
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw FileError(code: got < 0 ? errno : ENODATA, operation: "read", path: path) }
      filled += got
    }
    return bytes
  }

  /// Removes a blob.
  public func remove(_ hash: ContentHash) { _ = file(hash).withCString { unlink($0) } }

  /// Whether its directory is there and may be written to.
  public var isReachable: Bool { path.withCString { access($0, R_OK | W_OK | X_OK) } == 0 }

  /// Bytes free on its disk.
  public var available: Int? {
    var found = statvfs()
    guard path.withCString({ statvfs($0, &found) }) == 0 else { return nil }
    return Int(clamping: UInt64(found.f_bavail) &* UInt64(found.f_frsize))
  }
}

/// A blob written to a temporary file as it comes, hashed while it is written (B2.8).
private final class WrittenBlob: ArrivingBlob {
  private let blobs: DirectoryBlobs
  private var descriptor: Int32
  private let temporary: PathBytes
  private var hasher: ContentHasher? = ContentHasher()
  private var hash: ContentHash?
  private var isSettled = false
  private(set) var count = 0

  init(_ blobs: DirectoryBlobs, _ descriptor: Int32, _ temporary: PathBytes) {
    self.blobs = blobs
    self.descriptor = descriptor
    self.temporary = temporary
  }

  deinit { discard() }

  func append(_ bytes: UnsafeRawBufferPointer) throws {
    let code = marfa_write_all(descriptor, bytes.baseAddress, bytes.count)
    guard code == 0 else { throw FileError(code: code, operation: "write", path: temporary) }
    hasher?.update(bytes)
    count += bytes.count
  }

  func finish() throws -> ContentHash {
    if isSettled, let hash { return hash }
    if hash == nil, let hasher = hasher.take() { hash = hasher.finish() }
    guard let hash, descriptor >= 0 else { throw FileError(code: EBADF, operation: "write", path: temporary) }
    guard fsync(descriptor) == 0 else { throw FileError(code: errno, operation: "sync", path: temporary) }
    try blobs.settle(temporary, as: hash)
    isSettled = true
    return hash
  }

  func discard() {
    if descriptor >= 0 { close(descriptor) }
    descriptor = -1
    if !isSettled { _ = temporary.withCString { unlink($0) } }
  }
}

import CPosix
import Glibc
import MarfaBase

extension InstanceHome {
  /// Copies database and blobs into a directory that is empty or absent, consistently, while the instance runs or not
  /// (N2.7). `instance run --data TO` opens it. The owner's key is not copied: a run there mints its own.
  ///
  /// Blobs are copied before and after the database: whatever a row of the copy names was there before its snapshot or
  /// came before its end. Writers go on: the snapshot reads beside the log.
  public func backup(to target: PathBytes) throws(InstanceFailure) {
    try prepareBackup(at: target)
    let copy = InstanceHome(target)
    do {
      try copyBlobs(to: copy)
      let source = try Database(path: database.description, mode: .readWrite)
      try source.execute("PRAGMA busy_timeout = 5000")
      try PrivateFile.touch(copy.database)
      try source.run("VACUUM INTO ?", Text(copy.database.description))
      try sync(copy.database)
      try copyBlobs(to: copy)
      try PrivateFile.syncDirectory(copy.blobs)
      try PrivateFile.syncDirectory(target)
    } catch let error as InstanceFailure {
      throw error
    } catch {
      throw .failed("the backup was not finished: \(error)")
    }
  }

  /// Makes the directory of a copy, which is to be empty or absent; nothing is copied yet.
  public func prepareBackup(at target: PathBytes) throws(InstanceFailure) {
    guard holdsData else { throw .invalid("there is no instance's data in \(path)") }
    var found = marfa_stat()
    guard target.isAbsolute else { throw .invalid("\(target) is no absolute path") }
    if target.withCString({ marfa_statx_follow(AT_FDCWD, $0, &found) }) == 0 {
      guard found.mode & 0o170000 == 0o040000, PrivateFile.names(in: target).isEmpty else {
        throw .invalid("\(target) is not an empty directory")
      }
    }
    try InstanceHome(target).make()
  }

  private func copyBlobs(to copy: InstanceHome) throws {
    _ = try SystemFileSystem().makeDirectories(copy.blobs, mode: 0o700)
    for name in PrivateFile.names(in: blobs) where name.bytes.count == 64 {
      let target = copy.blobs.appending(name)
      var found = marfa_stat()
      if target.withCString({ marfa_statx(AT_FDCWD, $0, &found) }) == 0 { continue }
      let from = blobs.appending(name).withCString { marfa_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW, 0) }
      // One purged meanwhile is no part of the copy.
      if from == -ENOENT { continue }
      guard from >= 0 else { throw FileError(code: -from, operation: "open", path: name) }
      defer { close(from) }
      let to = target.withCString { marfa_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL, 0o600) }
      guard to >= 0 else { throw FileError(code: -to, operation: "make", path: target) }
      var buffer = [UInt8](repeating: 0, count: 1 << 18)
      var code: Int32 = 0
      while code == 0 {
        let count = read(from, &buffer, buffer.count)
        if count == 0 { break }
        if count < 0 { code = errno == EINTR ? 0 : errno } else { code = marfa_write_all(to, buffer, count) }
      }
      if code == 0, fsync(to) != 0 { code = errno }
      if close(to) != 0, code == 0 { code = errno }
      guard code == 0 else { throw FileError(code: code, operation: "copy", path: target) }
    }
  }

  private func sync(_ path: PathBytes) throws(FileError) {
    let descriptor = path.withCString { marfa_openat(AT_FDCWD, $0, O_RDWR, 0) }
    guard descriptor >= 0 else { throw FileError(code: -descriptor, operation: "open", path: path) }
    defer { close(descriptor) }
    if fsync(descriptor) != 0 { throw FileError(code: errno, operation: "sync", path: path) }
  }
}

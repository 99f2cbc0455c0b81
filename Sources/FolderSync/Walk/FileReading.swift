import Glibc
import MarfaBase

/// A file as one reading found it: `open, fstat, read, fstat` (P1.1).
package struct FileReading: Sendable {
  /// What it was before its bytes were read: a change made while reading is read again (F49.3).
  package var status: FileStatus
  /// The digest of the bytes.
  package var hash: ContentHash
  /// The bytes, where they were asked for and fit.
  package var bytes: [UInt8]?
  /// Nothing moved while it was read: both looks agree and the bytes are as many as they say.
  package var isSettled: Bool
  /// Whether a program had it open for writing; nil where that can't be told.
  package var hasWriter: Bool?

  /// Reads an open file.
  /// - Parameters:
  ///   - keep: bytes are kept up to this size; a larger file is only hashed.
  ///   - asksOnce: whether it is asked only after the bytes were read who writes the file: enough where the bytes are as they
  ///     were, since a writer that left meanwhile then wrote nothing.
  package init(_ file: any ReadableFile, keep: Int = 0, asksOnce: Bool = false) throws(FileError) {
    status = try file.statusAtOpening()
    hasWriter = asksOnce ? false : file.hasWriter()
    var hasher = ContentHasher()
    var bytes: [UInt8]? = status.size <= UInt64(keep) ? [] : nil
    var count: UInt64 = 0
    // One byte more than it says it holds: a file as large as that is read to its end by one call.
    let limit = Int(min(1 << 18, status.size + 1))
    while true {
      let more = try file.read(limit: limit)
      if more.isEmpty { break }
      hasher.update(more)
      count += UInt64(more.count)
      if count > UInt64(keep) { bytes = nil }
      if count == UInt64(more.count), bytes != nil { bytes = more } else { bytes?.append(contentsOf: more) }
      if more.count < limit, count == status.size { break }
    }
    hash = hasher.finish()
    self.bytes = bytes
    let after = try file.status()
    // A writer that came while the bytes were read shows in the look after them or in the second asking.
    if hasWriter == false { hasWriter = file.hasWriter() }
    isSettled =
      after.size == status.size && after.modified == status.modified && after.changed == status.changed
      && count == status.size
  }

  /// Reads a file below a root, following no link.
  package init(_ path: PathBytes, below root: any Directory, keep: Int = 0) throws(FileError) {
    let directory = path.parent.isEmpty ? root : try root.directory(beneath: path.parent)
    try self.init(try directory.open(path.name), keep: keep)
  }

  /// Whether a program is writing it, as far as can be told: one that has it open, bytes that moved while they were read,
  /// or, where no lease tells, a change less than 250 ms ago (P1.1).
  package func isBeingWritten(now: Timestamp) -> Bool {
    if !isSettled { return true }
    if let hasWriter { return hasWriter }
    let age = now.milliseconds - status.modified / 1_000_000
    return age >= 0 && age < 250
  }

  /// Where its identity is kept: relative to the root's device (X24.1).
  package func identity(rootDevice: UInt64) -> StoredIdentity? {
    status.identity.map { StoredIdentity($0, rootDevice: rootDevice) }
  }
}

/// Takes away what landings that were cut off left behind (X14.3, F20.5): files of exactly the temporary form whose
/// writer no longer runs. A failure leaves them for the next scan.
/// - Parameters:
///   - kept: names the store still knows (P1.4): a file displaced by an exchange may hold a person's words.
/// - Returns: those that went.
@discardableResult
package func sweepTemporaries(
  _ temporaries: [PathBytes], below root: any Directory, files: any FileSystem, keeping kept: Set<PathBytes> = []
) -> [PathBytes] {
  temporaries.filter { path in
    guard let name = TemporaryName(path.name), !kept.contains(path) else { return false }
    let own = files.writer
    // Its own: the process knows what it is landing.
    if name.pid == own.pid, name.start == nil || name.start == own.start { return false }
    guard files.state(ofWriter: name.pid, start: name.start) == .gone else { return false }
    guard let directory = path.parent.isEmpty ? root : try? root.directory(beneath: path.parent),
      let status = try? directory.status(of: path.name), status.kind == .regular
    else { return false }
    return (try? directory.unlink(path.name)) != nil
  }
}

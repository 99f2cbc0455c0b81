import MarfaBase

/// Looks at another folder's directory for at most two seconds (P2.4): a dead network mount would hold every pass of every
/// folder. One that does not answer is `.unknown`.
package struct BoundedLook: Sendable {
  private let files: any FileSystem
  private let limit: UInt64

  /// Looks through a file system, each for at most `limit` nanoseconds.
  package init(_ files: any FileSystem, limit: UInt64 = 2_000_000_000) {
    self.files = files
    self.limit = limit
  }

  /// Looks.
  package func callAsFunction(_ dir: PathBytes) -> DirectoryLook {
    bounded(limit) { [files] in DirectoryLook.at(dir, files) } ?? DirectoryLook(resolved: dir, state: .unknown)
  }
}

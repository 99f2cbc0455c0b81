import MarfaBase

/// What the disk told since it was last asked. Notifications only mark that something changed; what changed is read from
/// the disk by the pass (W3).
package struct NotedChanges: Sendable {
  /// Paths below the root with the time each was last told of.
  package var paths: [PathBytes: UInt64] = [:]
  /// Directories something changed in, for a pass that walks only those.
  package var directories: Set<PathBytes> = []
  /// `.marfa/folder.yaml` changed.
  package var settings = false
  /// The kernel's queue ran over: anything may have changed (W5).
  package var overflowed = false
  /// The root itself was moved, deleted or unmounted (W8).
  package var rootMoved = false
  /// A limit keeps directories from being watched: the sentence of W6, once.
  package var limit: String?

  /// Nothing yet.
  package init() {}

  /// Whether there is nothing to look at.
  package var isEmpty: Bool {
    paths.isEmpty && directories.isEmpty && !settings && !overflowed && !rootMoved && limit == nil
  }
}

/// Tells a watch of changes on the disk.
package protocol Notifications: AnyObject, Sendable {
  /// Watches the root and every directory that is entered, before they are listed (W2).
  /// - Throws: `FileError` where the root can't be watched for a reason other than a limit (W6).
  func start() throws(FileError)
  /// Takes what was noted since the last call.
  func take() -> NotedChanges
  /// Whether every directory is watched and nothing was lost since the last walk (W7).
  var isTrusted: Bool { get }
  /// Which directories are entered; asked again after the settings changed.
  func enter(_ decides: @escaping @Sendable (PathBytes) -> Bool)
  /// Watches anew: after an overflow, a limit raised, a root that came back.
  func rescan()
  /// Ends it.
  func close()
}

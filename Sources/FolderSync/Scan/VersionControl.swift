import MarfaBase

/// Whether a version-control program is at work at or above a file, inside the folder (P2.2): what it takes away for a
/// moment is no delete.
struct VersionControl {
  private let root: any Directory
  private let now: Timestamp
  private var known: [PathBytes: Bool] = [:]

  init(root: any Directory, now: Timestamp) {
    self.root = root
    self.now = now
  }

  /// How long after HEAD moved missing files still wait.
  static let settling: Int64 = 60_000

  mutating func isAtWork(above path: PathBytes) -> Bool {
    var directory: PathBytes = .empty
    if isAtWork(in: directory) { return true }
    for name in path.components.dropLast() {
      directory = directory.appending(name)
      if isAtWork(in: directory) { return true }
    }
    return false
  }

  private mutating func isAtWork(in directory: PathBytes) -> Bool {
    if let known = known[directory] { return known }
    let atWork = look(in: directory)
    known[directory] = atWork
    return atWork
  }

  private func look(in directory: PathBytes) -> Bool {
    func status(_ path: String) -> FileStatus? {
      let path = directory.appending(PathBytes(path))
      guard let parent = try? root.directory(beneath: path.parent) else { return nil }
      return (try? parent.status(of: path.name)) ?? nil
    }
    let standing = [
      ".git/index.lock", ".git/rebase-merge", ".git/rebase-apply", ".hg/wlock", ".jj/working_copy/working_copy.lock",
    ]
    if standing.contains(where: { status($0) != nil }) { return true }
    return [".git/HEAD", ".git/logs/HEAD"].contains { path in
      guard let moved = status(path)?.modified else { return false }
      let age = now.milliseconds &- moved / 1_000_000
      return age < Self.settling && age > -Self.settling
    }
  }
}

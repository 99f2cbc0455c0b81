import Glibc
import MarfaBase

/// Whether a version-control program is at work at or above a file, inside the folder (P2.2): what it takes away for a
/// moment is no delete.
///
/// A `.git` may be a directory, a link to one, or the file a worktree or a submodule has in its place, whose one line names
/// the directory that stands for it, wherever that lies.
struct VersionControl {
  private let root: PathBytes
  private let files: any FileSystem
  private let now: Timestamp
  private var known: [PathBytes: Bool] = [:]

  /// How long after HEAD moved missing files still wait.
  private let settling: Int64

  init(root: PathBytes, context: Context) {
    self.root = root
    files = context.files
    now = context.clock.now
    settling = context.clock.wait(milliseconds: 60_000)
  }

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
    let atWork = look(in: directory.isEmpty ? root : root.appending(directory))
    known[directory] = atWork
    return atWork
  }

  /// What a name stands for.
  private enum Found {
    case nothing
    case there(FileStatus)
    /// A disk that does not answer: whether something is at work cannot be told, so it may be.
    case unanswered
  }

  private func look(in directory: PathBytes) -> Bool {
    for standing in [".hg/wlock", ".jj/working_copy/working_copy.lock"] {
      if isThere(directory.appending(PathBytes(standing))) { return true }
    }
    if case .unanswered = find(directory.appending(".git")) { return true }
    guard let git = gitDirectory(directory.appending(".git")) else { return false }
    for standing in ["index.lock", "rebase-merge", "rebase-apply"] where isThere(git.appending(PathBytes(standing))) {
      return true
    }
    return ["HEAD", "logs/HEAD"].contains { moved(git.appending(PathBytes($0))) }
  }

  /// The directory a `.git` is, or the one its line names.
  private func gitDirectory(_ path: PathBytes) -> PathBytes? {
    // Links on the way are followed: a `.git` may be one.
    guard let status = (try? files.status(path)) ?? nil else { return nil }
    if status.kind == .directory { return path }
    guard status.kind == .regular, status.size <= 1 << 16,
      let bytes = try? files.openDirectory(path.parent).open(path.name).read(limit: 1 << 16)
    else { return nil }
    let line = bytes.prefix { $0 != 0x0A && $0 != 0x0D }
    let word = Array("gitdir:".utf8)
    guard line.starts(with: word) else { return nil }
    let named = PathBytes(bytes: line.dropFirst(word.count).drop { $0 == 0x20 || $0 == 0x09 })
    guard !named.isEmpty else { return nil }
    return named.isAbsolute ? named : path.parent.appending(named)
  }

  private func isThere(_ path: PathBytes) -> Bool {
    switch find(path) {
    case .nothing: false
    case .there, .unanswered: true
    }
  }

  private func moved(_ path: PathBytes) -> Bool {
    switch find(path) {
    case .nothing: return false
    case .unanswered: return true
    case .there(let status):
      let age = now.milliseconds &- status.modified / 1_000_000
      return age < settling && age > -settling
    }
  }

  /// A name is not followed: a lock may be a link that leads nowhere.
  private func find(_ path: PathBytes) -> Found {
    do throws(FileError) {
      guard let status = try files.openDirectory(path.parent).status(of: path.name) else { return .nothing }
      return .there(status)
    } catch {
      return [EIO, ESTALE, ETIMEDOUT, ENXIO].contains(error.code) ? .unanswered : .nothing
    }
  }
}

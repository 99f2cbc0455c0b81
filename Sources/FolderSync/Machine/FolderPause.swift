import Glibc
import MarfaBase
import MarfaCopy

/// A pause a person asked for (P5.4): a file in `.marfa/`, so that it stands whoever watches the folder, and through a
/// restart. A watch holds nothing of a paused folder; commands work it as ever.
package struct FolderPause: Hashable, Sendable {
  /// When it ends by itself; nil where only `resume` ends it.
  package var until: Timestamp?

  /// A pause.
  package init(until: Timestamp?) { self.until = until }

  private static let name: PathBytes = "paused"

  /// The member of a status.
  package var json: JSON { ["until": until.map { .string($0.text) } ?? .null] }

  /// The pause that stands in a folder; nil where none does, or its time is over.
  static func standing(in state: any Directory, _ files: any FileSystem, now: Timestamp) -> FolderPause? {
    let file: any LockFile
    do throws(FileError) {
      guard let found = try files.lockFile(name, in: state, create: false) else { return nil }
      file = found
    } catch { return error.code == ENOENT ? nil : FolderPause(until: nil) }
    // One that cannot be read stands: the person asked for it.
    guard let bytes = try? file.contents(), let json = try? JSON(parsing: bytes),
      let until = json["until"]?.int.map({ Timestamp(milliseconds: Int64($0)) })
    else { return FolderPause(until: nil) }
    return until > now ? FolderPause(until: until) : nil
  }

  /// Begins it, in place of one that stands.
  func begin(in state: any Directory, _ files: any FileSystem) throws(FileError) {
    guard let file = try files.lockFile(FolderPause.name, in: state, create: true) else {
      throw FileError(code: ENOENT, operation: "pause", path: FolderPause.name)
    }
    try file.replaceContents((["until": until.map { .int($0.milliseconds) } ?? .null] as JSON).write())
  }

  /// Ends it; false where none stood.
  static func end(in state: any Directory) throws(FileError) -> Bool {
    guard try state.status(of: name) != nil else { return false }
    try state.unlink(name)
    return true
  }
}

extension Folders {
  /// Pauses a folder until a time, or until it is resumed; a watch that holds it lets go. Answers its resolved directory.
  package func pause(_ dir: PathBytes, until: Timestamp?) throws -> PathBytes {
    let root = try root(of: dir)
    let state = try stateDirectory(of: root)
    do throws(FileError) {
      try FolderPause(until: until).begin(in: state, context.files)
    } catch { throw MarfaError(error) }
    try nudge(root, "pause")
    return root
  }

  /// Ends a folder's pause; a watch that waits takes it back. Answers whether one stood.
  package func resume(_ dir: PathBytes) throws -> (root: PathBytes, stood: Bool) {
    let root = try root(of: dir)
    let state = try stateDirectory(of: root)
    // One whose time is over stood no more.
    let stood = FolderPause.standing(in: state, context.files, now: context.clock.now) != nil
    do throws(FileError) { _ = try FolderPause.end(in: state) } catch { throw MarfaError(error) }
    try nudge(root, "resume")
    return (root, stood)
  }

  /// The pause of a folder.
  package func pause(of dir: PathBytes) throws -> FolderPause? {
    FolderPause.standing(in: try stateDirectory(of: root(of: dir)), context.files, now: context.clock.now)
  }

  private func stateDirectory(of root: PathBytes) throws(MarfaError) -> any Directory {
    do throws(FileError) { return try context.files.openDirectory(root.appending(stateDirectoryName)) } catch {
      throw MarfaError(error)
    }
  }

  /// Has whoever holds the folder look: a watch lets go for an asker, and takes it back, or not. A command at work
  /// finishes, and its own watch hears of the pause after it.
  private func nudge(_ root: PathBytes, _ command: Text) throws {
    do {
      if case .held(let hold) = try ask(root, command) { hold.release() }
    } catch let error as MarfaError where error.code == .readingHandle {}
  }
}

import Glibc
import MarfaBase

/// An open directory below the root, and the path it really has.
package struct LandingDirectory {
  package var directory: any Directory
  package var path: PathBytes
}

/// Finds the directory a path asks for, component by component, by name key (F27.5), following no link (F30).
///
/// What is returned stays open: every later step works on it, so that what was checked is what is written to (F30.5).
/// - Parameters:
///   - make: missing directories are made, one at a time (X15.8); else nil is returned for them.
///   - made: those that were made, to be synced with their parents.
package func landingDirectory(
  _ path: PathBytes, below root: any Directory, make: Bool, made: inout [(parent: any Directory, path: PathBytes)]
) throws(LandingFailure) -> LandingDirectory? {
  var reached = LandingDirectory(directory: root, path: .empty)
  do throws(FileError) {
    for name in path.components {
      let parent = reached.directory
      var name = name
      var status = try parent.status(of: name)
      if status == nil, let standing = DirectoryNames(try parent.list().map(\.name)).standing(for: name) {
        // Another spelling of the name; a directory of it goes before anything else.
        let spellings = try parent.list().map(\.name).filter { $0.nameKey == name.nameKey }.sorted()
        name = standing
        for spelling in spellings where try parent.status(of: spelling)?.kind == .directory {
          name = spelling
          break
        }
        status = try parent.status(of: name)
      }
      let below = reached.path.appending(name)
      switch status?.kind {
      case .directory: break
      case .link: throw FileError(code: ELOOP, operation: "open", path: below)
      case .regular, .special: throw FileError(code: ENOTDIR, operation: "make directory", path: below)
      case nil:
        guard make else { return nil }
        try parent.makeDirectory(name, mode: 0o777)
        made.append((parent, below))
      }
      let directory = try parent.directory(name)
      if let inner = try directory.status(of: stateDirectoryName), inner.kind == .directory {
        throw FileError(code: EXDEV, operation: "enter", path: below)
      }
      reached = LandingDirectory(directory: directory, path: below)
    }
  } catch {
    switch (error.code, error.operation) {
    case (EXDEV, "enter"): throw LandingFailure(.outside, "\(error.path) is another folder")
    case (ENOTDIR, "make directory"):
      throw LandingFailure(.refused, "a file has the name of its directory \(error.path)")
    default: throw LandingFailure(error)
    }
  }
  return reached
}

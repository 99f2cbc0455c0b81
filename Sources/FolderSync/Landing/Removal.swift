import Glibc
import MarfaBase

/// What became of a file that was to be taken away (X16).
package enum RemovalOutcome: Hashable, Sendable {
  /// It is gone.
  case removed
  /// It was gone already.
  case absent
  /// It stays, for this reason; `.changed` counts as `kept`.
  case stays(LandingFailure)
}

extension Landing {
  /// Takes a file away where it still holds these very bytes. No directory is ever removed (X16.2).
  package func remove(_ path: PathBytes, holding hash: ContentHash) -> RemovalOutcome {
    let name = path.name
    do throws(LandingFailure) {
      try checkRoot()
      let directory: any Directory
      do throws(FileError) {
        directory = path.parent.isEmpty ? root : try root.directory(beneath: path.parent)
        guard try directory.status(of: name) != nil else { return .absent }
      } catch {
        if error.code == ENOENT { return .absent }
        throw LandingFailure(error)
      }
      try reached(.lastLook, name, in: directory)
      let found = try look(at: name, in: directory, expecting: .bytes(hash), toReplace: false)
      guard found != nil else { return .absent }
      try reached(.afterLastLook, name, in: directory)
      do throws(FileError) { try directory.unlink(name) } catch {
        if error.code == ENOENT { return .absent }
        throw LandingFailure(error)
      }
      touch(directory)
      return .removed
    } catch {
      return .stays(error)
    }
  }

  /// Gives a file in place the execute bits of its item (F50.2), where it still is what the scan read.
  /// - Returns: what it is then, or nil where it was left: changed meanwhile, or refused (F50.4).
  package func setExecutable(_ path: PathBytes, _ executable: Bool, seen: FileStatus) -> FileStatus? {
    do throws(LandingFailure) { try checkRoot() } catch { return nil }
    do throws(FileError) {
      let directory = path.parent.isEmpty ? root : try root.directory(beneath: path.parent)
      guard let now = try directory.status(of: path.name), now.kind == .regular, now.inode == seen.inode,
        now.mode == seen.mode
      else { return nil }
      try directory.setMode(path.name, withExecute(executable, now.mode))
      return try directory.status(of: path.name)
    } catch {
      return nil
    }
  }
}

/// Whether the volume keeps permissions (X25): asked once per process and folder. Any step that fails, something of the
/// probe's name already there included, is "no", and what is there is left alone.
package func keepsPermissions(_ root: any Directory) -> Bool {
  let name: PathBytes = ".permission-probe"
  guard let state = try? root.directory(stateDirectoryName),
    let file = try? state.create(name, mode: 0o600, exactMode: true)
  else { return false }
  defer { try? state.unlink(name) }
  try? file.close()
  do throws(FileError) {
    try state.setMode(name, 0o600)
    guard let plain = try state.status(of: name), plain.mode & 0o111 == 0 else { return false }
    try state.setMode(name, 0o700)
    guard let runnable = try state.status(of: name) else { return false }
    return runnable.mode & 0o777 == 0o700
  } catch {
    return false
  }
}

import Glibc
import MarfaBase

/// A file another folder of this machine let go, to be moved here (F44, X17): the one place where a folder changes
/// another folder's directory (F30.6).
package struct TakeInWish {
  /// The other folder's open root.
  package var source: any Directory
  /// Where the file lies there.
  package var path: PathBytes
  /// The bytes bound there.
  package var hash: ContentHash
  /// Where it goes, spelled as `Landing.spelled` gave it. Its record goes into the store before `takeIn` (X15.5).
  package var target: PathBytes

  package init(source: any Directory, path: PathBytes, hash: ContentHash, target: PathBytes) {
    self.source = source
    self.path = path
    self.hash = hash
    self.target = target
  }
}

/// A file that was taken in.
package struct TakenIn {
  /// What it is now: a moved file keeps its identity, a copy has its own.
  package let status: FileStatus
  /// Why the other folder still has its own (`retained`, F44.7); nil where it is gone there.
  package let retained: String?
}

extension Landing {
  /// A path with its directories as they are spelled on the disk, made where missing.
  package func spelled(_ path: PathBytes) throws(LandingFailure) -> PathBytes {
    try checkRoot()
    return try directory(for: path).path.appending(path.name)
  }

  /// Moves the file, or copies it where a rename can't do it (X17.2).
  /// - Throws: `.changed` where source or target is not what was decided on; both stay.
  package func takeIn(_ wish: TakeInWish) throws(LandingFailure) -> TakenIn {
    try checkRoot()
    let place = try directory(for: wish.target)
    let name = wish.target.name
    let from: any Directory
    do throws(FileError) {
      from = wish.path.parent.isEmpty ? wish.source : try wish.source.directory(beneath: wish.path.parent)
    } catch { throw LandingFailure(error) }
    try reached(.lastLook, name, in: place.directory)
    guard let source = try look(at: wish.path.name, in: from, expecting: .bytes(wish.hash), toReplace: false) else {
      throw LandingFailure(.changed, "the file is not there any more")
    }
    _ = try look(at: name, in: place.directory, expecting: .absent)
    do throws(FileError) {
      try door.reached(.rename, name, in: place.directory)
      try from.rename(wish.path.name, to: place.directory, as: name, .noReplace)
      touch(place.directory)
      touch(from)
      return TakenIn(status: try place.directory.status(of: name) ?? source.status, retained: nil)
    } catch {
      switch error.code {
      case EXDEV, EINVAL, ENOSYS: break
      case EPERM where source.status.immutable: break
      case EEXIST: throw LandingFailure(.changed, "something else has its name now")
      case ENOENT: throw LandingFailure(.changed, "the file is not there any more")
      default: throw LandingFailure(error)
      }
    }
    return try copyIn(wish, from, source, place.directory)
  }

  /// X17.3.
  private func copyIn(
    _ wish: TakeInWish, _ from: any Directory, _ source: Target, _ directory: any Directory
  ) throws(LandingFailure) -> TakenIn {
    let name = wish.target.name
    let (temporary, file) = try makeTemporary(in: directory, mode: 0o600, exact: true)
    let status: FileStatus
    do throws(LandingFailure) {
      try reached(.copy, name, in: directory)
      let reading: any ReadableFile
      do throws(FileError) { reading = try from.open(wish.path.name) } catch { throw LandingFailure(error) }
      _ = try fill(file, .blob(wish.hash, reading))
      try dress(file, name, in: directory, like: source, executable: nil)
      do throws(FileError) {
        try file.sync()
        status = try file.status()
        try file.close()
      } catch { throw LandingFailure(error) }
      try reached(.copyPublish, name, in: directory)
      guard
        let again = try look(at: wish.path.name, in: from, expecting: .bytes(wish.hash), toReplace: false),
        again.status.inode == source.status.inode, again.status.birth == source.status.birth
      else { throw LandingFailure(.changed, "it was changed meanwhile") }
      try Landing.renameIntoAbsent(temporary, as: name, in: directory)
    } catch {
      try? file.close()
      try? directory.unlink(temporary)
      throw error
    }
    touch(directory)
    do throws(FileError) {
      guard let last = try? look(at: wish.path.name, in: from, expecting: .bytes(wish.hash), toReplace: false),
        last.status.inode == source.status.inode
      else { return TakenIn(status: status, retained: "it was changed after it was copied") }
      // The copy's name lasts before the file it was made of goes.
      try directory.sync()
      try from.unlink(wish.path.name)
      touch(from)
      return TakenIn(status: status, retained: nil)
    } catch {
      return TakenIn(status: status, retained: error.reason)
    }
  }
}

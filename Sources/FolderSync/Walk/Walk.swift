import Glibc
import MarfaBase

/// A file the walk met and the folder takes.
package struct WalkedFile: Hashable, Sendable {
  /// Where it is, below the root.
  package var path: PathBytes
  /// What it is now.
  package var status: FileStatus
}

/// Whether a bound file that was not met is gone, or only out of reach.
package enum Reach: Hashable, Sendable {
  /// Its directory was read whole, or was not there: its absence counts.
  case looked
  /// The lists do not take its path any more (F25.14), it lies in a package (F26.4) or in another folder (F41.8).
  case leftOut
  /// A symbolic link, which is never followed, stands there or on its way: nobody took the file away.
  case link(PathBytes)
  /// It could not be looked at, for this reason (F26.3).
  case unreadable(String)
  /// Another volume stands on its way than when it was last seen (P2.1): at this directory, for this reason.
  case unmounted(PathBytes, String)
}

extension Reach {
  /// What is told of a file that is out of reach behind a link.
  static let standsForLink = "a symbolic link stands in its place, and links are not followed"
}

/// What a walk of a folder found.
package struct WalkResult: Sendable {
  /// The files the folder takes, in path order.
  package var files: [WalkedFile] = []
  /// Files held for their name: no UTF-8 (F27.8).
  package var flagged: [FlaggedFile] = []
  /// Directories not walked: `package`, `unreadable`, `gone`, with the reason.
  package var directories: [FlaggedFile] = []
  /// Files that hold secrets (F25.7), in path order.
  package var secrets: [PathBytes] = []
  /// Directories with a `.marfa/` of their own: other folders (F41.8).
  package var nestedFolders: [PathBytes] = []
  /// The root's device.
  package var rootDevice: UInt64 = 0
  /// Every directory that was read, the root as the empty path.
  package var entered: Set<PathBytes> = []
  /// How many stand-ins for files that are not downloaded were met (ST6).
  package var placeholders = 0
  /// Temporary files of landings (X14.3), wherever the walk read.
  package var temporaries: [PathBytes] = []
  /// No directory vanished while it was read: only such a pass may journal (F26.6).
  package var isComplete = true

  /// Directories, packages and folders that were not walked into, and why.
  var closed: [PathBytes: Reach] = [:]
  /// Directories on another device than the root.
  var devices: [PathBytes: UInt64] = [:]
  /// Directories another volume, or another part of one, is mounted at.
  package var mounts: Set<PathBytes> = []
  /// Those of the last scan: what lay beneath one is not missing while it is not mounted, nor what a new one hides.
  package var earlierMounts: Set<PathBytes>?
  private let lists: PathLists

  init(lists: PathLists) { self.lists = lists }

  /// Whether a bound file that is not among `files` may count as missing.
  /// - Parameter seen: the identity it had when it was last seen.
  package func reach(of path: PathBytes, seen: StoredIdentity?) -> Reach {
    var directory: PathBytes = .empty
    var device: UInt64?
    for name in path.components.dropLast() {
      directory = directory.appending(name)
      if let reach = closed[directory] { return reach }
      device = devices[directory]
      if let earlierMounts, earlierMounts.contains(directory) != mounts.contains(directory) {
        return lists.takes(path) ? unmounted(directory, isGone: earlierMounts.contains(directory)) : .leftOut
      }
      if !entered.contains(directory) { break }
    }
    if let reach = closed[path] { return reach }
    if !lists.takes(path) { return .leftOut }
    // Only whether it is the root's own: the number of another volume changes over a remount (X24.1).
    if let seen, (seen.device != nil) != (device != nil) {
      let at = path.components.first.map { PathBytes(bytes: $0.bytes) } ?? path
      return unmounted(at, isGone: device == nil)
    }
    return .looked
  }

  /// The volume a path would lie on that was there at the last scan and is not now.
  package func goneVolume(above path: PathBytes) -> Reach? {
    guard let earlierMounts else { return nil }
    var directory: PathBytes = .empty
    for name in path.components.dropLast() {
      directory = directory.appending(name)
      if earlierMounts.contains(directory), !mounts.contains(directory) { return unmounted(directory, isGone: true) }
    }
    return nil
  }

  private func unmounted(_ directory: PathBytes, isGone: Bool) -> Reach {
    .unmounted(
      directory,
      isGone
        ? "the volume that was mounted at \(directory) is not there; its files are left alone until it is back"
        : "another volume is mounted over \(directory); the files it hides are left alone until it is gone")
  }

  /// The mounts to compare the next scan with: as they are now, but for those at which a bound file is out of reach.
  /// - Parameter isMissing: whether some bound file beneath a directory was not found.
  package func mountsToKeep(_ isMissing: (PathBytes) -> Bool) -> Set<PathBytes> {
    guard let earlierMounts else { return mounts }
    var kept = mounts
    for directory in earlierMounts.symmetricDifference(mounts) where isMissing(directory) {
      if earlierMounts.contains(directory) { kept.insert(directory) } else { kept.remove(directory) }
    }
    return kept
  }
}

/// Walks a folder: every directory the lists leave room in, no symbolic link followed (F25, F26, F30.4).
///
/// Nothing is decided here but what the folder takes. A directory that can't be read is told, never read as empty.
/// - Parameters:
///   - now: the wall clock, for saves under way (P1.5).
///   - stop: checked at each directory; a walk cut short is not complete.
/// - Throws: `FileError` where the root itself can't be read.
package func walk(
  root: any Directory, lists: PathLists, now: Timestamp, door: FaultDoor = .none, stop: StopFlag? = nil
) throws(FileError) -> WalkResult {
  var walker = Walker(lists: lists, now: now, door: door, stop: stop)
  let status = try root.status()
  walker.result.rootDevice = status.device
  try walker.read(root, at: .empty, Volume(status), isRoot: true)
  walker.result.files.sort { $0.path < $1.path }
  walker.result.secrets.sort()
  walker.result.directories.sort { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
  return walker.result
}

/// Which volume a directory lies on, and by which mount it is reached.
private struct Volume {
  let device: UInt64
  let mount: UInt64

  init(_ status: FileStatus) {
    device = status.device
    mount = status.mount
  }
}

private struct Walker {
  var result: WalkResult
  let lists: PathLists
  let now: Timestamp
  let door: FaultDoor
  let stop: StopFlag?

  init(lists: PathLists, now: Timestamp, door: FaultDoor, stop: StopFlag?) {
    result = WalkResult(lists: lists)
    self.lists = lists
    self.now = now
    self.door = door
    self.stop = stop
  }

  /// Reads one directory whole before anything of it counts, then the ones below it.
  mutating func read(
    _ directory: any Directory, at path: PathBytes, _ volume: Volume, isRoot: Bool
  ) throws(FileError) {
    if stop?.isSet == true {
      result.isComplete = false
      return
    }
    let entries = try directory.list().sorted { $0.name < $1.name }
    if !isRoot, entries.contains(where: { $0.name == ".marfa" && ($0.kind ?? .directory) == .directory }) {
      result.nestedFolders.append(path)
      result.closed[path] = .leftOut
      return
    }
    var found = FoundInDirectory(folded: FoldedPath(path))
    for entry in entries { try look(at: entry, in: directory, at: path, names: entries, into: &found) }
    // Only now: one entry that can't be looked at makes the whole directory unreadable (F26.3).
    result.entered.insert(path)
    if volume.device != result.rootDevice { result.devices[path] = volume.device }
    result.files += found.files
    result.flagged += found.flagged
    result.secrets += found.secrets
    result.temporaries += found.temporaries
    result.placeholders += found.placeholders
    for name in found.directories { enter(name, of: directory, at: path, volume) }
  }

  private struct FoundInDirectory {
    let folded: FoldedPath
    var files: [WalkedFile] = []
    var flagged: [FlaggedFile] = []
    var secrets: [PathBytes] = []
    var temporaries: [PathBytes] = []
    var directories: [PathBytes] = []
    var placeholders = 0
  }

  private mutating func look(
    at entry: DirectoryEntry, in directory: any Directory, at parent: PathBytes, names: [DirectoryEntry],
    into found: inout FoundInDirectory
  ) throws(FileError) {
    let name = entry.name
    let path = parent.appending(name)
    var status: FileStatus?
    var kind = entry.kind
    if kind == nil {
      status = try directory.status(of: name)
      kind = status?.kind
    }
    if kind == .link {
      result.closed[path] = .link(path)
    }
    guard let kind, kind == .regular || kind == .directory else { return }
    if kind == .directory {
      if BuiltInNames.list(directory: name) != nil || !name.isValidUTF8 && name.bytes.first == 0x2E { return }
      if !name.isValidUTF8 {
        found.flagged.append(notUTF8(path))
        result.closed[path] = .leftOut
      } else if !lists.reaches(directory: path) {
        result.closed[path] = .leftOut
      } else if BuiltInNames.isPackage(name) {
        result.closed[path] = .leftOut
        result.directories.append(FlaggedFile(path, .package, "a package is one thing to its program; it is not read"))
      } else {
        found.directories.append(name)
      }
      return
    }
    if let list = BuiltInNames.list(file: name) {
      if list == .secret { found.secrets.append(path) }
      if list == .ownState, TemporaryName(name) != nil { found.temporaries.append(path) }
      return
    }
    guard name.isValidUTF8 else {
      if name.bytes.first != 0x2E { found.flagged.append(notUTF8(path)) }
      return
    }
    guard lists.takes(name, in: found.folded) else { return }
    if let real = BuiltInNames.placeheld(name) {
      // A sync program's stand-in for a file that is not downloaded is never read as it, nor is the file missing (ST6).
      found.placeholders += 1
      let path = parent.appending(real)
      if !names.contains(where: { $0.name == real }) {
        result.closed[path] = .unreadable("it is not downloaded: \(name) stands in for it")
      }
      return
    }
    try door.reached(.walk, name, in: directory)
    if status == nil { status = try directory.status(of: name) }
    // Deleted since it was listed, or no file any more: absent.
    guard let status, status.kind == .regular else { return }
    if isBeingSaved(name, status, among: names) {
      // It is there: a bound file of such a name must not read as missing.
      result.closed[path] = .leftOut
      return
    }
    found.files.append(WalkedFile(path: path, status: status))
  }

  private func notUTF8(_ path: PathBytes) -> FlaggedFile {
    FlaggedFile(path, .name, "its name is not valid UTF-8; rename it to have it sent")
  }

  /// KDE's save: `NAME.XXXXXX` beside `NAME`, younger than a minute (P1.5).
  private func isBeingSaved(_ name: PathBytes, _ status: FileStatus, among names: [DirectoryEntry]) -> Bool {
    guard let base = BuiltInNames.baseOfRandomSuffix(name), !base.isEmpty else { return false }
    guard names.contains(where: { $0.name == base }) else { return false }
    let age = now.milliseconds &- status.modified / 1_000_000
    return age < 60_000 && age > -60_000
  }

  private mutating func enter(
    _ name: PathBytes, of parent: any Directory, at parentPath: PathBytes, _ above: Volume
  ) {
    let path = parentPath.appending(name)
    do throws(FileError) {
      try door.reached(.walk, name, in: parent)
      let directory = try parent.directory(name)
      let volume = Volume(try directory.status())
      if volume.device != above.device || volume.mount != above.mount { result.mounts.insert(path) }
      try read(directory, at: path, volume, isRoot: false)
    } catch {
      switch error.code {
      case ENOENT, ENOTDIR, ELOOP:
        result.isComplete = false
        result.closed[path] = .unreadable("it vanished while it was read")
        result.directories.append(FlaggedFile(path, .gone, "it vanished while it was read"))
      default:
        result.closed[path] = .unreadable(error.reason)
        result.directories.append(FlaggedFile(path, .unreadable, "it cannot be read: \(error.reason)"))
      }
    }
  }
}

import Glibc
import MarfaBase

/// What must stand at a path for a landing to go on.
package enum Expected: Hashable, Sendable {
  /// Nothing.
  case absent
  /// A regular file of these bytes.
  case bytes(ContentHash)
}

/// The bytes that land.
package enum LandingContent {
  /// A document.
  case bytes([UInt8])
  /// A blob, read from where it lies and checked on the way (X15.10).
  case blob(ContentHash, any ReadableFile)
}

/// A file to land.
package struct LandingWish {
  /// Where, below the root; directories on the way are found by name key and made where missing.
  package var path: PathBytes
  package var content: LandingContent
  package var expected: Expected
  /// The execute bits it gets (F50.2); nil leaves them to the file replaced, or off.
  package var executable: Bool?
  /// The mode of a new file, whatever the umask; nil leaves it to the umask (X7.4).
  package var mode: UInt32?

  package init(
    path: PathBytes, content: LandingContent, expected: Expected, executable: Bool? = nil, mode: UInt32? = nil
  ) {
    self.path = path
    self.content = content
    self.expected = expected
    self.executable = executable
    self.mode = mode
  }
}

/// A file written and synced beside its target. Its record goes into the store now, before `publish` (X15.5).
package struct PreparedLanding {
  /// The target, spelled as its directories are.
  package let path: PathBytes
  /// The bytes that will land.
  package let hash: ContentHash
  /// What the landed file will be: identity, size, times, mode.
  package let status: FileStatus
  /// The temporary file, below the root. After an exchange it holds what was displaced (P1.4): keep it recorded until
  /// `settle` says it is gone.
  package let temporary: PathBytes
  package let expected: Expected

  let directory: any Directory
}

/// A file that landed.
package struct LandedFile {
  package let path: PathBytes
  package let hash: ContentHash
  package let status: FileStatus
  /// What stood there before, to be looked at once more by `settle`.
  package let displaced: DisplacedFile?
  /// It was replaced by a plain rename, since the file system can't exchange: the limit of F20.14 stands.
  package let isUnguarded: Bool
}

/// Writes files whole or not at all (X14, X15, F20).
///
///     let prepared = try landing.prepare(wish)
///     // record path, hash and temporary in the store, durably
///     let landed = try landing.publish(prepared)
///     try landing.syncDirectories()
///     // record that it landed
///     if let displaced = landed.displaced { landing.settle(displaced) }
///
/// Not for several threads.
package final class Landing {
  /// A batch ends at this many files or bytes, whichever comes first.
  package static let batchFiles = 64
  package static let batchBytes = 8 << 20

  let root: any Directory
  let files: any FileSystem
  let clock: any Clock
  let door: FaultDoor
  let sabotage: Sabotage
  private let isRoot: () -> RootState
  private var counter: UInt64
  private var touched: [any Directory] = []
  /// The directory of the file filled last in this batch: those of one directory come one after another.
  private var filling: (path: PathBytes, place: LandingDirectory)?

  /// Landings below an open root.
  /// - Parameter isRoot: the look of X11, taken directly before each landing and each removal (X11.5).
  package init(
    root: any Directory, files: any FileSystem, clock: any Clock, door: FaultDoor = .none,
    sabotage: Sabotage = .none, isRoot: @escaping () -> RootState
  ) {
    self.root = root
    self.files = files
    self.clock = clock
    self.door = door
    self.sabotage = sabotage
    self.isRoot = isRoot
    // From the clock, so that two of one process give different names.
    counter = clock.monotonic
  }

  /// Makes the temporary file: bytes, mode, attributes, sync. On failure nothing is left of it.
  package func prepare(_ wish: LandingWish) throws(LandingFailure) -> PreparedLanding {
    guard let result = prepare([wish]).first else { throw LandingFailure(.refused, "nothing was asked for") }
    return try result.get()
  }

  /// Makes the temporary files of a batch, and all of them durable together. The answers stand as the wishes do.
  package func prepare(_ wishes: [LandingWish]) -> [Result<PreparedLanding, LandingFailure>] {
    var results: [Result<Filled, LandingFailure>] = []
    defer { filling = nil }
    for wish in wishes {
      do throws(LandingFailure) { results.append(.success(try fill(wish))) } catch { results.append(.failure(error)) }
    }
    let filled = results.compactMap { try? $0.get() }
    var failures = files.sync(filled.map(\.file))[...]
    return results.map { result in
      result.flatMap { filled in
        do throws(LandingFailure) {
          do throws(FileError) {
            if let failure = failures.removeFirst() { throw failure }
            try door.reached(.sync, filled.name, in: filled.place.directory)
            let status = try filled.file.status()
            try filled.file.close()
            return .success(
              PreparedLanding(
                path: filled.place.path.appending(filled.name), hash: filled.hash, status: status,
                temporary: filled.place.path.appending(filled.temporary), expected: filled.expected,
                directory: filled.place.directory))
          } catch { throw LandingFailure(error) }
        } catch {
          try? filled.file.close()
          try? filled.place.directory.unlink(filled.temporary)
          return .failure(error)
        }
      }
    }
  }

  /// A temporary file that is written and not yet synced.
  private struct Filled {
    var name: PathBytes
    var place: LandingDirectory
    var temporary: PathBytes
    var file: any WritableFile
    var hash: ContentHash
    var expected: Expected
  }

  private func fill(_ wish: LandingWish) throws(LandingFailure) -> Filled {
    try checkRoot()
    let place: LandingDirectory
    if let filling, filling.path == wish.path.parent {
      place = filling.place
    } else {
      place = try directory(for: wish.path)
      filling = (wish.path.parent, place)
    }
    let name = wish.path.name
    let target = try look(at: name, in: place.directory, expecting: wish.expected)
    let (temporary, file) = try makeTemporary(
      in: place.directory, mode: target == nil ? wish.mode ?? 0o666 : 0o600, exact: target != nil || wish.mode != nil)
    do throws(LandingFailure) {
      let hash = try fill(file, wish.content)
      try dress(file, name, in: place.directory, like: target, executable: wish.executable)
      return Filled(
        name: name, place: place, temporary: temporary, file: file, hash: hash, expected: wish.expected)
    } catch {
      try? file.close()
      try? place.directory.unlink(temporary)
      throw error
    }
  }

  /// The open directory of a path, found by name key and made where missing.
  func directory(for path: PathBytes) throws(LandingFailure) -> LandingDirectory {
    var made: [(parent: any Directory, path: PathBytes)] = []
    defer { touched += made.map(\.parent) }
    guard let place = try landingDirectory(path.parent, below: root, make: true, made: &made) else {
      throw LandingFailure(.refused, "its directory is not there")
    }
    return place
  }

  /// The last look and the rename. On failure the temporary file goes and what stands at the path stays.
  package func publish(_ prepared: PreparedLanding) throws(LandingFailure) -> LandedFile {
    let name = prepared.path.name
    let directory = prepared.directory
    let temporary = prepared.temporary.name
    do throws(LandingFailure) {
      try checkRoot()
      try reached(.lastLook, name, in: directory)
      let target = try look(at: name, in: directory, expecting: prepared.expected)
      try reached(.afterLastLook, name, in: directory)
      try reached(.rename, name, in: directory)
      var displaced: DisplacedFile?
      var isUnguarded = false
      if let target {
        if try exchange(temporary, name, in: directory, lookedAt: target.status, ours: prepared.status.inode) {
          displaced = DisplacedFile(
            path: prepared.path, temporary: prepared.temporary, hash: target.hash, landed: prepared.hash)
        } else {
          isUnguarded = true
        }
      } else {
        try Landing.renameIntoAbsent(
          temporary, as: name, in: directory, over: sabotage.breaks(.takenNameOverwritten) ? .replace : .noReplace)
      }
      touched.append(directory)
      return LandedFile(
        path: prepared.path, hash: prepared.hash, status: prepared.status, displaced: displaced,
        isUnguarded: isUnguarded)
    } catch {
      discard(prepared)
      throw error
    }
  }

  /// Takes the temporary file away: its landing is not wanted any more.
  package func discard(_ prepared: PreparedLanding) {
    // Only what this landing made: after an exchange undone, or done, another file has the name.
    if let found = try? prepared.directory.status(of: prepared.temporary.name),
      found.identity == prepared.status.identity, found.inode == prepared.status.inode
    {
      try? prepared.directory.unlink(prepared.temporary.name)
    }
  }

  /// Makes the renames of a batch durable: each directory once.
  /// - Throws: what the last failing directory said; the files stand, their names may not outlive a power cut.
  package func syncDirectories() throws(LandingFailure) {
    var seen: Set<FileIdentity> = []
    var failure: FileError?
    var last: (any Directory)?
    for directory in touched where directory !== last {
      last = directory
      do throws(FileError) {
        if let identity = try directory.status().identity, !seen.insert(identity).inserted { continue }
        try directory.sync()
      } catch {
        // A directory deleted meanwhile needs no sync.
        if error.code != ENOENT { failure = error }
      }
    }
    touched = []
    if let failure { throw LandingFailure(failure) }
  }

  func checkRoot() throws(LandingFailure) {
    if case .gone(let reason) = isRoot() { throw LandingFailure(.rootGone, reason) }
  }

  func reached(_ point: FaultPoint, _ name: PathBytes, in directory: any Directory) throws(LandingFailure) {
    do throws(FileError) { try door.reached(point, name, in: directory) } catch { throw LandingFailure(error) }
  }

  func touch(_ directory: any Directory) { touched.append(directory) }

  /// A temporary file's name never repeats within the process; one that is taken is stepped over.
  func makeTemporary(
    in directory: any Directory, mode: UInt32, exact: Bool
  ) throws(LandingFailure) -> (PathBytes, any WritableFile) {
    while true {
      counter &+= 1
      let name = TemporaryName(writer: files.writer, counter: counter).name
      do throws(FileError) {
        return (name, try directory.create(name, mode: mode, exactMode: exact))
      } catch {
        if error.code != EEXIST { throw LandingFailure(error) }
      }
    }
  }
}

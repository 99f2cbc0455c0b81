import Glibc
import MarfaBase

/// A file an exchange took out of its place (P1.4). It keeps a temporary name that the store records and no sweeper
/// takes, until it was looked at again.
package struct DisplacedFile: Hashable, Sendable {
  /// The path it stood at, where the landed file is now.
  package var path: PathBytes
  /// The name it has now, below the root.
  package var temporary: PathBytes
  /// What the last look saw in it.
  package var hash: ContentHash
  /// What landed in its place.
  package var landed: ContentHash

  package init(path: PathBytes, temporary: PathBytes, hash: ContentHash, landed: ContentHash) {
    self.path = path
    self.temporary = temporary
    self.hash = hash
    self.landed = landed
  }
}

/// What became of a displaced file.
package enum DisplacedOutcome: Hashable, Sendable {
  /// It held what was decided on, and is gone. Its record goes.
  case gone
  /// A program still has it open for writing, or it can't be looked at: the next pass looks again.
  case waits
  /// It held newer words of the person's, or is no file: it stands in its place again, what landed is gone. An edit, for
  /// the scan.
  case putBack
  /// It held newer words, and something newer stands in its place: it is at this path now (flag `saved`).
  case beside(PathBytes)
}

extension Landing {
  /// Looks at a displaced file again, at the end of a batch and in each later pass while it waits (P1.4).
  package func settle(_ displaced: DisplacedFile) -> DisplacedOutcome {
    do throws(FileError) {
      let parent = displaced.path.parent
      let directory = parent.isEmpty ? root : try root.directory(beneath: parent)
      let temporary = displaced.temporary.name
      guard let status = try directory.status(of: temporary) else { return .gone }
      // A link, directory or pipe put there between look and rename is the person's as a file is: it never waits for
      // anything, and nothing of it is read.
      guard status.kind == .regular else { return try giveBack(displaced, in: directory) }
      let reading = try FileReading(temporary, below: directory)
      if (reading.hash == displaced.hash && reading.isSettled) || sabotage.breaks(.displacedNotLookedAt) {
        guard isLetGo(reading) else { return .waits }
        try directory.unlink(temporary)
        return .gone
      }
      return try giveBack(displaced, in: directory)
    } catch {
      return .waits
    }
  }

  /// Where leases can't be had the file counts as written to until it has been still for 250 ms (P1.1).
  private func isLetGo(_ reading: FileReading) -> Bool {
    switch reading.hasWriter {
    case false?: true
    case true?: false
    case nil: clock.now.milliseconds &- reading.status.modified / 1_000_000 > 250
    }
  }

  private func giveBack(_ displaced: DisplacedFile, in directory: any Directory) throws(FileError) -> DisplacedOutcome {
    let temporary = displaced.temporary.name
    let name = displaced.path.name
    if let standing = try? FileReading(name, below: directory), standing.hash == displaced.landed {
      do throws(FileError) {
        try directory.rename(temporary, to: directory, as: name, .exchange)
        touch(directory)
        guard try FileReading(temporary, below: directory).hash == displaced.landed else {
          // Somebody saved in this very moment: theirs is the newest and stands there again.
          try directory.rename(temporary, to: directory, as: name, .exchange)
          return .beside(try putBeside(displaced, in: directory))
        }
        try directory.unlink(temporary)
        return .putBack
      } catch {
        if error.code != ENOENT { throw error }
      }
    }
    return .beside(try putBeside(displaced, in: directory))
  }

  private func putBeside(_ displaced: DisplacedFile, in directory: any Directory) throws(FileError) -> PathBytes {
    let names = DirectoryNames(try directory.list().map(\.name))
    var number = 1
    while true {
      let name = savedWhileSyncing(displaced.path.name, number)
      number += 1
      if names.standing(for: name) != nil { continue }
      do throws(LandingFailure) {
        try Landing.renameIntoAbsent(displaced.temporary.name, as: name, in: directory)
      } catch {
        if error.kind == .changed { continue }
        throw FileError(code: EIO, operation: "rename", path: name)
      }
      touch(directory)
      return displaced.path.parent.appending(name)
    }
  }
}

/// `NAME (saved while syncing).md`, numbered from 2, cut to 255 bytes with its extension whole.
func savedWhileSyncing(_ name: PathBytes, _ number: Int) -> PathBytes {
  let mark = Array((number == 1 ? " (saved while syncing)" : " (saved while syncing \(number))").utf8)
  var ending: [UInt8] = []
  if let found = name.fileExtension, found.bytes.count < 32 { ending = [0x2E] + found.bytes }
  var stem = name.bytes.dropLast(ending.count)
  while stem.count + mark.count + ending.count > 255 {
    // Whole characters alone.
    while let last = stem.popLast(), last & 0xC0 == 0x80 {}
  }
  return PathBytes(bytes: Array(stem) + mark + ending)
}

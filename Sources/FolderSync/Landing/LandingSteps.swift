import Glibc
import MarfaBase

extension Landing {
  /// A present target, as the last look found it.
  struct Target {
    var status: FileStatus
    var hash: ContentHash
    var attributes: [(name: String, value: [UInt8])]
  }

  /// Looks at a target (X15.2): nil where it is absent as expected, else the file of the very bytes expected. By its
  /// bytes, never by size and times alone: what a coarse clock hides must not be lost.
  /// - Parameter toReplace: a file its owner made read-only is refused (F20.7).
  func look(
    at name: PathBytes, in directory: any Directory, expecting expected: Expected, toReplace: Bool = true
  ) throws(LandingFailure) -> Target? {
    do throws(FileError) {
      let status = try directory.status(of: name)
      switch (status?.kind, expected) {
      case (nil, .absent): return nil
      case (.link, _): throw FileError(code: ELOOP, operation: "open", path: name)
      case (_, .absent): throw FileError(code: EEXIST, operation: "look", path: name)
      case (nil, .bytes): throw FileError(code: ENOENT, operation: "look", path: name)
      case (.directory, .bytes), (.special, .bytes): throw FileError(code: EISDIR, operation: "look", path: name)
      case (.regular, .bytes(let wanted)):
        // Its directory would allow it.
        if toReplace, let status, status.mode & 0o200 == 0 {
          throw FileError(code: EACCES, operation: "write", path: name)
        }
        let file = try directory.open(name)
        let reading = try FileReading(file)
        guard (reading.hash == wanted && reading.isSettled) || sabotage.breaks(.noLastLook) else {
          throw FileError(code: ESTALE, operation: "look", path: name)
        }
        return Target(status: reading.status, hash: reading.hash, attributes: try file.attributes())
      }
    } catch {
      switch (error.code, error.operation) {
      case (EEXIST, "look"), (EISDIR, "look"): throw LandingFailure(.changed, "something else has its name now")
      case (ENOENT, _): throw LandingFailure(.changed, "the file is not there any more")
      case (ESTALE, "look"): throw LandingFailure(.changed, "it was changed meanwhile")
      default: throw LandingFailure(error)
      }
    }
  }

  /// Writes the bytes and gives their digest.
  func fill(_ file: any WritableFile, _ content: LandingContent) throws(LandingFailure) -> ContentHash {
    do throws(FileError) {
      switch content {
      case .bytes(let bytes):
        try file.write(bytes)
        return ContentHash(of: bytes)
      case .blob(let hash, let source):
        var hasher = ContentHasher()
        while true {
          let more = try source.read(limit: 1 << 18)
          if more.isEmpty { break }
          hasher.update(more)
          try file.write(more)
        }
        guard hasher.finish() == hash else { throw FileError(code: EBADMSG, operation: "copy", path: .empty) }
        return hash
      }
    } catch {
      if error.code == EBADMSG { throw LandingFailure(.refused, "the bytes at hand are not those of the item") }
      throw LandingFailure(error)
    }
  }

  /// Mode, attributes and owner as the target has them (X15.4). What one of them refuses fails the landing.
  func dress(
    _ file: any WritableFile, _ name: PathBytes, in directory: any Directory, like target: Target?, executable: Bool?
  ) throws(LandingFailure) {
    do throws(FileError) {
      try door.reached(.attributes, name, in: directory)
      if let target {
        let own = try file.status()
        // The owner first: changing it clears other bits.
        if own.owner != target.status.owner || own.group != target.status.group {
          try file.setOwner(target.status.owner, group: target.status.group)
        }
        try file.setMode(withExecute(executable, target.status.mode))
        for attribute in target.attributes { try file.setAttribute(attribute.name, attribute.value) }
        if executable != nil, target.attributes.contains(where: { $0.name == accessListAttribute }) {
          // The access list brings its own bits.
          try file.setMode(withExecute(executable, target.status.mode))
        }
      } else if executable == true {
        try file.setMode(withExecute(true, try file.status().mode))
      }
    } catch {
      throw LandingFailure(error)
    }
  }

  /// Exchanges the temporary file with its target (P1.4). False where the file system can't, and a plain rename was done.
  func exchange(
    _ temporary: PathBytes, _ name: PathBytes, in directory: any Directory, lookedAt: FileStatus, ours: UInt64
  ) throws(LandingFailure) -> Bool {
    do throws(FileError) {
      try directory.rename(temporary, to: directory, as: name, .exchange)
    } catch {
      switch error.code {
      case EINVAL, ENOSYS, EOPNOTSUPP:
        do throws(FileError) {
          try directory.rename(temporary, to: directory, as: name, .replace)
          return false
        } catch { throw LandingFailure(error) }
      case ENOENT: throw LandingFailure(.changed, "the file is not there any more")
      default: throw LandingFailure(error)
      }
    }
    // Another file than the one looked at was saved into the name between look and rename, or a link, directory or pipe
    // was put there: it goes back at once. Its inode alone does not tell: the next thing made has that of the file deleted
    // for it.
    guard let displaced = try? directory.status(of: temporary), !displaced.isSame(as: lookedAt) else { return true }
    do throws(FileError) {
      try directory.rename(temporary, to: directory, as: name, .exchange)
    } catch {
      // The name is free again: the person's file still belongs there. Where it cannot go back it stays recorded as
      // displaced, and each pass tries to give it back.
      do throws(LandingFailure) { try Landing.renameIntoAbsent(temporary, as: name, in: directory) } catch {
        return true
      }
      try? directory.sync()
      throw LandingFailure(.changed, "it was saved meanwhile")
    }
    if let now = try? directory.status(of: temporary), now.inode != ours {
      // Saved once more in this very moment: the newest stands in its place again, and the one before it is displaced.
      try? directory.rename(temporary, to: directory, as: name, .exchange)
      return true
    }
    // On the disk before its record goes and the other name is taken away: after a power cut in between the person's words
    // would stand under that name alone, which the next pass sweeps.
    try? directory.sync()
    throw LandingFailure(.changed, "it was saved meanwhile")
  }

  /// Gives the file a name nothing has (X15.3): a rename that refuses a taken name, else a second name, never a plain
  /// rename.
  static func renameIntoAbsent(
    _ temporary: PathBytes, as name: PathBytes, in directory: any Directory, over: RenameMode = .noReplace
  ) throws(LandingFailure) {
    do throws(FileError) {
      do throws(FileError) {
        try directory.rename(temporary, to: directory, as: name, over)
      } catch {
        guard error.code == EINVAL || error.code == ENOSYS else { throw error }
        try directory.link(temporary, to: directory, as: name)
        try? directory.unlink(temporary)
      }
    } catch {
      if error.code == EEXIST { throw LandingFailure(.changed, "something else has its name now") }
      throw LandingFailure(error)
    }
  }
}

extension FileStatus {
  /// Whether both looks saw one file, whatever was done to it in between.
  fileprivate func isSame(as other: FileStatus) -> Bool {
    kind == other.kind && inode == other.inode && device == other.device
      && (birth == nil || other.birth == nil || birth == other.birth)
  }
}

/// Permission bits with execute set wherever read is, or all three cleared (F50.2, X25.3).
package func withExecute(_ executable: Bool?, _ mode: UInt32) -> UInt32 {
  switch executable {
  case nil: mode
  case true?: mode | (mode & 0o444) >> 2
  case false?: mode & ~0o111
  }
}

import Glibc
import MarfaBase

/// Why a file was not written, or not taken away. Nothing of the person's was touched.
package struct LandingFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// What it counts as.
  package enum Kind: Hashable, Sendable {
    /// The path leads out of the folder, or where the folder does not write (F30): `outside`.
    case outside
    /// The person changed what stands there: `unwritten`, or `kept` for a removal; the next scan decides.
    case changed
    /// The system refused it: `unwritten`.
    case refused
    /// The disk is full (P5.2): `unwritten`, and no further landing is tried in this pass.
    case storageFull
    /// The root is not the root any more (X11.5): the pass ends.
    case rootGone
  }

  package var kind: Kind
  /// In words a person reads.
  package var reason: String

  package init(_ kind: Kind, _ reason: String) {
    self.kind = kind
    self.reason = reason
  }

  /// A failed call of the file system.
  package init(_ error: FileError) {
    switch error.code {
    case ENOSPC, EDQUOT: self.init(.storageFull, "the disk is full")
    case ENAMETOOLONG: self.init(.refused, "its name is longer than this file system takes")
    case ELOOP: self.init(.outside, "a symbolic link stands on its way")
    case EXDEV where error.operation == "open": self.init(.outside, "its path leads out of the folder")
    case EACCES, EPERM:
      self.init(.refused, "cannot \(error.operation): \(error.reason); make it writable, and the next pass writes it")
    default: self.init(.refused, "cannot \(error.operation): \(error.reason)")
    }
  }

  package var description: String { reason }
}

/// A placement as a path below the root (F30.1): a leading `/`, empty names and `.` read as nothing.
/// - Throws: `.outside` for any `..` (F30.2), an empty path, or a name that holds a NUL.
package func plainPath(_ placement: PathBytes) throws(LandingFailure) -> PathBytes {
  var path: PathBytes = .empty
  for name in placement.components where name != "." {
    if name == ".." { throw LandingFailure(.outside, "its path leads out of the folder") }
    if name.bytes.contains(0) { throw LandingFailure(.outside, "its path holds a NUL character") }
    path = path.appending(name)
  }
  if path.isEmpty { throw LandingFailure(.outside, "its path names no file") }
  return path
}

/// The names of one directory by their keys, for telling what is free (F27.6).
package struct DirectoryNames: Sendable {
  private var names: [NameKey: [PathBytes]] = [:]

  /// Lists a directory below the root; one that is not there has no names.
  package init(of path: PathBytes, below root: any Directory) throws(FileError) {
    do throws(FileError) {
      let directory = path.isEmpty ? root : try root.directory(beneath: path)
      self.init(try directory.list().map(\.name))
    } catch {
      if error.code != ENOENT { throw error }
      self.init([])
    }
  }

  /// These names.
  package init(_ names: [PathBytes]) {
    for name in names { self.names[name.nameKey, default: []].append(name) }
  }

  /// The name that stands for this one: its exact spelling first, else the first in path order (F27.5); nil where it is
  /// free.
  package func standing(for name: PathBytes) -> PathBytes? {
    guard let found = names[name.nameKey] else { return nil }
    return found.contains(name) ? name : found.min()
  }
}

import MarfaBase

/// A file in another folder that may be a missing file of this one (F43).
package struct Sighting: Hashable, Sendable {
  /// What makes it look like the missing one, the surest first.
  package enum Kind: Int, Sendable, CaseIterable {
    /// Device, inode and birth time.
    case identity
    /// The item's id in its frontmatter.
    case id
    /// The same bytes, for a file that carries no id.
    case bytes
    /// That folder's own record that it has a file of the item, whatever became of its bytes since (F44.10).
    case binding
  }

  /// Whose file it is there.
  package enum Owner: Hashable, Sendable {
    case nobody
    /// The item's.
    case item
    /// Another item's.
    case another
  }

  package var kind: Kind
  /// The folder's directory.
  package var folder: PathBytes
  package var path: PathBytes
  package var owner: Owner
  /// Whether that folder's search holds the item; nil where that cannot be told.
  package var searchHolds: Bool?
  /// Whether that folder binds another item by these bytes.
  package var bytesAreAnothers = false

  package init(
    kind: Kind, folder: PathBytes, path: PathBytes, owner: Owner, searchHolds: Bool?, bytesAreAnothers: Bool = false
  ) {
    self.kind = kind
    self.folder = folder
    self.path = path
    self.owner = owner
    self.searchHolds = searchHolds
    self.bytesAreAnothers = bytesAreAnothers
  }
}

/// What a missing file's sightings say.
package enum MissingVerdict: Hashable, Sendable {
  /// It moved there.
  case moved(Sighting)
  /// No sighting is it.
  case nowhere
  /// It cannot be told, for this reason.
  case unsure(String)
}

/// Whether a missing file moved to another folder of this machine (F43).
///
/// Each kind of sighting is decided before the next, and each sighting falls in one of these:
/// - The same file by identity has moved, whoever binds it there: this folder's own record of the file names it, so it can
///   be no other folder's file of its own.
/// - Bound to the item there while both searches hold it, it is that folder's own file (F45): it says nothing. Where it
///   cannot be told whether that search holds it, nothing can be told of the file.
/// - Any other file that carries the item's id is it, however it got there (F43.4).
/// - A file that folder records as the item's is it though its bytes are others by now: it was taken in there, or brought by
///   hand, and saved since (F43.4, F44.10).
/// - Bytes alone say something only of a file that is nobody's or the item's, in a folder that binds no other item by
///   them; two such files cannot be told apart.
/// - Parameter holdsHere: whether this folder's search holds the item.
package func judgeMissing(_ sightings: [Sighting], holdsHere: Bool) -> MissingVerdict {
  var untold: String?
  for kind in Sighting.Kind.allCases {
    var found: [Sighting] = []
    for sighting in sightings where sighting.kind == kind {
      if kind != .identity, sighting.owner == .item, holdsHere {
        guard let holds = sighting.searchHolds else {
          untold = untold ?? "what the folder at \(sighting.folder) holds cannot be read now"
          continue
        }
        if holds { continue }
      }
      if kind == .bytes, sighting.owner == .another || sighting.bytesAreAnothers { continue }
      found.append(sighting)
    }
    guard let first = found.first else { continue }
    if kind == .bytes, found.count > 1 {
      return .unsure(
        "several files in other folders have its bytes (\(first.folder.appending(first.path)) is one), so it cannot be told "
          + "which one it became")
    }
    return .moved(first)
  }
  return untold.map { .unsure($0) } ?? .nowhere
}

/// Whose a document is that carries the id of an item this folder has not bound (F42).
package enum CarriedID: Hashable, Sendable {
  /// The item's file.
  case itemsFile
  /// A copy: a new item.
  case copy
  /// Moved here: the item is read from the server, and the file is its.
  case movedHere
  /// The id names nothing here (F16): a new item.
  case noID
}

/// F42's table, for a folder that has no file of the item.
/// - Parameters:
///   - othersCarry: whether a file in another folder of this machine carries the id.
///   - anotherCopyHolds: whether another folder's copy holds the item.
package func judgeCarried(
  othersCarry: Bool, searchHolds: Bool, copyHolds: Bool, anotherCopyHolds: Bool
) -> CarriedID {
  if searchHolds { return .itemsFile }
  if othersCarry { return .copy }
  if copyHolds { return .itemsFile }
  return anotherCopyHolds ? .movedHere : .noID
}

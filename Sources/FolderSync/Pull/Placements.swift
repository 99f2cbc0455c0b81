import MarfaBase
import MarfaCopy

/// An item that is to have a file, and where it asks to have it.
package struct PlacementWish: Sendable {
  package var item: EntityID
  /// The path it asks for: its placement's, its own file's, or one made of its title.
  package var path: PathBytes
  /// The placement the server holds: its creation time and id; nil where the server holds none, a queued one included
  /// (F19.17: every machine ranks from what the server holds).
  package var placement: (created: Timestamp, edge: EntityID)?
  /// Where its file stands now.
  package var own: PathBytes?
  /// Whether it is a file that nothing of this folder holds any more (F12.27). Other machines may have no file of it and
  /// know nothing of it, so it takes no name from one they all have (F19.17).
  package var isLeftOver: Bool

  package init(
    item: EntityID, path: PathBytes, placement: (created: Timestamp, edge: EntityID)?, own: PathBytes?,
    isLeftOver: Bool = false
  ) {
    self.item = item
    self.path = path
    self.placement = placement
    self.own = own
    self.isLeftOver = isLeftOver
  }
}

/// Where an item's file goes.
package struct Place: Hashable, Sendable {
  package var path: PathBytes
  /// Whether another item has the path it asked for (F19.15).
  package var isBeside: Bool

  package init(path: PathBytes, isBeside: Bool) {
    self.path = path
    self.isBeside = isBeside
  }
}

/// Gives every item a path, no two of them one name (F19.14 to F19.17).
///
/// The order is total: items with a placement by its creation and id; then those without, the ones whose file is already
/// there first, then by item id; files left over come after all others. Each in turn takes the path it asks for where no
/// earlier one has it, else the first free number. A number is free where no file of the disk has the name but the
/// item's own, and no item asks for it, so that a later item is never pushed off its own wish by an earlier one's number.
///
/// A file of the disk that is no item's does not move anybody: whether it may be written over is F32's question.
/// - Parameters:
///   - isOnDisk: whether the disk holds a file of this name key, other than at `own`.
package func rankPlacements(
  _ wishes: [PlacementWish], isOnDisk: (_ path: PathBytes, _ own: PathBytes?) -> Bool
) -> [EntityID: Place] {
  func precedes(_ left: PlacementWish, _ right: PlacementWish) -> Bool {
    if left.isLeftOver != right.isLeftOver { return right.isLeftOver }
    switch (left.placement, right.placement) {
    case (let one?, let other?): return (one.created, one.edge) < (other.created, other.edge)
    case (.some, nil): return true
    case (nil, .some): return false
    case (nil, nil):
      let (here, there) = (left.standsThere, right.standsThere)
      return here != there ? here : left.item < right.item
    }
  }
  var wanted: [NameKey: Int] = [:]
  for wish in wishes { wanted[wish.path.nameKey, default: 0] += 1 }
  var taken: Set<NameKey> = []
  var places: [EntityID: Place] = [:]
  for wish in wishes.sorted(by: precedes) {
    let key = wish.path.nameKey
    if taken.insert(key).inserted {
      // A difference of case or form alone leaves the file its own spelling (F27.4).
      let path = wish.own.flatMap { $0.nameKey == key ? $0 : nil } ?? wish.path
      places[wish.item] = Place(path: path, isBeside: false)
      continue
    }
    let base = unnumbered(wish.path.name)
    var number = 2
    while true {
      let path = wish.path.parent.appending(DocumentNames.beside(base, number: number))
      let key = path.nameKey
      let isOwn = wish.own?.nameKey == key
      if !taken.contains(key), isOwn || wanted[key] == nil, isOwn || !isOnDisk(path, wish.own) {
        taken.insert(key)
        places[wish.item] = Place(path: isOwn ? wish.own ?? path : path, isBeside: true)
        break
      }
      number += 1
    }
  }
  return places
}

extension PlacementWish {
  fileprivate var standsThere: Bool { own.map { $0.nameKey == path.nameKey } ?? false }
}

/// A name without a number it already carries: `Plan (2).md` is `Plan.md` (F19.15).
package func unnumbered(_ name: PathBytes) -> PathBytes {
  let bytes = name.bytes
  let dot = name.fileExtension.map { bytes.count - $0.bytes.count - 1 } ?? bytes.count
  let stem = bytes[..<dot]
  guard stem.last == UInt8(ascii: ")"), let open = stem.lastIndex(of: UInt8(ascii: "(")), open > 1,
    stem[open - 1] == UInt8(ascii: " ")
  else { return name }
  let digits = stem[(open + 1)..<(stem.endIndex - 1)]
  guard !digits.isEmpty, digits.count < 10, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), digits.first != 0x30 else {
    return name
  }
  return PathBytes(bytes: Array(stem[..<(open - 1)]) + Array(bytes[dot...]))
}

/// A placement's path as this folder reads it (F30.1, F30.2).
package enum PlacementPath: Hashable, Sendable {
  case inside(PathBytes)
  /// The reason it leads nowhere this folder writes.
  case outside(String)

  package init(_ text: Text) {
    let parts = PathBytes(text).components.filter { $0 != "." }
    if parts.contains("..") {
      self = .outside("its path leads out of the folder")
    } else if parts.isEmpty {
      self = .outside("its placement names no file")
    } else if parts.contains(where: { $0.bytes.contains(0) }) || !text.isValidUTF8 {
      self = .outside("its path is no name a file can have")
    } else {
      self = .inside(parts.dropFirst().reduce(parts[0]) { $0.appending($1) })
    }
  }
}

/// Whether a path would make an item another kind of file (F19.19).
package func isUnsuited(_ path: PathBytes, isFileItem: Bool, mimeType: Text?) -> Bool {
  let isDocumentName = DocumentKind(name: path) != nil
  guard isFileItem else { return !isDocumentName }
  let document: String? =
    switch DocumentKind(name: path) {
    case .markdown: "text/markdown"
    case .text: "text/plain"
    case nil: nil
    }
  guard let named = MIMETypes.type(of: path.name) ?? document else { return false }
  guard let mimeType, !mimeType.isEmpty else { return false }
  return Text(named) != mimeType
}

/// Whether a removal is large enough to be a mistake (F46.1).
package func isLargeRemoval(_ count: Int, ofBound bound: Int, files: Int, fraction: Double) -> Bool {
  count > files && Double(count) > fraction * Double(bound)
}

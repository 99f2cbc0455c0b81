import MarfaBase

/// The items files here are, by file name and path, with and without extension, in any directory (F12.3).
package struct FileNames: Sendable {
  private struct Entry: Sendable {
    let path: [UInt8]
    let item: EntityID
  }
  private var byName: [NameKey: [Entry]] = [:]

  /// No files.
  package init() {}

  /// Adds a file.
  package mutating func add(_ path: PathBytes, item: EntityID) {
    let bytes = path.bytes
    let name = path.name.bytes
    byName[NameKey(name), default: []].append(Entry(path: NameKey(bytes).bytes, item: item))
    if let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0 {
      let cut = name.count - dot
      byName[NameKey(name[..<dot]), default: []].append(Entry(path: NameKey(bytes.dropLast(cut)).bytes, item: item))
    }
  }

  /// The items whose file a name or path means. A name with a directory is a path from the root, or, where no file has
  /// it, the end of one at a directory's edge.
  package func items(named name: Text) -> [EntityID] {
    var key = NameKey(name).bytes[...]
    while key.first == UInt8(ascii: "/") { key.removeFirst() }
    guard let slash = key.lastIndex(of: UInt8(ascii: "/")) else {
      return Array(Set((byName[NameKey(key)] ?? []).map(\.item))).sorted()
    }
    let candidates = byName[NameKey(key[(slash + 1)...])] ?? []
    let exact = candidates.filter { $0.path.elementsEqual(key) }
    let answering = exact.isEmpty ? candidates.filter { endsAtDirectory($0.path, key) } : exact
    return Array(Set(answering.map(\.item))).sorted()
  }
}

/// Whether a path ends in `tail` at a directory's edge.
package func endsAtDirectory(_ path: [UInt8], _ tail: ArraySlice<UInt8>) -> Bool {
  guard path.count > tail.count else { return path.elementsEqual(tail) }
  return path[path.count - tail.count - 1] == UInt8(ascii: "/") && path.suffix(tail.count).elementsEqual(tail)
}

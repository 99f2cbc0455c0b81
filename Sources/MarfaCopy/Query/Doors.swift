import MarfaBase

/// How much of what it narrows to an answer of the copy is (D4).
package enum Completeness: String, Hashable, Sendable {
  /// All the slice holds.
  case complete
  /// What was saved here or has arrived so far.
  case partial
  /// All the slice held when the server's log was last followed.
  case stale
}

/// The reads of an app, each answered or refused by the copy's state (D4). The plain reads beside (`item`, `edges`) answer
/// from what is stored in any state; a folder judges the state itself.
extension WorkingCopy {
  /// How much a list, a search or a batch get answers now.
  package func completeness() throws(MarfaError) -> Completeness {
    switch try hydration() {
    case .complete: return .complete
    case .stale: return .stale
    case .never, .inProgress, .expired: return .partial
    }
  }

  /// An item by id; nil where the copy holds none out of the bin.
  /// - Throws: `hydration_incomplete` in an ended copy, and in a first fill for a row that may yet arrive.
  package func get(_ id: EntityID) throws(MarfaError) -> Item? {
    let state = try hydration()
    if state == .expired { try requireComplete() }
    if let item = try item(id) { return item.isTrashed ? nil : item }
    if state == .inProgress, try !isRefillInPlace() { try requireComplete() }
    return nil
  }

  /// Items by id in the order asked, those the copy holds; the bin's where asked for (D32.2).
  package func get(_ ids: [EntityID], includingBin: Bool = false) throws(MarfaError) -> [Item] {
    if try hydration() == .expired { try requireComplete() }
    var out: [Item] = []
    for id in ids { if let item = try item(id), includingBin || !item.isTrashed { out.append(item) } }
    return out
  }

  /// Edges that run from an item, waiting ones among them (D43.1).
  /// - Throws: `hydration_incomplete` unless the copy is whole, or was never filled.
  package func readEdges(from source: EntityID) throws(MarfaError) -> [Edge] {
    try requireEdges()
    return try edges(from: source)
  }

  /// Edges that run to an item, waiting ones among them.
  package func readEdges(to target: EntityID) throws(MarfaError) -> [Edge] {
    try requireEdges()
    return try edges(to: target)
  }

  /// The links and embeds of a held item's body and what each names, by the copy alone (D97.1).
  /// - Throws: `hydration_incomplete` unless the copy is whole, or was never filled; `not_held`.
  package func readLinks(in item: EntityID) throws(MarfaError) -> BodyLinks {
    try requireEdges()
    return try bodies.links(in: item)
  }

  func requireEdges() throws(MarfaError) {
    if try hydration() != .never { try requireComplete() }
  }

  private func isRefillInPlace() throws(MarfaError) -> Bool {
    guard let stored = try store.text(.hydrateState) else { return false }
    return FillProgress(.object(try Store.object(stored.bytes)))?.kind == "in_place"
  }

  // MARK: - Thumbnails and types

  /// The image an item carries in the row itself (D29.1).
  package struct Thumbnail: Hashable, Sendable {
    package var mimeType: Text
    package var bytes: [UInt8]
  }

  /// The thumbnail of a held item; nil where it has none.
  /// - Throws: `not_held` for a row not held (D29.2).
  package func thumbnail(_ id: EntityID) throws(MarfaError) -> Thumbnail? {
    guard let item = try get(id) else { throw MarfaError(.notHeld, "the copy holds no item \(id)") }
    let fields = try catalog().type(item.type)?.fields ?? []
    for field in fields where field.kind == "thumbnail" {
      if let text = item.properties[field.name]?.text, let found = Thumbnail(dataURI: text) { return found }
    }
    return nil
  }

  /// A type as `GET /types/{id}` answers it (D47.2).
  /// - Throws: `not_found`, naming it (D48.2).
  package func type(_ id: Text) throws(MarfaError) -> ItemType {
    guard let type = try catalog().type(id) else { throw MarfaError(.notFound, "the copy knows no type \(id)") }
    return type
  }

  /// An edge type as the edge type list gives it (D47.3).
  /// - Throws: `not_found`, naming it.
  package func edgeType(_ id: Text) throws(MarfaError) -> EdgeType {
    guard let type = try catalog().edgeTypes[id] else {
      throw MarfaError(.notFound, "the copy knows no edge type \(id)")
    }
    return type
  }

  /// The types the instance has now, in any state of the copy, whose own catalog and version stay (D103.1).
  /// - Throws: `no_server` where none is named (D104.1).
  package func servedCatalog() throws(MarfaError) -> Catalog {
    guard server.endpoint != nil else { throw MarfaError(.noServer, "no server is named") }
    return Catalog(version: nil, types: try served("/types"), edgeTypes: try served("/edge-types"))
  }

  private func served(_ path: String) throws(MarfaError) -> [JSON] {
    var rows: [JSON] = []
    var cursor: Text?
    repeat {
      try checkStop()
      let page = try server.request("GET", path, query: cursor.map { [("cursor", $0)] } ?? []).json()
      guard let listed = page["data"]?.array else {
        throw MarfaError(.decoding, "the server's list \(path) could not be read")
      }
      rows += listed
      let next = page["next_cursor"]?.text
      if next != nil, next == cursor { throw MarfaError(.decoding, "the server's list \(path) repeats a page") }
      cursor = next
    } while cursor != nil
    return rows
  }
}

extension WorkingCopy.Thumbnail {
  /// The image of a `data:` address; nil where it is none.
  init?(dataURI text: Text) {
    let bytes = text.bytes
    guard bytes.starts(with: "data:image/".utf8), let comma = bytes.firstIndex(of: UInt8(ascii: ",")) else {
      return nil
    }
    let head = bytes[5..<comma].split(separator: UInt8(ascii: ";"))
    guard let kind = head.first, head.dropFirst().contains(where: { $0.elementsEqual("base64".utf8) }),
      let decoded = base64Decoded(bytes[(comma + 1)...])
    else { return nil }
    self.init(mimeType: Text(bytes: Array(kind)), bytes: decoded)
  }
}

/// The bytes of standard Base64, padding optional; nil for any other letter.
private func base64Decoded(_ text: ArraySlice<UInt8>) -> [UInt8]? {
  var out: [UInt8] = []
  var (bits, count) = (UInt32(0), 0)
  for byte in text {
    let value: UInt32
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = UInt32(byte - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt32(byte - UInt8(ascii: "a")) + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): value = UInt32(byte - UInt8(ascii: "0")) + 52
    case UInt8(ascii: "+"): value = 62
    case UInt8(ascii: "/"): value = 63
    case UInt8(ascii: "="): continue
    default: return nil
    }
    bits = bits << 6 | value
    count += 6
    if count >= 8 {
      count -= 8
      out.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
    }
  }
  return out
}

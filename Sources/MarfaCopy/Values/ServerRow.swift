import MarfaBase

/// A row of the server in the form the store keeps it: its head read, its lists and objects as the text they are kept as.
/// Most rows of a fill and of a catch-up are taken in so, without values made of what they say.
struct ServerRow {
  var id: EntityID
  var type: Text
  var tier: Text?
  var state: Text
  var source: Text?
  var sourceID: Text?
  var version: Int
  var schemaVersion: Int
  var occurredAt: Timestamp
  var createdAt: Timestamp
  var updatedAt: Timestamp
  var isListed: Bool
  /// The properties' JSON text.
  var properties: Text
  /// The tags' JSON text, ascending by bytes.
  var tags: Text
  /// The extensions' JSON text.
  var extensions: Text
  /// Its title, by its type's title field (D211.6).
  var title: Text?
  /// Whether a property holds an image in its text, which the catalog has to answer for (D15.2).
  var hasImage = false
  /// The text of the edges it carries, where there are any.
  var edges: [UInt8]?

  /// The row of an item.
  init(_ item: Item, in catalog: Catalog) {
    (id, type, tier, state) = (item.id, item.type, item.tier, item.state)
    (source, sourceID, version, schemaVersion) = (item.source, item.sourceID, item.version, item.schemaVersion)
    (occurredAt, createdAt, updatedAt) = (item.occurredAt, item.createdAt, item.updatedAt)
    isListed = item.isListed
    properties = Text(bytes: JSON.object(item.properties).write())
    tags = Text(bytes: JSON.array(item.tags.map { .string($0) }).write())
    extensions = Text(bytes: JSON.object(item.extensions).write())
    title = catalog.title(of: item)
  }

  /// The item, its texts read.
  func item() throws(MarfaError) -> Item {
    Item(
      id: id, type: type, tier: tier, state: state, properties: try Store.object(properties.bytes),
      tags: try Store.texts(tags.bytes), version: version, schemaVersion: schemaVersion, source: source,
      sourceID: sourceID, occurredAt: occurredAt, createdAt: createdAt, updatedAt: updatedAt,
      extensions: try Store.object(extensions.bytes), isListed: isListed)
  }

  // MARK: - From a text

  /// The row of an event's data or an answer; nil where it is to be read as `JSON`.
  init?(_ bytes: [UInt8], in catalog: Catalog) {
    let row = bytes.withUnsafeBufferPointer { buffer -> ServerRow? in
      var scan = JSONScan(buffer)
      guard let row = ServerRow(&scan, in: catalog), scan.isAtEnd else { return nil }
      return row
    }
    guard let row else { return nil }
    self = row
  }

  /// The rows of a page and where the next one begins; nil where the page is to be read as `JSON`.
  static func page(_ bytes: [UInt8], in catalog: Catalog) -> (rows: [PageRow], next: Text?)? {
    bytes.withUnsafeBufferPointer { buffer in
      var scan = JSONScan(buffer)
      var rows: [PageRow]?
      var next: Text??
      let isRead = scan.members { scan, key in
        if scan.is(key, "data") {
          guard rows == nil else { return false }
          var read: [PageRow] = []
          guard scan.elements({ scan in PageRow(&scan, in: catalog).map { read.append($0) } != nil }) else {
            return false
          }
          rows = read
          return true
        }
        guard scan.is(key, "next_cursor") else { return scan.skip() }
        guard next == nil else { return false }
        if scan.take("null") {
          next = .some(nil)
          return true
        }
        guard let cursor = scan.string(), !cursor.hasEscapes, !cursor.range.isEmpty else { return false }
        next = scan.text(cursor.range)
        return true
      }
      guard isRead, scan.isAtEnd, let rows, let next else { return nil }
      return (rows, next)
    }
  }

  /// Reads `{"item","metadata"?,"listed"}` at hand; nil where any of it is not as an instance most often writes it.
  fileprivate init?(_ scan: inout JSONScan, in catalog: Catalog) {
    var parts = Parts()
    guard scan.members({ scan, key in parts.take(key, &scan) }), let row = parts.row(scan, in: catalog) else {
      return nil
    }
    self = row
  }

  private init(_ parts: Parts, id: EntityID, type: Text, state: Text, properties: Text, times: (Timestamp, Timestamp)) {
    (self.id, self.type, self.state, self.properties) = (id, type, state, properties)
    (createdAt, updatedAt) = times
    occurredAt = parts.occurred ?? times.0
    (tier, source, sourceID) = (parts.tier, parts.source, parts.sourceID)
    version = parts.version ?? 0
    schemaVersion = parts.schemaVersion ?? 1
    isListed = parts.isListed ?? true
    tags = parts.tags ?? "[]"
    extensions = parts.extensions ?? "{}"
    hasImage = parts.hasImage
    edges = parts.edges
  }

  /// What was met of a row so far.
  private struct Parts {
    var id: EntityID?
    var type: Text?
    var tier: Text?
    var state: Text?
    var source: Text?
    var sourceID: Text?
    var version: Int?
    var schemaVersion: Int?
    var occurred: Timestamp?
    var created: Timestamp?
    var updated: Timestamp?
    var isListed: Bool?
    var properties: Range<Int>?
    var members: [(key: Range<Int>, value: Range<Int>)] = []
    var tags: Text?
    var extensions: Text?
    var hasImage = false
    var edges: [UInt8]?
    private var seen: UInt32 = 0

    /// More properties than these are looked through by a dictionary, which the reader of whole texts has.
    private static let most = 24

    /// Notes that a member was met; false where it was before: the last of two counts, which is for the long way to find.
    private mutating func first(_ bit: UInt32) -> Bool {
      defer { seen |= 1 << bit }
      return seen & 1 << bit == 0
    }

    mutating func take(_ key: Range<Int>, _ scan: inout JSONScan) -> Bool {
      if scan.is(key, "item") {
        return first(0) && scan.members { scan, key in takeItem(key, &scan) }
      }
      if scan.is(key, "metadata") {
        return first(1) && scan.members { scan, key in takeMetadata(key, &scan) }
      }
      guard scan.is(key, "listed") else { return scan.skip() }
      if scan.take("true") { isListed = true } else if scan.take("false") { isListed = false } else { return false }
      return first(2)
    }

    private mutating func takeItem(_ key: Range<Int>, _ scan: inout JSONScan) -> Bool {
      switch key.count {
      case 2 where scan.is(key, "id"):
        guard first(3), let piece = scan.string(), !piece.hasEscapes else { return false }
        id = scan.id(piece.range)
        return id != nil
      case 4 where scan.is(key, "type"): return first(4) && text(&type, &scan)
      case 4 where scan.is(key, "tier"): return first(5) && optionalText(&tier, &scan)
      case 5 where scan.is(key, "state"): return first(6) && text(&state, &scan)
      case 6 where scan.is(key, "source"): return first(7) && optionalText(&source, &scan)
      case 9 where scan.is(key, "source_id"): return first(8) && optionalText(&sourceID, &scan)
      case 7 where scan.is(key, "version"):
        version = scan.count()
        return first(9) && version != nil
      case 14 where scan.is(key, "schema_version"):
        schemaVersion = scan.count()
        return first(10) && schemaVersion != nil
      case 11 where scan.is(key, "occurred_at"): return first(11) && time(&occurred, &scan)
      case 10 where scan.is(key, "created_at"): return first(12) && time(&created, &scan)
      case 10 where scan.is(key, "updated_at"): return first(13) && time(&updated, &scan)
      case 10 where scan.is(key, "properties"): return first(14) && takeProperties(&scan)
      case 5 where scan.is(key, "edges"):
        guard first(15) else { return false }
        let start = scan.at
        guard scan.stands(UInt8(ascii: "{")), scan.skip() else { return false }
        if scan.at - start > 2 { edges = scan.array(start..<scan.at) }
        return true
      default: return scan.skip()
      }
    }

    private func text(_ place: inout Text?, _ scan: inout JSONScan) -> Bool {
      guard let piece = scan.string(), !piece.hasEscapes else { return false }
      place = scan.text(piece.range)
      return true
    }

    private func optionalText(_ place: inout Text?, _ scan: inout JSONScan) -> Bool {
      scan.take("null") || text(&place, &scan)
    }

    private func time(_ place: inout Timestamp?, _ scan: inout JSONScan) -> Bool {
      guard let piece = scan.string(), !piece.hasEscapes else { return false }
      place = Timestamp(plain: UnsafeBufferPointer(rebasing: scan.bytes[piece.range]))
      return place != nil
    }

    /// Properties that are written again as they stand: no object within them, no key twice.
    private mutating func takeProperties(_ scan: inout JSONScan) -> Bool {
      let start = scan.at
      let isFlat = scan.members { scan, key in
        let value = scan.at
        guard members.count < Parts.most, !members.contains(where: { scan.isSame($0.key, key) }), scan.skipFlat() else {
          return false
        }
        if scan.is(value..<min(value + 12, scan.at), "\"data:image/") { hasImage = true }
        members.append((key, value..<scan.at))
        return true
      }
      properties = start..<scan.at
      return isFlat
    }

    private mutating func takeMetadata(_ key: Range<Int>, _ scan: inout JSONScan) -> Bool {
      if scan.is(key, "tags") { return first(16) && takeTags(&scan) }
      guard scan.is(key, "extensions") else { return scan.skip() }
      guard first(17) else { return false }
      let start = scan.at
      guard scan.stands(UInt8(ascii: "{")), scan.skip() else { return false }
      if scan.at - start == 2 { return true }
      // Few rows have any: their objects are written anew.
      guard let read = try? JSON(parsing: scan.array(start..<scan.at)) else { return false }
      extensions = Text(bytes: read.write())
      return true
    }

    private mutating func takeTags(_ scan: inout JSONScan) -> Bool {
      var named: [Text] = []
      let isRead = scan.elements { scan in
        guard let piece = scan.string(), !piece.hasEscapes else { return false }
        named.append(scan.text(piece.range))
        return true
      }
      guard isRead else { return false }
      if named.isEmpty { return true }
      if named.count > 1 { named.sort() }
      var out: [UInt8] = []
      out.reserveCapacity(named.reduce(2) { $0 + $1.bytes.count + 3 })
      for tag in named {
        out.append(out.isEmpty ? UInt8(ascii: "[") : UInt8(ascii: ","))
        out.append(UInt8(ascii: "\""))
        out += tag.bytes
        out.append(UInt8(ascii: "\""))
      }
      out.append(UInt8(ascii: "]"))
      tags = Text(bytes: out)
      return true
    }

    /// The row, where what it needs was met.
    func row(_ scan: JSONScan, in catalog: Catalog) -> ServerRow? {
      guard let id, let type, let state, let properties, version != nil, isListed != nil, let created, let updated
      else {
        return nil
      }
      var row = ServerRow(
        self, id: id, type: type, state: state, properties: scan.text(properties), times: (created, updated))
      let field = catalog.titleField(of: type)
      let member = members.first { scan.bytes[$0.key].elementsEqual(field.bytes) }
      guard let member, scan.bytes[member.value.lowerBound] == UInt8(ascii: "\"") else { return row }
      let inner = (member.value.lowerBound + 1)..<(member.value.upperBound - 1)
      if scan.bytes[inner].contains(UInt8(ascii: "\\")) {
        row.title = (try? JSON(parsing: scan.array(member.value)))?.text
      } else {
        row.title = scan.text(inner)
      }
      return row
    }
  }
}

/// A row of a page: as text where it is one of the many, else as it was read.
enum PageRow {
  case text(ServerRow)
  case json(JSON)

  /// The value at hand of a page; nil where it cannot be passed over.
  fileprivate init?(_ scan: inout JSONScan, in catalog: Catalog) {
    let start = scan.at
    if let row = ServerRow(&scan, in: catalog) {
      self = .text(row)
      return
    }
    scan.at = start
    guard scan.skip(), let json = try? JSON(parsing: scan.array(start..<scan.at)) else { return nil }
    self = .json(json)
  }
}

import MarfaBase

/// An item as its row holds it.
struct ItemRow {
  var seq: Int = 0
  var id: EntityID
  var type: Text
  var state: Text = "active"
  var tier: Text
  var version = 1
  var schemaVersion = 0
  var source: Text
  var sourceID: Text?
  var latitude: Text?
  var longitude: Text?
  var occurred: Timestamp
  var created: Timestamp
  var updated: Timestamp
  /// The JSON text of the properties, pasted into every answer.
  var properties: [UInt8]
  var tags: [UInt8] = Array("[]".utf8)
  var extensions: [UInt8] = Array("{}".utf8)
  /// Which trash took it, through which item, and the item that trash named, where it was not this one (I27.4).
  var trash: Trash?
  var lastEvent: Int?

  struct Trash {
    var group: Int
    var parent: EntityID?
    var root: EntityID?
    var rootType: Text?
  }

  static let columns = """
    seq, id, type, state, tier, version, schema_version, source, source_id, latitude, longitude, occurred, created, \
    updated, properties, tags, extensions, trash_group, trash_parent, trash_root, trash_root_type, last_event
    """
  /// The same for a query that names the table `i`.
  static let prefixed = columns.split(separator: ", ").map { "i.\($0)" }.joined(separator: ", ")
  static let columnCount = 22

  var isTrashed: Bool { state == "trashed" }

  var propertiesObject: JSONObject { (try? JSON(parsing: properties))?.object ?? JSONObject() }
  var tagList: [Text] { (try? JSON(parsing: tags))?.array?.compactMap(\.text) ?? [] }
  var extensionsObject: JSONObject { (try? JSON(parsing: extensions))?.object ?? JSONObject() }
}

extension ItemRow {
  init(_ row: Row) {
    seq = row.int(0)
    id = row.id(1) ?? EntityID(high: 0, low: 0)
    type = row.text(2)
    state = row.text(3)
    tier = row.text(4)
    version = row.int(5)
    schemaVersion = row.int(6)
    source = row.text(7)
    sourceID = row.optionalText(8)
    latitude = row.optionalText(9)
    longitude = row.optionalText(10)
    occurred = row.time(11) ?? Timestamp(milliseconds: 0)
    created = row.time(12) ?? Timestamp(milliseconds: 0)
    updated = row.time(13) ?? Timestamp(milliseconds: 0)
    properties = row.bytes(14)
    tags = row.bytes(15)
    extensions = row.bytes(16)
    if let group = row.optionalInt(17) {
      trash = Trash(group: group, parent: row.id(18), root: row.id(19), rootType: row.optionalText(20))
    }
    lastEvent = row.optionalInt(21)
  }

  /// Appends the item as an answer shows it, up to but without the closing brace.
  func appendOpen(to out: inout [UInt8], reader: Credential?) {
    out += "{\"id\":\"".utf8
    out += id.text.bytes
    out += "\",\"type\":\"".utf8
    out += type.bytes
    out += "\",\"properties\":".utf8
    out += properties
    out += ",\"state\":\"".utf8
    out += state.bytes
    out += "\",\"tier\":\"".utf8
    out += tier.bytes
    out += "\",\"version\":\(version),\"schema_version\":\(schemaVersion),\"source\":".utf8
    JSON.appendString(source, to: &out)
    if let sourceID {
      out += ",\"source_id\":".utf8
      JSON.appendString(sourceID, to: &out)
    }
    if let latitude {
      out += ",\"capture_latitude\":".utf8
      out += latitude.bytes
    }
    if let longitude {
      out += ",\"capture_longitude\":".utf8
      out += longitude.bytes
    }
    if let trash, let root = trash.root, isTrashed {
      out += ",\"trashed_by_cascade\":true".utf8
      if let reader, reader.reads(trash.rootType ?? type) {
        out += ",\"trashed_with\":\"".utf8
        out += root.text.bytes
        out += "\"".utf8
      }
    }
    ItemRow.append(occurred, created, updated, to: &out)
  }

  private static func append(
    _ occurred: Timestamp, _ created: Timestamp, _ updated: Timestamp, to out: inout [UInt8]
  ) {
    out += ",\"occurred_at\":\"".utf8
    occurred.append(to: &out)
    out += "\",\"created_at\":\"".utf8
    created.append(to: &out)
    out += "\",\"updated_at\":\"".utf8
    updated.append(to: &out)
    out.append(UInt8(ascii: "\""))
  }

  /// Appends the item a row of `columns` holds as `appendOpen` does, from where SQLite holds it: the rows of a page are
  /// pasted, never made values of.
  static func appendOpen(_ row: Row, to out: inout [UInt8], reader: Credential?) {
    guard row.isNull(17) else {
      // In the bin, with what a cascade says of it.
      return ItemRow(row).appendOpen(to: &out, reader: reader)
    }
    out += "{\"id\":\"".utf8
    row.append(1, to: &out)
    out += "\",\"type\":\"".utf8
    row.append(2, to: &out)
    out += "\",\"properties\":".utf8
    row.append(14, to: &out)
    out += ",\"state\":\"".utf8
    row.append(3, to: &out)
    out += "\",\"tier\":\"".utf8
    row.append(4, to: &out)
    out += "\",\"version\":".utf8
    row.append(5, to: &out)
    out += ",\"schema_version\":".utf8
    row.append(6, to: &out)
    out += ",\"source\":".utf8
    JSON.appendString(row.text(7), to: &out)
    if !row.isNull(8) {
      out += ",\"source_id\":".utf8
      JSON.appendString(row.text(8), to: &out)
    }
    if !row.isNull(9) {
      out += ",\"capture_latitude\":".utf8
      row.append(9, to: &out)
    }
    if !row.isNull(10) {
      out += ",\"capture_longitude\":".utf8
      row.append(10, to: &out)
    }
    append(
      Timestamp(milliseconds: Int64(row.int(11))), Timestamp(milliseconds: Int64(row.int(12))),
      Timestamp(milliseconds: Int64(row.int(13))), to: &out)
  }

  /// `appendMetadata` of such a row.
  static func appendMetadata(_ row: Row, to out: inout [UInt8], reader: Credential) {
    out += "{\"item_id\":\"".utf8
    row.append(1, to: &out)
    out += "\",\"tags\":".utf8
    row.append(15, to: &out)
    out += ",\"extensions\":".utf8
    appendExtensions(row, to: &out, reader: reader)
    out += "}".utf8
  }

  /// `appendExtensions` of such a row.
  static func appendExtensions(_ row: Row, to out: inout [UInt8], reader: Credential) {
    if row.count(16) == 2 || reader.extensions.readsEverything {
      row.append(16, to: &out)
    } else {
      ItemRow(row).appendExtensions(to: &out, reader: reader)
    }
  }

  /// Appends `{"item_id","tags","extensions"}`, the extensions limited to what the reader reads (I0.10).
  func appendMetadata(to out: inout [UInt8], reader: Credential) {
    out += "{\"item_id\":\"".utf8
    out += id.text.bytes
    out += "\",\"tags\":".utf8
    out += tags
    out += ",\"extensions\":".utf8
    appendExtensions(to: &out, reader: reader)
    out += "}".utf8
  }

  func appendExtensions(to out: inout [UInt8], reader: Credential) {
    if extensions.count == 2 || reader.extensions.readsEverything {
      out += extensions
    } else {
      let readable = extensionsObject.members.filter { reader.extensions.reads($0.key) }
      JSON.object(JSONObject(readable.map { ($0.key, $0.value) })).append(to: &out)
    }
  }

  /// The item of the conflict envelopes: the seven members (V8.6).
  var conflictView: JSON {
    JSON.object(
      conflictMembers(
        id: id, version: version, type: type, tier: tier, occurred: occurred, sourceID: sourceID,
        properties: propertiesObject))
  }
}

func conflictMembers(
  id: EntityID, version: Int, type: Text, tier: Text, occurred: Timestamp, sourceID: Text?, properties: JSONObject
) -> JSONObject {
  JSONObject([
    ("id", .string(id.text)), ("version", .int(version)), ("type", .string(type)), ("tier", .string(tier)),
    ("occurred_at", .string(occurred.text)), ("source_id", .optional(sourceID)), ("properties", .object(properties)),
  ])
}

/// Properties in the order an instance answers them: names that are canonical array indexes first, by number (I46.4).
func ordered(_ properties: JSONObject) -> JSONObject {
  func index(_ name: Text) -> UInt32? {
    guard (1...10).contains(name.bytes.count), name.bytes.allSatisfy({ (0x30...0x39).contains($0) }),
      name.bytes.count == 1 || name.bytes[0] != 0x30, let value = UInt32(name.string), value < UInt32.max
    else { return nil }
    return value
  }
  guard properties.members.contains(where: { index($0.key) != nil }) else { return properties }
  let indexed = properties.members.compactMap { member in index(member.key).map { ($0, member) } }
  let rest = properties.members.filter { index($0.key) == nil }
  return JSONObject((indexed.sorted { $0.0 < $1.0 }.map(\.1) + rest).map { ($0.key, $0.value) })
}

/// What the text of a schema makes, read from the text itself: to run it only to find all of it there costs every opening
/// of a store more than its first read.
public enum SchemaText {
  /// The names of the tables, indexes and triggers its `CREATE ... IF NOT EXISTS` statements make.
  public static func names(in schema: String) -> [Text] {
    var names: [Text] = []
    var words: [ArraySlice<UInt8>] = []
    for line in lines(schema) {
      for word in line.split(whereSeparator: { $0 == 0x20 || $0 == 0x09 || $0 == 0x28 }) {
        if words.count == 3, words[0].elementsEqual("IF".utf8), words[1].elementsEqual("NOT".utf8),
          words[2].elementsEqual("EXISTS".utf8)
        {
          names.append(Text(bytes: word))
        }
        if words.count == 3 { words.removeFirst() }
        words.append(word)
      }
    }
    return names
  }

  /// The tables it makes, each with its definition as `squeezed` gives what `sqlite_master` holds of it.
  public static func tables(in schema: String) -> [(name: Text, sql: Text)] {
    var tables: [(name: Text, sql: Text)] = []
    let text = Array(lines(schema).joined(separator: [0x0A]))
    for statement in text.split(separator: UInt8(ascii: ";")) {
      let sql = squeezed(Text(bytes: statement))
      for start in ["CREATETABLE", "CREATEVIRTUALTABLE"] where sql.bytes.starts(with: (start + "IFNOTEXISTS").utf8) {
        guard let name = names(in: String(decoding: statement, as: UTF8.self)).first else { continue }
        tables.append(
          (name, Text(bytes: Array(start.utf8) + sql.bytes.dropFirst(start.utf8.count + "IFNOTEXISTS".utf8.count))))
      }
    }
    return tables
  }

  /// A definition, comments and spacing aside.
  public static func squeezed(_ sql: Text) -> Text {
    var out: [UInt8] = []
    out.reserveCapacity(sql.bytes.count)
    var place = 0
    let bytes = sql.bytes
    while place < bytes.count {
      switch bytes[place] {
      case 0x2D where place + 1 < bytes.count && bytes[place + 1] == 0x2D:
        while place < bytes.count, bytes[place] != 0x0A { place += 1 }
      case 0x20, 0x09, 0x0A, 0x0D: place += 1
      default:
        out.append(bytes[place])
        place += 1
      }
    }
    return Text(bytes: out)
  }

  /// The lines without their comments.
  private static func lines(_ schema: String) -> [ArraySlice<UInt8>] {
    Array(schema.utf8).split(separator: 0x0A).map { line in
      guard
        let comment = line.indices.first(where: {
          line[$0] == 0x2D && $0 + 1 < line.endIndex && line[$0 + 1] == 0x2D
        })
      else { return line }
      return line[..<comment]
    }
  }
}

extension Database {
  /// The names of everything the database's schema holds.
  public func schemaNames() throws(SQLiteError) -> Set<Text> {
    Set(try all("SELECT name FROM sqlite_master") { $0.text(0) })
  }

  /// Runs the text of a schema where the database lacks something of what it makes.
  public func make(_ schema: String) throws(SQLiteError) {
    let held = try schemaNames()
    guard !SchemaText.names(in: schema).allSatisfy(held.contains) else { return }
    try execute(schema)
  }
}

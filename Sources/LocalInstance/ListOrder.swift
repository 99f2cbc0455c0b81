import MarfaBase

/// The order of a listing of items, and how a cursor goes on in it (SF7, SF8).
struct ListOrder {
  enum Key {
    case time(String)
    case property(Text)
  }

  var key: Key
  var isDescending: Bool

  init(_ query: Query) throws {
    let sort = query["sort"]
    let direction = query["direction"]
    if let direction, direction != "asc", direction != "desc" {
      throw Refusal.invalid("direction", "direction is asc or desc.")
    }
    var key = Key.time("created")
    var standard = true
    if let sort {
      switch sort.string {
      case "created_at": break
      case "updated_at": key = .time("updated")
      case "occurred_at": key = .time("occurred")
      case let name where name.hasPrefix("properties."):
        let field = Text(name.dropFirst(11))
        guard let first = field.bytes.first, !(0x30...0x39).contains(first),
          field.bytes.allSatisfy({ isAlphanumeric($0) || $0 == UInt8(ascii: "_") })
        else { throw Refusal.invalid("sort", "The property's name is one word.") }
        key = .property(field)
        standard = false
      default: throw Refusal.invalid("sort", "sort is a time or properties.<field>.")
      }
    }
    if query["updated_after"] != nil {
      if sort.map({ $0 != "updated_at" }) ?? false || direction == "desc" {
        throw Refusal.invalid("sort", "updated_after has an order of its own.")
      }
      self.key = .time("updated")
      isDescending = false
      return
    }
    self.key = key
    isDescending = direction.map { $0 == "desc" } ?? standard
  }

  var spelling: String {
    switch key {
    case .time(let column): "\(column) \(isDescending)"
    case .property(let name): "properties.\(name) \(isDescending)"
    }
  }

  var join: String {
    switch key {
    case .time: ""
    case .property: "LEFT JOIN property p ON p.item = i.seq AND p.name = ?"
    }
  }

  var joinValues: [(any SQLiteValue)?] {
    switch key {
    case .time: []
    case .property(let name): [name]
    }
  }

  /// Numbers and booleans, texts, the rest; turned about for the two kinds of values when descending (SF8.1, SF8.2).
  private var rank: String {
    let (number, text) = isDescending ? (1, 0) : (0, 1)
    return "CASE WHEN p.kind IN (1, 2) THEN \(number) WHEN p.kind = 3 THEN \(text) ELSE 2 END"
  }

  private func words(_ name: Text) -> String {
    "CASE WHEN p.kind = 3 THEN coalesce(p.words, json_extract(i.properties, '$.\(name)')) END"
  }

  private var number: String { "CASE WHEN p.kind IN (1, 2) THEN p.number END" }

  /// The columns a cursor keeps.
  var keys: String {
    switch key {
    case .time(let column): "i.\(column), i.id"
    case .property(let name): "\(rank), \(number), \(words(name)), i.id"
    }
  }

  /// How many they are.
  var keyCount: Int {
    switch key {
    case .time: 2
    case .property: 4
    }
  }

  var orderBy: String {
    let direction = isDescending ? "DESC" : "ASC"
    return switch key {
    case .time(let column): "i.\(column) \(direction), i.id"
    case .property(let name): "\(rank), \(number) \(direction), \(words(name)) \(direction), i.id"
    }
  }

  func position(_ row: Row) -> [JSON] {
    let first = ItemRow.columnCount
    switch key {
    case .time: return [.int(row.int(first)), .string(row.text(first + 1))]
    case .property:
      let number = row.isNull(first + 1) ? JSON.null : JSONNumber(row.double(first + 1)).map(JSON.number) ?? .null
      return [.int(row.int(first)), number, .optional(row.optionalText(first + 2)), .string(row.text(first + 3))]
    }
  }

  /// The condition of the rows after a position.
  func after(_ position: [JSON]) throws -> (String, [(any SQLiteValue)?]) {
    let sign = isDescending ? "<" : ">"
    let broken = Refusal.invalid("cursor", "The cursor is none of this listing.")
    switch key {
    case .time(let column):
      guard position.count == 2, let time = position[0].int, let id = position[1].text else { throw broken }
      return ("(i.\(column) \(sign) ? OR (i.\(column) = ? AND i.id > ?))", [time, time, id])
    case .property(let name):
      guard position.count == 4, let rank = position[0].int, let id = position[3].text else { throw broken }
      if let number = position[1].number?.double {
        return (
          "(\(self.rank) > ? OR (\(self.rank) = ? AND (\(self.number) \(sign) ? OR (\(self.number) = ? AND i.id > ?))))",
          [rank, rank, number, number, id]
        )
      }
      if let text = position[2].text {
        let words = words(name)
        return (
          "(\(self.rank) > ? OR (\(self.rank) = ? AND (\(words) \(sign) ? OR (\(words) = ? AND i.id > ?))))",
          [rank, rank, text, text, id]
        )
      }
      return ("(\(self.rank) > ? OR (\(self.rank) = ? AND i.id > ?))", [rank, rank, id])
    }
  }
}

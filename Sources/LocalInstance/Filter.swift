import MarfaBase

/// A filter expression (SF11 to SF14): conditions joined by one word.
struct Filter {
  enum Operator: String {
    case eq, neq, gt, gte, lt, lte, contains, starts_with, exists, not_exists

    /// As SQL compares; nil for the operators that are no comparison.
    var sql: String? {
      switch self {
      case .eq: "="
      case .neq: "<>"
      case .gt: ">"
      case .gte: ">="
      case .lt: "<"
      case .lte: "<="
      case .contains, .starts_with, .exists, .not_exists: nil
      }
    }
  }

  enum Literal {
    case text(Text)
    case number(Double)
    case bool(Bool)

    /// What JavaScript's `String()` makes of it (SF17.2).
    var words: Text {
      switch self {
      case .text(let text): text
      case .number(let value): Text(JSONNumber(value)?.literal ?? "")
      case .bool(let flag): flag ? "true" : "false"
      }
    }

    /// The value SQLite binds: numbers and booleans as doubles (SF18.1).
    var bound: any SQLiteValue {
      switch self {
      case .text(let text): text
      case .number(let value): value
      case .bool(let flag): flag ? 1.0 : 0.0
      }
    }
  }

  enum Field {
    case system(String)
    case property(Text)
    case tags
    case edge(inbound: Bool, type: Text)
    case statusGroup
    case part
  }

  struct Condition {
    var field: Field
    var word: Operator
    var literal: Literal?
  }

  var conditions: [Condition] = []
  var isAny = false

  init() {}

  /// - Throws: `Refusal`, `400 validation_error` at the path `filter`.
  init(parsing text: Text) throws {
    func refuse(_ message: String) -> Refusal { Refusal.invalid("filter", message) }
    if trimmed(text.bytes).isEmpty { throw refuse("Filter expression cannot be empty") }
    if text.utf16Count > 2048 {
      throw refuse("Filter expression is too long (\(text.utf16Count) characters). Maximum is 2048")
    }
    var reader = FilterReader(text.bytes)
    let tokens = try reader.tokens()
    var at = 0
    var joiner: String?
    while true {
      conditions.append(try Filter.condition(tokens, &at))
      guard at < tokens.count else { break }
      guard case .word(let word) = tokens[at], word == "AND" || word == "OR" else {
        throw refuse("Expected AND or OR")
      }
      if let joiner, joiner != word { throw refuse("Cannot mix AND and OR") }
      joiner = word
      at += 1
      if at == tokens.count { throw refuse("The expression ends after \(word)") }
    }
    if conditions.count > 10 { throw refuse("Too many conditions (\(conditions.count)). Maximum is 10") }
    isAny = joiner == "OR"
  }

  static let systemFields: Set<String> = [
    "state", "type", "source", "occurred_at", "created_at", "updated_at", "tier", "version", "id", "source_id",
  ]
  static let timeFields: Set<String> = ["occurred_at", "created_at", "updated_at"]

  private static func condition(_ tokens: [FilterReader.Token], _ at: inout Int) throws -> Condition {
    func refuse(_ message: String) -> Refusal { Refusal.invalid("filter", message) }
    guard at < tokens.count else { throw refuse("A condition is missing") }
    let field: Field
    switch tokens[at] {
    case .edge(let inbound, let type): field = .edge(inbound: inbound, type: type)
    case .word(let name):
      if systemFields.contains(name) {
        field = .system(name)
      } else if name == "tags" {
        field = .tags
      } else if name == "status_group" {
        field = .statusGroup
      } else if name == "part" {
        field = .part
      } else if name.hasPrefix("properties."), !name.dropFirst(11).isEmpty, !name.dropFirst(11).contains("."),
        !(name.dropFirst(11).first?.isNumber ?? true)
      {
        field = .property(Text(name.dropFirst(11)))
      } else {
        throw refuse("Unknown field \(name)")
      }
    case .text, .number: throw refuse("A condition begins with a field")
    }
    at += 1
    guard at < tokens.count, case .word(let name) = tokens[at], let word = Operator(rawValue: name) else {
      throw refuse("Expected an operator")
    }
    at += 1
    var literal: Literal?
    if word != .exists, word != .not_exists {
      guard at < tokens.count else { throw refuse("\(name) needs a value") }
      switch tokens[at] {
      case .text(let text): literal = .text(text)
      case .number(let value): literal = .number(value)
      case .word("true"): literal = .bool(true)
      case .word("false"): literal = .bool(false)
      case .word("null"):
        if case .property = field { throw refuse("null is not a value; use not_exists or exists") }
        throw refuse("null is not a value")
      case .word, .edge: throw refuse("A value is a quoted text, a number, true or false")
      }
      at += 1
    }
    let condition = Condition(field: field, word: word, literal: literal)
    try condition.judge()
    return condition
  }
}

extension Filter.Condition {
  /// Whether the field takes the operator and the literal (SF13, SF18.3, SF20).
  func judge() throws {
    func refuse(_ message: String) -> Refusal { Refusal.invalid("filter", message) }
    switch field {
    case .property: break
    case .system(let name):
      if word == .exists || word == .not_exists { throw refuse("\(name) takes no \(word.rawValue)") }
      if Filter.timeFields.contains(name) {
        guard case .text(let text)? = literal else { throw refuse("\(name) is compared with a text") }
        if word.sql != nil, readTime(text) == nil { throw refuse("\(name) is compared with a time") }
      }
    case .tags:
      if ![.contains, .exists, .not_exists].contains(word) { throw refuse("tags takes contains, exists, not_exists") }
    case .edge:
      if ![.eq, .neq, .exists, .not_exists].contains(word) {
        throw refuse("An edge takes eq, neq, exists, not_exists")
      }
    case .statusGroup:
      guard word == .eq || word == .neq, case .text(let group)? = literal,
        ["not_started", "in_progress", "completed", "canceled"].contains(group)
      else { throw refuse("status_group takes eq and neq with one of its four words") }
    case .part:
      guard word == .eq || word == .neq, case .bool? = literal else {
        throw refuse("part takes eq and neq with true or false")
      }
    }
  }
}

/// Whether an instance takes a text as a filter.
package func takesFilter(_ text: Text) -> Bool { (try? Filter(parsing: text)) != nil }

/// The tokens of a filter (SF12).
private struct FilterReader {
  enum Token {
    case word(String)
    case edge(inbound: Bool, type: Text)
    case text(Text)
    case number(Double)
  }

  let bytes: [UInt8]
  var at = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  func refuse(_ message: String) -> Refusal { Refusal.invalid("filter", message) }

  mutating func tokens() throws -> [Token] {
    var tokens: [Token] = []
    while at < bytes.count {
      let byte = bytes[at]
      if byte == 0x20 || byte == 0x09 {
        at += 1
      } else if byte == UInt8(ascii: "\"") {
        tokens.append(.text(try text()))
      } else if byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte) {
        tokens.append(.number(try number()))
      } else if isWordStart(byte) {
        tokens.append(try word())
      } else {
        throw refuse("Unexpected character")
      }
    }
    return tokens
  }

  func isWordStart(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "_") || (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7A
  }

  mutating func text() throws -> Text {
    at += 1
    var out: [UInt8] = []
    while at < bytes.count {
      if bytes[at] == UInt8(ascii: "\\"), at + 1 < bytes.count, bytes[at + 1] == UInt8(ascii: "\"") {
        out.append(UInt8(ascii: "\""))
        at += 2
      } else if bytes[at] == UInt8(ascii: "\"") {
        at += 1
        return Text(bytes: out)
      } else {
        out.append(bytes[at])
        at += 1
      }
    }
    throw refuse("A text is not closed")
  }

  mutating func number() throws -> Double {
    let start = at
    if bytes[at] == UInt8(ascii: "-") { at += 1 }
    let first = at
    while at < bytes.count, (0x30...0x39).contains(bytes[at]) { at += 1 }
    if at == first { throw refuse("A number has digits") }
    var end = at
    if at < bytes.count, bytes[at] == UInt8(ascii: ".") {
      at += 1
      while at < bytes.count, (0x30...0x39).contains(bytes[at]) { at += 1 }
      end = bytes[at - 1] == UInt8(ascii: ".") ? at - 1 : at
    }
    if at < bytes.count, isWordStart(bytes[at]) || bytes[at] == UInt8(ascii: ".") { throw refuse("Not a number") }
    guard let value = Double(String(decoding: bytes[start..<end], as: UTF8.self)), value.isFinite else {
      throw refuse("Not a finite number")
    }
    return value
  }

  mutating func word() throws -> Token {
    let start = at
    while at < bytes.count,
      isWordStart(bytes[at]) || (0x30...0x39).contains(bytes[at]) || bytes[at] == UInt8(ascii: ".")
    {
      at += 1
    }
    let word = String(decoding: bytes[start..<at], as: UTF8.self)
    guard at < bytes.count, bytes[at] == UInt8(ascii: "["), word == "edge" || word == "backref" else {
      return .word(word)
    }
    let rest = bytes[(at + 1)...].prefix { $0 != 0x20 && $0 != 0x09 }
    at += 1 + rest.count
    guard rest.last == UInt8(ascii: "]"), rest.count > 1, !rest.dropLast().contains(UInt8(ascii: "]")),
      !rest.contains(where: { $0 == 0x0A || $0 == 0x0D })
    else { throw refuse("An edge reference is edge[type] or backref[type]") }
    return .edge(inbound: word == "backref", type: Text(bytes: rest.dropLast()))
  }
}

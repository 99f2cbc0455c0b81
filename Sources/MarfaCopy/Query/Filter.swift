import MarfaBase

/// A filter of the listing grammar, read by its own parser (SF11 to SF14). The instance has another, so that a misreading
/// of one shows against the other.
package struct Filter: Hashable, Sendable {
  /// What conditions are joined by; never both in one expression (SF11.2).
  package enum Joiner: Hashable, Sendable { case and, or }

  /// What a condition looks at.
  package enum Field: Hashable, Sendable {
    case system(System)
    case property(Text)
    case tags
    case edge(Text)
    case backref(Text)
    case statusGroup
    case part
  }

  /// The ten system fields (SF13.3).
  package enum System: String, Hashable, Sendable {
    case state, type, source, tier, version, id
    case occurredAt = "occurred_at"
    case createdAt = "created_at"
    case updatedAt = "updated_at"
    case sourceID = "source_id"

    var isTime: Bool { self == .occurredAt || self == .createdAt || self == .updatedAt }
  }

  /// The ten operators (SF13.1).
  package enum Operator: String, Hashable, Sendable {
    case eq, neq, gt, gte, lt, lte, contains, exists
    case startsWith = "starts_with"
    case notExists = "not_exists"

    var takesValue: Bool { self != .exists && self != .notExists }
    var isComparison: Bool {
      switch self {
      case .eq, .neq, .gt, .gte, .lt, .lte: true
      case .contains, .startsWith, .exists, .notExists: false
      }
    }
  }

  /// A value.
  package enum Literal: Hashable, Sendable {
    case text(Text)
    case number(Double)
    case bool(Bool)

    /// As JavaScript's `String()` renders it (SF17.2).
    var rendered: Text {
      switch self {
      case .text(let text): text
      case .number(let value): Text(JSONNumber(value)?.literal ?? "\(value)")
      case .bool(let value): value ? "true" : "false"
      }
    }

    /// A number, `true` as 1 (SF15.3); nil for a text.
    var double: Double? {
      switch self {
      case .text: nil
      case .number(let value): value
      case .bool(let value): value ? 1 : 0
      }
    }
  }

  /// One condition.
  package struct Condition: Hashable, Sendable {
    package var field: Field
    package var `operator`: Operator
    package var literal: Literal?
  }

  /// The conditions in order.
  package var conditions: [Condition]
  /// What joins them.
  package var joiner: Joiner

  /// Reads an expression.
  /// - Throws: `validation` with `validation_error`, in the instance's words (SF14).
  package init(_ text: Text) throws(MarfaError) {
    let length = text.utf16Count
    guard length <= 2048 else {
      throw .validation("Filter expression is too long (\(length) characters). Maximum is 2048")
    }
    var reader = FilterReader(bytes: text.bytes)
    self = try reader.expression()
  }

  init(conditions: [Condition], joiner: Joiner) {
    self.conditions = conditions
    self.joiner = joiner
  }

  /// The edge types it looks along.
  package var edgeTypes: [Text] {
    conditions.compactMap { condition in
      switch condition.field {
      case .edge(let type), .backref(let type): type
      case .system, .property, .tags, .statusGroup, .part: nil
      }
    }
  }

  /// Whether it asks for edges coming in, which no folder follows (SF21.3).
  package var hasBackref: Bool {
    conditions.contains { if case .backref = $0.field { true } else { false } }
  }
}

private struct FilterReader {
  let bytes: [UInt8]
  var at = 0

  init(bytes: [UInt8]) { self.bytes = bytes }

  private enum Token: Equatable {
    case word(Text)
    case edge(Text, reverse: Bool)
    case literal(Filter.Literal)
  }

  mutating func expression() throws(MarfaError) -> Filter {
    var conditions: [Filter.Condition] = []
    var joiner: Filter.Joiner?
    guard let first = try next() else { throw .validation("Filter expression cannot be empty") }
    var head = first
    while true {
      conditions.append(try condition(head))
      guard let token = try next() else { break }
      let found: Filter.Joiner
      switch token {
      case .word("AND"): found = .and
      case .word("OR"): found = .or
      default: throw .validation("Expected AND or OR between conditions")
      }
      if let joiner, joiner != found { throw .validation("Cannot mix AND and OR in one filter") }
      joiner = found
      guard let following = try next() else { throw .validation("A condition is missing after the last AND or OR") }
      head = following
    }
    guard conditions.count <= 10 else {
      throw .validation("Too many conditions (\(conditions.count)). Maximum is 10")
    }
    return Filter(conditions: conditions, joiner: joiner ?? .and)
  }

  private mutating func condition(_ head: Token) throws(MarfaError) -> Filter.Condition {
    let field = try field(head)
    guard case .word(let word)? = try next() else { throw .validation("A field without an operator") }
    guard let op = Filter.Operator(rawValue: word.string) else { throw .validation("Unknown operator \(word)") }
    guard FilterReader.takes(field, op) else { throw .validation("The field does not take the operator \(word)") }
    var literal: Filter.Literal?
    if op.takesValue {
      switch try next() {
      case .literal(let value)?: literal = value
      case .word("true")?: literal = .bool(true)
      case .word("false")?: literal = .bool(false)
      case .word("null")?:
        var message = "null is not a value"
        if case .property = field { message += "; use not_exists or exists" }
        throw .validation(message)
      case .word(let bare)?: throw .validation("\(bare) is not a value; texts stand in quotes")
      case .edge?, nil: throw .validation("An operator without a value")
      }
    }
    let condition = Filter.Condition(field: field, operator: op, literal: literal)
    try FilterReader.check(condition)
    return condition
  }

  private func field(_ head: Token) throws(MarfaError) -> Filter.Field {
    switch head {
    case .edge(let type, let reverse): return reverse ? .backref(type) : .edge(type)
    case .literal: throw .validation("Unknown field: a condition begins with a field")
    case .word(let word):
      if let system = Filter.System(rawValue: word.string) { return .system(system) }
      if word == "tags" { return .tags }
      if word == "status_group" { return .statusGroup }
      if word == "part" { return .part }
      if word.bytes.starts(with: "properties.".utf8) {
        let name = Text(bytes: word.bytes.dropFirst(11))
        guard !name.isEmpty, !name.bytes.contains(UInt8(ascii: ".")), name.bytes[0] < 0x30 || name.bytes[0] > 0x39
        else {
          throw .validation("Unknown field \(word): a property is one name")
        }
        return .property(name)
      }
      throw .validation("Unknown field \(word)")
    }
  }

  private static func takes(_ field: Filter.Field, _ op: Filter.Operator) -> Bool {
    switch field {
    case .system: op.takesValue
    case .property: true
    case .tags: op == .contains || op == .exists || op == .notExists
    case .edge, .backref: op == .eq || op == .neq || op == .exists || op == .notExists
    case .statusGroup, .part: op == .eq || op == .neq
    }
  }

  private static func check(_ condition: Filter.Condition) throws(MarfaError) {
    switch condition.field {
    case .system(let field) where field.isTime:
      guard condition.operator.isComparison else { return }
      guard case .text(let text)? = condition.literal, Timestamp(served: text) != nil else {
        throw .validation("\(field.rawValue) is compared with a time in quotes")
      }
    case .statusGroup:
      guard case .text(let word)? = condition.literal,
        ["not_started", "in_progress", "completed", "canceled"].contains(word)
      else { throw .validation("status_group is one of not_started, in_progress, completed and canceled") }
    case .part:
      guard case .bool? = condition.literal else { throw .validation("part is true or false") }
    case .system, .property, .tags, .edge, .backref: return
    }
  }

  // MARK: - Tokens (SF12)

  private static func isWordStart(_ byte: UInt8) -> Bool {
    (byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A) || byte == UInt8(ascii: "_")
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    isWordStart(byte) || (byte >= 0x30 && byte <= 0x39) || byte == UInt8(ascii: ".")
  }

  private mutating func next() throws(MarfaError) -> Token? {
    while at < bytes.count, bytes[at] == 0x20 || bytes[at] == 0x09 { at += 1 }
    guard at < bytes.count else { return nil }
    let byte = bytes[at]
    if byte == UInt8(ascii: "\"") { return .literal(.text(try string())) }
    if byte == UInt8(ascii: "-") || (byte >= 0x30 && byte <= 0x39) { return .literal(.number(try number())) }
    guard FilterReader.isWordStart(byte) else { throw .validation("Unexpected character in the filter") }
    for (opening, reverse) in [("edge[", false), ("backref[", true)]
    where bytes[at...].starts(with: opening.utf8) {
      return .edge(try edgeType(opening.utf8.count), reverse: reverse)
    }
    let start = at
    while at < bytes.count, FilterReader.isWord(bytes[at]) { at += 1 }
    return .word(Text(bytes: bytes[start..<at]))
  }

  private mutating func edgeType(_ opening: Int) throws(MarfaError) -> Text {
    let start = at
    while at < bytes.count, bytes[at] != 0x20, bytes[at] != 0x09 { at += 1 }
    let word = bytes[start..<at]
    let type = word.dropFirst(opening).dropLast()
    guard word.last == UInt8(ascii: "]"), !type.isEmpty, !type.contains(UInt8(ascii: "]")),
      !type.contains(where: { $0 == 0x0A || $0 == 0x0D })
    else { throw .validation("Unknown field \(Text(bytes: word)): an edge is named edge[type]") }
    return Text(bytes: type)
  }

  private mutating func string() throws(MarfaError) -> Text {
    at += 1
    var out: [UInt8] = []
    while at < bytes.count {
      let byte = bytes[at]
      if byte == UInt8(ascii: "\"") {
        at += 1
        return Text(bytes: out)
      }
      // A backslash before anything but a quote is itself (SF12.2).
      if byte == UInt8(ascii: "\\"), at + 1 < bytes.count, bytes[at + 1] == UInt8(ascii: "\"") { at += 1 }
      out.append(bytes[at])
      at += 1
    }
    throw .validation("A text in the filter is not closed")
  }

  private mutating func number() throws(MarfaError) -> Double {
    let start = at
    if bytes[at] == UInt8(ascii: "-") { at += 1 }
    let digits = at
    while at < bytes.count, bytes[at] >= 0x30, bytes[at] <= 0x39 { at += 1 }
    guard at > digits else { throw .validation("Unexpected character in the filter") }
    if at < bytes.count, bytes[at] == UInt8(ascii: ".") {
      at += 1
      while at < bytes.count, bytes[at] >= 0x30, bytes[at] <= 0x39 { at += 1 }
    }
    if at < bytes.count, FilterReader.isWord(bytes[at]) { throw .validation("A number in the filter cannot be read") }
    var text = String(decoding: bytes[start..<at], as: UTF8.self)
    if text.hasSuffix(".") { text += "0" }
    guard let value = Double(text), value.isFinite else { throw .validation("A number in the filter is too large") }
    return value
  }
}

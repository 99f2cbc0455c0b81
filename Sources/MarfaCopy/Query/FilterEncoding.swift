import MarfaBase

extension Filter {
  /// A filter of typed values.
  package init(_ joiner: Joiner = .and, _ conditions: [Condition]) { self.init(conditions: conditions, joiner: joiner) }

  /// The grammar's text of it (SF21.9). Read back it is an equal filter.
  /// - Throws: `validation` for what the instance would refuse, and for what no text spells: a text that ends in a backslash,
  ///   an infinite number.
  package func encoded() throws(MarfaError) -> Text {
    var out: [UInt8] = []
    for (place, condition) in conditions.enumerated() {
      if place > 0 { out += Array(joiner == .and ? " AND ".utf8 : " OR ".utf8) }
      out += condition.field.spelled.bytes + Array(" \(condition.operator.rawValue)".utf8)
      if let literal = condition.literal { out += [0x20] + (try literal.spelled()).bytes }
    }
    let text = Text(bytes: out)
    // What cannot be spelled reads back as something else, or not at all.
    let read = try Filter(text)
    guard read.conditions == conditions, read.joiner == joiner || conditions.count == 1 else {
      throw .validation("the filter holds a name or a text that its grammar cannot spell")
    }
    return text
  }
}

extension Filter.Condition {
  /// A condition; `literal` is nil for `exists` and `not_exists`.
  package init(_ field: Filter.Field, _ operator: Filter.Operator, _ literal: Filter.Literal? = nil) {
    self.init(field: field, operator: `operator`, literal: literal)
  }
}

extension Filter.Field {
  fileprivate var spelled: Text {
    switch self {
    case .system(let field): Text(field.rawValue)
    case .property(let name): Text(bytes: Array("properties.".utf8) + name.bytes)
    case .tags: "tags"
    case .edge(let type): Text(bytes: Array("edge[".utf8) + type.bytes + [UInt8(ascii: "]")])
    case .backref(let type): Text(bytes: Array("backref[".utf8) + type.bytes + [UInt8(ascii: "]")])
    case .statusGroup: "status_group"
    case .part: "part"
    }
  }
}

extension Filter.Literal {
  fileprivate func spelled() throws(MarfaError) -> Text {
    switch self {
    case .bool(let value): return value ? "true" : "false"
    case .number(let value):
      guard let number = JSONNumber(value) else { throw .validation("a number in the filter is not finite") }
      return Text(Filter.Literal.plain(number.literal))
    case .text(let text):
      var out: [UInt8] = [UInt8(ascii: "\"")]
      for byte in text.bytes {
        // A quote alone is escaped; a backslash is itself (SF12.2).
        if byte == UInt8(ascii: "\"") { out.append(UInt8(ascii: "\\")) }
        out.append(byte)
      }
      return Text(bytes: out + [UInt8(ascii: "\"")])
    }
  }

  /// A number without an exponent, which the grammar does not take.
  private static func plain(_ literal: String) -> String {
    let parts = literal.split(separator: "e")
    guard parts.count == 2, let exponent = Int(parts[1].drop { $0 == "+" }) else { return literal }
    let isNegative = parts[0].hasPrefix("-")
    let mantissa = parts[0].drop { $0 == "-" }.split(separator: ".")
    let whole = mantissa.first.map(String.init) ?? "0"
    let fraction = mantissa.count > 1 ? String(mantissa[1]) : ""
    var digits: String
    if exponent >= 0 {
      digits = whole + fraction + String(repeating: "0", count: max(0, exponent - fraction.count))
    } else {
      digits = "0." + String(repeating: "0", count: max(0, -exponent - whole.count)) + whole + fraction
    }
    if isNegative { digits = "-" + digits }
    return digits
  }
}

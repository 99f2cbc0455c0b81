import MarfaBase

/// Judges an item's properties by the catalog held, as the server would (Q55). Permissions, strict mode, uniqueness and
/// recurrence are left to the server. Pure.
enum PropertyCheck {
  /// Refuses properties judged whole: what a type requires must be there (Q55.5, Q55.7, Q55.8).
  static func whole(_ properties: JSONObject, of type: ItemType) throws(MarfaError) {
    for field in type.fields {
      guard let value = properties[field.name] else {
        if field.isRequired { throw refusal(field.name, "is required by \(type.id)") }
        continue
      }
      try judge(value, field)
    }
    try names(properties)
  }

  /// Refuses values judged by themselves: no field is required (Q55.6, Q55.9).
  static func values(_ properties: JSONObject, of type: ItemType) throws(MarfaError) {
    for field in type.fields {
      if let value = properties[field.name] { try judge(value, field) }
    }
    try names(properties)
  }

  /// A property with an empty name (D61.1), a text with a NUL anywhere in a value (I9.3), and a whole number the server's number format would not keep digit for digit
  /// (Q55.14).
  static func names(_ properties: JSONObject) throws(MarfaError) {
    for (key, value) in properties.members {
      if key.isEmpty { throw .validation("a property has an empty name") }
      if holdsNUL(value) { throw refusal(key, "holds a NUL") }
      if !keepsDigits(value) {
        throw refusal(key, "holds a whole number that the server would answer with other digits")
      }
    }
  }

  /// A tag the server would refuse (Q55.12).
  static func tag(_ tag: Text) throws(MarfaError) {
    if tag.bytes.isEmpty || isBlank(tag) { throw .validation("a tag is empty") }
    if tag.utf16Count > 128 { throw .validation("the tag '\(tag)' is longer than 128 characters") }
  }

  /// More than a hundred tags in one call, or left on a row that held no more (Q55.12).
  static func tagCount(adding tags: [Text], to held: [Text], replacing: Bool = false) throws(MarfaError) {
    let left = replacing ? Set(tags) : Set(held).union(tags)
    if tags.count > 100 || (left.count > 100 && left.count > held.count) {
      throw .validation("an item takes at most 100 tags")
    }
  }

  // MARK: Kinds

  private static func refusal(_ field: Text, _ words: String) -> MarfaError {
    .validation(
      "the property '\(field)' \(words)", code: "invalid_properties",
      details: ["errors": [["field": .string(field), "message": .string(words)]]])
  }

  private static func judge(_ value: JSON, _ field: Field) throws(MarfaError) {
    if value.isNull {
      if field.isRequired { throw refusal(field.name, "is required and may not be null") }
      return
    }
    if let fault = fault(value, field) { throw refusal(field.name, fault) }
  }

  /// What is wrong with a value, in words; nil for one the field takes (T29).
  static func fault(_ value: JSON, _ field: Field) -> String? {
    let limit = field.definition["maxLength"]?.int ?? 100_000
    func bounded() -> String? {
      guard let text = value.text else { return "must be text" }
      if text.bytes.contains(0) { return "holds a NUL" }
      return text.utf16Count > limit ? "is longer than \(limit) characters" : nil
    }
    switch field.kind.string {
    case "string": return bounded()
    case "enum":
      if let fault = bounded() { return fault }
      let allowed = (field.definition["enum_values"]?.array ?? field.definition["values"]?.array ?? []).compactMap(
        \.text)
      return allowed.isEmpty || value.text.map(allowed.contains) == true
        ? nil : "must be one of \(allowed.map(\.string).joined(separator: ", "))"
    case "number": return value.number.map { $0.double.isFinite } == true ? nil : "must be a number"
    case "integer":
      // As the double a server reads it as: 4.00000000000000000001 is whole.
      guard let number = value.number?.double, number.isFinite, number == number.rounded(),
        abs(number) <= 9_007_199_254_740_991
      else { return "must be a whole number of at most 9007199254740991" }
      return nil
    case "boolean": return value.bool == nil ? "must be true or false" : nil
    case "array":
      guard let values = value.array else { return "must be a list" }
      let most = field.definition["maxItems"]?.int ?? 10_000
      return values.count > most ? "has more than \(most) elements" : nil
    case "object": return value.object == nil ? "must be an object" : nil
    case "url": return value.text.map(isAbsoluteURL) == true ? bounded() : "must be a URL with its scheme"
    case "email": return value.text.map(ValueGrammar.isEmail) == true ? bounded() : "must be an e-mail address"
    case "date": return value.text.map(ValueGrammar.isDate) == true ? nil : "must be a date such as 2031-02-03"
    case "datetime":
      return value.text.map(ValueGrammar.isDateTime) == true
        ? nil : "must be a time with its zone, such as 2031-02-03T04:05:06Z"
    case "thumbnail":
      return value.text.map(ValueGrammar.isThumbnail) == true ? nil : "must be a small image as a data URI"
    // A kind of a later server: its word, not ours.
    default: return nil
    }
  }

  private static func holdsNUL(_ value: JSON) -> Bool {
    switch value {
    case .string(let text): text.bytes.contains(0)
    case .array(let values): values.contains(where: holdsNUL)
    case .object(let object): object.members.contains { $0.key.bytes.contains(0) || holdsNUL($0.value) }
    case .null, .bool, .number: false
    }
  }

  private static func keepsDigits(_ value: JSON) -> Bool {
    switch value {
    case .number(let number):
      if number.int.map({ $0.magnitude <= 9_007_199_254_740_992 }) == true { return true }
      let literal = number.literal.utf8
      let isWhole = !literal.contains(UInt8(ascii: ".")) && !literal.contains { $0 | 0x20 == UInt8(ascii: "e") }
      guard isWhole else { return true }
      return JSONNumber(number.double) == number
    case .array(let values): return values.allSatisfy(keepsDigits)
    case .object(let object): return object.members.allSatisfy { keepsDigits($0.value) }
    case .null, .bool, .string: return true
    }
  }

  /// Blank as JavaScript's `trim` reads it.
  private static func isBlank(_ text: Text) -> Bool {
    String(decoding: text.bytes, as: UTF8.self).unicodeScalars.allSatisfy { scalar in
      switch scalar.value {
      case 0x09...0x0D, 0x20, 0xA0, 0x1680, 0x2000...0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF: true
      default: false
      }
    }
  }
}

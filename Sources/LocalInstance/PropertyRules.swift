import MarfaBase

/// What a value of each field kind must be (T29), and what properties a type takes.
struct PropertyRules {
  let type: ResolvedType
  /// Whether a property no type of the chain declares is refused (T17).
  let isStrict: Bool

  /// Refuses properties the type does not take, naming every field at fault (I14.1).
  func judge(_ properties: JSONObject) throws {
    var faults: [(field: Text, message: String)] = []
    for field in type.fields where field.isRequired && (properties[field.name] ?? .null).isNull {
      faults.append((field.name, "\(field.name) is required."))
    }
    for (name, value) in properties.members {
      if holdsNUL(value) {
        faults.append((name, "\(name) holds U+0000."))
      } else if let field = type.byName[name] {
        if !value.isNull, let fault = PropertyRules.fault(value, field) { faults.append((name, fault)) }
      } else if isStrict, name != "attachments", name != "links" {
        faults.append((name, "\(type.id) declares no \(name)."))
      }
    }
    if type.chain.contains("core.event") { faults += eventFaults(properties) }
    if !faults.isEmpty { throw Refusal.properties(faults) }
  }

  /// Why a value does not fit a field, or nil.
  static func fault(_ value: JSON, _ field: FieldDefinition) -> String? {
    let name = field.name.string
    func text(_ fits: (Text) -> Bool, _ what: String) -> String? {
      guard let text = value.text, fits(text) else { return "\(name) is not \(what)." }
      return text.utf16Count > field.maxLength ?? 100_000 ? "\(name) is too long." : nil
    }
    switch field.kind {
    case "string": return text({ _ in true }, "a text")
    case "enum":
      return text({ text in field.values.map { $0.contains(text) } ?? true }, "one of the values the type lists")
    case "number": return (value.number?.double.isFinite ?? false) ? nil : "\(name) is not a finite number."
    case "integer":
      guard let number = value.number, number.double.isFinite, number.double == number.double.rounded(),
        abs(number.double) <= 9_007_199_254_740_991
      else { return "\(name) is not a whole number." }
      return nil
    case "boolean": return value.bool == nil ? "\(name) is not true or false." : nil
    case "array":
      guard let list = value.array else { return "\(name) is not a list." }
      return list.count > field.maxItems ?? 10_000 ? "\(name) has too many elements." : nil
    case "object": return value.object == nil ? "\(name) is not an object." : nil
    case "url": return text(isAbsoluteURL, "an absolute URL")
    case "email": return text(isEmail, "an email address")
    case "date": return text(isDateValue, "a date")
    case "datetime": return text(isDateTimeValue, "a date-time with its zone")
    case "thumbnail": return value.text.map(isThumbnail) == true ? nil : "\(name) is no thumbnail."
    default: return nil
    }
  }

  /// The parts of T106 a small instance checks: a duration within a century, zones that can be names.
  private func eventFaults(_ properties: JSONObject) -> [(field: Text, message: String)] {
    var faults: [(field: Text, message: String)] = []
    if let duration = properties["duration"]?.number?.double, !(0...3_155_760_000).contains(duration) {
      faults.append(("duration", "duration is outside 0 to a century."))
    }
    for name in ["timezone", "end_timezone"] as [Text] {
      if let zone = properties[name]?.text, !ZoneDatabase.names(zone) {
        faults.append((name, "\(name) names no time zone."))
      }
    }
    return faults
  }
}

/// A property whose name has no characters (I14.2).
func judgeNames(_ properties: JSONObject) throws {
  if properties.members.contains(where: \.key.isEmpty) {
    throw Refusal.invalid("properties", "A property's name has no characters.")
  }
}

private func holdsNUL(_ value: JSON) -> Bool {
  switch value {
  case .string(let text): text.bytes.contains(0)
  case .array(let values): values.contains(where: holdsNUL)
  case .object(let object): object.members.contains { $0.key.bytes.contains(0) || holdsNUL($0.value) }
  case .null, .bool, .number: false
  }
}

/// T29.1.
func isEmail(_ text: Text) -> Bool {
  let bytes = text.bytes
  guard let at = bytes.lastIndex(of: UInt8(ascii: "@")), bytes.allSatisfy({ $0 < 0x80 }) else { return false }
  let local = bytes[..<at]
  let labels = bytes[(at + 1)...].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
  guard let first = local.first, let last = local.last, first != UInt8(ascii: "."), last != UInt8(ascii: "."),
    last != UInt8(ascii: "'"), local.allSatisfy({ isAlphanumeric($0) || "_'+-.".utf8.contains($0) }),
    !zip(bytes, bytes.dropFirst()).contains(where: { $0 == UInt8(ascii: ".") && $1 == UInt8(ascii: ".") }),
    labels.count >= 2, let tail = labels.last
  else { return false }
  return tail.count >= 2 && tail.allSatisfy { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A }
    && labels.allSatisfy { label in
      guard let head = label.first, isAlphanumeric(head) else { return false }
      return label.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: "-") }
    }
}

/// I48.1: canonical base64 of at most 16384 bytes that begin with the named format's signature.
func isThumbnail(_ text: Text) -> Bool {
  let kinds: [(String, ([UInt8]) -> Bool)] = [
    ("data:image/png;base64,", { $0.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) }),
    ("data:image/jpeg;base64,", { $0.starts(with: [0xFF, 0xD8, 0xFF]) }),
    (
      "data:image/webp;base64,",
      { $0.count >= 12 && $0.starts(with: "RIFF".utf8) && $0[8..<12].elementsEqual("WEBP".utf8) }
    ),
  ]
  for (prefix, signed) in kinds where text.bytes.starts(with: prefix.utf8) {
    guard let decoded = base64Decoded(Array(text.bytes.dropFirst(prefix.utf8.count))) else { return false }
    return decoded.count <= 16384 && signed(decoded)
  }
  return false
}

/// Canonical base64 with padding, or nil.
func base64Decoded(_ bytes: [UInt8]) -> [UInt8]? {
  guard bytes.count % 4 == 0 else { return nil }
  let padding = bytes.reversed().prefix { $0 == UInt8(ascii: "=") }.count
  guard padding <= 2 else { return nil }
  var out: [UInt8] = []
  var held: UInt32 = 0
  var bits = 0
  for byte in bytes.dropLast(padding) {
    let value: UInt32
    switch byte {
    case 0x41...0x5A: value = UInt32(byte - 0x41)
    case 0x61...0x7A: value = UInt32(byte - 0x61 + 26)
    case 0x30...0x39: value = UInt32(byte - 0x30 + 52)
    case UInt8(ascii: "+"): value = 62
    case UInt8(ascii: "/"): value = 63
    default: return nil
    }
    held = held << 6 | value
    bits += 6
    if bits >= 8 {
      bits -= 8
      out.append(UInt8(truncatingIfNeeded: held >> UInt32(bits)))
      held &= (1 << UInt32(bits)) - 1
    }
  }
  return held == 0 ? out : nil
}

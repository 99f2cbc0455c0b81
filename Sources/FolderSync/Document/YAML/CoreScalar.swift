import MarfaBase

/// What a plain scalar means by the YAML 1.2 core schema (F7.6): dates, times, `yes` and `no` are text.
enum CoreScalar: Hashable {
  case null
  case bool(Bool)
  /// A number, spelled as written where JSON can hold the spelling.
  case number(JSONNumber)
  case text([UInt8])
  /// `.inf`, `.nan`, or a number past a double's range.
  case notFinite

  /// Resolves the bytes of a plain scalar.
  init(_ bytes: [UInt8]) {
    guard let first = bytes.first else {
      self = .null
      return
    }
    switch first {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."):
      self = CoreScalar.numeric(bytes) ?? .text(bytes)
    case UInt8(ascii: "~"), UInt8(ascii: "n"), UInt8(ascii: "N"), UInt8(ascii: "t"), UInt8(ascii: "T"),
      UInt8(ascii: "f"), UInt8(ascii: "F"):
      self = bytes.count > 5 ? .text(bytes) : CoreScalar.word(bytes)
    default: self = .text(bytes)
    }
  }

  private static func word(_ bytes: [UInt8]) -> CoreScalar {
    switch String(decoding: bytes, as: UTF8.self) {
    case "~", "null", "Null", "NULL": .null
    case "true", "True", "TRUE": .bool(true)
    case "false", "False", "FALSE": .bool(false)
    default: .text(bytes)
    }
  }

  private static func numeric(_ bytes: [UInt8]) -> CoreScalar? {
    if bytes.count > 2, bytes[0] == UInt8(ascii: "0"), bytes[1] == UInt8(ascii: "x") || bytes[1] == UInt8(ascii: "o") {
      return based(bytes[2...], bytes[1] == UInt8(ascii: "x") ? 16 : 8)
    }
    var rest = bytes[...]
    var literal: [UInt8] = []
    if let sign = rest.first, sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") {
      if sign == UInt8(ascii: "-") { literal.append(sign) }
      rest.removeFirst()
    }
    switch String(decoding: rest.prefix(5), as: UTF8.self) {
    case ".inf", ".Inf", ".INF": return .notFinite
    case ".nan", ".NaN", ".NAN": return rest.count == bytes.count ? .notFinite : nil
    default: break
    }
    let whole = digits(&rest)
    var fraction: ArraySlice<UInt8> = []
    if rest.first == UInt8(ascii: ".") {
      rest.removeFirst()
      fraction = digits(&rest)
    }
    guard !whole.isEmpty || !fraction.isEmpty else { return nil }
    var exponent: [UInt8] = []
    if let mark = rest.first, mark | 0x20 == UInt8(ascii: "e") {
      exponent.append(mark)
      rest.removeFirst()
      if let sign = rest.first, sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") {
        exponent.append(sign)
        rest.removeFirst()
      }
      let power = digits(&rest)
      guard !power.isEmpty else { return nil }
      exponent += power
    }
    guard rest.isEmpty else { return nil }
    let significant = whole.drop { $0 == UInt8(ascii: "0") }
    literal += significant.isEmpty ? [UInt8(ascii: "0")] : Array(significant)
    if !fraction.isEmpty { literal += [UInt8(ascii: ".")] + fraction }
    literal += exponent
    return number(literal)
  }

  private static func digits(_ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let taken = rest.prefix { $0 >= 0x30 && $0 <= 0x39 }
    rest = rest.dropFirst(taken.count)
    return taken
  }

  private static func based(_ digits: ArraySlice<UInt8>, _ base: UInt8) -> CoreScalar? {
    guard digits.count <= 256 else { return nil }
    // Decimal digits, least first: no width is lost.
    var decimal: [UInt8] = [0]
    for byte in digits {
      let value: UInt8
      switch byte {
      case 0x30...0x37: value = byte - 0x30
      case 0x38...0x39 where base == 16: value = byte - 0x30
      case 0x41...0x46 where base == 16: value = byte - 0x41 + 10
      case 0x61...0x66 where base == 16: value = byte - 0x61 + 10
      default: return nil
      }
      var carry = Int(value)
      for index in decimal.indices {
        carry += Int(decimal[index]) * Int(base)
        decimal[index] = UInt8(carry % 10)
        carry /= 10
      }
      while carry > 0 {
        decimal.append(UInt8(carry % 10))
        carry /= 10
      }
    }
    return number(decimal.reversed().map { $0 + 0x30 })
  }

  private static func number(_ literal: [UInt8]) -> CoreScalar? {
    guard let number = try? JSON(parsing: literal).number else { return nil }
    return number.double.isFinite ? .number(number) : .notFinite
  }
}

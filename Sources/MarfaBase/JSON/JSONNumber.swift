/// A JSON number as its text, so that 20-digit integers, 9007199254740993 and 0.1 survive as they were written.
public struct JSONNumber: Sendable, CustomStringConvertible {
  /// The text, of JSON's number grammar.
  public let literal: String

  /// A number of checked text.
  init(literal: String) { self.literal = literal }

  /// A whole number.
  public init(_ value: some BinaryInteger) { literal = String(value) }

  /// A number as JavaScript writes it: shortest digits, exponents from 1e21 up and 1e-7 down, `-0` as `0`. A value JSON
  /// cannot hold (NaN, infinity) gives nil.
  public init?(_ value: Double) {
    guard value.isFinite else { return nil }
    literal = JSONNumber.javaScript(value)
  }

  /// The text.
  public var description: String { literal }

  /// The nearest double; infinite past its range.
  public var double: Double { Double(literal) ?? .nan }

  /// The value where it is whole and fits 64 bits; `3.0` and `3e2` are whole.
  public var int: Int? {
    if let value = Int(literal) { return value }
    let decimal = self.decimal
    guard decimal.exponent >= 0, decimal.exponent < 20 else { return nil }
    return Int((decimal.negative ? "-" : "") + decimal.digits + String(repeating: "0", count: decimal.exponent))
  }

  /// Sign, digits without leading or trailing zeros, and the power of ten they are multiplied by; zero is no digits "0".
  var decimal: (negative: Bool, digits: String, exponent: Int) {
    var negative = false
    var digits: [UInt8] = []
    var exponent = 0
    var fraction = false
    var bytes = Array(literal.utf8)[...]
    if bytes.first == UInt8(ascii: "-") {
      negative = true
      bytes = bytes.dropFirst()
    }
    while let byte = bytes.first {
      if byte == UInt8(ascii: ".") {
        fraction = true
      } else if byte | 0x20 == UInt8(ascii: "e") {
        let written = Int(String(decoding: bytes.dropFirst(), as: UTF8.self).drop { $0 == "+" })
        exponent += max(-1_000_000_000, min(1_000_000_000, written ?? 1_000_000_000))
        break
      } else {
        digits.append(byte)
        if fraction { exponent -= 1 }
      }
      bytes = bytes.dropFirst()
    }
    while digits.last == UInt8(ascii: "0") {
      digits.removeLast()
      exponent += 1
    }
    let significant = digits.drop { $0 == UInt8(ascii: "0") }
    if significant.isEmpty { return (false, "0", 0) }
    return (negative, String(decoding: significant, as: UTF8.self), exponent)
  }

  private static func javaScript(_ value: Double) -> String {
    if value == 0 { return "0" }
    // Swift's description is the shortest form; only its layout differs from JavaScript's.
    let (negative, digits, exponent) = JSONNumber(literal: "\(value)").decimal
    let point = digits.count + exponent
    let sign = negative ? "-" : ""
    if point > 21 || point < -5 {
      let head = digits.prefix(1)
      let tail = digits.dropFirst()
      return "\(sign)\(head)\(tail.isEmpty ? "" : ".\(tail)")e\(point > 0 ? "+" : "-")\(abs(point - 1))"
    }
    if point <= 0 { return "\(sign)0.\(String(repeating: "0", count: -point))\(digits)" }
    if exponent >= 0 { return sign + digits + String(repeating: "0", count: exponent) }
    return "\(sign)\(digits.prefix(point)).\(digits.dropFirst(point))"
  }
}

extension JSONNumber: Hashable {
  /// Equality of value: `1`, `1.0` and `10e-1` are one number.
  public static func == (left: JSONNumber, right: JSONNumber) -> Bool {
    if left.literal.utf8.elementsEqual(right.literal.utf8) { return true }
    let (one, other) = (left.decimal, right.decimal)
    return one.negative == other.negative && one.exponent == other.exponent && one.digits == other.digits
  }

  /// Feeds the value, not its spelling.
  public func hash(into hasher: inout Hasher) {
    let decimal = self.decimal
    hasher.combine(decimal.negative)
    hasher.combine(decimal.digits)
    hasher.combine(decimal.exponent)
  }
}

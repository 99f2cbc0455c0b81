import MarfaBase

/// Cursors of pages: where a page ended, bound to its listing and order, and proof against alteration (SF9.3).
struct Cursor {
  let secret: Text

  /// A cursor of a listing (`scope` spells its parameters and order) that stands at some values.
  func write(_ scope: String, _ values: [JSON]) -> JSON {
    let payload = JSON.array(values).write()
    return .string(base64URL(payload) + "." + check(scope, payload))
  }

  /// The values a cursor stands at; refused where it is another listing's or altered.
  func read(_ text: Text, _ scope: String) throws -> [JSON] {
    let parts = text.bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 2, let payload = base64URLDecoded(Array(parts[0])),
      check(scope, payload).utf8.elementsEqual(parts[1]), let values = (try? JSON(parsing: payload))?.array
    else { throw Refusal.invalid("cursor", "The cursor is none of this listing.") }
    return values
  }

  private func check(_ scope: String, _ payload: [UInt8]) -> String {
    String(ContentHash(of: secret.bytes + Array(scope.utf8) + [0] + payload).hex.prefix(24))
  }
}

func base64URL(_ bytes: [UInt8]) -> String {
  let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
  var out: [UInt8] = []
  var held: UInt32 = 0
  var bits = 0
  for byte in bytes {
    held = held << 8 | UInt32(byte)
    bits += 8
    while bits >= 6 {
      bits -= 6
      out.append(digits[Int(held >> UInt32(bits) & 63)])
    }
    held &= (1 << UInt32(bits)) - 1
  }
  if bits > 0 { out.append(digits[Int(held << UInt32(6 - bits) & 63)]) }
  return String(decoding: out, as: UTF8.self)
}

func base64URLDecoded(_ bytes: [UInt8]) -> [UInt8]? {
  var standard = bytes.map {
    $0 == UInt8(ascii: "-") ? UInt8(ascii: "+") : $0 == UInt8(ascii: "_") ? UInt8(ascii: "/") : $0
  }
  standard += [UInt8](repeating: UInt8(ascii: "="), count: (4 - standard.count % 4) % 4)
  return base64Decoded(standard)
}

/// A UUID: of an item, an edge, a queued write, a store, an instance. Sixteen bytes, ordered as its text is.
public struct EntityID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The first eight bytes, big-endian.
  public let high: UInt64
  /// The last eight bytes, big-endian.
  public let low: UInt64

  /// An id of two halves.
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// The id a text of 36 characters spells, hex digits of either case and dashes; nil for any other text.
  public init?(_ text: some Sequence<UInt8>) {
    var halves: (UInt64, UInt64) = (0, 0)
    var digits = 0
    var position = 0
    for byte in text {
      if position == 8 || position == 13 || position == 18 || position == 23 {
        guard byte == UInt8(ascii: "-") else { return nil }
      } else {
        let value: UInt8
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): value = byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): value = byte - UInt8(ascii: "A") + 10
        default: return nil
        }
        if digits < 16 { halves.0 = halves.0 << 4 | UInt64(value) } else { halves.1 = halves.1 << 4 | UInt64(value) }
        digits += 1
      }
      position += 1
      if position > 36 { return nil }
    }
    guard position == 36 else { return nil }
    (high, low) = halves
  }

  /// The id a string spells.
  public init?(_ string: some StringProtocol) { self.init(string.utf8) }

  /// The id a text spells.
  public init?(_ text: Text) { self.init(text.bytes) }

  /// Lowercase hex digits and dashes.
  public var description: String { String(decoding: bytes, as: UTF8.self) }

  /// The description as text.
  public var text: Text { Text(bytes: bytes) }

  private var bytes: [UInt8] {
    [UInt8](unsafeUninitializedCapacity: 36) { out, count in
      var place = 0
      for index in 0..<32 {
        if index == 8 || index == 12 || index == 16 || index == 20 {
          out[place] = UInt8(ascii: "-")
          place += 1
        }
        let half = index < 16 ? high : low
        let digit = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * (index % 16)) & 15)
        out[place] = digit < 10 ? 0x30 + digit : 0x57 + digit
        place += 1
      }
      count = 36
    }
  }

  /// Whether version and variant are those of a UUIDv7.
  public var isVersion7: Bool { high >> 12 & 15 == 7 && low >> 62 == 2 }

  /// A UUIDv7 of a time and 74 random bits.
  public static func version7(at time: Timestamp, random: (UInt16, UInt64)) -> EntityID {
    EntityID(
      high: UInt64(bitPattern: time.milliseconds) << 16 | 0x7000 | UInt64(random.0 & 0x0FFF),
      low: 0x8000_0000_0000_0000 | random.1 & 0x3FFF_FFFF_FFFF_FFFF)
  }

  /// The order of their texts.
  public static func < (left: EntityID, right: EntityID) -> Bool {
    left.high != right.high ? left.high < right.high : left.low < right.low
  }
}

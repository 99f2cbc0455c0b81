import MarfaBase

/// A seeded generator (SplitMix64): one seed, one run.
package struct Seeded: RandomNumberGenerator {
  /// Where the sequence stands.
  package var state: UInt64

  /// The sequence of a seed.
  package init(state: UInt64) { self.state = state }

  /// The next 64 bits.
  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// What YAML, Markdown and people stumble over.
  package static let pieces = [
    "a", "word", "two words", "yes", "no", "null", "~", "true", "12", "1.10", "0x1f", "-", "- x", ": ", "a: b", " #",
    "#tag", "'",
    "\"", "\\", "\n", "\n\n", "\t", "é", "日本", "👩‍👩‍👧", "\u{2028}", "\u{85}", "\u{FEFF}", "\u{0}", "\u{1B}", "[x]", "{y}",
    "---",
    "...", "*a", "&b", "!t", "|", ">", "%", "@", "`", "?", ",", "<<", "=", " ", "", "2026-10-06", "e\u{301}", "\r",
    "\r\n", "\u{7F}",
    "\u{A0}", "\u{200B}", "{{date}}", "[[Link]]", "a\\b", ":", "x:", ".inf", "1e999",
  ]

  /// A text of pieces that YAML, Markdown and people stumble over.
  package mutating func text() -> Text {
    var out = ""
    for _ in 0..<Int.random(in: 0...4, using: &self) { out += Seeded.pieces.randomElement(using: &self) ?? "" }
    return Text(out)
  }

  /// A number in one of its spellings.
  package mutating func number() -> JSON {
    let all = ["0", "-1", "1.5", "1.10", "12345678901234567890", "9007199254740993", "1e5", "-0.25", "2E-3"]
    return (try? JSON(parsing: all.randomElement(using: &self) ?? "0")) ?? 0
  }

  /// A value of any kind, not deeper than a few levels.
  package mutating func value(_ depth: Int) -> JSON {
    switch Int.random(in: 0..<(depth > 3 ? 5 : 9), using: &self) {
    case 0: .bool(Bool.random(using: &self))
    case 1: number()
    case 2, 3, 4: .string(text())
    case 5, 6: .array((0..<Int.random(in: 0...4, using: &self)).map { _ in value(depth + 1) })
    default: .object(object(depth + 1, Int.random(in: 0...4, using: &self)))
    }
  }

  /// An object of so many members.
  package mutating func object(_ depth: Int, _ count: Int) -> JSONObject {
    var out = JSONObject()
    for number in 0..<count {
      let key = Bool.random(using: &self) ? Text("k\(number)") : text()
      out[key] = value(depth)
    }
    return out
  }

  /// The value with something in it changed.
  package mutating func changed(_ value: JSON) -> JSON {
    switch value {
    case .array(var values) where Int.random(in: 0..<5, using: &self) > 0:
      switch Int.random(in: 0..<5, using: &self) {
      case 0: values.shuffle(using: &self)
      case 1: values.insert(self.value(3), at: Int.random(in: 0...values.count, using: &self))
      case 2 where !values.isEmpty: values.remove(at: Int.random(in: 0..<values.count, using: &self))
      default:
        guard !values.isEmpty else { return [1] }
        let at = Int.random(in: 0..<values.count, using: &self)
        values[at] = changed(values[at])
      }
      return .array(values)
    case .object(var object) where Int.random(in: 0..<5, using: &self) > 0:
      guard let key = object.keys.randomElement(using: &self), let held = object[key] else { return ["new": 1] }
      switch Int.random(in: 0..<4, using: &self) {
      case 0: object[key] = nil
      case 1: object[text()] = self.value(3)
      default: object[key] = changed(held)
      }
      return .object(object)
    default: return self.value(2)
    }
  }
}

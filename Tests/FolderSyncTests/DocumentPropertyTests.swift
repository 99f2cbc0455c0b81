import MarfaBase
import MarfaCopy
import Testing

@testable import FolderSync

/// A seeded generator (SplitMix64): one seed, one run.
struct Seeded: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  static let pieces = [
    "a", "word", "two words", "yes", "no", "null", "~", "true", "12", "1.10", "0x1f", "-", "- x", ": ", "a: b", " #",
    "#tag", "'",
    "\"", "\\", "\n", "\n\n", "\t", "é", "日本", "👩‍👩‍👧", "\u{2028}", "\u{85}", "\u{FEFF}", "\u{0}", "\u{1B}", "[x]", "{y}",
    "---",
    "...", "*a", "&b", "!t", "|", ">", "%", "@", "`", "?", ",", "<<", "=", " ", "", "2026-10-06", "e\u{301}", "\r",
    "\r\n", "\u{7F}",
    "\u{A0}", "\u{200B}", "{{date}}", "[[Link]]", "a\\b", ":", "x:", ".inf", "1e999",
  ]

  mutating func text() -> Text {
    var out = ""
    for _ in 0..<Int.random(in: 0...4, using: &self) { out += Seeded.pieces.randomElement(using: &self) ?? "" }
    return Text(out)
  }

  mutating func number() -> JSON {
    let all = ["0", "-1", "1.5", "1.10", "12345678901234567890", "9007199254740993", "1e5", "-0.25", "2E-3"]
    return (try? JSON(parsing: all.randomElement(using: &self) ?? "0")) ?? 0
  }

  mutating func value(_ depth: Int) -> JSON {
    switch Int.random(in: 0..<(depth > 3 ? 5 : 9), using: &self) {
    case 0: .bool(Bool.random(using: &self))
    case 1: number()
    case 2, 3, 4: .string(text())
    case 5, 6: .array((0..<Int.random(in: 0...4, using: &self)).map { _ in value(depth + 1) })
    default: .object(object(depth + 1, Int.random(in: 0...4, using: &self)))
    }
  }

  mutating func object(_ depth: Int, _ count: Int) -> JSONObject {
    var out = JSONObject()
    for number in 0..<count {
      let key = Bool.random(using: &self) ? Text("k\(number)") : text()
      out[key] = value(depth)
    }
    return out
  }

  /// The value with something in it changed.
  mutating func changed(_ value: JSON) -> JSON {
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

  /// A value as a person may lay it out: block or flow, odd indents, comments, quotes.
  mutating func laidOut(_ value: JSON, _ column: Int, _ inSequence: Bool, _ anchors: inout Int) -> String {
    let comment = Int.random(in: 0..<4, using: &self) == 0 ? " # c\(Int.random(in: 0..<99, using: &self))" : ""
    func inline(_ value: JSON) -> String {
      (try? YAMLText.inline(value, flow: true)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
    let isBlock = Int.random(in: 0..<4, using: &self) > 0
    switch value {
    case .array(let values) where !values.isEmpty && isBlock:
      let step = inSequence ? 2 : Int.random(in: 0...3, using: &self)
      var out = comment + "\n"
      for value in values {
        if Int.random(in: 0..<6, using: &self) == 0 {
          out += String(repeating: " ", count: column + step) + "# about\n"
        }
        out += String(repeating: " ", count: column + step) + "-" + laidOut(value, column + step, true, &anchors)
      }
      return out
    case .object(let object) where !object.isEmpty && isBlock:
      let step = Int.random(in: 1...4, using: &self)
      var out = comment + "\n"
      for (key, value) in object.members {
        if Int.random(in: 0..<6, using: &self) == 0 { out += "\n" }
        out += String(repeating: " ", count: column + step) + inline(.string(key)) + ":"
        out += laidOut(value, column + step, false, &anchors)
      }
      return out
    default:
      var lead = " "
      if Int.random(in: 0..<8, using: &self) == 0 {
        lead = " &a\(anchors) "
        anchors += 1
      } else if anchors > 0, Int.random(in: 0..<8, using: &self) == 0 {
        return " *a\(Int.random(in: 0..<anchors, using: &self))\(comment)\n"
      }
      return lead + inline(value) + comment + "\n"
    }
  }
}

@Suite struct DocumentPropertyTests {
  private func renderable(_ value: JSON) -> Bool { true }

  @Test("What is written reads back the same; written again it changes no byte (seeded)") func roundTrip() throws {
    for seed in 0..<1500 as Range<UInt64> {
      var random = Seeded(state: seed)
      let count = Int.random(in: 0...6, using: &random)
      var wanted = content(.object(random.object(1, count)), tags: ["b", "a"], body: Text("---\nbody \(seed)"))
      if Bool.random(using: &random) { wanted.state = .archived }
      let reserved = wanted.properties.keys.filter { LineName($0, edgeNames) != .property }
      for key in reserved { wanted.properties[key] = nil }
      let bytes = try Document.render(new: wanted, kind: .markdown, edges: edgeNames).get()
      let read = try #require(Document.read(bytes, kind: .markdown, edges: edgeNames).document)
      #expect(read.properties == wanted.properties, "seed \(seed)")
      #expect(read.body == wanted.body)
      #expect(try Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames).get() == bytes, "seed \(seed)")
    }
  }

  @Test("A changed value anywhere is edited; untouched top-level lines keep their bytes (seeded)") func edits() throws {
    var unreadable = 0
    for seed in 0..<3000 as Range<UInt64> {
      var random = Seeded(state: seed &* 77 &+ 5)
      var anchors = 0
      var blocks: [(key: Text, text: String)] = []
      for number in 0..<Int.random(in: 1...5, using: &random) {
        let key = Text("key\(number)")
        blocks.append((key, "\(key):" + random.laidOut(random.value(1), 0, false, &anchors)))
      }
      let text = "---\n" + blocks.map(\.text).joined() + "---\nbody\n"
      guard case .read(let read) = reading(text) else {
        unreadable += 1
        continue
      }
      var wanted = content(of: read)
      wanted.id = noteID
      wanted.version = 9
      #expect(
        try Document.rewriteLines(Array(text.utf8), id: noteID, version: 9, edges: edgeNames).get().count
          > text.utf8.count)
      let key = Text("key\(Int.random(in: 0..<blocks.count, using: &random))")
      guard let held = read.properties[key], !held.isNull else { continue }
      wanted.properties[key] = Int.random(in: 0..<6, using: &random) == 0 ? nil : random.changed(held)
      let result = Document.rewrite(Array(text.utf8), to: wanted, kind: .markdown, edges: edgeNames)
      guard case .success(let bytes) = result else {
        Issue.record("seed \(seed): \(result)\n\(text)")
        continue
      }
      let out = String(decoding: bytes, as: UTF8.self)
      #expect(try document(out).properties == wanted.properties, "seed \(seed)")
      // With aliases about, a line may be written out.
      if anchors == 0 {
        for block in blocks where block.key != key {
          #expect(
            Text(out).bytes.firstRange(of: Text(block.text).bytes) != nil,
            "seed \(seed) \(block.key)\n\(text)\n=>\n\(out)")
        }
      }
    }
    #expect(unreadable < 600, "\(unreadable) of 3000 layouts do not read")
  }

  @Test("Random bytes never trap, and what reads rewrites to itself (seeded)") func noise() throws {
    let alphabet = Array("---\n: #[]{}&*!|>'\"%@`\t\r,-?ab1~<é\u{2028}".utf8)
    for seed in 0..<4000 as Range<UInt64> {
      var random = Seeded(state: seed &* 31 &+ 7)
      var bytes = Array("---\n".utf8)
      for _ in 0..<Int.random(in: 0...60, using: &random) {
        bytes.append(alphabet.randomElement(using: &random) ?? 0x20)
      }
      bytes += "\n---\nb".utf8
      _ = BodyReferences(body: Text(bytes: bytes), kind: .markdown)
      guard let read = Document.read(bytes, kind: .markdown, edges: edgeNames).document else { continue }
      if case .success(let out) = Document.rewriteLines(bytes, id: noteID, version: 1, edges: edgeNames) {
        let back = try #require(Document.read(out, kind: .markdown, edges: edgeNames).document)
        #expect(back.properties == read.properties)
        #expect(back.body == read.body)
      }
    }
  }
}

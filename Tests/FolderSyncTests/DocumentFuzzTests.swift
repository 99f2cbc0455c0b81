import MarfaBase
import Testing

@testable import FolderSync

/// Round trips of files as people lay them out: read, one field rewritten, read again. Bounded and seeded: one seed, one
/// file.
@Suite struct DocumentFuzzTests {
  /// A frontmatter of blocks in some order, the body after it.
  private struct Laid {
    var blocks: [(key: Text?, text: String)]
    var body: String
    var ending: String

    var text: String {
      let all = "---\n" + blocks.map(\.text).joined() + "---\n" + body
      return ending == "\n" ? all : all.replacing("\n", with: ending)
    }

    /// The bytes before a block and after it.
    func around(_ place: Int) -> (before: [UInt8], after: [UInt8]) {
      let before = "---\n" + blocks[..<place].map(\.text).joined()
      let after = blocks[(place + 1)...].map(\.text).joined() + "---\n" + body
      func ended(_ text: String) -> [UInt8] {
        Array((ending == "\n" ? text : text.replacing("\n", with: ending)).utf8)
      }
      return (ended(before), ended(after))
    }
  }

  private func laid(_ random: inout Seeded) -> Laid {
    var blocks: [(key: Text?, text: String)] = [
      ("type", "type: core.note # what it is\n"), ("tier", ["tier: library\n", "tier:   'library'\n"][0]),
      ("tags", "tags: [ b,  a ]  # two\n"), ("marfa_id", "marfa_id: \(noteID)\n"),
      ("marfa_version", "marfa_version: \"4\"\n"),
    ]
    var anchors = Int.min
    for number in 0..<Int.random(in: 1...5, using: &random) {
      let key = Text("key\(number)")
      var value = random.value(1)
      if value.isNull { value = 1 }
      blocks.append((key, "\(key):" + random.laidOut(value, 0, false, &anchors)))
      if Int.random(in: 0..<3, using: &random) == 0 { blocks.append((nil, "# a remark, [not] {yaml}: ---\n")) }
    }
    blocks.shuffle(using: &random)
    let bodies = ["", "Words.\n", "no final newline", "\n---\n\n", "a: b\n...\n", "[[Link]] \u{2028} ![](a b.png)\n"]
    // Lone line ends inside a value would be changed with the others.
    let isPlain = !blocks.contains { $0.text.contains("\r") }
    return Laid(
      blocks: blocks, body: bodies.randomElement(using: &random) ?? "",
      ending: isPlain && Int.random(in: 0..<3, using: &random) == 0 ? "\r\n" : "\n")
  }

  @Test("One field rewritten loses no byte outside it, and reads back as meant (seeded)")
  func oneField() throws {
    var read = 0
    for seed in 0..<2500 as Range<UInt64> {
      var random = Seeded(state: seed &* 131 &+ 17)
      let file = laid(&random)
      let bytes = Array(file.text.utf8)
      guard let document = Document.read(bytes, kind: .markdown, edges: edgeNames).document else { continue }
      read += 1
      var wanted = content(of: document)
      // Read and written again, nothing moves.
      #expect(try Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames).get() == bytes, "seed \(seed)")
      let own = file.blocks.indices.filter { file.blocks[$0].key.map { document.properties[$0] != nil } ?? false }
      guard let place = own.randomElement(using: &random), let key = file.blocks[place].key,
        let held = document.properties[key]
      else { continue }
      let changed = random.changed(held)
      guard !changed.isNull, changed != held else { continue }
      wanted.properties[key] = changed
      let result = Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames)
      guard case .success(let out) = result else {
        Issue.record("seed \(seed): \(result)\n\(file.text)")
        continue
      }
      let around = file.around(place)
      let isKept =
        out.starts(with: around.before) && out.suffix(around.after.count).elementsEqual(around.after)
        && out.count >= around.before.count + around.after.count
      #expect(isKept, "seed \(seed) \(key)\n\(file.text)\n=>\n\(String(decoding: out, as: UTF8.self))")
      let back = try #require(Document.read(out, kind: .markdown, edges: edgeNames).document, "seed \(seed)")
      #expect(back.properties == wanted.properties, "seed \(seed)")
      #expect(back.body == document.body && back.own == document.own && back.id == document.id, "seed \(seed)")
      #expect(back.version == document.version, "seed \(seed)")
    }
    #expect(read > 1800, "\(read) of 2500 layouts read")
  }

  @Test("A field taken out, and put back, leaves the rest as it was (seeded)")
  func takenOut() throws {
    for seed in 0..<800 as Range<UInt64> {
      var random = Seeded(state: seed &* 977 &+ 3)
      let file = laid(&random)
      let bytes = Array(file.text.utf8)
      guard let document = Document.read(bytes, kind: .markdown, edges: edgeNames).document,
        let key = document.properties.keys.randomElement(using: &random), let held = document.properties[key]
      else { continue }
      var wanted = content(of: document)
      wanted.properties[key] = nil
      let out = try Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames).get()
      let without = try #require(Document.read(out, kind: .markdown, edges: edgeNames).document, "seed \(seed)")
      #expect(without.properties == wanted.properties && without.body == document.body, "seed \(seed)")
      for block in file.blocks where block.key != nil && block.key != key {
        let text = file.ending == "\n" ? block.text : block.text.replacing("\n", with: file.ending)
        #expect(Text(bytes: out).bytes.firstRange(of: Array(text.utf8)) != nil, "seed \(seed) \(block.text)")
      }
      wanted.properties[key] = held
      let again = try Document.rewrite(out, to: wanted, kind: .markdown, edges: edgeNames).get()
      let back = try #require(Document.read(again, kind: .markdown, edges: edgeNames).document, "seed \(seed)")
      #expect(back.properties[key] == held && back.body == document.body, "seed \(seed)")
    }
  }
}

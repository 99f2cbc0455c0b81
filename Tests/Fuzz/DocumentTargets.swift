import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport

/// What a file's own reading says, as content: a rewrite to it changes no byte.
private func content(of document: Document) -> ItemContent {
  ItemContent(
    type: document.own.type.value ?? "core.note", tier: document.own.tier.value ?? "library",
    tags: document.own.tags.value ?? [], state: document.own.state.value ?? .active,
    occurredAt: document.own.occurredAt.value ?? Timestamp(milliseconds: 0),
    hasOwnTime: document.own.occurredAt.value != nil, properties: document.properties,
    edges: document.edges.map { line in
      EdgeContent(
        key: line.key,
        targets: line.targets.compactMap { if case .link(let link) = $0 { link.typed } else { nil } }, holdsMany: true)
    }, id: document.id.id, version: document.version.version, body: document.body)
}

private func document(_ bytes: [UInt8]) -> Document? {
  Document.read(bytes, kind: .markdown, edges: edgeNames).document
}

private func rewritten(_ bytes: [UInt8], to content: ItemContent) throws(Finding) -> [UInt8] {
  switch Document.rewrite(bytes, to: content, kind: .markdown, edges: edgeNames) {
  case .success(let out): return out
  case .failure(let failure): throw Finding(words: "it can't be rewritten: \(failure)", input: bytes)
  }
}

/// A frontmatter of blocks in some order, the body after it.
private struct Layout {
  var blocks: [(key: Text?, text: String)]
  var body: String
  var ending: String

  init(_ random: inout Seeded) {
    blocks = [
      ("type", "type: core.note # what it is\n"),
      ("tier", ["tier: library\n", "tier:   'library'\n"].randomElement(using: &random) ?? "tier: library\n"),
      ("tags", "tags: [ b,  a ]  # two\n"), ("marfa_id", "marfa_id: \(noteID)\n"),
      ("marfa_version", "marfa_version: \"4\"\n"),
    ]
    var anchors = Int.min
    for number in 0..<Int.random(in: 1...5, using: &random) {
      var value = random.value(1)
      if value.isNull { value = 1 }
      blocks.append((Text("key\(number)"), "key\(number):" + random.laidOut(value, 0, false, &anchors)))
      if Int.random(in: 0..<3, using: &random) == 0 { blocks.append((nil, "# a remark, [not] {yaml}: ---\n")) }
    }
    blocks.shuffle(using: &random)
    let bodies = ["", "Words.\n", "no final newline", "\n---\n\n", "a: b\n...\n", "[[Link]] \u{2028} ![](a b.png)\n"]
    body = bodies.randomElement(using: &random) ?? ""
    // Lone line ends inside a value would be changed with the others.
    let isPlain = !blocks.contains { $0.text.contains("\r") }
    ending = isPlain && Int.random(in: 0..<3, using: &random) == 0 ? "\r\n" : "\n"
  }

  func ended(_ text: String) -> [UInt8] { Array((ending == "\n" ? text : text.replacing("\n", with: ending)).utf8) }

  var bytes: [UInt8] { ended("---\n" + blocks.map(\.text).joined() + "---\n" + body) }

  /// The bytes before a block and after it.
  func around(_ place: Int) -> (before: [UInt8], after: [UInt8]) {
    (
      ended("---\n" + blocks[..<place].map(\.text).joined()),
      ended(blocks[(place + 1)...].map(\.text).joined() + "---\n" + body)
    )
  }
}

extension Target {
  /// A file as a person lays it out: no change, no byte; one field rewritten, no byte outside it; taken out and put
  /// back, the rest as it was.
  static let layouts = Target(name: "layouts") { random throws(Finding) in
    let file = Layout(&random)
    let bytes = file.bytes
    guard let read = document(bytes) else { return .refused }
    var wanted = content(of: read)
    try hold(try rewritten(bytes, to: wanted) == bytes, "what changes nothing changes a byte", bytes)
    let own = file.blocks.indices.filter { file.blocks[$0].key.map { read.properties[$0] != nil } ?? false }
    guard let place = own.randomElement(using: &random), let key = file.blocks[place].key,
      let held = read.properties[key]
    else { return .read }
    let changed = random.changed(held)
    if !changed.isNull, changed != held {
      wanted.properties[key] = changed
      let out = try rewritten(bytes, to: wanted)
      let (before, after) = file.around(place)
      try hold(
        out.starts(with: before) && out.suffix(after.count).elementsEqual(after)
          && out.count >= before.count + after.count, "a byte outside \(key) changed", bytes)
      guard let back = document(out) else { throw Finding(words: "what was written does not read", input: bytes) }
      try hold(
        back.properties == wanted.properties && back.body == read.body && back.own == read.own && back.id == read.id
          && back.version == read.version, "\(key) rewritten does not read back as meant", bytes)
    }
    wanted.properties[key] = nil
    let without = try rewritten(bytes, to: wanted)
    guard let bare = document(without) else { throw Finding(words: "with \(key) out it does not read", input: bytes) }
    try hold(
      bare.properties == wanted.properties && bare.body == read.body, "\(key) taken out takes more", bytes)
    for block in file.blocks where block.key != nil && block.key != key {
      try hold(without.firstRange(of: file.ended(block.text)) != nil, "\(block.text) changed with \(key)", bytes)
    }
    wanted.properties[key] = held
    let back = document(try rewritten(without, to: wanted))
    try hold(back?.properties[key] == held && back?.body == read.body, "\(key) put back is not as it was", bytes)
    return .read
  }

  /// Layouts with anchors and aliases, one value changed: it reads back as meant; untouched lines keep their bytes.
  static let edits = Target(name: "edits") { random throws(Finding) in
    var anchors = 0
    var blocks: [(key: Text, text: String)] = []
    for number in 0..<Int.random(in: 1...5, using: &random) {
      blocks.append((Text("key\(number)"), "key\(number):" + random.laidOut(random.value(1), 0, false, &anchors)))
    }
    let bytes = Array(("---\n" + blocks.map(\.text).joined() + "---\nbody\n").utf8)
    guard let read = document(bytes) else { return .refused }
    var wanted = content(of: read)
    (wanted.id, wanted.version) = (noteID, 9)
    let key = Text("key\(Int.random(in: 0..<blocks.count, using: &random))")
    guard let held = read.properties[key], !held.isNull else { return .read }
    wanted.properties[key] = Int.random(in: 0..<6, using: &random) == 0 ? nil : random.changed(held)
    let out = try rewritten(bytes, to: wanted)
    try hold(document(out)?.properties == wanted.properties, "\(key) changed does not read back as meant", bytes)
    // With aliases about, a line may be written out.
    if anchors == 0 {
      for block in blocks where block.key != key {
        try hold(out.firstRange(of: Array(block.text.utf8)) != nil, "\(block.text) changed with \(key)", bytes)
      }
    }
    return .read
  }

  /// A new file of any content: it reads back the same, and written again it changes no byte.
  static let renderings = Target(name: "renderings") { random throws(Finding) in
    var properties = random.object(1, Int.random(in: 0...6, using: &random))
    for key in properties.keys where LineName(key, edgeNames) != .property { properties[key] = nil }
    let state: ShownState = Bool.random(using: &random) ? .archived : .active
    let wanted = ItemContent(
      type: "core.note", tier: "library", tags: ["b", "a"], state: state, occurredAt: Timestamp(milliseconds: 0),
      hasOwnTime: false, properties: properties, edges: [], id: noteID, version: 4,
      body: Text("---\n" + random.text().string))
    // A NUL is the one thing no file of ours holds.
    if wanted.body.bytes.contains(0) { return .refused }
    let written = try rewritten([], to: wanted)
    guard let read = document(written) else { throw Finding(words: "a new file does not read", input: written) }
    try hold(read.properties == wanted.properties && read.body == wanted.body, "a new file reads otherwise", written)
    try hold(try rewritten(written, to: wanted) == written, "written again it changes a byte", written)
    return .read
  }

  /// Files gone wrong: nothing traps or hangs; what reads keeps its properties and body when its lines are put right or
  /// one value is changed, and putting them right twice changes no byte.
  static let documents = Target(
    name: "documents",
    run: { random throws(Finding) in
      let bytes = random.mutated(documentSeeds, tokens: documentTokens)
      return try checkDocument(bytes, &random)
    }, check: { bytes, random throws(Finding) in try checkDocument(bytes, &random) })

  private static func checkDocument(_ bytes: [UInt8], _ random: inout Seeded) throws(Finding) -> Outcome {
    _ = Document.read(bytes, kind: .text, edges: edgeNames)
    guard let read = document(bytes) else { return .refused }
    if case .success(let out) = Document.rewriteLines(bytes, id: noteID, version: 7, edges: edgeNames) {
      guard let back = document(out) else {
        throw Finding(words: "with its lines put right it does not read", input: bytes)
      }
      try hold(
        back.properties == read.properties && back.body == read.body && back.edges.map(\.key) == read.edges.map(\.key),
        "its lines put right, it says something else", bytes)
      try hold(back.id.id == noteID && back.version.version == 7, "its lines are not put right", bytes)
      let again = Document.rewriteLines(out, id: noteID, version: 7, edges: edgeNames)
      try hold((try? again.get()) == out, "put right twice, a byte changes", bytes)
    }
    guard let key = read.properties.keys.randomElement(using: &random), let held = read.properties[key] else {
      return .read
    }
    var wanted = content(of: read)
    wanted.properties[key] = random.changed(held)
    if case .success(let out) = Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames) {
      let back = document(out)
      try hold(
        back?.properties == wanted.properties && back?.body == read.body, "\(key) changed does not read back as meant",
        bytes)
    }
    return .read
  }

  private static let documentSeeds = [
    "---\ntitle: Plan\ntype: core.note\ntags: [a, b]\n---\nWords.\n",
    "---\ntitle: >-\n  A long\n  folded title\ntype: book\ntags: #work #home\nrating: 0012\n---\nSee [[Note#^id]].\n",
    "---\ntitle: \"quoted \\\"text\\\" \\u2028\"\nnested: {a: [1, {b: c}], d: ~}\nwhen: 2026-10-06T12:00:00Z\n...\nbody\n",
    "---\n# only a remark\n\nlist:\n- one\n- two: 2\n  three: |\n    ---\n    not the end\nanchor: &a {x: 1}\nalias: *a\n---\n",
    "---\r\ntitle: x # c\r\nstate: archived\r\nabout:\r\n  - \"[[Note]]\"\r\n---\r\nbody\r\n",
    "\u{FEFF}---\ntitle: mark\nyes: no\non: off\nnull: null\n12: 34\n\"a.b\": 1\nbig: 12345678901234567890\n---\n```\n[[code]]\n```\n",
    "+++\ntitle = \"toml\"\n+++\nbody\n", "{\"title\": \"json\"}\n\nbody\n", "---\n{{date}}: {{title}}\n---\nbody\n",
    "---\nkey: |+2\n   kept\n\n\n---\nmarfa_id: 1\n---\nx",
    "---\n? complex\n: value\n? [a, b]\n: c\n!!str tagged: !x y\n---\n",
    "---\nmarfa_id: 01900000-0000-7000-8000-00000000b001\nmarfa_version: 4\ntitle: in step\n---\n![[a.png|300]]\n",
  ]

  private static let documentTokens = [
    "---\n", "...\n", "\n", "\r\n", "\r", "\t", " ", "  ", ": ", "- ", "? ", "#", " # c", "\"", "'", "|\n", ">\n",
    "|2-\n", "[", "]",
    "{", "}", ",", "&a ", "*a", "!!str ", "!<x> ", "<<: *a\n", "key: value\n", "title: again\n", "marfa_id: 1\n",
    "marfa_version: 2\n", "tags:\n", "type: \n", "about: \"[[x]]\"\n", "%YAML 1.1\n", "\u{0}", "\u{FEFF}", "\u{85}",
    "\u{2028}", "\\",
    "0x1F", "1e400", "-.inf", "~", "2026-01-01", "key: [", "- - - ", "a: {b: ",
  ]
}

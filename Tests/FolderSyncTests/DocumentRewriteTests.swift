import MarfaBase
import Testing

@testable import FolderSync

let noteID = EntityID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_b001)

func content(
  _ properties: JSON = [:], tags: [Text] = [], state: ShownState = .active, time: String? = nil,
  edges: [EdgeContent] = [], version: Int = 4, body: Text = ""
) -> ItemContent {
  ItemContent(
    type: "core.note", tier: "library", tags: tags, state: state,
    occurredAt: time.flatMap { OwnTime.parse(Text($0)) } ?? Timestamp(milliseconds: 0), hasOwnTime: time != nil,
    properties: properties.object ?? JSONObject(), edges: edges, id: noteID, version: version, body: body)
}

/// What a file's own reading says, as content: a rewrite to it changes no byte.
func content(of document: Document) -> ItemContent {
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

let ownLines = """
  type: core.note
  tier: library

  """
let tailLines = """
  marfa_id: 01900000-0000-7000-8000-00000000b001
  marfa_version: 4

  """

/// A file of these lines between the own fields and the id, and the same rewritten with other properties.
func rewritten(
  _ lines: String, _ change: (inout JSONObject) throws -> Void, _ location: SourceLocation = #_sourceLocation
) throws -> String {
  let file = "---\n\(ownLines)\(lines)\(tailLines)---\nThe body.\n"
  let read = try document(file, location)
  var wanted = content(of: read)
  var properties = read.properties
  try change(&properties)
  wanted.properties = properties
  let bytes = try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get()
  let out = String(decoding: bytes, as: UTF8.self)
  #expect(try JSON.object(document(out, location).properties) == .object(properties), sourceLocation: location)
  let prefix = "---\n\(ownLines)"
  let suffix = "\(tailLines)---\nThe body.\n"
  guard out.hasPrefix(prefix), out.hasSuffix(suffix) else {
    // Appended lines come last.
    return out
  }
  return String(out.dropFirst(prefix.count).dropLast(suffix.count))
}

@Suite struct DocumentRewriteTests {
  @Test("A new file: own fields, properties, edges by name, id and version (F7.26)") func new() throws {
    let bytes = try Document.render(
      new: content(
        ["title": "Plan", "status": "draft", "state": "no line", "about": "no line"],
        tags: ["old", "kept"], time: "2031-02-03",
        edges: [
          EdgeContent(key: "child-of", targets: ["[[Project]]"], holdsMany: false),
          EdgeContent(key: "about", targets: ["[[Beta]]"], holdsMany: true),
        ], body: "The body."), kind: .markdown, edges: edgeNames
    ).get()
    #expect(
      String(decoding: bytes, as: UTF8.self) == """
        ---
        type: core.note
        tier: library
        tags:
          - kept
          - old
        occurred_at: "2031-02-03T00:00:00.000Z"
        title: Plan
        status: draft
        about:
          - "[[Beta]]"
        child-of: "[[Project]]"
        marfa_id: 01900000-0000-7000-8000-00000000b001
        marfa_version: 4
        ---
        The body.
        """)
  }

  @Test("Missing fields are appended after what is there, with the file's line ends (F7.27, F7.29)") func appended()
    throws
  {
    let file = "---\r\ntitle: x # c\r\n# end\r\n---\r\nbody\r\n"
    let wanted = content(["title": "x"], tags: ["a"], body: "body\r\n")
    let out = try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get()
    #expect(
      String(decoding: out, as: UTF8.self)
        == "---\r\ntitle: x # c\r\n# end\r\ntype: core.note\r\ntier: library\r\ntags:\r\n  - a\r\nmarfa_id: \(noteID)\r\n"
        + "marfa_version: 4\r\n---\r\nbody\r\n")
    let bare = try Document.rewriteLines(Array("just text\r\n".utf8), id: noteID, version: 2, edges: edgeNames).get()
    #expect(
      String(decoding: bare, as: UTF8.self)
        == "---\r\nmarfa_id: \(noteID)\r\nmarfa_version: 2\r\n---\r\njust text\r\n")
    let rule = try Document.rewriteLines(Array("---\n\nrule\n---\n".utf8), id: noteID, version: 2, edges: edgeNames)
      .get()
    #expect(
      String(decoding: rule, as: UTF8.self) == "---\nmarfa_id: \(noteID)\nmarfa_version: 2\n---\n---\n\nrule\n---\n")
    let line = try Document.rewriteLines(
      Array("\u{FEFF}---\nmarfa_version: \"1\" # v\na: 1\n---".utf8), id: noteID, version: 2, edges: edgeNames
    ).get()
    #expect(String(decoding: line, as: UTF8.self) == "---\nmarfa_version: 2 # v\na: 1\nmarfa_id: \(noteID)\n---")
  }

  @Test(
    "Edits in place keep every other byte (F7.29, F7.34)",
    arguments: [
      // lines, key, new value (nil removes), lines after
      ("a: 1.10 # price\nb: 'x'\n", "b", "y", "a: 1.10 # price\nb: y\n"),
      ("a: \"old\"   # keep\nb: 2\n", "a", "new", "a: new   # keep\nb: 2\n"),
      ("# above\na: 1\n\nb: 2\n", "a", nil, "# above\n\nb: 2\n"),
      ("a: {x: 1, y: [1,2], z: 3} # c\n", "a", ["x": 1, "y": [1, 3], "z": 3], "a: {x: 1, y: [1,3], z: 3} # c\n"),
      ("a: {x: 1, y: 2, z: 3}\n", "a", ["x": 1, "z": 3], "a: {x: 1, z: 3}\n"),
      ("a: {x: 1, y: 2, z: 3}\n", "a", ["x": 1, "w": "q"], "a: {x: 1, w: q}\n"),
      ("a: {x: 1, y: 2, z: 3}\n", "a", ["z": 3], "a: {z: 3}\n"),
      ("a: [x, y]\n", "a", ["y", "z"], "a: [y, z]\n"),
      ("a: [ x , y ]\n", "a", ["w", "x", "y"], "a: [ w, x , y ]\n"),
      ("a:\n  x: 1 # one\n  y: 2 # two\nb: 1\n", "a", ["x": 1, "y": 3], "a:\n  x: 1 # one\n  y: 3 # two\nb: 1\n"),
      ("a:\n  x: 1 # one\n  y: 2 # two\nb: 1\n", "a", ["y": 2, "z": true], "a:\n  y: 2 # two\n  z: true\nb: 1\n"),
      ("a:\n    - one # 1\n    - two # 2\nb: 1\n", "a", ["two", "one"], "a:\n    - two # 2\n    - one # 1\nb: 1\n"),
      (
        "a:\n- one # 1\n# about two\n- two # 2\nb: 1\n", "a", ["two", "x", "one"],
        "a:\n# about two\n- two # 2\n- x\n- one # 1\nb: 1\n"
      ),
      ("a:\n- one\n- two\nb: 1\n", "a", [], "a:\n  []\nb: 1\n"),
      ("a:\n- one # c\nb: 1\n", "a", "s", "a:\n  s # c\nb: 1\n"),
      ("a:\n  - one\nb: 1\n", "a", "s", "a:\n  s\nb: 1\n"),
      ("a: one\nb: 1\n", "a", ["x", "y"], "a:\n  - x\n  - y\nb: 1\n"),
      ("a: one # c\nb: 1\n", "a", ["x", "y"], "a: [x, y] # c\nb: 1\n"),
      ("a:\nb: 1\n", "a", ["k": ["l": [1]]], "a:\n  k:\n    l:\n      - 1\nb: 1\n"),
      ("a:\nb: 1\n", "a", "v", "a: v\nb: 1\n"), ("a: # c\nb: 1\n", "a", 5, "a: 5 # c\nb: 1\n"),
      ("a: |\n  one\n  two\n\nb: 1\n", "a", "s", "a: s\n\nb: 1\n"),
      ("a: |\n  one\n  two\n\nb: 1\n", "a", nil, "\nb: 1\n"),
      ("a: |\n  one\n  two\nb: 1\n", "a", "one\nthree\n", "a: |\n  one\n  three\nb: 1\n"),
      ("a: \"long\n  folded\" # q\nb: 1\n", "a", "short", "a: short # q\nb: 1\n"),
      ("a: plain\n  folded\nb: 1\n", "a", nil, "b: 1\n"),
      (
        "a:\n  - k: 1\n    l: 2 # two\n  - k: 3\nb: 1\n", "a", [["k": 1, "l": 9], ["k": 3]],
        "a:\n  - k: 1\n    l: 9 # two\n  - k: 3\nb: 1\n"
      ),
      (
        "a:\n  - k: 1\n    l: 2 # two\n  - k: 3\nb: 1\n", "a", [["l": 2], ["k": 3]],
        "a:\n  - l: 2 # two\n  - k: 3\nb: 1\n"
      ),
      (
        "a:\n  - k: 1\n  - k: 3\nb: 1\n", "a", [["k": 3], ["k": 1], ["k": 4, "m": [1]]],
        "a:\n  - k: 3\n  - k: 1\n  - k: 4\n    m:\n      - 1\nb: 1\n"
      ),
      ("a:\n  - - 1\n    - 2\n  - - 3\nb: 1\n", "a", [[2], [3]], "a:\n  - - 2\n  - - 3\nb: 1\n"),
      ("\"a\": 1\n? b\n: 2\nc: 3\n", "b", 5, "\"a\": 1\n? b\n: 5\nc: 3\n"),
      ("\"a b.c\": 1\nü: é # ö\n", "ü", "日本", "\"a b.c\": 1\nü: 日本 # ö\n"),
      ("a: 日本 # é\nb: [é, ü]\nc: 1\n", "b", ["ü", "é"], "a: 日本 # é\nb: [ü, é]\nc: 1\n"),
      ("a: [x, # cx\n    y] # cy\n", "a", ["y", "x"], "a: [y,\n    x # cx\n    ] # cy\n"),
      ("a: x\u{2028}y\nb: 1\n", "b", 2, "a: x\u{2028}y\nb: 2\n"),
      ("a: yes\nb: 007\n", "a", "no: x", "a: \"no: x\"\nb: 007\n"),
    ] as [(String, Text, JSON?, String)])
  func edits(lines: String, key: Text, value: JSON?, after: String) throws {
    #expect(try rewritten(lines) { $0[key] = value } == after)
  }

  @Test("Removing the first property takes the empty lines behind the fence along (F7.33)") func firstRemoved() throws {
    let file = "---\nold: 1\n\n\ntitle: x\n---\nb"
    let wanted = content(["title": "x"], body: "b")
    let out = try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get()
    #expect(String(decoding: out, as: UTF8.self).hasPrefix("---\ntitle: x\ntype: core.note\n"))
  }

  @Test("An alias is written out where its anchor changes, is removed or moves (F7.32)") func aliases() throws {
    let lines = "base: &b {x: 1} # base\nuse: *b # use\nother: &o [1]\nagain: *o\n"
    #expect(
      try rewritten(lines) { $0["base"] = ["x": 2] }
        == "base: &b {x: 2} # base\nuse: {x: 1} # use\nother: &o [1]\nagain: *o\n")
    #expect(try rewritten(lines) { $0["base"] = nil } == "use: {x: 1} # use\nother: &o [1]\nagain: *o\n")
    #expect(
      try rewritten("l:\n  - &a one\n  - two\n  - *a # al\n") { $0["l"] = ["two", "one", "one"] }.contains("# al"))
    #expect(
      try rewritten("s: &s word # w\nt: [*s, x]\n") { $0["s"] = "other" } == "s: other # w\nt: [word, x]\n")
  }

  @Test("Equivalent forms are unchanged (F7.30, F7.42)") func equivalents() throws {
    let file =
      "---\ntype: 'core.note'\ntier: \"library\"\ntags: beta, alpha\nstate: active\noccurred_at: 2026-10-06 # day\nn: 1.10\nempty:\n"
      + "about: [\"[[B|shown]]\", \"[[A]]\"]\nsupersedes:\nmarfa_id: \(noteID)\nmarfa_version: \"4\"\n---\nbody"
    var wanted = content(
      ["n": JSONNumber(1.1).map(JSON.number) ?? .null], tags: ["alpha", "beta"], time: "2026-10-06T02:00:00+02:00",
      body: "body")
    wanted.edges = [EdgeContent(key: "about", targets: ["[[A]]", "[[B|shown]]"], holdsMany: true)]
    #expect(
      try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get() == Array(file.utf8))
    wanted.edges = [EdgeContent(key: "about", targets: ["[[A]]", "[[C]]"], holdsMany: true)]
    wanted.tags = ["alpha", "gamma"]
    wanted.occurredAt = Timestamp(milliseconds: 0)
    wanted.state = .archived
    let out = String(
      decoding: try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get(),
      as: UTF8.self)
    #expect(out.contains("about: [\"[[A]]\", \"[[C]]\"]\n"))
    #expect(
      out.contains("tags:\n  - alpha\n  - gamma\nstate: archived\noccurred_at: \"1970-01-01T00:00:00.000Z\" # day\n"))
  }

  @Test("A blank time stays blank, then is filled; tags, state and edges no longer carried go (F7.42, F7.29)")
  func blanks() throws {
    let file = "---\noccurred_at: # when\ntags: [x]\nstate: archived\nabout: \"[[A]]\"\n---\nb"
    var wanted = content(body: "b")
    var out = String(
      decoding: try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get(),
      as: UTF8.self)
    #expect(out.hasPrefix("---\noccurred_at: # when\ntype: core.note\n"))
    wanted.hasOwnTime = true
    out = String(
      decoding: try Document.rewrite(Array(file.utf8), to: wanted, kind: .markdown, edges: edgeNames).get(),
      as: UTF8.self)
    #expect(out.hasPrefix("---\noccurred_at: \"1970-01-01T00:00:00.000Z\" # when\n"))
  }

  @Test("A body is replaced, a mark dropped, what cannot be written refused (F7.35, F7.36)") func bodies() throws {
    #expect(
      try Document.rewrite(
        Array("\u{FEFF}---\na: 1\n---".utf8), to: content(["a": 1], body: "new"), kind: .markdown, edges: edgeNames
      )
      .get().suffix(9).elementsEqual("4\n---\nnew".utf8) == true)
    for broken: ItemContent in [
      content(["a": .string(Text(bytes: [0xED, 0xA0, 0x80]))]), content(body: Text(bytes: [0])),
      content(body: Text(bytes: [0xFF])),
    ] {
      guard case .failure = Document.render(new: broken, kind: .markdown, edges: edgeNames) else {
        Issue.record("written")
        continue
      }
    }
    let nul = try Document.render(new: content(["a": "x\u{0}y\u{85}z\u{FEFF}"]), kind: .markdown, edges: edgeNames)
      .get()
    #expect(Document.read(nul, kind: .markdown, edges: edgeNames).document?.properties["a"] == "x\u{0}y\u{85}z\u{FEFF}")
  }

  @Test("A frontmatter in braces is edited too") func braces() throws {
    let file = "---\n{title: x, old: 1}\n---\nb"
    let out = try Document.rewrite(
      Array(file.utf8), to: content(["title": "y"], body: "b"), kind: .markdown, edges: edgeNames
    ).get()
    let read = try document(String(decoding: out, as: UTF8.self))
    #expect(JSON.object(read.properties) == ["title": "y"])
    #expect(read.version == .names(4))
  }

  @Test(
    "F7.29 blanks behind a value are no part of the lines that come in its place",
    arguments: [
      "k: v  ", "k: 'v'\t", "k: []  ", "k: {} \t", "k:\n  v  ", "k: >-\n  v  ",
    ])
  func blanksBehind(_ line: String) throws {
    let bytes = Array("---\n\(line)\nz: 1\n---\nB\n".utf8)
    let values: [JSON] = [
      "multi\nline", "multi\n\nline\n", ["a": "x\ny\n"], ["a\nb", "c"], [["q": "a\nb"]], "plain", [],
    ]
    for value in values {
      var wanted = content(of: try #require(Document.read(bytes, kind: .markdown, edges: edgeNames).document))
      wanted.properties["k"] = value
      let out = try Document.rewrite(bytes, to: wanted, kind: .markdown, edges: edgeNames).get()
      let back = try #require(Document.read(out, kind: .markdown, edges: edgeNames).document)
      #expect(back.properties["k"] == value && back.properties["z"] == 1 && back.body == "B\n", "\(value.compact)")
      #expect(out.firstRange(of: Array("\nz: 1\n".utf8)) != nil)
    }
  }
}

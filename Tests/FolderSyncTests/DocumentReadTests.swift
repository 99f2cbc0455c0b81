import MarfaBase
import MarfaCopy
import Testing

@testable import FolderSync

let edgeNames = EdgeVocabulary(
  names: [
    "about", "authored-by", "derived-from", "references", "in-collection", "in-thread", "supersedes", "parent-of",
    "child-of", "attached-to", "has-attachment", "in-folder",
  ])

func reading(_ text: String) -> Document.Reading { Document.read(Array(text.utf8), kind: .markdown, edges: edgeNames) }

func document(_ text: String, _ location: SourceLocation = #_sourceLocation) throws -> Document {
  switch reading(text) {
  case .read(let document): return document
  case .unreadable(let held):
    Issue.record("unreadable: \(held.reason)", sourceLocation: location)
    throw held
  case .encoding(let reason):
    Issue.record("encoding: \(reason)", sourceLocation: location)
    throw RenderFailure(reason: reason)
  }
}

func unreadable(_ text: String) -> String? {
  if case .unreadable(let held) = reading(text) { return held.reason }
  return nil
}

@Suite struct DocumentReadTests {
  @Test(
    "Fences: what a file opens with and delimits (F8)",
    arguments: [
      ("---\n\ntitle: x\n---\nbody", nil), ("----\na: 1\n---\n", nil), ("--- text\na: 1\n---\n", nil),
      ("---\na: 1\n", nil), ("--- \na: 1\n---\n", nil), ("---\n- one\n- two\n---\nx", nil),
      ("---\nA line of text\n---\nx", nil), ("---", nil), ("", nil), ("---\n", nil), (" ---\na: 1\n---\n", nil),
      ("---\n---\nbody", "body"), ("---\n# only\n---\nbody", "body"), ("---\na: 1\n---", ""),
      ("---\na: 1\n---\n", ""), ("---\r\na: 1\r\n---\r\nbody\r\n", "body\r\n"), ("\u{FEFF}---\na: 1\n---\nb", "b"),
      ("---\na: |\n  ---\n  x\n---\nb", "b"), ("---\na: 1\n--- \n---\nb", nil), ("---\ra: 1\r---\rb", nil),
      ("+++\na = 1\n+++\nb", nil), ("{\"a\": 1}\nb", nil), ("---\na: 1\n---\n\n\nb", "\n\nb"),
    ] as [(String, String?)])
  func fences(text: String, body: String?) throws {
    if text.contains("--- \n---") {
      #expect(unreadable(text) != nil)
      return
    }
    let document = try document(text)
    #expect((document.frontmatter == nil) == (body == nil))
    #expect(document.body == Text(body ?? text))
  }

  @Test(
    "Values by the core schema (F7.6)",
    arguments: [
      ("a", .string("a")), ("yes", "yes"), ("on", "on"), ("2026-10-06", "2026-10-06"), ("1:30", "1:30"),
      ("2026-10-06T10:00:00Z", "2026-10-06T10:00:00Z"), ("~", .null), ("", .null), ("null", .null), ("Null", .null),
      ("true", true), ("TRUE", true), ("tRue", "tRue"), ("007", 7), ("+5", 5), ("0o17", 15), ("0x1F", 31),
      ("1_000", "1_000"), ("\"1\"", "1"), ("!!str 1", "1"), ("!!int 3", 3),
      ("{a: 1, b: [x, y]}", ["a": 1, "b": ["x", "y"]]),
      ("'it''s'", "it's"), ("\"a\\tb\\u00e9\"", "a\tb\u{E9}"), ("a\u{2028}b", "a\u{2028}b"), ("a\u{85}b", "a\u{85}b"),
      ("👩‍👩‍👧 x", "👩‍👩‍👧 x"), ("\"long\n  folded\"", "long folded"), ("|\n  one\n  two", "one\ntwo\n"),
      (">-\n  one\n  two", "one two"),
      ("0xFFFFFFFFFFFFFFFFFF", .number(JSONNumber(4722366482869645213695 as UInt128))),
    ] as [(String, JSON)])
  func values(text: String, value: JSON) throws {
    #expect(try document("---\nk: \(text)\nz: 1\n---\n").properties["k"] == value)
  }

  @Test(
    "Numbers keep their spelling where JSON can hold it",
    arguments: [
      ("12345678901234567890", "12345678901234567890"), ("1.10", "1.10"), ("1e3", "1e3"), (".5", "0.5"), ("5.", "5"),
      ("-0.0", "-0.0"), ("9007199254740993", "9007199254740993"), ("01.50", "1.50"), ("+1.5E+3", "1.5E+3"),
    ])
  func spelling(text: String, literal: String) throws {
    #expect(try document("---\nk: \(text)\n---\n").properties["k"]?.number?.literal == literal)
  }

  @Test(
    "Unreadable frontmatter (F10.1, F7.22, P7.1)",
    arguments: [
      "a: 1\na: 2", "1: one", "true: x", "~: x", "<<: {a: 1}", "b: &b {x: 1}\nc:\n  <<: *b", "tier: maybe", "tier:",
      "state: trashed", "state: \"\"", "tags: {a: 1}", "tags: [1]", "tags: [\"\"]", "tags: \"\"", "tags: a,,b", "type:",
      "type: \"\"",
      "type: 3", "occurred_at: \"\"", "occurred_at: yesterday", "occurred_at: 10000-01-01", "occurred_at: 2026-02-30",
      "occurred_at: 2026", "occurred_at: [a]", "title: {{date}}", "x: .nan", "x: -.inf", "x: !Foo bar",
      "x: !!binary aGk=",
      "x: *none", "x: a: b", "a:\n\t- b", "tags: #work #home", "tags: #Work", "a: [1", "x: 1\n...\ny: 2",
      "n: {a: 1, a: 2}",
      "x: 1e999", "a: &a [*a]", "{{date}}: 1",
    ])
  func unreadables(text: String) {
    #expect(unreadable("---\n\(text)\n---\nbody\n") != nil, "\(text)")
  }

  @Test("Own fields (F7.23)") func own() throws {
    #expect(try document("---\ntags: solo\n---\n").own.tags == .says(["solo"]))
    #expect(try document("---\ntags: a, b\n---\n").own.tags == .says(["a", "b"]))
    #expect(try document("---\ntags:\n---\n").own.tags == .blank)
    #expect(try document("---\ntags: # none\n---\n").own.tags == .blank)
    #expect(try document("---\ntags: []\n---\n").own.tags == .says([]))
    #expect(try document("---\nstate:\n---\n").own.state == .blank)
    #expect(try document("---\nstate: archived\n---\n").own.state == .says(.archived))
    #expect(try document("---\noccurred_at:\n---\n").own.occurredAt == .blank)
    #expect(try document("---\nTags: x\nTYPE: book\n---\n").own.isEmpty)
    let read = try document(
      "---\ntype: book\nmarfa_version: \"3\"\nmarfa_id: 01900000-0000-7000-8000-00000000B001\n---\n")
    #expect(read.own.type == .says("book"))
    #expect(read.version == .names(3))
    #expect(read.id == .names(EntityID("01900000-0000-7000-8000-00000000b001")!))
    #expect(try document("---\nmarfa_version: 3.0\n---\n").version == .names(3))
    #expect(try document("---\nmarfa_version: 0\nmarfa_id: x\n---\n").version == .noVersion)
    #expect(try document("---\nmarfa_id: x\n---\n").id == .noID)
  }

  @Test("Edge lines (F7.3, F11.8)") func edges() throws {
    let read = try document(
      "---\nabout:\n  - \"[[Beta]]\"\n  - x\nchild-of: \"[[P|shown]]\"\nAbout: y\nsupersedes:\nreferences: [[A]]\n---\n"
    )
    #expect(
      read.edges == [
        EdgeLine(key: "about", targets: [.link(LinkText(whole: "Beta")), .invalid("x")]),
        EdgeLine(key: "child-of", targets: [.link(LinkText(whole: "P|shown"))]),
        EdgeLine(key: "supersedes", targets: []),
        EdgeLine(key: "references", targets: [.invalid("[\"A\"]")]),
      ])
    #expect(JSON.object(read.properties) == ["About": "y"])
  }

  @Test("Bytes that are no text (F10.6), an id in what cannot be read (F10.3)") func encodings() {
    guard case .encoding = Document.read([0xFF, 0xFE, 0x41], kind: .markdown, edges: edgeNames) else {
      Issue.record("read"); return
    }
    guard case .encoding = Document.read([0x41, 0], kind: .text, edges: edgeNames) else { Issue.record("read"); return }
    guard
      case .unreadable(let held) = reading("---\na: [\nmarfa_id: \"01900000-0000-7000-8000-00000000b001\" # x\n---\n")
    else { Issue.record("read"); return }
    #expect(held.plainID == EntityID("01900000-0000-7000-8000-00000000b001"))
    #expect(held.reason.contains("line"))
  }

  @Test("Bombs end early", .timeLimit(.minutes(5))) func bombs() throws {
    func nested(_ depth: Int) -> String {
      "---\na: " + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "\n---\n"
    }
    _ = try document(nested(60))
    #expect(unreadable(nested(64)) != nil)
    #expect(unreadable(nested(10_000)) != nil)
    #expect(unreadable(nested(200_000)) != nil)
    var laughs = "---\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for (name, last) in zip("bcdefghij", "abcdefghi") {
      laughs += "\(name): &\(name) [" + Array(repeating: "*\(last)", count: 10).joined(separator: ", ") + "]\n"
    }
    #expect(unreadable(laughs + "---\n") != nil)
    let big = "---\n" + (0..<40_000).map { "key\($0): some value of text\n" }.joined() + "---\n"
    #expect(try document(big).properties.count == 40_000)
  }

  @Test("A .txt is all body (F7.5)") func text() {
    let bytes = Array("---\na: 1\n---\nb".utf8)
    #expect(Document.read(bytes, kind: .text, edges: edgeNames).document?.body.bytes == bytes)
  }
}

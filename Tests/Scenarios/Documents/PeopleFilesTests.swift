import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What people's real files hold: each comes through whole, or is held with a reason a person understands.
struct PeopleFilesTests {
  enum Fate {
    /// It becomes an item of these properties beside `title`, with this body; its typed lines stay.
    case through(JSON, body: String)
    /// It is all body.
    case body
    /// It is held, with this flag and these words.
    case held(String, [String])
  }

  struct File: CustomTestStringConvertible {
    var name: String
    var text: String
    var fate: Fate
    var testDescription: String { name }

    init(_ name: String, _ text: String, _ fate: Fate) {
      self.name = name
      self.text = text
      self.fate = fate
    }
  }

  /// A file of these frontmatter lines and a body of words.
  static func lines(_ name: String, _ yaml: String, _ properties: JSON) -> File {
    File(name, "---\n\(yaml)\n---\nWords.\n", .through(properties, body: "Words.\n"))
  }

  static func held(_ name: String, _ yaml: String, _ flag: String, _ words: String...) -> File {
    File(name, "---\n\(yaml)\n---\nWords.\n", .held(flag, words))
  }

  static func json(_ text: String) -> JSON { (try? JSON(parsing: Array(text.utf8))) ?? .null }

  static func body(_ name: String, _ text: String) -> File { File(name, text, .body) }

  static let bomb =
    "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + zip("bcdefghij", "abcdefghi").map {
      "\($0): &\($0) [" + Array(repeating: "*\($1)", count: 10).joined(separator: ", ") + "]"
    }
    .joined(separator: "\n")

  static let files: [File] = [
    held("their type", "type: book", "refused", "book"),
    held("hash tags", "tags: #work #home", "unreadable", "list"),
    held("tab indent", "outer:\n\tinner: x", "unreadable", "line"),
    lines("tab after colon", "mood:\tgood", ["mood": "good"]),
    held("template", "date: {{date}}", "unreadable", "line"),
    lines("quoted template", "date: \"{{date}}\"", ["date": "{{date}}"]),
    body("toml", "+++\ntitle = \"x\"\ndate = 2024-01-02\n+++\nWords.\n"),
    body("json", "{\n  \"title\": \"x\"\n}\n\nWords.\n"),
    lines(
      "dates", "date: 2024-01-02\nat: 2024-01-02 10:00:00\niso: 2024-01-02T10:00:00Z",
      [
        "date": "2024-01-02", "at": "2024-01-02 10:00:00", "iso": "2024-01-02T10:00:00Z",
      ]),
    lines("clock", "at: 12:30", ["at": "12:30"]),
    lines(
      "yes and no", "a: yes\nb: no\nc: on\nd: off\ne: Yes", ["a": "yes", "b": "no", "c": "on", "d": "off", "e": "Yes"]),
    lines("true", "a: true\nb: False", ["a": true, "b": false]),
    lines("quoted zeros", "zip: \"01234\"", ["zip": "01234"]),
    held("double key", "status: one\nstatus: two", "unreadable", "status", "twice"),
    lines("spaces in keys", "due date: soon", ["due date": "soon"]),
    lines("null and tilde", "a: null\nb: ~\nc:", ["a": .null, "b": .null, "c": .null]),
    held("merge key", "base: &b\n  a: 1\nnote:\n  <<: *b", "unreadable", "<<"),
    held("number key", "1: one", "unreadable", "line"),
    held("infinity", "x: .inf", "unreadable", "line"),
    held("bomb", bomb, "unreadable"),
    held(
      "ten thousand levels", "x: " + String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000),
      "unreadable"),
    lines("fence in a block", "text: |\n  one\n  ---\n  two", ["text": "one\n---\ntwo\n"]),
    body("dots", "---\nmood: good\n...\nWords.\n"),
    File("only frontmatter", "---\nmood: good\n---\n", .through(["mood": "good"], body: "")),
    File("only frontmatter, no newline", "---\nmood: good\n---", .through(["mood": "good"], body: "")),
    body("space after fence", "--- \nmood: good\n---\nWords.\n"),
    File("no final newline", "---\nmood: good\n---\nWords.", .through(["mood": "good"], body: "Words.")),
    body("lone return", "One.\rTwo.\r"),
    body("separators", "One\u{2028}two\u{2029}three\u{85}four\n"),
    body("joiners", "👩‍👩‍👧 می‌خواهم e\u{301} \u{200B}\n"),
    File("crlf", "---\r\nmood: good # why\r\n---\r\nWords.\r\n", .through(["mood": "good"], body: "Words.\r\n")),
    lines("comments", "# about\nmood: good # why\n# the end", ["mood": "good"]),
    lines("colon in value", "time: \"a: b\"\nurl: https://x.test/a#b", ["time": "a: b", "url": "https://x.test/a#b"]),
    held("bare colon", "name: a: b", "unreadable", "line"),
    held("at sign", "name: @home", "unreadable", "line"),
    held("percent", "name: %x", "unreadable", "line"),
    held("open quote", "name: \"open", "unreadable", "line"),
    lines(
      "folded title", "name: \"A long title that is folded\n  over two lines\"",
      ["name": "A long title that is folded over two lines"]),
    lines("folded block", "name: >-\n  one\n  two", ["name": "one two"]),
    lines("wiki in yaml", "up: \"[[Index]]\"", ["up": "[[Index]]"]),
    lines("nested", "a:\n  b:\n    - c: 1\n      d: [x, {e: f}]", ["a": ["b": [["c": 1, "d": ["x", ["e": "f"]]]]]]),
    lines("emoji key", "🌱: yes", ["🌱": "yes"]),
    lines("number spellings", "a: 1.10\nb: 1e3\nc: 0x1F", json(#"{"a":1.1,"b":1000,"c":31}"#)),
    body("callout", "> [!note] Title\n> Words.\n"),
    body("obsidian comment", "%% [[Nobody]] %%\n"),
    body("math", "$$\n[a]_{b} \\[[x\\]]\n$$\n"),
    body("code", "```\n[[Nobody]] ![](nothing.png)\n```\n"),
    body("rule", "---\n\nWords.\n\n---\n"),
    body("list between rules", "---\n- a\n- b\n---\nWords.\n"),
  ]

  @Test("A person's file comes through whole or is held with a reason (files people keep)", arguments: files + wild)
  func file(_ file: File) throws {
    let desk = try Desk()
    _ = try desk.push()
    let path = "\(file.name).md"
    try desk.machine.write(path, file.text)
    let (push, sent) = try desk.push()
    switch file.fate {
    case .held(let flag, let words):
      let flagged = push.scan.flagged + (push.pull?.flagged ?? [])
      let reason = try #require(flagged.reason(path, flag), "\(push.json.compact)")
      for word in words { #expect(reason.contains(word), "\(reason)") }
      #expect(!reason.isEmpty && reason.utf8.count < 400)
      // A line that names no edge holds the file as typed; the rest of it goes (F11.21).
      #expect(sent.creates.count == (flag == "edges" ? 1 : 0) && desk.machine.text(path) == file.text)
      #expect(try desk.bench.titles() == (flag == "edges" ? [file.name] : []))
      #expect(try desk.machine.standing(path) != nil)
    case .through(let properties, let body): try through(desk, file, path, properties, body, push)
    case .body: try through(desk, file, path, [:], file.text, push)
    }
  }

  private func through(
    _ desk: Desk, _ file: File, _ path: String, _ properties: JSON, _ body: String, _ report: FolderPush
  ) throws {
    guard let id = try desk.bench.ids(file.name).first else {
      Issue.record("it became no item: \(report.json.compact.suffix(1200))")
      return
    }
    var wanted = properties.object ?? JSONObject()
    wanted["title"] = .string(Text(file.name))
    wanted["body"] = .string(Text(body))
    let held = try desk.properties(id).object ?? JSONObject()
    #expect(Set(held.keys) == Set(wanted.keys), "\(JSON.object(held).compact)")
    for (key, value) in wanted.members { #expect(held[key] == value, "\(key): \(held[key]?.compact ?? "")") }
    // Every typed line stands, and the body after them.
    let now = try desk.machine.need(path)
    #expect(Array(now.utf8).suffix(body.utf8.count).elementsEqual(body.utf8), "\(now)")
    #expect(now.utf8.starts(with: Self.parted(file.text, body).typed.utf8), "\(now)")
    let (again, nothing) = try desk.push()
    // Math is Markdown to us: what looks like a link there is told, and the file comes through all the same (F12.8).
    let told = again.scan.flagged.filter { file.name != "math" || !$0.reason.contains("in the body: [[x") }
    #expect(nothing.isEmpty && told.isEmpty, "\(nothing.lines) \(again.json.compact)")
    #expect(try desk.machine.need(path) == now)
    // Another machine reads it as the same, and its own copy sends nothing back.
    let ben = try desk.another()
    _ = try desk.push(ben)
    #expect(Array(try ben.need(path).utf8).suffix(body.utf8.count).elementsEqual(body.utf8))
    try ben.write(path, try ben.need(path) + "More.\n")
    let (_, edit) = try desk.push(ben)
    #expect(edit.edits(id).count == 1 && edit.count == 1, "\(edit.lines)")
    let after = try desk.properties(id).object ?? JSONObject()
    for (key, value) in wanted.members where key != "body" {
      // A null says no more than no line does: a file written anew shows none.
      #expect(after[key] ?? .null == value, "\(key)")
    }
    #expect(after["body"] == .string(Text(body + "More.\n")))
    // A property of another device is a line more: what was typed keeps its bytes.
    try desk.patch(id, ["properties": ["elsewhere": "theirs"]])
    let (pulled, nothingSent) = try desk.push()
    #expect(nothingSent.isEmpty && pulled.pull?.rewritten == 1, "\(nothingSent.lines) \(pulled.json.compact)")
    let last = try desk.machine.need(path)
    let (typed, _) = Self.parted(file.text, body)
    #expect(last.utf8.starts(with: typed.utf8), "\(last)")
    #expect(last.utf8.reversed().starts(with: (body + "More.\n").utf8.reversed()), "\(last)")
    #expect(last.contains("elsewhere: theirs"), "\(last)")
  }

  /// A file's opening fence and typed lines, without a mark before them, and what follows them up to the body.
  private static func parted(_ text: String, _ body: String) -> (typed: String, rest: String) {
    var bytes = Array(text.utf8)
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
    let front = bytes.dropLast(min(body.utf8.count, bytes.count))
    guard front.starts(with: Array("---".utf8)) else { return ("", "") }
    // The closing fence is the last line before the body.
    guard let fence = front.dropLast(front.last == 0x0A ? 1 : 0).lastIndex(of: 0x0A) else { return ("", "") }
    return (String(decoding: front[...fence], as: UTF8.self), String(decoding: front[(fence + 1)...], as: UTF8.self))
  }

  @Test(
    "Numbers no machine rounds, zeros and depth come through as the store can hold them, their typed lines standing")
  func numbers() throws {
    let desk = try Desk()
    _ = try desk.push()
    let yaml = "big: 12345678901234567890\nexact: 9007199254740993\nzip: 01234\n"
    try desk.machine.write("Numbers.md", "---\n\(yaml)---\nWords.\n")
    let deep = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
    try desk.machine.write("Deep.md", "---\ndeep: \(deep)\n---\nWords.\n")
    let (push, _) = try desk.push()
    for path in ["Numbers.md", "Deep.md"] {
      let flags = push.scan.flagged.flags(path) + (push.pull?.flagged.flags(path) ?? [])
      if flags.isEmpty {
        #expect(try desk.machine.need(path).contains(path == "Deep.md" ? "deep: \(deep)\n" : yaml))
        try desk.machine.edit(path, "Words.", "Edited.")
        _ = try desk.push()
        #expect(try desk.machine.need(path).contains(path == "Deep.md" ? "deep: \(deep)\n" : yaml))
      } else {
        let reason = push.scan.flagged.first { $0.path == path }?.reason ?? push.pull?.flagged.first?.reason ?? ""
        #expect(!reason.isEmpty && desk.machine.text(path)?.hasSuffix("Words.\n") == true, "\(reason)")
      }
    }
  }

  @Test("A frontmatter of one mebibyte is read, and held with the limit named where the server would refuse it")
  func megabyte() throws {
    let desk = try Desk()
    _ = try desk.push()
    let text = "---\nlong: " + String(repeating: "word ", count: 210_000) + "\n---\nWords.\n"
    try desk.machine.write("Long.md", text)
    for _ in 0..<2 {
      let (push, _) = try desk.push()
      let flagged = push.scan.flagged + (push.pull?.flagged ?? []) + push.scan.warnings
      #expect(flagged.contains { $0.path == "Long.md" && !$0.reason.isEmpty }, "\(push.scan.json.compact.prefix(400))")
      #expect(desk.machine.text("Long.md") == text)
    }
    #expect(try desk.bench.titles().isEmpty)
  }

  @Test("Embeds with sizes and links to headings and blocks resolve, one escaped for a table too")
  func links() throws {
    let desk = try Desk {
      try $0.item("Note"); try $0.item("Other")
    }
    _ = try desk.push()
    try desk.machine.write("a.png", "bytes")
    let body = """
      ![[a.png|300]] and [[Note#^id]] and [[Note#Heading|shown]]

      | a | b |
      | - | - |
      | [[Other\\|b]] | x |

      """
    try desk.machine.write("Mine.md", body)
    let (push, _) = try desk.push()
    #expect(push.scan.flagged.isEmpty && push.scan.embeds.isEmpty, "\(push.json.compact)")
    let mine = try desk.id("Mine")
    let targets = try desk.edges(mine, type: "references").compactMap { $0.string("target_id") }.sorted()
    #expect(try targets == [desk.id("Note").description, desk.id("Other").description].sorted())
    let attached = try desk.edges(desk.id("a.png"), type: "attached-to").map { $0.string("target_id") }
    #expect(attached == [mine.description])
    #expect(try desk.machine.body("Mine.md") == body)
  }
}

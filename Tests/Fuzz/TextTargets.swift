import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport

extension Target {
  /// Bodies: every link and embed stands where it says, in order, apart, and on one line (F12).
  static let bodies = mutating(
    "bodies",
    [
      "See [[Note]] and [[Note#^id|shown]], ![[a.png|300]].\n\n| a | b |\n|-|-|\n| [[a\\|b]] | ![[c.png\\|1]] |\n",
      "![alt](path/to%20a.png \"title\") `[[code]]` $[[math]]$ %%[[comment]]%% <!-- [[html]] -->\n",
      "> [!note] callout [[x]]\n> ```\n> [[y]]\n> ```\n\n    [[indented]]\n\n~~~~\n[[z]]\n~~~\n~~~~\n",
      "[a]: [[b]]\n[[c]](d) \\[[e]] [\\[f]] [[g\nh]] ![i](<j k.png>) ![l](m(n)o.png)\n",
    ],
    [
      "[[", "]]", "![[", "![", "](", ")", "|", "\\|", "#", "#^", "`", "```\n", "~~~\n", "$", "$$\n", "%%", "<!--",
      "-->", "\\", "\n",
      "\n\n", "> ", "    ", "\t", "<", ">", "\"", "(", "%20", "- ", "1. ", "* * *\n", "<div>\n", "&amp;",
    ]
  ) { bytes, _ throws(Finding) in
    let text = Text(bytes: bytes)
    guard text.isValidUTF8 else { return .refused }
    for kind in [DocumentKind.markdown, .text] {
      let found = BodyReferences(body: text, kind: kind)
      var end = 0
      for range in found.links.map(\.range) {
        try hold(range.lowerBound >= end && range.upperBound <= bytes.count, "\(range) overlaps or lies outside", bytes)
        end = range.upperBound
      }
      // An image may stand in another's description.
      var start = 0
      for range in found.embeds.map(\.range) {
        try hold(range.lowerBound >= start && range.upperBound <= bytes.count, "\(range) lies outside", bytes)
        start = range.lowerBound + 1
      }
      for link in found.links {
        let typed = bytes[link.range]
        try hold(
          typed.starts(with: Array("[[".utf8)) && typed.suffix(2).elementsEqual(Array("]]".utf8))
            && !typed.contains(0x0A), "a link at \(link.range) is none", bytes)
      }
      for embed in found.embeds {
        try hold(bytes[embed.range].first == UInt8(ascii: "!"), "an embed at \(embed.range) is none", bytes)
      }
    }
    return .read
  }

  /// JSON: what parses is written so that it parses as the same.
  static let json = mutating(
    "json",
    [
      #"{"a":[1,-0.5e3,"x\u00e9\n",true,false,null,{"b":{}}],"é":"😀","big":12345678901234567890}"#, "[]", #""text""#,
      " 1 ",
      #"{"properties":{"title":"T","body":"---\n\u2028"},"tags":["a"],"version":3}"#,
    ],
    [
      "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "\\ud800", "\\udc00", "null", "true", "-", "0", "01", ".", "e",
      "E+", "1e400",
      "\u{0}", "\t", "\n", "\"a\":", "[[", "{\"a\":",
    ]
  ) { bytes, _ throws(Finding) in
    guard let value = try? JSON(parsing: bytes) else { return .refused }
    try hold((try? JSON(parsing: value.write())) == value, "written it reads otherwise", bytes)
    try hold((try? JSON(parsing: value.writePretty())) == value, "written over lines it reads otherwise", bytes)
    return .read
  }

  /// Filters: the instance and the copy take the same (SF15), and a filter spelled out again is the same filter.
  static let filters = mutating(
    "filters",
    [
      #"type eq "core.note" AND tags contains "a""#,
      #"occurred_at gte "2026-01-01T00:00:00Z" OR properties.rating lt 5.5"#,
      #"edge[about] eq "01900000-0000-7000-8000-00000000b001""#, #"backref[child-of] exists"#,
      #"properties.title contains "x\"y" AND version neq -1"#, #"properties.done eq true AND tags not_exists"#,
      #"properties.a starts_with "\\" AND id gt "0" AND source_id lte "z" AND tier eq "feed""#,
      #"status_group eq "open" AND part neq false AND properties.due_at not_exists"#,
    ],
    [
      " AND ", " OR ", " NOT ", "(", ")", " eq ", " neq ", " lt ", " lte ", " gt ", " gte ", " contains ",
      " starts_with ",
      " exists", " not_exists", " in ", "\"", "\\", "[", "]", "edge[about]", "backref[", "properties.", "properties.x",
      "tags",
      "type", "state", "part", "true", "false", "null", "1", "-1.5", "1e9", "5.", ".", ",", " ", "\t", "\n", "\u{0}",
      "\"x\"",
    ]
  ) { bytes, _ throws(Finding) in
    let text = Text(bytes: bytes)
    guard text.isValidUTF8 else { return .refused }
    let served = takesFilter(text)
    let copied = try? Filter(text)
    try hold(served == (copied != nil), served ? "the copy refuses it" : "the instance refuses it", bytes)
    guard let copied else { return .refused }
    if let spelled = try? copied.encoded() {
      try hold((try? Filter(spelled)) == copied, "spelled out it is another: \(spelled)", bytes)
    }
    return .read
  }

  /// Event streams: the same events however the bytes are cut (EV2).
  static let events = mutating(
    "events",
    [
      ": connected\n\nid: 12\nevent: item.created\ndata: {\"a\":1}\n\n",
      "\u{FEFF}data: a\ndata: b\r\n\r\nid: 3\rdata:\r\r",
      "event: x\n\ndata\n\nretry: 5\n:ping\n\nid: 9\n\n",
    ],
    ["\n", "\r", "\r\n", "\n\n", "data:", "data: ", "id:", "event:", ":", " ", "\u{0}", "\u{FEFF}", "retry: 1\n"]
  ) { bytes, random throws(Finding) in
    let whole: [ServerEvent]
    var one = EventStreamParser(lineLimit: 4096)
    do throws(EventStreamParser.TooLong) { whole = try one.take(bytes) } catch { return .refused }
    var pieces = EventStreamParser(lineLimit: 4096)
    var cut: [ServerEvent] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = rest.prefix(Int.random(in: 1...7, using: &random))
      rest = rest.dropFirst(piece.count)
      guard let events = try? pieces.take(Array(piece)) else {
        throw Finding(words: "cut up it is too long", input: bytes)
      }
      cut += events
    }
    try hold(cut == whole && pieces.comments == one.comments, "cut up it says something else", bytes)
    return .read
  }

  /// `folder.yaml`: what reads, written and read again, holds the same settings (X18).
  static let settings = mutating(
    "settings",
    [
      "# The settings\n\nfolder: 01900000-0000-7000-8000-00000000b001\nversion: 4\ntitle: Notes\nsearch:\n  types:\n    - core.note\n"
        + "ignore:\n  - drafts/\nremoval_threshold:\n  files: 20\n  fraction: 0.5\n",
      "folder: x\nversion: \"2\"\nquery: tags contains \"a\"\ndefaults: {tags: [a], properties: {k: ~}}\n",
    ],
    [
      "\n", "  ", "- ", ": ", "{", "}", "[", "]", "&a ", "*a", "#", "\"", "'", "|\n", "version: ", "folder: ",
      "search: ", "\t", "~", "\u{0}",
    ]
  ) { bytes, _ throws(Finding) in
    guard case .success(let read) = SettingsFile.read(bytes) else { return .refused }
    guard let text = try? SettingsFile.render(folder: noteID, version: 5, row: read.settings) else { return .refused }
    guard case .success(let back) = SettingsFile.read(text) else {
      throw Finding(words: "written it does not read", input: bytes)
    }
    try hold(back.version == 5 && back.folder == .string(noteID.text), "written it names another row", bytes)
    return .read
  }

  /// Include and ignore lists: any line is taken or refused, any path judged, in bounded time (F25).
  static let patterns = mutating(
    "patterns",
    [
      "*.md\n!draft*/\nnotes/**/x?.txt\n{a,b}/[a-c]*", "**/*.{md,txt}\n/top/only\n\\#name\n[!x]*/", ".*\n*\n**\n",
      "é*\nÉ?\n[[:alpha:]]",
    ],
    ["*", "**", "?", "[", "]", "[!", "{", "}", ",", "/", "\\", "!", "#", "\n", ".", "**/", "/**", "{a,b}", "-", "é"]
  ) { bytes, random throws(Finding) in
    let lines = bytes.split(separator: 0x0A).map { Text(bytes: Array($0)) }
    guard let lists = try? PathLists(include: Array(lines.prefix(2)), ignore: Array(lines.dropFirst(2))) else {
      return .refused
    }
    let names = ["a", "b.md", "notes", "x1.txt", "é.md", ".hidden", "top", "draft 1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab"]
    for _ in 0..<4 {
      let path = (0..<Int.random(in: 1...4, using: &random)).compactMap { _ in names.randomElement(using: &random) }
      let spelled = PathBytes(path.joined(separator: "/"))
      try hold(lists.takes(spelled) == lists.verdict(on: spelled).isTaken, "two answers for \(path)", bytes)
      // A file that is taken lies in directories that are entered.
      if lists.takes(spelled), path.count > 1 {
        let parent = PathBytes(path.dropLast().joined(separator: "/"))
        try hold(lists.enters(directory: parent), "\(path) is taken, its directory not entered", bytes)
      }
    }
    return .read
  }

  private static func mutating(
    _ name: String, _ seeds: [String], _ tokens: [String],
    check: @escaping @Sendable ([UInt8], inout Seeded) throws(Finding) -> Outcome
  ) -> Target {
    Target(
      name: name,
      run: { random throws(Finding) in try check(random.mutated(seeds, tokens: tokens), &random) }, check: check)
  }
}

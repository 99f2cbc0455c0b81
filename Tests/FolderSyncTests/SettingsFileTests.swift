import MarfaBase
import TestSupport
import Testing

@testable import FolderSync

private let folder = EntityID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_f001)
private var checks: FolderSettings.Checks {
  FolderSettings.Checks(
    filter: { $0.bytes.starts(with: "backref".utf8) ? "it holds a `backref`, which no folder follows" : nil },
    pattern: { $0 == "a[" ? "`a[` is not a pattern" : nil },
    holds: { types, type in types.contains { type == $0 || type.bytes.starts(with: $0.bytes + ".".utf8) } })
}

private let full: JSON = [
  "title": "Recipes",
  "search": [
    "types": ["core.note", "core.file"], "tier": "library", "state": ["active", "archived"],
    "filter": "tags contains \"recipe\"", "beneath": "018f0000-0000-7000-8000-000000000b01",
  ],
  "defaults": [
    "type": "core.note", "tier": "library", "properties": ["language": "en"], "tags": ["recipe"],
    "edges": ["parent-of": ["018f0000-0000-7000-8000-000000000b01"]],
  ], "include": ["*.md", "img/"], "ignore": ["drafts/"],
  "first_placement": ["core.note": "Notes", "core.file": "Files"],
  "removal_threshold": ["files": 20, "fraction": 1],
]

private func judged(_ text: String, last: String? = nil, version: Int = 4, inForce: JSON = full) throws
  -> SettingsFile.Verdict
{
  let written =
    try last.map { Array($0.utf8) }
    ?? SettingsFile.render(folder: folder, version: version, row: full.object ?? JSONObject())
  return SettingsFile.judge(
    Array(text.utf8), lastWritten: (written, version), inForce: inForce.object ?? JSONObject(), folder: folder,
    checks: checks)
}

private func object(_ value: JSON) -> JSONObject { value.object ?? JSONObject() }

private func rendered(_ version: Int = 4) throws -> String {
  String(
    decoding: try SettingsFile.render(folder: folder, version: version, row: full.object ?? JSONObject()), as: UTF8.self
  )
}

@Suite struct SettingsFileTests {
  @Test("The file as X18 shows it") func shape() throws {
    #expect(
      try rendered() == """
        # The settings of the Marfa folder this directory follows, shared by every machine that follows it.
        # Edit them here: the next push sends the change, and so does a running watch.
        folder: 01900000-0000-7000-8000-00000000f001
        version: 4
        title: Recipes
        search:
          types:
            - core.note
            - core.file
          tier: library
          state:
            - active
            - archived
          filter: tags contains "recipe"
          beneath: 018f0000-0000-7000-8000-000000000b01
        defaults:
          type: core.note
          tier: library
          properties:
            language: en
          tags:
            - recipe
          edges:
            parent-of:
              - 018f0000-0000-7000-8000-000000000b01
        include:
          - "*.md"
          - img/
        ignore:
          - drafts/
        first_placement:
          core.note: Notes
          core.file: Files
        removal_threshold:
          files: 20
          fraction: 1

        """)
    let odd: JSON = ["revoked_at": "x", "ignore": [], "title": "yes: no", "query": [:]]
    let text = try SettingsFile.render(folder: folder, version: 1, row: odd.object ?? JSONObject())
    #expect(String(decoding: text, as: UTF8.self).hasSuffix("version: 1\nignore: []\ntitle: \"yes: no\"\nsearch: {}\n"))
  }

  @Test("What is written reads back as the row's settings (seeded)") func roundTrip() throws {
    for seed in 0..<300 as Range<UInt64> {
      var random = Seeded(state: seed)
      var row = full.object ?? JSONObject()
      row["defaults"] = ["properties": .object(random.object(2, 4)), "tags": .array([.string(random.text())])]
      row["ignore"] = .array((0..<4).map { _ in .string(random.text()) })
      let text = try SettingsFile.render(folder: folder, version: 3, row: row)
      let back = try SettingsFile.read(text).get()
      #expect(back.settings == row)
      #expect(back.version == 3)
    }
  }

  @Test("Unedited, and edits that change nothing (X19.1, X19.7)") func nothing() throws {
    let text = try rendered()
    #expect(try judged(text) == .unedited)
    #expect(try judged("# mine\n" + text) == .changesNothing)
    #expect(try judged(text.replacing("version: 4", with: "version: 1")) == .changesNothing)
    #expect(try judged(text.replacing("version: 4\n", with: "")) == .changesNothing)
    #expect(try judged(text.replacing("fraction: 1", with: "fraction: 1.0")) == .changesNothing)
  }

  @Test("A current file sends what differs from the text last written (X19.8)") func current() throws {
    let text = try rendered().replacing("  - drafts/", with: "  - drafts/\n  - old/")
    #expect(try judged(text) == .sends(version: 4, settings: object(["ignore": ["drafts/", "old/"]])))
    for spelled in ["\"4\"", "4.0", "0", "-1", "1.5", "abc", ""] {
      #expect(
        try judged(text.replacing("version: 4", with: "version: \(spelled)"))
          == .sends(version: 4, settings: object(["ignore": ["drafts/", "old/"]])))
    }
    // The row moved meanwhile: it is not put back.
    var moved = full.object ?? JSONObject()
    moved["title"] = "Elsewhere"
    #expect(
      try judged(text, inForce: .object(moved))
        == .sends(version: 4, settings: object(["ignore": ["drafts/", "old/"]])))
    #expect(try judged("# c\n" + rendered(), inForce: .object(moved)) == .changesNothing)
  }

  @Test("A stale file sends all it names at its version (X19.8, F1.15)") func stale() throws {
    var all = full.object ?? JSONObject()
    all["title"] = "New"
    let text = try rendered().replacing("title: Recipes", with: "title: New").replacing(
      "version: 4", with: "version: 7")
    #expect(try judged(text) == .sends(version: 7, settings: all))
    all["ignore"] = nil
    #expect(try judged(text.replacing("ignore:\n  - drafts/\n", with: "")) == .sends(version: 7, settings: all))
  }

  @Test(
    "Held edits name what is wrong (X19.4, F1.18)",
    arguments: [
      ("title: Recipes", "title: [", "line"), ("title: Recipes\n", "", "`title`"),
      ("title: Recipes", "title: ''", "title"),
      ("folder: 01900000-0000-7000-8000-00000000f001", "folder: 01900000-0000-7000-8000-00000000f002", "`add`"),
      ("title: Recipes", "titel: x\ntitle: Recipes", "titel"),
      ("  tier: library\n  state", "  tier: feed\n  state", "defaults.tier"),
      ("    - archived\n", "    - trashed\n", "trashed"), ("filter: tags", "filter: backref tags", "search.filter"),
      ("  filter:", "  fliter:", "fliter"), ("  - img/", "  - a[", "a["), ("  files: 20", "  files: -1", "files"),
      ("  files: 20", "  fils: 20", "fils"), ("  type: core.note", "  type: core.task", "core.task"),
      ("  - recipe", "  - ' '", "defaults.tags"), ("title: Recipes", "title: Recipes\ntitle: y", "twice"),
      ("title: Recipes", "title: !x Recipes", "tag"), ("title: Recipes", "title: Recipes\n1: x", "not text"),
      ("title: Recipes", "title: Recipes\nrevoked_at: x", "revoked_at"),
      ("title: Recipes", "title: Recipes\nquery: {}", "query"),
      ("    language: en", "    \"\": en", "empty"), ("title: Recipes", "title: &t Recipes\nx: *t", "alias"),
      ("title: Recipes", "title: Recipes\n---\na: 1", "more than one"),
      ("include:\n  - \"*.md\"\n  - img/", "include: x", "include"),
    ])
  func held(old: String, new: String, word: String) throws {
    let text = try rendered().replacing(old, with: new)
    guard case .flagged(let reason) = try judged(text) else {
      Issue.record("not held: \(new)")
      return
    }
    #expect(reason.contains(word), "\(reason)")
  }

  @Test("No text at all, a NUL, bytes that are no UTF-8, a list") func noText() throws {
    for bytes: [UInt8] in [[], [0x61, 0], [0xFF], Array("- a\n".utf8), Array("# only\n".utf8)] {
      guard case .failure = SettingsFile.read(bytes) else {
        Issue.record("read \(bytes)")
        continue
      }
    }
  }

  @Test("Settings a row holds, and their defaults (F2, F3.1, F3.2)") func settings() throws {
    let all = try FolderSettings(row: full.object ?? JSONObject(), checks: checks)
    #expect(all.search.types == ["core.note", "core.file"])
    #expect(all.removalThreshold == .init(files: 20, fraction: 1))
    #expect(all.defaults.edges.first?.type == "parent-of")
    let least = try FolderSettings(row: object(["title": "x", "revoked_at": "y"]), checks: checks)
    #expect(least.search == .init())
    #expect(least.search.states == [.active, .archived])
    #expect(least.newTier == "library")
    #expect(least.documentType { _ in false } == "core.note")
    let files = try FolderSettings(
      row: object(["title": "x", "query": ["types": ["core.file", "core.task"], "tier": "feed"]]), checks: checks)
    #expect(files.documentType { $0 == "core.file" } == "core.task")
    #expect(files.newTier == "feed")
    #expect(throws: FolderSettings.Refusal.self) {
      try FolderSettings(row: object(["title": "x", "query": [:], "search": [:]]), checks: checks)
    }
  }
}

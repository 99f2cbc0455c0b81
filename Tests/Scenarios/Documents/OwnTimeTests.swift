import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The item's own time in a file (F7.37 to F7.43).
struct OwnTimeTests {
  @Test("F-S7.28 new files that name a time create their items with it, each line as typed")
  func newFiles() throws {
    let desk = try Desk()
    let lines = [
      "Day": ("occurred_at: 2026-10-06 # the day", "2026-10-06T00:00:00.000Z"),
      "Hour": ("occurred_at: 2026-10-06T10:00:00", "2026-10-06T10:00:00.000Z"),
      "Offset": ("occurred_at: 2026-10-05T10:00:00+01:00", "2026-10-05T09:00:00.000Z"),
    ]
    for (name, line) in lines { try desk.machine.write("\(name).md", "---\n\(line.0)\n---\nWords.\n") }
    let (_, sent) = try desk.push()
    for (name, line) in lines {
      let id = try desk.id(name)
      let create = try #require(sent.creates.first { $0.body.string("id") == id.description })
      #expect(create.body.string("occurred_at") == line.1)
      #expect(create.body["properties"] == ["title": .string(name), "body": "Words.\n"])
      #expect(try desk.item(id).string("occurred_at") == line.1)
      #expect(try desk.machine.lines("\(name).md").contains(line.0))
    }
    #expect(try desk.push().sent.isEmpty)
  }

  /// Makes a note with a time, as another device does.
  func timed(_ bench: FolderBench, _ title: String, _ time: String?, tags: [String] = []) throws -> EntityID {
    var draft = JSONObject()
    draft["type"] = "core.note"
    draft["tier"] = "library"
    draft["properties"] = ["title": .string(title), "body": "Words.\n"]
    if let time { draft["occurred_at"] = JSON.string(time) }
    let made = try bench.ask("POST", "/items", .object(draft))
    guard let id = made["item"]?.string("id").flatMap({ EntityID(Text($0)) }) else { throw BenchError(made.compact) }
    if !tags.isEmpty { try bench.ask("POST", "/items/\(id)/tags", ["tags": .array(tags.map { JSON.string($0) })]) }
    return id
  }

  @Test("F-S7.29 an own time stands last of the own lines, and none where the time is the creation")
  func pulled() throws {
    let desk = try Desk()
    let own = try timed(desk.bench, "Own", "2020-01-02", tags: ["b", "a"])
    try desk.transition(own, "archived")
    let plain = try timed(desk.bench, "Plain", nil)
    _ = try desk.push()
    #expect(
      try desk.machine.lines("Own.md") == [
        "type: core.note", "tier: library", "tags:", "  - a", "  - b", "state: archived",
        "occurred_at: \"2020-01-02T00:00:00.000Z\"", "title: Own", "marfa_id: \(own)", "marfa_version: 1",
      ])
    #expect(
      try desk.machine.lines("Plain.md") == [
        "type: core.note", "tier: library", "title: Plain", "marfa_id: \(plain)", "marfa_version: 1",
      ])
    let scan = try desk.machine.scan()
    #expect(scan.updated == 0 && scan.unchanged == 2)
  }

  @Test("F-S7.30 a changed day is one edit; another spelling or the line taken out sends nothing")
  func changedDay() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\noccurred_at: 2026-10-06 # the day\n---\nWords.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "2026-10-06 # the day", "2026-10-07 # the day")
    let (_, sent) = try desk.push()
    let edit = try #require(sent.edits(id).first)
    #expect(sent.count == 1)
    #expect(edit.body.string("occurred_at") == "2026-10-07T00:00:00.000Z")
    #expect(edit.body["properties"]?["occurred_at"] == nil)
    #expect(try desk.version(id) == 2)
    #expect(try desk.properties(id) == ["title": "A", "body": "Words.\n"])
    #expect(try desk.item(id).string("occurred_at") == "2026-10-07T00:00:00.000Z")
    #expect(try desk.machine.lines("A.md").contains("occurred_at: 2026-10-07 # the day"))

    try desk.machine.edit("A.md", "2026-10-07 # the day", "2026-10-07T02:00:00+02:00 # the day")
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.machine.lines("A.md").contains("occurred_at: 2026-10-07T02:00:00+02:00 # the day"))
    try desk.machine.edit("A.md", "occurred_at: 2026-10-07T02:00:00+02:00 # the day\n", "")
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.machine.lines("A.md").contains("occurred_at: \"2026-10-07T00:00:00.000Z\""))
    #expect(try desk.item(id).string("occurred_at") == "2026-10-07T00:00:00.000Z")
    #expect(try desk.version(id) == 2)
  }

  @Test("F-S7.31 a blank line names no time and stays blank until another device gives one")
  func blankLine() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\noccurred_at:\n---\nWords.\n")
    let (_, sent) = try desk.push()
    let id = try desk.id("A")
    #expect(sent.creates.first?.body["occurred_at"] == nil)
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.machine.lines("A.md").contains("occurred_at:"))
    #expect(try desk.item(id)["occurred_at"] == desk.item(id)["created_at"])
    try desk.patch(id, ["occurred_at": "2020-01-02"])
    #expect(try desk.push().sent.isEmpty)
    #expect(try desk.machine.lines("A.md").contains("occurred_at: \"2020-01-02T00:00:00.000Z\""))
    #expect(try !desk.machine.lines("A.md").contains("occurred_at:"))
  }

  @Test("F-S7.32 six lines that are no time are unreadable, and no byte of their files changes")
  func noTime() throws {
    let desk = try Desk()
    let bad = ["\"\"", "yesterday", "10000-01-01", "2026-02-30", "2026", "[2026-01-01]"]
    for (index, line) in bad.enumerated() {
      try desk.machine.write("Bad \(index).md", "---\noccurred_at: \(line)\n---\nWords.\n")
    }
    try desk.machine.write("Good.md", "---\noccurred_at: 2026-10-06\n---\nWords.\n")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 1 && sent.creates.count == 1)
    #expect(push.scan.flagged.filter { $0.flag == "unreadable" }.count == 6)
    for (index, line) in bad.enumerated() {
      #expect(push.scan.flagged.flags("Bad \(index).md") == ["unreadable"], "\(line)")
      #expect(try desk.machine.need("Bad \(index).md") == "---\noccurred_at: \(line)\n---\nWords.\n")
    }
    #expect(push.scan.flagged.reason("Bad 1.md", "unreadable")?.contains("yesterday") == true)
    #expect(try desk.bench.titles() == ["Good"])
  }

  @Test("F-S7.33 an old buffer with another day sends no time and is flagged; a line of the new instant stays as typed")
  func oldBuffer() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "---\noccurred_at: 2026-10-06\n---\nWords.\n")
    try desk.machine.write("B.md", "---\noccurred_at: 2026-10-06\n---\nWords.\n")
    _ = try desk.push()
    let (a, b) = (try desk.id("A"), try desk.id("B"))
    let old = try desk.machine.need("A.md")
    try desk.patch(a, ["occurred_at": "2026-10-20"])
    try desk.patch(b, ["occurred_at": "2026-10-20"])
    try desk.machine.edit("B.md", "occurred_at: 2026-10-06", "occurred_at: 2026-10-20T02:00:00+02:00")
    _ = try desk.machine.folders.working(desk.machine.root, "catch-up") { try $0.catchUp() }
    try desk.machine.save("A.md", old.replacing("2026-10-06", with: "2026-10-10"))
    let (push, sent) = try desk.push()
    #expect(!sent.contains { $0.body["occurred_at"] != nil })
    #expect(push.scan.flagged.reason("A.md", "behind")?.contains("occurred_at") == true)
    #expect(try desk.item(a).string("occurred_at") == "2026-10-20T00:00:00.000Z")
    #expect(try desk.machine.lines("A.md").contains("occurred_at: \"2026-10-20T00:00:00.000Z\""))
    #expect(try desk.machine.lines("B.md").contains("occurred_at: 2026-10-20T02:00:00+02:00"))
    #expect(try desk.item(b).string("occurred_at") == "2026-10-20T00:00:00.000Z")
  }

  @Test("F-S7.34 a property named occurred_at is in no file and kept; .txt and file items keep their times")
  func notTheProperty() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.note", "core.file"]]])
    try desk.machine.write("t.txt", "Text.\n")
    try desk.machine.write("pic.png", "PNG bytes")
    let note = try desk.bench.item("Note", body: "Words.\n", more: JSONObject([("occurred_at", "long ago")]))
    _ = try desk.push()
    let (text, picture) = (try desk.id("t"), try desk.id("pic.png"))
    for id in [note, text, picture] { try desk.patch(id, ["occurred_at": "2020-01-02"]) }
    _ = try desk.push()
    #expect(try !desk.machine.need("Note.md").contains("long ago"))
    #expect(try desk.machine.lines("Note.md").contains("occurred_at: \"2020-01-02T00:00:00.000Z\""))
    try desk.machine.edit("Note.md", "Words.", "New.")
    try desk.machine.write("t.txt", "New text.\n")
    try desk.machine.write("pic.png", "New bytes")
    let (push, sent) = try desk.push()
    #expect(push.scan.updated == 3)
    #expect(sent.edits(note).first?.body.string("properties_mode") == "replace")
    #expect(try desk.properties(note) == ["title": "Note", "body": "New.\n", "occurred_at": "long ago"])
    for id in [note, text, picture] { #expect(try desk.item(id).string("occurred_at") == "2020-01-02T00:00:00.000Z") }
    #expect(try desk.properties(text)["body"] == "New text.\n")
    #expect(try desk.machine.need("t.txt") == "New text.\n")
  }

  @Test("F-S7.35 a deleted file whose item is given another time inside the grace is written back with the line")
  func revivedByTime() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.delete("A.md")
    #expect(try desk.push().report.scan.missing == 1)
    try desk.patch(id, ["occurred_at": "2020-01-02"])
    let (push, sent) = try desk.push()
    #expect(push.pull?.revived == 1 && sent.isEmpty)
    #expect(try desk.machine.lines("A.md").contains("occurred_at: \"2020-01-02T00:00:00.000Z\""))
    desk.machine.grace()
    _ = try desk.push()
    #expect(try desk.state(id) == "active")
  }
}

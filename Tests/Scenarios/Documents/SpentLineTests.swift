import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Versions the server no longer holds, and renderings that fail (F7.33 to F7.35, F20.12, F23.7 to F23.15).
struct SpentLineTests {
  func held(_ more: JSONObject = JSONObject()) throws -> (Desk, EntityID) {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) {
      try $0.item("A", body: "Words.\n", more: more)
    }
    _ = try desk.push()
    return (desk, try desk.id("A"))
  }

  /// The server holds none of these versions of an item any more.
  func thin(_ desk: Desk, _ id: EntityID, _ versions: Set<Int>) {
    let bench = desk.bench
    bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/items/\(id)"), case .bytes(let bytes) = request.body,
        let body = try? JSON(parsing: bytes), let version = body["version"]?.int, versions.contains(version),
        let row = try? bench.ask("GET", "/items/\(id)")
      else { return nil }
      let answer: JSON = [
        "error": [
          "code": "ancestor_unavailable", "status": 409, "message": "No snapshot of that version is held.",
          "details": [:],
        ],
        "current": row["item"] ?? .null,
      ]
      return .success(
        HTTPResponse(
          status: 409,
          headers: [
            HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0"),
            HTTPHeader("X-Error-Code", "ancestor_unavailable"),
          ], body: answer.write()))
    }
  }

  @Test("F-S23.8 a line written over an edit queued on the device is spent at once")
  func overDeviceEdit() throws {
    let (desk, id) = try held()
    try desk.machine.folders.working(desk.machine.root, "edit") { folder in
      _ = try folder.copy.queue.updateItem(id, ItemEdit(properties: JSONObject([("body", "Device.\n")]), version: 1))
    }
    #expect(try desk.machine.pull().rewritten == 1)
    let buffer = try desk.machine.need("A.md")
    #expect(buffer.hasSuffix("Device.\n"))
    _ = try desk.push()
    #expect(try desk.properties(id)["body"] == "Device.\n")
    let now = try desk.version(id)
    try desk.machine.save("A.md", buffer.replacing("Device.", with: "Device and mine."))
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [now])
    #expect(push.drain.drain.verdicts.allSatisfy { $0.conflictedCopyID == nil })
    #expect(try desk.properties(id)["body"] == "Device and mine.\n")
  }

  @Test("F-S7.6 an emptied unindented list, a removed first property and a rendering made to fail")
  func renderings() throws {
    let desk = try Desk()
    try desk.machine.write("List.md", "---\ntitle: List\nitems:\n- one\n- two\n---\nWords.\n")
    try desk.machine.write("First.md", "---\nmood: good\n\ntitle: First\n---\nWords.\n")
    try desk.machine.write("Fails.md", "Words.\n")
    _ = try desk.push()
    let (list, first, fails) = (try desk.id("List"), try desk.id("First"), try desk.id("Fails"))
    let before = try desk.machine.need("Fails.md")
    try desk.patch(list, ["properties": ["items": []]])
    try desk.bench.ask(
      "PATCH", "/items/\(first)",
      ["version": 1, "properties_mode": "replace", "properties": ["title": "First", "body": "Words.\n"]])
    try desk.patch(fails, ["properties": ["body": "Theirs.\n"]])
    desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .render, name == "Fails.md" { throw FileError(code: 5, operation: "render", path: name) }
    }
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.pull?.rewritten == 2 && push.pull?.unwritten == 1, "\(push.json.compact)")
    let lines = try desk.machine.lines("List.md")
    let at = try #require(lines.firstIndex(of: "items:"))
    #expect(lines[at + 1] == "  []")
    #expect(try desk.machine.need("First.md").hasPrefix("---\ntitle: First\n"))
    #expect(push.pull?.flagged.flags("Fails.md") == ["unwritten"])
    #expect(try desk.machine.need("Fails.md") == before)
    #expect(try desk.push().sent.isEmpty)
    desk.machine.door = .none
    let (next, nothing) = try desk.push()
    #expect(nothing.isEmpty && next.pull?.rewritten == 1)
    #expect(try desk.machine.body("Fails.md") == "Theirs.\n")
    #expect(try desk.properties(first) == ["title": "First", "body": "Words.\n"])
    #expect(try desk.properties(list)["items"] == [])
  }

  @Test("F-S20.12 a rendering that fails leaves bytes, binding and echo record, is named, and stops no other file")
  func failedRendering() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      for title in ["Fails", "Other"] { try bench.item(Text(title), body: "Words.\n") }
    }
    _ = try desk.push()
    let (fails, other) = (try desk.id("Fails"), try desk.id("Other"))
    for id in [fails, other] { try desk.patch(id, ["properties": ["body": "Theirs.\n"]]) }
    func binding() throws -> Binding? {
      try desk.machine.folders.working(desk.machine.root, "look") { try $0.store.binding(of: fails) }
    }
    let before = try (desk.machine.need("Fails.md"), binding())
    desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .render, name == "Fails.md" { throw FileError(code: 5, operation: "render", path: name) }
    }
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty && push.pull?.unwritten == 1 && push.pull?.rewritten == 1)
    #expect(push.pull?.flagged.map(\.path) == ["Fails.md"])
    #expect(push.pull?.flagged.reason("Fails.md", "unwritten")?.isEmpty == false)
    let after = try (desk.machine.need("Fails.md"), binding())
    #expect(after.0 == before.0)
    #expect(
      after.1?.writtenHash == before.1?.writtenHash && after.1?.path == before.1?.path
        && after.1?.agreed == before.1?.agreed)
    #expect(try desk.machine.body("Other.md") == "Theirs.\n")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F20.9 in part: a settings file that cannot be written is said, other files are written, and later it is")
  func settingsUnwritten() throws {
    let (desk, id) = try held()
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Renamed"])
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    desk.machine.faults = Faults { call in
      call.operation == .rename && call.name == "folder.yaml" ? .fail(28) : .proceed
    }
    let (push, _) = try desk.push()
    #expect(push.settings.unwritten?.contains("folder.yaml") == true && !push.settings.written)
    #expect(try desk.machine.body("A.md") == "Theirs.\n")
    let pull = try desk.machine.pull()
    #expect(pull.settings.unwritten?.contains("folder.yaml") == true)
    desk.machine.faults = nil
    let (next, sent) = try desk.push()
    #expect(next.settings.written && next.settings.unwritten == nil && sent.isEmpty)
    #expect(try desk.machine.need(".marfa/folder.yaml").contains("title: Renamed"))
  }

  @Test("F-S19.11 refused placements go once, and again after a move, a settings change and another key")
  func refusedPlacements() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      for title in ["A", "B", "C"] { try bench.item(Text(title), body: "Words.\n") }
    }
    desk.bench.transport.before = { request in
      guard request.method == "POST" || request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(
        refusal(
          403, "edge_permission_denied", "Not allowed.",
          ["edge_type": "in-folder", "grant": ["kind": "edge_type", "name": "in-folder", "level": "write"]]))
    }
    let (first, one) = try desk.push()
    #expect(one.count == 3)
    for _ in 0..<3 {
      let (push, sent) = try desk.push()
      #expect(sent.isEmpty && push.pull?.unplaced == 3, "\(sent.lines) \(push.json.compact)")
    }
    #expect(first.pull?.written == 3)
    try desk.machine.rename("A.md", to: "Moved.md")
    let (_, moved) = try desk.push()
    #expect(moved.count == 1 && moved.first?.body["properties"] == ["path": "Moved.md"])
    #expect(try desk.push().sent.isEmpty)
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "title": "Renamed"])
    _ = try desk.push()
    let (_, still) = try desk.push()
    #expect(still.isEmpty)
    // Another key: it may.
    desk.bench.transport.before = nil
    let made = try desk.bench.ask(
      "POST", "/keys",
      [
        "label": "Other", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"],
        "metadata_permissions": ["tags": "write"],
      ])
    desk.machine.key = try #require(made.string("key"))
    _ = try desk.push()
    let (last, nothing) = try desk.push()
    #expect(last.pull?.unplaced == 0 && nothing.isEmpty)
    #expect(try desk.placed(desk.id("A")) == "Moved.md")
    #expect(try desk.placed(desk.id("B")) == "B.md" && desk.placed(desk.id("C")) == "C.md")
  }

  @Test(
    "F-S23.4 with the copy's version thinned too there is one resend, and the edit stays blocked until another pass")
  func thinnedTwice() throws {
    let (desk, id) = try held()
    try desk.patch(id, ["properties": ["other": "theirs"]])
    try desk.machine.edit("A.md", "Words.", "First.")
    thin(desk, id, [1, 2])
    let (push, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [1, 2])
    #expect(push.drain.rebased == 1)
    #expect(try desk.properties(id)["body"] == "Words.\n")
    #expect(try desk.machine.body("A.md") == "First.\n")
    try desk.patch(id, ["properties": ["other": "again"]])
    let (next, again) = try desk.push()
    desk.bench.transport.before = nil
    #expect(again.edits(id).map { $0.body["version"]?.int } == [3], "\(again.lines)")
    #expect(next.drain.rebased == 1)
    #expect(try desk.properties(id) == ["title": "A", "body": "First.\n", "other": "again"])
  }
}

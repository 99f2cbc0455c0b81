import FolderSync
import MarfaBase
import TestSupport
import Testing

/// Removals large enough to be a mistake (F46).
struct RemovalScenarios {
  static func settings(_ files: Int, _ fraction: JSON, _ more: JSON = JSON.object(JSONObject())) -> JSON {
    var settings = KeptFolder.notes(more).object ?? JSONObject()
    settings["removal_threshold"] = ["files": .int(files), "fraction": fraction]
    return .object(settings)
  }

  static func fraction(_ text: String) throws -> JSON { try JSON(parsing: text) }

  /// A folder of notes `n1.md` to `nX.md`, pushed.
  func filled(_ bench: FolderBench, _ count: Int, _ settings: JSON) throws -> KeptFolder {
    let folder = try KeptFolder(bench, settings)
    for number in 1...count { try folder.disk.write(folder.path("n\(number).md"), "Note \(number).\n") }
    bench.clock.advance(seconds: 3)
    try folder.push()
    #expect(try bench.titles().count == count)
    return folder
  }

  func quarter() throws -> JSON { Self.settings(2, try Self.fraction("0.25")) }

  func paused(_ bench: FolderBench) throws -> KeptFolder {
    let folder = try filled(bench, 6, try quarter())
    for number in 1...3 { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == 3)
    return folder
  }

  @Test("F-S360 three of six deleted wait, before and past the grace; at the defaults they go")
  func waits() throws {
    let bench = try FolderBench()
    let folder = try paused(bench)
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.paused == 3 && push.scan.deleted == 0 && push.scan.missing == 3)
    #expect(words(push).contains { $0.contains("3") && $0.contains("confirm") && $0.contains("restore") })
    #expect(try bench.titles().count == 6)
    let status = try folder.status()
    #expect(status.pausedOnDisk == 3 && status.pausedInPull == 0)
    let file = try #require(status.files.first { $0.path == "n1.md" })
    #expect(file.state == .held && file.flag == "removal")
    #expect(file.reason?.contains("confirm") == true && file.reason?.contains("restore") == true)
    try folder.change(["removal_threshold": ["files": 10, "fraction": try Self.fraction("0.25")]])
    try folder.push()
    let sent = try folder.push()
    #expect(sent.scan.paused == 0)
    #expect(try bench.titles() == ["n4", "n5", "n6"])
  }

  @Test(
    "F-S361 11 of 12 and 12 of 44 are large; 10 of 12 and 11 of 44 are not",
    arguments: [(10, 12, 0), (11, 12, 11), (11, 44, 0), (12, 44, 12)])
  func large(missing: Int, bound: Int, paused: Int) throws {
    let bench = try FolderBench()
    let folder = try filled(bench, bound, KeptFolder.notes)
    for number in 1...missing { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == paused)
    #expect(try folder.status().pausedOnDisk == paused)
    folder.grace()
    try folder.push()
    #expect(try bench.titles().count == (paused == 0 ? bound - missing : bound))
  }

  @Test("F-S362 a threshold of one and a tenth pauses two of six")
  func smallThreshold() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, 6, Self.settings(1, try Self.fraction("0.1")))
    try folder.delete("n1.md")
    try folder.delete("n2.md")
    #expect(try folder.push().scan.paused == 2)
    folder.grace()
    try folder.push()
    #expect(try bench.titles().count == 6)
  }

  @Test("F-S363 confirmed, the deletes go at the next push")
  func confirmed() throws {
    let bench = try FolderBench()
    let folder = try paused(bench)
    bench.transport.clear()
    let confirmed = try folder.confirm()
    #expect(confirmed.deleted == 3 && confirmed.moved == 0 && confirmed.unsure.isEmpty && confirmed.removed == 0)
    #expect(bench.transport.requests.isEmpty)
    #expect(try folder.status().pausedOnDisk == 0)
    #expect(try bench.titles().count == 6)
    try folder.push()
    #expect(try bench.titles() == ["n4", "n5", "n6"])
    #expect(try folder.status().files.map(\.path) == ["n4.md", "n5.md", "n6.md"])
  }

  @Test("F-S364 restored, the files are back and no delete is sent")
  func restored() throws {
    let bench = try FolderBench()
    let folder = try paused(bench)
    let restored = try folder.restore()
    #expect(restored.putBack == 3 && restored.restored == 0)
    #expect(folder.files().count == 6 && folder.text("n1.md")?.contains("Note 1.") == true)
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.missing == 0 && push.scan.deleted == 0 && push.scan.created == 0)
    folder.grace()
    try folder.push()
    #expect(try bench.titles().count == 6)
    #expect(try folder.status().pausedOnDisk == 0)
  }

  enum Leaving: CaseIterable { case trashed, archived }

  /// Three items that left elsewhere, their removal paused.
  func pausedPull(_ bench: FolderBench, _ how: Leaving) throws -> (KeptFolder, [EntityID]) {
    let settings = Self.settings(
      2, try Self.fraction("0.25"), ["search": ["types": ["core.note"], "state": ["active"]]])
    let folder = try filled(bench, 6, settings)
    let items = try (1...3).map { try bench.id("n\($0)") }
    for item in items {
      switch how {
      case .trashed: try bench.trash(item)
      case .archived: try bench.state(item, "archived")
      }
    }
    let push = try folder.push()
    #expect(push.pull?.removed == 0 && push.pull?.paused == 3)
    return (folder, items)
  }

  @Test(
    "F-S365 a large removal through a pull waits; confirmed it goes, restored the items come back",
    arguments: Leaving.allCases)
  func throughPull(how: Leaving) throws {
    let bench = try FolderBench()
    let (folder, _) = try pausedPull(bench, how)
    #expect(folder.files().count == 6)
    let status = try folder.status()
    #expect(status.pausedInPull == 3)
    #expect(status.files.first { $0.path == "n1.md" }?.flag == "removal")
    #expect(try folder.confirm().removed == 3)
    #expect(folder.files() == ["n4.md", "n5.md", "n6.md"])
    try folder.push()
    #expect(folder.files() == ["n4.md", "n5.md", "n6.md"])

    let again = try FolderBench()
    let (kept, items) = try pausedPull(again, how)
    let restored = try kept.restore()
    #expect(restored.restored == 3)
    let kinds = try kept.queue().map(\.kind)
    #expect(kinds == Array(repeating: how == .trashed ? .restoreItem : .transitionItem, count: 3))
    #expect(kept.files().count == 6)
    try kept.push()
    for item in items { #expect(try again.row(item)["item"]?["state"]?.text == "active") }
    #expect(kept.files().count == 6)
    #expect(try kept.push().pull?.paused == 0)
    #expect(try kept.status().pausedInPull == 0)
  }

  @Test("F-S366 a paused file whose item was archived is not put back, and no scan counts it")
  func archivedMeanwhile() throws {
    let bench = try FolderBench()
    let folder = try filled(
      bench, 6, Self.settings(2, try Self.fraction("0.25"), ["search": ["types": ["core.note"], "state": ["active"]]]))
    for number in 1...3 { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == 3)
    let gone = try bench.id("n1")
    try bench.state(gone, "archived")
    try folder.pull()
    #expect(try folder.restore().putBack == 2)
    let scan = try folder.scan()
    #expect(scan.missing == 0 && scan.paused == 0 && scan.deleted == 0)
    folder.grace()
    try folder.push()
    #expect(folder.files() == ["n2.md", "n3.md", "n4.md", "n5.md", "n6.md"])
    #expect(try bench.row(gone)["item"]?["state"]?.text == "archived")
    #expect(try bench.titles().count == 6)
  }

  @Test("F-S367 a paused file whose item left by a property is not put back and stays missing")
  func leftByProperty() throws {
    let bench = try FolderBench()
    let folder = try filled(
      bench, 6,
      Self.settings(
        2, try Self.fraction("0.25"),
        [
          "search": ["types": ["core.note"], "filter": "properties.language eq \"en\""],
          "defaults": ["properties": ["language": "en"]],
        ]))
    let left = try bench.id("n1")
    for number in 1...3 { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == 3)
    try bench.edit(left, ["language": "de"])
    try folder.pull()
    #expect(try folder.restore().putBack == 2)
    #expect(folder.files() == ["n2.md", "n3.md", "n4.md", "n5.md", "n6.md"])
    #expect(try folder.scan().missing == 1)
    #expect(try bench.titles().count == 6)
  }

  @Test("F-S369 a paused file put back before the confirm is left out of it")
  func putBackFirst() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, 6, try quarter())
    let bytes = try #require(folder.bytes("n1.md"))
    for number in 1...3 { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == 3)
    try folder.write("n1.md", bytes: bytes)
    #expect(try folder.confirm().deleted == 2)
    try folder.push()
    #expect(try bench.titles() == ["n1", "n4", "n5", "n6"])
    #expect(folder.files() == ["n1.md", "n4.md", "n5.md", "n6.md"])
  }

  @Test("F-S372 purged items in a paused removal: nothing is promised, restore brings none back, confirm removes")
  func purged() throws {
    let bench = try FolderBench()
    let folder = try filled(bench, 6, try quarter())
    for number in 1...3 { try bench.purge(try bench.id("n\(number)")) }
    #expect(try folder.push().pull?.paused == 3)
    let reason = try #require(try folder.status(of: "n1.md")?.reason)
    #expect(reason.contains("purged") && !reason.contains("restore"))
    #expect(try folder.restore().restored == 0)
    #expect(folder.files().count == 6)
    #expect(try folder.push().pull?.paused == 3)
    #expect(try folder.confirm().removed == 3)
    #expect(folder.files() == ["n4.md", "n5.md", "n6.md"])
    #expect(try folder.push().drain.drain.verdicts.allSatisfy { $0.kind != .deleteItem })
  }
}

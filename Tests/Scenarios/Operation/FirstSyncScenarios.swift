@testable import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The first sync waits until it is confirmed (F54).
struct FirstSyncScenarios {
  @Test("F-S400 an add reads what the first sync would do, and neither writes nor sends")
  func planRead() throws {
    let bench = try FolderBench()
    try bench.item("One")
    try bench.item("Two")
    let folder = try KeptFolder(bench, added: false)
    for name in ["a.md", "b.md", "c.md"] { try folder.write(name, "Text of \(name).\n") }
    bench.transport.clear()
    let added = try folder.add(yes: false)
    #expect(added.firstSync == FirstSyncReading(waiting: true, plan: FolderPlan(write: 2, send: 3, beside: 0)))
    #expect(folder.files() == ["a.md", "b.md", "c.md"])
    #expect(folder.text("a.md") == "Text of a.md.\n")
    let again = try folder.plan()
    #expect(again == added.firstSync)
    #expect(bench.writes.isEmpty)
    #expect(try bench.titles() == ["One", "Two"])
    let status = try folder.status()
    #expect(status.firstSyncWaits && status.plan == FolderPlan(write: 2, send: 3, beside: 0))
  }

  @Test("F54.3 F12.26 a plan counts the picture that a note to be written embeds")
  func planOfEmbeds() throws {
    let bench = try FolderBench()
    let note = try bench.item("One", body: "![[oven.png]]\n")
    let picture = try bench.file("oven.png", Array("picture".utf8), type: "core.file.image", mime: "image/png")
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(picture.text), "target_id": .string(note.text), "edge_type": "attached-to",
        "properties": [:],
      ])
    let folder = try KeptFolder(bench, added: false)
    let added = try folder.add(yes: false)
    #expect(added.firstSync == FirstSyncReading(waiting: true, plan: FolderPlan(write: 2, send: 0, beside: 0)))
    #expect(folder.files().isEmpty)
    #expect(try folder.confirm().firstSync)
    #expect(try folder.push().pull?.written == 2)
    #expect(folder.files() == ["One.md", "oven.png"])
  }

  @Test("F-S401 pull, restore, a drain and a watch of a waiting folder are refused")
  func refusedWhileWaiting() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md")
    try folder.add(yes: false)
    #expect(refusal { _ = try folder.folders.pull(folder.root) }?.code == .firstSyncWaiting)
    #expect(refusal { _ = try folder.restore() }?.code == .firstSyncWaiting)
    #expect(
      refusal { _ = try folder.folders.working(folder.root, "drain") { try $0.drain() } }?.code == .firstSyncWaiting)
    let source = FolderWatchSource(folders: folder.folders, root: folder.root, storage: .null, stand: { _ in })
    let watched = refusal { _ = try source.open() }
    #expect(watched?.code == .firstSyncWaiting)
    #expect(watched?.exit == 4)
    #expect(folder.files() == ["a.md"])
    #expect(try bench.titles() == ["One"])
  }

  @Test("F-S402 a confirmed first sync goes once and is not asked for again")
  func confirmed() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md")
    try folder.add(yes: false)
    bench.transport.clear()
    #expect(try folder.confirm().firstSync)
    #expect(bench.transport.requests.isEmpty)
    let first = try folder.push()
    #expect(first.scan.created + first.scan.unchanged == 1)
    #expect(first.drain.drain.answered >= 2)
    #expect(first.pull?.written == 1)
    #expect(folder.files() == ["One.md", "a.md"])
    #expect(try bench.titles() == ["One", "a"])
    bench.transport.clear()
    let second = try folder.push()
    #expect(second.drain.drain.answered == 0 && bench.writes.isEmpty)
    #expect(try folder.add(yes: false).firstSync == FirstSyncReading(waiting: false))
    #expect(try folder.status().firstSyncWaits == false)
  }

  @Test("F-S404 a file at an item's name is counted beside; confirmed, both stand")
  func beside() throws {
    let bench = try FolderBench()
    try bench.item("Plan", body: "The server's plan.\n")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("Plan.md", "My plan.\n")
    let added = try folder.add(yes: false)
    #expect(added.firstSync.plan == FolderPlan(write: 1, send: 1, beside: 1))
    _ = try folder.confirm()
    try folder.push()
    try folder.push()
    #expect(folder.files().count == 2 && folder.files().contains("Plan.md") && folder.files().contains("Plan (2).md"))
    let texts = try ["Plan.md", "Plan (2).md"].map { try #require(folder.text($0)) }
    #expect(texts.contains { $0.contains("My plan.") } && texts.contains { $0.contains("The server's plan.") })
    #expect(try bench.ids("Plan").count == 2)
  }

  @Test("F-S405 nothing to write and nothing to send confirms itself")
  func nothing() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, added: false)
    let added = try folder.add(yes: false)
    #expect(
      added.firstSync.json
        == ["waiting": false, "write": nil, "send": nil, "beside": nil, "unread": nil])
    #expect(try folder.status().firstSyncWaits == false)
    try bench.item("Later")
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.files() == ["Later.md"])
  }

  @Test("F-S406 a waiting folder with queued creates can be removed; the files stay and nothing was sent")
  func removedWaiting() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md", "Mine.\n")
    bench.transport.clear()
    try folder.add(yes: false)
    #expect(try folder.queue().contains { $0.kind == .createItem })
    try folder.folders.remove(folder.root)
    #expect(folder.files() == ["a.md"] && folder.text("a.md") == "Mine.\n")
    #expect(folder.disk.status(folder.path(".marfa")) == nil)
    #expect(try folder.folders.list().isEmpty)
    #expect(bench.writes.isEmpty)
    #expect(try bench.titles().isEmpty)
  }

  @Test("F-S407 with the server gone a push answers the same plan")
  func offline() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md")
    let added = try folder.add(yes: false)
    bench.goOffline()
    #expect(try folder.plan() == added.firstSync)
    #expect(try folder.plan().plan == FolderPlan(write: 1, send: 1, beside: 0))
    #expect(folder.files() == ["a.md"])
  }

  @Test("F-S408 each machine is confirmed for itself")
  func eachMachine() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let ana = try KeptFolder(bench, added: false)
    let ben = try KeptFolder(bench, following: ana.id, machine: bench.machine("ben"), added: false)
    try ana.add(yes: false)
    try ben.add(yes: false)
    _ = try ana.confirm()
    #expect(try ana.push().pull?.written == 1)
    #expect(try ben.status().firstSyncWaits)
    #expect(try ben.plan().plan == FolderPlan(write: 1, send: 0, beside: 0))
    #expect(ben.files().isEmpty && ana.files() == ["One.md"])
  }

  @Test("F-S409 confirming takes the directory as it stands; a landing that fails does not bring the question back")
  func standsConfirmed() throws {
    let bench = try FolderBench()
    try bench.item("One")
    let folder = try KeptFolder(bench, added: false)
    try folder.write("a.md")
    #expect(try folder.add(yes: false).firstSync.plan == FolderPlan(write: 1, send: 1, beside: 0))
    try folder.write("b.md")
    _ = try folder.confirm()
    folder.disk.setFreeBytes(0)
    _ = refusal { try folder.push() }
    #expect(try folder.status().firstSyncWaits == false)
    folder.disk.setFreeBytes(nil)
    try folder.push()
    #expect(folder.files() == ["One.md", "a.md", "b.md"])
    #expect(try bench.titles() == ["One", "a", "b"])
    #expect(try folder.status().files.allSatisfy { $0.state == .inStep })
  }
}

import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What two machines, or a person and a pass, do in one moment: nothing the file never showed is written over, and what is
/// so already is no refusal.
struct UnshownTests {
  /// A note of `words`, with another device's words at version 2 and the file's own answered `conflicted` by a drain, and
  /// one more save before any pull; what was sent for that.
  private func savedAfterCollision(_ name: String, scans: Bool) throws -> (Desk, EntityID, [Sent]) {
    let desk = try Desk()
    try desk.machine.write(name, "Base.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let id = try desk.id("A")
    let old = try desk.machine.need(name)
    try desk.bench.edit(id, ["body": "Base.\nTheirs.\n"])
    try desk.machine.save(name, old + "Mine.\n")
    _ = try desk.machine.scan()
    let drained: DrainReport = try desk.machine.folders.working(desk.machine.root, "drain") { folder in
      // As the program's own drain, or as a plain drain of the store that tells the folder nothing.
      try scans ? folder.copy.queue.drain() : folder.drain().drain
    }
    #expect(drained.verdicts.contains { $0.verdict == .conflicted })
    try desk.machine.save(name, old + "Mine.\nMine again.\n")
    if scans { _ = try desk.machine.scan() }
    let (_, sent) = try desk.push()
    return (desk, id, sent.edits(id))
  }

  @Test(
    "F23.3 a save after a collision and before its pull goes on the version the file showed; both texts stand",
    arguments: ["A.md", "A.txt"], [false, true])
  func afterCollision(_ name: String, _ scans: Bool) throws {
    let (desk, id, sent) = try savedAfterCollision(name, scans: scans)
    #expect(sent.map { $0.body["version"]?.int } == [1], "\(sent)")
    for _ in 0..<3 { _ = try desk.push() }
    #expect(try desk.properties(id)["body"] == "Base.\nTheirs.\n")
    let bodies = try desk.bench.ids("A").map { try desk.properties($0)["body"]?.text?.string ?? "" }
    #expect(bodies.contains("Base.\nMine.\nMine again.\n"), "\(bodies)")
    let (push, more) = try desk.push()
    #expect(more.isEmpty && push.scan.updated == 0)
  }

  @Test(
    "P-S4 what is written late to a text file through a descriptor from before the landing collides, and loses nothing")
  func lateWords() throws {
    let desk = try Desk()
    try desk.machine.write("A.txt", "Base.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let id = try desk.id("A")
    try desk.bench.edit(id, ["body": "Theirs.\n"])
    // The file another program has open for writing is displaced, and kept until it is let go.
    let path = desk.machine.root.appending("A.txt")
    let disk = desk.machine.disk
    desk.machine.door = FaultDoor { fault, _, _ in
      if fault == .afterLastLook { try? disk.setOpenForWriting(path, true) }
    }
    let (landed, _) = try desk.push()
    #expect(landed.pull?.rewritten == 1)
    desk.machine.door = .none
    let displaced = try #require(disk.tree(desk.machine.root).first { $0.path.description.hasSuffix(".tmp") }?.path)
    let hidden = desk.machine.root.appending(displaced)
    desk.bench.clock.advance(seconds: 3)
    try disk.write(hidden, "Base.\nLate.\n")
    try disk.setOpenForWriting(hidden, false)
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [1])
    for _ in 0..<2 { _ = try desk.push() }
    #expect(try desk.properties(id)["body"] == "Theirs.\n")
    let bodies = try desk.bench.ids("A").map { try desk.properties($0)["body"]?.text?.string ?? "" }
    #expect(bodies.sorted() == ["Base.\nLate.\n", "Theirs.\n"])
  }

  @Test("P3.3 what is undone in a buffer whose line no pull rewrote meanwhile is an edit; it is sent")
  func undone() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let id = try desk.id("A")
    let first = try desk.machine.need("A.md")
    try desk.machine.save("A.md", first + "Typed.\n")
    _ = try desk.machine.scan()
    try desk.machine.folders.working(desk.machine.root, "drain") { folder in _ = try folder.drain() }
    #expect(try desk.properties(id)["body"] == "Words.\nTyped.\n")
    try desk.machine.save("A.md", first)
    let (push, sent) = try desk.push()
    #expect(push.scan.flagged.isEmpty && sent.edits(id).count == 1, "\(push.json.compact)")
    #expect(try desk.properties(id)["body"] == "Words.\n" && desk.machine.body("A.md") == "Words.\n")
  }

  @Test("Q67.2 two machines that make the same links and lines agree: nothing is held, and later changes arrive")
  func sameEdges() throws {
    let desk = try Desk()
    for name in ["T", "x", "y"] { try desk.machine.write("\(name).md", "\(name)\n") }
    for _ in 0..<2 { _ = try desk.push() }
    let ids = try ["x", "y"].map { try desk.id($0) }
    let ben = try desk.another()
    _ = try desk.push(ben)
    for machine in [desk.machine, ben] {
      try machine.save("x.md", try machine.need("x.md") + "[[T]]\n")
      try machine.edit("y.md", "\nmarfa_id", "\nabout: \"[[T]]\"\nmarfa_id")
    }
    _ = try desk.push()
    let (second, _) = try desk.push(ben)
    #expect(second.drain.drain.verdicts.contains { $0.refusal?.code == "edge_constraint_violation" })
    for _ in 0..<2 { _ = try desk.push(ben) }
    let status = try ben.folders.status(ben.root)
    #expect(status.files.allSatisfy { $0.state == .inStep }, "\(status.json.compact)")
    for (id, type) in zip(ids, ["references", "about"]) {
      #expect(try desk.edges(id, type: type).count == 1)
      try desk.bench.edit(id, ["mood": "late"])
    }
    _ = try desk.push(ben)
    for name in ["x", "y"] { #expect(try ben.lines("\(name).md").contains("mood: late")) }
  }

  @Test("F9.10 a note two machines archive is archived: nothing is held, and later changes arrive")
  func sameState() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"], "state": ["active", "archived"]]])
    try desk.machine.write("A.md", "Words.\n")
    for _ in 0..<2 { _ = try desk.push() }
    let ben = try desk.another()
    _ = try desk.push(ben)
    for machine in [desk.machine, ben] { try machine.edit("A.md", "\nmarfa_id", "\nstate: archived\nmarfa_id") }
    _ = try desk.push()
    let (second, _) = try desk.push(ben)
    #expect(second.drain.drain.verdicts.map(\.verdict) == [.refused])
    let id = try desk.id("A")
    #expect(try desk.state(id) == "archived")
    try desk.bench.edit(id, ["body": "Later.\n"])
    let (third, _) = try desk.push(ben)
    #expect(third.scan.flagged.isEmpty && third.pull?.flagged.isEmpty == true, "\(third.json.compact)")
    #expect(try ben.body("A.md") == "Later.\n")
  }

  @Test("P-S28 a note renamed while the scan walked, and changed elsewhere, is not written back at its old name")
  func renamedUnderTheWalk() throws {
    for name in ["A.md", "A.txt"] {
      let desk = try Desk()
      try desk.machine.write(name, "Words.\n")
      for _ in 0..<2 { _ = try desk.push() }
      let id = try desk.id("A")
      // The walk looks between the two names.
      let away: PathBytes = "/home/ana/away"
      try desk.machine.disk.rename(desk.machine.root.appending(PathBytes(name)), to: away)
      let target = name.replacing("A", with: "B")
      let (disk, root) = (desk.machine.disk, desk.machine.root)
      var isBack = false
      let bench = desk.bench
      bench.transport.before = { request in
        guard request.method == "GET", request.url.contains("/events"), !isBack else { return nil }
        isBack = true
        try? disk.rename(away, to: root.appending(PathBytes(target)))
        try? bench.edit(id, ["body": "Theirs.\n"])
        return nil
      }
      let (push, _) = try desk.push()
      bench.transport.before = nil
      #expect(push.scan.missing == 1 && push.pull?.revived == 0, "\(push.json.compact)")
      for _ in 0..<2 { _ = try desk.push() }
      #expect(desk.machine.files() == [target])
      #expect(try bench.titles().count == 1)
      #expect(try desk.machine.need(target).hasSuffix("Theirs.\n"))
    }
  }

  @Test("F56.1 a folder whose settings could not be followed goes on at the next push once they are mended elsewhere")
  func mendedSettings() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    for _ in 0..<2 { _ = try desk.push() }
    func change(_ search: JSON) throws {
      let version = try desk.item(desk.folder)["version"] ?? .null
      try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": version, "search": search])
    }
    try change(["types": ["core.note"], "filter": "backref[about] eq \"x\""])
    let refused = #expect(throws: MarfaError.self) {
      _ = try desk.push()
      _ = try desk.push()
    }
    #expect(refused?.code == .invalid && refused?.message.contains("backref") == true)
    try change(["types": ["core.note"]])
    try desk.machine.write("B.md", "More.\n")
    let (push, _) = try desk.push()
    #expect(push.scan.created == 1)
    #expect(try desk.bench.titles() == ["A", "B"])
  }

  @Test("F54.8 what is taken out of the files before the first sync is confirmed is never sent")
  func takenOutBeforeConfirming() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, added: false)
    for name in ["a.md", "secret.md", "secret.txt"] { try folder.write(name, "Something private.\n") }
    #expect(try folder.add(yes: false).firstSync.plan?.send == 3)
    try folder.delete("secret.md")
    try folder.delete("secret.txt")
    try folder.write("a.md", "The rest.\n")
    folder.grace()
    guard case .waiting(let reading) = try folder.folders.push(folder.root) else {
      Issue.record("it did not wait")
      return
    }
    #expect(reading.plan?.send == 1)
    #expect(try folder.confirm().firstSync)
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.scan.created == 1 && push.scan.deleted == 0)
    for request in bench.transport.sent {
      if case .bytes(let bytes) = request.body {
        #expect(!String(decoding: bytes, as: UTF8.self).contains("private"), "\(request.url)")
      }
    }
    folder.grace()
    #expect(try folder.push().scan.deleted == 0)
    #expect(try bench.titles() == ["a"])
    #expect(try bench.body(try bench.id("a")) == "The rest.\n")
  }

  @Test("F40.5 an event stream that does not begin is waited out: the push pulls what is held, and says why")
  func silentStream() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    try desk.machine.write("B.md", "More.\n")
    desk.bench.transport.before = { request in
      request.url.contains("/events") ? .failure(.timedOut("no answer began within 15 s")) : nil
    }
    let (push, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(push.catchUp.failed?.code == .streamIncomplete && push.pull != nil)
    #expect(try desk.bench.titles() == ["A", "B"])
    let (again, _) = try desk.push()
    #expect(again.catchUp.failed == nil)
  }

  @Test(
    "P1.3 a note whose lines are still owed, changed elsewhere and saved again, keeps both texts",
    arguments: ["A.md", "A.txt"], [false, true])
  func linesOwed(_ name: String, isPlain: Bool) throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.write(name, "Base.\n")
    _ = try desk.machine.scan()
    // A plain drain of the store tells the folder nothing.
    try desk.machine.folders.working(desk.machine.root, "drain") { folder in
      if isPlain { _ = try folder.copy.queue.drain() } else { _ = try folder.drain() }
    }
    let id = try desk.id("A")
    try desk.bench.edit(id, ["body": "Theirs.\n"])
    try desk.machine.folders.working(desk.machine.root, "catch-up") { _ = try $0.copy.catchUp() }
    try desk.machine.save(name, "Base.\nMine.\n")
    let (_, sent) = try desk.push()
    #expect(sent.edits(id).map { $0.body["version"]?.int } == [1], "\(sent)")
    for _ in 0..<2 { _ = try desk.push() }
    let bodies = try desk.bench.ids("A").map { try desk.properties($0)["body"]?.text?.string ?? "" }
    #expect(bodies.sorted() == ["Base.\nMine.\n", "Theirs.\n"])
  }

  @Test("F35 a note whose words the server has, trashed elsewhere before its lines were written, goes")
  func trashedBeforeLines() throws {
    let desk = try Desk()
    _ = try desk.push()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.machine.scan()
    try desk.machine.folders.working(desk.machine.root, "drain") { _ = try $0.drain() }
    let id = try desk.id("A")
    try desk.bench.ask("DELETE", "/items/\(id)")
    let (push, _) = try desk.push()
    #expect(push.pull?.removed == 1 && push.pull?.kept == 0, "\(push.json.compact)")
    #expect(desk.machine.files() == [])
  }

  @Test("F10.7 a picture renamed to a document's name stays bytes, and is not held")
  func pictureNamedAsDocument() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note", "core.file"]]])
    let path = desk.machine.root.appending("p.png")
    try desk.machine.disk.write(path, [0x89, 0x50, 0x4E, 0x47, 0, 0xFF])
    desk.bench.clock.advance(seconds: 3)
    for _ in 0..<2 { _ = try desk.push() }
    try desk.machine.rename("p.png", to: "p.md")
    let (push, _) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.created == 0 && push.scan.flagged.isEmpty, "\(push.json.compact)")
    #expect(try desk.machine.folders.status(desk.machine.root).files.map(\.state) == [.inStep])
    desk.machine.grace()
    _ = try desk.push()
    #expect(try desk.bench.titles() == ["p.md"])
  }
}

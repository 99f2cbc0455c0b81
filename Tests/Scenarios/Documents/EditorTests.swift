import FolderSync
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// Files under an editor's hands (P1), and what looks like an edit to a program alone (P7.1).
struct EditorTests {
  /// A desk whose folder holds one note; its file's text.
  func desk(_ body: Text = "First line.\nSecond line.\n") throws -> (desk: Desk, id: EntityID, text: String) {
    let desk = try Desk { try $0.item("A", body: body) }
    _ = try desk.push()
    return (desk, try desk.id("A"), try desk.machine.need("A.md"))
  }

  /// A running watch's passes over one machine: the engine stays, as a watch's does.
  func watch(_ machine: FolderMachine) throws -> FolderEngine { try machine.folders.open(machine.root, role: .writer) }

  @discardableResult
  func pass(_ engine: FolderEngine, after milliseconds: UInt64 = 250, _ clock: ManualClock) throws -> FolderPush {
    clock.advance(nanoseconds: milliseconds * 1_000_000)
    return try engine.sync(quick: true, isWatch: true)
  }

  /// The bodies edits of an item carried.
  func bodies(_ sent: [Sent], _ id: EntityID) -> [String] {
    sent.edits(id).compactMap { $0.body["properties"]?.string("body") }
  }

  @Test(
    "P-S1 an editor that truncates, waits 2 s and writes never has an empty or half text sent, by a watch or a push")
  func truncates() throws {
    for isWatch in [false, true] {
      let (desk, id, text) = try desk()
      let (machine, path) = (desk.machine, desk.machine.at("A.md"))
      let engine = try watch(machine)
      let edited = text.replacing("Second line.", with: "The edited second line.")
      func step() throws -> [Sent] {
        try desk.sent {
          if isWatch {
            try pass(engine, after: 500, desk.bench.clock)
          } else {
            let push = try machine.push()
            #expect(push.scan.settling == ["A.md"] || push.scan.updated == 1, "\(push.json.compact)")
          }
        }
      }
      if isWatch { try pass(engine, desk.bench.clock) }
      try machine.disk.write(path, "")
      try machine.disk.setOpenForWriting(path, true)
      var sent = try step()
      try machine.disk.write(path, String(edited.prefix(edited.count / 2)))
      sent += try step()
      try machine.disk.write(path, edited)
      sent += try step()
      #expect(sent.isEmpty, "\(sent.lines)")
      #expect(try desk.properties(id)["body"] == "First line.\nSecond line.\n")
      try machine.disk.setOpenForWriting(path, false)
      sent += try step()
      #expect(bodies(sent, id) == ["First line.\nThe edited second line.\n"])
      #expect(try desk.properties(id)["body"] == "First line.\nThe edited second line.\n")
      #expect(try desk.bench.titles() == ["A"])
    }
  }

  @Test("a push waits up to 2 s for a document being written, and sends it where it is let go by then (P1.2)")
  func pushWaits() throws {
    let (desk, id, text) = try desk()
    let (disk, path) = (desk.machine.disk, desk.machine.at("A.md"))
    try disk.write(path, text.replacing("Second", with: "Next"))
    try disk.setOpenForWriting(path, true)
    let waits = Mutex(0)
    desk.machine.whileWaiting = {
      let count = waits.withLock { count in
        count += 1
        return count
      }
      if count == 10 { try? disk.setOpenForWriting(path, false) }
    }
    let (push, sent) = try desk.push()
    #expect(push.scan.settling.isEmpty && bodies(sent, id) == ["First line.\nNext line.\n"], "\(push.json.compact)")
    #expect(waits.withLock { $0 } == 10)
    // One that is not let go is named, and nothing of it is sent.
    desk.machine.whileWaiting = nil
    try disk.write(path, text.replacing("Second", with: "Third"))
    try disk.setOpenForWriting(path, true)
    let before = desk.bench.clock.monotonic
    let (held, nothing) = try desk.push()
    #expect(held.scan.settling == ["A.md"] && nothing.isEmpty)
    #expect(held.json["scan"]?["settling"] == ["A.md"])
    #expect(desk.bench.clock.monotonic - before >= 2_000_000_000)
  }

  @Test("where no lease tells of writers a document is left until it has been still for 250 ms (P1.1)")
  func noLeases() throws {
    let bench = try FolderBench()
    let folder = try bench.folder()
    var features = MemoryDisk.Features()
    features.leases = false
    let machine = bench.machine(features: features)
    try machine.add(folder)
    _ = try machine.push()
    let engine = try watch(machine)
    try machine.disk.write(machine.at("New.md"), "Words.\n")
    let first = try pass(engine, after: 100, bench.clock)
    #expect(first.scan.settling == ["New.md"] && first.scan.created == 0)
    let second = try pass(engine, after: 200, bench.clock)
    #expect(second.scan.settling.isEmpty && second.scan.created == 1)
    #expect(try bench.titles() == ["New"])
  }

  @Test("P-S2 a note held open and appended to for a minute arrives at most every 5 s, and whole once it is closed")
  func heldOpen() throws {
    let (desk, id, text) = try desk()
    let (disk, path, clock) = (desk.machine.disk, desk.machine.at("A.md"), desk.bench.clock)
    let engine = try watch(desk.machine)
    try pass(engine, clock)
    try disk.setOpenForWriting(path, true)
    var written = text
    var arrivals: [UInt64] = []
    for second in 0..<60 {
      written += "Second \(second).\n"
      try disk.write(path, written)
      let sent = try desk.sent { for _ in 0..<4 { try pass(engine, clock) } }
      if !sent.edits(id).isEmpty {
        arrivals.append(clock.monotonic)
        #expect(bodies(sent, id).allSatisfy { written.hasSuffix($0) || written.contains($0) })
      }
    }
    #expect(arrivals.count >= 8 && arrivals.count <= 12, "\(arrivals.count)")
    for (one, next) in zip(arrivals, arrivals.dropFirst()) { #expect(next - one >= 5_000_000_000) }
    written += "The end.\n"
    try disk.write(path, written)
    try disk.setOpenForWriting(path, false)
    for _ in 0..<2 { try pass(engine, clock) }
    #expect(try desk.properties(id).string("body")?.hasSuffix("Second 59.\nThe end.\n") == true)
    #expect(try desk.bench.titles() == ["A"])
    #expect(desk.machine.files() == ["A.md"])
  }

  @Test("a watch never takes a document held open as emptied (P1.2)")
  func heldOpenEmpty() throws {
    let (desk, id, _) = try desk()
    let (disk, path, clock) = (desk.machine.disk, desk.machine.at("A.md"), desk.bench.clock)
    let engine = try watch(desk.machine)
    try pass(engine, clock)
    try disk.write(path, "")
    try disk.setOpenForWriting(path, true)
    let sent = try desk.sent { for _ in 0..<60 { try pass(engine, clock) } }
    #expect(sent.isEmpty)
    #expect(try desk.properties(id)["body"] == "First line.\nSecond line.\n")
    #expect(desk.machine.text("A.md") == "")
  }

  @Test("P-S3 an editor saving each second never finds its file changed by us; the lines come 10 s after the last save")
  func autosave() throws {
    let desk = try Desk()
    _ = try desk.push()
    let (machine, path, clock) = (desk.machine, desk.machine.at("Note.md"), desk.bench.clock)
    let engine = try watch(machine)
    try pass(engine, clock)
    var mine = ""
    for second in 0..<120 {
      try #require(second == 0 || machine.text("Note.md") == mine, "after \(second) saves")
      mine = "Saved \(second) times.\n" + mine
      try machine.disk.write(path, mine)
      for _ in 0..<4 { try pass(engine, clock) }
    }
    let note = try desk.id("Note")
    #expect(try desk.properties(note).string("body") == mine)
    for _ in 0..<35 { try pass(engine, clock) }
    #expect(machine.text("Note.md") == mine)
    var due = false
    for _ in 0..<8 where !due {
      try pass(engine, clock)
      due = machine.text("Note.md") != mine
    }
    #expect(try machine.lines("Note.md").contains("marfa_id: \(note)"))
    #expect(try machine.body("Note.md") == mine)
    let still = clock.now.milliseconds
    #expect(still > 0)
    let sent = try desk.sent { try pass(engine, clock) }
    #expect(sent.isEmpty)
    #expect(try desk.bench.titles() == ["Note"])
  }

  @Test(
    "lines wait while an editor's sign stands beside their file, and come once it is gone (P1.3)",
    arguments: [".A.md.swp", ".A.md.swo", ".#A.md", ".~lock.A.md#", "A.md~"])
  func editorSigns(_ sign: String) throws {
    let (desk, id, text) = try desk()
    let (machine, clock) = (desk.machine, desk.bench.clock)
    let engine = try watch(machine)
    try pass(engine, clock)
    let edited = text.replacing("Second", with: "Next")
    try machine.disk.write(machine.at("A.md"), edited)
    clock.advance(nanoseconds: 5_000_000)
    try machine.disk.write(machine.at(sign), "")
    for _ in 0..<6 { try pass(engine, after: 5000, clock) }
    #expect(try desk.properties(id)["body"] == "First line.\nNext line.\n")
    #expect(machine.text("A.md") == edited)
    // A buffer saved meanwhile is this edit's, not a conflict.
    let again = edited.replacing("First", with: "One")
    try machine.disk.write(machine.at("A.md"), again)
    clock.advance(nanoseconds: 5_000_000)
    try machine.disk.write(machine.at(sign), "")
    for _ in 0..<6 { try pass(engine, after: 5000, clock) }
    #expect(machine.text("A.md") == again)
    #expect(try desk.properties(id)["body"] == "One line.\nNext line.\n")
    try machine.disk.delete(machine.at(sign))
    try pass(engine, after: 5000, clock)
    #expect(try machine.lines("A.md").contains("marfa_version: 3"))
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("a push writes the lines at once, but not while a program has the file open for writing (P1.3)")
  func pushWritesLines() throws {
    let (desk, _, text) = try desk()
    try desk.machine.disk.write(desk.machine.at("A.md"), text.replacing("Second", with: "Next"))
    try desk.machine.disk.write(desk.machine.at(".A.md.swp"), "")
    _ = try desk.push()
    #expect(try desk.machine.lines("A.md").contains("marfa_version: 2"))
  }

  @Test("P-S6 names editors, portals and shares use while saving never become items")
  func temporaryNames() throws {
    let desk = try Desk(["title": "All", "search": [:], "include": ["*", ".*"]])
    try desk.machine.write("Note.md", "Words.\n")
    try desk.machine.write("Picture.png", "bytes")
    let names = [
      ".Note.md.swp", ".Note.md.swo", ".Note.md.swn", ".Note.md.swx", "Note.md~", "4913", ".goutputstream-AB12CD",
      "Note.md.aB3dE9",
      ".xdp-Note.md-aB3d",
      ".Note.md.aB3dE9", "Note.md.tmp.4711", ".sb-1a2b3c4d-XyZ123", "Picture.png.Q1w2E3", ".#Note.md",
      ".~lock.Note.md#",
    ]
    for name in names { try desk.machine.disk.write(desk.machine.at(name), "half a text") }
    let (push, _) = try desk.push()
    #expect(push.scan.created == 2, "\(push.json.compact)")
    #expect(try desk.bench.titles() == ["Note", "Picture.png"])
    for name in names { #expect(desk.machine.text(name) == "half a text") }
    let (_, sent) = try desk.push()
    #expect(sent.isEmpty)
  }

  @Test("P-S23 tags written as #work #home hold the file, naming the list form, and take no tag away")
  func hashTags() throws {
    let desk = try Desk { try $0.item("A", tags: ["kept"]) }
    _ = try desk.push()
    let id = try desk.id("A")
    try desk.machine.edit("A.md", "tags:\n  - kept\n", "tags: #work #home\n")
    let typed = try desk.machine.need("A.md")
    for _ in 0..<2 {
      let (push, sent) = try desk.push()
      #expect(sent.isEmpty)
      let reason = try #require(push.scan.flagged.reason("A.md", "unreadable"))
      #expect(reason.contains("list") && reason.contains("[work, home]"), "\(reason)")
      #expect(try desk.machine.need("A.md") == typed)
      #expect(try desk.tags(id) == ["kept"])
    }
    try desk.machine.edit("A.md", "tags: #work #home", "tags: [work, home]")
    _ = try desk.push()
    #expect(try desk.tags(id) == ["home", "work"])
  }

  // MARK: A store that cannot be read

  @Test("a binding whose facts cannot be read ends the pass with a clear error; nothing is sent or written")
  func damagedBinding() throws {
    let (desk, id, text) = try desk()
    let engine = try desk.machine.folders.open(desk.machine.root, role: .writer)
    for facts in ["{\"agreed\": 1, \"showed\": {\"body\": \"short\"}}", "{\"agreed\": ", "[]"] {
      try engine.store.database.run("UPDATE binding SET facts = ? WHERE item = ?", Text(facts), id)
      try desk.machine.save("A.md", text.replacing("Second", with: "Next"))
      var error: (any Error)?
      let sent = desk.sent { do { _ = try desk.machine.push() } catch let failure { error = failure } }
      #expect(sent.isEmpty)
      let words = error.map { "\($0)" } ?? "no error"
      #expect(words.contains("record of the file A.md cannot be read"), "\(words)")
      #expect(desk.machine.text("A.md") == text.replacing("Second", with: "Next"))
    }
    #expect(try desk.properties(id)["body"] == "First line.\nSecond line.\n")
  }
}

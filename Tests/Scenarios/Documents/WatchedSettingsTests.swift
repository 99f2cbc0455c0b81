import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Settings edited and grants changed while a folder goes on (F1.7, F1.20, F19.22 to F19.24), and files another folder of
/// the machine took in (F17.12).
struct WatchedSettingsTests {
  private static let yaml = ".marfa/folder.yaml"

  @Test("F-S1.15 a watch says why a settings edit is refused; where types change it hydrates nothing before a push")
  func refusedEdit() throws {
    let bench = try FolderBench()
    try bench.item("Book", type: "core.media.book")
    let folder = try KeptFolder(bench)
    try folder.push()
    let first = try #require(folder.text(Self.yaml))
    func settings() throws -> JSON { try bench.ask("GET", "/items/\(folder.id)")["item"] ?? .null }
    let before = try settings()
    let watch = ScriptedWatch(folder)
    // One refused here, one refused by the door, one that goes.
    let unknown = first + "colour: red\n"
    let noType = first.replacing("core.note", with: "core.nonsense")
    let books = first.replacing("core.note", with: "core.media.book")
    watch.save(Self.yaml, unknown, at: 20)
    watch.at(50) {
      #expect(folder.text(Self.yaml) == unknown)
      let now = try settings()
      #expect(now == before && !bench.writes.contains { $0.hasPrefix("PATCH /folders/") })
      #expect(watch.words.contains { $0.contains("folder.yaml") && $0.contains("colour") }, "\(watch.words)")
      bench.transport.clear()
      try folder.disk.write(folder.path(Self.yaml), noType)
    }
    watch.at(140) {
      #expect(folder.text(Self.yaml) == noType)
      let now = try settings()
      #expect(now == before)
      let said = watch.words.filter { $0.contains("unknown_type") }
      #expect(said.count == 1 && said[0].contains("folder.yaml") && said[0].contains("not in force"), "\(watch.words)")
      #expect(bench.writes.count { $0.hasPrefix("PATCH /folders/") } == 1, "the same text is sent once")
      bench.transport.clear()
      try folder.disk.write(folder.path(Self.yaml), books)
    }
    watch.save("Note.md", "Note.\n", at: 170)
    #expect(try watch.run(seconds: 230) == nil)
    let flagged = watch.passes.compactMap { $0.settings["flagged"]?.text?.string }
    #expect(
      flagged.contains { $0.contains("colour") } && flagged.contains { $0.contains("unknown_type") }, "\(flagged)")
    #expect(bench.writes.contains { $0.hasPrefix("PATCH /folders/") }, "\(bench.writes)")
    #expect(!bench.transport.requests.contains { $0.hasPrefix("GET /items?") }, "\(bench.transport.requests)")
    #expect(try settings()["properties"]?["search"]?["types"] == ["core.media.book"])
    #expect(!folder.files().contains("Book.md"))
    #expect(watch.passes.allSatisfy { $0.pull.isNull || $0.pull["written"] == 0 })
    let push = try folder.push()
    #expect(push.hydrated != nil && push.pull?.written == 1)
    #expect(folder.text("Book.md")?.contains("type: core.media.book\n") == true)
  }

  @Test(
    "F-S19.15 a grant narrowed has a placement sent once, not again while the key cannot be read, and again when restored",
    arguments: [true, false])
  func narrowedGrant(keyReadAtRefusal: Bool) throws {
    let bench = try FolderBench()
    let id = try bench.folder()
    let machine = bench.machine()
    let made = try bench.ask(
      "POST", "/keys",
      [
        "label": "Laptop", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"],
        "metadata_permissions": ["tags": "write"],
      ])
    machine.key = try #require(made.string("key"))
    let key = try #require((made["item"] ?? made).string("id") ?? made["api_key"]?.string("id"), "\(made.compact)")
    try machine.add(id)
    _ = try machine.push()
    var unreadable = false
    // The key can be read until the placement is refused, and not then.
    var turnsUnreadable = !keyReadAtRefusal
    bench.transport.before = { request in
      if turnsUnreadable, request.method == "POST", request.url.contains("/edges") {
        (turnsUnreadable, unreadable) = (false, true)
      }
      return unreadable && request.url.hasSuffix("/keys/current")
        ? .success(HTTPResponse(refusing: 503, "unavailable")) : nil
    }
    func grant(_ edges: JSON) throws {
      try bench.ask("PATCH", "/keys/\(key)", ["edge_permissions": edges, "type_permissions": ["*": "write"]])
    }
    func placements(_ work: () throws -> Void) rethrows -> Int {
      bench.transport.clear()
      try work()
      return bench.writes.count { $0.contains("/edges") }
    }
    try grant(["*": "write", "in-folder": "read"])
    let item = try bench.item("Theirs", body: "Theirs.\n")
    var last: FolderPush?
    let pushed = { last = try machine.push() }
    #expect(try placements(pushed) == 1)
    #expect(try bench.placements(of: item).isEmpty)
    // Narrowed still, and unreadable or readable: it is not sent again.
    unreadable = false
    #expect(try placements(pushed) == 0, "a key unread at the refusal is not another key")
    #expect(last?.pull?.unplaced == 1 && machine.text("Theirs.md") != nil)
    unreadable = true
    #expect(try placements(pushed) == 0)
    #expect(last?.pull?.unplaced == 1)
    unreadable = false
    #expect(try placements(pushed) == 0)
    try grant(["*": "write"])
    #expect(try placements { for _ in 0..<2 { try pushed() } } == 1)
    #expect(try bench.placements(of: item).map(\.path) == ["Theirs.md"])
    #expect(last?.pull?.unplaced == 0)
    #expect(try placements(pushed) == 0)
    #expect(try machine.folders.open(machine.root, role: .reader).copy.queue.all().allSatisfy { !$0.isWaiting })
  }

  @Test(
    "F-S17.9 a copy at the old placement of an item another folder took in is a new item",
    arguments: ["a.txt", "a.png"])
  func copyOfTakenIn(_ name: String) throws {
    let types: [JSON] = ["core.note", "core.file"]
    let both = try TwoFolders(
      TwoFolders.tagged("a", types, ["defaults": ["tags": ["a"]]]), TwoFolders.tagged("b", types))
    let bytes = name.hasSuffix("png") ? BytesScenarios.png : Array("Words.\n".utf8)
    try both.one.write(name, bytes: bytes)
    try both.one.push()
    let title = name.hasSuffix("png") ? name : "a"
    let item = try both.bench.id(title)
    try both.bench.place(item, in: both.two.id, at: name)
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.two.push().pull?.taken == 1)
    try both.two.push()
    try both.one.push()
    both.one.grace()
    try both.one.push()
    try both.two.push()
    #expect(both.two.files() == [name], "\(both.one.files()) \(both.two.files())")
    #expect(try both.two.isBound(item))
    try #require(both.one.files().isEmpty, "\(both.one.files())")
    #expect(try !both.one.isBound(item))
    try both.copy(name, from: both.two, into: both.one)
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.created == 1, "\(push.json.compact)")
    #expect(both.creates.count == 1)
    #expect(try both.bench.ids(title).count == 2)
    #expect(both.one.files() == [name] && both.one.bytes(name) == bytes)
    both.one.grace()
    #expect(try both.one.push().drain.drain.answered == 0)
    #expect(both.deletes.isEmpty)
  }
}

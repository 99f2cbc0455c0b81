import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What a person does between a landing's last look and its rename (F20.6 to F20.11, P1.4), and a crash in a take-in
/// (F44).
struct LastMomentTests {
  /// Every body of an item out of the bin.
  func bodies(_ bench: FolderBench) throws -> [String] {
    let list = try bench.ask("GET", "/items?tier=all&state=any&limit=200&include=metadata")
    return (list["data"]?.array ?? []).compactMap { row in
      guard row["item"]?.string("state") != "trashed" else { return nil }
      return row["item"]?["properties"]?.string("body")
    }.sorted()
  }

  @Test(
    "F-S20.10 a save at the last moment over a file to be taken away, rewritten, moved or let go stays, and is sent")
  func savedAtTheLastMoment() throws {
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    let names = ["Away", "Changed", "LetGo", "Moved"]
    var items: [String: EntityID] = [:]
    for name in names { items[name] = try both.bench.item(Text(name), body: Text("Words of \(name).\n"), tags: ["a"]) }
    try both.one.push()
    #expect(both.one.files() == names.map { "\($0).md" })
    let texts = try names.map { try #require(both.one.text("\($0).md")) }
    let away = try #require(items["Away"])
    let changed = try #require(items["Changed"])
    let letGo = try #require(items["LetGo"])
    let moved = try #require(items["Moved"])
    // The other folder has its own file of the one to be let go: it is written anew there, since this one was changed.
    try both.retag(letGo, from: "a", to: "b")
    try both.one.push()
    try both.one.append("LetGo.md", "More.\n")
    #expect(try both.two.push().pull?.written == 1)
    try both.one.write("LetGo.md", texts[2])
    try both.one.scan()
    try both.bench.trash(away)
    try both.bench.edit(changed, ["body": "Theirs.\n"])
    let placement = try #require(try both.bench.placements(of: moved).first)
    try both.bench.ask(
      "PATCH", "/edges/\(placement.edge)", ["version": 1, "properties": ["path": "sub/Moved.md"]])

    let (disk, root) = (both.machine.disk, both.one.root)
    both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      guard point == .lastLook, let place = names.firstIndex(where: { "\($0).md" == name.description }),
        disk.read(root.appending(name)) == Array(texts[place].utf8)
      else { return }
      try disk.save(root.appending(name), Array((texts[place] + "Saved last.\n").utf8))
    }
    let push = try both.one.push()
    both.machine.door = .none
    for (name, text) in zip(names, texts) { #expect(both.one.text("\(name).md") == text + "Saved last.\n", "\(name)") }
    let pull = try #require(push.pull)
    #expect(pull.kept == 1 && pull.removed == 0 && pull.letGo == 0 && pull.unwritten >= 1, "\(pull.json.compact)")
    #expect(both.one.text("sub/Moved.md")?.hasSuffix("Words of Moved.\n") == true)
    // Every word saved is on the server afterwards, and nothing the person saved was taken away.
    for _ in 0..<3 {
      both.one.grace()
      try both.one.push()
      try both.two.push()
    }
    let held = try bodies(both.bench)
    for name in names.dropFirst() {
      #expect(held.contains("Words of \(name).\nSaved last.\n"), "\(name): \(held)")
    }
    // The one whose item is in the bin is kept for the person: an item there takes no edit (F35).
    #expect(both.one.text("Away.md")?.hasSuffix("Words of Away.\nSaved last.\n") == true)
    #expect(held.contains("Theirs.\n"), "\(held)")
    #expect(both.one.files().allSatisfy { !$0.hasSuffix(".tmp") })
  }

  enum Cut: CaseIterable { case beforeRename, afterRename, beforeCopy, whileCopying, beforePublish }

  @Test(
    "F-S20.7 a crash while a file is taken in leaves it where it was, or where it goes, with no delete",
    arguments: Cut.allCases)
  func takingIn(_ cut: Cut) throws {
    let isCopied = cut != .beforeRename && cut != .afterRename
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"), otherVolume: isCopied)
    let item = try both.bench.item("a", body: "A.\n", tags: ["a"])
    try both.one.push()
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    let text = try #require(both.one.text("a.md"))
    let (disk, target) = (both.machine.disk, both.two.root)
    both.machine.faults = Faults { call in
      let isHere = call.name.name == "a.md"
      let hasTemporary = disk.tree(target).contains { $0.path.name.description.hasPrefix(".marfa-") }
      switch cut {
      case .beforeRename: return call.operation == .rename && isHere ? .crash : .proceed
      // The rename happened; what is recorded of it afterwards is lost.
      case .afterRename: return disk.read(target.appending("a.md")) != nil ? .crash : .proceed
      case .beforeCopy:
        return call.operation == .create && call.name.description.contains(".marfa-") ? .crash : .proceed
      case .whileCopying: return call.operation == .write && hasTemporary ? .crash : .proceed
      case .beforePublish: return call.operation == .rename && isHere && hasTemporary ? .crash : .proceed
      }
    }
    both.bench.transport.clear()
    #expect(refusal { try both.two.push() } != nil)
    #expect(both.machine.faults?.crashed == true)
    both.machine.restart()
    if cut == .afterRename {
      #expect(both.one.files().isEmpty && both.two.text("a.md") == text)
    } else {
      #expect(both.one.text("a.md") == text && both.two.text("a.md") == nil)
      #expect(try both.one.scan().missing == 0)
    }
    let push = try both.two.push()
    #expect(push.scan.missing == 0 && push.scan.created == 0, "\(push.json.compact)")
    #expect(both.one.files().isEmpty && both.two.files() == ["a.md"] && both.two.text("a.md") == text)
    #expect(try both.two.isBound(item))
    for _ in 0..<2 {
      both.one.grace()
      let left = try both.one.push()
      #expect(left.scan.deleted == 0)
      #expect(try both.two.push().scan.deleted == 0)
    }
    #expect(both.deletes.isEmpty && both.creates.isEmpty, "\(both.bench.writes)")
    #expect(try both.bench.titles() == ["a"])
    #expect(try both.bench.body(item) == "A.\n")
  }

  @Test(
    "P-S5 a save between the last look and the landing: both texts survive",
    arguments: [FaultPoint.afterLastLook, .rename], [true, false])
  func savedBetween(_ at: FaultPoint, byRename: Bool) throws {
    for exchanges in [true, false] where exchanges || byRename == false {
      let desk = try Desk { try $0.item("A", body: "Words.\n") }
      _ = try desk.push()
      let id = try desk.id("A")
      let text = try desk.machine.need("A.md")
      try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
      let (disk, path) = (desk.machine.disk, desk.machine.at("A.md"))
      var features = MemoryDisk.Features()
      features.exchange = exchanges
      disk.setFeatures(features)
      desk.machine.door = FaultDoor { (point, name, _) throws(FileError) in
        guard point == at, name == "A.md", disk.read(path) == Array(text.utf8) else { return }
        let mine = Array(text.replacing("Words.", with: "Mine.").utf8)
        if byRename { try disk.save(path, mine) } else { try disk.write(path, mine) }
      }
      let (push, _) = try desk.push()
      desk.machine.door = .none
      guard exchanges else {
        // The limit of F20.14: a file system that cannot exchange. The file is named.
        #expect(push.pull?.flagged.flags("A.md") == ["unguarded"], "\(push.json.compact)")
        continue
      }
      #expect(desk.machine.files() == ["A.md"] && desk.machine.text("A.md")?.hasSuffix("Mine.\n") == true)
      for _ in 0..<2 { _ = try desk.push() }
      #expect(try bodies(desk.bench).sorted() == ["Mine.\n", "Theirs.\n"])
      #expect(try desk.state(id) == "active")
      #expect(desk.machine.files().count == 2 && desk.machine.files().allSatisfy { $0.hasSuffix(".md") })
      #expect(try desk.push().sent.isEmpty)
    }
  }

  @Test("three saves in a row around an exchange and its undoing: every text survives (P1.4)")
  func savedThrice() throws {
    let desk = try Desk { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    let id = try desk.id("A")
    let text = try desk.machine.need("A.md")
    try desk.patch(id, ["properties": ["body": "Theirs.\n"]])
    let (disk, path) = (desk.machine.disk, desk.machine.at("A.md"))
    @Sendable func mine(_ word: String) -> [UInt8] { Array(text.replacing("Words.", with: word).utf8) }
    let (first, second) = (Flag1(), Flag1())
    desk.machine.faults = Faults { call in
      guard call.operation == .rename, call.name.name == "A.md" else { return .proceed }
      // Before the exchange the first save; before the exchange that undoes it, the second.
      if first.first() {
        try? disk.save(path, mine("First."))
      } else if second.first() {
        try? disk.save(path, mine("Second."))
      }
      return .proceed
    }
    _ = try desk.push()
    desk.machine.faults = nil
    for _ in 0..<3 {
      desk.bench.clock.advance(seconds: 2)
      _ = try desk.push()
    }
    let held = try bodies(desk.bench)
    for word in ["First.\n", "Second.\n", "Theirs.\n"] { #expect(held.contains(word), "\(held)") }
    #expect(desk.machine.files().allSatisfy { $0.hasSuffix(".md") }, "\(desk.machine.files())")
    #expect(try desk.push().sent.isEmpty)
  }

  enum Act: CaseIterable { case rename, move, delete }

  @Test(
    "P-S28 a note renamed, moved or deleted between the last look and its landing: one item, no file at the old name",
    arguments: Act.allCases, [FaultPoint.lastLook, .afterLastLook, .rename])
  func gone(_ act: Act, at point: FaultPoint) throws {
    let desk = try Desk { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    try round(desk, try desk.id("A"), from: "A.md", act, to: act == .move ? "sub/A.md" : "B.md", at: point, number: 0)
  }

  /// Another device edits a note, and as the edit lands here the person renames, moves or deletes the file.
  func round(
    _ desk: Desk, _ id: EntityID, from: String, _ act: Act, to: String, at point: FaultPoint, number: Int
  ) throws {
    let machine = desk.machine
    try desk.patch(id, ["properties": ["body": .string(Text("Theirs \(number).\n"))]])
    let (disk, old, new) = (machine.disk, machine.at(from), machine.at(to))
    let acted = Flag1()
    machine.door = FaultDoor { (at, name, _) throws(FileError) in
      guard at == point, name == PathBytes(from).name, acted.first() else { return }
      switch act {
      case .delete: try disk.delete(old)
      case .rename: try disk.rename(old, to: new)
      case .move:
        if disk.status(new.parent) == nil { try disk.makeDirectory(new.parent) }
        try disk.rename(old, to: new)
      }
    }
    let (push, sent) = try desk.push()
    machine.door = .none
    try #require(!acted.first(), "the landing never came to its \(point): \(push.json.compact)")
    let said = "\(act) at \(point), round \(number): \(push.json.compact)"
    #expect(sent.creates.isEmpty, "\(said)")
    #expect(machine.text(from) == nil, "\(said)")
    #expect(machine.files() == (act == .delete ? [] : [to]), "\(machine.files()) \(said)")
    #expect(push.pull?.unwritten == 1 && push.pull?.rewritten == 0, "\(said)")
    let (next, _) = try desk.push()
    switch act {
    case .delete:
      #expect(next.scan.missing == 1 || next.pull?.revived == 1, "\(next.json.compact)")
    case .rename, .move:
      #expect(next.scan.renamed == 1 && next.scan.missing == 0, "\(next.json.compact)")
      #expect(try machine.body(to) == "Theirs \(number).\n")
      #expect(try desk.placed(id) == to)
    }
    #expect(try desk.bench.titles() == ["A"])
  }

  @Test("P-S28 in 500 random runs: one item, no file at the old name, and a delete goes as a delete")
  func goneAtRandom() throws {
    var random = SplitMix(seed: 28)
    let desk = try Desk { try $0.item("A", body: "Words.\n") }
    _ = try desk.push()
    var id = try desk.id("A")
    var path = "A.md"
    for number in 1...500 {
      let act = [Act.rename, .move, .rename, .move, .delete].randomElement(using: &random) ?? .rename
      let point = [FaultPoint.lastLook, .afterLastLook, .rename].randomElement(using: &random) ?? .rename
      let name = "A\(number).md"
      let target = act == .move ? "d\(Int.random(in: 0..<4, using: &random))/\(name)" : name
      try round(desk, id, from: path, act, to: target, at: point, number: number)
      path = target
      if act == .delete {
        desk.machine.grace()
        _ = try desk.push()
        _ = try desk.push()
        // Another device changed it in what the file shows: it is written back (F21.4), or the delete went.
        if try desk.state(id) == "trashed" {
          #expect(desk.machine.files().isEmpty)
          id = try desk.bench.item("A", body: "Words.\n")
          _ = try desk.push()
        }
        let files = desk.machine.files()
        try #require(files.count == 1, "\(number): \(files)")
        path = files[0]
      }
      guard number % 20 == 0 else { continue }
      let (_, sent) = try desk.push()
      #expect(sent.isEmpty, "round \(number): \(sent.lines)")
    }
    #expect(try desk.bench.titles() == ["A"])
  }
}

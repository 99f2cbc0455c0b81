import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Files one folder lets go and another takes in (F44).
struct LetGoScenarios {
  /// Two folders by tag, and an item of the first.
  private func retagged(
    _ first: JSON = TwoFolders.tagged("a"), _ second: JSON = TwoFolders.tagged("b"), otherVolume: Bool = false,
    at path: String = "a.md"
  ) throws -> (both: TwoFolders, item: EntityID) {
    let both = try TwoFolders(first, second, otherVolume: otherVolume)
    let item = try both.bench.item("a", body: "A.\n", tags: ["a"])
    if path != "a.md" { try both.bench.place(item, in: both.one.id, at: path) }
    try both.one.push()
    #expect(both.one.files() == [path])
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.one.status(of: path)?.state == .unmatched)
    return (both, item)
  }

  @Test("F-S340 a retagged item's file is taken in; the other way round it is let go; later it is not written back")
  func takenOrLetGo() throws {
    let (both, item) = try retagged()
    let identity = both.machine.disk.status(both.one.path("a.md"))?.identity
    both.bench.transport.clear()
    let push = try both.two.push()
    #expect(push.pull?.taken == 1 && push.pull?.written == 0 && push.pull?.flagged.isEmpty == true)
    #expect(both.one.files().isEmpty && both.two.files() == ["a.md"])
    #expect(both.machine.disk.status(both.two.path("a.md"))?.identity == identity)
    #expect(both.creates.isEmpty)
    let quiet = try both.two.push()
    #expect(quiet.scan.updated == 0 && quiet.scan.renamed == 0 && quiet.drain.drain.answered == 0)
    try both.bench.edit(item, ["body": "Changed.\n"])
    let first = try both.one.push()
    #expect(first.pull?.written == 0 && both.one.files().isEmpty)
    both.one.grace()
    let left = try both.one.push()
    #expect(left.scan.movedAway == 1 && left.scan.deleted == 0 && left.pull?.written == 0)
    #expect(both.one.files().isEmpty)
    try both.two.push()
    #expect(both.two.text("a.md")?.hasSuffix("Changed.\n") == true)
    // Past the grace, a file at the old path is a copy.
    try both.copy("a.md", from: both.two, into: both.one)
    #expect(try both.one.push().scan.created == 1)
    #expect(try both.bench.ids("a").count == 2)

    // The other way round: it is written where the item is held now, then let go here.
    let second = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    let other = try second.bench.item("o", tags: ["a"])
    try second.one.push()
    try second.retag(other, from: "a", to: "b")
    let written = try second.two.push()
    #expect(written.pull?.written == 1 && written.pull?.taken == 0)
    second.bench.transport.clear()
    let gone = try second.one.push()
    #expect(gone.pull?.letGo == 1 && gone.pull?.unmatched == 0 && gone.pull?.removed == 0)
    #expect(second.one.files().isEmpty && second.two.files() == ["o.md"])
    #expect(second.deletes.isEmpty)
    second.one.grace()
    #expect(try second.one.push().scan.missing == 0)
    #expect(try second.bench.titles() == ["o"])
  }

  @Test("F44.10 a file taken in and saved there at once has moved for the folder it left, whatever its bytes")
  func takenAndSaved() throws {
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    try both.one.write("t.txt", "Words.\n")
    try both.one.push()
    let item = try both.bench.id("t")
    try both.tag(item, "a")
    try both.one.push()
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.two.push().pull?.taken == 1)
    // A save through a new file, not sent yet: neither identity nor bytes tell it from another file.
    try both.two.write("fresh", "Words and more.\n")
    try both.two.rename("fresh", to: "t.txt")
    try both.one.push()
    both.one.grace()
    let left = try both.one.push()
    #expect(left.scan.movedAway == 1 && left.scan.deleted == 0, "\(left.json.compact)")
    try both.two.push()
    let row = try both.bench.row(item)["item"]
    #expect(row?["state"] == "active" && row?["properties"]?["body"] == "Words and more.\n", "\(row?.compact ?? "")")
  }

  @Test("F43.2 a text file copied to another folder, taken there and brought back inside the grace keeps its item")
  func broughtBack() throws {
    let both = try TwoFolders(["title": "One", "search": ["types": ["core.note"]]], TwoFolders.tagged("b"))
    try both.one.write("t.txt", "Words.\n")
    try both.one.push()
    let item = try both.bench.id("t")
    try both.copy("t.txt", from: both.one, into: both.two)
    try both.one.delete("t.txt")
    try both.two.push()
    try both.one.push()
    try both.move("t.txt", to: "back.txt", from: both.two, into: both.one)
    let back = try both.one.push()
    #expect(back.scan.created == 0 && back.scan.renamed == 1, "\(back.json.compact)")
    both.one.grace()
    try both.one.push()
    try both.two.push()
    both.two.grace()
    let left = try both.two.push()
    #expect(left.scan.movedAway == 1 && left.scan.deleted == 0, "\(left.json.compact)")
    #expect(try both.bench.ids("t") == [item] && both.bench.row(item)["item"]?["state"] == "active")
  }

  @Test("F-S341 a file edited before or during the taking stays for its folder to send", arguments: [false, true])
  func edited(during: Bool) throws {
    let (both, item) = try retagged()
    let source = both.one.path("a.md")
    let edited = try #require(both.one.text("a.md")) + "Edited.\n"
    let disk = both.machine.disk
    if during {
      both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
        if point == .lastLook, name == "a.md", disk.read(source) != Array(edited.utf8) {
          try disk.write(source, edited)
        }
      }
    } else {
      try both.one.write("a.md", edited)
    }
    let push = try both.two.push()
    both.machine.door = .none
    #expect(push.pull?.taken == 0 && push.pull?.written == 1)
    #expect(both.one.text("a.md") == edited && both.two.files() == ["a.md"])
    try both.one.push()
    #expect(try both.bench.body(item) == "A.\nEdited.\n")
    try both.two.push()
    #expect(both.two.text("a.md")?.hasSuffix("A.\nEdited.\n") == true)
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S342 an item that left by state is not taken in: each folder writes and removes its own file")
  func byState() throws {
    let both = try TwoFolders(
      ["title": "Active", "search": ["types": ["core.note"], "state": ["active"]]],
      ["title": "Archive", "search": ["types": ["core.note"], "state": ["archived"]]])
    let item = try both.bench.item("a", body: "A.\n")
    try both.one.push()
    try both.bench.state(item, "archived")
    let push = try both.two.push()
    #expect(push.pull?.taken == 0 && push.pull?.written == 1)
    let left = try both.one.push()
    #expect(left.pull?.removed == 1 && left.pull?.letGo == 0)
    #expect(both.one.files().isEmpty && both.two.files() == ["a.md"])
    #expect(try both.bench.placements(of: item).map(\.folder) == [both.two.id])
  }

  @Test("F-S343 a file that appears at the destination stands, and so does the source", arguments: [false, true])
  func appearing(copied: Bool) throws {
    let (both, item) = try retagged(otherVolume: copied)
    let (disk, target) = (both.machine.disk, both.two.path("a.md"))
    let step: FaultPoint = copied ? .copyPublish : .rename
    both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == step, name == "a.md", disk.status(target) == nil { try disk.write(target, "Mine.\n") }
    }
    let pull = try both.two.pull()
    both.machine.door = .none
    #expect(pull.unwritten == 1 && pull.taken == 0 && pull.written == 0)
    #expect(pull.flagged.map(\.item) == [item.description])
    #expect(both.two.files() == ["a.md"] && both.two.text("a.md") == "Mine.\n")
    #expect(both.one.text("a.md")?.hasSuffix("A.\n") == true)
    #expect(try both.one.isBound(item) && !both.two.isBound(item))
    try disk.delete(target)
    let next = try both.two.pull()
    #expect(next.taken == 1 && next.unwritten == 0)
    #expect(both.one.files().isEmpty && both.two.text("a.md")?.hasSuffix("A.\n") == true)
  }

  @Test(
    "F-S344 an identical file that appears is adopted by the next pull; the path's previous owner is deleted all the same",
    arguments: [false, true])
  func identicalAppearing(owned: Bool) throws {
    let (both, item) = try retagged()
    var previous: EntityID?
    if owned {
      let owner = try both.bench.item("p", tags: ["b"])
      previous = owner
      try both.bench.place(owner, in: both.two.id, at: "a.md")
      try both.bench.ask("DELETE", "/items/\(item)/tags/b")
      try both.two.push()
      #expect(both.two.files() == ["a.md"])
      try both.two.delete("a.md")
      try both.two.push()
      try both.tag(item, "b")
      try both.one.push()
    }
    let text = try #require(both.one.text("a.md"))
    let (disk, target) = (both.machine.disk, both.two.path("a.md"))
    both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .rename, name == "a.md", disk.status(target) == nil { try disk.write(target, text) }
    }
    let pull = try both.two.pull()
    both.machine.door = .none
    #expect(pull.taken == 0 && pull.unwritten == 1)
    #expect(try !both.two.isBound(item))
    let next = try both.two.pull()
    #expect(next.taken == 0 && next.unchanged == 1 && next.unwritten == 0, "\(next.json.compact)")
    #expect(try both.two.isBound(item))
    #expect(both.two.text("a.md") == text)
    both.two.grace()
    both.bench.transport.clear()
    let push = try both.two.push()
    #expect(push.scan.updated == 0 && push.scan.created == 0)
    if let previous {
      #expect(push.scan.deleted == 1 && both.deletes.count == 1)
      #expect(try both.bench.isTrashed(previous))
    } else {
      #expect(both.deletes.isEmpty)
    }
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S345 a source whose directory refuses removal stays, and nothing is copied; allowed again it is taken")
  func refusedRemoval() throws {
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    let (control, locked) = (try both.bench.item("control", tags: ["a"]), try both.bench.item("a", tags: ["a"]))
    try both.bench.place(locked, in: both.one.id, at: "locked/a.md")
    try both.one.push()
    for item in [control, locked] { try both.retag(item, from: "a", to: "b") }
    try both.one.push()
    try both.machine.disk.setMode(both.one.path("locked"), 0o555)
    let push = try both.two.push()
    #expect(push.pull?.taken == 1 && push.pull?.unwritten == 1 && push.pull?.written == 0)
    #expect(both.two.files() == ["control.md"] && both.one.files() == ["locked/a.md"])
    #expect(try both.one.isBound(locked) && !both.two.isBound(locked))
    try both.machine.disk.setMode(both.one.path("locked"), 0o755)
    #expect(try both.two.push().pull?.taken == 1)
    #expect(both.two.files() == ["a.md", "control.md"] && both.one.files().isEmpty)
  }

  @Test(
    "F-S346 a copied file whose source cannot be removed is retained there until it can be", arguments: [false, true])
  func retained(edited: Bool) throws {
    let (both, item) = try retagged(otherVolume: true, at: "locked/a.md")
    let disk = both.machine.disk
    let (source, target) = (both.one.path("locked/a.md"), both.two.path("a.md"))
    try disk.setMode(source, 0o640)
    try disk.setAttribute(source, "user.note", [7])
    try disk.setMode(both.one.path("locked"), 0o555)
    let before = try #require(disk.status(source))
    let bytes = disk.read(source)
    #expect(try both.two.push().pull?.taken == 1)
    #expect(disk.read(target) == bytes && disk.read(source) == bytes)
    let copy = try #require(disk.status(target))
    #expect(copy.mode == before.mode && copy.identity != before.identity)
    let attributes = try MemoryFileSystem(disk).openDirectory(both.two.root).open("a.md").attributes()
    #expect(attributes.contains { $0.name == "user.note" && $0.value == [7] })
    let rows = try both.one.reading { try $0.store.bindings() }
    let other = try both.bench.item("other", tags: ["a"])
    for round in 1...2 {
      try both.bench.edit(other, ["body": .string(Text("Round \(round).\n"))])
      let pull = try both.one.pull()
      #expect(pull.unwritten == 1 && pull.unmatched == 1 && pull.letGo == 0 && pull.rewritten + pull.written == 1)
      #expect(pull.flagged.map(\.flag) == ["retained"] && pull.flagged[0].item == item.description)
      #expect(try both.one.reading { try $0.store.binding(of: item) } == rows.first { $0.item == item })
      #expect(disk.read(source) == bytes)
    }
    if edited {
      try disk.setMode(both.one.path("locked"), 0o755)
      try both.one.append("locked/a.md", "Edited.\n")
      let push = try both.one.push()
      #expect(push.scan.updated == 1)
      #expect(try both.bench.body(item) == "A.\nEdited.\n")
    } else {
      try disk.setMode(both.one.path("locked"), 0o755)
      let pull = try both.one.pull()
      #expect(pull.letGo == 1 && pull.flagged.isEmpty)
      #expect(both.one.files() == ["other.md"] && disk.read(target) == bytes)
    }
  }

  enum Failing: CaseIterable { case copy, attribute, sync, link, crashBefore, crashAfter }

  @Test(
    "F-S347 whatever fails in a copy, the source stands, no temporary file stays and a retry takes it",
    arguments: Failing.allCases)
  func failing(_ failing: Failing) throws {
    let (both, item) = try retagged(otherVolume: true)
    let (disk, target) = (both.machine.disk, both.two.path("a.md"))
    let text = both.one.text("a.md")
    switch failing {
    case .copy, .attribute:
      let step: FaultPoint = failing == .copy ? .copy : .attributes
      both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
        if point == step, name == "a.md" { throw FileError(code: EIO, operation: "copy", path: name) }
      }
    case .sync: both.machine.faults = Faults.failing(.sync, code: EIO)
    case .link:
      both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
        if point == .copyPublish, name == "a.md", disk.status(target) == nil { try disk.makeLink(target, to: "/etc") }
      }
    case .crashBefore:
      let root = both.two.root
      both.machine.faults = Faults { call in
        // The first rename to it is refused between volumes; the second publishes the copy.
        let isCopied = disk.tree(root).contains { $0.path.name != "a.md" && $0.path.parent.isEmpty }
        return call.operation == .rename && call.name.name == "a.md" && isCopied ? .crash : .proceed
      }
    case .crashAfter:
      both.machine.faults = Faults { call in
        call.operation == .unlink && call.name.name == "a.md" ? .crash : .proceed
      }
    }
    let crashes = failing == .crashBefore || failing == .crashAfter
    if crashes {
      #expect(refusal { try both.two.pull() } != nil)
      #expect(both.machine.faults?.crashed == true)
    } else {
      let pull = try both.two.pull()
      #expect(pull.taken == 0 && pull.unwritten == 1)
      #expect(both.two.files() == [])
    }
    #expect(both.one.text("a.md") == text)
    both.machine.restart()
    if failing == .link { try disk.delete(target) }
    let push = try both.two.push()
    #expect(push.scan.missing == 0)
    #expect(push.pull?.taken == (failing == .crashAfter ? 0 : 1))
    #expect(both.two.files() == ["a.md"] && both.two.text("a.md") == text)
    #expect(try both.two.isBound(item))
    let left = try both.one.push()
    #expect(left.pull?.letGo == (failing == .crashAfter ? 1 : 0))
    #expect(both.one.files().isEmpty)
    both.one.grace()
    both.bench.transport.clear()
    try both.one.push()
    #expect(both.deletes.isEmpty)
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S348 a copy put where a picture was that another folder took in is one new item")
  func copyPutBack() throws {
    let both = try TwoFolders(
      TwoFolders.tagged("a", ["core.file.image"]), TwoFolders.tagged("b", ["core.file.image"]))
    let item = try both.bench.file("photo.png", BytesScenarios.png, type: "core.file.image", mime: "image/png")
    try both.tag(item, "a")
    try both.one.push()
    #expect(both.one.files() == ["photo.png"])
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.two.push().pull?.taken == 1)
    try both.one.push()
    both.one.grace()
    #expect(try both.one.push().scan.movedAway == 1)
    try both.copy("photo.png", from: both.two, into: both.one)
    both.bench.transport.clear()
    #expect(try both.one.push().scan.created == 1)
    #expect(both.creates.count == 1)
    #expect(try both.bench.ids("photo.png").count == 2)
    #expect(both.two.files() == ["photo.png"] && both.one.files() == ["photo.png"])
  }

  enum Leaving: CaseIterable { case taken, letGo, byHand, failedOnce }

  @Test("F-S349 the folder a file left ends its own placement, and no other", arguments: Leaving.allCases)
  func placements(_ leaving: Leaving) throws {
    let both = try TwoFolders(
      leaving == .byHand ? KeptFolder.notes : TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    let item = try both.bench.item("a", body: "A.\n", tags: ["a"])
    try both.one.push()
    #expect(try both.one.placement(of: item) == "a.md")
    switch leaving {
    case .byHand: try both.move("a.md")
    case .letGo:
      try both.retag(item, from: "a", to: "b")
      try both.two.push()
      let push = try both.one.push()
      #expect(push.pull?.letGo == 1 && push.pull?.ended == 1)
    case .taken, .failedOnce:
      try both.retag(item, from: "a", to: "b")
      try both.one.push()
      #expect(try both.two.push().pull?.taken == 1)
    }
    try both.one.push()
    try both.two.push()
    both.one.grace()
    if leaving == .failedOnce {
      try both.machine.refuseEnds(of: both.one.root)
      #expect(refusal { try both.one.push() } != nil)
      #expect(try both.one.isBound(item) && both.one.placement(of: item) == "a.md")
      try both.machine.takeEnds(of: both.one.root)
    }
    let push = try both.one.push()
    if leaving != .letGo { #expect(push.scan.movedAway == 1) }
    #expect(push.scan.deleted == 0)
    try both.two.push()
    #expect(try both.two.placement(of: item) == "a.md")
    #expect(try both.one.placement(of: item) == (leaving == .byHand ? "a.md" : nil))
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S350 a crash before the take-in's rename misses nothing, and the next push takes the file")
  func crashBeforeRename() throws {
    let (both, item) = try retagged()
    both.machine.faults = Faults { call in
      call.operation == .rename && call.name.name == "a.md" ? .crash : .proceed
    }
    #expect(refusal { try both.two.push() } != nil)
    both.machine.restart()
    #expect(both.one.files() == ["a.md"] && both.two.files().isEmpty)
    #expect(try both.one.scan().missing == 0)
    let push = try both.two.push()
    #expect(push.scan.missing == 0 && push.pull?.taken == 1)
    #expect(both.one.files().isEmpty && both.two.files() == ["a.md"])
    #expect(try both.two.isBound(item))
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S351 a save at the last look of a let-go stands")
  func savedAtLastLook() throws {
    let (both, item) = try retagged(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    let (disk, source) = (both.machine.disk, both.one.path("a.md"))
    // The other folder has its own file: this one's is put back as it was.
    let text = try #require(both.one.text("a.md"))
    try both.one.append("a.md", "More.\n")
    #expect(try both.two.push().pull?.written == 1)
    try both.one.write("a.md", text)
    try both.one.scan()
    let edited = text + "Saved.\n"
    both.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .lastLook, name == "a.md", disk.read(source) == Array(text.utf8) { try disk.write(source, edited) }
    }
    let push = try both.one.push()
    both.machine.door = .none
    #expect(push.pull?.letGo == 0 && push.pull?.ended == 0)
    #expect(both.one.text("a.md") == edited)
    #expect(try both.one.isBound(item) && both.one.placement(of: item) == "a.md")
    try both.one.push()
    #expect(try both.bench.body(item) == "A.\nSaved.\n")
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S441 a file that stays, or moved by hand while its item is held, ends no placement")
  func noEnd() throws {
    let both = try TwoFolders(
      RemovalScenarios.settings(
        1, try RemovalScenarios.fraction("0.1"),
        ["search": ["types": ["core.note"], "filter": "tags contains \"a\""]]), TwoFolders.tagged("b"))
    var items: [String: EntityID] = [:]
    for title in ["unmatched", "changed", "paused1", "paused2", "purged", "moved"] {
      items[title] = try both.bench.item(Text(title), tags: ["a"])
    }
    try both.one.push()
    #expect(both.one.files().count == 6)
    try both.bench.ask("DELETE", "/items/\(try #require(items["unmatched"]))/tags/a")
    try both.move("moved.md")
    try both.two.push()
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let moved = try both.one.push()
    #expect(moved.scan.movedAway == 1 && moved.pull?.ended == 0 && moved.pull?.unmatched == 1)
    try both.one.append("changed.md", "Mine.\n")
    for title in ["changed", "paused1", "paused2"] { try both.bench.trash(try #require(items[title])) }
    try both.bench.purge(try #require(items["purged"]))
    let pull = try both.one.pull()
    #expect(pull.paused == 3 && pull.kept == 1 && pull.ended == 0)
    try both.one.push()
    both.one.grace()
    let push = try both.one.push()
    #expect(push.pull?.ended == 0)
    #expect(!both.bench.writes.contains { $0.hasPrefix("DELETE /edges/") })
    for title in ["unmatched", "moved", "paused1", "paused2"] {
      let item = try #require(items[title])
      #expect(try both.one.placement(of: item) != nil)
    }
  }

  @Test("F-S442 a store that refuses the end keeps file and bindings; the next push ends both placements")
  func refusedEnd() throws {
    let both = try TwoFolders()
    let (trashed, deleted) = (try both.bench.item("trashed"), try both.bench.item("deleted"))
    try both.one.push()
    try both.one.delete("deleted.md")
    try both.one.push()
    both.one.grace()
    try both.bench.trash(trashed)
    try both.machine.refuseEnds(of: both.one.root)
    #expect(refusal { try both.one.push() } != nil)
    #expect(refusal { try both.one.pull() } != nil)
    #expect(both.one.files() == ["trashed.md"])
    #expect(try both.one.isBound(trashed) && both.one.isBound(deleted))
    try both.machine.takeEnds(of: both.one.root)
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.pull?.removed == 1)
    #expect(both.one.files().isEmpty)
    #expect(try both.bench.placements(of: trashed).isEmpty && both.bench.placements(of: deleted).isEmpty)
    #expect(!both.bench.writes.contains { $0.hasPrefix("DELETE /items/\(trashed)") })
    #expect(both.deletes.count == 1)
    #expect(try both.bench.isTrashed(trashed) && both.bench.isTrashed(deleted))
  }
}

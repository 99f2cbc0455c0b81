import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Files that move between the folders of one machine by a person's hand (F41.9 to F41.11, F42, F43).
struct MovedScenarios {
  @Test("F-S320 a copy is a new item, moved files keep their items and are placed; the folder left deletes nothing")
  func copyAndMoves() throws {
    let both = try TwoFolders()
    try both.one.write("copied.md", "Copied.\n")
    try both.one.write("moved.md", "Moved.\n")
    try both.one.write("plain.txt", "Plain.\n")
    try both.one.push()
    let (copied, moved, plain) = (
      try both.bench.id("copied"), try both.bench.id("moved"), try both.bench.id("plain")
    )
    try both.copy("copied.md")
    try both.move("moved.md")
    try both.move("plain.txt")
    both.bench.transport.clear()
    let push = try both.two.push()
    #expect(push.scan.created == 1 && push.scan.flagged.isEmpty)
    #expect(both.creates.count == 1)
    #expect(try both.bench.titles() == ["copied", "copied", "moved", "plain"])
    let fresh = try #require(try both.bench.ids("copied").first { $0 != copied })
    #expect(both.two.text("copied.md")?.contains("marfa_id: \(fresh)") == true)
    #expect(both.one.text("copied.md")?.contains("marfa_id: \(copied)") == true)
    #expect(try both.two.placement(of: moved) == "moved.md")
    #expect(try both.two.placement(of: plain) == "plain.txt")
    #expect(try both.two.isPinned(moved) && both.two.isPinned(plain))
    #expect(both.two.text("plain.txt") == "Plain.\n")
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let left = try both.one.push()
    #expect(left.scan.movedAway == 2 && left.scan.deleted == 0 && left.scan.trashed.isEmpty)
    #expect(both.deletes.isEmpty)
    #expect(try both.bench.titles() == ["copied", "copied", "moved", "plain"])
    #expect(try both.two.push().drain.drain.answered == 0)
  }

  @Test("F42 a copy of a file that cannot be read where it stands waits with the reason, and is a new item once it can")
  func copyOfUnreadable() throws {
    let both = try TwoFolders()
    try both.one.write("first.md", "First.\n")
    try both.one.push()
    let item = try both.bench.id("first")
    try both.copy("first.md", to: "copied.md")
    both.machine.faults = Faults.failing(.open, name: "first.md", code: EACCES)
    let held = try both.two.push()
    #expect(held.scan.created == 0)
    #expect(held.scan.flagged.map { "\($0.path) \($0.flag)" } == ["copied.md waiting"])
    #expect(held.scan.flagged.first?.reason.contains("first.md in the folder at") == true)
    both.machine.restart()
    #expect(try both.two.push().scan.created == 1)
    #expect(try both.bench.ids("first").count == 2)
    #expect(both.one.text("first.md")?.contains("marfa_id: \(item)") == true)
    #expect(both.two.text("copied.md")?.contains("marfa_id: \(item)") == false)
  }

  @Test("F-S321 offline a moved file waits; the folder left trashes only what is nowhere, and writes no file anew")
  func offline() throws {
    let both = try TwoFolders(KeptFolder.notes, Self.other)
    try both.one.write("moved.md", "Moved.\n")
    try both.one.write("deleted.md", "Deleted.\n")
    try both.one.push()
    let (moved, deleted) = (try both.bench.id("moved"), try both.bench.id("deleted"))
    try both.move("moved.md")
    try both.one.delete("deleted.md")
    let scan = try both.two.scan()
    #expect(scan.flagged.map(\.flag) == ["waiting"] && scan.flagged.map(\.path) == ["moved.md"])
    #expect(scan.created == 0)
    #expect(try both.two.status(of: "moved.md")?.flag == "waiting")
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let left = try both.one.push()
    #expect(left.scan.movedAway == 1 && left.scan.trashed == ["deleted.md"])
    #expect(left.pull?.elsewhere == 1 && left.pull?.flagged.isEmpty == true && left.pull?.written == 0)
    #expect(both.deletes.count == 1)
    #expect(try both.bench.isTrashed(deleted) && !both.bench.isTrashed(moved))
    #expect(both.one.files().isEmpty)
    let push = try both.two.push()
    #expect(push.scan.created == 0 && push.scan.flagged.isEmpty)
    try both.two.append("moved.md", "More.\n")
    try both.two.push()
    #expect(try both.bench.body(moved) == "Moved.\nMore.\n")
    #expect(try both.bench.titles() == ["moved"])
  }

  /// A folder whose copy holds no note.
  static let other: JSON = ["title": "Bookmarks", "search": ["types": ["core.bookmark"]]]

  @Test("F-S322 of two moved items the one the server does not show is created afresh, the other is pinned")
  func notShown() throws {
    let both = try TwoFolders(KeptFolder.notes, Self.other)
    try both.one.write("shown.md", "Shown.\n")
    try both.one.write("hidden.md", "Hidden.\n")
    try both.one.push()
    let (shown, hidden) = (try both.bench.id("shown"), try both.bench.id("hidden"))
    try both.move("shown.md")
    try both.move("hidden.md")
    // The folder they left has not heard yet that the server shows one of them no longer.
    try both.bench.purge(hidden)
    let push = try both.two.push()
    #expect(push.scan.created == 1 && push.scan.flagged.isEmpty)
    #expect(try both.two.isPinned(shown) && !both.two.isPinned(hidden))
    let fresh = try both.bench.id("hidden")
    #expect(try fresh != hidden && both.bench.ids("shown") == [shown])
    #expect(both.two.text("hidden.md")?.contains("marfa_id: \(fresh)") == true)
    #expect(try both.bench.body(fresh) == "Hidden.\n")
    #expect(both.two.text("shown.md")?.contains("marfa_id: \(shown)") == true)
    #expect(both.two.text("hidden.md")?.contains("marfa_id: \(hidden)") == false)
  }

  @Test("F-S323 a copy into a folder that holds the item and has no file of it is the item's file")
  func copyWhereHeld() throws {
    let both = try TwoFolders(KeptFolder.notes, KeptFolder.notes)
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    try both.copy("a.md")
    let push = try both.two.push()
    #expect(push.scan.created == 0 && push.pull?.written == 0)
    #expect(try both.bench.titles() == ["a"])
    #expect(try both.two.isBound(item) && both.one.isBound(item))
    #expect(both.two.files() == ["a.md"])
  }

  @Test("F-S324 a file saved back inside the grace, where another folder took the item's file from, is the item's")
  func savedBack() throws {
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    try both.one.write("a.md", "---\ntags: [a]\n---\nA.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    let text = try #require(both.one.text("a.md"))
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.two.push().pull?.taken == 1)
    try both.one.write("a.md", text + "Saved back.\n")
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.created == 0 && both.creates.isEmpty)
    #expect(try both.bench.body(item) == "A.\nSaved back.\n")
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S325 a file found nowhere is named and its item deleted once; a namesake elsewhere does not count")
  func nowhere() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.write("b.txt", "B.\n")
    try both.one.push()
    try both.two.write("deep/a.md", "---\ntags: [b]\n---\nAnother.\n")
    try both.two.write("b.txt", "Another.\n")
    try both.two.push()
    let (one, text) = (try both.bench.ids("a"), try both.bench.ids("b"))
    #expect(one.count == 2 && text.count == 2)
    try both.one.delete("a.md")
    try both.one.delete("b.txt")
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.trashed == ["a.md", "b.txt"] && push.scan.deleted == 2 && push.scan.movedAway == 0)
    #expect(both.deletes.count == 2)
    #expect(words(push).contains { $0.contains("a.md") && $0.contains("no folder") })
    #expect(try both.bench.titles() == ["a", "b"])
    #expect(both.two.files() == ["b.txt", "deep/a.md"])
  }

  @Test("F-S326 a file moved into a dot-led directory the other folder includes has moved")
  func dotLed() throws {
    let both = try TwoFolders(
      KeptFolder.notes, TwoFolders.tagged("b", ["core.note"], ["include": [".hidden/", "*.markdown"]]))
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    try both.move("a.md", to: ".hidden/a.md")
    try both.one.push()
    both.one.grace()
    let push = try both.one.push()
    #expect(push.scan.movedAway == 1 && push.scan.deleted == 0)
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S327 a document and a text file moved by copy and delete are found by id and by bytes")
  func copiedAndDeleted() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.write("b.txt", "B.\n")
    try both.one.push()
    for path in ["a.md", "b.txt"] {
      try both.copy(path, to: "moved-\(path)")
      try both.one.delete(path)
    }
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.movedAway == 2 && push.scan.deleted == 0)
    #expect(push.pull?.elsewhere == 2 && push.pull?.written == 0 && push.pull?.flagged.isEmpty == true)
    #expect(both.deletes.isEmpty)
    #expect(both.one.files().isEmpty)
    #expect(try both.bench.titles() == ["a", "b"])
  }

  @Test("F-S328 a text file moved in by copy and delete, the receiving folder pushed first, is its old item's")
  func receivingFirst() throws {
    let both = try TwoFolders()
    try both.one.write("b.txt", "B.\n")
    try both.one.push()
    let item = try both.bench.id("b")
    try both.copy("b.txt", to: "in/b.txt")
    try both.one.delete("b.txt")
    both.bench.transport.clear()
    let push = try both.two.push()
    #expect(push.scan.created == 0 && both.creates.isEmpty)
    #expect(try both.two.placement(of: item) == "in/b.txt")
    #expect(try both.bench.placements(of: item).filter { $0.folder == both.two.id }.count == 1)
    #expect(try both.bench.titles() == ["b"])
    #expect(both.two.text("in/b.txt") == "B.\n")
  }

  @Test("F-S329 another folder's own file of the same bytes, and a copy of it, are not the deleted file")
  func othersBytes() throws {
    let both = try TwoFolders(TwoFolders.everything, TwoFolders.tagged("b"))
    try both.two.write("own.txt", "Same.\n")
    try both.two.push()
    try both.one.write("b.txt", "Same.\n")
    try both.one.push()
    let item = try both.bench.id("b")
    try both.two.write("copy.txt", "Same.\n")
    try both.one.delete("b.txt")
    try both.one.push()
    both.one.grace()
    let push = try both.one.push()
    #expect(push.scan.trashed == ["b.txt"] && push.scan.unsure.isEmpty)
    #expect(try both.bench.isTrashed(item))
    #expect(both.two.files() == ["copy.txt", "own.txt"])
  }

  @Test("F-S330 two unbound files of a deleted file's bytes cannot be told apart, so nothing is sent")
  func severalFiles() throws {
    let both = try TwoFolders(TwoFolders.everything, TwoFolders.tagged("b"))
    try both.one.write("b.txt", "Same.\n")
    try both.one.push()
    let item = try both.bench.id("b")
    try both.two.write("x.txt", "Same.\n")
    try both.two.write("y.txt", "Same.\n")
    try both.one.delete("b.txt")
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.unsure.map(\.path) == ["b.txt"] && push.scan.deleted == 0 && push.scan.missing == 1)
    #expect(both.deletes.isEmpty)
    #expect(try !both.bench.isTrashed(item))
    #expect(words(push).contains { $0.contains("b.txt") && $0.contains("several") })
    #expect(try both.one.status(of: "b.txt")?.waits == [.delete])
  }

  @Test("F-S331 identical files moved keep their items; identical ones copied and deleted become new ones")
  func identical() throws {
    let both = try TwoFolders()
    for path in ["m1.txt", "m2.txt"] { try both.one.write(path, "Moved twins.\n") }
    for path in ["c1.txt", "c2.txt"] { try both.one.write(path, "Copied twins.\n") }
    try both.one.push()
    let (first, second) = (try both.bench.id("m1"), try both.bench.id("m2"))
    for path in ["m1.txt", "m2.txt"] { try both.move(path) }
    for path in ["c1.txt", "c2.txt"] {
      try both.copy(path)
      try both.one.delete(path)
    }
    both.bench.transport.clear()
    let push = try both.two.push()
    #expect(push.scan.created == 2 && both.creates.count == 2)
    #expect(try both.two.placement(of: first) == "m1.txt" && both.two.placement(of: second) == "m2.txt")
    #expect(try both.bench.ids("c1").count == 2 && both.bench.ids("c2").count == 2)
    #expect(try both.bench.ids("m1") == [first] && both.bench.ids("m2") == [second])
  }

  @Test("F-S332 a file moved and saved anew by an editor has moved")
  func movedAndSaved() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    try both.move("a.md")
    let text = try #require(both.two.text("a.md"))
    try both.machine.disk.save(both.two.path("a.md"), Array((text + "Saved.\n").utf8))
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.movedAway == 1 && push.scan.deleted == 0 && both.deletes.isEmpty)
    try both.two.push()
    #expect(try both.bench.body(item) == "A.\nSaved.\n")
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S333 an unmatched file copied into a folder that holds its item, then deleted here, has moved")
  func unmatchedCopied() throws {
    let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
    try both.one.write("a.md", "---\ntags: [a]\n---\nA.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    try both.retag(item, from: "a", to: "b")
    try both.one.push()
    #expect(try both.one.status(of: "a.md")?.state == .unmatched)
    try both.copy("a.md")
    try both.one.delete("a.md")
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.movedAway == 1 && push.scan.deleted == 0 && both.deletes.isEmpty)
    try both.two.push()
    #expect(try both.two.isBound(item))
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S262 an item whose moved file another folder has not bound yet is elsewhere, and not flagged")
  func elsewhere() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    try both.move("a.md")
    try both.one.push()
    both.one.grace()
    try both.one.scan()
    let pull = try both.one.pull()
    #expect(pull.elsewhere == 1 && pull.written == 0 && pull.flagged.isEmpty)
    #expect(both.one.files().isEmpty && both.two.files() == ["a.md"])
    // Bound there, the folder that holds the item writes its own file (F44.12).
    try both.two.push()
    #expect(try both.two.status(of: "a.md")?.state == .unmatched)
    let own = try both.one.push()
    #expect(own.pull?.written == 1 && own.pull?.taken == 0 && own.pull?.elsewhere == 0)
    #expect(both.one.files() == ["a.md"] && both.two.files() == ["a.md"])
    #expect(try both.two.push().pull?.letGo == 0)
    #expect(both.two.files() == ["a.md"])
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("a file moved between two folders that both hold its item trashes nothing")
  func bothHold() throws {
    let both = try TwoFolders(KeptFolder.notes, KeptFolder.notes)
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    try both.move("a.md")
    #expect(try both.two.push().scan.created == 0)
    try both.one.push()
    both.one.grace()
    both.bench.transport.clear()
    let push = try both.one.push()
    #expect(push.scan.movedAway == 1 && push.scan.deleted == 0 && both.deletes.isEmpty)
    try both.two.push()
    #expect(try !both.bench.isTrashed(item))
    #expect(both.one.files() == ["a.md"] && both.two.files() == ["a.md"])
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("a text moved with an edit that is not sent yet keeps its words and its item")
  func unsentEdit() throws {
    let both = try TwoFolders()
    try both.one.write("b.txt", "B.\n")
    try both.one.push()
    let item = try both.bench.id("b")
    try both.one.append("b.txt", "More.\n")
    try both.one.scan()
    try both.move("b.txt")
    for _ in 1...2 {
      try both.two.push()
      #expect(both.two.text("b.txt") == "B.\nMore.\n")
      try both.one.push()
    }
    both.one.grace()
    try both.one.push()
    try both.two.push()
    #expect(try both.bench.body(item) == "B.\nMore.\n")
    #expect(try both.bench.titles() == ["b"])
    #expect(both.two.text("b.txt") == "B.\nMore.\n")
  }

  @Test("a file moved before its create was sent waits for it, and is its item's")
  func unsentCreate() throws {
    let both = try TwoFolders()
    try both.one.write("n.txt", "New.\n")
    try both.one.scan()
    try both.move("n.txt")
    let waits = try both.two.push()
    #expect(waits.scan.created == 0 && waits.scan.flagged.map(\.flag) == ["waiting"])
    try both.one.push()
    let item = try both.bench.id("n")
    #expect(try both.two.push().scan.created == 0)
    #expect(try both.two.isBound(item))
    both.one.grace()
    #expect(try both.one.push().scan.deleted == 0)
    #expect(try both.bench.titles() == ["n"])
  }

  // MARK: The registry

  @Test("F-S311 a lost registry holds a moved file for one pass, then it is found in the folder that is remembered")
  func registryGone() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    try both.move("a.md")
    try both.one.push()
    both.one.grace()
    try both.machine.disk.delete(both.machine.root.parent.appending("folders.json"))
    both.bench.transport.clear()
    let held = try both.one.push()
    #expect(held.scan.registry?.isEmpty == false && held.scan.unsure.map(\.path) == ["a.md"])
    #expect(words(held).contains { $0.contains("list") })
    #expect(try both.machine.folders.list().map(\.dir) == [both.one.root])
    let next = try both.one.push()
    #expect(next.scan.registry == nil && next.scan.movedAway == 1 && next.scan.deleted == 0)
    #expect(both.deletes.isEmpty)
    #expect(try both.bench.titles() == ["a"])
  }

  @Test("F-S312 a folder renamed with the moved file inside holds it until it lists itself again")
  func otherRenamed() throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    try both.move("a.md")
    try both.one.push()
    both.one.grace()
    let away = both.two.root.parent.appending("Elsewhere")
    try both.machine.disk.rename(both.two.root, to: away)
    let held = try both.one.push()
    #expect(held.scan.unsure.map(\.path) == ["a.md"] && held.scan.movedAway == 0)
    #expect(held.scan.unsure[0].reason.contains("Two") && held.scan.unsure[0].reason.contains("remove"))
    #expect(try both.bench.titles() == ["a"])
    both.machine.moveStore(of: both.two.root, to: away)
    _ = try both.machine.folders.scan(away)
    let next = try both.one.push()
    #expect(next.scan.movedAway == 1 && next.scan.unsure.isEmpty)
    #expect(try both.bench.titles() == ["a"])
  }

  @Test(
    "F-S313 another folder, or a directory in it, that cannot be read holds a missing file", arguments: [false, true])
  func unreadable(inside: Bool) throws {
    let both = try TwoFolders()
    try both.one.write("a.md", "A.\n")
    try both.one.push()
    let item = try both.bench.id("a")
    try both.two.write("closed/b.md", "---\ntags: [b]\n---\nB.\n")
    try both.two.push()
    let closed = inside ? both.two.path("closed") : both.two.root
    try both.machine.disk.setMode(closed, 0)
    try both.one.delete("a.md")
    try both.one.push()
    both.one.grace()
    let held = try both.one.push()
    #expect(held.scan.unsure.map(\.path) == ["a.md"] && held.scan.deleted == 0)
    #expect(held.scan.unsure[0].reason.contains("Two"))
    #expect(try both.machine.folders.list().map(\.dir) == [both.one.root, both.two.root])
    #expect(try !both.bench.isTrashed(item))
    try both.machine.disk.setMode(closed, 0o755)
    let next = try both.one.push()
    #expect(next.scan.trashed == ["a.md"])
    #expect(try both.bench.isTrashed(item))
  }

  enum Likeness: CaseIterable { case identity, id, bytes, none }

  @Test(
    "F-S314 X-S79 another program's folder refuses nesting, holds a missing file it has the like of, and keeps its entry",
    arguments: Likeness.allCases)
  func foreign(_ likeness: Likeness) throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    let one = try KeptFolder(bench, machine: machine, at: "One")
    try one.write("a.md", "A.\n")
    try one.write("b.txt", "B.\n")
    try one.push()
    let foreign = machine.root.parent.appending("Foreign")
    try machine.disk.write(foreign.appending(".marfa/core.sqlite"), FolderMachine.foreignStore)
    let registry = machine.root.parent.appending("folders.json")
    let listed = try #require(machine.disk.read(registry))
    var list = try JSON(parsing: listed).object ?? JSONObject()
    let entry: JSON = [
      "dir": .string(foreign.text), "folder": "018f0000-0000-7000-8000-00000000f001",
      "store": "018f0000-0000-7000-8000-0000000057a1", "device": 7, "program": "another",
    ]
    list["folders"] = .array((list["folders"]?.array ?? []) + [entry])
    try machine.disk.write(registry, JSON.object(list).write())
    let inside = foreign.appending("sub")
    #expect(refusal { _ = try machine.folders.add(inside, following: one.id, yes: true) }?.code == .invalid)
    #expect(machine.disk.status(inside) == nil)

    bench.clock.advance(seconds: 3)
    switch likeness {
    case .identity: try machine.disk.rename(one.path("b.txt"), to: foreign.appending(".dot/x.txt"))
    case .id: try machine.disk.write(foreign.appending("deep/x.md"), try #require(one.bytes("a.md")))
    case .bytes: try machine.disk.write(foreign.appending("x.txt"), "B.\n")
    case .none: try machine.disk.write(foreign.appending("x.txt"), "Other.\n")
    }
    for path in one.files() { try one.delete(path) }
    try one.push()
    one.grace()
    let push = try one.push()
    let held: [String] =
      switch likeness {
      case .identity, .bytes: ["b.txt"]
      case .id: ["a.md"]
      case .none: []
      }
    #expect(push.scan.unsure.map(\.path) == held)
    #expect(push.scan.unsure.allSatisfy { $0.reason.contains("Foreign") })
    #expect(push.scan.trashed == ["a.md", "b.txt"].filter { !held.contains($0) })
    let after = try #require(machine.disk.read(registry))
    let kept = try JSON(parsing: after)["folders"]?.array ?? []
    #expect(kept.contains(entry))
    #expect(kept.count == 2)
    // Past the grace what was deleted is in the bin, what is held is not.
    for path in ["a", "b"] where likeness == .none { #expect(try bench.titles().contains(path) == false) }
    #expect(try bench.titles() == held.map { String($0.prefix(1)) })
  }

  // MARK: Large removals

  @Test("F-S370 a confirm finds what moved to another folder, and deletes the rest")
  func confirmed() throws {
    let both = try TwoFolders(RemovalScenarios.settings(2, try RemovalScenarios.fraction("0.25")))
    for number in 1...6 { try both.one.write("n\(number).md", "Note \(number).\n") }
    try both.one.push()
    let items = try (1...6).map { try both.bench.id("n\($0)") }
    for number in 1...3 { try both.move("n\(number).md") }
    try both.one.delete("n4.md")
    #expect(try both.one.push().scan.paused == 4)
    let confirmed = try both.one.confirm()
    #expect(confirmed.moved == 3 && confirmed.deleted == 1 && confirmed.unsure.isEmpty)
    both.bench.transport.clear()
    try both.one.push()
    #expect(both.deletes.count == 1)
    #expect(try both.bench.isTrashed(items[3]))
    #expect(try both.bench.titles() == ["n1", "n2", "n3", "n5", "n6"])
  }

  @Test("F-S371 a confirm deletes nothing that another folder, missing now, may hold")
  func confirmUnsure() throws {
    let both = try TwoFolders(RemovalScenarios.settings(2, try RemovalScenarios.fraction("0.25")))
    for number in 1...6 { try both.one.write("n\(number).md", "Note \(number).\n") }
    try both.one.push()
    for number in 1...3 { try both.one.delete("n\(number).md") }
    #expect(try both.one.push().scan.paused == 3)
    let away = both.two.root.parent.appending("Elsewhere")
    try both.machine.disk.rename(both.two.root, to: away)
    let unsure = try both.one.confirm()
    #expect(unsure.deleted == 0 && unsure.unsure.map(\.path) == ["n1.md", "n2.md", "n3.md"])
    try both.machine.disk.rename(away, to: both.two.root)
    #expect(try both.one.push().scan.paused == 3)
    #expect(try both.one.confirm().deleted == 3)
    try both.one.push()
    #expect(try both.bench.titles() == ["n4", "n5", "n6"])
  }
}

import FolderSync
import LocalInstance
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Where a file sits (F19).
struct PlacementTests {
  @Test("F-S19.1 two machines write an item at its placement, and a move on one moves it on the other")
  func twoMachines() throws {
    let desk = try Desk()
    let id = try desk.bench.item("Plan", body: "Plan.\n")
    try desk.edge(id, "in-folder", desk.folder, ["path": "Work/plan.md"])
    let ben = try desk.another()
    _ = try desk.push()
    _ = try desk.push(ben)
    #expect(desk.machine.files() == ["Work/plan.md"] && ben.files() == ["Work/plan.md"])
    try desk.machine.rename("Work/plan.md", to: "Done/plan.md")
    _ = try desk.push()
    let (push, sent) = try desk.push(ben)
    #expect(push.pull?.moved == 1 && push.pull?.written == 0 && sent.isEmpty)
    #expect(ben.files() == ["Done/plan.md"])
    #expect(try ben.body("Done/plan.md") == "Plan.\n")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S19.2 items with no placement go under their type's first placement or the root; the edges are then sent")
  func firstPlacement() throws {
    let desk = try Desk([
      "title": "All", "search": ["types": ["core.note", "core.media"]],
      "first_placement": ["core.media": "Media/", "core.media.book": "Books/"],
    ])
    let note = try desk.bench.item("Note")
    let book = try desk.bench.item("Book", type: "core.media.book")
    let film = try desk.bench.item("Film", type: "core.media.film")
    let (push, sent) = try desk.push()
    #expect(push.pull?.written == 3 && push.pull?.placed == 3)
    #expect(desk.machine.files() == ["Books/Book.md", "Media/Film.md", "Note.md"])
    #expect(sent.count == 3 && sent.allSatisfy { $0.line == "POST /edges" })
    #expect(try desk.placed(note) == "Note.md")
    #expect(try desk.placed(book) == "Books/Book.md")
    #expect(try desk.placed(film) == "Media/Film.md")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S19.3 a rename is one PATCH of the edge with path and version, nothing else")
  func rename() throws {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    let id = try desk.id("A")
    let edge = try #require(try desk.placement(id))
    let version = try #require(edge["version"])
    try desk.machine.rename("A.md", to: "sub/B.md")
    let (push, sent) = try desk.push()
    #expect(push.scan.renamed == 1 && push.scan.updated == 0)
    #expect(sent.count == 1)
    #expect(sent.first?.line.hasPrefix("PATCH /edges/\(edge.string("id") ?? "")") == true)
    #expect(sent.first?.body == ["version": version, "properties": ["path": "sub/B.md"]])
    #expect(try desk.version(id) == 1)
    #expect(try desk.placed(id) == "sub/B.md")
    #expect(desk.machine.files() == ["sub/B.md"])
  }

  @Test("F-S19.4 a file made in a directory has its edge with that path, and nothing of it in the file")
  func madeInDirectory() throws {
    let desk = try Desk()
    try desk.machine.write("deep/er/A.md", "Words.\n")
    let (_, sent) = try desk.push()
    let id = try desk.id("A")
    let edges = sent.filter { $0.line == "POST /edges" }
    #expect(edges.count == 1)
    #expect(edges.first?.body.string("edge_type") == "in-folder")
    #expect(edges.first?.body["properties"] == ["path": "deep/er/A.md"])
    #expect(try desk.placed(id) == "deep/er/A.md")
    let text = try desk.machine.need("deep/er/A.md")
    #expect(!text.contains("in-folder") && !text.contains(desk.folder.description) && !text.contains("deep"))
  }

  @Test("F-S19.5 a checked-out file whose item is placed elsewhere is placed where it sits")
  func checkedOut() throws {
    let desk = try Desk()
    let id = try desk.bench.item("A", body: "Words.\n")
    try desk.edge(id, "in-folder", desk.folder, ["path": "Elsewhere.md"])
    try desk.machine.write("Here.md", "---\ntitle: A\nmarfa_id: \(id)\nmarfa_version: 1\n---\nWords.\n")
    _ = try desk.push()
    #expect(try desk.placed(id) == "Here.md")
    #expect(desk.machine.files() == ["Here.md"])
    #expect(try desk.edges(id, type: "in-folder").count == 1)
  }

  @Test("F19.14: the older keep contested paths, the rest take the next free numbers, unsafe ones are outside and left")
  func contested() throws {
    let desk = try Desk()
    func placed(_ title: Text, _ path: String) throws -> EntityID {
      let id = try desk.bench.item(title, body: "\(title)\n".text)
      try desk.edge(id, "in-folder", desk.folder, ["path": .string(path)])
      return id
    }
    let one = try placed("One", "Same.md")
    let two = try placed("Two", "same.md")
    let three = try placed("Three", "Plan (2).md")
    let four = try placed("Four", "Plan (2).md")
    let unsafe = [
      try placed("Git", ".git/note.md"), try placed("Own", ".marfa/own.md"), try placed("Dot", "a/../b.md"),
    ]
    let (push, _) = try desk.push()
    #expect(push.pull?.written == 4 && push.pull?.beside == 2 && push.pull?.outside == 3, "\(push.json.compact)")
    #expect(try desk.machine.body("Same.md") == "One\n")
    #expect(try desk.machine.body("same (2).md") == "Two\n")
    #expect(try desk.machine.body("Plan (2).md") == "Three\n")
    #expect(desk.machine.files().count == 4)
    _ = try desk.push()
    #expect(try desk.placed(one) == "Same.md")
    #expect(try desk.placed(two) == "same (2).md")
    #expect(try desk.placed(three) == "Plan (2).md")
    #expect(try desk.placed(four) == "Plan (3).md" || desk.placed(four) == "Plan.md")
    #expect(try desk.machine.body(desk.placed(four) ?? "") == "Four\n")
    #expect(try unsafe.map { try desk.placed($0) ?? "" } == [".git/note.md", ".marfa/own.md", "a/../b.md"])
    let flagged = push.pull?.flagged.filter { $0.flag == "outside" }.compactMap(\.item) ?? []
    #expect(Set(flagged) == Set(unsafe.map(\.description)))
    #expect(try desk.push().sent.isEmpty)
  }

  @Test(
    "F-S19.7 placements that would make an item another kind are unsuited and left; a name of no MIME type is written")
  func unsuited() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.note", "core.file"]]])
    let ben = try desk.another()
    try ben.write("pic.png", "PNG bytes")
    try ben.write("other.png", "Other bytes")
    _ = try desk.push(ben)
    let note = try desk.bench.item("Note", body: "Note.\n")
    try desk.edge(note, "in-folder", desk.folder, ["path": "note.png"])
    let picture = try desk.id("pic.png")
    try desk.move(picture, to: "pic.md")
    let other = try desk.id("other.png")
    try desk.move(other, to: "other.weird")
    let (push, sent) = try desk.push()
    #expect(push.pull?.unsuited == 2 && push.pull?.written == 1, "\(push.json.compact)")
    let named = Set((push.pull?.flagged ?? []).filter { $0.flag == "unsuited" }.compactMap(\.item))
    #expect(named == [note.description, picture.description])
    #expect(desk.machine.files() == ["other.weird"])
    #expect(sent.isEmpty)
    #expect(try desk.placed(note) == "note.png" && desk.placed(picture) == "pic.md")
    #expect(push.pull?.flagged.allSatisfy { $0.reason.contains("another kind") } == true)
    // A machine that has the file keeps it where it was.
    let (bens, _) = try desk.push(ben)
    #expect(bens.pull?.unsuited == 2)
    #expect(ben.files() == ["other.weird", "pic.png"])
  }

  @Test("F-S19.8 two machines making one name settle on one layout and then write nothing")
  func oneName() throws {
    let desk = try Desk()
    let ben = try desk.another()
    try desk.machine.write("Plan.md", "Ana's.\n")
    try ben.write("Plan.md", "Ben's.\n")
    for _ in 0..<4 {
      _ = try desk.push()
      _ = try desk.push(ben)
    }
    #expect(desk.machine.files() == ["Plan (2).md", "Plan.md"])
    #expect(ben.files() == desk.machine.files())
    for path in ben.files() { #expect(try ben.need(path) == desk.machine.need(path)) }
    #expect(try desk.machine.body("Plan.md") == "Ana's.\n")
    #expect(try desk.machine.body("Plan (2).md") == "Ben's.\n")
    #expect(try desk.push().sent.isEmpty && desk.push(ben).sent.isEmpty)
    #expect(try desk.bench.titles().count == 2)
  }

  /// Two machines with one placed note, `A.md` on both.
  func shared() throws -> (Desk, FolderMachine, EntityID) {
    let desk = try Desk()
    try desk.machine.write("A.md", "Words.\n")
    _ = try desk.push()
    let ben = try desk.another()
    _ = try desk.push(ben)
    return (desk, ben, try desk.id("A"))
  }

  @Test("F19.9 in part: where both move one file the second gives way, follows, and leaves no blocked row")
  func givesWay() throws {
    let (desk, ben, id) = try shared()
    try desk.machine.rename("A.md", to: "Ana.md")
    try ben.rename("A.md", to: "Ben.md")
    _ = try desk.push()
    let (push, _) = try desk.push(ben)
    #expect(push.drain.gaveWay == 1)
    #expect(ben.files() == ["Ana.md"])
    #expect(try desk.placed(id) == "Ana.md")
    #expect(try queueIsClean(ben))
    #expect(try desk.push(ben).sent.isEmpty && desk.push().sent.isEmpty)
  }

  /// Whether no write of a machine is refused, blocked or waiting.
  func queueIsClean(_ machine: FolderMachine) throws -> Bool {
    try machine.folders.working(machine.root, "look") { folder in
      try folder.copy.queue.unansweredCount() == 0 && folder.copy.queue.blockedCount() == 0
        && folder.copy.queue.all().allSatisfy { $0.verdict?.isSuccess == true }
    }
  }

  @Test(
    "F-S19.10 where both place one item the duplicate leaves no refusal and the file follows; a read that fails is tried again"
  )
  func bothPlace() throws {
    let desk = try Desk()
    let ben = try desk.another()
    let id = try desk.bench.item("A", body: "Words.\n")
    try desk.edge(id, "references", desk.folder)
    // Ben hears of the item, and places it while he cannot reach the server any more.
    for machine in [ben] {
      _ = try machine.folders.working(machine.root, "catch-up") { try $0.catchUp() }
      machine.isOnline = false
      _ = try machine.pull()
      try machine.rename("A.md", to: "Ben.md")
      _ = try machine.scan()
      machine.isOnline = true
    }
    try desk.edge(id, "in-folder", desk.folder, ["path": "Ana.md"])
    var failures = 1
    desk.bench.transport.before = { request in
      guard request.method == "GET", request.url.contains("/items/\(id)") || request.url.contains("/edges"),
        failures > 0
      else { return nil }
      failures -= 1
      return .success(refusal(503, "unavailable", "Not now."))
    }
    let (first, _) = try desk.push(ben)
    desk.bench.transport.before = nil
    #expect(first.drain.gaveWay == 1, "\(first.json.compact)")
    _ = try desk.push(ben)
    #expect(try queueIsClean(ben))
    #expect(ben.files() == ["Ana.md"])
    #expect(try desk.edges(id, type: "in-folder").count == 1 && desk.placed(id) == "Ana.md")
    #expect(
      try ben.folders.working(ben.root, "look") { try $0.copy.edges(from: id, type: "in-folder").count } == 1)
    #expect(try desk.push(ben).sent.isEmpty)
  }

  /// The server refuses what a machine asks of placements.
  func refusePlacements(_ desk: Desk) {
    desk.bench.transport.before = { request in
      guard request.method == "POST" || request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(
        refusal(403, "edge_permission_denied", "Not allowed.", ["edge_type": "in-folder", "reason": "x"]))
    }
  }

  @Test("F-S19.12 the file of a refused move stays where the person put it")
  func refusedMove() throws {
    let (desk, _, id) = try shared()
    try desk.machine.rename("A.md", to: "Mine.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(refusal(400, "edge_constraint_violation", "No.", ["constraint": "nesting"]))
    }
    let (push, sent) = try desk.push()
    #expect(sent.count == 1)
    #expect(push.pull?.unplaced == 1 && push.pull?.moved == 0)
    #expect(desk.machine.files() == ["Mine.md"])
    let (again, nothing) = try desk.push()
    #expect(nothing.isEmpty && again.pull?.unplaced == 1)
    #expect(desk.machine.files() == ["Mine.md"])
    desk.bench.transport.before = nil
    #expect(try desk.placed(id) == "A.md")
  }

  @Test(
    "F19.22 F19.23 a file moved back to where its placement says waits on nothing; moved again it is not asked again")
  func refusedMoveBack() throws {
    let (desk, _, id) = try shared()
    try desk.machine.rename("A.md", to: "Mine.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(refusal(403, "edge_permission_denied", "No.", ["edge_type": "in-folder"]))
    }
    #expect(try desk.push().report.pull?.unplaced == 1)
    try desk.machine.rename("Mine.md", to: "A.md")
    let (back, nothing) = try desk.push()
    #expect(nothing.isEmpty && back.pull?.unplaced == 0 && back.pull?.moved == 0)
    #expect(desk.machine.files() == ["A.md"])
    try desk.machine.rename("A.md", to: "Mine.md")
    let (again, still) = try desk.push()
    #expect(still.isEmpty && again.pull?.unplaced == 1)
    desk.bench.transport.before = nil
    try desk.machine.rename("Mine.md", to: "Other.md")
    #expect(try desk.push().report.pull?.unplaced == 0)
    #expect(try desk.placed(id) == "Other.md")
  }

  @Test("F-S19.13 a placement under a file and one too long are unwritten and named, a plain move is made")
  func cannotBeWritten() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]]]) { bench in
      for title in ["Under", "Long", "Plain", "Wall"] { try bench.item(Text(title), body: "\(title)\n".text) }
    }
    _ = try desk.push()
    let (under, long, plain) = (try desk.id("Under"), try desk.id("Long"), try desk.id("Plain"))
    try desk.move(under, to: "Wall.md/under.md")
    try desk.move(long, to: String(repeating: "l", count: 260) + ".md")
    try desk.move(plain, to: "moved/plain.md")
    let (push, sent) = try desk.push()
    #expect(push.pull?.unwritten == 2 && push.pull?.moved == 1 && sent.isEmpty, "\(push.json.compact)")
    #expect(desk.machine.files() == ["Long.md", "Under.md", "Wall.md", "moved/plain.md"])
    let named = Set((push.pull?.flagged ?? []).filter { $0.flag == "unwritten" }.compactMap(\.item))
    #expect(named == [under.description, long.description])
  }

  @Test("F-S19.14 another edge type to the folder is read as no placement")
  func notAPlacement() throws {
    let desk = try Desk()
    let id = try desk.bench.item("A", body: "Words.\n")
    try desk.edge(id, "references", desk.folder, ["path": "Wrong.md"])
    _ = try desk.push()
    #expect(desk.machine.files() == ["A.md"])
    #expect(try desk.placed(id) == "A.md")
    try desk.move(id, to: "Moved.md")
    let (push, sent) = try desk.push()
    #expect(push.pull?.moved == 1 && sent.isEmpty && push.drain.gaveWay == 0)
    #expect(desk.machine.files() == ["Moved.md"])
    #expect(try desk.edges(id, type: "references").count == 1)
    #expect(try desk.machine.need("Moved.md").contains(desk.folder.description) == false)
  }

  @Test(
    "F-S19.14 a default edge to the folder's row refused is no placement, and holds nothing of its file back (C9.11)")
  func refusedDefault() throws {
    let desk = try Desk()
    let defaults: JSON = ["edges": ["references": [.string(desk.folder.text)]]]
    try desk.bench.ask("PATCH", "/folders/\(desk.folder)", ["version": 1, "defaults": defaults])
    _ = try desk.push()
    try desk.machine.write("a.md", "Words.\n")
    desk.bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/edges"), case .bytes(let body) = request.body,
        (try? JSON(parsing: body))?["edge_type"] == "references"
      else { return nil }
      return .success(refusal(403, "edge_permission_denied", "No.", [:]))
    }
    let (first, _) = try desk.push()
    desk.bench.transport.before = nil
    #expect(first.scan.flagged.flags("a.md") == ["default_edge_refused"], "\(first.json.compact)")
    #expect(first.pull?.flagged.isEmpty == true && first.pull?.rewritten == 1, "\(first.json.compact)")
    let id = try desk.id("a")
    #expect(try desk.machine.need("a.md").contains("marfa_id: \(id)"))
    let status = try desk.machine.standing("a.md")
    #expect(status?.state == .inStep && status?.flag == "default_edge_refused")
    // Another device's change and move reach it, it is told as long as it stands, and a save ends that.
    try desk.bench.edit(id, ["body": "Others' words.\n"])
    try desk.move(id, to: "Moved.md")
    let (second, sent) = try desk.push()
    #expect(second.scan.flagged.flags("a.md") == ["default_edge_refused"] && sent.isEmpty && second.drain.gaveWay == 0)
    #expect(try desk.machine.files() == ["Moved.md"] && desk.machine.need("Moved.md").hasSuffix("Others' words.\n"))
    try desk.machine.edit("Moved.md", "Others'", "My")
    let (third, _) = try desk.push()
    #expect(third.scan.flagged.isEmpty && third.scan.updated == 1, "\(third.json.compact)")
    #expect(try desk.machine.standing("Moved.md")?.flag == nil)
  }

  @Test("F-S19.17 a refused move is let go where another machine moves the file after")
  func movedAfterRefusal() throws {
    let (desk, _, id) = try shared()
    try desk.machine.rename("A.md", to: "Mine.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(refusal(400, "edge_constraint_violation", "No.", ["constraint": "nesting"]))
    }
    #expect(try desk.push().report.pull?.unplaced == 1)
    desk.bench.transport.before = nil
    try desk.move(id, to: "Theirs.md")
    let (push, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(push.pull?.unplaced == 0 && push.pull?.moved == 1, "\(push.json.compact)")
    #expect(desk.machine.files() == ["Theirs.md"])
  }

  @Test("F-S19.18 after a later move landed, a move to the once refused path is sent")
  func refusedOnce() throws {
    let (desk, _, id) = try shared()
    try desk.machine.rename("A.md", to: "First.md")
    desk.bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/edges") else { return nil }
      return .success(refusal(400, "edge_constraint_violation", "No.", ["constraint": "nesting"]))
    }
    #expect(try desk.push().report.pull?.unplaced == 1)
    desk.bench.transport.before = nil
    try desk.machine.rename("First.md", to: "Second.md")
    let (second, _) = try desk.push()
    #expect(try second.pull?.unplaced == 0 && desk.placed(id) == "Second.md")
    try desk.machine.rename("Second.md", to: "First.md")
    let (_, sent) = try desk.push()
    #expect(sent.count == 1)
    #expect(try desk.placed(id) == "First.md")
    #expect(desk.machine.files() == ["First.md"])
  }

  @Test("F-S19.19 a placed item and a file that is there keep the path against an unplaced one")
  func whoKeepsThePath() throws {
    let desk = try Desk()
    let placed = try desk.bench.item("Placed", body: "Placed.\n")
    try desk.edge(placed, "in-folder", desk.folder, ["path": "Same.md"])
    let unplaced = try desk.bench.item("Same", body: "Unplaced.\n")
    _ = try desk.push()
    #expect(try desk.machine.body("Same.md") == "Placed.\n")
    #expect(try desk.machine.body("Same (2).md") == "Unplaced.\n")
    #expect(try desk.placed(unplaced) == "Same (2).md")

    try desk.machine.write("There.md", "Mine.\n")
    _ = try desk.push()
    let new = try desk.bench.item("There", body: "New.\n")
    _ = try desk.push()
    #expect(try desk.machine.body("There.md") == "Mine.\n")
    #expect(try desk.machine.body("There (2).md") == "New.\n")
    #expect(try desk.placed(new) == "There (2).md")
    #expect(try desk.push().sent.isEmpty)
  }

  @Test("F-S19.20 a number a disk file and another's placement take is stepped over, and it settles")
  func nextFreeNumber() throws {
    let desk = try Desk(["title": "Notes", "search": ["types": ["core.note"]], "include": ["*.md"]])
    // A file of the person's that the folder does not push.
    try desk.machine.write("Same (2).md", "---\nbad: [\n---\nMine.\n")
    let ids = try ["One", "Two", "Three"].map { try desk.bench.item(Text($0), body: "\($0)\n".text) }
    try desk.edge(ids[0], "in-folder", desk.folder, ["path": "Same.md"])
    try desk.edge(ids[1], "in-folder", desk.folder, ["path": "Same.md"])
    try desk.edge(ids[2], "in-folder", desk.folder, ["path": "Same (3).md"])
    let (push, _) = try desk.push()
    #expect(push.pull?.beside == 1)
    #expect(try desk.machine.body("Same.md") == "One\n")
    #expect(try desk.machine.body("Same (4).md") == "Two\n")
    #expect(try desk.machine.body("Same (3).md") == "Three\n")
    _ = try desk.push()
    #expect(try desk.placed(ids[1]) == "Same (4).md")
    try desk.machine.delete("Same (2).md")
    let (_, sent) = try desk.push()
    #expect(sent.isEmpty)
    #expect(desk.machine.files() == ["Same (3).md", "Same (4).md", "Same.md"])
  }

  static let maps: [(edges: JSON, isTaken: Bool)] = [
    (["*": "write", "in-folder": "read"], false), (["*": "write", "in-folder.*": "read"], false),
    (["*": "read"], false), (["in-folder.*": "write"], true), (["*": "read", "in-folder.*": "write"], true),
    (["*": "write"], true), (["*": "read", "in-folder": "write"], true),
  ]

  @Test(
    "F-S19.21 an add by a key that cannot write in-folder is refused naming it, and leaves no directory",
    arguments: PlacementTests.maps)
  func grants(_ map: (edges: JSON, isTaken: Bool)) throws {
    let (edges, isTaken) = map
    let bench = try FolderBench()
    let folder = try bench.folder()
    let made = try bench.ask(
      "POST", "/keys", ["label": "Laptop", "type_permissions": ["*": "write"], "edge_permissions": edges])
    let machine = bench.machine()
    machine.key = try #require(made.string("key"))
    if isTaken {
      try machine.add(folder)
      #expect(machine.disk.status(machine.root) != nil)
      // A copy is filled by a key that reads the other edges too.
      if edges["*"] != nil {
        try machine.save("a.md", "Words.\n")
        _ = try machine.push()
        #expect(try bench.ids("a").count == 1)
      }
    } else {
      do {
        try machine.add(folder)
        Issue.record("the add was taken")
      } catch {
        #expect("\(error)".contains("edge.in-folder:write"), "\(error)")
      }
      #expect(machine.disk.status(machine.root) == nil)
      #expect(try machine.folders.list().isEmpty)
    }
  }

  @Test("F-S19.22 a placement gives no file to an item the search does not hold; a held unplaced one has its file")
  func onlyHeld() throws {
    let desk = try Desk()
    let outside = try desk.bench.item("Outside", type: "core.bookmark")
    try desk.edge(outside, "in-folder", desk.folder, ["path": "Outside.md"])
    try desk.bench.item("Held")
    let (push, _) = try desk.push()
    #expect(push.pull?.written == 1)
    #expect(desk.machine.files() == ["Held.md"])
    #expect(try desk.placed(outside) == "Outside.md")
  }

  @Test("F-S19.23 the server refuses a second placement as a duplicate, and the calling key answers as it says")
  func theServer() throws {
    let desk = try Desk()
    let id = try desk.bench.item("A")
    try desk.edge(id, "in-folder", desk.folder, ["path": "A.md"])
    do {
      try desk.edge(id, "in-folder", desk.folder, ["path": "B.md"])
      Issue.record("taken")
    } catch {
      #expect("\(error)".contains("400") && "\(error)".contains("edge_constraint_violation"))
      #expect("\(error)".contains("\"constraint\":\"duplicate\""))
    }
    let made = try desk.bench.ask(
      "POST", "/keys",
      ["label": "Laptop", "source": "laptop", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"]])
    let answer = desk.bench.instance.handle(
      InstanceRequest(
        method: "GET", target: "/keys/current",
        headers: [HTTPHeader("Authorization", "Bearer \(made.string("key") ?? "")")], body: []))
    guard case .whole(let response) = answer else { return #expect(Bool(false), "a stream") }
    let key = try JSON(parsing: response.body)
    #expect(response.status == 200)
    let wanted: JSON = [
      "id": made["id"] ?? .null, "label": "Laptop", "source": "laptop", "sources": [], "permissions": [],
      "default_tier": "library", "type_permissions": ["*": "write"], "edge_permissions": ["*": "write"],
      "metadata_permissions": [:], "extension_permissions": [:], "profile_permissions": [:], "expires_at": nil,
    ]
    for member in wanted.object?.members ?? [] { #expect(key[member.key] == member.value, "\(member.key)") }
    _ = try desk.push()
    #expect(desk.machine.files() == ["A.md"])
  }

  @Test("F-S19.24 a picture beside notes goes bytes first, then the item, then its edge")
  func picture() throws {
    let desk = try Desk(["title": "All", "search": ["types": ["core.note", "core.file"]]])
    try desk.machine.write("A.md", "Words.\n")
    try desk.machine.write("pic.png", "PNG bytes")
    let (push, sent) = try desk.push()
    #expect(push.scan.created == 2)
    let id = try desk.id("pic.png")
    let upload = try #require(sent.firstIndex { $0.target.hasPrefix("/blobs") })
    let create = try #require(sent.firstIndex { $0.line == "POST /items" && $0.body.string("id") == id.description })
    let edge = try #require(
      sent.firstIndex { $0.line == "POST /edges" && $0.body.string("source_id") == id.description })
    #expect(upload < create && create < edge)
    #expect(try desk.item(id).string("type") == "core.file.image")
    #expect(try desk.placed(id) == "pic.png")
    #expect(desk.machine.text("pic.png") == "PNG bytes")
  }
}

extension String {
  /// As the bench's bodies are given.
  var text: Text { Text(self) }
}

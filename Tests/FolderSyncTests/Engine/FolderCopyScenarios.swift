import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// What a folder takes from the contract of its copy: blanks of new files, and files whose names or tags no item may have.
struct FolderCopyScenarios {
  @Test("I-S152 I110.6 a new file's blanks are filled from the defaults, else the search, else core.note and library")
  func blanks() throws {
    for (settings, type, tier) in [
      (["title": "F"], "core.note", "library"),
      (["title": "F", "search": ["types": ["core.file", "core.note"]]], "core.note", "library"),
      (["title": "F", "search": ["types": ["core.task", "core.note"], "tier": "feed"]], "core.task", "feed"),
      (
        ["title": "F", "search": ["types": ["core.task", "core.note"]], "defaults": ["type": "core.note"]], "core.note",
        "library"
      ),
      (
        [
          "title": "F", "search": ["types": ["core.note"], "tier": "feed"],
          "defaults": ["type": "core.note", "tier": "feed"],
        ], "core.note", "feed"
      ),
    ] as [(JSON, Text, Text)] {
      let bench = try FolderBench()
      let machine = bench.machine()
      try machine.add(try bench.folder(settings))
      try machine.write("New.md", "Words.\n")
      try machine.push()
      let id = try #require(try bench.ids("New").first, "\(settings.compact)")
      let row = try bench.row(id)["item"]
      #expect(row?["type"]?.text == type && row?["tier"]?.text == tier, "\(settings.compact)")
    }
    // What the file names itself stands.
    let bench = try FolderBench()
    let machine = bench.machine()
    try machine.add(
      try bench.folder(
        [
          "title": "F", "search": ["types": ["core.task", "core.note"]], "defaults": ["type": "core.task"],
        ]))
    try machine.write("Own.md", "---\ntype: core.note\n---\nWords.\n")
    try machine.push()
    let id = try #require(try bench.ids("Own").first)
    #expect(try bench.row(id)["item"]?["type"]?.text == "core.note")
  }

  @Test(
    "D-S154 a file with a tag or a property name no item may have is flagged, sends nothing, and its neighbors are saved"
  )
  func refusedNames() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    try machine.add(try bench.folder())
    let long = String(repeating: "t", count: 129)
    let many = (0..<101).map { "tag\($0)" }.joined(separator: ", ")
    let files: [(String, String)] = [
      ("Blank.md", "tags: [\"  \"]"), ("Long.md", "tags: [\(long)]"), ("Many.md", "tags: [\(many)]"),
      ("Nameless.md", "\"\": x"),
    ]
    for (path, line) in files { try machine.write(path, "---\n\(line)\n---\nWords of \(path).\n") }
    try machine.write("Fine.md", "---\ntags: [\(String(repeating: "t", count: 128))]\n---\nWords.\n")
    try machine.write("Plain.md", "Words.\n")
    let push = try machine.push()
    let flagged = Set(push.scan.flagged.map { $0.path.description })
    #expect(flagged == Set(files.map(\.0)), "\(push.scan.json.compact)")
    #expect(try bench.titles() == ["Fine", "Plain"])
    for (path, line) in files {
      #expect(machine.text(path) == "---\n\(line)\n---\nWords of \(path).\n")
    }
    // Mended, they are saved as well.
    for (path, _) in files { try machine.write(path, "Words of \(path).\n") }
    let second = try machine.push()
    #expect(second.scan.flagged.isEmpty)
    #expect(try bench.titles() == ["Blank", "Fine", "Long", "Many", "Nameless", "Plain"])
  }

  @Test(
    "Q-S65 Q6.16 a rebase's later pass adds to the one report: its refusal is listed and counted beside the first pass")
  func rebaseReport() throws {
    let bench = try FolderBench()
    let id = try bench.item("A")
    let machine = bench.machine()
    try machine.add(try bench.folder())
    try machine.push()
    try machine.save("A.md", try #require(machine.text("A.md")).replacing("Words.", with: "Mine."))
    // The row moved on, in another field: a version to rebase onto.
    try bench.edit(id, ["place": "Rome"])
    var patches = 0
    bench.transport.before = { request in
      guard request.method == "PATCH", request.url.contains("/items/\(id)") else { return nil }
      patches += 1
      let isFirst = patches == 1
      let code: Text = isFirst ? "ancestor_unavailable" : "validation_error"
      var answer = JSONObject()
      answer["error"] = ["code": .string(code), "message": "Said by a test.", "details": [:]]
      if isFirst { answer["current"] = (try? bench.row(id))?["item"] ?? .null }
      return .success(
        HTTPResponse(
          status: isFirst ? 409 : 400,
          headers: [HTTPHeader("Content-Type", "application/json"), HTTPHeader("X-Marfa-Contract", "0")],
          body: JSON.object(answer).write()))
    }
    let push = try machine.push()
    #expect(patches == 2 && push.drain.rebased == 1)
    let drain = push.drain.drain
    #expect(drain.answered == 2 && drain.undelivered == 0 && drain.unmade == 0)
    #expect(drain.verdicts.map(\.verdict) == [.blocked, .refused])
    #expect(drain.verdicts.last?.reason == "validation_error")
    #expect(push.drain.json["answered"] == 2 && push.drain.json["verdicts"]?.array?.count == 2)
  }

  @Test("Q-S65 what each pass could not make, refused or was told to wait for is summed")
  func summed() {
    var report = DrainReport()
    report.answered = 3
    report.unmade = 1
    report.held = 2
    var later = DrainReport()
    later.answered = 1
    later.unmade = 2
    later.unsent = 1
    later.undelivered = 1
    later.unclaimedSources = ["a"]
    report.add(later)
    report.add(later)
    #expect(report.answered == 5 && report.unmade == 5 && report.unsent == 2 && report.undelivered == 2)
    // What is held is held once, however many passes came to it.
    #expect(report.held == 0 && report.unclaimedSources == ["a"])
  }

  // MARK: A folder beside a copy

  /// A copy of another device, filled with notes and their links.
  private func otherCopy(_ bench: FolderBench) throws -> WorkingCopy {
    let clock = bench.clock
    let copy = try WorkingCopy.open(
      database: try Database(path: ":memory:", mode: .create), blobs: MemoryBlobStore(),
      context: Context(
        clock: clock, ids: SeededIds(clock: clock, seed: 900), files: MemoryFileSystem(MemoryDisk(clock: clock)),
        transport: bench.transport, scheduler: ManualScheduler(clock: clock), log: SilentLog()),
      role: .writer, endpoint: Endpoint(baseURL: FolderBench.origin, credential: FolderBench.key), credentials: nil)
    _ = try copy.hydrate(Slice(typeList: ["core.note"], tier: "library", edgeTypes: ["parent-of", "references"]))
    return copy
  }

  @Test("D-S186 a folder and a copy link from one item's body: neither repeats nor removes the other's edge")
  func bothLink() throws {
    let bench = try FolderBench()
    let host = try bench.item("Host")
    let targets = try ["A", "B", "C"].map { try bench.item(Text($0)) }
    let machine = bench.machine()
    try machine.add(try bench.folder())
    try machine.push()
    let copy = try otherCopy(bench)
    func edges() throws -> [EntityID: EntityID] {
      let rows = try bench.ask("GET", "/items/\(host)/edges?edge_type=references")["data"]?.array ?? []
      var found: [EntityID: EntityID] = [:]
      for row in rows {
        let id = try #require(row["id"]?.text.flatMap { EntityID($0) })
        found[id] = try #require(row["target_id"]?.text.flatMap { EntityID($0) })
      }
      return found
    }
    func saveHere(_ old: String, _ new: String) throws {
      try machine.save("Host.md", try #require(machine.text("Host.md")).replacing(old, with: new))
    }
    func saveThere(_ old: String, _ new: String) throws {
      let row = try #require(try copy.item(host))
      let body = try #require(row.properties["body"]?.text?.string).replacing(old, with: new)
      try copy.queue.updateItem(
        host, ItemEdit(properties: JSONObject([("body", .string(Text(body)))]), version: row.version))
    }
    try saveHere("Words.", "Words. [[A]]")
    try machine.push()
    let first = try edges()
    #expect(first.values.sorted() == [targets[0]])
    // The copy goes on from it.
    try copy.catchUp()
    try saveThere("[[A]]", "[[A]] [[B]]")
    try copy.queue.drain()
    let second = try edges()
    #expect(Set(second.values) == Set(targets.prefix(2)) && second.count == 2)
    #expect(first.allSatisfy { second[$0.key] == $0.value })
    for _ in 0..<2 { try machine.push() }
    #expect(machine.text("Host.md")?.contains("[[A]] [[B]]") == true)
    #expect(try edges() == second)
    // Both add one name at once.
    try copy.catchUp()
    try saveHere("[[B]]", "[[B]] [[C]]")
    try saveThere("[[B]]", "[[B]] [[C]]")
    try copy.queue.drain()
    let third = try edges()
    #expect(Set(third.values) == Set(targets) && third.count == 3)
    for _ in 0..<2 { try machine.push() }
    #expect(try edges() == third)
    // Words changed beside the links change no edge, and each takes out the name it takes out alone.
    try copy.catchUp()
    try saveThere("Words.", "Other words.")
    try copy.queue.drain()
    try machine.push()
    #expect(try edges() == third)
    try saveHere(" [[B]]", "")
    try machine.push()
    try copy.catchUp()
    try copy.queue.drain()
    try machine.push()
    #expect(try edges() == third.filter { $0.value != targets[1] })
    #expect(try !copy.queue.all().contains { $0.verdict == .refused })
  }

  // MARK: Bytes beside the store

  private static let all: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]

  private func held(_ machine: FolderMachine) throws -> Set<ContentHash> {
    Set(try machine.folders.open(machine.root, role: .reader).copy.blobs.all().map(\.hash))
  }

  @Test("F37.4 X10.4 bytes of saves that later ones came after stay until the server took them all, and go then")
  func supersededBytes() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    try machine.add(try bench.folder(Self.all))
    try machine.push()
    let saves = ["one", "two", "three"]
    let hashes = saves.map { ContentHash(of: Array($0.utf8)) }
    machine.isOnline = false
    for save in saves {
      try machine.write("photo.png", save)
      try machine.push()
    }
    #expect(try held(machine) == Set(hashes))
    machine.isOnline = true
    var uploads = 0
    bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/blobs") else { return nil }
      uploads += 1
      return uploads == 2 ? .failure(.timedOut("no answer")) : nil
    }
    try machine.push()
    #expect(try held(machine).isSuperset(of: hashes.dropFirst()))
    bench.transport.before = nil
    try machine.push()
    let id = try #require(try bench.ids("photo.png").first)
    #expect(try bench.row(id)["item"]?["properties"]?["blob_ref"]?.text == hashes[2].text)
    #expect(try held(machine).isEmpty)
    #expect(machine.text("photo.png") == "three")
    #expect(try machine.push().drain.drain.answered == 0)
  }

  @Test("F37.4 bytes another file's upload still needs stay, though a file holds the same")
  func sharedBytes() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    try machine.add(try bench.folder(Self.all))
    try machine.write("a.png", "same")
    try machine.push()
    #expect(try held(machine).isEmpty)
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/blobs") ? .failure(.timedOut("no answer")) : nil
    }
    try machine.write("b.png", "same")
    try machine.push()
    #expect(try held(machine) == [ContentHash(of: Array("same".utf8))])
    bench.transport.before = nil
    let push = try machine.push()
    #expect(push.drain.drain.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(try bench.titles() == ["a.png", "b.png"])
    #expect(try held(machine).isEmpty)
  }
}

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
}

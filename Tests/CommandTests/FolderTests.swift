import Glibc
import MarfaBase
import Testing
import TestSupport

@Suite("folder commands") struct FolderTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  /// A folder item on the server.
  func makeFolder(_ title: String = "Notes") async throws -> String {
    let made = try await program.run([
      "--json", "create", "--title", title, "--search", #"{"types":["core.note"]}"#,
    ])
    try #require(made.status == 0, "\(made.errText)")
    return try #require((made.json?["item"] ?? made.json)?["id"]?.text?.string)
  }

  /// How many notes the server counts.
  func serverNotes() async throws -> Int {
    let told = try await program.run(["--json", "server"])
    return told.json?["stats"]?["active"]?.int ?? 0
  }

  /// A confirmed folder over `Notes` holding these files, synced.
  func syncedFolder(_ files: [String: String]) async throws -> String {
    for (name, text) in files { try scratch.write("Notes/\(name)", text) }
    let id = try await makeFolder()
    _ = try await json(["add", notes, "--folder", id, "--yes"])
    _ = try await json(["sync", notes])
    return id
  }

  @Test("C-S15 add without a terminal waits with its three counts, writes nothing but .marfa and sends nothing")
  func addWaits() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    try scratch.write("Notes/Two.md", "# Two\n")
    let before = try await serverNotes()
    let id = try await makeFolder()
    let added = try await json(["add", notes, "--folder", id])
    #expect(added["folder"]?.text?.string == id)
    #expect(added["dir"]?.text?.string == notes)
    #expect(added["first_sync"]?["waiting"] == true)
    #expect(added["first_sync"]?["write"] == 0)
    #expect(added["first_sync"]?["send"] == 2)
    #expect(added["first_sync"]?["beside"] == 0)
    #expect(added["first_sync"]?["unread"] == .null)
    #expect(added.object?.keys.contains("storage") == true)
    #expect(scratch.text("Notes/One.md") == "# One\n")
    #expect(scratch.files("Notes") == ["One.md", "Two.md"])
    #expect(try await serverNotes() == before)
    let text = try await program.run(["status", notes])
    #expect(text.outText.contains("2 files to send"))
  }

  @Test("C19.7 after a confirmed plan the push says what went, though its own scan made nothing new")
  func saysWhatWent() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    try scratch.write("Notes/Two.md", "# Two\n")
    _ = try await json(["add", notes, "--folder", makeFolder()])
    _ = try await json(["confirm", notes])
    let push = try await program.run(["sync", notes])
    #expect(push.outText.contains("sent: created 2, links and placements 2\n"), "\(push.outText)")
  }

  @Test("F35.9 text output names the files left that no longer match; the report counts them")
  func saysWhatIsUnmatched() async throws {
    try scratch.write("Notes/Plan.md", "# Plan\n")
    _ = try await json([
      "add", notes, "--create", "Work", "--search", #"{"types":["core.note"],"filter":"tags contains \"work\""}"#,
      "--defaults",
      #"{"tags":["work"]}"#, "--yes",
    ])
    try scratch.write("Notes/Plan.md", "---\ntags: [work]\n---\nWords.\n")
    _ = try await json(["sync", notes])
    let text = try #require(scratch.text("Notes/Plan.md"))
    try scratch.write("Notes/Plan.md", text.replacing("work", with: "home"))
    _ = try await json(["sync", notes])
    let told = try await program.run(["sync", notes])
    #expect(told.outText.contains("Plan.md: left, its item no longer matches the folder's search\n"), "\(told.outText)")
    let push = try await json(["sync", notes])
    #expect(push["pull"]?["unmatched"] == 1 && push["pull"]?["flagged"]?.array?.isEmpty == true)
  }

  @Test("C-S16 at a terminal YES confirms the first sync; an empty answer leaves it waiting, exit 0")
  func addAsks() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let id = try await makeFolder()
    for (answer, waits) in [("\n", true), ("no\n", true), ("YES\n", false)] {
      let child = try program.start(["add", notes, "--folder", id], terminal: true)
      try await child.shows("Go ahead? [y/N] ")
      child.send(answer)
      let ran = try await child.end()
      #expect(ran.status == 0, "\(ran.errText)")
      #expect(ran.errText.contains("1 file to send"))
      let status = try await json(["status", notes])
      #expect((status["first_sync"] != nil) == waits, "after \(answer)")
      #expect(scratch.text("Notes/One.md") == "# One\n")
    }
  }

  @Test("C-S17 add --yes asks nothing and reads nothing; the next push sends and writes")
  func addYes() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let id = try await makeFolder()
    let child = try program.start(["add", notes, "--folder", id, "--yes"], terminal: true)
    let ran = try await child.end()
    #expect(ran.status == 0)
    #expect(!ran.errText.contains("Go ahead"))
    let push = try await json(["push", notes])
    #expect(push["scan"]?["created"] == 1)
    #expect((push["drain"]?["answered"]?.int ?? 0) >= 1)
    #expect(scratch.text("Notes/One.md")?.contains("marfa_id:") == true)
    #expect(scratch.text("Notes/One.md")?.hasSuffix("# One\n") == true)
    #expect(try await serverNotes() == 1)
  }

  @Test("C-S18 C5.4 a waiting folder refuses pull, restore and a drain; push answers only the plan")
  func waitingRefuses() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let id = try await makeFolder()
    _ = try await json(["add", notes, "--folder", id])
    for words in [["pull", notes], ["restore", notes], ["device", "--db", notes + "/.marfa/core.sqlite", "drain"]] {
      let ran = try await program.run(["--json"] + words)
      #expect(ran.status == 4, "\(words)")
      #expect(ran.code == "first_sync_waiting", "\(words)")
      for word in ["push", "confirm", "remove"] { #expect(ran.message.contains(word), "\(words)") }
    }
    let push = try await json(["push", notes])
    #expect(push.object?.keys == ["first_sync"])
    #expect(push["first_sync"]?["send"] == 1)
    #expect(try await serverNotes() == 0)
  }

  @Test("C-S19 confirm with no server named lets the first sync go and asks nobody")
  func confirmOffline() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let id = try await makeFolder()
    _ = try await json(["add", notes, "--folder", id])
    server.child.signal(SIGKILL)
    _ = try await server.child.end()
    var alone = program
    alone.environment["MARFA_API_URL"] = nil
    alone.environment["MARFA_API_KEY"] = nil
    let ran = try await alone.run(["--json", "confirm", notes])
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.json?["first_sync"] == true)
    let status = try await alone.run(["--json", "status", notes])
    #expect(status.json?["first_sync"] == nil)
    #expect(status.json?["files"]?.array?.count == 1)
  }

  @Test("C-S20 an empty directory and a search that matches nothing confirm themselves")
  func nothingToDo() async throws {
    let added = try await json(["add", notes, "--folder", makeFolder()])
    #expect(added["first_sync"]?["waiting"] == false)
  }

  @Test("C-S21 a waiting folder whose scan queued writes is removed, and its files stay")
  func removeWaiting() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    _ = try await json(["add", notes, "--folder", makeFolder()])
    let removed = try await json(["remove", notes])
    #expect(removed["removed"] == true)
    #expect(removed["dir"]?.text?.string == notes)
    #expect(scratch.text("Notes/One.md") == "# One\n")
    #expect(!names(of: notes).contains(".marfa"))
    #expect(try await json(["list"]) == [])
  }

  @Test("C-S22 two pushes at a server out of reach give the same plan")
  func planOffline() async throws {
    try scratch.write("Notes/One.md", "# One\n")
    let id = try await makeFolder()
    _ = try await json(["add", notes, "--folder", id])
    server.child.signal(SIGKILL)
    _ = try await server.child.end()
    let first = try await json(["push", notes])
    let second = try await json(["push", notes])
    #expect(first == second)
    #expect(first["first_sync"]?["send"] == 1)
  }

  @Test("C-S23 adding a confirmed folder again keeps it confirmed")
  func addAgain() async throws {
    let id = try await syncedFolder(["One.md": "# One\n"])
    let again = try await json(["add", notes, "--folder", id])
    #expect(again["first_sync"]?["waiting"] == false)
    #expect(try await json(["status", notes])["first_sync"] == nil)
  }

  @Test("C-S26 an id of a note, or of a revoked folder, is refused invalid")
  func wrongFolder() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    let note = try #require(try await json(["status", notes])["files"]?.array?.first?["item_id"]?.text?.string)
    let revoked = try await makeFolder("Gone")
    _ = try await json(["revoke", revoked])
    for id in [note, revoked] {
      let ran = try await program.run(["--json", "add", scratch.at("Other"), "--folder", id])
      #expect(ran.status == 1, "\(ran.errText)")
      #expect(ran.code == "invalid")
      #expect(!names(of: scratch.path).contains("Other"))
    }
  }

  @Test("C-S27 C-S28 another id over a bound directory, and a directory inside or around one, are refused naming it")
  func boundAndNested() async throws {
    let id = try await syncedFolder(["Sub/One.md": "# One\n"])
    let other = try await makeFolder("Other")
    let bound = try await program.run(["--json", "add", notes, "--folder", other])
    #expect(bound.code == "invalid")
    #expect(bound.message.contains(id))
    for directory in [notes + "/Sub", scratch.path] {
      let nested = try await program.run(["--json", "add", directory, "--folder", other, "--force"])
      #expect(nested.code == "invalid", "\(nested.errText)")
      #expect(nested.message.contains(notes))
    }
    #expect(!names(of: notes + "/Sub").contains(".marfa"))
  }

  @Test("C-S31 C-S32 a removal of 40 of 100 waits; restore puts it back, confirm sends it")
  func largeRemoval() async throws {
    var files: [String: String] = [:]
    for number in 0..<100 { files["N\(number).md"] = "# Note \(number)\n" }
    _ = try await syncedFolder(files)
    func deleteForty() { for number in 0..<40 { unlink(notes + "/N\(number).md") } }
    deleteForty()
    let push = try await json(["push", notes])
    #expect(push["scan"]?["paused"] == 40)
    #expect(push["scan"]?["deleted"] == 0)
    #expect(try await serverNotes() == 100)
    let text = try await program.run(["push", notes])
    #expect(text.outText.contains("'confirm'") && text.outText.contains("'restore'") && text.outText.contains("40"))
    // One cause with its ways out once, its files as those of any other (N6.1).
    let status = try await program.run(["status", notes]).outText.split(separator: "\n")
    #expect(status.filter { $0.contains("40 files held") }.count == 1, "\(status)")
    #expect(status.filter { $0.contains(".md") }.count == 10 && status.contains { $0.contains("and 30 more") })
    let restored = try await json(["restore", notes])
    #expect(restored["put_back"] == 40)
    #expect(scratch.files("Notes").count == 100)
    deleteForty()
    _ = try await json(["push", notes])
    let confirmed = try await json(["confirm", notes])
    #expect(confirmed["deleted"] == 40)
    #expect(confirmed["first_sync"] == false)
    _ = try await json(["push", notes])
    #expect(try await serverNotes() == 60)
  }

  @Test("C-S34 a removed directory that is still listed is taken off the list")
  func removeGone() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    removeTree(notes)
    #expect(try await json(["list"]).array?.count == 1)
    _ = try await json(["remove", notes])
    #expect(try await json(["list"]) == [])
    let again = try await program.run(["--json", "remove", notes])
    #expect(again.code == "invalid")
  }

  @Test("C-S35 remove through a symbolic link is refused; the path list gives is taken")
  func removeLink() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    let link = scratch.at("Link")
    try #require(symlink(notes, link) == 0)
    let refused = try await program.run(["--json", "remove", link])
    #expect(refused.code == "invalid")
    #expect(refused.message.contains(notes))
    let listed = try #require(try await json(["list"]).array?.first?["dir"]?.text?.string)
    _ = try await json(["remove", listed])
    #expect(scratch.text("Notes/One.md")?.contains("# One") == true)
  }

  @Test("C-S36 a push at a server out of reach exits 0, says why and counts what waits")
  func pushOffline() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    let text = try #require(scratch.text("Notes/One.md"))
    try scratch.write("Notes/One.md", text + "More.\n")
    server.child.signal(SIGKILL)
    _ = try await server.child.end()
    let push = try await json(["push", notes])
    #expect(push["scan"]?["updated"] == 1)
    #expect((push["drain"]?["undelivered"]?.int ?? 0) >= 1)
    #expect(push["catch_up"]?["failed"]?.text?.isEmpty == false)
    #expect(push["pull"]?.isNull == false)
    let words = try await program.run(["push", notes])
    #expect(words.status == 0)
    #expect(words.outText.contains("undelivered"))
  }

  @Test("C-S38 one push of three files leaves every file in step")
  func inStep() async throws {
    _ = try await syncedFolder(["A.md": "# A\n", "B.md": "# B\n", "C.md": "# C\n"])
    let status = try await json(["status", notes])
    let files = status["files"]?.array ?? []
    #expect(files.count == 3)
    #expect(files.allSatisfy { $0["status"] == "in_step" })
    #expect(files.compactMap { $0["path"]?.text } == ["A.md", "B.md", "C.md"])
    #expect(status["paused"] == ["disk": 0, "pull": 0])
    let words = try await program.run(["status", notes])
    #expect(words.outText == "3 files in step\n")
  }

  @Test("N-S2 add in a script that names no folder exits 2 naming --folder and --create, and makes nothing")
  func scriptNamesFolder() async throws {
    let ran = try await program.run(["--json", "add", notes])
    #expect(ran.status == 2)
    #expect(ran.code == "usage")
    #expect(ran.message.contains("--folder") && ran.message.contains("--create"))
    #expect(!names(of: scratch.path).contains("Notes"))
  }

  @Test("N-S3 add --create --local --yes leaves the directory added and confirmed with no prompt")
  func createLocal() async throws {
    var alone = program
    alone.environment["MARFA_API_URL"] = nil
    alone.environment["MARFA_API_KEY"] = nil
    try scratch.write("Notes/One.md", "# One\n")
    let added = try await alone.run(["--json", "add", notes, "--create", "--local", "--yes"])
    #expect(added.status == 0, "\(added.errText)")
    #expect(added.json?["first_sync"]?["waiting"] == false)
    // N2.11: a bare sync finds the server the folder was added with.
    let push = try await alone.run(["--json", "sync", notes])
    #expect(push.status == 0, "\(push.errText)")
    #expect(push.json?["scan"]?["created"] == 1)
    _ = try await alone.run(["instance", "stop"])
  }

  @Test("N-S4 add --create refused because the directory is nested revokes the folder it made")
  func createNested() async throws {
    _ = try await syncedFolder(["Sub/One.md": "# One\n"])
    let ran = try await program.run(["--json", "add", notes + "/Sub", "--create", "Nested"])
    #expect(ran.status == 1)
    #expect(ran.code == "invalid")
    // Nothing but the first folder is left alive, so a terminal's list offers one.
    let child = try program.start(["add", scratch.at("Third")], terminal: true)
    try await child.shows("a new folder, titled Third")
    let offered = String(decoding: child.err, as: UTF8.self)
    #expect(!offered.contains("Nested"))
    #expect(offered.contains("  1  Notes"))
    child.send("\n")
    let stopped = try await child.end()
    #expect(stopped.status != 0)
    #expect(!names(of: scratch.path).contains("Third"))
  }

  @Test("N-S1 a newcomer's add at a terminal, answered Enter and y, runs the instance, makes the folder and confirms")
  func newcomer() async throws {
    var alone = program
    alone.environment["MARFA_API_URL"] = nil
    alone.environment["MARFA_API_KEY"] = nil
    try scratch.write("Notes/One.md", "# One\n")
    let child = try alone.start(["add", notes], terminal: true)
    try await child.shows("Keep your notes on this computer for now? [Y/n] ")
    child.send("\n")
    try await child.shows("A new folder, titled Notes, is made")
    try await child.shows("Go ahead? [y/N] ")
    child.send("y\n")
    let ran = try await child.end()
    #expect(ran.status == 0, "\(ran.errText)")
    let status = try await alone.run(["--json", "status", notes])
    #expect(status.json?["first_sync"] == nil)
    let running = try await alone.run(["--json", "instance", "status"])
    #expect(running.json?["running"] == true)
    _ = try await alone.run(["instance", "stop"])
  }

  @Test(
    "P3.5 a folder that add makes pauses from 20 removals on and leaves out what other programs make by the thousand")
  func madeSettings() async throws {
    let ran = try await program.run(["--json", "add", notes, "--create", "Mine", "--yes"])
    try #require(ran.status == 0, "\(ran.errText)")
    let settings = try #require(scratch.text("Notes/.marfa/folder.yaml"))
    #expect(settings.contains("files: 20") && settings.contains("fraction: 0"), "\(settings)")
    for ignored in ["node_modules/", ".venv/", "target/"] { #expect(settings.contains(ignored)) }
    let twice = try await program.run(["--json", "add", scratch.at("Two"), "--create", "A", "--title", "B"])
    #expect(twice.status == 1 && twice.code == "invalid" && !names(of: scratch.path).contains("Two"))
  }

  @Test("C1.5 an empty DIR, as an unset variable of a script leaves one, names no directory")
  func emptyDirectory() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    for command in ["status", "remove", "scan"] {
      let ran = try await program.run(["--json", command, ""])
      #expect(ran.status == 2 && ran.code == "usage", "\(command)")
    }
  }

  @Test("C5.1 a settings door answered 409 is conflict, with the server's own code beside it")
  func settingsConflict() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    let folder = try #require(
      try await program.run(["--json", "list"]).json?.array?.first?["folder"]?.text?.string)
    let changed = try await program.run(["--json", "change", folder, "--version", "1", "--title", "Later"])
    try #require(changed.status == 0, "\(changed.errText)")
    let late = try await program.run(["--json", "change", folder, "--version", "1", "--title", "Late"])
    #expect(late.status == 1 && late.code == "conflict")
    #expect(late.refusal?["error"]?["server"]?["code"] == "version_conflict")
  }

  @Test("X12.4 a status changes no byte of a folder nobody works, nor of its directory")
  func statusLeaves() async throws {
    _ = try await syncedFolder(["One.md": "# One\n"])
    func state() -> [String: [UInt8]?] {
      Dictionary(uniqueKeysWithValues: scratch.files("Notes/.marfa").map { ($0, scratch.bytes($0)) })
    }
    let before = state()
    for command in [["status", notes], ["log", notes], ["conflicts", notes], ["list"]] {
      let ran = try await program.run(["--json"] + command)
      #expect(ran.status == 0, "\(command) \(ran.errText)")
      #expect(state() == before, "\(command)")
    }
    #expect(!before.keys.contains { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") })
  }

  @Test("C5.1 an answer that a full disk cuts short is storage_full, never taken for whole")
  func fullOutput() async throws {
    let child = try ChildProcess(
      ["/bin/sh", "-c", #"exec "$0" --json list > /dev/full"#, MarfaFolders.binary],
      environment: program.environment, directory: program.directory, terminal: false)
    child.endInput()
    let ran = try await child.end()
    #expect(ran.status == 3 && ran.code == "storage_full")
  }

  @Test("P7.6 a key comes from a file and from standard input too")
  func keySources() async throws {
    var alone = program
    alone.environment["MARFA_API_KEY"] = nil
    let file = try scratch.write("key.txt", server.key + "\nnotes on it\n")
    let fromFile = try await alone.run(["--json", "keys", "current", "--key-file", file])
    #expect(fromFile.status == 0, "\(fromFile.errText)")
    let fromInput = try await alone.run(["--json", "keys", "current", "--key", "-"], input: server.key + "\n")
    #expect(fromInput.status == 0, "\(fromInput.errText)")
    let empty = try await alone.run(["--json", "keys", "current", "--key", "-"], input: "\n")
    #expect(empty.code == "invalid")
  }
}

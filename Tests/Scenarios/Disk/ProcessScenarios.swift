import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// The folder's files between processes: the built program, a real directory, a real socket.
@Suite(.serialized) struct ProcessScenarios {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let server: LocalServer
  let notes: String
  let folder: String

  init() async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    program.environment["MARFA_FOLDER_REGISTRY"] = scratch.at("folders.json")
    self.program = program
    notes = scratch.at("Notes")
    let made = try await program.run([
      "--json", "create", "--title", "Notes", "--search", #"{"types":["core.note","core.file"]}"#,
    ])
    folder = try #require((made.json?["item"] ?? made.json)?["id"]?.text?.string, "\(made.errText)")
  }

  // MARK: What is done

  func add(_ directory: String? = nil) async throws {
    let added = try await program.run(["add", directory ?? notes, "--folder", folder, "--yes"])
    try #require(added.status == 0, "\(added.errText)")
  }

  /// Runs a command until the folder was let go for it: a busy machine may take longer than an ask lasts.
  @discardableResult
  func insist(_ arguments: [String], _ environment: [String: String] = [:]) async throws -> Ran {
    var program = program
    program.environment.merge(environment) { $1 }
    for _ in 0..<12 {
      let ran = try await program.run(["--json"] + arguments, deadline: .seconds(120))
      // With waits a thousand times as fast a busy computer may not answer in time (exit 3).
      if ran.code != "reading_handle", ran.status != 3 { return ran }
    }
    throw ScratchError("never let go for \(arguments)")
  }

  func events(_ child: ChildProcess) -> [JSON] {
    child.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) }
  }
  func names(_ child: ChildProcess) -> [String] { events(child).compactMap { $0["event"]?.text?.string } }

  func watch() async throws -> ChildProcess {
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(90)) { names($0).contains("passed") }
    return child
  }

  func wait(_ child: ChildProcess, for event: String, times: Int = 1) async throws {
    try await child.wait(event, within: .seconds(90)) { names($0).filter { $0 == event }.count >= times }
  }

  /// A process that asks for the folder as X13.3 says, and never works it.
  func asker(_ command: String = "push", then more: String = "") throws -> ChildProcess {
    let script = """
      exec 9<>"$STATE/core.handover"
      flock 9
      printf '{"pid":%d,"command":"%s","asked_at":"2031-02-03T04:05:06.000Z"}\\n' $$ "$ASKS" >"$STATE/core.handover"
      \(more)
      echo asked
      exec sleep 600
      """
    var environment = program.environment
    environment["STATE"] = notes + "/.marfa"
    environment["ASKS"] = command
    return try ChildProcess(["bash", "-c", script], environment: environment)
  }

  /// The directories the list names.
  func listed() -> [String]? {
    guard let json = scratch.bytes("folders.json").flatMap({ try? JSON(parsing: $0) }) else { return nil }
    return json["folders"]?.array?.compactMap { $0["dir"]?.text?.string }
  }

  func mode(_ path: String) -> UInt32? {
    var status = stat()
    guard lstat(path, &status) == 0 else { return nil }
    return status.st_mode & 0o7777
  }

  func end(_ child: ChildProcess) async throws {
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(90)).status == 0)
  }

  // MARK: The list

  @Test("X-S3 with no place for a list, list answers none and a push works")
  func noList() async throws {
    try await add()
    try scratch.write("Notes/One.md", "One.\n")
    var bare = program
    for name in ["HOME", "XDG_DATA_HOME", "MARFA_FOLDER_REGISTRY"] { bare.environment[name] = nil }
    let list = try await bare.run(["--json", "list"])
    #expect(list.status == 0 && list.json == [])
    let push = try await bare.run(["--json", "push", notes])
    #expect(push.status == 0, "\(push.errText)")
    #expect(push.json?["scan"]?["created"] == 1 && push.json?["scan"]?["registry"] == .null)
  }

  @Test("X-S16 two processes that add folders at once, fifty times, lose no entry")
  func atOnce() async throws {
    for round in 0..<50 {
      async let one: Void = add(scratch.at("One \(round)"))
      async let two: Void = add(scratch.at("Two \(round)"))
      _ = try await (one, two)
    }
    let expected = Set((0..<50).flatMap { [scratch.at("One \($0)"), scratch.at("Two \($0)")] })
    #expect(Set(listed() ?? []) == expected && listed()?.count == 100)
  }

  @Test("X-S71 an empty list fails list and stays empty; a push goes on, says so, and holds its missing files")
  func emptyList() async throws {
    try scratch.write("Notes/One.md", "One.\n")
    try scratch.write("Notes/Two.md", "Two.\n")
    try await add()
    let fast = ["MARFA_TEST_TIME": "1000"]
    #expect(try await insist(["push", notes], fast).status == 0)
    unlink(notes + "/One.md")
    #expect(try await insist(["push", notes], fast).status == 0)
    try scratch.write("folders.json", "")
    let list = try await program.run(["--json", "list"])
    #expect(list.status == 4 && list.code == "store" && list.message.contains("add"))
    #expect(scratch.bytes("folders.json") == [])
    let push = try await insist(["push", notes], fast)
    #expect(push.status == 0)
    #expect(push.json?["scan"]?["registry"]?.text?.string.contains("folders.json") == true)
    #expect(push.json?["scan"]?["unsure"]?.array?.map { $0["path"] } == ["One.md"])
    #expect(push.json?["scan"]?["deleted"] == 0 && scratch.bytes("folders.json") == [])
  }

  @Test("X-S15 a running watch whose list was deleted goes on, and lists itself again")
  func listDeleted() async throws {
    try await add()
    let child = try await watch()
    unlink(scratch.at("folders.json"))
    try scratch.write("Notes/New.md", "New.\n")
    try await child.wait("the list", within: .seconds(90)) { _ in listed() == [notes] }
    try scratch.write("Notes/Newer.md", "Newer.\n")
    try await child.wait("both files sent", within: .seconds(90)) {
      events($0).reduce(0) { $0 + ($1["scan"]?["created"]?.int ?? 0) } == 2
    }
    #expect(child.status == nil)
    try await end(child)
  }

  // MARK: The folder's own directory

  @Test("X-S19 under umask 000 .marfa is 0700, every file in it 0600, the bytes' directory 0700")
  func modes() async throws {
    try scratch.write("Notes/One.md", "One.\n")
    try scratch.write("Notes/photo.png", [0x89, 0x50, 0x4E, 0x47, 1, 2, 3])
    var environment = program.environment
    environment["MARFA_BINARY"] = MarfaFolders.binary
    environment["NOTES"] = notes
    environment["FOLDER"] = folder
    let child = try ChildProcess(
      [
        "bash", "-c",
        #"umask 000; "$MARFA_BINARY" add "$NOTES" --folder "$FOLDER" --yes >&2; exec "$MARFA_BINARY" watch "$NOTES" --json"#,
      ], environment: environment)
    try await wait(child, for: "passed")
    let state = notes + "/.marfa"
    #expect(mode(state) == 0o700)
    let found = TestSupport.names(of: state)
    #expect(
      Set(found).isSuperset(of: ["core.sqlite", "core.sqlite-wal", "core.sqlite.lock", "folder.yaml"]), "\(found)")
    for name in found where name != "core.sqlite.blobs" { #expect(mode("\(state)/\(name)") == 0o600, "\(name)") }
    #expect(mode(state + "/core.sqlite.blobs") == 0o700)
    #expect(try await insist(["push", notes]).status == 0)
    #expect(mode(state + "/core.handover") == 0o600)
    try await end(child)
  }

  @Test("X7.3 what was left wider is narrowed by the next writer")
  func narrowed() async throws {
    try await add()
    for (name, wide) in [("", 0o755), (Substring("/core.sqlite"), 0o644)] as [(Substring, mode_t)] {
      chmod(notes + "/.marfa" + name, wide)
    }
    #expect(try await program.run(["--json", "status", notes]).status == 0)
    #expect(mode(notes + "/.marfa") == 0o755 && mode(notes + "/.marfa/core.sqlite") == 0o644)
    #expect(try await insist(["push", notes]).status == 0)
    #expect(mode(notes + "/.marfa") == 0o700 && mode(notes + "/.marfa/core.sqlite") == 0o600)
  }

  @Test("X-S67 a remove killed after it took the folder off the list is finished by the next")
  func removeCutShort() async throws {
    try scratch.write("Notes/One.md", "One.\n")
    try await add()
    #expect(try await insist(["push", notes]).status == 0)
    let killed = try await insist(["remove", notes], ["MARFA_TEST_FAULT": "crash-after-unlisting"])
    #expect(killed.status == 128 + SIGKILL)
    #expect(listed() == [] && mode(notes + "/.marfa/core.sqlite") != nil)
    #expect(try await program.run(["--json", "remove", notes]).status == 0)
    #expect(mode(notes + "/.marfa") == nil && listed() == [])
    #expect(scratch.files("Notes") == ["One.md"])
  }

  // MARK: The claim

  @Test("X-S23 a writer killed with SIGKILL leaves the folder free at once")
  func killedWriter() async throws {
    try await add()
    let child = try await watch()
    #expect(try await program.run(["--json", "watch", notes, "--for", "1"]).code == "reading_handle")
    child.signal(SIGKILL)
    _ = try await child.end(within: .seconds(90))
    // A watch never asks: it opens at once or is refused.
    let next = try await program.run(["--json", "watch", notes, "--for", "1"], deadline: .seconds(120))
    #expect(next.status == 0, "\(next.errText)")
  }

  @Test("X-S26 three commands that ask at once work one after another, or are refused by their own time")
  func threeAskers() async throws {
    try await add()
    let child = try await watch()
    for name in ["a", "b", "c"] { try scratch.write("Notes/\(name).md", "\(name).\n") }
    async let one = program.run(["--json", "push", notes], deadline: .seconds(180))
    async let two = program.run(["--json", "sync", notes], deadline: .seconds(180))
    async let three = program.run(["--json", "confirm", notes], deadline: .seconds(180))
    let runs = try await [one, two, three]
    for ran in runs { #expect(ran.status == 0 || ran.code == "reading_handle", "\(ran.errText)") }
    #expect(runs.contains { $0.status == 0 })
    try await wait(child, for: "taken_back")
    // Nothing was made twice by workers in each other's way.
    try await child.wait("all of it sent", within: .seconds(90)) { _ in
      ["a", "b", "c"].allSatisfy { scratch.text("Notes/\($0).md")?.contains("marfa_id") == true }
    }
    try await end(child)
    let status = try await program.run(["--json", "status", notes])
    #expect(status.json?["files"]?.array?.count == 3)
    let listed = try await program.run([
      "--json", "device", "--reader", "--db", notes + "/.marfa/core.sqlite", "items", "list",
    ])
    #expect(listed.status == 0)
  }

  @Test("X-S28 an asker killed after asking: the watch takes the folder back")
  func killedAsker() async throws {
    try await add()
    let child = try await watch()
    let asker = try asker()
    try await wait(child, for: "handed_over")
    #expect(events(child).first { $0["event"] == "handed_over" }?["to"] == "push")
    #expect(!names(child).contains("taken_back"))
    asker.signal(SIGKILL)
    try await wait(child, for: "taken_back")
    try scratch.write("Notes/New.md", "New.\n")
    try await child.wait("the file sent", within: .seconds(90)) {
      events($0).contains { $0["scan"]?["created"] == 1 }
    }
    try await end(child)
  }

  @Test("X-S29 a watch killed while it had let go leaves the folder free at once")
  func killedWhileLetGo() async throws {
    try await add()
    let child = try await watch()
    let asker = try asker()
    try await wait(child, for: "handed_over")
    child.signal(SIGKILL)
    _ = try await child.end(within: .seconds(90))
    asker.signal(SIGKILL)
    _ = try await asker.end(within: .seconds(90))
    let next = try await program.run(["--json", "watch", notes, "--for", "1"], deadline: .seconds(120))
    #expect(next.status == 0, "\(next.errText)")
  }

  @Test("X-S30 a process that took the folder without asking is said once, and the folder taken back when it ends")
  func heldElsewhere() async throws {
    try await add()
    let child = try await watch()
    // It asks, takes the claim as soon as it is free, and drops the ask: from then on nobody asks, and the claim is held.
    let holder = try asker(
      then: """
        exec 8<>"$STATE/core.sqlite.lock"
        flock 8
        exec 9>&-
        """)
    try await holder.shows("asked", within: .seconds(90))
    try await wait(child, for: "held_elsewhere")
    #expect(!names(child).contains("taken_back"))
    holder.signal(SIGKILL)
    try await wait(child, for: "taken_back")
    #expect(names(child).filter { $0 == "held_elsewhere" }.count == 1)
    try await end(child)
  }

  @Test("X-S31 a watch ends removed by a remove, unlisted by one cut short; an entry cut by hand is listed again")
  func takenOff() async throws {
    try await add()
    let first = try await watch()
    #expect(try await insist(["remove", notes]).status == 0)
    let removed = try await first.end(within: .seconds(90))
    #expect(removed.status == 0 && names(first).last == "removed" && mode(notes + "/.marfa") == nil)

    try await add()
    let second = try await watch()
    let killed = try await insist(["remove", notes], ["MARFA_TEST_FAULT": "crash-after-unlisting"])
    #expect(killed.status == 128 + SIGKILL)
    let unlisted = try await second.end(within: .seconds(90))
    #expect(unlisted.status == 0 && names(second).last == "unlisted")
    #expect(mode(notes + "/.marfa/core.sqlite") != nil && listed() == [])

    let third = try await watch()
    try await third.wait("its entry", within: .seconds(90)) { _ in listed() == [notes] }
    try scratch.write("folders.json", "{\n  \"folders\": []\n}\n")
    try scratch.write("Notes/New.md", "New.\n")
    try await third.wait("its entry again", within: .seconds(90)) { _ in listed() == [notes] }
    #expect(third.status == nil)
    try await end(third)
    #expect(!names(third).contains("unlisted"))
  }

  // MARK: Settings

  @Test("X-S58 settings changed on the server are in the file within a pass of a watch, and no edit is read from it")
  func settingsUnderWatch() async throws {
    try await add()
    let child = try await watch()
    let changed = try await program.run(["--json", "change", folder, "--version", "1", "--title", "Theirs"])
    #expect(changed.status == 0, "\(changed.errText)")
    try await child.wait("the file", within: .seconds(90)) { _ in
      scratch.text("Notes/.marfa/folder.yaml")?.contains("version: 2\ntitle: Theirs\n") == true
    }
    try scratch.write("Notes/New.md", "New.\n")
    try await child.wait("the next pass", within: .seconds(90)) {
      events($0).contains { $0["scan"]?["created"] == 1 }
    }
    #expect(!events(child).contains { $0["settings"]?["sent"] == true })
    try await end(child)
    // Nothing was sent: the row is at the version of the change.
    #expect(try await program.run(["--json", "change", folder, "--version", "2", "--title", "Last"]).status == 0)
  }
}

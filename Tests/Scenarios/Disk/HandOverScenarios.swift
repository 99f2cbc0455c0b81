import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// Letting a folder go and waiting for it, between processes of the built program (H, X12, X13, C18).
@Suite(.serialized) struct HandOverScenarios {
  let desk: ProcessScenarios
  /// Stands between the program and the instance, and keeps what it is told to keep waiting.
  let gate: Gate
  let between: ScriptedServer
  let program: MarfaFolders
  var notes: String { desk.notes }
  var scratch: ScratchDirectory { desk.scratch }

  init() async throws {
    desk = try await ProcessScenarios()
    let gate = Gate()
    self.gate = gate
    between = try ScriptedServer(upstream: desk.server.url) { request in
      gate.pass(request)
      return nil
    }
    var program = desk.program
    program.environment["MARFA_API_URL"] = between.url
    self.program = program
  }

  /// Requests that wait until they are let through.
  final class Gate: Sendable {
    private struct State {
      var holds: String?
      var held = 0
    }
    private let state = Mutex(State())

    /// Keeps requests of a method and door, as `POST /items`; nil lets all go.
    func hold(_ request: String?) { state.withLock { $0.holds = request } }
    /// How many came while they were held.
    var held: Int { state.withLock { $0.held } }

    fileprivate func pass(_ request: ScriptedServer.Request) {
      func isHeld() -> Bool { state.withLock { $0.holds == "\(request.method) \(request.door)" } }
      guard isHeld() else { return }
      state.withLock { $0.held += 1 }
      // A thread of the server's own: it may sleep.
      while isHeld() { usleep(5_000) }
    }
  }

  func run(_ words: [String], _ environment: [String: String] = [:]) async throws -> Ran {
    var program = program
    program.environment.merge(environment) { $1 }
    return try await program.run(["--json"] + words, deadline: .seconds(180))
  }

  func watch() async throws -> ChildProcess {
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the first pass", within: .seconds(120)) { desk.names($0).contains("passed") }
    return child
  }

  /// Every file of the folder and its own directory with its bytes, the two lock files left out.
  func everything() -> [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for path in allFiles(notes)
    where !path.hasSuffix(".lock") && !path.hasSuffix("core.handover") && !path.hasSuffix("-shm")
      && !path.hasSuffix("-wal")
    {
      found[path] = scratch.bytes("Notes/" + path) ?? []
    }
    return found
  }

  /// The files below a directory, its own state among them.
  private func allFiles(_ directory: String, _ prefix: String = "") -> [String] {
    TestSupport.names(of: directory).flatMap { name -> [String] in
      var status = stat()
      guard lstat("\(directory)/\(name)", &status) == 0 else { return [] }
      if status.st_mode & S_IFMT == S_IFDIR { return allFiles("\(directory)/\(name)", "\(prefix)\(name)/") }
      return status.st_mode & S_IFMT == S_IFREG ? [prefix + name] : []
    }.sorted()
  }

  /// The writes a folder's store holds that are not answered.
  func queue() async throws -> [JSON] {
    let ran = try await desk.program.run([
      "--json", "device", "--reader", "--db", notes + "/.marfa/core.sqlite", "queue",
    ])
    try #require(ran.status == 0, "\(ran.errText)")
    return (ran.json?.array ?? ran.json?["writes"]?.array ?? []).filter { $0["verdict"]?.isNull ?? true }
  }

  @Test(
    "H-S2 a holder that never lets go: reading_handle after ten seconds and before any read or write; status and list answer"
  )
  func neverLetsGo() async throws {
    try scratch.write("Notes/One.md", "One.\n")
    try await desk.add()
    try #require(try await desk.insist(["push", notes]).status == 0)
    try scratch.write("Notes/New.md", "New.\n")
    let holder = try ChildProcess(
      ["bash", "-c", "exec 8<>\"$STATE/core.sqlite.lock\"; flock 8; echo holds; exec sleep 600"],
      environment: ["PATH": "/usr/bin:/bin", "STATE": notes + "/.marfa"])
    try await holder.shows("holds", within: .seconds(90))
    let before = everything()
    let requests = between.requests.count
    let began = ContinuousClock.now
    let push = try program.start(["--json", "push", notes])
    // Beside the one that waits.
    let status = try await run(["status", notes])
    let list = try await run(["list"])
    #expect(status.status == 0 && status.json?["files"]?.array?.count == 2, "\(status.errText)")
    #expect(list.status == 0 && list.json?.array?.count == 1)
    let ran = try await push.end(within: .seconds(180))
    #expect(ContinuousClock.now - began >= .seconds(10))
    #expect(ran.status == 4 && ran.code == "reading_handle" && ran.message.contains(notes), "\(ran.errText)")
    #expect(ran.out.isEmpty)
    #expect(everything() == before)
    #expect(between.requests.count == requests, "\(between.requests.dropFirst(requests).map(\.path))")
    holder.signal(SIGKILL)
    _ = try await holder.end(within: .seconds(90))
    let after = try await desk.insist(["push", notes])
    #expect(after.status == 0 && after.json?["scan"]?["created"] == 1)
  }

  @Test("C-S54 while a long push holds the folder another push waits ten seconds, then reading_handle naming DIR")
  func longPush() async throws {
    try await desk.add()
    try #require(try await desk.insist(["push", notes]).status == 0)
    try scratch.write("Notes/One.md", "One.\n")
    gate.hold("POST /items")
    let long = try program.start(["--json", "push", notes])
    try await long.wait("the create on its way", within: .seconds(120)) { _ in gate.held > 0 }
    let began = ContinuousClock.now
    let second = try await run(["push", notes])
    #expect(ContinuousClock.now - began >= .seconds(10))
    #expect(second.status == 4 && second.code == "reading_handle" && second.message.contains(notes))
    #expect(long.status == nil)
    gate.hold(nil)
    let ran = try await long.end(within: .seconds(180))
    #expect(ran.status == 0 || ran.status == 3, "\(ran.errText)")
    // What the long one began is there once.
    try #require(try await desk.insist(["push", notes]).status == 0)
    #expect(scratch.text("Notes/One.md")?.contains("marfa_id") == true)
    #expect(try await desk.insist(["push", notes]).json?["drain"]?["answered"] == 0)
  }

  @Test(
    "H-S11 a watch in a slow upload lets go though no answer ever comes, and the write waits under its idempotency key",
    arguments: ["POST /blobs", "POST /items"])
  func slowUpload(door: String) async throws {
    try await desk.add()
    let child = try await watch()
    gate.hold(door)
    if door == "POST /blobs" {
      try scratch.write("Notes/photo.png", [0x89, 0x50, 0x4E, 0x47, 1, 2, 3])
    } else {
      try scratch.write("Notes/One.md", "One.\n")
    }
    try await child.wait("the write on its way", within: .seconds(120)) { _ in gate.held > 0 }
    let asker = try desk.asker("confirm")
    try await child.wait("handed_over", within: .seconds(120)) { desk.names($0).contains("handed_over") }
    // It never answered: only a limit of the watch's own can have ended the wait (H12).
    let waiting = try await queue()
    let kind = door == "POST /blobs" ? "upload_blob" : "create_item"
    let write = try #require(waiting.first { $0["kind"]?.text?.string == kind }, "\(waiting)")
    let key = try #require(write["idempotency_key"]?.text?.string)
    gate.hold(nil)
    asker.signal(SIGKILL)
    try await child.wait("taken_back", within: .seconds(120)) { desk.names($0).contains("taken_back") }
    try await child.wait("the write answered", within: .seconds(120)) {
      desk.events($0).contains { ($0["drain"]?["answered"]?.int ?? 0) > 0 }
    }
    if door == "POST /items" {
      let keys = between.requests.filter { $0.method == "POST" && $0.door == "/items" }
        .compactMap { $0.header("idempotency-key") }
      #expect(keys.count >= 2 && Set(keys) == [key], "\(keys) \(key)")
    }
    try await desk.end(child)
    let push = try await desk.insist(["push", notes])
    #expect(push.json?["drain"]?["answered"] == 0 && push.json?["scan"]?["created"] == 0)
    #expect(try await queue().isEmpty)
  }

  @Test("X-S76 in the middle of a long fill status answers at once, and confirm is let in")
  func longFill() async throws {
    try await desk.add()
    gate.hold("GET /items")
    let child = try program.start(["watch", notes, "--json"])
    try await child.wait("the fill on its way", within: .seconds(120)) { _ in gate.held > 0 }
    let status = try await run(["status", notes])
    #expect(status.status == 0 && status.json?["files"] == [], "\(status.errText)")
    #expect(!desk.names(child).contains("handed_over"))
    // The fill is never answered, so confirm is let in only because its wait was ended for it.
    var confirm = try await run(["confirm", notes])
    for _ in 0..<12 where confirm.code == "reading_handle" { confirm = try await run(["confirm", notes]) }
    #expect(confirm.status == 0, "\(confirm.errText)")
    try await desk.wait(child, for: "handed_over")
    gate.hold(nil)
    try scratch.write("Notes/One.md", "One.\n")
    try await child.wait("the fill, and the file sent", within: .seconds(120)) { _ in
      scratch.text("Notes/One.md")?.contains("marfa_id") == true
    }
    try await desk.end(child)
  }

  @Test(
    "X-S25 a push that asks is let in at the watch's next step, files whole, and the pass after it reads every file")
  func letIn() async throws {
    try await desk.add()
    let child = try await watch()
    // Another computer's notes come in while the folder is asked for.
    for number in 1...40 { try scratch.write("Other/Note \(number).md", String(repeating: "word ", count: 200)) }
    let other = ["MARFA_FOLDER_REGISTRY": scratch.at("other.json")]
    #expect(try await run(["add", scratch.at("Other"), "--folder", desk.folder, "--yes"], other).status == 0)
    #expect(try await desk.insist(["push", scratch.at("Other")], other).status == 0)
    try scratch.write("Notes/Mine.md", "Mine.\n")
    let push = try await desk.insist(["push", notes])
    #expect(push.status == 0, "\(push.errText)")
    try await desk.wait(child, for: "taken_back")
    let order = desk.names(child)
    let over = try #require(order.firstIndex(of: "handed_over"))
    let back = try #require(order.firstIndex(of: "taken_back"))
    #expect(over < back)
    try await child.wait("the others' notes", within: .seconds(120)) { _ in scratch.files("Notes").count == 41 }
    for path in scratch.files("Notes") {
      #expect(!path.hasPrefix(".marfa-"))
      let words = path == "Mine.md" ? "Mine.\n" : String(repeating: "word ", count: 200)
      #expect(scratch.text("Notes/" + path)?.hasSuffix(words) == true, "\(path)")
    }
    #expect(scratch.text("Notes/Mine.md")?.contains("marfa_id") == true)
    // A change that only reading tells: the same size, the same time.
    let asker = try desk.asker()
    try await desk.wait(child, for: "handed_over", times: order.filter { $0 == "handed_over" }.count + 1)
    let path = notes + "/Mine.md"
    var status = stat()
    try #require(stat(path, &status) == 0)
    let text = try #require(scratch.text("Notes/Mine.md"))
    let file = open(path, O_WRONLY)
    let changed = Array(text.replacing("Mine.", with: "Main.").utf8)
    #expect(pwrite(file, changed, changed.count, 0) == changed.count)
    var times = [status.st_atim, status.st_mtim]
    #expect(futimens(file, &times) == 0)
    close(file)
    asker.signal(SIGKILL)
    try await child.wait("the edit only reading tells", within: .seconds(120)) {
      desk.events($0).contains { ($0["scan"]?["updated"]?.int ?? 0) > 0 }
    }
    try await desk.end(child)
  }

  @Test("X-S61 two processes with different homes use one lock")
  func homes() async throws {
    try await desk.add()
    let child = try await watch()
    let other = try scratch.makeDirectory("elsewhere")
    let second = try await run(["watch", notes, "--for", "1"], ["HOME": other])
    #expect(second.status == 4 && second.code == "reading_handle")
    try scratch.write("Notes/One.md", "One.\n")
    var push = try await run(["push", notes], ["HOME": other])
    for _ in 0..<12 where push.code == "reading_handle" { push = try await run(["push", notes], ["HOME": other]) }
    #expect(push.status == 0, "\(push.errText)")
    try await desk.wait(child, for: "handed_over")
    try await desk.wait(child, for: "taken_back")
    try await desk.end(child)
    #expect(try await desk.insist(["push", notes]).json?["scan"]?["created"] == 0)
  }

  @Test("X-S63 no key stands in any file of .marfa, in the list, or in anything said")
  func noKeys() async throws {
    try scratch.write("Notes/One.md", "One.\n")
    try scratch.write("Notes/photo.png", [0x89, 0x50, 0x4E, 0x47, 1])
    try await desk.add()
    var said: [UInt8] = []
    for words in [
      ["push", notes], ["status", notes], ["scan", notes], ["pull", notes], ["list"], ["confirm", notes],
      ["whoami"], ["doctor", notes], ["log", notes],
    ] {
      for json in [true, false] {
        let ran = try await desk.program.run((json ? ["--json"] : []) + words, deadline: .seconds(180))
        said += ran.out + ran.err
      }
    }
    // A refused key is not said either.
    var refused = desk.program
    refused.environment["MARFA_API_KEY"] = "marfa_key_refused_0123456789"
    let ran = try await refused.run(["push", notes], deadline: .seconds(180))
    #expect(ran.status == 5)
    said += ran.out + ran.err
    let child = try await watch()
    try scratch.write("Notes/Two.md", "Two.\n")
    try await child.wait("it sent", within: .seconds(120)) { _ in
      scratch.text("Notes/Two.md")?.contains("marfa_id") == true
    }
    try await desk.end(child)
    said += child.out + child.err
    var kept = scratch.bytes("folders.json") ?? []
    for path in allFiles(notes) where path.hasPrefix(".marfa/") {
      kept += scratch.bytes("Notes/" + path) ?? []
    }
    #expect(kept.count > 10_000)
    for key in [desk.server.key, "marfa_key_refused_0123456789"] {
      #expect(!kept.contains(sequence: Array(key.utf8)))
      #expect(!said.contains(sequence: Array(key.utf8)))
    }
  }

  @Test("X-S69 a directory below one with .dropbox.cache is told as Dropbox's, and works")
  func dropbox() async throws {
    try scratch.makeDirectory("Box/.dropbox.cache")
    try scratch.write("Box/Notes/One.md", "One.\n")
    let added = try await run(["add", scratch.at("Box/Notes"), "--folder", desk.folder, "--yes"])
    #expect(added.status == 0, "\(added.errText)")
    #expect(added.json?["storage"]?["cause"] == "cloud_service")
    #expect(added.json?["storage"]?["name"] == "Dropbox")
    #expect(added.json?["storage"]?["warning"]?.text?.string.contains("Dropbox") == true)
    let push = try await desk.insist(["push", scratch.at("Box/Notes")])
    #expect(push.status == 0 && push.json?["scan"]?["created"] == 1)
    #expect(scratch.text("Box/Notes/One.md")?.contains("marfa_id") == true)
  }
}

extension [UInt8] {
  /// Whether these bytes stand in it.
  func contains(sequence: [UInt8]) -> Bool {
    guard !sequence.isEmpty, count >= sequence.count else { return false }
    let first = sequence[0]
    for start in 0...(count - sequence.count) where self[start] == first {
      if self[start..<(start + sequence.count)].elementsEqual(sequence) { return true }
    }
    return false
  }
}

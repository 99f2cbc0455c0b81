import Glibc
import MarfaBase
import TestSupport
import Testing

/// Pausing, mending, copying first, and a folder nobody answers for (P2.4, P4.2, P5.4, P7.2, P7.5).
@Suite(.serialized) struct CareScenarios {
  let desk: ProcessScenarios
  var program: MarfaFolders { desk.program }
  var notes: String { desk.notes }
  var scratch: ScratchDirectory { desk.scratch }

  init() async throws { desk = try await ProcessScenarios() }

  @discardableResult
  func answer(_ words: [String]) async throws -> JSON {
    let ran = try await desk.insist(words)
    try #require(ran.status == 0, "\(words): \(ran.errText)")
    return ran.json ?? .null
  }

  /// Bodies of the live notes on the server.
  func bodies() async throws -> [String] {
    let ran = try await program.run([
      "--json", "device", "--reader", "--db", notes + "/.marfa/core.sqlite", "items", "list",
    ])
    try #require(ran.status == 0, "\(ran.errText)")
    let rows = ran.json?.array ?? ran.json?["items"]?.array ?? []
    return rows.compactMap { ($0["item"] ?? $0)["properties"]?["body"]?.text?.string }.sorted()
  }

  @Test("P-S19 pause --for frees the folder for other programs, and the watch takes it back when the time is over")
  func pausedForAWhile() async throws {
    try await desk.add()
    let child = try await desk.watch()
    let paused = try await answer(["pause", notes, "--for", "20s"])
    #expect(paused.array?.first?["dir"]?.text?.string == notes)
    try await desk.wait(child, for: "paused")
    let event = try #require(desk.events(child).first { $0["event"] == "paused" })
    #expect(event["until"] == paused.array?.first?["until"] && event["until"]?.text != nil)
    // It holds nothing: another program locks the folder at once, without asking.
    let holder = try ChildProcess(
      ["bash", "-c", "exec 8<>\"$STATE/core.sqlite.lock\"; flock -n 8 && echo free"],
      environment: ["PATH": "/usr/bin:/bin", "STATE": notes + "/.marfa"])
    let free = try await holder.end(within: .seconds(60))
    let status = try await answer(["status", notes])
    if !desk.names(child).contains("resumed") {
      #expect(free.outText.contains("free"), "\(free.outText) \(free.errText)")
      #expect(status["pause"]?["until"] == event["until"])
    }
    try scratch.write("Notes/One.md", "One.\n")
    try await desk.wait(child, for: "resumed")
    try await child.wait("the file sent", within: .seconds(120)) { _ in
      scratch.text("Notes/One.md")?.contains("marfa_id") == true
    }
    #expect(try await answer(["status", notes])["pause"] == nil)
    try await desk.end(child)
  }

  @Test("P-S16 a store with a torn page is rebuilt: unsent edits are rescued, nothing is trashed or doubled")
  func tornPage() async throws {
    try await desk.add()
    for number in 1...6 { try scratch.write("Notes/n\(number).md", "Note \(number).\n") }
    try scratch.write("Notes/plain.txt", "Plain.\n")
    for _ in 1...2 { try await answer(["push", notes]) }
    let before = try await bodies()
    // Edits that were queued and never sent, and one no scan has seen.
    try scratch.write("Notes/n1.md", try #require(scratch.text("Notes/n1.md")) + "Unsent words.\n")
    try await answer(["scan", notes])
    try scratch.write("Notes/n2.md", try #require(scratch.text("Notes/n2.md")) + "Unscanned words.\n")
    let path = notes + "/.marfa/core.sqlite"
    // The log is folded in, so that the page torn is the one that is read.
    do {
      let database = try Database(path: path, mode: .readWrite)
      try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      let torn = try database.one("SELECT rootpage FROM sqlite_master WHERE name = 'binding'") { $0.int(0) } ?? 2
      let size = try database.one("PRAGMA page_size") { $0.int(0) } ?? 4096
      let file = open(path, O_WRONLY)
      let junk = [UInt8](repeating: 0xA5, count: size / 2)
      #expect(pwrite(file, junk, junk.count, off_t((torn - 1) * size)) == junk.count)
      close(file)
    }
    let refused = try await program.run(["--json", "push", notes], deadline: .seconds(120))
    #expect(refused.status == 4 && refused.code == "store", "\(refused.errText)")
    let damaged = scratch.bytes("Notes/.marfa/core.sqlite")
    let rebuilt = try await answer(["rebuild", notes])
    #expect(rebuilt["first_sync"]?["waiting"] == true, "\(rebuilt.compact)")
    let aside = try #require(rebuilt["aside"]?.text?.string)
    #expect(fileBytes(aside + "/core.sqlite") == damaged)
    let rescued = (rebuilt["rescued"]?.array ?? []).compactMap { $0.text?.string }
    let texts = rescued.compactMap { fileBytes("\(aside)/\($0)").map { String(decoding: $0, as: UTF8.self) } }
    #expect(texts.contains { $0.contains("Unsent words.") && $0.contains("update_item") }, "\(texts)")
    // Nothing goes before it is confirmed.
    #expect(try await answer(["push", notes])["first_sync"]?["waiting"] == true)
    try await answer(["confirm", notes])
    for _ in 1...3 { try await answer(["push", notes]) }
    let after = try await bodies()
    #expect(after.count == before.count, "\(after)")
    #expect(after.contains("Note 1.\nUnsent words.\n") && after.contains("Note 2.\nUnscanned words.\n"))
    #expect(scratch.files("Notes") == (1...6).map { "n\($0).md" } + ["plain.txt"])
    #expect(try await answer(["push", notes])["drain"]?["answered"] == 0)
    #expect(desk.listed() == [notes])
  }

  @Test("P4.2 a rebuild that cannot reach its server puts the old store back")
  func rebuildOffline() async throws {
    try await desk.add()
    try scratch.write("Notes/One.md", "One.\n")
    try await answer(["push", notes])
    var away = program
    away.environment["MARFA_API_URL"] = "http://127.0.0.1:9"
    let ran = try await away.run(["--json", "rebuild", notes], deadline: .seconds(120))
    #expect(ran.status == 3, "\(ran.errText)")
    #expect(try await answer(["push", notes])["scan"]?["unchanged"] == 1)
    #expect(desk.listed() == [notes])
  }

  @Test("P-S24 add --backup: the copy equals the directory before the first landing")
  func backup() async throws {
    // The server has a note of its own, which the first sync writes here.
    try scratch.write("Theirs/Theirs.md", "Theirs.\n")
    let other = ["MARFA_FOLDER_REGISTRY": scratch.at("other.json")]
    #expect(
      try await desk.insist(["add", scratch.at("Theirs"), "--folder", desk.folder, "--yes"], other).status == 0)
    #expect(try await desk.insist(["push", scratch.at("Theirs")], other).status == 0)
    try scratch.write("Notes/One.md", "---\ntitle: One\n---\nOne.\n")
    try scratch.write("Notes/deep/Two.md", "Two.\n")
    try scratch.write("Notes/.hidden/x", "hidden\n")
    chmod(notes + "/deep/Two.md", 0o600)
    var texts: [String: [UInt8]] = [:]
    for path in scratch.files("Notes") { texts[path] = scratch.bytes("Notes/" + path) }
    let added = try await program.run(
      ["add", notes, "--folder", desk.folder, "--backup", "--yes"], deadline: .seconds(120))
    #expect(added.status == 0, "\(added.errText)")
    let copies = TestSupport.names(of: scratch.path).filter { $0.hasPrefix("Notes (before sync ") }
    let copy = try #require(copies.first, "\(TestSupport.names(of: scratch.path))")
    #expect(copies.count == 1 && added.errText.contains(copy))
    for _ in 1...2 { try await answer(["push", notes]) }
    #expect(scratch.files("Notes").contains("Theirs.md"))
    #expect(scratch.text("Notes/One.md")?.contains("marfa_id") == true)
    #expect(scratch.files(copy) == texts.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    for (path, bytes) in texts { #expect(scratch.bytes("\(copy)/\(path)") == bytes, "\(path)") }
    #expect(desk.mode(scratch.at("\(copy)/deep/Two.md")) == 0o600)
    #expect(desk.mode(scratch.at("\(copy)/.marfa")) == nil)
  }

  @Test("P-S10 a listed folder whose directory hangs keeps no other folder's push, list or status from answering")
  func hung() async throws {
    try await desk.add()
    let hung = scratch.at("Hung")
    #expect(try await desk.insist(["add", hung, "--folder", desk.folder, "--yes"]).status == 0)
    try scratch.write("Notes/One.md", "One.\n")
    try scratch.write("Notes/Two.md", "Two.\n")
    try await answer(["push", notes])
    // From here on each look at the other directory never ends: what waited for it would never end either.
    let fault = ["MARFA_TEST_FAULT": "resolve-hangs:Hung", "MARFA_TEST_TIME": "1000"]
    for words in [["list"], ["status", notes], ["push", notes]] {
      let ran = try await desk.insist(words, fault)
      #expect(ran.status == 0, "\(words): \(ran.errText)")
    }
    #expect(Set(desk.listed() ?? []) == [notes, hung])
    // A missing file may have gone there: it is held, since that cannot be told.
    unlink(notes + "/Two.md")
    for _ in 1...2 { #expect(try await desk.insist(["push", notes], fault).status == 0) }
    let held = try await desk.insist(["push", notes], fault)
    #expect(held.json?["scan"]?["unsure"]?.array?.map { $0["path"] } == ["Two.md"], "\(held.outText)")
    #expect(held.json?["scan"]?["deleted"] == 0)
  }

  @Test(
    "P7.5 a folder worked by another computer, or whose state another user alone may enter, is refused io naming it")
  func strangers() async throws {
    try await desk.add()
    try scratch.write("Notes/One.md", "One.\n")
    try await answer(["push", notes])
    let holder = try ChildProcess(
      [
        "bash", "-c",
        #"exec 8<>"$STATE/core.sqlite.lock"; flock 8; printf '%s' "$TEXT" >"$STATE/core.sqlite.lock"; echo holds; exec sleep 600"#,
      ],
      environment: [
        "PATH": "/usr/bin:/bin", "STATE": notes + "/.marfa",
        "TEXT": #"{"pid":7,"user":"bea-elsewhere","host":"attic","machine":null,"since":"1"}"#,
      ])
    try await holder.shows("holds", within: .seconds(90))
    let ran = try await program.run(["--json", "push", notes], deadline: .seconds(180))
    #expect(ran.status == 3 && ran.code == "io" && ran.message.contains("bea-elsewhere"), "\(ran.errText)")
    holder.signal(SIGKILL)
    _ = try await holder.end(within: .seconds(60))
    // Text that nobody holds the lock for says nothing.
    #expect(try await answer(["push", notes])["scan"]?["unchanged"] == 1)
    #expect(scratch.bytes("Notes/.marfa/core.sqlite.lock") == [])
    let fault = ["MARFA_TEST_FAULT": "errno:EACCES:opendir:.marfa"]
    var stranger = program
    stranger.environment.merge(fault) { $1 }
    let closed = try await stranger.run(["--json", "status", notes], deadline: .seconds(120))
    #expect(closed.code == "io" && closed.message.contains("one user at a time"), "\(closed.errText)")
  }
}

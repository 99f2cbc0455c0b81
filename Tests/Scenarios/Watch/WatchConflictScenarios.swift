import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Edits that lost, and placements that were refused, as they are said (F19.24, F71 to F76, C17.9, C19.9).
struct WatchConflictScenarios {
  /// A note edited here and, at the version shown, elsewhere.
  func conflicting(_ bench: FolderBench) throws -> (folder: KeptFolder, item: EntityID) {
    let folder = try KeptFolder(bench)
    try folder.write("Note.md", "Start.\n")
    try folder.push()
    return (folder, try bench.id("Note"))
  }

  func lines(_ push: FolderPush) -> [String] {
    PushWords(push: Report(push.json), conflicts: push.drain.conflicts.map(conflictWords)).lines
  }

  @Test("F-S425 C-S41 an edit that conflicts is one line of a push, naming the file and the file its text went to")
  func pushed() throws {
    let bench = try FolderBench()
    let (folder, item) = try conflicting(bench)
    try bench.edit(item, ["body": "Theirs.\n"])
    try folder.write("Note.md", try #require(folder.text("Note.md")).replacing("Start.", with: "Mine."))
    let push = try folder.push()
    let copy = try #require(push.drain.conflicts.first?.copy)
    let file = try #require(try folder.status().files.first { $0.item == copy.description }?.path)
    let said = lines(push).filter { $0.contains("conflicted") }
    #expect(said == ["conflicted update_item Note.md conflicted copy \(file) merged body"], "\(said)")
    let texts = [folder.text("Note.md") ?? "", folder.text(file) ?? ""]
    #expect(texts.contains { $0.contains("Mine.") } && texts.contains { $0.contains("Theirs.") })
    #expect(lines(try folder.push()).allSatisfy { !$0.contains("conflicted") })
  }

  @Test(
    "F-S426 F-S427 under a watch a copy not here yet is said so once; the watch says which file it became once it comes"
  )
  func watched() throws {
    let bench = try FolderBench()
    let (folder, item) = try conflicting(bench)
    let watch = ScriptedWatch(folder)
    watch.at(20) {
      try bench.edit(item, ["body": "Theirs.\n"])
      try folder.disk.write(
        folder.path("Note.md"), try #require(folder.text("Note.md")).replacing("Start.", with: "Mine."))
      // What the server has since is out of reach of the copy: only writes go.
      bench.transport.before = { request in
        request.url.contains("/events") ? .failure(.unreachable("nothing listens")) : nil
      }
    }
    watch.save("Other.md", "Other.\n", at: 40)
    watch.at(60) {
      let said = watch.words.filter { $0.contains("conflicted") }
      #expect(said.count == 1, "\(watch.words)")
      #expect(said.first?.hasPrefix("conflicted update_item Note.md") == true)
      #expect(said.first?.contains("not a file in this folder yet") == true)
      bench.goOnline()
      watch.notifications.noted.paths["Note.md"] = bench.clock.monotonic
    }
    #expect(try watch.run(seconds: 120) == nil)
    let said = watch.words.filter { $0.contains("conflicted") }
    #expect(said.count == 2, "\(said)")
    let copy = try #require(watch.passes.flatMap(\.conflicts).first?.copy)
    let file = try #require(try folder.status().files.first { $0.item == copy.description }?.path)
    #expect(said.last?.contains(file) == true && said.last?.contains("Note.md") == true)
  }

  @Test(
    "F-S428 C-S42 a conflict on an item that is no file here is named by neither push nor watch",
    arguments: [false, true])
  func noFile(watched: Bool) throws {
    let bench = try FolderBench()
    let (folder, _) = try conflicting(bench)
    let other = try bench.item("Elsewhere", body: "Start.\n", type: "core.media.book")
    try folder.folders.working(folder.root, "push") { engine in
      try engine.copy.pin(other, owner: "test")
      _ = try engine.copy.queue.updateItem(other, ItemEdit(properties: JSONObject([("body", "Mine.\n")]), version: 1))
    }
    try bench.edit(other, ["body": "Theirs.\n"])
    let answered: Int
    let words: [String]
    if watched {
      let watch = ScriptedWatch(folder)
      #expect(try watch.run(seconds: 30) == nil)
      answered = watch.sum(\.drain, "answered")
      words = watch.words + watch.errorWords
    } else {
      let push = try folder.push()
      answered = push.drain.drain.answered
      words = lines(push)
    }
    #expect(answered == 1)
    #expect(words.allSatisfy { !$0.contains("conflicted") }, "\(words)")
    #expect(try bench.titles().count == 3, "the losing text is an item of its own")
  }

  @Test("F-S19.16 refused placements are said once while a watch's passes go on and one has an event")
  func refusedPlacements() throws {
    let bench = try FolderBench()
    try bench.item("Theirs")
    let folder = try KeptFolder(bench)
    refuse(bench)
    let watch = ScriptedWatch(folder)
    for step in 1...4 {
      watch.at(Double(step) * 15) {
        try folder.disk.write(folder.path("Theirs.md"), try #require(folder.text("Theirs.md")) + "\(step)\n")
      }
    }
    #expect(try watch.run(seconds: 100) == nil)
    #expect(watch.passes.count >= 4)
    #expect(
      watch.words.filter { $0.contains("refused by the server") && $0.contains("placement") }.count == 1,
      "\(watch.words)")
  }

  @Test(
    "F-S19.15 in a watch the key is read at most once a minute, failed reads included, and a grant restored is met within it"
  )
  func keyRead() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.item("Theirs")
    var grant: Text = "read"
    var reads: [UInt64] = []
    var fails = false
    bench.transport.before = { request in
      if request.url.hasSuffix("/keys/current") {
        reads.append(bench.clock.monotonic)
        if fails { return .success(HTTPResponse(refusing: 503, "unavailable")) }
      }
      if request.method == "POST", request.url.contains("/edges"), grant == "read" {
        return .success(HTTPResponse(refusing: 403, "edge_permission_denied"))
      }
      return nil
    }
    bench.transport.after = { request, response in
      guard request.url.hasSuffix("/keys/current"), response.status == 200,
        var key = (try? JSON(parsing: response.body))?.object
      else { return .success(response) }
      key["edge_permissions"] = ["in-folder": .string(grant)]
      var response = response
      response.body = JSON.object(key).write()
      return .success(response)
    }
    let watch = ScriptedWatch(folder)
    for step in 0..<30 { watch.save("note\(step).md", "Note.\n", at: 5 + Double(step) * 5) }
    watch.at(100) { fails = true }
    watch.at(160) { fails = false }
    watch.at(200) {
      grant = "write"
      bench.transport.clear()
    }
    var met = false
    watch.at(262) { met = try folder.placement(of: bench.id("Theirs")) == "Theirs.md" }
    #expect(try watch.run(seconds: 270) == nil)
    for (one, next) in zip(reads, reads.dropFirst()) { #expect(next - one >= 60_000_000_000, "\(reads)") }
    #expect(reads.count >= 4)
    #expect(bench.writes.contains("POST /edges"), "\(bench.writes)")
    #expect(met, "not within the minute")
    #expect(try folder.placement(of: bench.id("Theirs")) == "Theirs.md")
  }

  private func refuse(_ bench: FolderBench) {
    bench.transport.before = { request in
      guard request.method == "POST", request.url.contains("/edges") else { return nil }
      return .success(HTTPResponse(refusing: 403, "edge_permission_denied"))
    }
  }
}

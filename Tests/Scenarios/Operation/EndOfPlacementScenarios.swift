import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// Types of files, tags, and where placements end (F36.9, F55.2, F44.16 to F44.22).
struct EndOfPlacementScenarios {
  static let active: JSON = ["title": "Active", "search": ["types": ["core.note"], "state": ["active"]]]

  @Test("F-S437 a search of pictures takes a picture and leaves a recording alone")
  func oneTypeOfFiles() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, ["title": "Pictures", "search": ["types": ["core.file.image"]]])
    try folder.write("photo.png", bytes: [137, 80, 78, 71])
    try folder.write("song.mp3", bytes: [73, 68, 51])
    try folder.write("note.md", "---\ntype: core.note\n---\nNothing embedded.\n")
    let push = try folder.push()
    #expect(push.scan.created == 2 && push.scan.skipped == 1)
    #expect(try bench.titles() == ["note", "photo.png"])
    #expect(try folder.status(of: "song.mp3")?.state == .outside)
    try folder.change(["search": ["types": ["core.file.image", "core.file"]]])
    try folder.push()
    try folder.push()
    #expect(try bench.titles() == ["note", "photo.png", "song.mp3"])
    #expect(try bench.row(try bench.id("song.mp3"))["item"]?["type"]?.text == "core.file.audio")
  }

  private func tags(_ numbers: some Sequence<Int>) -> String { numbers.map { "t\($0)" }.joined(separator: ", ") }

  @Test("F-S438 a file past the hundredth tag is refused whole; a trade takes the old tag out first")
  func hundredTags() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("adds.md", "---\ntags: [\(tags(1...100))]\n---\nAdds.\n")
    try folder.write("trades.md", "---\ntags: [\(tags(1...100))]\n---\nTrades.\n")
    try folder.push()
    let (adds, trades) = (try bench.id("adds"), try bench.id("trades"))
    #expect(try bench.row(adds)["metadata"]?["tags"]?.array?.count == 100)
    let first = try #require(folder.text("adds.md"))
    let added = first.replacing("t100]", with: "t100, t101]") + "A line.\n"
    try folder.write("adds.md", added)
    let traded = try #require(folder.text("trades.md")).replacing("t100]", with: "t101]")
    try folder.write("trades.md", traded)
    let new = "---\ntags: [\(tags(1...101))]\n---\nNew.\n"
    try folder.write("new.md", new)
    try folder.write("plain.md")
    bench.transport.clear()
    let push = try folder.push()
    let refused = push.scan.flagged.filter { $0.flag == "refused" }
    #expect(refused.map(\.path) == ["adds.md", "new.md"])
    #expect(refused.allSatisfy { $0.reason.contains("tags") && $0.reason.contains("100") })
    #expect(folder.text("adds.md") == added && folder.text("new.md") == new)
    #expect(try bench.body(adds) == "Adds.\n")
    #expect(try bench.titles() == ["adds", "plain", "trades"])
    let wire = bench.writes.filter { $0.contains("\(trades)/tags") }
    #expect(wire.first?.hasPrefix("DELETE") == true && wire.count == 2)
    let held = try bench.row(trades)["metadata"]?["tags"]?.array?.compactMap(\.text) ?? []
    #expect(held.count == 100 && held.contains("t101") && !held.contains("t100"))
    try folder.write("adds.md", added.replacing("t1, t2,", with: "t2,"))
    try folder.write("new.md", new.replacing("t1, t2,", with: "t2,"))
    try folder.push()
    #expect(try bench.body(adds) == "Adds.\nA line.\n")
    #expect(try bench.titles() == ["adds", "new", "plain", "trades"])
    #expect(try bench.row(adds)["metadata"]?["tags"]?.array?.count == 100)
  }

  @Test(
    "F-S439 a file taken away ends its placement; restored, the item is placed as a new one", arguments: [false, true])
  func takenAway(archived: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.active)
    try folder.write("Deep/kept.md", "Kept.\n")
    try folder.push()
    let item = try bench.id("kept")
    #expect(try folder.placement(of: item) == "Deep/kept.md")
    if archived { try bench.state(item, "archived") } else { try bench.trash(item) }
    let push = try folder.push()
    #expect(push.pull?.removed == 1 && push.pull?.ended == 1)
    #expect(folder.files().isEmpty)
    #expect(try bench.placements(of: item).isEmpty)
    if archived { try bench.state(item, "active") } else { try bench.untrash(item) }
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.files() == ["kept.md"])
    #expect(try bench.placements(of: item).map(\.path) == ["kept.md"])
  }

  @Test("F-S440 a deleted file's item and placement go together; an item trashed meanwhile loses its placement alone")
  func deleted() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("one.md")
    try folder.write("two.md")
    try folder.push()
    let (one, two) = (try bench.id("one"), try bench.id("two"))
    try folder.delete("one.md")
    try folder.push()
    folder.grace()
    let push = try folder.push()
    #expect(push.scan.deleted == 1)
    #expect(push.drain.drain.verdicts.map(\.kind).sorted { $0.rawValue < $1.rawValue } == [.deleteEdge, .deleteItem])
    #expect(push.drain.drain.verdicts.allSatisfy { $0.verdict == .accepted })
    #expect(try bench.isTrashed(one) && bench.placements(of: one).isEmpty)
    try folder.delete("two.md")
    try folder.push()
    try bench.trash(two)
    try folder.push()
    folder.grace()
    let later = try folder.push()
    #expect(later.drain.drain.verdicts.map(\.kind) == [.deleteEdge])
    #expect(try bench.placements(of: two).isEmpty)
    #expect(try folder.status().files.isEmpty)
  }

  @Test("F-S443 an end another machine made first holds nothing; one refused for the grant stands once in the queue")
  func refusedEnd() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("one.md")
    try folder.write("two.md")
    try folder.push()
    let (one, two) = (try bench.id("one"), try bench.id("two"))
    let edge = try #require(try bench.placements(of: one).first).edge
    try folder.delete("one.md")
    try folder.push()
    folder.grace()
    // The end crosses with another machine's: it goes just before this folder's delete does.
    var gone = false
    bench.transport.before = { request in
      if !gone, request.method == "DELETE", request.url.contains("/edges/\(edge)") {
        gone = true
        _ = try? bench.ask("DELETE", "/edges/\(edge)")
      }
      return nil
    }
    let push = try folder.push()
    #expect(gone)
    #expect(push.scan.flagged.isEmpty && push.pull?.flagged.isEmpty == true)
    #expect(try folder.queue().isEmpty)
    #expect(try bench.isTrashed(one))
    #expect(try folder.push().drain.drain.answered == 0)

    let other = try #require(try bench.placements(of: two).first).edge
    bench.transport.before = { request in
      guard request.method == "DELETE", request.url.contains("/edges/\(other)") else { return nil }
      return .success(HTTPResponse(refusing: 403, "edge_permission_denied"))
    }
    try bench.trash(two)
    let first = try folder.push()
    #expect(first.pull?.removed == 1)
    #expect(
      first.drain.drain.verdicts.contains { $0.kind == .deleteEdge && $0.refusal?.code == "edge_permission_denied" })
    _ = try folder.push()
    _ = try folder.push()
    let standing = try folder.reading { try $0.copy.queue.all() }.filter {
      $0.kind == .deleteEdge && $0.edgeID == other
    }
    #expect(standing.count == 1)
    #expect(try bench.placements(of: two).count == 1)
  }

  @Test("F-S444 a restore ends the placement of what left by state alone; a confirmed pull removal ends each")
  func restoreAndConfirm() throws {
    let bench = try FolderBench()
    let settings = RemovalScenarios.settings(
      2, try RemovalScenarios.fraction("0.25"), ["search": ["types": ["core.note"], "state": ["active"]]])
    let folder = try RemovalScenarios().filled(bench, 6, settings)
    let items = try (1...6).map { try bench.id("n\($0)") }
    for number in 1...3 { try folder.delete("n\(number).md") }
    #expect(try folder.push().scan.paused == 3)
    try bench.state(items[0], "archived")
    try folder.pull()
    _ = try folder.restore()
    try folder.push()
    #expect(try bench.placements(of: items[0]).isEmpty)
    for item in items[1...] { #expect(try bench.placements(of: item).count == 1) }

    for item in items[3...] { try bench.trash(item) }
    #expect(try folder.push().pull?.paused == 3)
    #expect(try folder.confirm().removed == 3)
    try folder.push()
    for item in items[3...] { #expect(try bench.placements(of: item).isEmpty) }
    for item in items[1...2] { #expect(try bench.placements(of: item).count == 1) }
    #expect(folder.files() == ["n2.md", "n3.md"])
  }

  @Test("F-S435 a purged item's own file goes, counted apart and with nothing sent; a changed one is kept")
  func purged() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("own.md", "Own.\n")
    try folder.write("changed.md", "Changed.\n")
    try folder.push()
    for title in ["own", "changed"] { try bench.purge(try bench.id(title)) }
    try folder.append("changed.md", "My words.\n")
    let pull = try folder.pull()
    #expect(pull.removed == 1 && pull.purged == 1 && pull.kept == 1)
    let said = PullWords(pull: Report(pull.json)).lines
    #expect(
      said.contains { $0.contains("purged 1") || $0.contains("1 purged") }
        && !said.contains { $0.contains("removed 1") })
    #expect(folder.files() == ["changed.md"])
    #expect(folder.text("changed.md")?.contains("My words.") == true)
    folder.grace()
    let push = try folder.push()
    #expect(push.drain.drain.verdicts.allSatisfy { $0.kind != .deleteItem && $0.kind != .deleteEdge })
    #expect(folder.text("changed.md")?.contains("My words.") == true)
    // The person's words are in a live item again.
    #expect(push.scan.requeued == 1 && push.scan.created == 1)
    #expect(try bench.body(try bench.id("changed"))?.contains("My words.") == true)
  }
}

import FolderSync
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// The copy changes under a pull (F80, F81, F87).
struct ChangingCopyScenarios {
  /// A folder in whose store another connection hears of the server's changes at a step of a pull.
  private func changing(
    _ bench: FolderBench, at step: FaultPoint, of name: PathBytes? = nil, times: Int, _ change: @escaping () -> Void
  ) throws -> KeptFolder {
    let folder = try KeptFolder(bench)
    try folder.push()
    hear(in: folder, at: step, of: name, times: times, change)
    return folder
  }

  /// Lets another connection of a folder's store hear of a change at a step of its pull.
  private func hear(
    in folder: KeptFolder, at step: FaultPoint, of name: PathBytes?, times: Int, _ change: @escaping () -> Void
  ) {
    let left = Mutex(times)
    nonisolated(unsafe) let heard = {
      change()
      let door = folder.machine.door
      folder.machine.door = .none
      defer { folder.machine.door = door }
      _ = try? folder.folders.open(folder.root, role: .writer).catchUp()
    }
    folder.machine.door = FaultDoor { (point, file, _) throws(FileError) in
      guard point == step, name == nil || name == file else { return }
      let isDue = left.withLock { count in
        count -= 1
        return count >= 0
      }
      if isDue { heard() }
    }
  }

  @Test("F-S431 an item purged while its file is written gets none; one purged after goes at the next pull")
  func purged() throws {
    let bench = try FolderBench()
    var item: EntityID?
    let folder = try changing(bench, at: .attributes, times: 1) { if let item { try? bench.purge(item) } }
    item = try bench.item("Gone")
    let purged = try #require(item)
    let pull = try folder.pull()
    #expect(pull.written == 0 && pull.placed == 0)
    #expect(folder.files().isEmpty)
    #expect(try !folder.isBound(purged) && !folder.isPinned(purged))
    #expect(try folder.queue().isEmpty)

    let later = try FolderBench()
    var other: EntityID?
    let second = try changing(later, at: .rename, times: 1) { if let other { try? later.purge(other) } }
    other = try later.item("Later")
    let landed = try second.pull()
    #expect(landed.placed == 0 && landed.written == 1)
    #expect(second.files() == ["Later.md"])
    #expect(try second.queue().isEmpty)
    let next = try second.pull()
    #expect(next.removed == 1 && next.purged == 1)
    #expect(second.files().isEmpty)
    #expect(try !second.isBound(try #require(other)))
  }

  @Test(
    "F-S432 a copy that changes once or twice is written; one that always changes is refused", arguments: [1, 2, 3])
  func changing(times: Int) throws {
    let bench = try FolderBench()
    var count = 0
    let folder = try changing(bench, at: .attributes, times: times) {
      count += 1
      _ = try? bench.item(
        Text("Other \(count)"), type: "core.bookmark", more: JSONObject([("url", "https://example.org/")]))
      _ = try? bench.edit(bench.ids("Plan")[0], ["body": .string(Text("Round \(count).\n"))])
    }
    let item = try bench.item("Plan")
    if times < 3 {
      let pull = try folder.pull()
      #expect(pull.written == 1 && pull.placed == 1)
      #expect(folder.files() == ["Plan.md"])
      #expect(folder.text("Plan.md")?.hasSuffix("Round \(times).\n") == true)
    } else {
      let error = try #require(refusal { try folder.pull() })
      #expect(error.code == .streamIncomplete && error.message.contains("local_copy_changed"))
      #expect(folder.files().isEmpty)
      #expect(try !folder.isBound(item))
      folder.machine.door = .none
      #expect(try folder.pull().written == 1)
    }
  }

  /// What every case lets another machine do: an item of no folder here, so that only the copy's stamp moves.
  private func stir(_ bench: FolderBench) {
    _ = try? bench.item("Mark", type: "core.bookmark", more: JSONObject([("url", "https://example.org/")]))
  }

  enum Counted: CaseIterable { case written, moved, revived, removed, taken, letGo }

  @Test("F-S434 a pull that started over counts each file once", arguments: Counted.allCases)
  func startedOver(_ counted: Counted) throws {
    switch counted {
    case .written:
      let bench = try FolderBench()
      let folder = try changing(bench, at: .rename, of: "One.md", times: 1) {
        stir(bench)
        _ = try? bench.edit(bench.ids("Two")[0], ["body": "Two, changed.\n"])
      }
      _ = try bench.item("One")
      _ = try bench.item("Two")
      let pull = try folder.pull()
      #expect(pull.written == 2 && pull.placed == 2 && pull.unchanged == 1)
      #expect(folder.files() == ["One.md", "Two.md"])
      #expect(folder.text("Two.md")?.hasSuffix("Two, changed.\n") == true)
      try folder.push()
      #expect(try folder.push().drain.drain.answered == 0)
    case .moved, .revived:
      let bench = try FolderBench()
      let (one, two) = (try bench.item("One"), try bench.item("Two"))
      let folder = try KeptFolder(bench)
      try folder.push()
      if counted == .moved {
        let edge = try #require(try bench.placements(of: one).first).edge
        try bench.ask("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["path": "deep/One.md"]])
        try bench.edit(two, ["body": "Two, changed.\n"])
        hear(in: folder, at: .rename, of: "One.md", times: 1) { stir(bench) }
        let pull = try folder.pull()
        #expect(pull.moved == 1 && pull.rewritten == 1)
        #expect(folder.files() == ["Two.md", "deep/One.md"])
      } else {
        try folder.delete("One.md")
        try folder.scan()
        try bench.edit(one, ["body": "One, changed.\n"])
        try bench.edit(two, ["body": "Two, changed.\n"])
        hear(in: folder, at: .rename, of: "One.md", times: 1) { stir(bench) }
        let pull = try folder.pull()
        #expect(pull.revived == 1 && pull.rewritten == 1 && pull.written == 0)
        #expect(folder.text("One.md")?.hasSuffix("One, changed.\n") == true)
      }
      #expect(folder.text("Two.md")?.hasSuffix("Two, changed.\n") == true)
    case .removed:
      let bench = try FolderBench()
      let (one, two) = (try bench.item("One"), try bench.item("Two"))
      let folder = try KeptFolder(bench)
      try folder.push()
      try bench.trash(one)
      try bench.purge(two)
      hear(in: folder, at: .afterLastLook, of: "One.md", times: 1) { stir(bench) }
      let pull = try folder.pull()
      #expect(pull.removed == 2 && pull.purged == 1 && pull.ended == 1)
      #expect(folder.files().isEmpty)
    case .taken, .letGo:
      let both = try TwoFolders(TwoFolders.tagged("a"), TwoFolders.tagged("b"))
      let items = try ["One", "Two"].map { try both.bench.item(Text($0), tags: ["a"]) }
      try both.one.push()
      for item in items { try both.retag(item, from: "a", to: "b") }
      if counted == .taken {
        try both.one.push()
        hear(in: both.two, at: .rename, of: "One.md", times: 1) { stir(both.bench) }
        let pull = try both.two.pull()
        #expect(pull.taken == 2 && pull.written == 0 && pull.placed == 2)
      } else {
        try both.two.push()
        hear(in: both.one, at: .afterLastLook, of: "One.md", times: 1) { stir(both.bench) }
        let pull = try both.one.pull()
        #expect(pull.letGo == 2 && pull.ended == 2 && pull.unmatched == 0)
      }
      #expect(both.one.files().isEmpty && both.two.files() == ["One.md", "Two.md"])
    }
  }
}

import Glibc
import MarfaBase
import TestSupport
import Testing

/// Stores and files put back from backups, cloned, or half of each (P3.2), by the built program over real directories.
@Suite(.serialized) struct RestoredStoreScenarios {
  static let search = #"{"types":["core.note","core.file"]}"#
  static let fast = ["MARFA_TEST_TIME": "1000"]

  /// What is put back, over today's directory.
  enum Backup: String, CaseIterable {
    case storeAlone, filesAlone, everything, storeWithoutLog, clone
  }

  /// Copies with the tools a person has; a tree replaces what is there.
  private func copy(_ from: String, to target: String) async throws {
    let child = try ChildProcess(
      ["cp", "-a", "-T", "--", from, target], environment: ["PATH": "/usr/bin:/bin"])
    let ran = try await child.end(within: .seconds(120))
    try #require(ran.status == 0, "\(ran.errText)")
  }

  @Test(
    "P-S12 yesterday's store with today's files, today's store with yesterday's, a clone, half a backup: no delete goes, nothing doubles, each word is found",
    arguments: Backup.allCases)
  func restored(_ backup: Backup) async throws {
    let pair = try await TwoComputers(search: Self.search, environment: Self.fast)
    try await pair.follow(.one)
    for name in ["kept", "edited", "renamed", "deleted"] { try pair.save(.one, "\(name).md", "Text of \(name).\n") }
    try pair.save(.one, "plain.txt", "Plain text.\n")
    for _ in 1...2 { try await pair.sync(.one) }
    let notes = pair.notes(.one)
    let yesterday = pair.scratch.at("yesterday")
    try await copy(notes, to: yesterday)
    // A day's work, sent.
    try pair.save(.one, "edited.md", try #require(pair.text(.one, "edited.md")) + "Words of today.\n")
    try pair.save(.one, "new.md", "A note of today.\n")
    try pair.save(.one, "new.txt", "A text of today.\n")
    try #require(rename(notes + "/renamed.md", notes + "/renamed today.md") == 0)
    for _ in 1...2 { try await pair.sync(.one) }
    unlink(notes + "/deleted.md")
    for _ in 1...3 { try await pair.sync(.one) }
    let before = try pair.serverLines(versions: false)
    #expect(before.contains { $0.contains("deleted") && $0.contains(" trashed ") }, "\(before)")

    var computer = TwoComputers.Computer.one
    switch backup {
    case .storeAlone:
      removeTree(notes + "/.marfa")
      try await copy(yesterday + "/.marfa", to: notes + "/.marfa")
    case .storeWithoutLog:
      removeTree(notes + "/.marfa")
      try await copy(yesterday + "/.marfa", to: notes + "/.marfa")
      unlink(notes + "/.marfa/core.sqlite-wal")
      unlink(notes + "/.marfa/core.sqlite-shm")
    case .filesAlone:
      for path in pair.files(.one) { unlink(notes + "/" + path) }
      for name in TestSupport.names(of: yesterday) where name != ".marfa" {
        try await copy(yesterday + "/" + name, to: notes + "/" + name)
      }
    case .everything:
      removeTree(notes)
      try await copy(yesterday, to: notes)
    case .clone:
      try pair.scratch.makeDirectory("two")
      try await copy(notes, to: pair.notes(.two))
      // The clone's person has only some of the files.
      unlink(pair.notes(.two) + "/kept.md")
      computer = .two
    }
    for _ in 1...4 { try await pair.report(computer, ["sync", pair.notes(computer)]) }
    // Nothing more is in the bin than was, nothing is there twice, and each word is in a live item.
    let after = try pair.serverLines(versions: false)
    func bin(_ lines: [String]) -> [String] { lines.filter { $0.hasPrefix("item ") && $0.contains(" trashed ") } }
    func live(_ lines: [String]) -> [String] { lines.filter { $0.hasPrefix("item ") && !$0.contains(" trashed ") } }
    #expect(Set(bin(after)).isSubset(of: Set(bin(before))), "\(after)")
    let snapshots = try Database(
      path: pair.scratch.at("data/marfa-folders/instance/instance.sqlite"), mode: .readOnly
    ).all("SELECT properties FROM snapshot") { $0.string(0) }
    for words in [
      "Text of kept.", "Words of today.", "A note of today.", "A text of today.", "Text of renamed.", "Plain text.",
    ] {
      let found = live(after).count { $0.contains(words) }
      // An older text put back over one's own newer one is an edit: the newer one is a version to go back to.
      let isKept = backup == .filesAlone && snapshots.contains { $0.contains(words) }
      #expect(found == 1 || (found == 0 && isKept), "\(backup): \(words): \(after)")
    }
    if backup != .filesAlone, backup != .everything { #expect(live(after) == live(before), "\(backup)") }
    // A removal waits where files are missing; it is said with what was found.
    let status = try await pair.report(computer, ["status", pair.notes(computer)])
    let waits = status["paused"]?["disk"]?.int ?? 0
    if backup == .clone || backup == .filesAlone {
      #expect(waits > 0, "\(status.compact)")
      let said = try await pair.program(computer).run(["sync", pair.notes(computer)], deadline: .seconds(120))
      #expect(said.outText.contains("confirm") && said.outText.contains("restore"), "\(said.outText)")
      try await pair.report(computer, ["restore", pair.notes(computer)])
      for _ in 1...2 { try await pair.report(computer, ["sync", pair.notes(computer)]) }
      #expect(
        try pair.serverLines(versions: false).filter { $0.hasPrefix("item ") } == after.filter { $0.hasPrefix("item ") }
      )
    }
    let renamed = backup == .filesAlone ? "renamed.md" : "renamed today.md"
    for path in ["kept.md", "edited.md", "new.md", "new.txt", "plain.txt", renamed] {
      #expect(pair.files(computer).contains(path), "\(backup): \(pair.files(computer))")
    }
    if backup != .filesAlone { #expect(pair.text(computer, "edited.md")?.contains("Words of today.") == true) }
    // Confirmed or put back, it is a folder like any other: a delete is sent again.
    if backup == .storeAlone {
      try await pair.report(.one, ["confirm", notes])
      unlink(notes + "/plain.txt")
      for _ in 1...3 { try await pair.sync(.one) }
      #expect(try pair.serverLines(versions: false).contains { $0.contains("plain") && $0.contains(" trashed ") })
    }
  }

  @Test("P3.2 a restored store whose server is out of reach scans nothing, sends nothing, and goes on once it answers")
  func offline() async throws {
    let pair = try await TwoComputers(search: Self.search, environment: Self.fast)
    try await pair.follow(.one)
    try pair.save(.one, "kept.md", "Kept.\n")
    for _ in 1...2 { try await pair.sync(.one) }
    let notes = pair.notes(.one)
    try await copy(notes + "/.marfa", to: pair.scratch.at("yesterday"))
    try pair.save(.one, "new.md", "New.\n")
    for _ in 1...3 { try await pair.sync(.one) }
    let lines = try pair.serverLines(versions: false)
    removeTree(notes + "/.marfa")
    try await copy(pair.scratch.at("yesterday"), to: notes + "/.marfa")
    let away = ["MARFA_API_URL": "http://127.0.0.1:9", "MARFA_API_KEY": "marfa_key_test_0123456789"]
    let ran = try await pair.program(.one, away).run(["--json", "sync", notes], deadline: .seconds(120))
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.json?["scan"]?["created"] == 0 && ran.json?["scan"]?["unchanged"] == 0)
    #expect(ran.json?["scan"]?["flagged"]?.array?.first?["flag"] == "restored", "\(ran.outText)")
    #expect(ran.json?["catch_up"]?["failed"]?.text != nil)
    let scan = try await pair.program(.one).run(["--json", "scan", notes], deadline: .seconds(120))
    #expect(scan.status == 4 && scan.code == "hydration_incomplete", "\(scan.errText)")
    for _ in 1...2 { try await pair.sync(.one) }
    #expect(try pair.serverLines(versions: false) == lines)
    #expect(pair.files(.one) == ["kept.md", "new.md"])
  }
}

import Glibc
import MarfaBase
import Testing
import TestSupport

/// `sync` ended by SIGKILL wherever it happens to be. Two pairs of computers live through the same rounds: the one whose
/// `sync` is left alone is what the other's must come to, killed again and again and run once more.
@Suite("sync killed at any moment") struct KillTests {
  static let rounds = 25
  static let killsARound = 8

  @Test("sync killed with SIGKILL at 200 seeded moments and run again reaches the state of an uninterrupted run")
  func killed() async throws {
    let calm = try await KillRounds(seed: 20_311_104)
    let killed = try await KillRounds(seed: 20_311_104)
    var random = SplitMix(seed: 7)
    var ended = 0
    var length = Duration.milliseconds(200)
    for round in 0..<KillTests.rounds {
      try await calm.change()
      try await killed.change()
      // Evenly over a run's length, each at a moment of its own within its part; one in six ends where a file is about
      // to take its name.
      let moments = (0..<KillTests.killsARound).map { number -> Moment in
        let part = (Double(number) + Double.random(in: 0..<1, using: &random)) / Double(KillTests.killsARound)
        return Int.random(in: 0..<6, using: &random) == 0 ? .rename : .after(length * part)
      }
      async let uninterrupted = calm.settle()
      ended += try await killed.kill(at: moments)
      _ = try await killed.settle()
      length = try await uninterrupted
      let (expected, found) = (try await calm.state(), try await killed.state())
      try #require(expected == found, "round \(round): \(differences(expected, found))")
    }
    // Some moments fall into runs that are under way, else nothing was proven; how many depends on how busy the computer is.
    #expect(ended >= KillTests.rounds * KillTests.killsARound / 8, "only \(ended) runs were ended by their kill")
    let again = try await killed.syncFirst()
    #expect(again["drain"]?["answered"] == 0)
    #expect(again["pull"]?["written"] == 0 && again["pull"]?["rewritten"] == 0 && again["pull"]?["removed"] == 0)
  }

  private func differences(_ expected: [String], _ found: [String]) -> String {
    let change = found.difference(from: expected)
    return change.map { step in
      switch step {
      case .remove(_, let line, _): "missing: \(line)"
      case .insert(_, let line, _): "not expected: \(line)"
      }
    }.joined(separator: "\n")
  }
}

/// When a run is ended.
private enum Moment {
  /// So long after its start.
  case after(Duration)
  /// Before the first file it writes takes its name.
  case rename
}

/// One pair of computers and what its person does, drawn from a seed: two pairs of one seed see the same.
private actor KillRounds {
  private let pair: TwoComputers
  private var random: SplitMix
  private var round = 0

  init(seed: UInt64) async throws {
    random = SplitMix(seed: seed)
    // Graces and asks pass a thousand times as fast.
    pair = try await TwoComputers(search: #"{"types":["core.note"]}"#, environment: ["MARFA_TEST_TIME": "1000"])
    for number in 0..<30 {
      let directory = ["", "Projects/", "Journal/2031/"][number % 3]
      try pair.save(
        .one, "\(directory)Note \(number).md",
        "---\ntags: [start]\n---\n# Note \(number)\n\nFirst.\n\nMiddle.\n\nLast.\n")
    }
    try await pair.follow(.one)
    try await pair.sync(.one)
    try await pair.follow(.two)
    try await pair.sync(.two)
    try await pair.sync(.one)
  }

  /// What the person does between two syncs: the second computer's part reaches the server first.
  func change() throws {
    round += 1
    var notes = pair.files(.one).filter { $0.hasSuffix(".md") && !$0.contains("conflict") }
    func take() -> String { notes.remove(at: Int.random(in: 0..<notes.count, using: &random)) }

    // On the first: two new notes, one of them linking; three edits; a rename; a delete; a picture in a new note.
    let linked = title(of: take())
    try pair.save(.one, "New \(round).md", "A thought, see [[\(linked)]].\n")
    try pair.save(.one, "Projects/Task \(round).md", "---\ntags: [task, r\(round)]\nparts: \(round)\n---\nTo do.\n")
    let picture = (0..<600).map { _ in UInt8.random(in: 0...255, using: &random) }
    try pair.scratch.write("one/Notes/Pictures/p\(round).png", picture)
    try pair.save(.one, "Journal/2031/Day \(round).md", "Seen today:\n\n![[p\(round).png]]\n")
    let shared = take()
    try edit(.one, shared, adding: "From the first computer, round \(round).")
    try edit(.one, take(), adding: "A line of round \(round).")
    try edit(.one, take(), adding: "Another line of round \(round), with [[\(linked)]].")
    let moved = take()
    guard rename(path(.one, moved), path(.one, "Projects/Moved \(round).md")) == 0 else { throw ScratchError("rename") }
    unlink(path(.one, take()))

    // On the second: a new note, edits (one of a note the first edits too), a rename, a delete.
    try pair.save(.two, "Elsewhere \(round).md", "Written on the second computer.\n")
    if round.isMultiple(of: 2) {
      try edit(.two, shared, adding: "From the second computer, round \(round).")
    } else {
      try edit(.two, shared, replacing: "Middle.", by: "Middle, seen from the second computer.")
    }
    try edit(.two, take(), adding: "Its own line, round \(round).")
    let there = take()
    guard rename(path(.two, there), path(.two, "There \(round).md")) == 0 else { throw ScratchError("rename") }
    unlink(path(.two, take()))
  }

  private func path(_ computer: TwoComputers.Computer, _ path: String) -> String {
    "\(pair.notes(computer))/\(path)"
  }

  private func title(of path: String) -> String {
    String(path.split(separator: "/").last?.dropLast(3) ?? "")
  }

  private func edit(_ computer: TwoComputers.Computer, _ path: String, adding line: String) throws {
    guard let text = pair.text(computer, path) else { throw ScratchError("no \(path) on \(computer)") }
    try pair.save(computer, path, text + "\n\(line)\n")
  }

  private func edit(
    _ computer: TwoComputers.Computer, _ path: String, replacing old: String, by new: String
  ) throws {
    guard let text = pair.text(computer, path) else { throw ScratchError("no \(path) on \(computer)") }
    try pair.save(computer, path, text.replacing(old, with: new))
  }

  /// Sends what the second computer changed; then the first's `sync` is killed at each moment in turn. Returns how many
  /// kills found it running.
  func kill(at moments: [Moment]) async throws -> Int {
    try await sendSecond()
    var ended = 0
    for moment in moments {
      var fault: [String: String] = [:]
      if case .rename = moment { fault = ["MARFA_TEST_FAULT": "crash-before-rename"] }
      let child = try pair.program(.one, fault).start(["--json", "sync", pair.notes(.one)])
      child.endInput()
      if case .after(let delay) = moment {
        try await Task.sleep(for: delay)
        child.signal(SIGKILL)
      }
      if try await child.end().status == 128 + SIGKILL { ended += 1 }
    }
    return ended
  }

  /// One more `sync` of the first computer.
  func syncFirst() async throws -> JSON { try await pair.sync(.one) }

  private var isSecondSent = false

  private func sendSecond() async throws {
    // Twice: a delete goes with the sync after the one that missed its file.
    try await pair.sync(.two)
    try await pair.sync(.two)
    isSecondSent = true
  }

  /// Brings both in step, uninterrupted. Returns how long the first's first `sync` took.
  func settle() async throws -> Duration {
    if !isSecondSent { try await sendSecond() }
    isSecondSent = false
    let start = ContinuousClock.now
    try await pair.sync(.one)
    let length = ContinuousClock.now - start
    try await pair.sync(.one)
    try await pair.sync(.two)
    try await pair.sync(.one)
    return length
  }

  /// Both directories and the server, ids and times taken out.
  func state() throws -> [String] {
    pair.directoryLines(.one).map { "one/\($0)" } + pair.directoryLines(.two).map { "two/\($0)" }
      + (try pair.serverLines())
  }
}

import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Two machines of one folder, in step; then both change, and the first syncs in trouble, which both come out of.
struct TroubledDay {
  /// What stands at the end: the files of both machines without what differs by chance, and the server's titles.
  struct Outcome: Equatable, CustomStringConvertible {
    var first: [String]
    var second: [String]
    var server: [String]
    var description: String { "\n first \(first)\n second \(second)\n server \(server)" }
  }

  let bench: FolderBench
  let first: FolderMachine
  let second: FolderMachine

  /// - Parameter storeFaults: what may refuse the first machine's calls to its store.
  init(storeFaults: StoreFaults? = nil) throws {
    bench = try FolderBench()
    let id = try bench.folder(["title": "All", "search": ["types": ["core.note", "core.file"]]])
    first = bench.machine("ana", storeFaults: storeFaults)
    second = bench.machine("ben")
    try first.add(id)
    for name in ["Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta", "Eta"] {
      try first.write("\(name).md", "About \(name), see [[Alpha]].\n")
    }
    try first.write("deep/Inner.md", "Within, see [[Beta]].\n")
    try first.write("drawn.png", "picture one")
    try first.write("Drawn.md", "![[drawn.png]]\n")
    try first.push()
    try second.add(id)
    try second.push()
    try first.push()

    try first.write("New.md", "A new one, see [[Delta]].\n")
    try first.write("Alpha.md", try #require(first.text("Alpha.md")) + "More of the first.\n")
    try first.rename("Beta.md", to: "deep/Beta.md")
    try first.delete("Gamma.md")
    try first.write("sketch.png", "picture two")
    try first.write("Sketch.md", "![[sketch.png]]\n")
    try first.write("Delta.md", "---\ntags: [red]\n" + (try #require(first.text("Delta.md"))).dropFirst(4))

    try second.write("Epsilon.md", try #require(second.text("Epsilon.md")) + "More of the second.\n")
    try second.write("Alpha.md", try #require(second.text("Alpha.md")) + "More of the second.\n")
    try second.write("Theirs.md", "Of the second, see [[Epsilon]].\n")
    try second.delete("Zeta.md")
    try second.rename("Eta.md", to: "moved/Eta.md")
    second.grace()
    try second.push()
    second.grace()
    try second.push()
    first.grace()
  }

  /// What the first machine's sync comes to in the end, where its disk failed amid it.
  func outcome(disk faults: Faults) throws -> Outcome {
    first.faults = faults
    return try outcome()
  }

  /// What it comes to where its requests were answered by something else, or their answers were.
  func outcome(
    before: ((HTTPRequest) -> Result<HTTPResponse, TransportError>?)? = nil,
    after: ((HTTPRequest, HTTPResponse) -> Result<HTTPResponse, TransportError>)? = nil
  ) throws -> Outcome {
    bench.transport.before = before
    bench.transport.after = after
    return try outcome()
  }

  /// What it comes to where calls to its store failed.
  func outcome(store faults: StoreFaults, _ refusal: @escaping () -> Int32?) throws -> Outcome {
    faults.refusal = refusal
    return try outcome { faults.refusal = nil }
  }

  private func outcome(_ recover: () -> Void = {}) throws -> Outcome {
    // In trouble it may end with an error: a sentence, never a trap.
    do { try first.push() } catch {
      #expect(error is MarfaError || error is FileError || error is SQLiteError, "\(error)")
    }
    recover()
    first.restart()
    bench.transport.before = nil
    bench.transport.after = nil
    for _ in 0..<3 {
      for machine in [first, second] {
        machine.grace()
        try machine.push()
      }
    }
    return Outcome(first: texts(first), second: texts(second), server: try bench.titles())
  }

  private func texts(_ machine: FolderMachine) -> [String] {
    machine.files().map { path in
      let lines = (machine.text(path) ?? "no text").split(separator: "\n", omittingEmptySubsequences: false)
      let kept = lines.filter { !$0.hasPrefix("marfa_id:") && !$0.hasPrefix("marfa_version:") }
      return "\(path): \(kept.joined(separator: "|"))"
    }
  }
}

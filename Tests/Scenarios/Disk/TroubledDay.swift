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

  private func texts(_ machine: FolderMachine) -> [String] { machine.files().map { told($0, machine.text($0)) } }
}

/// Two folders of one machine, each of what carries a tag, in step; then items and files move between them, and both sync in
/// trouble, which they come out of.
struct TroubledMove {
  /// What stands at the end, as of a `TroubledDay`.
  struct Outcome: Equatable, CustomStringConvertible {
    var one: [String]
    var two: [String]
    var server: [String]
    var description: String { "\n one \(one)\n two \(two)\n server \(server)" }
  }

  let both: TwoFolders

  /// - Parameter otherVolume: whether files are copied from one to the other, as between volumes.
  init(otherVolume: Bool) throws {
    func tagged(_ tag: Text) -> JSON {
      TwoFolders.tagged(tag.string, ["core.note", "core.file"], ["defaults": ["tags": [.string(tag)]]])
    }
    both = try TwoFolders(tagged("a"), tagged("b"), otherVolume: otherVolume)
    for name in ["Taken", "Moved", "Copied", "Deleted", "Stays"] { try both.one.write("\(name).md", "Of \(name).\n") }
    try both.one.write("taken.png", "a picture")
    try both.two.write("Other.md", "Of the other.\n")
    for _ in 0..<2 {
      try both.one.push()
      try both.two.push()
    }
    for title in ["Taken", "taken.png"] { try both.retag(try both.bench.id(title), from: "a", to: "b") }
    if otherVolume {
      try both.copy("Moved.md", from: both.one)
      try both.one.delete("Moved.md")
    } else {
      try both.move("Moved.md")
    }
    try both.copy("Copied.md", from: both.one)
    try both.one.delete("Deleted.md")
    try both.two.append("Other.md", "More.\n")
    both.one.grace()
  }

  func outcome(disk faults: Faults) throws -> Outcome {
    both.machine.faults = faults
    for folder in [both.one, both.two] {
      do { try folder.push() } catch {
        #expect(error is MarfaError || error is FileError || error is SQLiteError, "\(error)")
      }
    }
    both.machine.restart()
    for _ in 0..<3 {
      for folder in [both.one, both.two] {
        folder.grace()
        try folder.push()
      }
    }
    return Outcome(one: texts(both.one), two: texts(both.two), server: try both.bench.titles())
  }

  private func texts(_ folder: KeptFolder) -> [String] { folder.files().map { told($0, folder.text($0)) } }
}

/// A file without its lines of id and version, which differ by chance.
private func told(_ path: String, _ text: String?) -> String {
  let lines = (text ?? "no text").split(separator: "\n", omittingEmptySubsequences: false)
  let kept = lines.filter { !$0.hasPrefix("marfa_id:") && !$0.hasPrefix("marfa_version:") }
  return "\(path): \(kept.joined(separator: "|"))"
}

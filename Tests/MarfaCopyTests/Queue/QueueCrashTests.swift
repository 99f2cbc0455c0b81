import MarfaBase
import Synchronization
import TestSupport
import Testing

@testable import MarfaCopy

/// Killed at any request: the store as it lay on the disk at that request's first byte is opened by the next process, and
/// ends where an uninterrupted run ends. Nothing is lost, nothing doubled, and each request stood in the store before it went.
@Suite struct QueueCrashTests {
  /// Fills the queue: creates, edits, tags, edges, a move of an edge's path and a delete.
  private func queueAll(_ bench: Bench) throws {
    let notes = try ["A", "B", "C"].map { try bench.create($0) }
    try bench.edit(notes[0], ["title": "A2"])
    try bench.edit(notes[0], ["notes": "n"])
    try bench.queue.addTag(notes[1], "work")
    let edge = try bench.queue.createEdge(EdgeDraft(source: notes[0], target: notes[1], type: "references"))
    let id = try #require(edge.edgeID)
    try bench.queue.updateEdge(id, version: 0, properties: ["why": "b"])
    try bench.queue.createEdge(EdgeDraft(source: notes[2], target: notes[0], type: "about"))
    try bench.queue.deleteItem(notes[2])
  }

  /// What the server holds, times aside.
  private func held(_ server: FakeServer) -> String {
    server.state.withLock { state in
      let items = state.items.values.map { item in
        "\(item["id"]?.text?.string ?? "") \(item["version"]?.int ?? 0) \(item["state"]?.text?.string ?? "") "
          + (item["properties"]?.compact ?? "")
      }
      let edges = state.edges.values.map { edge in
        "\(edge["id"]?.text?.string ?? "") \(edge["version"]?.int ?? 0) \(edge["properties"]?.compact ?? "")"
      }
      let tags = state.tags.map { "\($0.key) \($0.value)" }
      return (items.sorted() + edges.sorted() + tags.sorted()).joined(separator: "\n")
    }
  }

  private func uninterrupted() throws -> (server: String, requests: Int) {
    let bench = try Bench()
    try queueAll(bench)
    try bench.queue.drain()
    return (held(bench.server), bench.server.writes.count)
  }

  @Test("Q1.1 Q3.2 Q3.3 killed at each request in turn, taken or not: the same end, nothing lost, nothing doubled")
  func killedAtEachRequest() throws {
    let whole = try uninterrupted()
    #expect(whole.requests == 10)
    for taken in [false, true] {
      for number in 1...whole.requests {
        let store = try ScratchStore()
        let copied = try ScratchStore()
        let bench = try Bench(file: store.path)
        try queueAll(bench)
        let (from, to) = (store.path, copied.path)
        let known = Mutex<String?>(nil)
        bench.server.hook { sent, made in
          if made < number { return .usual }
          if made > number { return .drop }
          // The first byte: what the disk holds now is all the next process finds.
          copyStore(from, to)
          known.withLock { $0 = sent.key.map { "\($0) \(sent.body)" } }
          return taken ? .loseAnswer : .drop
        }
        try bench.queue.drain()
        bench.server.hook(nil)

        let next = try Bench(over: bench, file: copied.path)
        if let expected = known.withLock({ $0 }) {
          let stored = try next.queue.all().map { "\($0.idempotencyKey) \($0.bodyText?.string ?? "")" }
          #expect(stored.contains(expected), "request \(number) went out before its write was in the store")
        }
        for _ in 0..<2 { try next.queue.drain() }
        #expect(held(bench.server) == whole.server, "killed at request \(number), taken: \(taken)")
        #expect(try next.queue.all().allSatisfy { $0.verdict == .accepted })
        for id in try next.queue.waitingItems() { Issue.record("\(id) still waits") }
      }
    }
  }

  @Test("Q9.11 requests that arrive and are answered in any order leave what one by one leaves", arguments: 0..<20)
  func anyOrder(_ seed: Int) throws {
    let whole = try uninterrupted()
    let bench = try Bench()
    bench.server.state.withLock { $0.random = SplitMix(seed: UInt64(seed)) }
    try queueAll(bench)
    let report = try bench.queue.drain()
    #expect(report.answered == whole.requests)
    #expect(held(bench.server) == whole.server)
  }

  @Test("Q9.11 many writes go in few commits, sixteen out at once at most, and are read back together")
  func many() throws {
    let bench = try Bench()
    for number in 0..<200 {
      let id = try bench.create("N\(number)")
      if number % 2 == 0 { try bench.queue.addTag(id, "even") }
    }
    let report = try bench.queue.drain()
    #expect(report.answered == 300)
    #expect(report.verdicts.allSatisfy { $0.verdict == .accepted })
    // Two pages of a bulk read, the catch-up's catalogs and the root: far below one read a write.
    #expect(bench.server.sent.filter { !$0.isWrite }.count <= 8)
    #expect(try bench.queue.waitingItems().isEmpty)
  }
}

/// Copies a database and its log as they lie on the disk.
private func copyStore(_ from: String, _ to: String) {
  for suffix in ["", "-wal"] {
    guard let bytes = try? readFile(from + suffix) else { continue }
    try? writeFile(to + suffix, bytes)
  }
}

private func readFile(_ path: String) throws -> [UInt8] {
  let path = PathBytes(path)
  let file = try SystemFileSystem().openDirectory(path.parent).open(path.name)
  var out: [UInt8] = []
  while case let piece = try file.read(limit: 1 << 20), !piece.isEmpty { out += piece }
  return out
}

private func writeFile(_ path: String, _ bytes: [UInt8]) throws {
  let path = PathBytes(path)
  let file = try SystemFileSystem().openDirectory(path.parent).create(path.name, mode: 0o600, exactMode: false)
  try file.write(bytes)
  try file.close()
}

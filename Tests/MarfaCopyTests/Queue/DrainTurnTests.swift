import Dispatch
import Glibc
import MarfaBase
import Synchronization
import TestSupport
import Testing

@testable import MarfaCopy

/// Two drains of one copy, asked for by two threads that each ask the copy for its queue, as callers do.
@Suite("Whose turn it is to drain") struct DrainTurnTests {
  private final class Shared: @unchecked Sendable {
    // Unchecked: the drains take turns; that is what is proven.
    let bench: Bench
    init(_ bench: Bench) { self.bench = bench }
  }

  private final class Outcome: Sendable {
    private let state = Mutex<Result<DrainReport, MarfaError>?>(nil)
    private let ended = DispatchSemaphore(value: 0)
    func end(_ result: Result<DrainReport, MarfaError>) {
      state.withLock { $0 = result }
      ended.signal()
    }
    func report() throws -> DrainReport {
      guard ended.wait(timeout: .now() + .seconds(120)) == .success, let result = state.withLock({ $0 }) else {
        throw MarfaError(.store, "the drain never ended")
      }
      return try result.get()
    }
  }

  private static func drain(_ shared: Shared) -> Outcome {
    let outcome = Outcome()
    let begun = startThread {
      do throws(MarfaError) { outcome.end(.success(try shared.bench.copy.queue.drain())) } catch {
        outcome.end(.failure(error))
      }
    }
    #expect(begun)
    return outcome
  }

  @Test("Q-S165 two drains at once of one copy: each write goes once, each report counts its own; of many seeds")
  func atOnce() throws {
    for seed in 0..<40 as Range<UInt64> {
      let bench = try Bench()
      var random = SplitMix(seed: seed)
      var ids = try (0..<6).map { try bench.create("Held \($0)") }
      try bench.queue.drain()
      try bench.queue.forget()
      bench.server.forgetRequests()
      for turn in 0..<24 {
        let id = ids[Int(random.next() % UInt64(ids.count))]
        switch random.next() % 4 {
        case 0: ids.append(try bench.create("New \(turn)"))
        case 1: try bench.edit(id, ["title": .string(Text("Edit \(turn)"))])
        case 2: try bench.queue.addTag(id, Text("t\(turn)"))
        default:
          let other = ids[Int(random.next() % UInt64(ids.count))]
          if other != id { _ = try? bench.queue.createEdge(EdgeDraft(source: id, target: other, type: "references")) }
        }
      }
      let queued = try bench.queue.all().filter { $0.verdict == nil }.map(\.id)
      bench.server.state.withLock { $0.random = SplitMix(seed: seed) }
      // The second is asked for while the first has a request out: at each seed at another one.
      let shared = Shared(bench)
      let second = Mutex<Outcome?>(nil)
      let at = Int(seed % 12) + 1
      bench.server.hook { _, number in
        if number == at {
          second.withLock { $0 = DrainTurnTests.drain(shared) }
          // Time to run into the first, were nothing between them; the test does not turn on it.
          usleep(2000)
        }
        return .usual
      }
      let first = DrainTurnTests.drain(shared)
      let one = try first.report()
      let two = try #require(second.withLock { $0 }).report()
      #expect(one.verdicts.allSatisfy { $0.verdict == .accepted }, "seed \(seed)")
      #expect(Set(one.verdicts.map(\.id)).isDisjoint(with: two.verdicts.map(\.id)))
      #expect((one.verdicts + two.verdicts).map(\.id).sorted() == queued.sorted(), "seed \(seed)")
      #expect(one.answered + two.answered == queued.count && one.undelivered + two.undelivered == 0)
      // Each write went out once, under its own key.
      let keys = bench.server.writes.compactMap(\.key)
      #expect(keys.count == queued.count && Set(keys).count == keys.count, "seed \(seed)")
      #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted && $0.sent })
      // What the second was asked for to do it finds done.
      let third = try bench.queue.drain()
      #expect(third.verdicts.isEmpty && third.answered == 0)
    }
  }

  @Test(
    "Q-S165 from within a drain another one of the copy is refused, whichever queue asks; from a second process too")
  func withinAndBeside() throws {
    let bench = try Bench()
    try bench.create("A")
    final class Nested: DrainObserver {
      let copy: WorkingCopy
      var refusals: [MarfaError.Code] = []
      init(_ copy: WorkingCopy) { self.copy = copy }
      func settled(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws(MarfaError) {
        do throws(MarfaError) { _ = try copy.queue.drain() } catch { refusals.append(error.code) }
      }
    }
    let nested = Nested(bench.copy)
    #expect(try bench.copy.queue.drain(observer: nested).answered == 1)
    #expect(nested.refusals == [.invalid])

    // A second opener of the store is another process to it: it reads, and drains nothing.
    let directory = try TemporaryDirectory()
    let path = PathBytes("\(directory.path)/copy.sqlite")
    let clock = bench.clock
    let context = Context(
      clock: clock, ids: SeededIds(clock: clock, seed: 77), files: SystemFileSystem(), transport: bench.server,
      scheduler: ManualScheduler(clock: clock), log: SilentLog())
    let endpoint = Endpoint(baseURL: "http://fake", credential: "key")
    let writer = try OpenStore.open(path: path, context: context, role: .writer, endpoint: endpoint, credentials: nil)
    #expect(throws: MarfaError.self) {
      try OpenStore.open(path: path, context: context, role: .writer, endpoint: endpoint, credentials: nil)
    }
    try writer.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "B", "body": "x"]))
    let reader = try OpenStore.open(path: path, context: context, role: .reader, endpoint: endpoint, credentials: nil)
    bench.server.forgetRequests()
    expectError(.readingHandle) { try reader.copy.queue.drain() }
    #expect(bench.server.sent.isEmpty)
    #expect(try writer.copy.queue.all().map(\.verdict) == [nil])
  }
}

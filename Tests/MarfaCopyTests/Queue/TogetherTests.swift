import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Answers that come together share a commit; each of them is settled as one that comes alone.
@Suite struct TogetherTests {
  private func bench(_ count: Int) throws -> (Bench, [QueuedWrite]) {
    let bench = try Bench()
    bench.server.state.withLock { $0.together = true }
    for number in 0..<count { try bench.create("\(number)") }
    return (bench, try bench.queue.all())
  }

  @Test("Q19.4 of answers that come together, one the store fails to record counts, and the others are recorded")
  func oneIsNotRecorded() throws {
    let (bench, writes) = try bench(8)
    let broken = writes[4]
    try bench.copy.database.execute(
      "CREATE TRIGGER broken BEFORE UPDATE OF verdict ON queue WHEN NEW.seq = \(broken.seq) AND NEW.verdict = 'accepted' BEGIN SELECT RAISE(ABORT, 'broken'); END"
    )
    let report = try bench.queue.drain()
    #expect(report.answered == 8)
    for write in try bench.queue.all() {
      #expect(write.verdict == (write.id == broken.id ? nil : .accepted))
      #expect(write.refusals == (write.id == broken.id ? 1 : 0))
    }
    try bench.copy.database.execute("DROP TRIGGER broken")
    try bench.queue.drain()
    #expect(try bench.write(broken.id).verdict == .accepted)
    #expect(bench.server.state.withLock { $0.items.count } == 8)
  }

  @Test("Q62 an answer that ends the drain leaves the verdicts of those it came with")
  func oneEndsTheDrain() throws {
    let (bench, writes) = try bench(8)
    bench.server.hook { _, number in number == 5 ? .answer(302, "", []) : .usual }
    expectError(.redirect) { try bench.queue.drain() }
    #expect(try bench.queue.all().filter { $0.verdict == .accepted }.count == 7)
    #expect(try bench.write(writes[4].id).verdict == nil)
    bench.server.hook(nil)
    try bench.queue.drain()
    #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted })
    #expect(bench.server.state.withLock { $0.items.count } == 8)
  }

  @Test("Q19.4 an answer whose recording takes back the whole commit loses none of those it came with")
  func allIsTakenBack() throws {
    let (bench, writes) = try bench(8)
    try bench.copy.database.execute(
      "CREATE TRIGGER broken BEFORE UPDATE OF verdict ON queue WHEN NEW.seq = \(writes[4].seq) AND NEW.verdict = 'accepted' BEGIN SELECT RAISE(ROLLBACK, 'broken'); END"
    )
    _ = try? bench.queue.drain()
    #expect(try bench.write(writes[4].id).verdict == nil)
    #expect(try bench.queue.all().allSatisfy { $0.refusals <= 2 })
    try bench.copy.database.execute("DROP TRIGGER broken")
    try bench.queue.drain()
    #expect(try bench.queue.all().allSatisfy { $0.verdict == .accepted })
    #expect(bench.server.state.withLock { $0.items.count } == 8)
  }
}

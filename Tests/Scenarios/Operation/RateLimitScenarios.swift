@testable import LocalInstance
import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A server that lets so many requests a minute through (P6.3, P6.4).
struct RateLimitScenarios {
  @Test(
    "P6.3 linked notes and a server of few requests a minute, killed twice: one sync that waits sends all of it, each once"
  )
  func linkedNotes() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    let count = 120
    for number in 1...count {
      let next = number % count + 1
      try folder.disk.write(folder.path("Note \(number).md"), "See [[Note \(next)]].\n")
    }
    bench.clock.advance(seconds: 5)
    bench.instance.settings.requestsPerMinute = 60
    bench.transport.clear()
    var kills = 2
    var rounds = 0
    var refusedWrites = 0
    bench.transport.after = { request, response in
      if response.status == 429, request.method != "GET" { refusedWrites += 1 }
      return .success(response)
    }
    while rounds < 100 {
      rounds += 1
      let faults = Faults { _ in .proceed }
      folder.machine.faults = faults
      if kills > 0 {
        let dies = bench.transport.requests.count + 40
        bench.transport.before = { _ in
          if bench.transport.requests.count > dies { faults.crash() }
          return nil
        }
      }
      do {
        let push = try folder.push()
        bench.transport.before = nil
        guard push.drain.drain.undelivered > 0 else { break }
        bench.clock.advance(seconds: UInt64(push.drain.drain.retryAfterSeconds ?? 1))
      } catch {
        bench.transport.before = nil
        if faults.crashed {
          kills -= 1
          folder.machine.restart()
        } else {
          bench.clock.advance(seconds: UInt64(MarfaError(any: error).retryAfter ?? 60))
        }
      }
      folder.machine.faults = nil
    }
    bench.transport.before = nil
    #expect(kills == 0)
    // What is sent is paced: no write is sent to be refused, but for what other requests used up meanwhile.
    #expect(refusedWrites <= rounds, "\(refusedWrites) in \(rounds) rounds")
    bench.instance.settings.requestsPerMinute = nil
    let notes = try bench.instance.database.all(
      "SELECT properties FROM item WHERE type = 'core.note' AND state = 'active'"
    ) { $0.string(0) }
    #expect(notes.count == count && Set(notes).count == count)
    let item = try bench.id("Note 7")
    #expect(try bench.targets(item, "references") == [try bench.id("Note 8")])
    #expect(try folder.push().drain.drain.answered == 0)
  }
}

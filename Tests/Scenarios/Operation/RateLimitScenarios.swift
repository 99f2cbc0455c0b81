@testable import LocalInstance
import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A server that lets so many requests a minute through (P6.3, P6.4).
struct RateLimitScenarios {
  /// Requests an agent pays for in a push or pull of linked notes, as P6.4 counts them.
  func budget(notes: Int, links: Int) -> Int { (2 * notes + links) * 101 / 100 }

  @Test(
    "P-S22, P6.4 a first push of linked notes costs two requests a note and one a link, names of the server included")
  func cost() throws {
    let bench = try FolderBench()
    // Titles the notes name beside those of files, one of them twice.
    for title in ["Elsewhere", "elsewhere", "Once"] { try bench.item(Text(title), type: "core.bookmark") }
    let folder = try KeptFolder(bench)
    let count = 150
    for number in 1...count {
      try folder.disk.write(folder.path("Note \(number).md"), "See [[Note \(number % count + 1)]].\n")
    }
    try folder.disk.write(folder.path("Twice.md"), "See [[Elsewhere]].\n")
    try folder.disk.write(folder.path("Single.md"), "See [[Once]] and [[Nobody]].\n")
    bench.clock.advance(seconds: 5)
    bench.transport.clear()
    let push = try folder.push()
    let spent = bench.transport.requests.count
    let counted = budget(notes: count + 2, links: count + 1)
    #expect(spent <= counted * 105 / 100, "\(spent) requests where \(counted) are counted")
    #expect(push.scan.flagged.reason("Twice.md", "edges")?.contains("more than one") == true, "\(push.json.compact)")
    #expect(push.scan.flagged.reason("Single.md", "edges")?.contains("[[Nobody]] matches no item") == true)
    #expect(try bench.targets(try bench.id("Single"), "references") == [try bench.id("Once")])
    for number in [1, 75, 150] {
      #expect(
        try bench.targets(try bench.id("Note \(number)"), "references")
          == [try bench.id("Note \(number % count + 1)")])
    }
    // Another machine's first pull asks for no name that an edge tells.
    let other = try KeptFolder(bench, following: folder.id, machine: bench.machine("ben"))
    bench.transport.clear()
    try other.push()
    #expect(bench.transport.requests.count <= 40, "\(bench.transport.requests.count)")
    bench.transport.clear()
    try other.push()
    #expect(bench.transport.requests.count <= 40, "\(bench.transport.requests.count)")
  }

  @Test(
    "P6.4 links that name nothing yet on a server of many items are asked in few requests, and found when they come")
  func namesTogether() throws {
    let bench = try FolderBench()
    for number in 1...30 { try bench.item(Text("Target \(number)"), type: "core.bookmark") }
    let folder = try KeptFolder(bench)
    for number in 1...30 {
      try folder.disk.write(folder.path("N\(number).md"), "See [[target \(number)]] and [[Missing \(number)]].\n")
    }
    bench.clock.advance(seconds: 5)
    bench.transport.clear()
    let push = try folder.push()
    let asked = bench.transport.requests.filter { $0.hasPrefix("GET /items?") && $0.contains("filter=") }
    #expect(asked.count <= 4, "\(asked)")
    #expect(push.scan.flagged.filter { $0.reason.contains("matches no item") }.count == 30)
    for number in [1, 17, 30] {
      #expect(
        try bench.targets(try bench.id("N\(number)"), "references") == [try bench.ids("Target \(number)")[0]])
    }
  }

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

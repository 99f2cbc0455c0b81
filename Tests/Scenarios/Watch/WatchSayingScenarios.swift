import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

@testable import marfa_folders

/// What a running watch says, and says once (F46.8, F52, F71 to F79, F82, C17).
struct WatchSayingScenarios {
  @Test(
    "F-S218 F-S430 C-S43 a standing secret is said once over passes that do other things; a second one when it comes")
  func secrets() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write(".env", "KEY=1\n")
    let watch = ScriptedWatch(folder)
    for step in 1...6 { watch.save("note\(step).md", "Note.\n", at: Double(step) * 5) }
    watch.at(33) {
      #expect(watch.said(".env") == 1, "\(watch.words)")
      try folder.disk.write(folder.path("server.pem"), "PEM\n")
    }
    watch.save("last.md", "Last.\n", at: 40)
    #expect(try watch.run(seconds: 60) == nil)
    #expect(watch.passes.count >= 8)
    #expect(watch.said("server.pem") == 1)
    #expect(watch.said(".env") == 1)
    #expect(!bench.transport.sent.contains { String(decoding: bytes($0), as: UTF8.self).contains("KEY=1") })
  }

  private func bytes(_ request: HTTPRequest) -> [UInt8] {
    if case .bytes(let bytes) = request.body { bytes } else { [] }
  }

  @Test("F-S373 F46.8 a paused removal is said once over many passes of a watch")
  func paused() throws {
    let bench = try FolderBench()
    let folder = try RemovalScenarios().filled(bench, 6, try RemovalScenarios().quarter())
    let watch = ScriptedWatch(folder)
    watch.at(5) { for number in 1...3 { try folder.delete("n\(number).md") } }
    for step in 1...6 {
      watch.at(10 + Double(step) * 5) {
        try folder.disk.write(folder.path("n6.md"), try #require(folder.text("n6.md")) + "\(step)\n")
      }
    }
    #expect(try watch.run(seconds: 130) == nil)
    #expect(watch.words.filter { $0.contains("confirm") }.count == 1, "\(watch.words)")
    #expect(watch.passes.count >= 8)
    #expect(try bench.titles().count == 6)
    #expect(watch.sum(\.scan, "deleted") == 0)
  }

  @Test("F-S429 C-S44 the passes of a delete's grace say nothing, the pass that sends it does")
  func grace() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("Gone.md", "Gone.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) { try folder.delete("Gone.md") }
    watch.at(19) { () throws in
      #expect(watch.events.allSatisfy { $0.at < 15 }, "\(watch.names)")
      #expect(try bench.titles() == ["Gone"])
    }
    #expect(try watch.run(seconds: 60) == nil)
    let told = watch.events.filter { $0.at > 15 }
    #expect(told.count == 1)
    guard case .passed(let pass, _)? = told.first?.event else {
      Issue.record("\(watch.names)")
      return
    }
    #expect(pass.scan["deleted"]?.int == 1 && pass.drain["answered"]?.int ?? 0 > 0)
    #expect(watch.said("Gone.md: deleted here") == 1)
    #expect(try bench.titles().isEmpty)
  }

  @Test("F-S395 C-S45 a server that goes away and comes back is one line each; what waited is sent")
  func away() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.away(at: 15, until: 95)
    watch.save("Two.md", "Two.\n", at: 20)
    watch.save("Three.md", "Three.\n", at: 40)
    watch.at(94) {
      #expect(watch.count("unreachable") == 1 && watch.count("reachable") == 0)
      let waiting = watch.passes.filter { $0.drain["undelivered"]?.int ?? 0 > 0 }
      #expect(!waiting.isEmpty && waiting.count <= 2, "\(watch.words)")
      #expect(waiting.allSatisfy { $0.drain["answered"]?.int == 0 })
      #expect(watch.words.filter { $0.hasPrefix("pass:") && $0.contains("waiting to be sent") }.count == waiting.count)
    }
    #expect(try watch.run(seconds: 140) == nil)
    #expect(watch.count("unreachable") == 1 && watch.count("reachable") == 1)
    let line = try #require(watch.words.first { $0.contains("cannot be reached") })
    #expect(line.contains(FolderBench.origin) && line.contains("nothing listens"))
    #expect(watch.words.filter { $0.contains("answers again") }.count == 1)
    #expect(try bench.titles() == ["One", "Three", "Two"])
  }

  @Test("F-S396 C-S46 a refused key ends the watch by 5, saying on both streams that writes wait for a working one")
  func refusedKey() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      // The key is refused from the moment something is sent.
      var isRefused = false
      bench.transport.before = { request in
        if request.method == "POST" { isRefused = true }
        return isRefused && request.url != FolderBench.origin + "/"
          ? .success(HTTPResponse(refusing: 401, "unauthorized")) : nil
      }
    }
    watch.save("Two.md", "Two.\n", at: 16)
    let ended = try #require(try watch.run(seconds: 60))
    #expect(ended.exit == 5)
    #expect(ended.message.contains("wait until a working credential is kept"), "\(ended.message)")
    #expect(watch.words.contains { $0.hasPrefix("sending stopped") }, "\(watch.words)")
    #expect(folder.text("Two.md") == "Two.\n")
    bench.goOnline()
    try folder.push()
    #expect(try bench.titles() == ["One", "Two"])
  }

  @Test(
    "F-S397 C-S47 a gateway's 401 that names no contract is waited out, said once each way, and the create goes again")
  func gateway() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) { bench.transport.before = { _ in .success(HTTPResponse(status: 401, headers: [], body: [])) } }
    watch.save("Two.md", "Two.\n", at: 16)
    watch.at(50) { bench.goOnline() }
    #expect(try watch.run(seconds: 90) == nil)
    #expect(watch.count("unreachable") == 1 && watch.count("reachable") == 1, "\(watch.names)")
    #expect(watch.words.contains { $0.contains("cannot be reached") && $0.contains("contract") }, "\(watch.words)")
    #expect(try bench.titles() == ["One", "Two"])
    #expect(try bench.ids("Two").count == 1)
  }

  @Test("P-S20 a network that turns into a portal and back is said once each way, and the watch goes on")
  func portal() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(15) {
      bench.transport.before = { _ in
        .success(HTTPResponse(status: 302, headers: [HTTPHeader("Location", "http://portal.test/")], body: []))
      }
    }
    watch.save("Two.md", "Two.\n", at: 16)
    watch.at(40) {
      bench.transport.before = { _ in
        .success(HTTPResponse(status: 200, headers: [HTTPHeader("Content-Type", "text/html")], body: Array("<p>".utf8)))
      }
    }
    watch.save("Three.md", "Three.\n", at: 45)
    watch.at(70) { bench.goOnline() }
    #expect(try watch.run(seconds: 120) == nil)
    #expect(watch.count("unreachable") == 1 && watch.count("reachable") == 1, "\(watch.names)")
    #expect(watch.words.contains { $0.contains("in the server's place") }, "\(watch.words)")
    #expect(try bench.titles() == ["One", "Three", "Two"])
    #expect(bench.transport.sent.allSatisfy { $0.url.hasPrefix(FolderBench.origin) })
  }

  @Test("P6.3 a rate limit is waited out: one request while it stands, and everything goes after it")
  func rateLimit() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    let watch = ScriptedWatch(folder)
    var limited = 0
    watch.at(15) {
      bench.transport.before = { request in
        guard request.method == "POST", request.url.hasSuffix("/items") || request.url.contains("/items?") else {
          return nil
        }
        limited += 1
        var response = HTTPResponse(refusing: 429, "rate_limited")
        response.headers.append(HTTPHeader("Retry-After", "30"))
        return .success(response)
      }
    }
    for step in 1...3 { watch.save("note\(step).md", "Note.\n", at: 16) }
    watch.at(40) { bench.goOnline() }
    #expect(try watch.run(seconds: 90) == nil)
    #expect(limited <= 3, "\(limited)")
    #expect(try bench.titles().count == 3)
  }

  @Test(
    "F-S293 C-S48 a fill that meets 503 is tried after 1, 2, 4, 8, 16, 30, 30 s, or the longer Retry-After, said once")
  func fill() throws {
    let bench = try FolderBench()
    try bench.item("Plan")
    let folder = try KeptFolder(bench)
    let watch = ScriptedWatch(folder)
    var tries: [UInt64] = []
    var retryAfter: String?
    bench.transport.before = { request in
      guard request.url.contains("/items?") else { return nil }
      let now = bench.clock.monotonic
      if tries.last.map({ now - $0 > 500_000_000 }) ?? true { tries.append(now) }
      var response = HTTPResponse(refusing: 503, "unavailable")
      if let retryAfter { response.headers.append(HTTPHeader("Retry-After", retryAfter)) }
      return .success(response)
    }
    watch.at(100) { retryAfter = "60" }
    watch.at(200) { bench.goOnline() }
    #expect(try watch.run(seconds: 300) == nil)
    let waits = zip(tries, tries.dropFirst()).map { Int((Double($1 - $0) / 1_000_000_000).rounded()) }
    #expect(waits == [1, 2, 4, 8, 16, 30, 30, 30, 60], "\(waits)")
    #expect(watch.count("retrying") == 1)
    #expect(watch.errorWords.filter { $0.contains("could not be filled") }.count == 1)
    #expect(folder.files() == ["Plan.md"])
  }

  @Test(
    "F-S294 a fill answered in a way no retry changes ends the watch, saying that changes no longer reach the folder")
  func noRetryHelps() throws {
    let bench = try FolderBench()
    try bench.item("Plan")
    let folder = try KeptFolder(bench)
    let watch = ScriptedWatch(folder)
    bench.transport.before = { request in
      request.url.contains("/items?") ? .success(HTTPResponse(refusing: 403, "forbidden")) : nil
    }
    let ended = try #require(try watch.run(seconds: 60))
    #expect(ended.code == .watch && ended.exit == 3)
    #expect(ended.message.contains("no longer reach the folder"), "\(ended.message)")
    bench.transport.before = nil
    try folder.push()
    #expect(folder.files() == ["Plan.md"])
  }

  @Test("F-S291 another device's change is written while a watch runs, with no hydration")
  func changedElsewhere() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.server(at: 20) { bench in
      bench.transport.clear()
      try bench.edit(item, ["body": "Changed.\n"])
      try bench.item("New")
    }
    watch.at(20.5) {
      #expect(folder.text("Plan.md")?.contains("Changed.") == true)
      #expect(folder.files() == ["New.md", "Plan.md"])
      #expect(!bench.transport.requests.contains { $0.hasPrefix("GET /items?") }, "\(bench.transport.requests)")
    }
    #expect(try watch.run(seconds: 30) == nil)
  }

  @Test(
    "F-S292 a cursor the log has aged past is met with a fresh hydration, in a push and in a watch",
    arguments: [false, true])
  func aged(watched: Bool) throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    func age() throws {
      try bench.item("Between")
      try bench.edit(item, ["body": "Changed.\n"])
      try bench.item("Before")
      bench.clock.advance(seconds: 400 * 86_400)
      try bench.instance.sweep()
      try bench.item("Later")
    }
    if watched {
      let watch = ScriptedWatch(folder)
      watch.at(20) {
        try age()
        bench.transport.clear()
      }
      // Long enough that the jump of the clock does not end it.
      #expect(try watch.run(seconds: 400 * 86_400 + 100) == nil)
      #expect(bench.transport.requests.contains { $0.hasPrefix("GET /items?") })
    } else {
      try age()
      #expect(try folder.push().catchUp.hydrated != nil)
    }
    #expect(folder.files() == ["Before.md", "Between.md", "Later.md", "Plan.md"])
    #expect(folder.text("Plan.md")?.contains("Changed.") == true)
  }

  @Test("F-S297 a search's type changed under a watch is sent and not hydrated; the next push hydrates")
  func sliceChanged() throws {
    let bench = try FolderBench()
    try bench.item("Book", type: "core.media.book")
    let folder = try KeptFolder(bench)
    try folder.push()
    let watch = ScriptedWatch(folder)
    watch.at(20) {
      bench.transport.clear()
      let yaml = try #require(folder.text(".marfa/folder.yaml"))
      try folder.disk.write(folder.path(".marfa/folder.yaml"), yaml.replacing("core.note", with: "core.media.book"))
    }
    watch.save("Note.md", "Note.\n", at: 30)
    #expect(try watch.run(seconds: 60) == nil)
    #expect(bench.writes.contains { $0.hasPrefix("PATCH /folders/") }, "\(bench.writes)")
    #expect(!bench.transport.requests.contains { $0.hasPrefix("GET /items?") }, "\(bench.transport.requests)")
    #expect(!folder.files().contains("Book.md"))
    let push = try folder.push()
    #expect(push.hydrated != nil)
    #expect(folder.files().contains("Book.md"))
  }

  @Test("F-S433 a copy that always changes under a watch's pull is said once, and the watch goes on")
  func alwaysChanging() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    let watch = ScriptedWatch(folder)
    nonisolated(unsafe) var changes = 0
    nonisolated(unsafe) var isChanging = false
    nonisolated(unsafe) let change = {
      isChanging = false
      changes += 1
      _ = try? bench.item(Text("More\(changes)"))
      let door = folder.machine.door
      folder.machine.door = .none
      _ = try? folder.folders.open(folder.root, role: .writer).catchUp()
      folder.machine.door = door
      isChanging = true
    }
    folder.machine.door = FaultDoor { (point, name, _) throws(FileError) in
      if point == .render, isChanging, name == "Theirs.md" { change() }
    }
    watch.server(at: 20) { bench in
      isChanging = true
      try bench.item("Theirs")
    }
    watch.at(25) {
      isChanging = false
      #expect(watch.count("copy_changing") == 1, "\(watch.names)")
    }
    #expect(try watch.run(seconds: 50) == nil)
    #expect(changes > 3)
    #expect(watch.count("copy_changing") == 1)
    #expect(folder.files().contains("Theirs.md"))
  }
}

import FolderSync
import LocalInstance
import MarfaBase
@testable import MarfaCopy
import TestSupport
import Testing

/// Catch-up, hydration, failures (F40), and a refused credential (F52.4, F52.7).
struct KeepingUpScenarios {
  /// Ends the copy as a log that has aged past the cursor does.
  func expire(_ folder: KeptFolder) throws {
    try folder.folders.working(folder.root, "push") { _ = try $0.copy.expire("catchup_too_old", "aged") }
  }

  @Test("F-S290 another device's change is written with no hydration")
  func changed() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.edit(item, ["body": "Changed.\n"])
    let new = try bench.item("New")
    let push = try folder.push()
    #expect(push.hydrated == nil && push.catchUp.hydrated == nil)
    #expect(push.pull?.rewritten == 1 && push.pull?.written == 1)
    #expect(folder.text("Plan.md")?.contains("Changed.") == true)
    #expect(try folder.placement(of: new) == "New.md")
  }

  @Test("a cursor the log has aged past is met with a fresh hydration")
  func aged() throws {
    let bench = try FolderBench()
    let item = try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.edit(item, ["body": "Changed.\n"])
    bench.clock.advance(seconds: 400 * 86_400)
    try bench.instance.sweep()
    try bench.item("Later")
    let push = try folder.push()
    #expect(push.catchUp.hydrated != nil && push.hydrated == nil)
    #expect(folder.text("Plan.md")?.contains("Changed.") == true)
    #expect(try folder.push().catchUp.hydrated == nil)
    #expect(folder.files() == ["Later.md", "Plan.md"])
  }

  @Test("F-S295 a push whose hydration broke off hydrates first the next time, and goes on")
  func failedHydration() throws {
    let bench = try FolderBench()
    try bench.item("Plan")
    let folder = try KeptFolder(bench)
    bench.transport.before = { request in
      request.url.contains("/items?") ? .success(HTTPResponse(refusing: 503, "unavailable")) : nil
    }
    #expect(refusal { try folder.push() }?.exit == 3)
    #expect(folder.files().isEmpty)
    bench.goOnline()
    let push = try folder.push()
    #expect(push.hydrated != nil && push.pull?.written == 1)
    #expect(folder.files() == ["Plan.md"])
  }

  @Test("F-S296 with the server out of reach the catch-up says why, and the pull writes what the copy holds")
  func outOfReach() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try bench.item("Plan")
    try folder.folders.working(folder.root, "push") { _ = try $0.catchUp() }
    bench.goOffline()
    let push = try folder.push()
    #expect(push.catchUp.failed?.message.isEmpty == false)
    #expect(push.json["catch_up"]?["failed"]?.text != nil)
    #expect(push.pull?.written == 1 && folder.files() == ["Plan.md"])
  }

  /// How a copy came not to answer.
  enum Unfilled: String, CaseIterable { case never, cutShort, stale, expired }

  @Test(
    "F-S298 a copy never filled, cut short, stale or expired refuses scan, pull, restore and confirm; a push fills it first",
    arguments: Unfilled.allCases)
  func cannotAnswer(how: Unfilled) throws {
    let bench = try FolderBench()
    try bench.item("Plan")
    let folder = try KeptFolder(bench, KeptFolder.notes(["removal_threshold": ["files": 0, "fraction": 0]]))
    var isFilled = false
    switch how {
    case .never: break
    case .cutShort:
      bench.transport.before = { request in
        request.url.contains("/edges?") ? .success(HTTPResponse(refusing: 503, "unavailable")) : nil
      }
      #expect(refusal { try folder.push() }?.exit == 3)
      bench.goOnline()
      #expect(try folder.reading { try $0.copy.hydration() } == .inProgress)
    case .stale, .expired:
      try folder.push()
      try folder.delete("Plan.md")
      #expect(try folder.push().scan.paused == 1)
      isFilled = true
      if how == .expired {
        try expire(folder)
      } else {
        // The log lets the cursor go.
        try folder.folders.working(folder.root, "test") { _ = try $0.copy.goStale(minimum: "99") }
        #expect(try folder.reading { try $0.copy.hydration() } == .stale)
      }
      #expect(refusal { _ = try folder.confirm() }?.code == .hydrationIncomplete)
    }
    try folder.write("mine.md")
    let bindings = try folder.reading { try $0.store.bindings() }
    bench.transport.clear()
    for work in [
      { try folder.scan() }, { _ = try folder.folders.pull(folder.root) }, { _ = try folder.restore() },
    ] as [() throws -> Void] {
      #expect(refusal(work)?.code == .hydrationIncomplete)
    }
    #expect(try folder.queue().isEmpty && bench.writes.isEmpty)
    #expect(try folder.reading { try $0.store.bindings() } == bindings)
    #expect(folder.files() == ["mine.md"])
    #expect(try folder.status().files.contains { $0.path == "mine.md" })
    let push = try folder.push()
    #expect(push.hydrated != nil && push.scan.created == 1)
    #expect(folder.files() == (isFilled ? ["mine.md"] : ["Plan.md", "mine.md"]))
    #expect(push.scan.paused == (isFilled ? 1 : 0))
    #expect(try Set(bench.titles()).isSuperset(of: ["Plan", "mine"]))
  }

  @Test("F-S299 another instance at the address is refused until a hydrate agrees to it, and every file stays")
  func anotherInstance() throws {
    let bench = try FolderBench()
    try bench.item("Plan")
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.append("Plan.md", "Mine.\n")
    try folder.write("new.md")
    let files = folder.files()
    let texts = files.map { folder.text($0) }
    let other = try FolderBench(seed: 99)
    let mine = bench.transport.handle
    bench.transport.handle = { other.instance.handle($0) }
    for _ in 0..<2 {
      let error = try #require(refusal { try folder.push() })
      #expect(error.code == .instanceChanged && error.exit == 4, "\(error)")
    }
    #expect(folder.files() == files && files.map { folder.text($0) } == texts)
    #expect(try folder.status().files.count == 2)
    #expect(try other.titles().isEmpty)
    bench.transport.handle = mine
    // What was queued before is blocked once another instance is agreed to.
    bench.transport.before = { request in
      request.method == "GET" ? nil : .failure(.unreachable("nothing listens"))
    }
    try folder.push()
    bench.goOnline()
    let queued = try folder.queue().count
    #expect(queued > 0)
    bench.transport.handle = { other.instance.handle($0) }
    _ = refusal { try folder.push() }
    _ = try folder.folders.hydrate(folder.root)
    #expect(try folder.queue().allSatisfy { $0.blockedReason == .instanceChanged })
    #expect(try folder.queue().count == queued)
    #expect(folder.files() == files && files.map { folder.text($0) } == texts)
    #expect(try other.titles().isEmpty)
  }

  @Test("F-S398 a push says why its drain stopped")
  func stopped() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.push()
    try folder.write("a.md")
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/items")
        ? .success(HTTPResponse(refusing: 401, "unauthorized")) : nil
    }
    let push = try folder.push()
    #expect(push.drain.drain.stopped?.isEmpty == false)
    let reason = try #require(push.drain.drain.stopped)
    #expect(words(push).contains { $0.contains(reason) })
    #expect(try bench.titles().isEmpty)
    #expect(folder.text("a.md") == "Words.\n")
  }

  @Test("F-S399 a credential that ends the copy touches nothing; one that works again goes on, once")
  func credentialEnded() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("one.md", "One.\n")
    try folder.write("two.md", "Two.\n")
    try folder.push()
    let one = try bench.id("one")
    try folder.append("one.md", "Edited.\n")
    try folder.delete("two.md")
    try folder.scan()
    let queue = try folder.queue().map(\.idempotencyKey)
    let files = folder.files()
    #expect(queue.count == 1)
    bench.transport.before = { request in
      request.url == FolderBench.origin + "/" ? nil : .success(HTTPResponse(refusing: 401, "unauthorized"))
    }
    for _ in 0..<2 { #expect(refusal { try folder.push() }?.exit == 5) }
    #expect(refusal { try folder.reading { try $0.copy.requireComplete() } }?.reason == "credential_ended")
    #expect(try folder.queue().map(\.idempotencyKey) == queue)
    #expect(folder.files() == files)
    #expect(try folder.isBound(one))
    #expect(try folder.status().files.count == 2)
    bench.goOnline()
    bench.transport.clear()
    let push = try folder.push()
    #expect(push.hydrated != nil)
    #expect(try bench.body(one) == "One.\nEdited.\n")
    let edits = bench.transport.sent.filter { $0.method == "PATCH" && $0.url.contains("/items/\(one)") }
    #expect(edits.count == 1)
    #expect(edits.first?.headers.contains { $0.value.contains(queue[0].string) } == true)
    #expect(push.pull?.written == 0 && push.pull?.removed == 0)
    #expect(folder.files() == files)
    folder.grace()
    try folder.push()
    #expect(try bench.titles() == ["one"])
  }
}

import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import TestSupport
import Testing

/// Askers that die, one process with a watch and a call, and a folder removed under a waiting call (H5, H7, H8).
struct HandOverWatchScenarios {
  func filled(_ bench: FolderBench) throws -> KeptFolder {
    let folder = try KeptFolder(bench)
    try folder.write("One.md", "One.\n")
    try folder.push()
    try #require(try bench.titles() == ["One"])
    return folder
  }

  @Test(
    "H-S5 an asker killed while waiting, or while working: the watch goes on, or takes back, within a second",
    arguments: [false, true])
  func killedAsker(working: Bool) throws {
    let bench = try FolderBench()
    let folder = try filled(bench)
    let watch = ScriptedWatch(folder)
    var dies = 15.0
    if working {
      watch.borrow(at: 15, for: 1_000) {}
      dies = 17
    } else {
      watch.ask(at: 15)
    }
    watch.at(dies) {
      folder.disk.kill(pid: watch.askerPid)
      // Its text stays: nobody truncated it.
      #expect(folder.text(".marfa/core.handover")?.contains("push") == true)
    }
    watch.save("Two.md", "Two.\n", at: dies + 5)
    #expect(try watch.run(seconds: 40) == nil)
    if working {
      let back = try #require(watch.events.first { if case .takenBack = $0.event { true } else { false } })
      #expect(back.at <= dies + 1, "\(back.at)")
    }
    #expect(watch.count("held_elsewhere") == 0)
    #expect(try bench.titles() == ["One", "Two"])
    #expect(folder.text(".marfa/core.handover")?.contains("push") == true)
  }

  @Test("H-S14 a call but add that waits on the lock of a folder being removed is refused, and makes nothing anew")
  func removedMeanwhile() throws {
    let calls: [(String, (KeptFolder) throws -> Void)] = [
      ("scan", { try $0.scan() }), ("pull", { _ = try $0.folders.pull($0.root) }), ("push", { try $0.push() }),
      ("confirm", { _ = try $0.confirm() }), ("restore", { _ = try $0.restore() }),
      ("hydrate", { _ = try $0.folders.hydrate($0.root) }),
    ]
    for (name, call) in calls {
      let bench = try FolderBench()
      let folder = try filled(bench)
      let text = folder.text("One.md")
      let files = MemoryFileSystem(folder.disk, pid: 7_777)
      guard
        case .taken(let claim) = try WriterClaim.attempt(in: files.openDirectory(folder.path(".marfa")), files: files)
      else { throw BenchError("the folder is not free") }
      let (disk, state) = (folder.disk, folder.path(".marfa"))
      // The remove that holds it deletes the state, its lock file last, and ends.
      folder.machine.whileWaiting = {
        try? disk.delete(state)
        disk.kill(pid: 7_777)
      }
      bench.transport.clear()
      let error = try #require(refusal { try call(folder) }, "\(name)")
      #expect(error.code == .invalid, "\(name): \(error)")
      #expect(folder.disk.status(state) == nil, "\(name)")
      #expect(folder.files() == ["One.md"] && folder.text("One.md") == text)
      #expect(bench.transport.requests.isEmpty, "\(name): \(bench.transport.requests)")
      withExtendedLifetime(claim) {}
    }
  }
}

/// One process that watches a folder and calls on it (H7), over a real disk and a real socket.
@Suite(.serialized) struct OneProcessScenarios {
  @Test("H-S13 one process with a watch and a call: they exclude and hand over as two processes do")
  func oneProcess() async throws {
    let desk = try await ProcessScenarios()
    try await desk.add()
    try desk.scratch.write("Notes/One.md", "One.\n")
    let root = PathBytes(desk.notes)
    let names = Mutex<[String]>([])
    let stop = StopFlag()
    let (notes, url, key, list) = (desk.notes, desk.server.url, desk.server.key, desk.scratch.at("folders.json"))
    @Sendable func folders(_ stop: StopFlag) -> Folders {
      let clock = SystemClock()
      let context = Context(
        clock: clock, ids: SystemIds(clock: clock), files: SystemFileSystem(), transport: CurlTransport(),
        scheduler: SystemScheduler(), log: SilentLog())
      return Folders(
        context: context, registry: Registry(path: PathBytes(list), files: context.files),
        endpoint: Endpoint(baseURL: url, credential: key),
        door: StoreDoor(
          database: { root, mode in try Database(path: root.appending(".marfa/core.sqlite").description, mode: mode) },
          blobs: { root in
            FileBlobStore(path: root.appending(".marfa/core.sqlite.blobs"), files: context.files, ids: context.ids)
          }), stop: stop)
    }
    let ended = Mutex<String?>(nil)
    try #require(
      startThread {
        do throws(MarfaError) {
          try folders(stop).watch(root) { event in
            if let name = event.json["event"]?.text?.string { names.withLock { $0.append(name) } }
          }
          ended.withLock { $0 = "well" }
        } catch { ended.withLock { $0 = "\(error)" } }
      })
    func until(_ what: String, _ holds: @escaping @Sendable ([String]) -> Bool) async throws {
      let deadline = ContinuousClock.now + .seconds(120)
      while !names.withLock({ holds($0) }) {
        if ContinuousClock.now > deadline { throw ScratchError("\(what): \(names.withLock { $0 })") }
        try await Task.sleep(for: .milliseconds(20))
      }
    }
    try await until("the first pass") { $0.contains("passed") }
    // A second watch of the same process does not ask, and is refused.
    #expect(refusal { try folders(StopFlag()).watch(root) { _ in } }?.code == .readingHandle)
    #expect(names.withLock { !$0.contains("handed_over") })
    // A call of the same process asks, is let in, and the watch takes the folder back.
    try desk.scratch.write("Notes/Two.md", "Two.\n")
    let called = Mutex<String?>(nil)
    try #require(
      startThread {
        let made = folders(StopFlag())
        for _ in 0..<12 {
          let failed = refusal { _ = try made.push(root) }
          if failed?.code == .readingHandle { continue }
          called.withLock { $0 = failed.map { "\($0)" } ?? "well" }
          return
        }
      })
    try await until("handed over") { $0.contains("handed_over") }
    try await until("taken back") { $0.contains("taken_back") }
    let deadline = ContinuousClock.now + .seconds(120)
    while called.withLock({ $0 }) == nil, ContinuousClock.now < deadline {
      try await Task.sleep(for: .milliseconds(20))
    }
    #expect(called.withLock { $0 } == "well")
    stop.set(.stopped)
    while ended.withLock({ $0 }) == nil, ContinuousClock.now < deadline + .seconds(60) {
      try await Task.sleep(for: .milliseconds(20))
    }
    #expect(ended.withLock { $0 } == "well")
    let push = try await desk.insist(["push", notes])
    #expect(push.json?["scan"]?["created"] == 0 && push.json?["drain"]?["answered"] == 0)
    for name in ["One", "Two"] { #expect(desk.scratch.text("Notes/\(name).md")?.contains("marfa_id") == true) }
  }
}

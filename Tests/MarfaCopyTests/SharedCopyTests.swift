import Dispatch
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization
import Testing
import TestSupport

@Suite("A copy open to many callers") struct SharedCopyTests {
  /// A shared copy over a bench's instance, whose first listing waits until it is let go.
  private final class Place: @unchecked Sendable {
    // Unchecked: the bench is used by one call at a time, which the shared copy sees to.
    let bench: CopyBench
    let directory: TemporaryDirectory
    let shared: SharedCopy
    let reached = Atomic(false)
    /// Blocks the filling call's own thread alone; the test's tasks only look.
    let letGo = DispatchSemaphore(value: 0)
    var listings = 0

    init(server: Bool = true) throws {
      bench = try CopyBench()
      directory = try TemporaryDirectory()
      let clock = bench.clock
      let context = Context(
        clock: clock, ids: SeededIds(clock: clock, seed: 500), files: SystemFileSystem(), transport: bench.transport,
        scheduler: bench.scheduler, log: SilentLog())
      shared = SharedCopy(
        try OpenStore.open(
          path: PathBytes("\(directory.path)/copy.sqlite"), context: context, role: .writer,
          endpoint: server ? Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key) : nil, credentials: nil))
      bench.transport.before = { [unowned self] request in
        guard request.url.contains("/items?type") else { return nil }
        listings += 1
        if listings == 1 {
          reached.store(true, ordering: .sequentiallyConsistent)
          _ = letGo.wait(timeout: .now() + .seconds(120))
        }
        return nil
      }
    }

    /// Runs work on a thread of its own; its result once it ends.
    func start<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) -> Job<Value> {
      let job = Job<Value>()
      let started = startThread {
        job.result.withLock { $0 = Result { try work() } }
      }
      #expect(started)
      return job
    }

    func reach() throws { try look { reached.load(ordering: .sequentiallyConsistent) } }

    /// Waits until so many calls run or wait.
    func calls(_ count: Int) throws {
      try look { shared.callCount == count }
    }

    // Not by tasks: among many tests one that sleeps may be woken minutes later, when the filling call has given up.
    func look(_ holds: () -> Bool) throws {
      for _ in 0..<12_000 where !holds() { usleep(10_000) }
      try #require(holds())
    }
  }

  private final class Job<Value: Sendable>: Sendable {
    let result = Mutex<Result<Value, any Error>?>(nil)
    func value() throws -> Value {
      for _ in 0..<12_000 where result.withLock({ $0 == nil }) { usleep(10_000) }
      guard let result = result.withLock({ $0 }) else { throw ScratchError("the call never ended") }
      return try result.get()
    }
  }

  private static let slice = Slice(types: ["core.note"], tier: "library", edgeTypes: [])

  @Test("D-S61 of two hydrations at once of one slice and key one runs, and both have its report")
  func twoFills() throws {
    let place = try Place()
    try place.bench.note("Note")
    let first = place.start { try place.shared.hydrate(SharedCopyTests.slice) }
    try place.reach()
    let second = place.start { try place.shared.hydrate(SharedCopyTests.slice) }
    try place.calls(2)
    place.letGo.signal()
    let report = try first.value()
    #expect(try second.value() == report)
    #expect(report.items == 1 && place.listings == 1)
    // Another slice, and a later call, run of their own.
    #expect(try place.shared.hydrate(Slice(types: ["core.note"], tier: "all", edgeTypes: [])).items == 1)
    #expect(place.listings == 2)
    _ = try place.shared.hydrate(SharedCopyTests.slice)
    #expect(place.listings == 3)
  }

  @Test("D208.1 a key change waits for running calls, refuses those made meanwhile, and later ones carry the new key")
  func keyChange() throws {
    let place = try Place()
    let key = try place.bench.makeKey(["*": "write"])
    let fill = place.start { try place.shared.hydrate(SharedCopyTests.slice) }
    try place.reach()
    let change = place.start { try place.shared.useKey(key.key) }
    try place.calls(2)
    let refusal = place.bench.refusal { _ = try place.shared.call { (copy) throws(MarfaError) in try copy.status() } }
    #expect(refusal?.code == .keyChanging)
    place.letGo.signal()
    #expect(try fill.value().slice == SharedCopyTests.slice)
    try change.value()
    place.bench.transport.clear()
    // A view is per key, so the first certified request ends the copy (D208.5).
    let expiry = place.bench.refusal { _ = try place.shared.call { (copy) throws(MarfaError) in try copy.catchUp() } }
    #expect(expiry?.code == .copyExpired && expiry?.reason == "read_view_changed")
    let carried = place.bench.transport.sent.compactMap { $0.headers.first { $0.name == "Authorization" }?.value }
    #expect(!carried.isEmpty && carried.allSatisfy { $0 == "Bearer \(key.key)" })
    let lone = try Place(server: false)
    #expect(lone.bench.refusal { try lone.shared.useKey("k") }?.code == .noServer)
    #expect(lone.bench.refusal { _ = try lone.shared.call { (copy) throws(MarfaError) in try copy.status() } } == nil)
  }

  @Test(
    "D208.2 a close lets running calls finish and releases the writer role; later calls throw closed, a second returns")
  func close() throws {
    let place = try Place()
    let fill = place.start { try place.shared.hydrate(SharedCopyTests.slice) }
    try place.reach()
    let closing = place.start { place.shared.close() }
    try place.look { place.shared.isClosed }
    #expect(place.bench.refusal { try place.shared.useKey("k") }?.code == .closed)
    place.letGo.signal()
    #expect(try fill.value().items == 0)
    try closing.value()
    place.shared.close()
    let refusal = place.bench.refusal { _ = try place.shared.call { (copy) throws(MarfaError) in try copy.status() } }
    #expect(refusal?.code == .closed)
    let again = try OpenStore.open(
      path: PathBytes("\(place.directory.path)/copy.sqlite"), context: place.bench.context.over(SystemFileSystem()),
      role: .writer, endpoint: nil, credentials: nil)
    #expect(try again.copy.hydration() == .complete)
  }
}

extension Context {
  /// The same over other files.
  fileprivate func over(_ files: any FileSystem) -> Context {
    Context(clock: clock, ids: ids, files: files, transport: transport, scheduler: scheduler, log: log)
  }
}

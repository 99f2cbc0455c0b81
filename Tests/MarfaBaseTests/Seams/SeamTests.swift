import Glibc
import MarfaBase
import Testing

@Suite struct SeamTests {
  @Test("ids of one source rise, even while the clock stands or steps back")
  func ids() {
    let clock = ManualClock()
    for source in [SystemIds(clock: clock) as any IdSource, SeededIds(clock: clock, seed: 4)] {
      var last = source.next()
      for turn in 0..<2000 {
        if turn == 1000 { clock.setWall(Timestamp(milliseconds: clock.now.milliseconds - 5000)) }
        let next = source.next()
        #expect(next > last && next.isVersion7)
        last = next
      }
    }
  }

  @Test("one seed gives the same ids")
  func seeds() {
    let first = SeededIds(clock: ManualClock(), seed: 9)
    let second = SeededIds(clock: ManualClock(), seed: 9)
    #expect((0..<9).map { _ in first.next() } == (0..<9).map { _ in second.next() })
  }

  @Test("C27.2 waits are divided and the monotonic clock is scaled")
  func scaled() {
    let scale = TimeScale(factor: 1000)
    let clock = SystemClock(scale: scale)
    let before = clock.monotonic
    #expect(SystemScheduler(scale: scale).wait(nanoseconds: 10_000_000_000, unless: StopFlag()))
    let passed = clock.monotonic - before
    #expect(passed >= 10_000_000_000)
    #expect(TimeScale.reading("60").factor == 60 && TimeScale.reading("x").factor == 1)
  }

  @Test("a wait ends at once when it is stopped")
  func stopped() throws {
    let stop = StopFlag()
    let thread = Thread { SystemScheduler().wait(nanoseconds: 600_000_000_000, unless: stop) }
    stop.set(.stopped)
    #expect(thread.join() == false)
    #expect(SystemScheduler().wait(nanoseconds: 1, unless: stop) == false)
  }

  @Test("C27.1 faults are read as the variable names them")
  func door() throws {
    let disk = MemoryDisk(clock: ManualClock())
    try disk.write("/d/a", "a")
    let files = MemoryFileSystem(disk)
    let (_, faulty) = TestFault.reading("errno:ENOSPC:create:b", over: files)
    let directory = try faulty.openDirectory("/d")
    #expect(throws: FileError.self) { _ = try directory.create("b", mode: 0o600, exactMode: true) }
    _ = try directory.create("c", mode: 0o600, exactMode: true)
    let (door, _) = TestFault.reading("save-before-last-look:a", over: files)
    try door.reached(.lastLook, "b", in: files.openDirectory("/d"))
    #expect(disk.text("/d/a") == "a")
    try door.reached(.lastLook, "a", in: files.openDirectory("/d"))
    #expect(disk.text("/d/a") == "What the person saved meanwhile.\n")
  }
}

/// A thread whose answer can be waited for.
private final class Thread: @unchecked Sendable {
  // `answer` is written before the thread ends and read after it was joined.
  private var answer = false
  private let body: @Sendable () -> Bool
  private var handle = pthread_t()

  init(_ body: @escaping @Sendable () -> Bool) {
    self.body = body
    pthread_create(
      &handle, nil,
      { argument in
        guard let argument else { return nil }
        let thread = Unmanaged<Thread>.fromOpaque(argument).takeRetainedValue()
        thread.answer = thread.body()
        return nil
      }, Unmanaged.passRetained(self).toOpaque())
  }

  func join() -> Bool {
    pthread_join(handle, nil)
    return answer
  }
}

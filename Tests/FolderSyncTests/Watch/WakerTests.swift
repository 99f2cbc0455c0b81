import FolderSync
import MarfaBase
import Testing

/// Where a watch's loop waits.
@Suite struct WakerTests {
  @Test("C27.2 a watch's waits are divided as its clock is scaled: an hour of a watch is over while the test runs")
  func scaled() throws {
    let clock = SystemClock(scale: TimeScale(factor: 100_000))
    let waker = try Waker(clock: clock)
    let end = clock.monotonic &+ 3_600_000_000_000
    waker.wait(until: end)
    #expect(clock.monotonic >= end)
    #expect(clock.timer(nanoseconds: 1) == 1 && clock.timer(nanoseconds: 200_000) == 2)
    #expect(clock.span(milliseconds: 3) == 300_000_000_000 && clock.span(milliseconds: -1) == 0)
    #expect(SystemClock().timer(nanoseconds: 77) == 77)
  }

  @Test("a wait that is woken ends before its time")
  func woken() throws {
    let clock = SystemClock()
    let waker = try Waker(clock: clock)
    waker.wake()
    let end = clock.monotonic &+ 3_600_000_000_000
    waker.wait(until: end)
    #expect(clock.monotonic < end)
  }
}

import Testing

@testable import FolderSync

private let ms: UInt64 = 1_000_000
private let second: UInt64 = 1_000_000_000

@Suite("The schedule of a watch's passes")
struct PassScheduleTests {
  /// A schedule whose first pass ran from 0 to 100 ms.
  private func started(trusted: Bool = true) -> PassSchedule {
    var schedule = PassSchedule()
    let pass = schedule.begin(now: 0)
    schedule.ended(pass, began: 0, now: 100 * ms, completed: true, trusted: trusted)
    return schedule
  }

  @Test("F49.1 the first pass is at once and reads every file, the next reading one a minute later")
  func firstPass() {
    var schedule = PassSchedule()
    #expect(schedule.due(now: 5) == 5)
    #expect(schedule.begin(now: 5) == .reading)
    schedule.ended(.reading, began: 5, now: 10 * ms, completed: true, trusted: true)
    #expect(schedule.due(now: 20 * ms) == 10 * ms + 60 * second)
    #expect(schedule.begin(now: 20 * second) == .quick)
  }

  @Test("F49.1 a reading pass of three seconds puts the next five minutes off")
  func longReading() {
    var schedule = PassSchedule()
    _ = schedule.begin(now: 0)
    schedule.ended(.reading, began: 0, now: 3 * second, completed: true, trusted: true)
    #expect(schedule.due(now: 4 * second) == 303 * second)
  }

  @Test("F51.1 a change waits for 250 ms of quiet, each further change anew")
  func settling() {
    var schedule = started()
    schedule.changed(at: 1 * second)
    #expect(schedule.due(now: 1 * second) == 1250 * ms)
    schedule.changed(at: 1200 * ms)
    #expect(schedule.due(now: 1200 * ms) == 1450 * ms)
  }

  @Test("F51.1 changes that never settle hold a pass off at most 5 s after the last one ended")
  func neverQuiet() {
    var schedule = started()
    for tick in stride(from: UInt64(1000), through: 6000, by: 200) { schedule.changed(at: tick * ms) }
    #expect(schedule.due(now: 5050 * ms) == 5100 * ms)
    var late = started()
    late.changed(at: 20 * second)
    #expect(late.due(now: 20 * second) == 20 * second)
  }

  @Test("C17.4 dot-led names alone wait until pass and change are a second old")
  func hidden() {
    var schedule = started()
    schedule.hiddenChanged(at: 500 * ms)
    #expect(schedule.due(now: 600 * ms) == 1500 * ms)
  }

  @Test("C17.4 a change on the server runs a pass at once")
  func server() {
    var schedule = started()
    schedule.serverMoved()
    #expect(schedule.due(now: 200 * ms) == 200 * ms)
    #expect(schedule.begin(now: 200 * ms) == .quick)
    schedule.ended(.quick, began: 200 * ms, now: 210 * ms, completed: true, trusted: true)
    #expect(schedule.due(now: 220 * ms) == 60_100 * ms)
  }

  @Test("W5 an overflow makes the next pass a reading one, at once")
  func overflow() {
    var schedule = started()
    schedule.missedSomething()
    #expect(schedule.due(now: 2 * second) ?? .max <= 2 * second)
    #expect(schedule.begin(now: 2 * second) == .reading)
  }

  @Test("H12 a pass cut short is followed by one that reads every file")
  func cutShort() {
    var schedule = started()
    schedule.changed(at: second)
    let pass = schedule.begin(now: 2 * second)
    schedule.ended(pass, began: 2 * second, now: 3 * second, completed: false, trusted: true)
    #expect(schedule.begin(now: 4 * second) == .reading)
  }

  @Test("W7 without trust a walk runs at ten times its length, within 1 to 60 s; with it, none")
  func untrusted() {
    var schedule = started(trusted: false)
    #expect(schedule.due(now: 200 * ms) == 1100 * ms)
    schedule.ended(.quick, began: 2 * second, now: 2500 * ms, completed: true, trusted: false)
    #expect(schedule.due(now: 3 * second) == 7500 * ms)
    schedule.ended(.quick, began: 10 * second, now: 30 * second, completed: true, trusted: false)
    #expect(schedule.due(now: 31 * second) == 60_100 * ms)
  }

  @Test("F21 what waits on time brings its pass when it is due")
  func reminders() {
    var schedule = started()
    schedule.remind(at: 7 * second)
    #expect(schedule.due(now: second) == 7 * second)
    _ = schedule.begin(now: 7 * second)
    schedule.ended(.quick, began: 7 * second, now: 7 * second, completed: true, trusted: true)
    #expect(schedule.due(now: 8 * second) == 60_100 * ms)
  }

  @Test("a change during a pass belongs to the next one")
  func duringPass() {
    var schedule = started()
    schedule.changed(at: second)
    let pass = schedule.begin(now: 1250 * ms)
    schedule.changed(at: 1260 * ms)
    schedule.ended(pass, began: 1250 * ms, now: 1300 * ms, completed: true, trusted: true)
    #expect(schedule.due(now: 1300 * ms) == 1510 * ms)
  }
}

import FolderSync
import MarfaBase
import Testing
import TestSupport

@Suite struct AgedLogTests {
  @Test("F40.3 a log found aged past the copy by the reads of a drain is met with a fresh hydration in the same push")
  func agedUnderTheDrain() throws {
    let bench = try FolderBench()
    let machine = bench.machine()
    try machine.add(try bench.folder())
    try machine.push()
    // More than are read one by one: the drain catches up after it sent them.
    for number in 0..<8 { try machine.write("New \(number).md", "Words \(number).\n") }
    try bench.item("Between")
    try bench.item("Before")
    bench.clock.advance(seconds: 400 * 86_400)
    try bench.instance.sweep()
    try bench.item("Later")
    let push = try machine.push()
    #expect(push.scan.created == 8)
    #expect(push.catchUp.hydrated != nil)
    let titles = ["Before", "Between", "Later"] + (0..<8).map { "New \($0)" }
    #expect(try bench.titles() == titles)
    #expect(machine.files() == titles.map { "\($0).md" })
    let again = try machine.push()
    #expect(again.drain.drain.answered == 0)
    #expect(again.pull?.written == 0 && again.pull?.rewritten == 0)
  }
}

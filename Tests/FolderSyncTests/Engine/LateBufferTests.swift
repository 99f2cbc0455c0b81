import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// A buffer opened before an edge arrived, saved after.
struct LateBufferTests {
  let bench: FolderBench
  let ana: FolderMachine
  let plan: EntityID
  let source: EntityID

  init() throws {
    bench = try FolderBench()
    let folder = try bench.folder()
    ana = bench.machine("ana")
    try ana.add(folder)
    try ana.write("Plan.md", "one\n")
    try ana.write("Source.md", "two\n")
    try ana.push()
    try ana.push()
    plan = try #require(try bench.ids("Plan").first)
    source = try #require(try bench.ids("Source").first)
  }

  private var derived: Int {
    get throws { try bench.ask("GET", "/edges?edge_type=derived-from")["data"]?.array?.count ?? 0 }
  }

  /// A text without the edge's line.
  private func without(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).filter {
      !$0.hasPrefix("derived-from:") && !$0.contains("[[Source]]")
    }.joined(separator: "\n")
  }

  private func arrive() throws -> (opened: String, shown: String) {
    let opened = try #require(ana.text("Plan.md"))
    try bench.edit(plan, ["title": "Plan", "n": 1])
    try bench.ask(
      "POST", "/edges",
      [
        "source_id": .string(plan.text), "target_id": .string(source.text), "edge_type": "derived-from",
        "properties": [:],
      ])
    try ana.push()
    let shown = try #require(ana.text("Plan.md"))
    #expect(shown.contains("derived-from:") && !opened.contains("derived-from:"))
    return (opened, shown)
  }

  @Test("F11.20 a text opened before an edge's line was written, saved after, does not take the edge out")
  func opened() throws {
    let (opened, _) = try arrive()
    try ana.save("Plan.md", opened + "three\n")
    bench.clock.advance(seconds: 20)
    try ana.push()
    try ana.push()
    #expect(try derived == 1)
    let text = try #require(ana.text("Plan.md"))
    #expect(text.contains("derived-from:") && text.contains("n: 1") && text.hasSuffix("one\nthree\n"))
  }

  @Test("F11.20 the line taken out of the text that showed it takes the edge out")
  func takenOut() throws {
    let (_, shown) = try arrive()
    try ana.save("Plan.md", without(shown))
    bench.clock.advance(seconds: 20)
    try ana.push()
    #expect(try derived == 0)
  }

  @Test("F11.20 an edge a late buffer never carried can be taken out once the person has seen it again")
  func seenAgain() throws {
    let (opened, _) = try arrive()
    try ana.save("Plan.md", opened + "three\n")
    bench.clock.advance(seconds: 20)
    try ana.push()
    try ana.push()
    let shown = try #require(ana.text("Plan.md"))
    #expect(shown.contains("derived-from:"))
    try ana.save("Plan.md", without(shown))
    bench.clock.advance(seconds: 20)
    try ana.push()
    #expect(try derived == 0)
  }
}

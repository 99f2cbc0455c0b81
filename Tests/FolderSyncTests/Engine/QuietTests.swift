import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Passes over a folder in which nothing moves: the short way gives the report of the long one, and anything that moves is
/// met by the pass after it.
struct QuietTests {
  let bench: FolderBench
  let machine: FolderMachine
  let folder: EntityID

  init() throws {
    bench = try FolderBench()
    folder = try bench.folder()
    machine = bench.machine()
    try machine.add(folder)
    try machine.write("One.md", "# One\n\nSee [[Two]].\n")
    try machine.write("Two.md", "# Two\n\nWords.\n")
    try machine.write("left.bin", "bytes")
    try machine.push()
  }

  private func stands() throws -> Bool {
    let engine = try machine.folders.open(machine.root, role: .writer)
    guard
      try engine.store.database.one("SELECT 1 FROM sqlite_master WHERE name = 'quiet'", read: { _ in true }) ?? false
    else { return false }
    return try engine.store.database.one("SELECT 1 FROM quiet WHERE kept", read: { _ in true }) ?? false
  }

  /// Pushes until a pass had nothing to do.
  private func settle() throws -> FolderPush {
    bench.clock.advance(seconds: 10)
    for _ in 0..<6 {
      let push = try machine.push()
      if try stands() { return push }
    }
    Issue.record("no pass was quiet")
    return try machine.push()
  }

  @Test("F49 a pass over a folder where nothing moved reports as the one before it")
  func sameReport() throws {
    let long = try settle()
    let short = try machine.push()
    #expect(try stands())
    #expect(short.scan == long.scan)
    #expect(short.pull == long.pull)
    #expect(short.scan.unchanged == 2 && short.scan.skipped == 1)
  }

  @Test("F49 a file that comes after the scan's walk, in a pass that had nothing to do, is sent by the next")
  func cameMeanwhile() throws {
    _ = try settle()
    do { _ = try machine.folders.open(machine.root, role: .writer).store.database.run("DELETE FROM quiet") }
    bench.transport.before = { request in
      if request.url.contains("/events"), machine.text("Late.md") == nil { try? machine.write("Late.md", "Late.\n") }
      return nil
    }
    let push = try machine.push()
    #expect(push.scan.created == 0 && push.scan.unchanged == 2)
    #expect(machine.text("Late.md") != nil)
    bench.transport.before = nil
    #expect(try machine.push().scan.created == 1)
    #expect(try bench.titles().contains("Late"))
  }

  @Test("F49 after a quiet pass an edit, a new file, a rename and a delete are each met at once")
  func disk() throws {
    _ = try settle()
    try machine.save("One.md", (machine.text("One.md") ?? "") + "More.\n")
    #expect(try machine.push().scan.updated == 1)
    _ = try settle()
    try machine.write("Three.md", "Three.\n")
    #expect(try machine.push().scan.created == 1)
    _ = try settle()
    try machine.rename("Three.md", to: "Four.md")
    #expect(try machine.push().scan.renamed == 1)
    _ = try settle()
    try machine.delete("Four.md")
    #expect(try machine.push().scan.missing == 1)
    machine.grace()
    #expect(try machine.push().scan.deleted == 1)
  }

  @Test("F32 after a quiet pass what another device changed is written at once")
  func server() throws {
    _ = try settle()
    let id = try #require(try bench.ids("Two").first)
    try bench.edit(id, ["body": "Other words.\n"])
    #expect(try machine.push().pull?.rewritten == 1)
    _ = try settle()
    try bench.item("Five")
    #expect(try machine.push().pull?.written == 1)
    _ = try settle()
    try bench.ask("DELETE", "/items/\(id)")
    #expect(try machine.push().pull?.removed == 1)
    #expect(machine.text("Two.md") == nil)
  }
}

import MarfaBase
import Testing
import TestSupport

@testable import MarfaCopy

/// A fill takes several pages in one transaction, and what each row asks of other tables for all of them at once.
@Suite struct FillPageTests {
  @Test(
    "D-S60 a fill cut off goes on behind the last page it read, whatever shared a transaction; nothing is read twice")
  func goesOn() throws {
    let bench = try CopyBench()
    for number in 0..<1450 { try bench.note(Text("Note \(number)")) }
    var pages = 0
    bench.transport.before = { request in
      guard request.url.contains("/items?") else { return nil }
      pages += 1
      return pages == 8 ? .failure(.unreachable("dropped")) : nil
    }
    #expect(bench.refusal { try bench.fill() }?.code == .network)
    #expect(try bench.copy.status().items == 1400)
    #expect(try bench.copy.status().itemsListed == 1400)
    let resumed = try bench.fill()
    #expect(resumed.resumed && resumed.items == 1450 && pages == 9)
    #expect(try bench.copy.search("Note").count > 0)
    #expect(try bench.database.one("SELECT count(*) FROM item_text") { $0.int(0) } == 1450)
  }

  @Test("rows a fill brings are searched, filtered and no longer known as purged, beside rows held before")
  func wakes() throws {
    let bench = try CopyBench()
    let old = try bench.note("Old harbour")
    try bench.fill()
    #expect(try bench.copy.search("harbour").count == 1)
    let new = try bench.note("New harbour")
    let gone = bench.context.ids.next()
    try bench.database.run("INSERT INTO purged (item) VALUES (?), (?)", new, gone)
    try bench.fill()
    #expect(try bench.copy.search("harbour").count == 2)
    #expect(try !bench.copy.isPurged(new))
    #expect(try bench.copy.isPurged(gone))
    var query = ListQuery()
    query.filter = "properties.title eq \"New harbour\""
    #expect(try bench.copy.list(query).map(\.id) == [new])
    #expect(try bench.copy.item(old)?.version == 1)
    // A catch-up does the same, of rows it makes and rows it takes away.
    let third = try bench.note("Third harbour")
    try bench.database.run("INSERT INTO purged (item) VALUES (?)", third)
    try bench.ask("DELETE", "/items/\(new)?version=1")
    try bench.ask("POST", "/items/\(new)/purge?version=1")
    try bench.copy.catchUp()
    #expect(try Set(bench.held()) == ["Old harbour", "Third harbour"])
    #expect(try bench.copy.search("harbour").count == 2)
    #expect(try !bench.copy.isPurged(third) && bench.copy.isPurged(new))
  }

  @Test("Q64 the edges between two items are looked up by their source, not among all a folder has")
  func plan() throws {
    let bench = try CopyBench()
    let plan = try bench.database.all("EXPLAIN QUERY PLAN SELECT id FROM edge WHERE \(Store.between)", "a", "b", "c") {
      $0.string(3)
    }
    #expect(plan.contains { $0.contains("USING INDEX edge_from") })
    #expect(!plan.contains { $0.contains("edge_to") })
  }

  @Test("what this device wrote itself comes back in a catch-up and changes nothing")
  func echo() throws {
    let bench = try CopyBench()
    try bench.fill()
    for number in 0..<3 {
      _ = try bench.copy.queue.createItem(
        ItemDraft(type: "core.note", properties: JSONObject([("title", .string("Mine \(number)")), ("body", "text")])))
    }
    _ = try bench.copy.queue.drain()
    let before = try bench.copy.list(ListQuery())
    try bench.note("Theirs")
    let report = try bench.copy.catchUp()
    #expect(report.applied == 4 && report.skipped == 0)
    #expect(try bench.copy.list(ListQuery()).filter { $0.properties["title"]?.text != "Theirs" } == before)
  }
}

import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite struct HydrateTests {
  @Test("D-S2 D-S3 a fill holds its tier alone, both with all, and library again")
  func tiers() throws {
    let bench = try CopyBench()
    let kept = try bench.note("Kept")
    let fed = try bench.note("Fed", tier: "feed")
    try bench.fill()
    #expect(try bench.copy.item(kept) != nil)
    #expect(try bench.copy.item(fed) == nil)
    try bench.fill(tier: "all")
    #expect(try bench.copy.item(fed)?.tier == "feed")
    #expect(try bench.copy.item(kept) != nil)
    try bench.fill()
    #expect(try bench.copy.item(fed) == nil)
    #expect(try bench.copy.item(kept) != nil)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S4 an edge type held whole is read from either end, its rows outside the slice")
  func wholeEdges() throws {
    let bench = try CopyBench()
    let parent = try bench.note("Parent", tier: "feed")
    let child = try bench.note("Child", tier: "feed")
    let edge = try bench.edge("parent-of", parent, child)
    let report = try bench.fill()
    #expect(report.slice.edgeTypes == ["parent-of"])
    #expect(try bench.copy.item(parent) == nil)
    #expect(try bench.copy.edges(from: parent).map(\.id) == [edge])
    #expect(try bench.copy.edges(to: child, type: "parent-of").map(\.id) == [edge])
  }

  @Test("D-S42 a fresh store reports never, and D-S48 what no fill can declare is refused unasked")
  func fresh() throws {
    let bench = try CopyBench()
    let status = try bench.copy.status()
    #expect(status.hydration == .never)
    #expect(status.slice == nil && status.eventCursor == nil && status.serverOrigin == nil)
    #expect(status.items == 0 && status.edges == 0)
    #expect(bench.refusal { try bench.fill([]) }?.code == .invalid)
    #expect(bench.refusal { try bench.fill(["*", "core.note"]) }?.code == .invalid)
    #expect(bench.transport.requests.isEmpty)
    try bench.fill(["*", "system.folder"])
    #expect(try bench.copy.status().slice?.typeList == ["*", "system.folder"])
  }

  @Test(
    "D-S49 names outside the type grammar are refused before anything is read",
    arguments: [
      "bookmark", "app.notes", "keys.thing", "Bad.*", ".*", "core..*",
    ] as [Text])
  func grammar(_ type: Text) throws {
    let bench = try CopyBench()
    let refusal = bench.refusal { try bench.fill([type]) }
    #expect(refusal?.code == .invalid)
    #expect(refusal?.message.contains(type.string) == true)
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("D-S50 a type or an edge type the catalog lacks is refused by name, the copy kept")
  func unknown() throws {
    let bench = try CopyBench()
    let note = try bench.note("Kept")
    try bench.fill()
    bench.transport.clear()
    #expect(bench.refusal { try bench.fill(["acme.thing"]) }?.code == .unknownType)
    #expect(bench.refusal { try bench.fill(edges: ["no-such"]) }?.code == .unknownType)
    #expect(!bench.transport.requests.contains { $0.hasPrefix("GET /items") })
    #expect(try bench.copy.item(note) != nil)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S53 the head is read before the first listing, and a write made in between is held")
  func headFirst() throws {
    let bench = try CopyBench()
    try bench.note("First")
    var between: EntityID?
    bench.transport.before = { request in
      if request.url.contains("/items?"), between == nil { between = try? bench.note("Between") }
      return nil
    }
    try bench.fill()
    let head = try #require(bench.transport.requests.firstIndex { $0.contains("/events") })
    let page = try #require(bench.transport.requests.firstIndex { $0.contains("/items?") })
    #expect(head < page)
    let id = try #require(between)
    #expect(try bench.copy.item(id)?.properties["title"]?.text == "Between")
  }

  @Test("D-S59 the report equals the status")
  func report() throws {
    let bench = try CopyBench()
    let one = try bench.note("One")
    let two = try bench.note("Two")
    try bench.edge("references", one, two)
    let report = try bench.fill()
    let status = try bench.copy.status()
    #expect(report.items == 2 && report.edges == 1 && report.pages == 2)
    #expect(status.items == 2 && status.edges == 1)
    #expect(status.itemsListed == 2 && status.itemsExpected == 2)
    #expect(status.eventCursor == report.cursor)
    #expect(try bench.copy.edges(from: one).map(\.target) == [two])
  }

  @Test("D-S60 a fill dropped after its first page goes on from the second, or says why it began again")
  func resumes() throws {
    let bench = try CopyBench()
    for number in 0..<450 { try bench.note(Text("Note \(number)")) }
    var pages = 0
    bench.transport.before = { request in
      guard request.url.contains("/items?") else { return nil }
      pages += 1
      return pages == 2 ? .failure(.unreachable("dropped")) : nil
    }
    #expect(bench.refusal { try bench.fill() }?.code == .network)
    #expect(try bench.copy.hydration() == .inProgress)
    #expect(try bench.copy.status().items == 200)
    let resumed = try bench.fill()
    #expect(resumed.resumed && resumed.restarted == nil)
    #expect(resumed.items == 450)
    #expect(pages == 4)

    pages = 0
    #expect(bench.refusal { try bench.fill(tier: "all") }?.code == .network)
    let again = try bench.fill()
    #expect(!again.resumed && again.restarted == "slice_changed")
    #expect(again.items == 450)
  }

  @Test("D-S58 another slice replaces the first")
  func replaces() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    let bookmark = try bench.note("Mark", type: "core.bookmark")
    try bench.fill()
    try bench.fill(["core.bookmark"])
    #expect(try bench.copy.item(note) == nil)
    #expect(try bench.copy.item(bookmark) != nil)
    #expect(try bench.copy.status().slice?.typeList == ["core.bookmark"])
  }

  @Test("D-S57 a replay that ends before its live marker is no complete fill, and goes on at the next")
  func noMarker() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    var streams = 0
    bench.transport.pieces = { request, bytes in
      streams += 1
      return streams == 2 ? nil : bytes
    }
    #expect(bench.refusal { try bench.fill() }?.code == .streamIncomplete)
    #expect(try bench.copy.hydration() == .inProgress)
    bench.transport.pieces = nil
    #expect(try bench.fill().resumed)
    #expect(try bench.copy.hydration() == .complete)
  }

  @Test("D-S62 a stale copy is filled over in place; a row purged meanwhile is gone at the end")
  func inPlace() throws {
    let bench = try CopyBench()
    let kept = try bench.note("Kept")
    let purged = try bench.note("Purged")
    try bench.fill()
    try bench.ask("DELETE", "/items/\(purged)?version=1")
    try bench.ask("POST", "/items/\(purged)/purge?version=1")
    try bench.note("Later")
    // The log lets the cursor go.
    bench.clock.advance(seconds: 3600 * 24 * 400)
    try bench.instance.sweep()
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "catchup_too_old")
    #expect(try bench.copy.hydration() == .stale)
    #expect(try bench.copy.item(purged) != nil)
    let report = try bench.fill()
    #expect(report.inPlace)
    #expect(try bench.copy.item(purged) == nil)
    #expect(try bench.copy.item(kept) != nil)
    #expect(try bench.copy.status().items == 2)
  }

  @Test("D-S24 the same instance at another address moves the store; another one is refused, only its root read")
  func addresses() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    try bench.reopen(baseURL: "http://elsewhere.test")
    try bench.copy.catchUp()
    #expect(try bench.copy.status().serverOrigin == "http://elsewhere.test")
    let other = try CopyBench(seed: 9)
    bench.transport.handle = { other.instance.handle($0) }
    try bench.reopen(baseURL: "http://third.test")
    bench.transport.clear()
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .wrongServer)
    #expect(bench.transport.requests == ["GET /"])
    #expect(try bench.copy.hydration() == .complete)
  }
}

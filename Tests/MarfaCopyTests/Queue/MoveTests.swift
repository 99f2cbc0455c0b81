import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Moves of rows between types and tiers, and of an edge's ends (Q44, Q54).
@Suite struct QueueMoveTests {
  @Test("Q-S146 a waiting move still shows over a catch-up and over an answer ahead")
  func stillShown() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let ahead = try bench.edit(id, ["title": "B"])
    let move = try bench.queue.updateItem(id, ItemEdit(version: 1, type: "core.task", tier: "feed"))
    func expectMoved() throws {
      #expect(try bench.copy.item(id)?.type == "core.task")
      #expect(try bench.copy.item(id)?.tier == "feed")
    }
    try expectMoved()
    try bench.theirs(id, ["notes": "theirs"])
    try bench.copy.catchUp()
    try expectMoved()
    #expect(try bench.copy.item(id)?.properties["notes"] == "theirs")
    bench.on("PATCH", holding: "retype", .drop)
    try bench.drain()
    #expect(try bench.verdict(ahead)?.isSuccess == true)
    #expect(try bench.verdict(move) == nil)
    try expectMoved()
    #expect(try bench.copy.serverItem(id)?.type == "core.note")
  }

  @Test("Q-S147 a move out of the slice lets the row go, edges held whole stay; a pinned row stays, a refused move too")
  func movedOut() throws {
    let bench = try QueueBench(["core.note"], tier: "library", edges: ["parent-of"])
    let (one, two, three) = (try bench.held("A"), try bench.held("B"), try bench.held("C"))
    let whole = try bench.heldEdge("parent-of", one, two)
    let drawn = try bench.heldEdge("references", one, two)
    try bench.queue.updateItem(one, ItemEdit(version: 1, tier: "feed"))
    try bench.copy.pin(three, owner: "test")
    try bench.queue.updateItem(three, ItemEdit(version: 1, tier: "feed"))
    #expect(try bench.drain().answered == 2)
    #expect(try bench.copy.item(one) == nil)
    #expect(try bench.copy.edge(whole) != nil)
    #expect(try bench.copy.edge(drawn) == nil)
    #expect(try bench.copy.item(three)?.tier == "feed")

    // A refused move read back: outside the row goes, inside it stays.
    let four = try bench.held("D")
    let five = try bench.held("E")
    for id in [four, five] { try bench.queue.updateItem(id, ItemEdit(version: 1, tier: "feed")) }
    bench.on("PATCH", .answer(400, refusing("validation_error")))
    try bench.bench.ask("PATCH", "/items/\(four)", ["version": 1, "tier": "feed"])
    try bench.drain()
    #expect(try bench.copy.item(four) == nil)
    #expect(try bench.copy.item(five)?.tier == "library")
  }

  @Test("Q-S148 behind a move that let the row go neither the answer nor the refusal of an edit holds it again")
  func staysOut() throws {
    for refused in [false, true] {
      let bench = try QueueBench(["core.note"], tier: "library", edges: [])
      let id = try bench.held("A")
      try bench.queue.updateItem(id, ItemEdit(version: 1, tier: "feed"))
      let edit = try bench.edit(id, ["title": "B"])
      if refused { bench.on("PATCH", holding: #""B""#, .answer(400, refusing("validation_error"))) }
      try bench.drain()
      #expect(try bench.verdict(edit) == (refused ? .refused : .accepted))
      #expect(try bench.copy.item(id) == nil)
      #expect(try bench.served(id)["tier"] == "feed")
      try bench.copy.catchUp()
      #expect(try bench.copy.item(id) == nil)
    }
  }

  @Test("Q-S149 an edit of a row held outside the slice leaves it held")
  func heldOutside() throws {
    let bench = try QueueBench(["core.note"], tier: "library", edges: [])
    let made = try bench.bench.ask(
      "POST", "/items", ["type": "core.note", "tier": "feed", "properties": ["title": "A", "body": "x"]])
    let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
    try bench.copy.pin(id, owner: "test")
    try bench.edit(id, ["title": "B"])
    #expect(try bench.drain().answered == 1)
    #expect(try bench.copy.item(id)?.version == 2)
    #expect(try bench.title(id) == "B")
  }

  @Test("Q-S106 a move that collides is blocked conflict_unresolved and goes on showing")
  func collides() throws {
    let bench = try QueueBench()
    let id = try bench.held("A")
    let move = try bench.queue.updateItem(
      id, ItemEdit(properties: ["title": "mine"], version: 1, type: "core.task"))
    try bench.theirs(id, ["title": "theirs"])
    try bench.drain()
    #expect(try bench.write(move.id).blockedReason == .conflictUnresolved)
    #expect(try bench.copy.item(id)?.type == "core.task")
    #expect(try bench.title(id) == "mine")
    #expect(try bench.served(id)["type"] == "core.note")
    #expect(try bench.served(id)["properties"]?["title"] == "theirs")
    bench.clear()
    try bench.drain()
    #expect(bench.writes.isEmpty)
  }

  @Test("Q-S150 an edge's move goes as one update, shown at both ends; a circle brings it back; a moved source expires")
  func edgeMove() throws {
    let bench = try QueueBench(["core.note"], tier: "library", edges: ["parent-of"])
    let ids = try ["P", "C", "N"].map { try bench.held(Text($0)) }
    let (old, child, new) = (ids[0], ids[1], ids[2])
    let edge = try bench.heldEdge("parent-of", old, child)
    let ahead = try #require(try bench.queue.updateEdge(edge, version: 1, properties: ["why": "b"]))
    let move = try #require(try bench.queue.updateEdge(edge, version: 1, source: new))
    #expect(move.body == ["version": 1, "source_id": .string(new.text)])
    func expectMoved() throws {
      #expect(try bench.copy.edges(from: new).map(\.id) == [edge])
      #expect(try bench.copy.edges(from: old).isEmpty)
      #expect(try bench.copy.edges(to: child).map(\.source) == [new])
    }
    try expectMoved()
    // Another device touches the edge; the move shows over that and over the answer ahead.
    try bench.theirEdge(edge, ["other": "x"])
    try bench.copy.catchUp()
    try expectMoved()
    #expect(try bench.copy.edge(edge)?.properties["other"] == "x")
    bench.on("PATCH", holding: #""why""#, .answer(400, refusing("validation_error")))
    bench.on("PATCH", holding: "source_id", .drop)
    try bench.drain()
    #expect(try bench.verdict(ahead) == .refused)
    try expectMoved()
    bench.heal()
    try bench.queue.discard(ahead.id)
    // Stale by their edit: blocked; withdrawn, it is made again on what is held, and lands.
    try bench.drain()
    #expect(try bench.queue.withdraw(move.id))
    #expect(try bench.copy.edges(from: old).map(\.id) == [edge])
    let again = try #require(try bench.queue.updateEdge(edge, version: 2, source: new))
    let behind = try bench.edit(child, ["title": "D"])
    bench.clear()
    let error = bench.bench.refusal { try bench.drain() }
    #expect(error?.code == .copyExpired)
    #expect(error?.reason == "read_view_changed")
    #expect(bench.writes.map(\.method) == ["PATCH", "PATCH"])
    #expect(try bench.verdict(again) == .accepted)
    #expect(try bench.verdict(behind) == .accepted)
    #expect(bench.bench.refusal { try bench.drain() }?.code == .copyExpired)

    // A move that would close a circle by what another device did meanwhile comes back to its old end.
    try bench.fill(["core.note"], tier: "library", edges: ["parent-of"])
    let top = try bench.held("T")
    let loop = try bench.heldEdge("parent-of", top, new)
    let circle = try #require(try bench.queue.updateEdge(edge, version: 3, source: top))
    bench.on("PATCH", .answer(400, refusing("edge_cycle")))
    try bench.drain()
    #expect(try bench.verdict(circle) == .refused)
    #expect(try bench.copy.edge(edge)?.source == new)
    #expect(try bench.copy.edge(loop)?.source == top)
  }

  @Test("Q-S150 Q54.6 a moved target leaves the copy current; a pass that left something returns its report first")
  func targetMove() throws {
    let bench = try QueueBench(["core.note"], tier: "library", edges: ["parent-of", "in-thread"])
    let ids = try ["A", "B", "C"].map { try bench.held(Text($0)) }
    let edge = try bench.heldEdge("in-thread", ids[0], ids[1])
    try bench.queue.updateEdge(edge, version: 1, target: ids[2])
    #expect(try bench.drain().answered == 1)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.edge(edge)?.target == ids[2])

    let parent = try bench.heldEdge("parent-of", ids[0], ids[1])
    try bench.queue.updateEdge(parent, version: 1, source: ids[2])
    let left = try bench.edit(ids[0], ["title": "left"])
    bench.on("PATCH", holding: "left", .drop)
    let report = try bench.drain()
    #expect(report.answered == 1)
    #expect(report.undelivered == 1)
    #expect(try bench.verdict(left) == nil)
    #expect(bench.bench.refusal { try bench.drain() }?.reason == "read_view_changed")
  }

  @Test(
    "Q-S151 a move onto an own create waits and names the row it landed on; refused onto a row not found, it is held")
  func moveOntoCreate() throws {
    for (version, found) in [(nil, true), (0, true), (0, false)] as [(Int?, Bool)] {
      let bench = try QueueBench(["*"], tier: "all", edges: ["in-thread"])
      let (one, two) = (try bench.held("A"), try bench.held("B"))
      let edge = try bench.heldEdge("in-thread", one, two)
      let row = try bench.theirNote("K", key: "k")
      let create = try bench.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k", version: version))
      let minted = try #require(create.itemID)
      let move = try #require(try bench.queue.updateEdge(edge, version: 1, target: minted))
      #expect(move.dependsOn == [create.id])
      #expect(try bench.copy.edge(edge)?.target == minted)
      if !found { bench.on("GET", "/items/\(row)", .answer(404, refusing("item_not_found"))) }
      bench.clear()
      let report = try bench.drain()
      #expect(try bench.verdict(create) == (version == nil ? .accepted : .refused))
      if found {
        #expect(try bench.verdict(move) == .accepted)
        #expect(bench.writes.last?.json?["target_id"]?.text == row.text)
        #expect(try bench.copy.serverEdge(edge)?.target == row)
      } else {
        #expect(report.held == 1)
        #expect(try bench.write(move.id).isHeld)
        #expect(bench.writes.count == 1)
        bench.heal()
        try bench.drain()
        #expect(try bench.verdict(move) == .accepted)
        #expect(try bench.copy.serverEdge(edge)?.target == row)
      }
    }
  }
}

import LocalInstance
import MarfaBase
import Testing

@Suite("Bulk writes and bulk actions")
struct BulkTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  func note(_ body: String, _ more: JSON = [:]) -> JSON {
    let fixed: JSON = ["type": "core.note", "properties": ["body": string(body)]]
    var entry = fixed.object ?? JSONObject()
    for (name, value) in more.object?.members ?? [] { entry[name] = value }
    return .object(entry)
  }

  func act(_ body: JSON, key: String? = nil, under name: String? = nil) -> Answer {
    bench.send("POST", "/items/bulk-actions", body, key: key, headers: name.map(under) ?? [])
  }

  func under(_ name: String) -> [HTTPHeader] { [HTTPHeader("Idempotency-Key", name)] }

  @Test("I-S117 a page of everything, under each mode and atomic value")
  func pages() throws {
    let live = bench.noteID("live", ["source_id": "live"])
    let byID = bench.noteID("by id")
    let binned = bench.noteID("binned", ["source_id": "binned"])
    expect(bench.delete(binned), 200)
    let task = bench.create("core.task", ["title": "task"], ["source_id": "task"]).id
    let stale = bench.noteID("stale", ["source_id": "stale"])
    expect(bench.patch(stale, 1, ["properties": ["body": "moved on"]]), 200)
    let entries: [JSON] = [
      note("new"), note("again", ["source_id": "live"]), note("again", ["id": string(byID)]),
      note("again", ["source_id": "binned"]), note("again", ["id": string(binned)]),
      note("other type", ["source_id": "task"]), note("other type", ["id": string(task)]),
      note("collides", ["source_id": "stale", "version": 1]), note("thinned", ["source_id": "stale", "version": 0]),
      ["type": "core.note", "properties": [:]], ["type": "acme.none", "properties": [:]], 7,
      note("first", ["source_id": "n"]),
      note("second", ["source_id": "n"]),
    ]
    let loose = bench.bulk(.array(entries), ["atomic": false])
    expect(loose, 200)
    #expect(
      loose.outcomes == [
        "created", "updated", "skipped", "skipped", "skipped", "errored", "errored", "errored", "errored", "errored",
        "errored", "errored", "created", "updated",
      ])
    #expect(loose.json["counts"] == ["created": 2, "updated": 2, "skipped": 3, "errored": 7])
    let results = loose.json["results"]?.array ?? []
    #expect(results.map { $0["index"]?.int } == Array(0..<14))
    #expect(results.map { $0["reason"]?.text?.string }[2...4] == ["duplicate_id", "trashed", "trashed"])
    #expect(results.count { $0["reason"] != nil } == 3)
    #expect(
      results.map { $0["error"]?["code"]?.text?.string }[5...11] == [
        "type_mismatch", "id_reused", "version_conflict", "ancestor_unavailable", "invalid_properties", "unknown_type",
        "validation_error",
      ])
    #expect(results[7]["error"]?.object?.keys == ["code", "message"])
    #expect(results[8]["error"]?.object?.keys == ["code", "message"])
    #expect(results[6]["error"]?["details"]?["differs"] == ["type"])
    #expect(results[1]["id"]?.text == Text(live) && results[2]["id"]?.text == Text(byID))
    #expect(results[12]["id"] == results[13]["id"])
    #expect(bench.read(live).version == 2 && bench.read(byID).properties == ["body": "by id"])
    #expect(bench.state(binned) == "trashed")

    let only = bench.bulk(.array(entries), ["atomic": false, "mode": "create_only"])
    #expect(
      only.outcomes == [
        "created", "skipped", "skipped", "skipped", "skipped", "skipped", "errored", "skipped", "skipped", "errored",
        "errored", "errored", "skipped", "skipped",
      ])
    let reasons = (only.json["results"]?.array ?? []).map { $0["reason"]?.text?.string }
    #expect(reasons[1] == "duplicate_source" && reasons[5] == "duplicate_source" && reasons[7] == "duplicate_source")
    #expect(reasons[2] == "duplicate_id" && reasons[3] == "trashed")
    #expect(bench.read(live).version == 2)

    // Atomic: each refusal takes the page back, at its own status.
    let count = bench.count()
    let events = bench.events().count
    for (place, status, code) in [
      (5, 409, "type_mismatch"), (6, 409, "id_reused"), (7, 409, "version_conflict"), (8, 409, "ancestor_unavailable"),
      (9, 400, "invalid_properties"), (10, 400, "unknown_type"), (11, 400, "validation_error"),
    ] {
      let page = bench.bulk([entries[0], entries[1], entries[place], entries[0]])
      expect(page, status, "bulk_atomic_rollback")
      #expect(page.details?["code"]?.text == Text(code) && page.details?["index"]?.int == 2)
    }
    // Grants and sources of every entry are asked before the first is written or found wrong.
    let gated = bench.bulk([entries[9], note("x", ["source": "z"])])
    expect(gated, 403, "bulk_atomic_rollback")
    #expect(gated.details?["index"]?.int == 1 && gated.details?["code"]?.text == "forbidden")
    #expect(bench.count() == count && bench.events().count == events)
    let whole = bench.bulk(.array(Array(entries[0...4])))
    #expect(whole.outcomes == ["created", "updated", "skipped", "skipped", "skipped"])
    #expect(
      bench.bulk([]).json == ["counts": ["created": 0, "updated": 0, "skipped": 0, "errored": 0], "results": []])
  }

  @Test("I-S118 5,001 entries and more than 16 MiB are refused")
  func caps() {
    let many = bench.bulk(.array(Array(repeating: 1, count: 5001)))
    expect(many, 400, "validation_error")
    #expect(many.details == ["cap": 5000, "provided": 5001])
    let large = [UInt8](repeating: UInt8(ascii: " "), count: 16_777_217)
    let json = [HTTPHeader("Content-Type", "application/json")]
    expect(bench.send("POST", "/items/bulk", headers: json, raw: large), 413, "request_too_large")
    expect(bench.bulk([], ["mode": "merge"]), 400, "validation_error")
    let unknown = bench.bulk([], ["other": 1])
    expect(unknown, 400, "validation_error")
    #expect(unknown.details?["unknown_body_fields"] == ["other"])
    expect(bench.send("POST", "/items/bulk", [:]), 400, "missing_required_field")
    expect(bench.send("POST", "/items/bulk", ["items": "x"]), 400, "validation_error")
  }

  @Test("ER-S16 a body of 1,048,577 bytes is refused, a bulk body of that size accepted")
  func sizes() {
    let json = [HTTPHeader("Content-Type", "application/json")]
    func padded(_ body: JSON, _ size: Int) -> [UInt8] {
      let text = body.write()
      return text + [UInt8](repeating: UInt8(ascii: " "), count: size - text.count)
    }
    expect(bench.send("POST", "/items", headers: json, raw: padded(note("a"), 1_048_577)), 413, "request_too_large")
    expect(bench.send("POST", "/items", headers: json, raw: padded(note("a"), 1_048_576)), 201)
    expect(bench.send("POST", "/items/bulk", headers: json, raw: padded(["items": [note("a")]], 1_048_577)), 200)
    expect(bench.send("POST", "/edges/bulk", headers: json, raw: padded(["edges": []], 1_048_577)), 200)
  }

  @Test(
    "I-S119 a bulk write, with enable_fanout or without, reaches a catch-up row by row; no webhook exists to be called")
  func announced() throws {
    let copyTarget = "/events?copy=1&edges=all"
    let head = bench.send("GET", copyTarget)
    let marker = try #require(head.frames().first?.data)
    let view = try #require(marker["read_view"]?.text?.string)
    let cursor = marker["cursor"]?.text?.string ?? "0"
    head.source?.close()
    let before = try bench.head()
    let made = try (0..<2).flatMap { turn -> [String] in
      let page = bench.bulk(
        .array((0..<250).map { note("row \(turn) \($0)") }), ["enable_fanout": .bool(turn == 0)])
      expect(page, 200)
      return try (page.json["results"]?.array ?? []).map { try #require($0["id"]?.text?.string) }
    }
    #expect(made.count == 500)
    let caughtUp = bench.events(after: before)
    #expect(caughtUp.map(\.kind) == Array(repeating: "item.created", count: 500))
    #expect(caughtUp.map { $0.data["item"]?["id"]?.text?.string } == made)
    // A copy's catch-up too.
    let copied = bench.send(
      "GET", copyTarget, headers: [HTTPHeader("Last-Event-ID", cursor), HTTPHeader("X-Marfa-Read-View", view)])
    defer { copied.source?.close() }
    let rows = Set(copied.frames().compactMap { $0.data["item"]?["id"]?.text?.string })
    #expect(Set(made).isSubset(of: rows))
    for fanout in [true, false] {
      let events = bench.announced {
        expect(bench.bulk([note("a"), note("b")], ["enable_fanout": .bool(fanout)]), 200)
      }
      #expect(events.map(\.kind) == ["item.created", "item.created"])
    }
  }

  @Test("I-S120 each bulk action, a dry run, the caps, undeclared keys, own-time bounds, expected ids")
  func actions() throws {
    let ids = (0..<4).map {
      bench.noteID("\($0)", ["occurred_at": string("2026-01-0\($0 + 1)"), "tags": [string("t\($0)")]])
    }
    // The bounds of own time are both exclusive.
    let bounded = act([
      "action": "update_tier", "tier": "feed", "dry_run": true,
      "filter": ["occurred_after": "2026-01-01", "occurred_before": "2026-01-04"],
    ])
    expect(bounded, 200)
    #expect(bounded.json == ["matched": 2, "ids": [string(ids[1]), string(ids[2])]])
    #expect(bench.events().count == 4)
    func run(_ body: JSON) -> JSON { bench.act(body) }
    #expect(run(["action": "update_tier", "tier": "feed", "filter": ["tags": "t1"]])["succeeded"]?.int == 1)
    #expect(bench.read(ids[1]).item["tier"]?.text == "feed")
    #expect(
      run(["action": "update_tags", "add": ["x"], "remove": ["t0"], "filter": ["tags": "t0"]])["succeeded"]?.int == 1)
    #expect(bench.read(ids[0]).tags == ["x"])
    let titled: JSON = ["action": "update_properties", "properties": ["title": "T"], "filter": ["type": "core.note"]]
    #expect(run(titled)["succeeded"]?.int == 4)
    #expect(ids.allSatisfy { bench.read($0).properties["title"]?.text == "T" })
    let dated = run([
      "action": "update_occurred_at", "occurred_at": "2026-05-05T01:00:00+01:00", "filter": ["tags": ["t2"]],
    ])
    #expect(dated["succeeded"]?.int == 1)
    #expect(bench.read(ids[2]).item["occurred_at"]?.text == "2026-05-05T00:00:00.000Z")
    #expect(run(["action": "transition", "state": "archived", "filter": ["tags": "t3"]])["succeeded"]?.int == 1)
    #expect(bench.state(ids[3]) == "archived")
    for id in ids.prefix(2) { expect(bench.delete(id), 200) }
    // A purge: confirmed, of what is in the bin alone, and of what was expected alone.
    let any: JSON = ["type": "core.note", "state": "any"]
    expect(act(["action": "purge", "filter": any]), 400, "bulk_confirmation_required")
    expect(act(["action": "purge", "filter": any, "confirm": "purge"]), 400, "bulk_confirmation_required")
    #expect(act(["action": "purge", "filter": ["state": "trashed"], "dry_run": true]).json["matched"]?.int == 2)
    let expected = run([
      "action": "purge", "filter": any, "confirm": "PURGE", "expected_ids": [string(ids[0]), string(ids[2])],
    ])
    #expect(expected["succeeded"]?.int == 1 && expected["failed"]?.int == 1)
    #expect(expected["errors"]?.array?.first?["code"]?.text == "invalid_transition")
    #expect(ids.map { bench.state($0) } == [nil, "trashed", "active", "archived"])
    expect(act(["action": "purge", "filter": any, "confirm": "PURGE", "expected_ids": []]), 400, "validation_error")
    expect(act(["action": "update_tier", "tier": "feed", "filter": any, "expected_ids": [string(ids[2])]]), 400)
    let weak = try bench.mint("weak")
    for body in [
      ["action": "purge", "filter": any, "confirm": "PURGE"], ["action": "purge", "filter": any, "dry_run": true],
    ] as [JSON] {
      let refused = act(body, key: weak.token)
      expect(refused, 403, "forbidden")
      #expect(refused.details == ["required_scope": "items.purge"])
    }
    // Caps and undeclared keys.
    let capped = act(["action": "update_tier", "tier": "feed", "filter": any, "max_items": 2])
    expect(capped, 400, "bulk_cap_exceeded")
    for bad in [0, 50_001] {
      expect(
        act(["action": "update_tier", "tier": "feed", "filter": any, "max_items": .int(bad)]), 400, "validation_error")
    }
    expect(act(["action": "update_tier", "tier": "feed", "filter": any, "max_items": 50_000, "dry_run": true]), 200)
    let body = act(["action": "update_tier", "tier": "feed", "filter": any, "other": 1])
    expect(body, 400, "validation_error")
    #expect(body.details?["unknown_body_fields"] == ["other"])
    let filter = act(["action": "update_tier", "tier": "feed", "filter": ["colour": "red"]])
    expect(filter, 400, "validation_error")
    #expect(filter.details?["unknown_filter_fields"] == ["colour"])
    let empty = act(["action": "update_tier", "tier": "feed", "filter": ["tags": " "]])
    expect(empty, 400, "validation_error")
    #expect(empty.path == "filter.tags" && empty.details?["empty_parameters"] == ["filter.tags"])
    expect(act(["action": "explode", "filter": any]), 400, "validation_error")
    expect(act(["action": "transition", "state": "revoked", "filter": any]), 400, "validation_error")
    let unregistered = act(["action": "update_tier", "tier": "feed", "filter": ["type": "acme.gone"], "dry_run": true])
    #expect(unregistered.json["matched"]?.int == 0)
  }

  @Test("10,000 rows are the cap where none is named")
  func standardCap() throws {
    for _ in 0..<2 {
      let page = bench.bulk(.array(Array(repeating: note("a"), count: 5000)))
      #expect(page.json["counts"]?["created"]?.int == 5000)
    }
    let body: JSON = ["action": "update_tier", "tier": "feed", "filter": [:], "dry_run": true]
    #expect(act(body).json["matched"]?.int == 10_000)
    expect(bench.bulk([note("a")]), 200)
    expect(act(body), 400, "bulk_cap_exceeded")
  }

  @Test("I-S121 a job is read and canceled by its own credential, a refreshed token included, or with the permission")
  func jobs() throws {
    let id = bench.noteID()
    let body: JSON = ["action": "update_tier", "tier": "feed", "filter": [:]]
    let owner = try bench.mint("owner")
    let started = act(body, key: owner.token)
    expect(started, 202)
    let job = started.json["job"]?["id"]?.text?.string ?? ""
    #expect(started.json["job"]?["status"]?.text == "queued")
    func read(_ job: String, _ key: String) -> Answer {
      bench.send("GET", "/items/bulk-actions/jobs/\(job)", key: key)
    }
    func cancel(_ job: String, _ key: String) -> Answer {
      bench.send("POST", "/items/bulk-actions/jobs/\(job)/cancel", key: key)
    }
    #expect(read(job, owner.token).json == started.json)
    let other = try bench.mint("other")
    #expect(read(job, other.token).details == ["required_scope": "instance.read"])
    expect(read(job, other.token), 403, "forbidden")
    #expect(cancel(job, other.token).details == ["required_scope": "instance.maintain"])
    expect(cancel(job, other.token), 403, "forbidden")
    expect(read(job, try bench.mint("reader", permissions: ["instance.read"]).token), 200)
    let none = bench.ids.next().description
    expect(read(none, owner.token), 404, "bulk_job_not_found")
    expect(cancel(none, owner.token), 404, "bulk_job_not_found")
    let canceled = cancel(job, owner.token)
    expect(canceled, 200)
    #expect(canceled.json["job"]?["status"]?.text == "canceled")
    bench.instance.tick()
    #expect(bench.read(id).item["tier"]?.text == "library")
    // A second job, worked off: canceling it answers it unchanged.
    let second = act(body, key: owner.token)
    let ended = bench.finish(second, key: owner.token)
    #expect(ended["status"]?.text == "completed" && ended["succeeded"]?.int == 1)
    let late = cancel(ended["id"]?.text?.string ?? "", try bench.mint("m", permissions: ["instance.maintain"]).token)
    #expect(late.status == 200 && late.json["job"] == ended)
    // An app's, by a refreshed token of the same grant.
    let app = SignedIn(bench)
    let own = act(body, key: app.access)
    expect(own, 202)
    let fresh = app.refreshed()
    let ownJob = own.json["job"]?["id"]?.text?.string ?? ""
    expect(read(ownJob, fresh), 200)
    #expect(cancel(ownJob, fresh).json["job"]?["status"]?.text == "canceled")
  }

  @Test("a bulk job works in batches, judged by what its credential may do when it runs")
  func batches() throws {
    let key = try bench.mint("k", types: ["core.note": "write"])
    expect(bench.bulk(.array(Array(repeating: note("a"), count: 1200))), 200)
    let started = act(["action": "update_tier", "tier": "feed", "filter": [:]], key: key.token)
    expect(started, 202)
    bench.instance.tick()
    let path = "/items/bulk-actions/jobs/\(started.json["job"]?["id"]?.text?.string ?? "")"
    #expect(bench.send("GET", path, key: key.token).json["job"]?["processed"]?.int == 500)
    try bench.change(key) { $0.types["core.note"] = "read" }
    let job = bench.finish(started, key: key.token)
    #expect(job["succeeded"]?.int == 500 && job["failed"]?.int == 700)
    #expect(job["errors"]?.array?.first?["code"]?.text == "type_not_permitted")
    #expect(bench.send("GET", "/items/stats?tier=feed").json == ["active": 500])
  }

  // MARK: edges

  func edges(_ entries: JSON, _ more: JSON = [:], key: String? = nil) -> Answer {
    var body = JSONObject([(Text("edges"), entries)])
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return bench.send("POST", "/edges/bulk", .object(body), key: key)
  }

  func link(_ source: String, _ type: String, _ target: String, _ more: JSON = [:]) -> JSON {
    let fixed: JSON = ["source_id": string(source), "edge_type": string(type), "target_id": string(target)]
    var entry = fixed.object ?? JSONObject()
    for (name, value) in more.object?.members ?? [] { entry[name] = value }
    return .object(entry)
  }

  @Test("E-S45 a page of new edges, repeats, an empty page and 5,001 entries")
  func edgePages() {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    let id = string(bench.ids.next().description)
    let page = edges([
      link(a, "about", b, ["id": id, "properties": ["x": 1, "y": 1]]), link(a, "about", c),
      link(a, "about", b, ["id": id, "properties": ["y": 2]]), link(a, "about", c),
    ])
    expect(page, 200)
    #expect(page.outcomes == ["created", "created", "updated", "updated"])
    #expect(page.json["counts"] == ["created": 2, "updated": 2, "skipped": 0, "errored": 0])
    #expect(page.result(0)["id"] == id && page.result(2)["id"] == id)
    #expect(page.result(1)["id"] == page.result(3)["id"])
    let edge = bench.send("GET", "/edges/\(id.text?.string ?? "")").json["edge"]
    #expect(edge?["properties"] == ["x": 1, "y": 2] && edge?["version"]?.int == 2)
    let only = edges([link(a, "about", b), link(b, "about", c)], ["mode": "create_only"])
    #expect(only.outcomes == ["skipped", "created"])
    #expect(only.result(0) == ["index": 0, "outcome": "skipped", "id": id, "reason": "duplicate_edge"])
    #expect(edges([]).json["counts"] == ["created": 0, "updated": 0, "skipped": 0, "errored": 0])
    let many = edges(.array(Array(repeating: 1, count: 5001)))
    expect(many, 400, "validation_error")
    #expect(many.details == ["cap": 5000, "provided": 5001])
  }

  @Test("E-S46 a stale entry version is refused, a current or missing one updates; create_only skips whatever it is")
  func edgeVersions() {
    let (a, b) = (bench.noteID(), bench.noteID())
    expect(bench.edge(a, "about", b), 201)
    let stale = edges([link(a, "about", b, ["version": 2])])
    expect(stale, 409, "bulk_atomic_rollback")
    #expect(stale.details?["code"]?.text == "version_conflict")
    #expect(edges([link(a, "about", b, ["version": 1])]).outcomes == ["updated"])
    #expect(edges([link(a, "about", b)]).outcomes == ["updated"])
    for version in [0, 1, 3, 9] {
      #expect(
        edges([link(a, "about", b, ["version": .int(version)])], ["mode": "create_only"]).outcomes == ["skipped"])
    }
    #expect(bench.send("GET", "/edges").data.first?["version"]?.int == 3)
  }

  @Test("E-S47 a bad entry rolls an atomic page back at its status, or is errored alone; gates come first")
  func badEdges() throws {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    expect(bench.edge(a, "about", b), 201)
    let good = link(b, "about", c)
    let bad: [(JSON, Int, String)] = [
      (link(a, "nothing", b), 404, "edge_type_not_found"),
      (link(a, "about", bench.ids.next().description), 404, "item_not_found"),
      (link(a, "about", a), 400, "edge_cycle"), (["source_id": string(a)], 400, "missing_required_field"),
      (link("NOPE", "about", b), 400, "invalid_id"), (link(a, "about", b, ["version": 7]), 409, "version_conflict"),
    ]
    let events = bench.events().count
    for (entry, status, code) in bad {
      let page = edges([good, entry])
      expect(page, status, "bulk_atomic_rollback")
      #expect(page.details?["code"]?.text == Text(code) && page.details?["index"]?.int == 1)
    }
    #expect(bench.events().count == events)
    let key = try bench.mint("k", edges: ["about": "write", "references": "read"])
    let gated = edges([link(a, "about", b, ["version": 7]), link(a, "references", b)], key: key.token)
    expect(gated, 403, "bulk_atomic_rollback")
    #expect(gated.details?["index"]?.int == 1 && gated.details?["code"]?.text == "edge_permission_denied")
    #expect(
      edges([link(a, "about", b, ["version": 7]), link(a, "about", "NOPE")]).details?["code"]?.text == "invalid_id")
    let loose = edges(.array(bad.map(\.0) + [good]), ["atomic": false])
    #expect(loose.outcomes == Array(repeating: "errored", count: 6) + ["created"])
    #expect((0..<6).map { loose.result($0)["error"]?["code"]?.text?.string } == bad.map(\.2))
    #expect(bench.send("GET", "/edges").data.count == 2)
  }

  @Test("E-S48 cardinality, ends, cycles and paths count earlier entries; an edge and its reverse write neither")
  func edgeRules() {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    let folder = bench.send("POST", "/folders", ["title": "F"]).id
    let loose = edges(
      [
        link(a, "parent-of", b), link(c, "parent-of", b), link(b, "parent-of", c), link(c, "parent-of", a),
        link(a, "in-collection", b), link(a, "in-folder", folder, ["properties": ["path": "../x"]]),
        link(a, "in-folder", folder, ["properties": ["path": "x.md", "size": 1]]),
        link(a, "in-folder", folder, ["properties": ["path": "x.md"]]),
      ], ["atomic": false])
    #expect(
      loose.outcomes == ["created", "errored", "created", "errored", "errored", "errored", "errored", "created"])
    #expect(loose.result(1)["error"]?["details"]?["constraint"]?.text == "cardinality")
    #expect(loose.result(3)["error"]?["code"]?.text == "edge_cycle")
    #expect(loose.result(4)["error"]?["code"]?.text == "edge_constraint_violation")
    #expect(loose.result(5)["error"]?["details"]?["errors"]?.array?.first?["path"]?.text == "properties.path")
    let (x, y) = (bench.noteID(), bench.noteID())
    let events = bench.events().count
    let both = edges([link(x, "parent-of", y), link(y, "parent-of", x)])
    expect(both, 400, "bulk_atomic_rollback")
    #expect(both.details?["code"]?.text == "edge_cycle" && both.details?["index"]?.int == 1)
    #expect(bench.events().count == events)
  }

  @Test("E-S49 two pages with one triple at once make one edge")
  func edgeRace() throws {
    let (a, b) = (bench.noteID(), bench.noteID())
    var outcomes: [[String]] = []
    try bench.instance.batch { for _ in 0..<2 { outcomes.append(edges([link(a, "about", b)]).outcomes) } }
    #expect(outcomes == [["created"], ["updated"]])
    #expect(bench.send("GET", "/edges").data.count == 1)
  }
}

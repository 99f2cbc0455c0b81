import LocalInstance
import MarfaBase
import Testing

@Suite("Versions, snapshots and history")
struct HistoryTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  func versions(_ id: String) -> [Int] { bench.history(id, "?limit=200").data.compactMap { $0["version"]?.int } }

  /// A note updated `count` times.
  func updated(_ count: Int) -> String {
    let id = bench.noteID("0")
    for version in 1...count {
      expect(bench.patch(id, version, ["properties": ["body": string("\(version)")]]), 200)
    }
    return id
  }

  @Test("V-S1 a create has version 1, with a client's id and in bulk too")
  func first() {
    #expect(bench.create("core.note", ["body": "a"]).version == 1)
    #expect(bench.create("core.note", ["body": "a"], ["id": string(bench.ids.next().description)]).version == 1)
    let page = bench.bulk([["type": "core.note", "properties": ["body": "a"]]])
    #expect(bench.read(page.result(0)["id"]?.text?.string ?? "").version == 1)
  }

  @Test("V-S2 an update at 1 answers 2; three updates give 2, 3, 4")
  func steps() {
    let id = bench.noteID()
    for version in 1...3 {
      let answer = bench.patch(id, version, ["properties": ["title": string("\(version)")]])
      expect(answer, 200)
      #expect(answer.version == version + 1)
    }
  }

  @Test("V-S3 an update leaves the row before it in the history; three give three, oldest first")
  func kept() {
    let id = updated(3)
    let rows = bench.history(id).data
    #expect(rows.map { $0["version"]?.int } == [1, 2, 3])
    #expect(rows.map { $0["properties"] } == [["body": "0"], ["body": "1"], ["body": "2"]])
    #expect(rows.allSatisfy { $0["item_id"]?.text == Text(id) })
  }

  @Test("V-S4 an item never updated has no history")
  func none() {
    let answer = bench.history(bench.noteID())
    expect(answer, 200)
    #expect(answer.json == ["data": [], "next_cursor": nil])
  }

  @Test("V-S5 each snapshot shows the tier, time, key and type the row had")
  func itemFields() {
    let made = bench.create(
      "core.note", ["body": "a", "title": "t"],
      ["tier": "feed", "occurred_at": "2026-01-01T00:00:00Z", "source_id": "one"])
    let writes: [JSON] = [
      ["tier": "library"], ["occurred_at": "2026-02-02T00:00:00Z"], ["source_id": "two"],
      ["retype": true, "type": "core.task"], ["properties": [:]],
    ]
    for (place, write) in writes.enumerated() { expect(bench.patch(made.id, place + 1, write), 200) }
    let rows = bench.history(made.id).data
    #expect(rows.map { $0["tier"]?.text } == ["feed", "library", "library", "library", "library"])
    let times = rows.map { $0["occurred_at"]?.text }
    #expect(times.prefix(2).allSatisfy { $0 == "2026-01-01T00:00:00.000Z" })
    #expect(times.dropFirst(2).allSatisfy { $0 == "2026-02-02T00:00:00.000Z" })
    #expect(rows.map { $0["source_id"]?.text } == ["one", "one", "one", "two", "two"])
    #expect(rows.map { $0["type"]?.text } == ["core.note", "core.note", "core.note", "core.note", "core.task"])
  }

  @Test("V-S6 force_snapshot is refused and writes nothing; without it the update snapshots")
  func forced() {
    let id = bench.noteID()
    expect(bench.patch(id, 1, ["force_snapshot": true, "properties": ["title": "t"]]), 400, "validation_error")
    #expect(bench.read(id).version == 1 && versions(id).isEmpty)
    expect(bench.patch(id, 1, ["properties": ["title": "t"]]), 200)
    #expect(versions(id) == [1])
  }

  @Test("V-S7 the history of an unknown, a malformed and a binned id; restored it is whole again")
  func missing() {
    expect(bench.history(bench.ids.next().description), 404, "item_not_found")
    expect(bench.history("NOPE"), 400, "invalid_id")
    let id = updated(2)
    expect(bench.delete(id), 200)
    expect(bench.history(id), 404, "item_not_found")
    expect(bench.restore(id), 200)
    #expect(versions(id) == [1, 2])
  }

  @Test("V-S8 tag, metadata and extension writes leave version and history")
  func metadata() {
    let id = updated(1)
    let before = bench.history(id).words
    for (method, path, body) in [
      ("POST", "tags", ["tags": ["a"]]), ("PATCH", "metadata", ["tags": ["b"]]), ("PUT", "metadata", ["tags": ["c"]]),
      ("DELETE", "tags/c", nil), ("PUT", "extensions/app.a", ["x": 1]), ("DELETE", "extensions/app.a", nil),
    ] as [(String, String, JSON?)] {
      expect(bench.send(method, "/items/\(id)/\(path)", body), 200)
      #expect(bench.read(id).version == 2)
    }
    #expect(bench.history(id).words == before)
  }

  @Test("V-S9 empty or equal properties at the current version write a version")
  func unchanged() {
    let id = bench.noteID("a")
    #expect(bench.patch(id, 1, ["properties": [:]]).version == 2)
    #expect(bench.patch(id, 2, ["properties": ["body": "a"]]).version == 3)
    #expect(versions(id) == [1, 2])
  }

  @Test("V-S10 only edges, or retype to the own type, at the current version, leave version, row and history")
  func edgesOnly() {
    let (id, other) = (bench.noteID(), bench.noteID())
    let before = bench.read(id).item.object ?? JSONObject()
    for write in [["edges": ["about": [string(other)]]], ["retype": true, "type": "core.note"]] as [JSON] {
      let answer = bench.patch(id, 1, write)
      expect(answer, 200)
      var row = answer.item.object ?? JSONObject()
      row["edges"] = before["edges"]
      #expect(row == before)
    }
    #expect(versions(id).isEmpty)
    #expect(bench.read(id).item["edges"]?["about"]?["data"]?.array?.count == 1)
  }

  @Test("V-S11 a refused update writes no snapshot; made valid, or mergeable, it writes one")
  func refused() {
    let id = bench.noteID("a")
    expect(bench.patch(id, 1, ["properties": ["body": 7]]), 400, "invalid_properties")
    #expect(versions(id).isEmpty)
    expect(bench.patch(id, 1, ["properties": ["body": "b"]]), 200)
    #expect(versions(id) == [1])
    expect(bench.patch(id, 1, ["properties": ["body": "c"]]), 409, "version_conflict")
    #expect(versions(id) == [1])
    expect(bench.patch(id, 1, ["properties": ["title": "t"]]), 200)
    #expect(versions(id) == [1, 2])
  }

  @Test("V-S13 51 snapshots are 50 and a cursor; bad limits are refused; an exactly full last page has no cursor")
  func pages() {
    let id = updated(51)
    let first = bench.history(id)
    #expect(first.data.compactMap { $0["version"]?.int } == Array(1...50))
    let cursor = first.json["next_cursor"]?.text?.string ?? ""
    #expect(!cursor.isEmpty)
    let rest = bench.history(id, "?cursor=\(cursor)")
    #expect(rest.data.compactMap { $0["version"]?.int } == [51])
    #expect(rest.json["next_cursor"]?.isNull == true)
    for limit in ["0", "201", "many", "1.5", "-1", ""] {
      expect(bench.history(id, "?limit=\(limit)"), 400, "validation_error")
    }
    let full = bench.history(id, "?limit=51")
    #expect(full.data.count == 51 && full.json["next_cursor"]?.isNull == true)
    let half = bench.history(
      id, "?limit=26&cursor=\(bench.history(id, "?limit=25").json["next_cursor"]?.text?.string ?? "")")
    #expect(half.data.count == 26 && half.json["next_cursor"]?.isNull == true)
  }

  @Test("V-S14 an undeclared parameter is named; a cursor of another listing is refused, one of this door taken")
  func parameters() {
    let (id, other) = (updated(3), updated(3))
    let unknown = bench.history(id, "?order=desc")
    expect(unknown, 400, "validation_error")
    #expect(unknown.details?["unknown_parameters"] == ["order"])
    let foreign = bench.send("GET", "/items?limit=1").json["next_cursor"]?.text?.string ?? ""
    #expect(!foreign.isEmpty)
    expect(bench.history(id, "?cursor=\(foreign)"), 400, "validation_error")
    expect(bench.history(id, "?cursor=nonsense"), 400, "validation_error")
    let own = bench.history(id, "?limit=1").json["next_cursor"]?.text?.string ?? ""
    #expect(bench.history(other, "?cursor=\(own)").data.compactMap { $0["version"]?.int } == [2, 3])
  }

  @Test("V-S15 include=versions carries the first 50, which the listing continues")
  func included() {
    let id = updated(52)
    let page = bench.send("GET", "/items/\(id)?include=versions").json["versions"]
    #expect(page?["data"]?.array?.compactMap { $0["version"]?.int } == Array(1...50))
    #expect(page == bench.history(id).json)
    let cursor = page?["next_cursor"]?.text?.string ?? ""
    #expect(bench.history(id, "?cursor=\(cursor)").data.compactMap { $0["version"]?.int } == [51, 52])
  }

  @Test(
    "V-S16 snapshots of an unreadable former type are left out and the page filled; unreadable now, 404; no type, 403")
  func unreadable() throws {
    let id = bench.create("core.task", ["title": "t", "body": "b"]).id
    for version in 1...3 { expect(bench.patch(id, version, ["properties": [:]]), 200) }
    expect(bench.patch(id, 4, ["retype": true, "type": "core.note"]), 200)
    for version in 5...7 { expect(bench.patch(id, version, ["properties": [:]]), 200) }
    let key = try bench.mint("n", types: ["core.note": "read"])
    func history(_ query: String = "") -> Answer {
      bench.send("GET", "/items/\(id)/versions\(query)", key: key.token)
    }
    #expect(history().data.compactMap { $0["version"]?.int } == [5, 6, 7])
    let page = history("?limit=2")
    #expect(page.data.compactMap { $0["version"]?.int } == [5, 6])
    let last = history("?cursor=\(page.json["next_cursor"]?.text?.string ?? "")")
    #expect(last.data.compactMap { $0["version"]?.int } == [7] && last.json["next_cursor"]?.isNull == true)
    #expect(history("?limit=3").json["next_cursor"]?.isNull == true)
    let included = bench.send("GET", "/items/\(id)?include=versions", key: key.token).json["versions"]
    #expect(included == history().json)
    let tasks = try bench.mint("t", types: ["core.task": "read"])
    expect(bench.send("GET", "/items/\(id)/versions", key: tasks.token), 404, "item_not_found")
    let none = try bench.mint("none", types: [:])
    for path in [id, "NOPE", bench.ids.next().description] {
      expect(bench.send("GET", "/items/\(path)/versions", key: none.token), 403, "type_not_permitted")
    }
  }

  @Test(
    "V-S17 snapshots name the other key and the local command, and when, after revocation too; no body names a writer")
  func writers() throws {
    let (one, two) = (try bench.mint("one"), try bench.mint("two"))
    let id = bench.create("core.note", ["body": "a"], key: one.token).id
    let second = bench.patch(id, 1, ["properties": ["body": "b"]], key: two.token)
    let third = bench.patch(id, 2, ["properties": ["body": "c"]])
    for key in [one, two] { try bench.instance.revokeKey(key.id) }
    let rows = bench.history(id).data
    let byVersion = { (version: Int) in rows.first { $0["version"]?.int == version } }
    #expect(rows.count == 2)
    #expect(byVersion(1)?["writer"] == ["kind": "key", "id": string(two.id.description), "name": "Key two"])
    #expect(byVersion(1)?["created_at"] == second.item["updated_at"])
    #expect(byVersion(2)?["writer"] == ["kind": "local", "id": "local", "name": "Local command"])
    #expect(byVersion(2)?["created_at"] == third.item["updated_at"])
    expect(bench.patch(id, 3, ["writer": ["kind": "local"], "properties": ["body": "d"]]), 400, "validation_error")
    #expect(bench.read(id).version == 3 && bench.history(id).data.count == 2)
  }

  @Test("V-S18 a bad limit is told before a bad id, a bad id before a missing item")
  func order() {
    let none = bench.ids.next().description
    #expect(bench.history("NOPE", "?limit=0").path == "limit")
    expect(bench.history("NOPE", "?cursor=x"), 400, "invalid_id")
    expect(bench.history(none, "?cursor=x"), 404, "item_not_found")
    #expect(bench.history(none, "?limit=0").path == "limit")
  }

  // MARK: policies and thinning

  func type(_ id: String, _ more: JSON) -> Answer {
    let fixed: JSON = ["id": string(id), "fields": ["body": ["type": "string"]]]
    var body = fixed.object ?? JSONObject()
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return bench.send("POST", "/types", .object(body))
  }

  func replace(_ id: String, _ more: JSON) -> Answer {
    let fixed: JSON = ["fields": ["body": ["type": "string"]]]
    var body = fixed.object ?? JSONObject()
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return bench.send("PUT", "/types/\(id)", .object(body))
  }

  @Test(
    "V-S67 a merge policy of an unknown field or strategy is refused on register and replace; a child's is resolved")
  func mergePolicies() {
    expect(type("acme.base", ["merge_policy": ["fields": ["body": "keep_both_copies"]]]), 201)
    for policy in [
      ["fields": ["nothing": "last_writer_wins"]], ["fields": ["body": "coin_toss"]], ["default": "coin_toss"],
    ] as [JSON] {
      expect(type("acme.bad", ["merge_policy": policy]), 400, "invalid_schema")
      expect(replace("acme.base", ["merge_policy": policy]), 400, "invalid_schema")
    }
    let base = bench.send("GET", "/types/acme.base").json
    #expect(base["merge_policy"]?["fields"] == ["body": "keep_both_copies"])
    let child: JSON = [
      "id": "acme.child", "parent": "acme.base", "fields": ["extra": ["type": "string"]],
      "merge_policy": ["fields": ["extra": "keep_both_copies"]],
    ]
    expect(bench.send("POST", "/types", child), 201)
    #expect(
      bench.send("GET", "/types/acme.child").json["merge_policy"] == [
        "default": "last_writer_wins", "fields": ["body": "keep_both_copies", "extra": "keep_both_copies"],
      ])
    let memo: JSON = [
      "id": "acme.memo", "parent": "core.note", "fields": [:],
      "merge_policy": ["fields": ["body": "last_writer_wins"]],
    ]
    expect(bench.send("POST", "/types", memo), 201)
    #expect(
      bench.send("GET", "/types/acme.memo").json["merge_policy"]?["fields"]
        == ["body": "last_writer_wins", "notes": "keep_both_copies"])
  }

  @Test("V-S68 version policies of whole positive numbers in order are taken; others are refused naming the field")
  func versionPolicies() throws {
    let good: JSON = [
      "recent_days": 1, "daily_snapshot_days": 7, "weekly_snapshot_days": 7, "max_versions": 3,
    ]
    expect(type("acme.kept", ["version_policy": good]), 201)
    expect(type("acme.part", ["version_policy": ["weekly_snapshot_days": 5, "recent_days": 5]]), 201)
    let half = JSON.number(try #require(JSONNumber(1.5)))
    let bad: [(JSON, String)] = [
      (["recent_days": 0], "recent_days"), (["daily_snapshot_days": -1], "daily_snapshot_days"),
      (["weekly_snapshot_days": half], "weekly_snapshot_days"), (["max_versions": 0], "max_versions"),
      (["recent_days": 8, "daily_snapshot_days": 7], "daily_snapshot_days"),
      (["daily_snapshot_days": 8, "weekly_snapshot_days": 7], "weekly_snapshot_days"),
      (["recent_days": 8, "weekly_snapshot_days": 7], "weekly_snapshot_days"),
    ]
    let before = bench.send("GET", "/types/acme.kept").json
    for (policy, field) in bad {
      for answer in [type("acme.bad", ["version_policy": policy]), replace("acme.kept", ["version_policy": policy])] {
        expect(answer, 400, "invalid_schema")
        #expect(answer.field == "version_policy.\(field)")
      }
    }
    #expect(bench.send("GET", "/types/acme.kept").json == before)
    expect(bench.send("GET", "/types/acme.bad"), 404, "type_not_found")
  }

  func thing(_ type: JSON, _ updates: Int = 3) -> String {
    let id = bench.create(type, ["body": "0"]).id
    for version in 1...updates { expect(bench.patch(id, version, ["properties": ["body": string("\(version)")]]), 200) }
    return id
  }

  func thin() -> Answer { bench.send("POST", "/housekeeping/version-thinning/run") }

  @Test("V-S69 max_versions 1 inherited, 2 overriding and none leave 1, 2 and 3 of three snapshots")
  func maximum() throws {
    expect(type("acme.one", ["version_policy": ["max_versions": 1]]), 201)
    expect(bench.send("POST", "/types", ["id": "acme.heir", "parent": "acme.one", "fields": [:]]), 201)
    let two: JSON = [
      "id": "acme.two", "parent": "acme.one", "fields": [:], "version_policy": ["max_versions": 2],
    ]
    expect(bench.send("POST", "/types", two), 201)
    expect(type("acme.free", [:]), 201)
    let ids = ["acme.heir", "acme.two", "acme.free"].map { thing(string($0)) }
    let run = thin()
    expect(run, 200)
    #expect(run.json.object?.keys == ["name", "started_at", "finished_at", "outcome", "result", "error"])
    #expect(run.json["name"]?.text == "version-thinning" && run.json["outcome"]?.text == "ok")
    #expect(ids.map(versions) == [[3], [2, 3], [1, 2, 3]])
    let weak = try bench.mint("weak")
    expect(bench.send("POST", "/housekeeping/version-thinning/run", key: weak.token), 403, "forbidden")
    expect(bench.send("POST", "/housekeeping/dusting/run"), 404, "housekeeping_job_not_found")
  }

  @Test("V-S70 two snapshots are never thinned; one in the bin as a live one, one of a deleted type by the defaults")
  func exceptions() {
    expect(type("acme.one", ["version_policy": ["max_versions": 1]]), 201)
    expect(type("acme.gone", ["version_policy": ["max_versions": 1]]), 201)
    let (few, binned, orphan) = (thing("acme.one", 2), thing("acme.one"), thing("acme.gone"))
    expect(bench.delete(binned), 200)
    expect(bench.send("DELETE", "/types/acme.gone?force=true"), 200)
    expect(thin(), 200)
    #expect(versions(few) == [1, 2])
    #expect(versions(orphan) == [1, 2, 3])
    expect(bench.restore(binned), 200)
    #expect(versions(binned) == [3])
    bench.clock.advance(seconds: 400 * 86_400)
    expect(thin(), 200)
    #expect(versions(orphan) == [3])
  }

  @Test("V-S71 an update naming a base thinned away is ancestor_unavailable whatever conflict asks")
  func thinnedBase() {
    expect(type("acme.one", ["version_policy": ["max_versions": 1]]), 201)
    let id = thing("acme.one")
    expect(thin(), 200)
    for query in ["", "?conflict=auto", "?conflict=manual", "?conflict=callback"] {
      let answer = bench.patch(id, 1, ["properties": ["other": "x"]], query)
      expect(answer, 409, "ancestor_unavailable")
      #expect(answer.json["requested_version"]?.int == 1)
    }
    #expect(bench.read(id).version == 4)
  }

  @Test("daily and weekly windows keep the latest of each day and week")
  func windows() {
    let id = bench.noteID("0")
    // Three snapshots a day for 40 days, the youngest now.
    var version = 1
    for _ in 0..<40 {
      for _ in 0..<3 {
        expect(bench.patch(id, version, ["properties": ["body": string("\(version)")]]), 200)
        version += 1
        bench.clock.advance(seconds: 3600)
      }
      bench.clock.advance(seconds: 75_600)
    }
    #expect(versions(id).count == 120)
    expect(thin(), 200)
    let kept = bench.history(id, "?limit=200").data
    let now = bench.clock.now.milliseconds
    let ages = kept.compactMap { $0["created_at"]?.text }.filter { text in
      text < Timestamp(milliseconds: now - 30 * 86_400_000).text
    }
    #expect(Set(ages.map { $0.string.prefix(10) }).count == ages.count)
    #expect(kept.count < 120 && kept.count >= 90)
    bench.clock.advance(seconds: 200 * 86_400)
    expect(thin(), 200)
    let weekly = versions(id)
    #expect((6...8).contains(weekly.count) && weekly.last == 120)
    bench.clock.advance(seconds: 400 * 86_400)
    expect(thin(), 200)
    // Two or one are left alone once no more than two stand.
    #expect(versions(id) == [120])
  }

  @Test("the jobs run by themselves: first five seconds after the start, then hourly")
  func schedule() throws {
    bench.instance.settings.eventRetentionHours = 0
    expect(type("acme.one", ["version_policy": ["max_versions": 1]]), 201)
    let id = thing("acme.one")
    bench.instance.tick()
    #expect(versions(id) == [1, 2, 3])
    bench.clock.advance(seconds: 5)
    bench.instance.tick()
    #expect(versions(id) == [3])
    for version in 4...6 { expect(bench.patch(id, version, ["properties": [:]]), 200) }
    bench.clock.advance(seconds: 3500)
    bench.instance.tick()
    #expect(versions(id) == [3, 4, 5, 6])
    bench.clock.advance(seconds: 100)
    bench.instance.tick()
    #expect(versions(id) == [6])
    // The bin is kept for ever, until a retention is set.
    let (child, root) = (bench.noteID("c"), bench.noteID("r"))
    bench.parent(root, child)
    expect(bench.delete(root), 200)
    bench.clock.advance(seconds: 100 * 86_400)
    bench.instance.tick()
    #expect(bench.state(root) == "trashed")
    expect(bench.send("PUT", "/config", ["trash_retention_days": 30, "event_log_retention_hours": 0]), 200)
    let config = bench.send("GET", "/config").json
    #expect(config["trash_retention_days"]?.int == 30)
    let view = bench.send("GET", "/events?edges=all&copy=1")
    let before = view.frames().first?.data["read_view"]
    view.source?.close()
    bench.clock.advance(seconds: 3600)
    let events = bench.announced { bench.instance.tick() }
    #expect(events.map(\.kind) == ["edge.deleted", "item.purged", "item.purged"])
    #expect(bench.state(root) == nil && bench.state(child) == nil)
    let after = bench.send("GET", "/events?edges=all&copy=1")
    #expect(after.frames().first?.data["read_view"] != before)
    after.source?.close()
  }
}

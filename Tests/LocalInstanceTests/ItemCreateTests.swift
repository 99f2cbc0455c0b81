import LocalInstance
import MarfaBase
import Testing

@Suite("Creating items: ids, sources, natural keys")
struct ItemCreateTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  @Test("I-S7 an id held by an item of an unreadable type is a conflict that tells nothing of it")
  func hiddenID() throws {
    let id = bench.noteID("a secret")
    let other = try bench.mint("b", types: ["core.task": "write"])
    let answer = bench.create("core.task", ["title": "t"], ["id": string(id)], key: other.token)
    expect(answer, 409, "conflict")
    #expect(answer.details == nil)
    #expect(!answer.words.contains("core.note") && !answer.words.contains("secret") && !answer.words.contains("body"))
  }

  @Test("I-S8 a create naming id and natural key of one row updates it")
  func idAndKey() {
    let made = bench.create("core.note", ["body": "a"], ["source_id": "k"])
    let again = bench.create("core.note", ["body": "b"], ["source_id": "k", "id": string(made.id)])
    expect(again, 200)
    #expect(again.id == made.id && again.version == 2 && !again.isAcknowledged)
    #expect(again.properties == ["body": "b"])
  }

  @Test("I-S9 a device in the body is dropped, and no answer carries one")
  func device() {
    let made = bench.create("core.note", ["body": "a"], ["device": "phone"])
    expect(made, 201)
    let answers = [made, bench.read(made.id), bench.send("GET", "/items"), bench.history(made.id)]
    for answer in answers { #expect(!answer.words.contains("device")) }
    #expect(bench.events().allSatisfy { !$0.data.compact.contains("device") })
  }

  @Test("I-S10 a filter naming device is refused, naming it")
  func deviceFilter() {
    let answer = bench.send("GET", "/items?filter=device%20eq%20%22x%22")
    expect(answer, 400, "validation_error")
    #expect(answer.details?.compact.contains("device") == true)
  }

  @Test("I-S11 a source that is the key's own, named or not, is stamped")
  func ownSource() throws {
    let key = try bench.mint("s")
    for more in [[:], ["source": "s"]] as [JSON] {
      let made = bench.create("core.note", ["body": "a"], more, key: key.token)
      expect(made, 201)
      #expect(made.item["source"]?.text == "s")
    }
  }

  @Test("I-S12 a claimed source is stamped")
  func claimedSource() throws {
    let key = try bench.mint("s", sources: ["c"])
    let made = bench.create("core.note", ["body": "a"], ["source": "c"], key: key.token)
    expect(made, 201)
    #expect(bench.read(made.id).item["source"]?.text == "c")
  }

  @Test("I-S13 an unclaimed source is refused and writes nothing; in an atomic page the page rolls back")
  func unclaimedSource() {
    let refused = bench.create("core.note", ["body": "a"], ["source": "z"])
    expect(refused, 403, "forbidden")
    #expect(refused.details == ["source": "z"])
    let entry: JSON = ["type": "core.note", "properties": ["body": "a"]]
    let page = bench.bulk([entry, ["type": "core.note", "properties": ["body": "a"], "source": "z"], entry])
    expect(page, 403, "bulk_atomic_rollback")
    #expect(page.details == ["code": "forbidden", "index": 1, "details": ["source": "z"]])
    #expect(bench.count() == 0)
    #expect(bench.events().isEmpty)
  }

  @Test("I-S14 a row made under a claim keeps its source, which a patch may not name")
  func fixedSource() throws {
    let key = try bench.mint("s", sources: ["c"])
    let made = bench.create("core.note", ["body": "a"], ["source": "c"], key: key.token)
    expect(
      bench.patch(made.id, 1, ["source": "s", "properties": ["body": "b"]], key: key.token), 400, "validation_error")
    let held = bench.read(made.id)
    #expect(held.item["source"]?.text == "c" && held.version == 1)
  }

  @Test("I-S15 an allow-list is asked of the source a single or bulk write resolves to")
  func allowList() throws {
    bench.instance.settings.sourceAllowList = ["core.note": ["journal"]]
    let refused = bench.create("core.note", ["body": "a"])
    expect(refused, 403, "forbidden")
    #expect(refused.details == ["type": "core.note", "source": "local", "allowed": ["journal"]])
    let page = bench.bulk(
      [["type": "core.note", "properties": ["body": "a"]], ["type": "core.task", "properties": ["title": "a"]]],
      ["atomic": false])
    #expect(page.outcomes == ["errored", "created"])
    #expect(page.result(0)["error"]?["code"]?.text == "forbidden")
    let key = try bench.mint("s", sources: ["journal"])
    expect(bench.create("core.note", ["body": "a"], ["source": "journal"], key: key.token), 201)
    expect(bench.create("core.note", ["body": "a"], key: key.token), 403, "forbidden")
    #expect(
      bench.bulk([["type": "core.note", "source": "journal", "properties": ["body": "a"]]], key: key.token).outcomes
        == ["created"])
  }

  @Test("I-S16 a natural key posted again is an update; another or none makes a new row")
  func naturalKey() {
    let made = bench.create("core.note", ["body": "a"], ["source_id": "k"])
    let again = bench.create("core.note", ["body": "b"], ["source_id": "k"])
    expect(again, 200)
    #expect(again.id == made.id && again.version == 2)
    for more in [["source_id": "l"], [:], [:]] as [JSON] { expect(bench.create("core.note", ["body": "b"], more), 201) }
    #expect(bench.count() == 4)
  }

  @Test("I-S18 many creates of one natural key at once make one row")
  func atOnce() throws {
    var statuses: [Int] = []
    try bench.instance.batch {
      for place in 0..<20 {
        statuses.append(
          bench.create("core.note", ["body": string("\(place)")], ["source_id": "k"]).status)
      }
    }
    #expect(statuses == [201] + Array(repeating: 200, count: 19))
    #expect(bench.count() == 1)
  }

  @Test("I-S21 two keys that claim one source write one row; a bulk entry lands on the row of the source it names")
  func sharedClaim() throws {
    let one = try bench.mint("a", sources: ["c"])
    let two = try bench.mint("b", sources: ["c"])
    let made = bench.create("core.note", ["body": "1"], ["source": "c", "source_id": "k"], key: one.token)
    let own = bench.create("core.note", ["body": "own"], ["source_id": "k"], key: two.token)
    expect(own, 201)
    let second = bench.create("core.note", ["body": "2"], ["source": "c", "source_id": "k"], key: two.token)
    expect(second, 200)
    #expect(second.id == made.id)
    let page = bench.bulk(
      [["type": "core.note", "source": "c", "source_id": "k", "properties": ["body": "3"]]], key: two.token)
    #expect(page.outcomes == ["updated"])
    #expect(page.result(0)["id"]?.text == Text(made.id))
    #expect(bench.read(made.id).properties == ["body": "3"])
    #expect(bench.read(own.id).properties == ["body": "own"])
    #expect(bench.count() == 2)
  }

  @Test("I-S22 a natural key on a type the key cannot read is refused, or skipped without an id, and tells nothing")
  func hiddenKey() throws {
    let one = try bench.mint("a", sources: ["c"])
    let held = bench.create("core.note", ["body": "secret"], ["source": "c", "source_id": "k"], key: one.token)
    let blind = try bench.mint("b", types: ["core.task": "write"], sources: ["c"])
    let more: [JSON] = [
      [:], ["id": string(held.id)], ["id": string(bench.ids.next().description)], ["version": 0], ["version": 1],
      ["version": 9],
    ]
    func tellsNothing(_ answer: Answer) -> Bool {
      !["core.note", "secret", held.id].contains { answer.words.contains($0) }
    }
    for extra in more {
      let fixed: JSON = ["type": "core.task", "properties": ["title": "t"], "source": "c", "source_id": "k"]
      var entry = fixed.object ?? JSONObject()
      for (name, value) in extra.object?.members ?? [] { entry[name] = value }
      let single = bench.send("POST", "/items", .object(entry), key: blind.token)
      expect(single, 403, "type_not_permitted")
      let skipped = bench.bulk([.object(entry)], ["mode": "create_only"], key: blind.token)
      #expect(skipped.result(0) == ["index": 0, "outcome": "skipped", "reason": "duplicate_source"])
      let errored = bench.bulk([.object(entry)], ["atomic": false], key: blind.token)
      #expect(errored.result(0)["error"]?["code"]?.text == "type_not_permitted")
      let atomic = bench.bulk([.object(entry)], key: blind.token)
      expect(atomic, 403, "bulk_atomic_rollback")
      for answer in [single, skipped, errored, atomic] where extra["id"]?.text != Text(held.id) {
        #expect(tellsNothing(answer), "\(answer.words)")
      }
    }
    #expect(bench.read(held.id).version == 1)
  }

  @Test("I-S23 a create that names a row in the bin is acknowledged with its marks, and revives nothing")
  func inBin() throws {
    let root = bench.create("core.task", ["title": "root"]).id
    let body: JSON = ["source_id": "k"]
    let child = bench.create("core.note", ["body": "child"], body).id
    let alone = bench.noteID("alone")
    bench.parent(root, child)
    for id in [root, alone] { expect(bench.delete(id), 200) }
    let before = bench.events().count
    let byKey = bench.create("core.note", ["body": "again"], body)
    let byID = bench.create("core.note", ["body": "again"], ["id": string(alone)])
    for (answer, id) in [(byKey, child), (byID, alone)] {
      expect(answer, 200)
      #expect(answer.isAcknowledged && answer.id == id && answer.state == "trashed" && answer.version == 1)
    }
    #expect(byKey.item["trashed_by_cascade"]?.bool == true)
    #expect(byKey.item["trashed_with"]?.text == Text(root))
    #expect(byID.item["trashed_by_cascade"] == nil && byID.item["trashed_with"] == nil)
    let notesOnly = try bench.mint("n", types: ["core.note": "write"], sources: ["local"])
    let narrow = bench.create(
      "core.note", ["body": "again"], ["source": "local", "source_id": "k"], key: notesOnly.token)
    #expect(narrow.isAcknowledged && narrow.item["trashed_by_cascade"]?.bool == true)
    #expect(narrow.item["trashed_with"] == nil)
    #expect(bench.events().count == before)
    #expect(bench.state(child) == "trashed" && bench.state(alone) == "trashed")
  }

  // MARK: time, place, tier, state

  @Test("I-S24 own times with offsets are answered in UTC on every door, and ordered and bounded by instant")
  func ownTimes() {
    let early = bench.create("core.note", ["body": "a"], ["occurred_at": "2026-03-01T01:00:00+03:00"])
    #expect(early.item["occurred_at"]?.text == "2026-02-28T22:00:00.000Z")
    let late = bench.create("core.note", ["body": "b"])
    let patched = bench.patch(late.id, 1, ["occurred_at": "2026-02-28T20:00:00.5-03:00"], under: "queued")
    #expect(patched.item["occurred_at"]?.text == "2026-02-28T23:00:00.500Z")
    let page = bench.bulk([
      [
        "type": "core.note", "source_id": "k", "properties": ["body": "c"], "occurred_at": "2026-02-28T23:30:00+00:45",
      ]
    ])
    let middle = page.result(0)["id"]?.text?.string ?? ""
    #expect(bench.read(middle).item["occurred_at"]?.text == "2026-02-28T22:45:00.000Z")
    let again = bench.bulk([
      [
        "type": "core.note", "source_id": "k", "properties": ["body": "c"], "occurred_at": "2026-03-01T00:30:00+02:00",
      ]
    ])
    #expect(again.outcomes == ["updated"])
    #expect(bench.read(middle).item["occurred_at"]?.text == "2026-02-28T22:30:00.000Z")
    #expect(bench.send("GET", "/items?sort=occurred_at&direction=asc").ids == [early.id, middle, late.id])
    #expect(
      bench.send("GET", "/items?occurred_after=2026-02-28T23:00:00%2B01:00&occurred_before=2026-02-28T18:00:00-05:00")
        .ids == [middle])
  }

  @Test("I-S25 a stale patch naming the stored instant in another zone does not collide on own time")
  func sameInstant() {
    let made = bench.create("core.note", ["body": "a"], ["occurred_at": "2026-03-01T10:00:00Z"])
    expect(bench.patch(made.id, 1, ["occurred_at": "2026-04-01T00:00:00Z"]), 200)
    let stale = bench.patch(made.id, 1, ["occurred_at": "2026-03-01T12:00:00+02:00", "properties": ["title": "t"]])
    expect(stale, 200)
    #expect(stale.item["occurred_at"]?.text == "2026-04-01T00:00:00.000Z")
  }

  @Test("I-S27 text that is no time is refused on every door, naming occurred_at")
  func noTime() {
    let id = bench.noteID()
    for bad in ["yesterday", "2026-02-30", ""] {
      let single = bench.create("core.note", ["body": "a"], ["occurred_at": string(bad)])
      let patch = bench.patch(id, 1, ["occurred_at": string(bad)])
      let action = bench.send(
        "POST", "/items/bulk-actions", ["action": "update_occurred_at", "filter": [:], "occurred_at": string(bad)])
      for answer in [single, patch, action] {
        expect(answer, 400, "validation_error")
        #expect(answer.details?["field"]?.text == "occurred_at")
      }
      let entry: JSON = ["type": "core.note", "properties": ["body": "a"], "occurred_at": string(bad)]
      let atomic = bench.bulk([entry])
      expect(atomic, 400, "bulk_atomic_rollback")
      #expect(atomic.details?["code"]?.text == "validation_error")
      #expect(atomic.details?["details"]?["field"]?.text == "occurred_at")
      let loose = bench.bulk([entry], ["atomic": false])
      #expect(loose.result(0)["error"]?["code"]?.text == "validation_error")
      #expect(loose.result(0)["error"]?["details"]?["field"]?.text == "occurred_at")
    }
    #expect(bench.count() == 1)
  }

  @Test("I-S29 a named, far past or far future own time is kept; none is the time of creation")
  func farTimes() {
    for (sent, kept) in [
      ("2031-02-03T04:05:06.789Z", "2031-02-03T04:05:06.789Z"), ("0001-01-01", "0001-01-01T00:00:00.000Z"),
      ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ] {
      let made = bench.create("core.note", ["body": "a"], ["occurred_at": string(sent)])
      #expect(made.item["occurred_at"]?.text == Text(kept))
      #expect(bench.read(made.id).item["occurred_at"]?.text == Text(kept))
    }
    let none = bench.create("core.note", ["body": "a"])
    #expect(none.item["occurred_at"] == none.item["created_at"])
  }

  @Test("I-S30 a latitude of 999 is stored and answered")
  func latitude() {
    let made = bench.create("core.note", ["body": "a"], ["capture_latitude": 999, "capture_longitude": -200])
    expect(made, 201)
    let read = bench.read(made.id)
    #expect(read.item["capture_latitude"]?.int == 999 && read.item["capture_longitude"]?.int == -200)
    expect(bench.create("core.note", ["body": "a"], ["capture_latitude": "12"]), 400, "validation_error")
  }

  @Test("I-S31 the tier is the one sent, else the key's, else library, single and bulk")
  func tiers() throws {
    let plain = try bench.mint("p")
    let feed = try bench.mint("f", tier: "feed")
    for (key, more, tier) in [
      (plain, [:], "library"), (feed, [:], "feed"), (feed, ["tier": "library"], "library"),
    ] as [(TestKey, JSON, String)] {
      #expect(bench.create("core.note", ["body": "a"], more, key: key.token).item["tier"]?.text == Text(tier))
      let fixed: JSON = ["type": "core.note", "properties": ["body": "a"]]
      var entry = fixed.object ?? JSONObject()
      entry["tier"] = more["tier"]
      let id = bench.bulk([.object(entry)], key: key.token).result(0)["id"]?.text?.string ?? ""
      #expect(bench.read(id).item["tier"]?.text == Text(tier))
    }
  }

  @Test("I-S32 a row moved to feed stays there when its natural key comes again without a tier")
  func keepsTier() {
    let made = bench.create("core.note", ["body": "a"], ["source_id": "k"])
    expect(bench.patch(made.id, 1, ["tier": "feed"]), 200)
    #expect(bench.create("core.note", ["body": "b"], ["source_id": "k"]).item["tier"]?.text == "feed")
    #expect(
      bench.bulk([["type": "core.note", "source_id": "k", "properties": ["body": "c"]]]).outcomes == ["updated"])
    let held = bench.read(made.id)
    #expect(held.item["tier"]?.text == "feed" && held.properties == ["body": "c"])
  }

  @Test("I-S33 a new note may be archived; revoked is refused")
  func firstState() {
    let made = bench.create("core.note", ["body": "a"], ["state": "archived"])
    expect(made, 201)
    #expect(bench.read(made.id).state == "archived")
    expect(bench.create("core.note", ["body": "a"], ["state": "revoked"]), 400, "validation_error")
    #expect(bench.count() == 1)
  }

  @Test("I-S34 a bulk entry that resolves a row ignores a state it cannot reach")
  func bulkState() {
    let made = bench.create("core.note", ["body": "a"], ["source_id": "k"])
    let page = bench.bulk([
      ["type": "core.note", "source_id": "k", "properties": ["body": "b"], "state": "revoked"]
    ])
    #expect(page.outcomes == ["updated"])
    let held = bench.read(made.id)
    #expect(held.state == "active" && held.properties == ["body": "b"])
  }

  @Test("I-S155 a body 65 levels deep is refused on item, extension and bulk doors; 64 is taken")
  func depth() {
    func nested(_ levels: Int) -> JSON {
      var value: JSON = 1
      for _ in 0..<levels { value = [value] }
      return value
    }
    let id = bench.noteID()
    func item(_ levels: Int) -> Answer { bench.create("core.note", ["body": "a", "deep": nested(levels - 2)]) }
    func patch(_ levels: Int) -> Answer {
      bench.patch(id, bench.read(id).version ?? 0, ["properties": ["deep": nested(levels - 2)]])
    }
    func put(_ levels: Int) -> Answer {
      bench.send("PUT", "/items/\(id)/extensions/app.a", ["deep": nested(levels - 1)])
    }
    func page(_ levels: Int) -> Answer {
      bench.bulk([["type": "core.note", "properties": ["body": "a", "deep": nested(levels - 4)]]])
    }
    for (take, status) in [(item, 201), (patch, 200), (put, 200), (page, 200)] as [((Int) -> Answer, Int)] {
      let before = bench.events().count
      expect(take(65), 400, "validation_error")
      #expect(bench.events().count == before)
      expect(take(64), status)
    }
  }

  @Test("I-S157 a refused create, retype, claimed-source write or link changes no row, tag, edge or event")
  func refusedWritesNothing() throws {
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.page", "link_field": "slug", "fields": ["slug": ["type": "string"]]] as JSON),
      201)
    let target = bench.noteID("target")
    let id = bench.noteID("a", ["tags": ["t"], "edges": ["about": [string(target)]]])
    let page = bench.create("acme.page", ["slug": "one"]).id
    _ = page
    func snapshot() -> String {
      bench.send("GET", "/items?state=any&include=metadata,edges&limit=200").words
        + bench.send("GET", "/metadata/tags").words + "\(bench.events().count)"
    }
    let before = snapshot()
    let key = try bench.mint("s", sources: ["c"])
    expect(bench.create("core.note", [:], ["tags": ["new"], "edges": ["about": [string(target)]]]), 400)
    expect(
      bench.patch(
        id, 1, ["retype": true, "type": "core.message", "edges": ["about": []], "properties": ["title": "x"]]), 400,
      "invalid_properties")
    expect(
      bench.create(
        "core.note", ["body": "a"], ["source": "d", "tags": ["new"], "edges": ["about": [string(target)]]],
        key: key.token), 403, "forbidden")
    expect(bench.create("acme.page", ["slug": "one"], ["tags": ["new"]]), 409, "link_taken")
    let missing = string(bench.ids.next().description)
    expect(
      bench.create("core.note", ["body": "a"], ["tags": ["new"], "edges": ["about": [string(target), missing]]]), 404)
    #expect(snapshot() == before)
  }
}

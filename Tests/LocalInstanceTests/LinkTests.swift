import LocalInstance
import MarfaBase
import Testing

@Suite("Links and tombstones")
struct LinkTests {
  let bench: Bench

  init() throws {
    bench = try Bench()
    let fields: JSON = ["slug": ["type": "string"], "body": ["type": "string"]]
    let policy: JSON = ["fields": ["body": "keep_both_copies"]]
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.page", "link_field": "slug", "fields": fields, "merge_policy": policy]), 201)
    let strict: JSON = ["slug": ["type": "string", "required": true], "body": ["type": "string"]]
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.strict", "link_field": "slug", "fields": strict, "merge_policy": policy]), 201)
  }

  func page(_ slug: JSON, _ more: JSON = [:], type: JSON = "acme.page") -> Answer {
    bench.create(type, ["slug": slug, "body": "b"], more)
  }

  @Test("SF25 a lookup by an empty value is refused")
  func emptyLookups() {
    for body in [
      ["type": "core.note", "source": "local", "source_ids": [""]],
      ["type": "core.note", "source": "", "source_ids": ["x"]],
    ] as [JSON] {
      expect(bench.send("POST", "/items/lookup", body), 400, "validation_error")
    }
  }

  @Test("I-S153 a held link is refused on every door, freed when cleared or moved, and kept off a keep-both copy")
  func links() {
    let first = page("one")
    let second = page("two", ["source_id": "second"])
    func isTaken(_ answer: Answer) {
      expect(answer, 409, "link_taken")
      #expect(answer.details == ["existing_id": string(first.id), "field": "slug", "value": "one"])
    }
    isTaken(page("one"))
    isTaken(bench.patch(second.id, 1, ["properties": ["slug": "one"]]))
    isTaken(page("one", ["source_id": "second"]))
    let note = bench.noteID("n", ["properties": ["body": "n", "slug": "one"]])
    isTaken(bench.patch(note, 1, ["retype": true, "type": "acme.page"]))
    let entry: JSON = ["type": "acme.page", "properties": ["slug": "one"]]
    let atomic = bench.bulk([entry])
    expect(atomic, 409, "bulk_atomic_rollback")
    #expect(atomic.details?["code"]?.text == "link_taken")
    #expect(bench.bulk([entry], ["atomic": false]).result(0)["error"]?["code"]?.text == "link_taken")
    let job = bench.act([
      "action": "update_properties", "properties": ["slug": "one"], "filter": ["source": "local", "type": "acme.page"],
    ])
    #expect(job["errors"]?.array?.map { $0["code"]?.text } == ["link_taken"])
    // Held in the bin too; empty values are no links.
    expect(bench.delete(first.id), 200)
    isTaken(page("one"))
    expect(bench.restore(first.id), 200)
    for _ in 0..<2 { expect(page(""), 201) }
    // Cleared, and moved out of the type, it is free.
    let version = bench.read(first.id).version ?? 0
    expect(bench.patch(first.id, version, ["properties_mode": "replace", "properties": ["body": "b"]]), 200)
    let third = page("one")
    expect(third, 201)
    expect(bench.patch(third.id, 1, ["retype": true, "type": "core.note"]), 200)
    let fourth = page("one")
    expect(fourth, 201)
    // A keep-both copy gets neither natural key nor link.
    expect(bench.patch(fourth.id, 1, ["source_id": "fourth"]), 200)
    expect(bench.patch(fourth.id, 2, ["properties": ["body": "theirs"]]), 200)
    let resolved = bench.patch(fourth.id, 2, ["properties": ["body": "mine"]], "?conflict=auto")
    expect(resolved, 200)
    let copy = bench.read(resolved.json["conflict_resolution"]?["conflicted_copy_id"]?.text?.string ?? "")
    #expect(copy.properties == ["body": "mine"] && copy.item["source_id"] == nil)
    // Where the type requires the link, the conflict stays.
    let strict = page("s", type: "acme.strict")
    expect(bench.patch(strict.id, 1, ["properties": ["body": "theirs"]]), 200)
    expect(
      bench.patch(strict.id, 1, ["properties": ["body": "mine"]], "?conflict=auto"), 409, "version_conflict")
  }

  @Test("V-S58 a type whose link is required, itself or by its parent, keeps the conflict")
  func requiredLink() {
    let child: JSON = ["id": "acme.child", "parent": "acme.strict", "link_field": "slug", "fields": [:]]
    expect(bench.send("POST", "/types", child), 201)
    for type in ["acme.strict", "acme.child"] as [JSON] {
      let made = page("s", type: type)
      expect(bench.patch(made.id, 1, ["properties": ["body": "theirs"]]), 200)
      let count = bench.count()
      expect(bench.patch(made.id, 1, ["properties": ["body": "mine"]], "?conflict=auto"), 409, "version_conflict")
      #expect(bench.read(made.id).properties["body"]?.text == "theirs")
      #expect(bench.count() == count)
    }
  }

  func lookUp(_ selector: JSON, type: JSON = "acme.page", key: String? = nil) -> [JSON] {
    var body = JSONObject([(Text("type"), type)])
    for (name, value) in selector.object?.members ?? [] { body[name] = value }
    return bench.send("POST", "/items/lookup", .object(body), key: key).json["tombstones"]?.array ?? []
  }

  func settle(_ body: JSON, key: String? = nil) -> Answer {
    bench.send("POST", "/items/tombstones", body, key: key)
  }

  @Test("I-S154 purges leave tombstones by type, cleared when held again or registered anew, settled later only")
  func tombstones() throws {
    func purge(_ slug: JSON, _ key: JSON) {
      let made = page(slug, ["source_id": key])
      expect(bench.delete(made.id), 200)
      expect(bench.purge(made.id), 200)
    }
    purge("one", "k1")
    let two = page("two", ["source_id": "k2"]).id
    expect(bench.delete(two), 200)
    let filter: JSON = ["type": "acme.page", "state": "trashed"]
    #expect(bench.act(["action": "purge", "confirm": "PURGE", "filter": filter])["succeeded"]?.int == 1)
    let links: JSON = ["links": ["two", "none", "one"]]
    let keys: JSON = ["source": "local", "source_ids": ["k2", "k1"]]
    #expect(lookUp(links).map { $0["key"]?.text } == ["two", "one"])
    #expect(lookUp(keys).map { $0["key"]?.text } == ["k2", "k1"])
    #expect(lookUp(links).allSatisfy { $0["purged_at"] == $0["settled_at"] })
    #expect(lookUp(["source": "local", "source_ids": ["k1"]], type: "acme.strict").isEmpty)
    #expect(lookUp(["source": "other", "source_ids": ["k1"]]).isEmpty)
    // Held again, by a link or a natural key.
    let again = page("one", ["source_id": "k2"])
    #expect(lookUp(links).map { $0["key"]?.text } == ["two"])
    #expect(lookUp(keys).map { $0["key"]?.text } == ["k1"])
    expect(bench.patch(again.id, 1, ["source_id": "k1", "properties": ["slug": "two"]]), 200)
    #expect(lookUp(links).isEmpty && lookUp(keys).isEmpty)
    // Settled: later only, in the order named, for writers and claimed sources.
    purge("three", "k3")
    purge("four", "k4")
    let later: JSON = [
      "type": "acme.page", "source": "local", "source_ids": ["k4", "none", "k3"],
      "settled_at": "2099-01-01T00:00:00+01:00",
    ]
    let settled = settle(later)
    expect(settled, 200)
    #expect(settled.json["tombstones"]?.array?.map { $0["key"]?.text } == ["k4", "k3"])
    let time: Text = "2098-12-31T23:00:00.000Z"
    #expect(settled.json["tombstones"]?.array?.allSatisfy { $0["settled_at"]?.text == time } == true)
    let earlier = settle(["type": "acme.page", "links": ["three"], "settled_at": "2001-01-01"])
    let three = earlier.json["tombstones"]?.array?.first
    #expect(three?["settled_at"] == three?["purged_at"])
    _ = settle([
      "type": "acme.page", "source": "local", "source_ids": ["k3"], "settled_at": "2050-01-01",
    ])
    #expect(lookUp(["source": "local", "source_ids": ["k3"]]).first?["settled_at"]?.text == time)
    let reader = try bench.mint("r", types: ["acme.page": "read"], sources: ["local"])
    expect(settle(later, key: reader.token), 403, "type_not_permitted")
    let foreign = settle(later, key: try bench.mint("f").token)
    expect(foreign, 403, "forbidden")
    #expect(foreign.details == ["source": "local"])
    // Another link takes the links' tombstones; registering anew takes all.
    let fields: JSON = ["slug": ["type": "string"], "body": ["type": "string"], "other": ["type": "string"]]
    expect(bench.send("PUT", "/types/acme.page", ["link_field": "other", "fields": fields]), 200)
    #expect(lookUp(["links": ["three", "four"]]).isEmpty)
    #expect(lookUp(["source": "local", "source_ids": ["k3", "k4"]]).count == 2)
    expect(bench.send("DELETE", "/types/acme.page?force=true"), 200)
    expect(bench.send("POST", "/types", ["id": "acme.page", "link_field": "slug", "fields": fields]), 201)
    #expect(lookUp(["source": "local", "source_ids": ["k3", "k4"]]).isEmpty)
  }
}

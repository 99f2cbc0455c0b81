import LocalInstance
import MarfaBase
import Testing

@Suite("Filters")
struct FilterScenarioTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  func encoded(_ text: String) -> String {
    var out = ""
    for byte in text.utf8 {
      if (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2E {
        out.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        let digits = Array("0123456789ABCDEF")
        out += "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
      }
    }
    return out
  }

  func filtered(_ filter: String, _ more: String = "", key: String? = nil) -> Answer {
    bench.send("GET", "/items?filter=\(encoded(filter))\(more)", key: key)
  }

  func search(_ q: String, _ more: String = "") -> [String] {
    bench.instance.tick()
    let answer = bench.send("GET", "/search?q=\(encoded(q))\(more)")
    expect(answer, 200)
    return answer.data.compactMap { $0["item"]?.string("id") }
  }

  @Test("SF-S1 an undeclared key is named on every operation, after 401 and the standing 403; _ is ignored")
  func undeclared() {
    let id = bench.noteID()
    let nothing = bench.mint([:])
    let reads = [
      "/items", "/items/\(id)", "/items/stats", "/items/\(id)/edges", "/items/\(id)/backrefs", "/edges", "/search",
    ]
    for door in reads {
      let wanted = door == "/search" ? "q=a&" : ""
      let refused = bench.send("GET", "\(door)?\(wanted)colour=red&limit=x&type=%21")
      expect(refused, 400, "validation_error")
      #expect(refused.details?["unknown_parameters"]?.array?.contains("colour") ?? false)
      expect(bench.send("GET", "\(door)?\(wanted)_colour=red"), 200)
      expect(bench.send("GET", "\(door)?colour=red", key: ""), 401, "unauthorized")
      expect(bench.send("GET", "\(door)?colour=red", key: nothing), 403, "type_not_permitted")
    }
    let body: JSON = ["type": "core.note", "ids": [.string(id)]]
    #expect(bench.send("POST", "/items/lookup?colour=red", body).details?["unknown_parameters"] == ["colour"])
    expect(bench.send("POST", "/items/lookup?_colour=red", body), 200)
    expect(bench.send("POST", "/items/lookup?colour=red", body, key: ""), 401, "unauthorized")
    expect(bench.send("POST", "/items/lookup?colour=red", body, key: nothing), 403, "type_not_permitted")
  }

  @Test("SF-S2 an edge parameter is unknown to search")
  func edgeOnSearch() {
    let refused = bench.send("GET", "/search?q=a&edge%5Babout%5D=\(bench.newID())")
    expect(refused, 400, "validation_error")
    #expect(refused.details?["unknown_parameters"] == ["edge[about]"])
  }

  @Test("SF-S4 a parent lists its subtypes; core.* takes declared children outside the namespace")
  func subtypes() {
    expect(bench.send("POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:]]), 201)
    expect(bench.send("POST", "/types", ["id": "acme.deal", "fields": [:]]), 201)
    let note = bench.noteID()
    let memo = bench.made("acme.memo", ["body": "m"]).id
    let deal = bench.made("acme.deal", ["a": 1]).id
    #expect(Set(bench.ids("/items?type=core.note")) == [note, memo])
    #expect(Set(bench.ids("/items?type=core.*")) == [note, memo])
    #expect(Set(bench.ids("/items?type=acme.*")) == [memo, deal])
    #expect(bench.ids("/items?type=none.*") == [])
  }

  @Test("SF-S5 an unregistered type, an unreadable one, an unreadable parent with a readable child")
  func unreadable() {
    expect(bench.send("POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:]]), 201)
    _ = bench.noteID()
    let memo = bench.made("acme.memo", ["body": "m"]).id
    expect(bench.send("GET", "/items?type=acme.none"), 400, "unknown_type")
    let tasks = bench.mint(["core.task": "read"])
    let refused = bench.send("GET", "/items?type=core.note", key: tasks)
    expect(refused, 403, "type_not_permitted")
    #expect(refused.details?["grant"] == ["kind": "type", "name": "core.note", "level": "read"])
    #expect(bench.ids("/items?type=core.note", key: bench.mint(["acme.memo": "read"])) == [memo])
  }

  @Test("SF-S6 system rows are listed only where they are asked for")
  func system() {
    let folder = bench.folder()
    let note = bench.noteID()
    #expect(bench.ids("/items") == [note])
    #expect(bench.ids("/items?type=system.folder") == [folder])
    #expect(bench.ids("/items?type=system.*") == [folder])
    #expect(Set(bench.ids("/items?include=system")) == [folder, note])
  }

  @Test("SF-S7 the states a listing, a search and stats count")
  func states() {
    let active = bench.noteID("apple one")
    let archived = bench.noteID("apple two", ["state": "archived"])
    let binned = bench.noteID("apple three")
    bench.trash(binned)
    #expect(bench.ids("/items") == [active])
    #expect(Set(bench.ids("/items?state=any")) == [active, archived, binned])
    #expect(bench.ids("/items?state=trashed") == [binned])
    expect(bench.send("GET", "/items?state=gone"), 400, "validation_error")
    #expect(search("apple") == [active])
    #expect(Set(search("apple", "&state=any")) == [active, archived])
    let stats = bench.send("GET", "/items/stats").json
    for state in ["active", "archived", "trashed"] { #expect(stats.compact.contains("\"\(state)\":1")) }
  }

  @Test("SF-S9 an item without its own time counts by its creation")
  func ownTime() {
    let dated = bench.noteID("a", ["occurred_at": "2020-01-01"])
    let undated = bench.note("b")
    let id = undated.string("id") ?? ""
    #expect(bench.ids("/items?occurred_before=2021") == [dated])
    #expect(bench.ids("/items?occurred_after=2021") == [id])
    let made = undated.string("created_at") ?? ""
    #expect(bench.ids("/items?occurred_after=\(made)") == [])
  }

  @Test("SF-S10 bounds that meet an item's time; one instant in three spellings")
  func bounds() {
    let item = bench.note("a", ["occurred_at": "2026-03-01T10:00:00Z"])
    let id = item.string("id") ?? ""
    for same in ["2026-03-01T10:00:00.000Z", "2026-03-01T12:00:00%2B02:00", "2026-03-01T10:00"] {
      #expect(bench.ids("/items?occurred_after=\(same)") == [])
      #expect(bench.ids("/items?occurred_before=\(same)") == [])
    }
    for spelling in ["2026-03-01T09:59:59.999Z", "2026-03-01T11:59:59.999%2B02:00", "2026-03-01T04:59:59.999-05:00"] {
      #expect(bench.ids("/items?occurred_after=\(spelling)") == [id])
    }
    let updated = item.string("updated_at") ?? ""
    #expect(bench.ids("/items?updated_after=\(updated)") == [id])
    #expect(bench.ids("/items?updated_before=\(updated)") == [])
  }

  @Test("SF-S11 bounds that are a day, a month, a year, or a time without a zone")
  func spellings() {
    let start = bench.noteID("a", ["occurred_at": "2026-03-01T00:00:00.000Z"])
    let later = bench.noteID("b", ["occurred_at": "2026-03-01T10:00:00.001Z"])
    #expect(Set(bench.ids("/items?occurred_after=2026-02-28T23:59:59.999Z")) == [start, later])
    for bound in ["2026-03-01", "2026-03"] {
      #expect(bench.ids("/items?occurred_after=\(bound)&occurred_before=2027") == [later])
    }
    #expect(bench.ids("/items?occurred_before=2026-03-01") == [])
    #expect(bench.ids("/items?occurred_before=2026-03-01T10:00:00") == [start])
    #expect(Set(bench.ids("/items?occurred_after=2026&occurred_before=2027")) == [start, later])
    for bad in ["yesterday", "2026-02-30", ""] {
      let refused = bench.send("GET", "/items?occurred_after=\(bad)")
      expect(refused, 400, "validation_error")
      #expect(refused.path == "occurred_after")
    }
  }

  @Test("updated_after forces its order: any other beside it is refused")
  func forcedOrder() {
    let ids = (0..<3).map { bench.noteID("n\($0)") }
    expect(bench.patch(ids[0], 1, ["properties": ["body": "x"]]), 200)
    #expect(bench.ids("/items?updated_after=2000") == [ids[1], ids[2], ids[0]])
    for bad in ["sort=created_at", "direction=desc", "sort=updated_at&direction=desc"] {
      expect(bench.send("GET", "/items?updated_after=2000&\(bad)"), 400, "validation_error")
    }
    #expect(bench.ids("/items?updated_after=2000&sort=updated_at&direction=asc&limit=1") == [ids[1], ids[2], ids[0]])
  }

  @Test("SF-S17 included edges are 50 and a cursor that continues")
  func includedEdges() {
    let id = bench.noteID()
    for _ in 0..<51 { expect(bench.edge(id, "about", bench.noteID()), 201) }
    let row = bench.send("GET", "/items?include=edges&limit=200").data.first { $0.string("id") == id }
    let block = row?["edges"]?["about"]
    #expect(block?["data"]?.array?.count == 50)
    let rest = bench.send(
      "GET", "/items/\(id)/edges?edge_type=about&cursor=\(block?.string("next_cursor") ?? "")")
    #expect(rest.data.count == 1)
    #expect(Set(((block?["data"]?.array ?? []) + rest.data).map { $0.string("id") }).count == 51)
  }

  @Test("SF-S18 of 101 neighbors 100 are given, and it is said")
  func neighbors() {
    let id = bench.noteID()
    for _ in 0..<100 { expect(bench.edge(id, "about", bench.noteID()), 201) }
    let whole = bench.send("GET", "/items/\(id)?include=neighbors").json
    #expect(whole["neighbors"]?.array?.count == 100)
    #expect(whole["neighbors_truncated"]?.bool == false)
    expect(bench.edge(id, "about", bench.noteID()), 201)
    let cut = bench.send("GET", "/items/\(id)?include=neighbors").json
    #expect(cut["neighbors"]?.array?.count == 100)
    #expect(cut["neighbors_truncated"]?.bool == true)
    #expect(cut["neighbors_omitted"]?.int != nil)
  }

  @Test("SF-S20 a filter has at most 2,048 UTF-16 units; an emoji is two")
  func length() {
    let open = "properties.body eq \""
    func filter(_ units: Int, emoji: Int = 0) -> String {
      let fill = units - open.utf16.count - 1 - emoji * 2
      return open + String(repeating: "a", count: fill) + String(repeating: "\u{1F35E}", count: emoji) + "\""
    }
    for emoji in [0, 400] {
      expect(filtered(filter(2048, emoji: emoji)), 200)
      let long = filtered(filter(2049, emoji: emoji))
      expect(long, 400, "validation_error")
      #expect(long.message.contains("too long (2049 characters). Maximum is 2048"))
    }
  }

  @Test("SF-S22 null is no value; the quoted word is a text")
  func null() {
    let named = bench.made("core.note", ["body": "a", "x": "null"]).id
    _ = bench.made("core.note", ["body": "a", "x": nil]).id
    let refused = filtered("properties.x eq null")
    expect(refused, 400, "validation_error")
    #expect(refused.message.contains("not_exists"))
    #expect(filtered("properties.x eq \"null\"").data.compactMap { $0.string("id") } == [named])
  }

  @Test("SF-S23 quoted texts: a quote mark, a lone backslash, one that is not closed")
  func quoted() {
    let says = bench.noteID("say \"hi\"")
    let slash = bench.noteID("a\\b")
    #expect(filtered("properties.body eq \"say \\\"hi\\\"\"").data.compactMap { $0.string("id") } == [says])
    #expect(filtered("properties.body eq \"a\\b\"").data.compactMap { $0.string("id") } == [slash])
    for bad in ["properties.body eq \"open", "properties.body eq \"ends\\\""] {
      expect(filtered(bad), 400, "validation_error")
    }
  }

  @Test("SF-S30 contains takes %, _ and \\ as themselves, ASCII letters in any case, others exactly")
  func contains() {
    let (percent, line, slash) = (bench.noteID("50% off"), bench.noteID("snake_case"), bench.noteID("a\\b"))
    _ = bench.noteID("50 off snakeXcase ab")
    for (sign, id) in [("%", percent), ("_", line), ("\\b", slash)] {
      #expect(filtered("properties.body contains \"\(sign)\"").data.compactMap { $0.string("id") } == [id])
    }
    let (upper, lower) = (bench.noteID("\u{C4}b"), bench.noteID("\u{C4}B"))
    _ = bench.noteID("\u{E4}B")
    #expect(
      Set(filtered("properties.body contains \"\u{C4}B\"").data.compactMap { $0.string("id") }) == [upper, lower])
  }

  @Test("SF-S31 a number looked for in text is spelled as JavaScript spells it")
  func numberWords() {
    let id = bench.noteID("15")
    let large = bench.noteID("it was 1e+21 grains")
    _ = bench.noteID("1000000000000000000000")
    #expect(filtered("properties.body contains 5").data.compactMap { $0.string("id") } == [id])
    #expect(
      filtered("properties.body contains 1000000000000000000000").data.compactMap { $0.string("id") } == [large])
  }

  @Test("SF-S37 a backref from an unreadable source does not count")
  func hiddenBackref() {
    let (seen, unseen) = (bench.noteID("seen"), bench.noteID("unseen"))
    let note = bench.noteID("n")
    expect(bench.edge(note, "about", seen), 201)
    expect(bench.edge(bench.task(), "about", unseen), 201)
    let notes = bench.mint(["core.note": "read"])
    #expect(filtered("backref[about] exists", key: notes).data.compactMap { $0.string("id") } == [seen])
    #expect(
      Set(filtered("backref[about] not_exists", key: notes).data.compactMap { $0.string("id") }) == [unseen, note])
    #expect(filtered("backref[about] exists").data.count == 2)
  }

  @Test("SF-S40 status_group selects by the group of the status word")
  func statusGroup() {
    let doing = bench.made("core.task", ["title": "a", "status": "in_progress"]).id
    let done = bench.made("core.task", ["title": "b", "status": "completed"]).id
    _ = bench.made("core.task", ["title": "c"])
    _ = bench.noteID()
    #expect(filtered("status_group eq \"in_progress\"").data.compactMap { $0.string("id") } == [doing])
    #expect(filtered("status_group neq \"in_progress\"").data.compactMap { $0.string("id") } == [done])
    for bad in ["status_group eq \"doing\"", "status_group exists", "status_group gt \"completed\""] {
      expect(filtered(bad), 400, "validation_error")
    }
  }

  @Test("SF-S50 words match across columns; a quoted phrase needs them adjacent in one")
  func phrases() {
    let split = bench.made("core.note", ["title": "Orange", "body": "marmalade for tea"]).id
    let whole = bench.made("core.note", ["title": "Tea", "body": "orange marmalade"]).id
    let apart = bench.made("core.note", ["title": "x", "body": "orange peel and marmalade"]).id
    #expect(Set(search("orange marmalade")) == [split, whole, apart])
    #expect(search("\"orange marmalade\"") == [whole])
    #expect(search("\"marmalade orange\"") == [])
  }

  @Test("SF-S52 a field that is not searchable does not match; made searchable, it does")
  func reindexed() {
    func type(_ searchable: Bool) -> JSON { ["fields": ["text": ["type": "string", "searchable": .bool(searchable)]]] }
    expect(
      bench.send("POST", "/types", ["id": "acme.s", "fields": ["text": ["type": "string", "searchable": false]]]), 201)
    let id = bench.made("acme.s", ["text": "quince"]).id
    #expect(search("quince") == [])
    expect(bench.send("PUT", "/types/acme.s", type(true)), 200)
    #expect(search("quince") == [id])
    expect(bench.send("PUT", "/types/acme.s", type(false)), 200)
    #expect(search("quince") == [])
  }

  @Test("SF-S55 lookup by source ids, ids and links")
  func lookup() {
    expect(
      bench.send(
        "POST", "/types", ["id": "acme.page", "fields": ["url": ["type": "string"]], "link_field": "url"]), 201)
    func look(_ body: JSON, key: String? = nil) -> Answer { bench.send("POST", "/items/lookup", body, key: key) }
    func ids(_ answer: Answer) -> [String] { answer.data.compactMap { $0.string("id") } }
    let made = (0..<3).map { bench.noteID("n\($0)", ["source_id": .string("k\($0)")]) }
    bench.trash(made[1])
    _ = bench.move(made[2], "archived")
    let bySource = look(["type": "core.note", "source": "local", "source_ids": ["k2", "k1", "none", "k0", "k2"]])
    expect(bySource, 200)
    #expect(ids(bySource) == [made[2], made[1], made[0]])
    let byID = look(["type": "core.note", "ids": [.string(made[1]), .string(bench.newID()), .string(made[0])]])
    #expect(ids(byID) == [made[1], made[0]])
    let page = bench.made("acme.page", ["url": "u"]).id
    #expect(ids(look(["type": "acme.page", "links": ["none", "u"]])) == [page])
    let many = look(["type": "core.note", "ids": .array((0..<501).map { _ in .string(bench.newID()) })])
    expect(many, 400, "validation_error")
    #expect(many.details?["cap"]?.int == 500 && many.details?["provided"]?.int == 501)
    for bad in [
      ["type": "core.note", "ids": ["x"], "links": ["y"]], ["type": "core.note"], ["type": "core.note", "ids": []],
      ["type": "core.note", "links": ["u"]], ["type": "core.*", "ids": [.string(made[0])]],
      ["type": "core.note", "ids": [.string(made[0])], "colour": 1],
    ] as [JSON] {
      expect(look(bad), 400, "validation_error")
    }
    expect(look(["ids": ["x"]]), 400, "missing_required_field")
    expect(look(["type": "core.note", "ids": ["x"]]), 400, "invalid_id")
    expect(look(["type": "acme.none", "ids": [.string(made[0])]]), 400, "unknown_type")
    let tasks = bench.mint(["core.task": "read"])
    expect(look(["type": "core.note", "ids": [.string(made[0])]], key: tasks), 403, "type_not_permitted")
    // A purged key is a tombstone for a reader of the type.
    expect(bench.purge(made[1]), 200)
    let after = look(["type": "core.note", "source": "local", "source_ids": ["k1", "k0"]])
    #expect(ids(after) == [made[0]])
    #expect(after.json["tombstones"]?.compact.contains("k1") ?? false, "\(after.json.compact)")
    expect(bench.send("POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:]]), 201)
    let memos = bench.mint(["acme.memo": "read"])
    let blind = look(["type": "core.note", "source": "local", "source_ids": ["k1"]], key: memos)
    #expect(blind.json["tombstones"]?.array?.isEmpty == true)
  }
}

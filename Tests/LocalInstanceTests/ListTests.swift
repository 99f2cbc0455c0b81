import LocalInstance
import MarfaBase
import Testing

@Suite("Lists, search and streams")
struct ListTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  func encoded(_ text: String) -> String {
    text.utf8.map { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        ? String(decoding: [byte], as: UTF8.self)
        : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }.joined()
  }

  func bodies(_ query: String) -> [String] {
    let answer = bench.send("GET", "/items?\(query)")
    expect(answer, 200)
    return answer.data.compactMap { ($0["properties"] ?? $0["item"]?["properties"])?["body"]?.text?.string }
  }

  func filtered(_ filter: String) -> [String] { bodies("direction=asc&filter=" + encoded(filter)) }

  @Test("SF-S3 SF-S8 SF-S15 SF-S16 keys, states, tags, pages")
  func plain() {
    for name in ["a", "b", "c"] { _ = bench.note(name, ["tags": ["x", .string(name)]]) }
    #expect(bodies("") == ["c", "b", "a"])
    #expect(bodies("tags=x,b") == ["b"])
    #expect(bodies("tags=B").isEmpty)
    for empty in ["type=", "tags=,", "source=%20", "filter="] {
      #expect(bench.send("GET", "/items?\(empty)").details?["empty_parameters"] != nil)
    }
    expect(bench.send("GET", "/items?state=gone"), 400, "validation_error")
    #expect(bench.send("GET", "/items?limit=3").json["next_cursor"]?.isNull == true)
    let page = bench.send("GET", "/items?limit=2")
    let cursor = page.json["next_cursor"]?.text?.string ?? ""
    #expect(bodies("limit=2&cursor=\(cursor)") == ["a"])
    expect(bench.send("GET", "/items?limit=2&direction=asc&cursor=\(cursor)"), 400, "validation_error")
    for limit in ["0", "201", "x"] { #expect(bench.send("GET", "/items?limit=\(limit)").path == "limit") }
    #expect(bench.send("GET", "/items?nope=1").details?["unknown_parameters"] == ["nope"])
    expect(bench.send("GET", "/items?_nope=1"), 200)
    #expect(bench.send("GET", "/items/stats").json == ["active": 3])
  }

  @Test("SF-S13 SF-S14 sorting by a property, in pages of one, both ways")
  func sorting() {
    let values: [(String, JSON?)] = [
      ("two", 2), ("true", true), ("b", "b"), ("empty", ""), ("null", .some(.null)), ("list", []), ("object", [:]),
      ("missing", .none),
    ]
    for (name, value) in values {
      var properties = JSONObject()
      properties["body"] = .string(name)
      if let value { properties["x"] = value }
      _ = bench.send("POST", "/items", ["type": "core.note", "properties": .object(properties)])
    }
    let tail = ["null", "list", "object", "missing"]
    for (direction, wanted) in [
      ("asc", ["true", "two", "empty", "b"] + tail), ("desc", ["b", "empty", "two", "true"] + tail),
    ] {
      #expect(bodies("sort=properties.x&direction=\(direction)") == wanted)
      var paged: [String] = []
      var cursor = ""
      for _ in 0..<20 {
        let answer = bench.send(
          "GET", "/items?sort=properties.x&direction=\(direction)&limit=1" + (cursor.isEmpty ? "" : "&cursor=\(cursor)")
        )
        paged += answer.data.compactMap { $0["properties"]?["body"]?.text?.string }
        guard let next = answer.json["next_cursor"]?.text?.string else { break }
        cursor = next
      }
      #expect(paged == wanted)
    }
    expect(bench.send("GET", "/items?updated_after=2026&sort=created_at"), 400, "validation_error")
    expect(bench.send("GET", "/items?updated_after=2026&direction=desc"), 400, "validation_error")
  }

  @Test("SF-S19 SF-S21 what the grammar refuses")
  func grammar() {
    for bad in [
      "state eq active", "state eq \"active\" and tier eq \"feed\"", "tags eq \"x\"", "id exists", "edge[] exists",
      "edge[x]exists", "-x eq 1", "state eq \"a\" AND", "(state eq \"a\")", "state eq\n\"a\"", "properties.a gt",
      "unknown eq 1", (0..<11).map { _ in "version eq 1" }.joined(separator: " AND "),
      "version eq 1 AND version eq 2 OR version eq 3", "properties.x eq null", "properties.a.b eq 1",
      "properties.x eq \"open", "created_at eq 5", "created_at eq \"soon\"",
    ] {
      expect(bench.send("GET", "/items?filter=" + encoded(bad)), 400, "validation_error")
    }
    expect(
      bench.send("GET", "/items?filter=" + encoded((0..<10).map { _ in "version eq 1" }.joined(separator: " OR "))), 200
    )
  }

  @Test("SF-S25 SF-S26 SF-S27 SF-S28 SF-S29 SF-S32 values of properties")
  func values() throws {
    for (name, text) in [
      ("one", "1"), ("oneAndNothing", "1.0"), ("oneText", "\"1\""), ("big", "9007199254740992"),
      ("bigger", "9007199254740993"), ("true", "true"), ("trueText", "\"true\""), ("ten", "\"10\""),
      ("abc", "\"abc\""), ("fifteen", "\"15\""), ("percent", "\"a%b\""), ("list", "[1e20,0.0000015]"), ("null", "null"),
      ("umlaut", "\"\u{C4}B\""), ("long", "\"" + String(repeating: "q", count: 300) + "\""),
    ] {
      let value = try JSON(parsing: text)
      _ = bench.send("POST", "/items", ["type": "core.note", "properties": ["body": .string(name), "x": value]])
    }
    #expect(filtered("properties.x eq 1") == ["one", "oneAndNothing", "true"])
    #expect(filtered("properties.x eq true") == ["one", "oneAndNothing", "true"])
    #expect(filtered("properties.x eq 9007199254740993") == ["big", "bigger"])
    #expect(!filtered("properties.x neq 1").contains("null"))
    #expect(filtered("properties.x neq 1").contains("oneText"))
    #expect(filtered("properties.x not_exists") == ["null"])
    #expect(filtered("properties.x gt 4") == ["big", "bigger", "ten", "fifteen", "list"].filter { $0 != "list" })
    #expect(filtered("properties.x lt 1") == ["trueText", "abc", "percent", "list", "umlaut", "long"])
    #expect(filtered("properties.x contains \"%\"") == ["percent"])
    #expect(filtered("properties.x contains \"\u{C4}b\"") == ["umlaut"])
    #expect(filtered("properties.x contains \"\u{E4}b\"").isEmpty)
    #expect(filtered("properties.x contains 5").contains("fifteen"))
    #expect(filtered("properties.x eq \"[100000000000000000000,0.0000015]\"") == ["list"])
    #expect(filtered("properties.x eq \"" + String(repeating: "q", count: 300) + "\"") == ["long"])
  }

  @Test("SF-S33 SF-S34 SF-S35 SF-S36 SF-S39 system fields, tags and edges")
  func systemFields() {
    let a = bench.noteID("five", ["source_id": "5"])
    let b = bench.noteID("fiveReal", ["source_id": "5.0", "tags": ["ab"]])
    let c = bench.noteID("none", ["tags": ["a"], "occurred_at": "2026-03-01T10:00:00.000Z"])
    #expect(filtered("source_id eq 5") == ["fiveReal"])
    #expect(filtered("occurred_at eq \"2026-03-01T12:00:00+02:00\"") == ["none"])
    #expect(filtered("occurred_at starts_with \"2026-03\"") == ["none"])
    #expect(filtered("tags contains \"a\"") == ["none"])
    _ = bench.edge(a, "about", c)
    _ = bench.edge(b, "about", a)
    #expect(filtered("edge[about] eq \"\(c)\"") == ["five"])
    #expect(filtered("edge[about] neq \"\(c)\"") == ["fiveReal", "none"])
    #expect(filtered("edge[about] not_exists") == ["none"])
    #expect(filtered("backref[about] exists") == ["five", "none"])
    #expect(bodies("edge%5Babout%5D=\(c)") == ["five"])
    expect(
      bench.send("GET", "/items?edge%5Babout%5D=\(c)&filter=" + encoded("version eq 1 OR version eq 2")), 400,
      "validation_error")
  }

  @Test("SF-S47 SF-S48 SF-S49 SF-S51 SF-S53 SF-S54 I-S156 search")
  func search() {
    func found(_ words: String) -> [String] {
      bench.send("GET", "/search?q=" + encoded(words)).data.compactMap {
        $0["item"]?["properties"]?["body"]?.text?.string
      }
    }
    expect(bench.send("GET", "/search"), 400, "missing_required_field")
    expect(bench.send("GET", "/search?q="), 400, "validation_error")
    expect(bench.send("GET", "/search?q=%00"), 400, "validation_error")
    #expect(found("  ").isEmpty)
    let id = bench.noteID("running late")
    _ = bench.noteID("runner late")
    _ = bench.noteID("Caf\u{E9} marmalade <b>")
    #expect(found("run late") == ["running late"])
    #expect(found("cafe mar") == ["Caf\u{E9} marmalade <b>"])
    #expect(found("mar cafe").isEmpty)
    #expect(found("\"running late\"") == ["running late"])
    for odd in ["AND", "*", "title:x", "-x", "\"", "a\"b", "NEAR(a b)"] { _ = found(odd) }
    let hit = bench.send("GET", "/search?q=marmalade").data.first
    #expect(hit?["snippet_html"]?.text?.string == "Caf\u{E9} <mark>marmalade</mark> &lt;b&gt;")
    #expect((hit?["relevance_score"]?.number?.double ?? 0) > 0)
    _ = bench.send("DELETE", "/items/\(id)")
    #expect(found("running late").isEmpty)
    _ = bench.send("POST", "/items/\(id)/restore")
    #expect(found("running late") == ["running late"])
  }

  @Test("EV-S1 EV-S14 EV-S15 EV-S27 EV-S33 opening, cursors, frames")
  func streams() {
    let live = bench.send("GET", "/events")
    #expect(live.text().hasPrefix(": connected\n\nevent: stream_cursor\n"))
    let id = bench.noteID("one")
    _ = bench.send("PATCH", "/items/\(id)", ["version": 1, "properties": ["body": "two"]])
    _ = bench.send("POST", "/items/\(id)/tags", ["tags": ["t"]])
    _ = bench.send("POST", "/items/\(id)/transition", ["state": "archived"])
    _ = bench.send("DELETE", "/items/\(id)")
    _ = bench.send("POST", "/items/\(id)/restore")
    _ = bench.send("DELETE", "/items/\(id)")
    _ = bench.send("POST", "/items/\(id)/purge")
    let seen = live.frames()
    #expect(
      seen.map(\.kind) == [
        "item.created", "item.updated", "metadata.changed", "item.state_changed", "item.deleted", "item.restored",
        "item.deleted", "item.purged",
      ])
    #expect(seen.prefix(2).map { $0.data["item"]?["properties"]?["body"]?.text } == ["one", "two"])
    #expect(
      seen.map { $0.data["item"]?["state"]?.text?.string ?? "" }.prefix(6) == [
        "active", "active", "active", "archived", "trashed", "active",
      ])
    let replayed = bench.events()
    #expect(replayed.map(\.data) == seen.map(\.data))
    #expect(bench.events(after: 3).first?.id == 4)
    func opened(_ query: String, _ headers: [HTTPHeader] = []) -> Answer {
      bench.send("GET", "/events\(query)", headers: headers)
    }
    for bad in ["-1", "+1", "01", "1.0", "1e3", " 1", "9223372036854775808", "abc"] {
      #expect(opened("", [HTTPHeader("Last-Event-ID", bad)]).path == "Last-Event-ID")
    }
    let ahead = opened("", [HTTPHeader("Last-Event-ID", "99")])
    #expect(ahead.frames().map(\.kind) == ["stream_cursor", "cursor_ahead"])
    #expect(ahead.source?.take() == nil)
    #expect(opened("?x=1").details?["unknown_parameters"] == ["x"])
    expect(opened("?edges=some"), 400, "validation_error")
    expect(opened("?type=*"), 400, "validation_error")
    expect(opened("?type=acme.none"), 400, "unknown_type")
    let none = opened("?edges=none", [HTTPHeader("Last-Event-ID", "0")])
    #expect(none.frames().allSatisfy { !$0.kind.hasPrefix("edge.") })
  }

  @Test("EV-S17 EV-S20 EV-S40 retention and heartbeats")
  func retention() throws {
    for _ in 0..<3 { _ = bench.noteID() }
    bench.clock.advance(seconds: 169 * 3600)
    try bench.instance.sweep()
    #expect(bench.events(after: 2).map(\.id) == [3])
    let old = bench.send("GET", "/events", headers: [HTTPHeader("Last-Event-ID", "1")])
    let frames = old.frames()
    #expect(frames.map(\.kind) == ["stream_cursor", "catchup_too_old"])
    #expect(frames.last?.data["min_retained_id"]?.text == "3")
    let live = bench.send("GET", "/events")
    _ = live.text()
    bench.clock.advance(seconds: 31)
    bench.instance.tick()
    #expect(live.text() == ":ping\n\n")
    bench.instance.stop()
    #expect(live.frames().last?.data["reason"]?.text == "server_stopping")
  }

  @Test("RV-S1 RV-S4 RV-S5 RV-S12 the copy stream and conditional reads")
  func views() {
    let copy = bench.send("GET", "/events?edges=all&copy=1")
    let opening = copy.frames()
    #expect(opening.map(\.kind) == ["stream_cursor", "stream_live"])
    #expect(opening.first?.data.object?.count == 4)
    let view = opening.first?.data["read_view"]?.text?.string ?? ""
    #expect(view.utf8.count == 64)
    let header = [HTTPHeader("X-Marfa-Read-View", view)]
    let id = bench.noteID()
    #expect(copy.frames().first?.data["listed"]?.bool == true)
    let page = bench.send("GET", "/items?include=metadata", headers: header)
    #expect(page.response.header("X-Marfa-Read-View") == view)
    #expect(page.response.header("Cache-Control") == "no-store")
    #expect(page.data.first?["listed"]?.bool == true)
    expect(bench.send("GET", "/items", headers: header), 400, "validation_error")
    #expect(bench.send("GET", "/items/\(id)", headers: header).json["listed"]?.bool == true)
    let missing = bench.send("GET", "/items/\(bench.ids.next())", headers: header)
    expect(missing, 404, "item_not_found")
    #expect(missing.response.header("X-Marfa-Read-View") == view)
    #expect(bench.send("GET", "/edges/\(id)", headers: header).response.header("X-Marfa-Read-View") == view)
    for door in ["/types", "/edge-types", "/edges", "/keys/current", "/items/\(id)/edges"] {
      #expect(bench.send("GET", door, headers: header).response.header("X-Marfa-Read-View") == view)
    }
    for door in ["/search?q=a", "/nowhere", "/items/stats"] {
      #expect(bench.send("GET", door, headers: header).status == 400)
    }
    let write = bench.send("POST", "/items", ["type": "core.note", "properties": ["body": "x"]], headers: header)
    expect(write, 201)
    #expect(write.response.header("X-Marfa-Read-View") == nil)
    for (query, headers) in [
      ("?edges=all&copy=1", [HTTPHeader("Last-Event-ID", "0")]), ("?edges=all&copy=1", header),
      ("?edges=all&copy=2", []), ("?copy=1", []), ("?edges=none&copy=1", []), ("?edges=all&copy=1&type=core.note", []),
    ] {
      expect(bench.send("GET", "/events\(query)", headers: headers), 400, "validation_error")
    }
    func resume(_ view: String, _ cursor: String) -> Answer {
      bench.send(
        "GET", "/events?edges=all&copy=1",
        headers: [HTTPHeader("Last-Event-ID", cursor), HTTPHeader("X-Marfa-Read-View", view)])
    }
    #expect(resume(view, "0").frames().last?.kind == "stream_live")
    #expect(resume(view, "9").frames().map(\.kind) == ["stream_cursor", "cursor_ahead"])
    expect(bench.send("PATCH", "/items/\(id)", ["version": 1, "tier": "feed"]), 200)
    _ = copy.frames()
    expect(
      bench.send(
        "PATCH", "/items/\(id)", ["version": 2, "type": "core.task", "retype": true, "properties": ["title": "t"]]), 200
    )
    #expect(copy.frames().map(\.kind) == ["read_view_changed"])
    #expect(copy.source?.take() == nil)
    let changed = resume(view, "0")
    #expect(changed.status == 409)
    #expect(
      String(decoding: changed.response.body, as: UTF8.self)
        == "{\"error\":{\"code\":\"read_view_changed\",\"message\":\"The read view changed. Rebuild the working copy.\"}}"
    )
  }

  @Test("B-S1 B-S4 blobs")
  func blobs() {
    func upload(_ bytes: [UInt8], _ type: String?) -> Answer {
      bench.send("POST", "/blobs", headers: type.map { [HTTPHeader("Content-Type", $0)] } ?? [], raw: bytes)
    }
    let bytes = Array("hello, bytes".utf8)
    let made = upload(bytes, "Image/PNG; charset=x")
    expect(made, 201)
    #expect(made.json["mime_type"]?.text == "Image/PNG")
    #expect(upload(bytes, nil).json["mime_type"]?.text == "Image/PNG")
    expect(upload([], nil), 400, "validation_error")
    expect(upload(bytes, "multipart/form-data"), 400, "validation_error")
    let hash = made.json["hash"]?.text?.string ?? ""
    expect(bench.send("GET", "/blobs/\(hash)"), 404, "blob_not_found")
    let file = bench.send(
      "POST", "/items",
      ["type": "core.file", "properties": ["blob_ref": .string(hash), "mime_type": "image/png", "size_bytes": 1]])
    #expect(file.item["properties"]?["size_bytes"]?.int == bytes.count)
    let whole = bench.send("GET", "/blobs/\(hash)")
    #expect(whole.response.body == bytes)
    #expect(whole.response.header("ETag") == "\"\(hash)\"")
    func ranged(_ range: String) -> Answer {
      bench.send("GET", "/blobs/\(hash)", headers: [HTTPHeader("Range", range)])
    }
    #expect(ranged("bytes=0-4").response.header("Content-Range") == "bytes 0-4/12")
    #expect(ranged("bytes=5-").response.body == Array(bytes[5...]))
    #expect(ranged("bytes=0-999999").status == 206)
    expect(ranged("bytes=12-"), 416, "range_not_satisfiable")
    #expect(ranged("bytes=-5").status == 200)
    expect(bench.send("GET", "/blobs/\(hash.uppercased())"), 400, "validation_error")
    let link = bench.send("GET", "/blobs/\(hash)/url")
    #expect(link.json["expires_in"]?.int == 3600)
    let url = link.json["url"]?.text?.string ?? ""
    let target = "/blobs" + (url.components(separatedBy: "/blobs").last ?? "")
    #expect(bench.send("GET", target, key: "").response.body == bytes)
    expect(bench.send("GET", target + "x", key: ""), 401, "unauthorized")
    expect(bench.send("GET", "/blobs/\(hash)/url?ttl=0"), 400, "validation_error")
    bench.clock.advance(seconds: 3601)
    expect(bench.send("GET", target, key: ""), 401, "unauthorized")
    expect(
      bench.send(
        "POST", "/items",
        ["type": "core.file", "properties": ["blob_ref": .string(hash), "mime_type": "x", "size_bytes": "12"]]), 400,
      "invalid_properties")
  }

  @Test("K-S3 K-S4 K-S6 keys and what they reach")
  func keys() throws {
    expect(bench.send("GET", "/items", key: "marfa_k1_unknown"), 401, "unauthorized")
    #expect(bench.send("GET", "/keys/current").json["type_permissions"] == ["*": "write"])
    var spec = KeySpec(label: "narrow", source: "narrow")
    let map: JSON = ["core.*": "write", "core.note": "none", "core.message": "read"]
    spec.types = map.object ?? JSONObject()
    let (id, key) = try bench.instance.mintKey(spec)
    let note = bench.noteID()
    let unknown = bench.ids.next()
    let hidden = bench.send("GET", "/items/\(note)", key: key)
    expect(hidden, 404, "item_not_found")
    #expect(hidden.response.body == bench.send("GET", "/items/\(unknown)", key: key).response.body)
    expect(bench.send("POST", "/items", ["type": "core.task", "properties": ["title": "t"]], key: key), 201)
    let message = bench.send("POST", "/items", ["type": "core.message", "properties": ["body": "m", "from": "f"]])
    let refused = bench.send("PATCH", "/items/\(message.id)", ["version": 1, "properties": [:]], key: key)
    expect(refused, 403, "type_not_permitted")
    #expect(refused.details?["grant"] == ["kind": "type", "name": "core.message", "level": "write"])
    #expect(bench.send("GET", "/items", key: key).data.count == 2)
    let (_, nothing) = try bench.instance.mintKey(KeySpec(label: "n", source: "nothing"))
    for door in ["/items", "/edges", "/search?q=a", "/events", "/blobs/x"] {
      expect(bench.send("GET", door, key: nothing), 403, "type_not_permitted")
    }
    let stream = bench.send("GET", "/events", key: key)
    _ = stream.text()
    try bench.instance.revokeKey(id)
    #expect(stream.frames().last?.data["reason"]?.text == "credential_ended")
    expect(bench.send("GET", "/items", key: key), 401, "unauthorized")
    bench.instance.settings.requestsPerMinute = 3
    for _ in 0..<3 { expect(bench.send("GET", "/items"), 200) }
    let limited = bench.send("GET", "/items")
    expect(limited, 429, "rate_limited")
    #expect(limited.response.header("Retry-After") != nil)
  }
}

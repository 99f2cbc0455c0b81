import Glibc
import LocalInstance
import MarfaBase
import Testing

@Suite("Properties and tags of items")
struct ItemPropertyTests {
  let bench: Bench

  init() throws { bench = try Bench() }

  @Test("I6.7 null is no value of a member that names none")
  func nulls() {
    for name in [
      "id", "source", "source_id", "tier", "state", "occurred_at", "capture_latitude", "capture_longitude", "version",
    ] as [Text] {
      let refused = bench.create("core.note", ["body": "b"], .object(JSONObject([(name, JSON.null)])))
      expect(refused, 400, "validation_error")
      #expect(refused.path == name.string)
    }
    let id = bench.noteID()
    for name in ["tier", "source_id", "type", "properties_mode"] as [Text] {
      let members: [(Text, JSON)] = [("version", 1), ("properties", ["body": "c"]), (name, .null)]
      expect(bench.send("PATCH", "/items/\(id)", .object(JSONObject(members))), 400, "validation_error")
    }
    expect(bench.send("PATCH", "/items/\(id)", ["version": 1, "occurred_at": .null]), 200)
    let other = bench.noteID()
    for name in ["id", "properties"] as [Text] {
      let members: [(Text, JSON)] = [
        ("source_id", .string(id)), ("target_id", .string(other)), ("edge_type", "about"), (name, .null),
      ]
      expect(bench.send("POST", "/edges", .object(JSONObject(members))), 400, "validation_error")
    }
    let edge = bench.edge(id, "about", other).id
    expect(bench.send("PATCH", "/edges/\(edge)", ["version": 1, "source_id": .null]), 400, "validation_error")
  }

  @Test("T106 a zone is one the machine's database names, whatever its shape")
  func zones() {
    func event(_ zone: String) -> Answer { bench.create("core.event", ["title": "t", "timezone": string(zone)]) }
    for zone in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"] { expect(event(zone), 201) }
    for zone in ["", "/etc/passwd", "../x", "Europe/../UTC", "Europe//Berlin", "a b/c", "1/2"] {
      expect(event(zone), 400, "invalid_properties")
    }
    guard access("/usr/share/zoneinfo/Etc/UTC", R_OK) == 0 else { return }
    for zone in ["Nope/Zone", "Europe/Atlantis", "Europe", "zone.tab", "posix/UTC"] {
      expect(event(zone), 400, "invalid_properties")
    }
    let end = bench.create("core.event", ["title": "t", "end_timezone": "Nope/Zone"])
    expect(end, 400, "invalid_properties")
    #expect(end.field == "end_timezone")
  }

  @Test("I-S35 bodies of every kind of text are read back unchanged")
  func verbatim() {
    for body in [
      "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466} family",
      "abc \u{05D0}\u{05D1} \u{0627}\u{0644} def",
      "zero\u{200B}width\u{200C}\u{FEFF}", "<p onclick=\"x\">&amp; <b>bold</b></p>", "e\u{0301} and \u{E9}",
    ] {
      let made = bench.create("core.note", ["body": string(body)])
      #expect(bench.read(made.id).properties["body"]?.text == Text(body))
      #expect(bench.send("GET", "/items").data.first?["properties"]?["body"]?.text == Text(body))
    }
  }

  @Test("I-S36 an empty body is a value")
  func empty() {
    let made = bench.create("core.note", ["body": ""])
    expect(made, 201)
    #expect(bench.read(made.id).properties == ["body": ""])
  }

  @Test("I-S40 a missing required property is named, of every type that has one")
  func required() {
    for (type, field) in [
      ("core.note", "body"), ("core.message", "body"), ("core.entity", "name"), ("core.entity.person", "name"),
      ("core.highlight", "text"),
    ] {
      let answer = bench.create(string(type), type == "core.message" ? ["from": "a"] : ["title": "x"])
      expect(answer, 400, "invalid_properties")
      #expect(answer.field == field)
    }
  }

  @Test("I-S41 a property without a name is refused on each write door")
  func nameless() {
    let id = bench.noteID("a", ["source_id": "k"])
    expect(bench.create("core.note", ["body": "a", "": 1]), 400, "validation_error")
    expect(bench.create("core.note", ["": 1], ["source_id": "k"]), 400, "validation_error")
    expect(bench.patch(id, 1, ["properties": ["": 1]]), 400, "validation_error")
    let page = bench.bulk([["type": "core.note", "properties": ["body": "a", "": 1]]])
    expect(page, 400, "bulk_atomic_rollback")
    #expect(page.details?["code"]?.text == "validation_error")
    expect(
      bench.send("POST", "/items/bulk-actions", ["action": "update_properties", "filter": [:], "properties": ["": 1]]),
      400, "validation_error")
    expect(
      bench.send("POST", "/folders", ["title": "F", "defaults": ["properties": ["": 1]]]), 400, "validation_error")
    #expect(bench.read(id).version == 1)
    #expect(bench.count() == 1)
  }

  @Test("I-S44 a merge keeps the held order and appends; a replace takes the sent one, a stale replace merges")
  func order() {
    func keys(_ answer: Answer) -> [String]? { answer.properties.object?.keys.map(\.string) }
    let made = bench.create("core.note", ["title": "t", "zeta": 1, "alpha": 2, "body": "b"])
    #expect(keys(made) == ["body", "title", "zeta", "alpha"])
    let merged = bench.patch(made.id, 1, ["properties": ["new": 1, "alpha": 3, "language": "en"]])
    #expect(keys(merged) == ["body", "title", "zeta", "alpha", "new", "language"])
    let replaced = bench.patch(
      made.id, 2, ["properties_mode": "replace", "properties": ["zeta": 1, "body": "b", "omega": 1]])
    #expect(keys(replaced) == ["zeta", "body", "omega"])
    expect(bench.patch(made.id, 3, ["properties": ["other": 1]]), 200)
    let stale = bench.patch(
      made.id, 3, ["properties_mode": "replace", "properties": ["late": 1, "body": "c", "zeta": 1]])
    #expect(keys(stale) == ["zeta", "body", "other", "late"])
    #expect(keys(bench.read(made.id)) == ["zeta", "body", "other", "late"])
    let key = bench.create("core.note", ["title": "t", "x": 1, "body": "b"], ["source_id": "k"])
    let upserted = bench.create("core.note", ["y": 1, "body": "c"], ["source_id": "k"])
    #expect(upserted.id == key.id && keys(upserted) == ["body", "title", "x", "y"])
  }

  // MARK: thumbnails

  static let png = "iVBORw0KGgo="

  func registerPictures() {
    expect(
      bench.send(
        "POST", "/types",
        ["id": "acme.picture", "fields": ["thumb": ["type": "thumbnail"], "body": ["type": "string"]]]), 201)
  }

  @Test("I-S46 a thumbnail too large, of a wrong signature or another media type is refused on every door")
  func badThumbnails() {
    registerPictures()
    let made = bench.create("acme.picture", ["thumb": string("data:image/png;base64,\(Self.png)"), "body": "b"])
    expect(made, 201)
    // 16385 and 16384 bytes: the signature, then zeros.
    let large = "data:image/png;base64,iVBORw0KGgoA" + String(repeating: "AAAA", count: 5458) + "AAA="
    let most = "data:image/png;base64,iVBORw0KGgoA" + String(repeating: "AAAA", count: 5458) + "AA=="
    expect(bench.create("acme.picture", ["thumb": string(most)]), 201)
    for bad in [
      large, "data:image/png;base64,/9j/", "data:image/jpeg;base64,\(Self.png)", "data:image/gif;base64,R0lGODlh",
      "data:image/webp;base64,UklGRgAAAABXRUJQ".replacing("XRUJQ", with: "AAAAA"), Self.png,
      "data:image/png;base64,iVBORw0KGgp=",
    ] {
      let properties: JSON = ["thumb": string(bad)]
      let single = bench.create("acme.picture", properties)
      expect(single, 400, "invalid_properties")
      #expect(single.field == "thumb")
      #expect(bench.patch(made.id, 1, ["properties": properties]).field == "thumb")
      let page = bench.bulk([["type": "acme.picture", "properties": properties]], ["atomic": false])
      #expect(page.result(0)["error"]?["code"]?.text == "invalid_properties")
      #expect(page.result(0)["error"]?["details"]?["errors"]?.array?.first?["field"]?.text == "thumb")
    }
    expect(bench.create("acme.picture", ["thumb": "data:image/webp;base64,UklGRgAAAABXRUJQ"]), 201)
    expect(bench.create("acme.picture", ["thumb": "data:image/jpeg;base64,/9j/"]), 201)
  }

  @Test("I-S47 a thumbnail rides on a get, a list and an event")
  func goodThumbnail() {
    registerPictures()
    let value = Text("data:image/png;base64,\(Self.png)")
    let made = bench.create("acme.picture", ["thumb": .string(value)])
    #expect(bench.read(made.id).properties["thumb"]?.text == value)
    #expect(bench.send("GET", "/items").data.first?["properties"]?["thumb"]?.text == value)
    #expect(bench.events().last?.data["item"]?["properties"]?["thumb"]?.text == value)
  }

  @Test("I-S48 a token in a thumbnail is not found, in a body it is, after a create and an update")
  func thumbnailSearch() {
    registerPictures()
    let thumb = string("data:image/png;base64,\(Self.png)")
    let found = bench.create("core.note", ["body": "iVBORw0KGgo"]).id
    let picture = bench.create("acme.picture", ["thumb": thumb])
    #expect(bench.send("GET", "/search?q=iVBORw0KGgo").ids == [found])
    expect(bench.patch(picture.id, 1, ["properties": ["thumb": thumb, "body": "plain words"]]), 200)
    #expect(bench.send("GET", "/search?q=iVBORw0KGgo").ids == [found])
    #expect(bench.send("GET", "/search?q=plain").ids == [picture.id])
  }

  // MARK: tags

  func tagList(_ count: Int) -> JSON { .array((0..<count).map { string("t\($0)") }) }

  @Test("I-S50 100 tags are taken on a create or by a tag write, 101 are not")
  func tagCount() {
    expect(bench.create("core.note", ["body": "a"], ["tags": tagList(101)]), 400, "validation_error")
    let made = bench.create("core.note", ["body": "a"], ["tags": tagList(100)])
    expect(made, 201)
    #expect(made.tags.count == 100)
    let one: JSON = ["tags": ["one more"]]
    expect(bench.send("POST", "/items/\(made.id)/tags", one), 400, "validation_error")
    expect(bench.send("PATCH", "/items/\(made.id)/metadata", one), 400, "validation_error")
    expect(bench.send("PUT", "/items/\(made.id)/metadata", ["tags": tagList(101)]), 400, "validation_error")
    let job = bench.act(["action": "update_tags", "filter": [:], "add": ["one more"]])
    #expect(job["errors"]?.array?.first?["code"]?.text == "validation_error")
    #expect(bench.read(made.id).tags.count == 100)
    expect(bench.send("DELETE", "/items/\(made.id)/tags/t0"), 200)
    #expect(bench.send("POST", "/items/\(made.id)/tags", one).tags.count == 100)
  }

  @Test("I-S51 an empty, blank or 129-unit tag is refused on any write door; 128 is taken")
  func tagText() {
    let id = bench.noteID()
    for bad in [
      "", "  ", "\u{2003}", String(repeating: "a", count: 129), String(repeating: "\u{1F35E}", count: 64) + "a",
    ] {
      let tags: JSON = ["tags": [string(bad)]]
      expect(bench.create("core.note", ["body": "a"], tags), 400, "validation_error")
      expect(bench.send("PATCH", "/items/\(id)/metadata", tags), 400, "validation_error")
      expect(bench.send("PUT", "/items/\(id)/metadata", tags), 400, "validation_error")
      expect(bench.send("POST", "/items/\(id)/tags", tags), 400, "validation_error")
      let encoded = bad.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
      expect(bench.send("DELETE", "/items/\(id)/tags/\(encoded)"), 400, "validation_error")
      let entry: JSON = ["type": "core.note", "properties": ["body": "a"], "tags": [string(bad)]]
      #expect(bench.bulk([entry]).details?["code"]?.text == "validation_error")
      expect(
        bench.send("POST", "/items/bulk-actions", ["action": "update_tags", "filter": [:], "add": [string(bad)]]), 400,
        "validation_error")
    }
    #expect(bench.count() == 1)
    for good in [String(repeating: "a", count: 128), String(repeating: "\u{1F35E}", count: 64)] {
      expect(bench.send("POST", "/items/\(id)/tags", ["tags": [string(good)]]), 200)
    }
    #expect(bench.read(id).tags.count == 2)
  }

  @Test("I-S123 tags as text are refused; an unknown item is missing on every metadata door")
  func metadataDoors() {
    let id = bench.noteID()
    let none = bench.ids.next().description
    for (method, path) in [("PATCH", "metadata"), ("PUT", "metadata"), ("POST", "tags")] {
      expect(bench.send(method, "/items/\(id)/\(path)", ["tags": "x"]), 400, "validation_error")
      expect(bench.send(method, "/items/\(none)/\(path)", ["tags": ["x"]]), 404, "item_not_found")
    }
    expect(bench.send("GET", "/items/\(none)/metadata"), 404, "item_not_found")
    expect(bench.send("DELETE", "/items/\(none)/tags/x"), 404, "item_not_found")
  }

  @Test("I-S124 favorite is a tag and nothing else")
  func favorite() {
    let id = bench.noteID()
    let added = bench.send("POST", "/items/\(id)/tags", ["tags": ["favorite"]])
    #expect(added.tags == ["favorite"])
    let read = bench.read(id)
    #expect(read.item["favorite"] == nil && read.json["metadata"]?["favorite"] == nil)
    #expect(read.properties == ["body": "text"])
    #expect(bench.send("DELETE", "/items/\(id)/tags/favorite").tags.isEmpty)
    #expect(!bench.read(id).words.contains("favorite"))
  }

  @Test("I-S126 every tag write moves updated_at, and announces metadata.changed")
  func tagWrites() {
    let id = bench.noteID()
    for (method, path, body) in [
      ("POST", "tags", ["tags": ["a"]]), ("PATCH", "metadata", ["tags": ["b"]]), ("PUT", "metadata", ["tags": ["c"]]),
      ("DELETE", "tags/c", nil),
    ] as [(String, String, JSON?)] {
      let before = bench.read(id)
      let events = bench.announced { expect(bench.send(method, "/items/\(id)/\(path)", body), 200) }
      #expect(events.map(\.kind) == ["metadata.changed"])
      let after = bench.read(id)
      #expect((after.item["updated_at"]?.text ?? "") > (before.item["updated_at"]?.text ?? ""))
      #expect(after.version == 1)
    }
    let job = bench.announced { _ = bench.act(["action": "update_tags", "filter": [:], "add": ["d"]]) }
    #expect(job.map(\.kind) == ["metadata.changed"])
  }

  @Test("I-S127 tags and extensions of a type that is read and not written are refused, naming the grant")
  func metadataGrant() throws {
    let id = bench.noteID("a", ["tags": ["t"]])
    let key = try bench.mint("r", types: ["core.note": "read"])
    for (method, path, body) in [
      ("POST", "tags", ["tags": ["a"]]), ("PATCH", "metadata", ["tags": ["b"]]), ("PUT", "metadata", ["tags": ["c"]]),
      ("DELETE", "tags/t", nil), ("PUT", "extensions/app.a", ["x": 1]), ("DELETE", "extensions/app.a", nil),
    ] as [(String, String, JSON?)] {
      let answer = bench.send(method, "/items/\(id)/\(path)", body, key: key.token)
      expect(answer, 403, "type_not_permitted")
      #expect(answer.details?["grant"] == ["kind": "type", "name": "core.note", "level": "write"])
    }
    #expect(bench.read(id).tags == ["t"])
  }

  // MARK: extensions

  @Test("I-S130 a key that reads one namespace is answered that one only")
  func narrowExtensions() throws {
    let id = bench.noteID()
    for name in ["app.a", "app.b"] { expect(bench.send("PUT", "/items/\(id)/extensions/\(name)", ["x": 1]), 200) }
    let key = try bench.mint("e", extensions: ["app.a": "write"])
    let only: JSON = ["app.a": ["x": 2]]
    #expect(bench.send("PUT", "/items/\(id)/extensions/app.a", ["x": 2], key: key.token).json["extensions"] == only)
    #expect(bench.send("GET", "/items/\(id)/extensions", key: key.token).json["extensions"] == only)
    #expect(bench.read(id, key: key.token).json["metadata"]?["extensions"] == only)
    #expect(bench.send("DELETE", "/items/\(id)/extensions/app.a", key: key.token).json["extensions"] == [:])
    for method in ["GET", "PUT", "DELETE"] {
      let refused = bench.send(method, "/items/\(id)/extensions/app.b", method == "PUT" ? [:] : nil, key: key.token)
      expect(refused, 403, "forbidden")
      #expect(refused.details?["grant"]?["kind"]?.text == "extension")
    }
    #expect(bench.send("GET", "/items/\(id)/extensions").json["extensions"] == ["app.b": ["x": 1]])
  }

  @Test("I-S131 an unknown item and a malformed id on each extension door")
  func extensionDoors() {
    let none = bench.ids.next().description
    for (method, path, body) in [
      ("GET", "extensions", nil), ("GET", "extensions/app.a", nil), ("PUT", "extensions/app.a", [:]),
      ("DELETE", "extensions/app.a", nil),
    ] as [(String, String, JSON?)] {
      expect(bench.send(method, "/items/\(none)/\(path)", body), 404, "item_not_found")
      expect(bench.send(method, "/items/NOPE/\(path)", body), 400, "invalid_id")
    }
  }
}

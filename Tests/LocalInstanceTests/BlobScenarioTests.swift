import LocalInstance
import MarfaBase
import Testing

@Suite("Blobs")
struct BlobScenarioTests {
  let bench: Bench
  let bytes = Array("hello, bytes of a file".utf8)
  init() throws { bench = try Bench() }

  func upload(_ bytes: [UInt8], _ type: String? = nil, _ query: String = "", key: String? = nil) -> Answer {
    bench.send(
      "POST", "/blobs\(query)", key: key, headers: type.map { [HTTPHeader("Content-Type", $0)] } ?? [], raw: bytes)
  }

  /// Uploads the bytes; their hash.
  func stored(key: String? = nil) -> String { upload(bytes, key: key).json.string("hash") ?? "" }

  func file(_ hash: String, _ more: JSON = [:], key: String? = nil) -> Answer {
    var properties = JSONObject()
    properties["blob_ref"] = .string(Text(hash))
    properties["mime_type"] = "image/png"
    for (name, value) in more.object?.members ?? [] { properties[name] = value }
    return bench.made("core.file", .object(properties), key: key)
  }

  func get(_ hash: String, range: String? = nil, key: String? = nil) -> Answer {
    bench.send("GET", "/blobs/\(hash)", key: key, headers: range.map { [HTTPHeader("Range", $0)] } ?? [])
  }

  /// The path of a link to a blob.
  func link(_ hash: String, _ query: String = "") -> String {
    let url = bench.send("GET", "/blobs/\(hash)/url\(query)").json.string("url") ?? ""
    return "/blobs" + (url.components(separatedBy: "/blobs").last ?? "")
  }

  @Test("B-S2 two uploads of the same bytes at once are both 201 and one blob")
  func together() throws {
    var answers: [Answer] = []
    try bench.instance.batch { answers = [upload(bytes, "image/png"), upload(bytes, "image/png")] }
    #expect(answers.map(\.status) == [201, 201])
    #expect(answers[0].response.body == answers[1].response.body)
    let hash = answers[0].json.string("hash") ?? ""
    #expect(hash == ContentHash(of: bytes).description)
    #expect(answers[0].json["size_bytes"]?.int == bytes.count)
    #expect(file(hash).status == 201 && get(hash).response.body == bytes)
  }

  @Test("B-S3 the type is told without its parameters, letter case kept; absent, octets")
  func types() {
    #expect(upload([1], "Image/PNG; charset=x").json.string("mime_type") == "Image/PNG")
    #expect(upload([2]).json.string("mime_type") == "application/octet-stream")
  }

  @Test("B-S7 an upload takes write on some type outside system; a type registered later counts")
  func permission() {
    for map in [[:], ["system.*": "write"], ["core.*": "read"], ["acme.*": "write"]] as [JSON] {
      let refused = upload([], "multipart/form-data", key: bench.mint(map))
      expect(refused, 403, "type_not_permitted")
    }
    let key = bench.mint(["acme.*": "write"])
    expect(upload(bytes, key: key), 403, "type_not_permitted")
    expect(bench.send("POST", "/types", ["id": "acme.deal", "fields": [:]]), 201)
    expect(upload(bytes, key: key), 201)
  }

  @Test("B-S8 a query key is refused, after the credential")
  func queries() {
    expect(upload(bytes, nil, "?colour=1"), 400, "validation_error")
    expect(upload(bytes, nil, "?colour=1", key: ""), 401, "unauthorized")
  }

  @Test("B-S10 a blob is answered with every header; HEAD alike without a body")
  func headers() {
    let hash = upload(bytes, "image/png").json.string("hash") ?? ""
    _ = file(hash)
    let whole = get(hash)
    expect(whole, 200)
    let head = bench.send("HEAD", "/blobs/\(hash)")
    #expect(head.status == 200 && head.response.body.isEmpty)
    for answer in [whole, head] {
      for (name, value) in [
        ("Content-Type", "image/png"), ("Content-Length", "\(bytes.count)"), ("Accept-Ranges", "bytes"),
        ("ETag", "\"\(hash)\""), ("Content-Disposition", "attachment; filename=\"\(hash.dropFirst(7))\""),
        ("Content-Security-Policy", "sandbox; default-src 'none'"), ("X-Content-Type-Options", "nosniff"),
      ] {
        #expect(answer.response.header(name) == value)
      }
    }
    #expect(whole.response.body == bytes)
  }

  @Test("B-S11 ranges cut, past the end, and of forms that are ignored")
  func ranges() {
    let hash = stored()
    _ = file(hash)
    let size = bytes.count
    for (range, from, to) in [("bytes=0-9", 0, 9), ("bytes=5-", 5, size - 1), ("bytes=0-999999", 0, size - 1)] {
      let part = get(hash, range: range)
      #expect(part.status == 206)
      #expect(part.response.header("Content-Range") == "bytes \(from)-\(to)/\(size)")
      #expect(part.response.body == Array(bytes[from...to]))
      #expect(part.response.header("Content-Length") == "\(to - from + 1)")
    }
    for range in ["bytes=\(size)-", "bytes=9-2"] {
      let refused = get(hash, range: range)
      expect(refused, 416, "range_not_satisfiable")
      #expect(refused.response.header("Content-Range") == "bytes */\(size)")
      #expect(refused.details?["size_bytes"]?.int == size)
    }
    for range in ["bytes=-5", "bytes=0-1,3-4", "items=0-1", "bytes=x", "bytes=0-9007199254740992", "bytes= 0-1"] {
      let whole = get(hash, range: range)
      #expect(whole.status == 200 && whole.response.body == bytes, "\(range)")
    }
  }

  @Test("B-S12 the bare digest serves; upper case or another length is malformed; an unknown one is not found")
  func digests() {
    let hash = stored()
    _ = file(hash)
    let bare = String(hash.dropFirst(7))
    #expect(get(bare).response.body == bytes)
    for bad in [bare.uppercased(), hash.uppercased(), String(bare.dropLast()), bare + "a", "sha512:\(bare)", "x"] {
      expect(get(bad), 400, "validation_error")
    }
    expect(get(String(repeating: "0", count: 64)), 404, "blob_not_found")
  }

  @Test("B-S13 an upload no row names is not found; named it is; renamed it is not")
  func reach() {
    let hash = stored()
    expect(get(hash), 404, "blob_not_found")
    let item = file(hash)
    expect(get(hash), 200)
    let other = upload([1, 2, 3]).json.string("hash") ?? ""
    expect(bench.patch(item.id, 1, ["properties": ["blob_ref": .string(other)]]), 200)
    expect(get(hash), 404, "blob_not_found")
    expect(get(other), 200)
  }

  @Test("B-S14 an item in the bin still lends; purged it does not")
  func bin() {
    let hash = stored()
    let id = file(hash).id
    bench.trash(id)
    expect(get(hash), 200)
    expect(bench.purge(id), 200)
    expect(get(hash), 404, "blob_not_found")
  }

  @Test("B-S15 a key that does not read the item's type does not reach its blob")
  func hidden() {
    let hash = stored()
    _ = file(hash)
    expect(get(hash, key: bench.mint(["core.note": "write"])), 404, "blob_not_found")
    expect(get(hash, key: bench.mint(["core.file": "read"])), 200)
  }

  @Test("B-S16 a blob an edge names takes read on the edge type and on the source's type")
  func edges() {
    let hash = stored()
    expect(bench.edge(bench.task(), "about", bench.noteID(), ["picture": .string(hash)]), 201)
    expect(get(hash, key: bench.mint(["core.task": "read"], edges: ["about": "read"])), 200)
    expect(get(hash, key: bench.mint(["core.task": "read"], edges: ["references": "read"])), 404, "blob_not_found")
    expect(get(hash, key: bench.mint(["core.note": "read"], edges: ["about": "read"])), 404, "blob_not_found")
  }

  @Test("B-S17 a blob an extension names takes read on the namespace and on the item's type")
  func extensions() {
    let hash = stored()
    expect(
      bench.send("PUT", "/items/\(bench.noteID())/extensions/acme.x", ["picture": .string(hash)]), 200)
    expect(get(hash, key: bench.mint(["core.note": "read"], extensions: ["acme.x": "read"])), 200)
    expect(get(hash, key: bench.mint(["core.note": "read"], extensions: ["acme.y": "read"])), 404, "blob_not_found")
    expect(get(hash, key: bench.mint(["core.task": "read"], extensions: ["acme.x": "read"])), 404, "blob_not_found")
  }

  @Test("B-S18 naming a digest without proof is kept as text and stays dead until it is named again with proof")
  func proof() {
    let owned = stored()
    let writer = bench.mint(["core.file": "write"])
    let item = file(owned, key: writer)
    expect(item, 201)
    #expect(item.item["properties"]?.string("blob_ref") == owned)
    expect(get(owned, key: writer), 404, "blob_not_found")
    expect(upload(bytes, key: writer), 201)
    expect(bench.patch(item.id, 1, ["properties": ["title": "t"]], key: writer), 200)
    expect(get(owned, key: writer), 404, "blob_not_found")
    let other = upload([9], key: writer).json.string("hash") ?? ""
    expect(bench.patch(item.id, 2, ["properties": ["blob_ref": .string(other)]], key: writer), 200)
    expect(bench.patch(item.id, 3, ["properties": ["blob_ref": .string(owned)]], key: writer), 200)
    expect(get(owned, key: writer), 200)
  }

  @Test("B-S19 of two keys that uploaded the same bytes each may lend them")
  func twoUploads() {
    let keys = [bench.mint(["core.file": "write"]), bench.mint(["core.file": "write"])]
    for key in keys {
      let hash = stored(key: key)
      let item = file(hash, key: key)
      expect(get(hash, key: key), 200)
      expect(bench.send("DELETE", "/items/\(item.id)", key: key), 200)
      expect(bench.purge(item.id), 200)
      expect(get(hash, key: key), 404, "blob_not_found")
    }
  }

  @Test("B-S20 an app's upload counts for its refreshed token")
  func appUpload() throws {
    let app = try SignInBench(bench)
    let tokens = app.signIn("core.file:write offline_access").json
    let hash = stored(key: tokens.string("access_token"))
    let next = app.refresh(tokens.string("refresh_token") ?? "").json.string("access_token")
    expect(file(hash, key: next), 201)
    expect(get(hash, key: next), 200)
  }

  @Test("B-S21 a retype keeps what the item lends")
  func retype() {
    let hash = stored()
    let id = file(hash).id
    expect(bench.patch(id, 1, ["type": "core.file.image", "retype": true]), 200)
    expect(get(hash, key: bench.mint(["core.file.image": "read"])), 200)
  }

  @Test("B-S22 a conflicted copy lends what the item it was taken from lends")
  func conflictedCopy() {
    let hash = stored()
    let note = bench.note("a " + hash).string("id") ?? ""
    expect(bench.patch(note, 1, ["properties": ["body": string("mine \(hash)")]]), 200)
    let merged = bench.patch(note, 1, ["properties": ["body": string("theirs \(hash)")]], "?conflict=auto")
    expect(merged, 200)
    let copy = merged.json["conflict_resolution"]?.string("conflicted_copy_id") ?? ""
    expect(bench.read(copy), 200)
    bench.trash(note)
    expect(bench.purge(note), 200)
    expect(get(hash), 200)
  }

  @Test("B-S23 a file's size is that of its bytes whatever was sent; a dead reference has none")
  func sizes() {
    let hash = stored()
    for sent in [1, nil] as [JSON] {
      #expect(file(hash, ["size_bytes": sent]).item["properties"]?["size_bytes"]?.int == bytes.count)
    }
    let bad = file(hash, ["size_bytes": "12"])
    expect(bad, 400, "invalid_properties")
    #expect(bad.field == "size_bytes")
    let dead = file("sha256:" + String(repeating: "1", count: 64), ["size_bytes": 5])
    expect(dead, 201)
    #expect(dead.item["properties"]?["size_bytes"] == nil)
    let note = bench.made("core.note", ["body": "x", "blob_ref": .string(hash)])
    #expect(note.item["properties"]?["size_bytes"] == nil)
  }

  @Test("B-S24 a link serves without a credential, ranges too; altered, expired, without its signature, after a purge")
  func links() throws {
    let key = try bench.mint("linker")
    let hash = stored(key: key.token)
    let item = file(hash, key: key.token)
    let url = bench.send("GET", "/blobs/\(hash)/url", key: key.token).json.string("url") ?? ""
    let target = "/blobs" + (url.components(separatedBy: "/blobs").last ?? "")
    func follow(_ target: String, range: String? = nil) -> Answer {
      bench.send("GET", target, key: "", headers: range.map { [HTTPHeader("Range", $0)] } ?? [])
    }
    #expect(follow(target).response.body == bytes)
    let part = follow(target, range: "bytes=2-3")
    #expect(part.status == 206 && part.response.body == Array(bytes[2...3]))
    expect(follow(target + "x"), 401, "unauthorized")
    expect(follow(target.replacing("expires=", with: "expires=9")), 401, "unauthorized")
    let unsigned = follow(target.components(separatedBy: "&signature").first ?? "")
    expect(unsigned, 400, "missing_required_field")
    #expect(unsigned.detail("field") == "signature")
    expect(follow(target + "&colour=1"), 400, "validation_error")
    try bench.instance.revokeKey(key.id)
    expect(follow(target), 200)
    bench.clock.advance(seconds: 3_601)
    expect(follow(target), 401, "unauthorized")
    #expect(bench.read(item.id).status == 200)
    let fresh = link(hash)
    expect(follow(fresh), 200)
    // After the blob itself is gone.
    if let named = ContentHash(Text(hash)) { bench.blobs.remove(named) }
    expect(follow(fresh), 404, "blob_not_found")
  }

  @Test("B-S25 how long a link may live")
  func lifetimes() {
    let hash = stored()
    _ = file(hash)
    func asked(_ query: String) -> Answer { bench.send("GET", "/blobs/\(hash)/url\(query)") }
    for bad in ["0", "-1", "1.5", "x", ""] { expect(asked("?ttl=\(bad)"), 400, "validation_error") }
    #expect(asked("?ttl=9999999").json["expires_in"]?.int == 604_800)
    #expect(asked("").json["expires_in"]?.int == 3_600)
    #expect(asked("?ttl=5").json["expires_in"]?.int == 5)
  }
}

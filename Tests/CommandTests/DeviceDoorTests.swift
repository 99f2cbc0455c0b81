import Glibc
import MarfaBase
import Testing
import TestSupport

/// Every door of C25 beside those of the queue, driven as a person drives them.
@Suite("device doors over a server") struct DeviceDoorTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let server: LocalServer
  let store: String

  init() async throws {
    scratch = try ScratchDirectory()
    var program = MarfaFolders(home: scratch.path)
    server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    program.environment["MARFA_API_URL"] = server.url
    program.environment["MARFA_API_KEY"] = server.key
    program.environment["MARFA_DB"] = scratch.at("copy.sqlite")
    self.program = program
    store = scratch.at("copy.sqlite")
  }

  private func json(_ words: [String], _ line: Int = #line) async throws -> JSON {
    let ran = try await program.run(["--json", "device"] + words)
    try #require(ran.status == 0, "line \(line): \(words): \(ran.errText)")
    return try #require(ran.json)
  }

  private func code(_ words: [String]) async throws -> String? {
    try await program.run(["--json", "device"] + words).code
  }

  private func hydrate() async throws {
    _ = try await json([
      "hydrate", "--types", "core.note,core.file,system.folder", "--tier", "all", "--edge-type", "attached-to",
      "--edge-type", "references", "--edge-type", "parent-of",
    ])
  }

  private func note(_ title: String, _ body: String = "", tags: [String] = []) async throws -> String {
    let properties: JSON = ["title": .string(Text(title)), "body": .string(Text(body))]
    let made = try await json(
      ["items", "create", "--type", "core.note", "--properties", properties.compact]
        + tags.flatMap { ["--tag", $0] })
    return try #require(made["item_id"]?.text?.string)
  }

  @Test("C25.4 C25.7 folders are made, changed, read and revoked through the copy, and lists and searches keep to one")
  func folders() async throws {
    try await hydrate()
    let made = try await json([
      "folders", "create", "--title", "Recipes", "--search",
      #"{"types":["core.note"],"filter":"tags contains \"recipe\""}"#,
    ])
    #expect(made.object?.keys == ["id", "version", "state", "settings"])
    #expect(made["version"] == 1 && made["state"] == "active")
    #expect(made["settings"]?["title"] == "Recipes")
    let id = try #require(made["id"]?.text?.string)
    #expect(try await json(["folders", "get", id]) == made)
    let soup = try await note("Soup", "hot broth", tags: ["recipe"])
    _ = try await note("Plan", "cold broth")
    let listed = try await json(["items", "list", "--folder", id])
    #expect(listed.array?.compactMap { $0["id"]?.text?.string } == [soup])
    let found = try await json(["search", "broth", "--folder", id])
    #expect(found.array?.compactMap { $0["item"]?["id"]?.text?.string } == [soup])
    #expect(found.array?.first?.object?.keys == ["item", "score", "snippet"])
    #expect(found.array?.first?["snippet"]?.text?.string.contains("<mark>broth</mark>") == true)
    #expect(try await json(["search", "bro", "--type", "core.note"]).array?.count == 2)
    #expect(try await json(["search", "broth", "--limit", "1"]).array?.count == 1)
    #expect(try await json(["search", "broth", "--tag", "recipe"]).array?.count == 1)
    #expect(try await code(["search", "broth", "--folder", id, "--tag", "recipe"]) == "usage")
    let changed = try await json(["folders", "change", id, "--version", "1", "--title", "Cooking"])
    #expect(changed["version"] == 2)
    #expect(changed["settings"]?["title"] == "Cooking")
    #expect(try await code(["folders", "change", id, "--title", "X"]) == "usage")
    #expect(try await code(["folders", "change", id, "--version", "1", "--title", "Other"]) == "version_conflict")
    #expect(try await json(["folders", "revoke", id])["state"] == "revoked")
    #expect(try await code(["items", "list", "--folder", id]) == "invalid")
    #expect(try await code(["folders", "get", "018f0000-0000-7000-8000-0000000000ff"]) == "not_held")
    #expect(try await code(["folders", "get", soup]) == "invalid")
    // The copy's slice cannot answer it whole.
    let wide = try await json(["folders", "create", "--title", "Wide", "--search", #"{"types":["core.task"]}"#])
    #expect(try await code(["items", "list", "--folder", wide["id"]?.text?.string ?? ""]) == "invalid")
  }

  @Test("C25.4 files are added, attached, embedded and uploaded, and their bytes had again by hash")
  func files() async throws {
    try await hydrate()
    try scratch.write("photo.png", [0x89, 0x50, 0x4E, 0x47, 1, 2, 3])
    try scratch.write("odd.xyz", "text")
    let added = try #require(
      try await json(["items", "add", scratch.at("photo.png"), "--tag", "a", "--tag", "b", "--title", "P"]).array)
    #expect(added.map { $0["kind"] } == ["upload_blob", "create_item", "add_tag", "add_tag"])
    #expect(added[1]["body"]?["type"] == "core.file.image")
    #expect(added[1]["body"]?["properties"]?["title"] == "P")
    let host = try await note("Host", "See ![[odd.xyz]] and [[Nobody]], [[Host]] and [[#part]].\n`[[code]]`")
    let attached = try #require(
      try await json(["items", "attach", host, scratch.at("odd.xyz"), "--mime-type", "text/x-odd"]).array)
    #expect(attached.map { $0["kind"] } == ["upload_blob", "create_item", "create_edge"])
    #expect(attached[1]["body"]?["properties"]?["mime_type"] == "text/x-odd")
    let file = try #require(attached[1]["item_id"]?.text?.string)
    #expect(try await json(["items", "embed", host, file]) == ["embed": "![[odd.xyz]]"])
    #expect(try await code(["items", "embed", host, host]) == "invalid")
    #expect(try await code(["items", "attach", file, scratch.at("none.png")]) == "io")
    let links = try await json(["items", "links", host])
    #expect(links["links"]?.array?.map { $0["name"] } == ["Nobody", "Host"])
    // What is not asked yet is pending, be it the note's own title (D95.2).
    #expect(links["links"]?.array?.map { $0["target"]?["state"] } == ["pending", "pending"])
    #expect(links["embeds"]?.array?.first?["text"] == "![[odd.xyz]]")
    #expect(links["embeds"]?.array?.first?["target"] == ["state": "item", "id": .string(Text(file))])
    #expect(try await json(["items", "thumbnail", host]) == ["id": .string(Text(host)), "thumbnail": .null])
    let put = try await json(["blobs", "put", scratch.at("odd.xyz"), "--mime-type", "text/plain"])
    #expect(put["kind"] == "upload_blob")
    let hash = try #require(put["blob"]?.text?.string)
    let held = try await json(["blobs", "get", hash])
    #expect(fileBytes(held["path"]?.text?.string ?? "").map { String(decoding: $0, as: UTF8.self) } == "text")
    let drained = try await json(["drain"])
    #expect(drained["undelivered"] == 0 && drained["held"] == 0)
    // The server knows no Nobody (D95.2).
    let settled = try await json(["items", "links", host])
    #expect(settled["links"]?.array?.map { $0["target"]?["state"] } == ["missing", "item"])
    // Another copy fetches them by the digits alone; without a server they are absent.
    let digits = String(hash.drop { $0 != ":" }.dropFirst())
    let other = ["--db", scratch.at("other.sqlite")]
    _ = try await json(["hydrate", "--types", "core.note", "--tier", "all"] + other)
    var alone = program
    alone.environment["MARFA_API_URL"] = nil
    let absent = try await alone.run(["--json", "device", "blobs", "get", digits] + other)
    #expect(absent.status == 3)
    #expect(absent.code == "bytes_absent")
    let fetched = try await json(["blobs", "get", digits] + other)
    #expect(fetched["hash"]?.text?.string == hash)
    #expect(fileBytes(fetched["path"]?.text?.string ?? "").map { String(decoding: $0, as: UTF8.self) } == "text")
    #expect(try await code(["blobs", "get", "sha256:zz"]) == "invalid")
  }

  @Test("D3.1 D-S31 a second opener reads beside a writer, and every write of it is refused")
  func secondOpener() async throws {
    try await hydrate()
    let id = try await note("Held")
    var follow = try program.start(["--json", "device", "follow"])
    defer { follow.signal(SIGKILL) }
    let end = ContinuousClock.now + .seconds(300)
    while try await code(["forget"]) != "reading_handle" {
      try #require(ContinuousClock.now < end, "the follow holds the store")
      // What asks may itself have held it in that moment.
      if follow.status != nil { follow = try program.start(["--json", "device", "follow"]) }
    }
    for words in [
      ["items", "list"], ["items", "get", id], ["search", "Held"], ["queue"], ["status"], ["types", "list"],
      ["edges", "list", id], ["items", "links", id], ["items", "bin"], ["types", "served"],
    ] {
      #expect(try await code(words) == nil, "\(words)")
    }
    #expect(try await json(["items", "get", id])["id"]?.text?.string == id)
    for words in [
      ["items", "create", "--type", "core.note", "--properties", "{}"], ["items", "delete", id], ["drain"],
      ["catch-up"], ["follow"], ["pin", id], ["hydrate", "--types", "core.note", "--tier", "all"],
    ] {
      #expect(try await code(words) == "reading_handle", "\(words)")
    }
  }

  @Test(
    "D201 D-S46 an ended copy refuses what it holds, D46.2 documents have their types, and edits of edges a version")
  func refusals() async throws {
    try await hydrate()
    let (one, two) = (try await note("One", "[[Two]]"), try await note("Two"))
    let edge = try await json(["edges", "create", "--source", one, "--target", two, "--type", "references"])
    let edgeID = try #require(edge["edge_id"]?.text?.string)
    #expect(try await code(["edges", "update", edgeID, "--properties", #"{"p":1}"#]) == "invalid")
    #expect(try await code(["types", "get", "nope.x"]) == "not_found")
    #expect(try await code(["edge-types", "get", "nope"]) == "not_found")
    for (name, type) in [("f.md", "text/markdown"), ("f.TXT", "text/plain"), ("f", "application/octet-stream")] {
      try scratch.write(name, "words")
      let added = try await json(["items", "add", scratch.at(name)])
      #expect(added.array?[1]["body"]?["properties"]?["mime_type"]?.text == Text(type))
    }
    _ = try await json(["drain"])
    _ = try await json(["catch-up"])
    #expect(try await json(["edges", "list", one]).array?.isEmpty == false)
    // Folders are made at once (Q32.2).
    let folder = ["items", "create", "--type", "system.folder", "--properties", #"{"title":"x"}"#]
    #expect(try await code(folder) == "invalid")
    // A type registered on the server moves the read view.
    let client = scratch.at("other.sqlite")
    let declared = #"[{"id":"acme.thing","fields":{"word":{"type":"string"}}}]"#
    _ = try await json(["hydrate", "--types", "core.note", "--tier", "all", "--db", client])
    _ = try await json(["types", "declare", "--definitions", declared, "--db", client])
    _ = try await json(["hydrate", "--types", "core.note,acme.thing", "--tier", "all", "--db", client])
    #expect(try await code(["catch-up"]) == "copy_expired")
    for words in [
      ["items", "get", one], ["items", "get", edgeID], ["edges", "list", one], ["edges", "to", two],
      ["items", "links", one], ["items", "attach", one, scratch.at("f.md")],
    ] {
      #expect(try await code(words) == "hydration_incomplete", "\(words)")
    }
  }

  @Test("C25.4 the bin is paged from the server, and what is purged is gone from it")
  func bin() async throws {
    try await hydrate()
    var ids: [String] = []
    for number in 0..<3 { ids.append(try await note("N\(number)")) }
    _ = try await json(["drain"])
    for id in ids { _ = try await json(["items", "delete", id]) }
    #expect(try await code(["items", "purge", ids[0]]) == "invalid")
    _ = try await json(["drain"])
    let first = try await json(["items", "bin", "--type", "core.note", "--limit", "2"])
    #expect(first["items"]?.array?.count == 2)
    #expect(first["items"]?.array?.allSatisfy { $0["state"] == "trashed" } == true)
    let next = try #require(first["next_cursor"]?.text?.string)
    let second = try await json(["items", "bin", "--type", "core.note", "--limit", "2", "--cursor", next])
    #expect(second["items"]?.array?.count == 1)
    #expect(second["next_cursor"] == .null)
    #expect(try await code(["items", "bin", "--limit", "101"]) == "invalid")
    #expect(try await json(["items", "purge", ids[0]]) == ["id": .string(Text(ids[0])), "purged": true])
    #expect(try await json(["items", "bin"])["items"]?.array?.count == 2)
    let kept = try await note("Kept")
    _ = try await json(["drain"])
    #expect(try await code(["items", "purge", kept]) == "validation")
    #expect(try await code(["items", "purge", "018f0000-0000-7000-8000-0000000000ff"]) == "not_held")
  }

  @Test("C25.4 C26.2 metadata and extensions are queued, each as its own kind of write")
  func sidecars() async throws {
    try await hydrate()
    let id = try await note("N", "", tags: ["old"])
    #expect(try await json(["metadata", "merge", id, "--tag", "more"])["kind"] == "merge_metadata")
    #expect(try await json(["items", "get", id])["tags"] == ["more", "old"])
    #expect(try await json(["metadata", "replace", id, "--tag", "new"])["kind"] == "replace_metadata")
    #expect(try await json(["items", "get", id])["tags"] == ["new"])
    let written = try await json(["extensions", "write", id, "app.mine", "--body", #"{"a":1}"#])
    #expect(written["kind"] == "write_extension")
    #expect(written["namespace"] == "app.mine")
    #expect(try await json(["extensions", "delete", id, "app.mine"])["kind"] == "delete_extension")
    #expect(try await code(["extensions", "write", id, "app.mine", "--body", "[1]"]) == "invalid")
    // --reader refuses a write (C25.2).
    #expect(try await code(["--reader", "metadata", "replace", id]) == "reading_handle")
    let drained = try await json(["drain"])
    #expect(drained["undelivered"] == 0)
  }

  @Test("C25.2 C25.4 changes opens to read beside a writer and says each save on a line")
  func changes() async throws {
    let gone = try await program.run(["--json", "device", "changes"])
    #expect(gone.code == "no_store")
    try await hydrate()
    let child = try program.start(["--json", "device", "changes"])
    try await child.wait("the first line", within: .seconds(60)) { $0.out.contains(0x0A) }
    _ = try await note("N")
    try await child.wait("a save", within: .seconds(60)) { $0.out.split(separator: 0x0A).count > 1 }
    child.signal(SIGINT)
    let ran = try await child.end()
    #expect(ran.status == 0)
    #expect(ran.jsonLines.first?.object?.keys == ["watching", "data_version"])
    #expect(ran.jsonLines.first?["watching"] == true)
    #expect(ran.jsonLines.dropFirst().allSatisfy { $0.object?.keys == ["data_version"] })
    #expect(ran.jsonLines[1]["data_version"] != ran.jsonLines[0]["data_version"])
  }
}

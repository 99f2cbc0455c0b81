import FolderSync
import MarfaBase
import MarfaCopy
import TestSupport
import Testing

/// Files that are not documents, and rows that were lost (F36 to F39).
struct BytesScenarios {
  static let all: JSON = ["title": "All", "search": ["types": ["core.note", "core.file"]]]
  static let png: [UInt8] = [137, 80, 78, 71, 13, 10, 26, 10]

  func hash(_ bytes: [UInt8]) -> Text { ContentHash(of: bytes).text }

  @Test("F-S270 a picture, an empty picture, a recording and a note; new bytes, and a move")
  func pushed() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.push()
    try folder.write("photo.png", bytes: Self.png)
    try folder.write("empty.png", bytes: [])
    try folder.write("song.mp3", bytes: [73, 68, 51])
    try folder.write("note.md")
    let scan = try folder.scan()
    #expect(scan.created == 3 && scan.skipped == 1)
    let queue = try folder.queue()
    let uploads = queue.filter { $0.kind == .uploadBlob }
    #expect(uploads.count == 2)
    let creates = queue.filter { $0.kind == .createItem && $0.body?["properties"]?["blob_ref"] != nil }
    #expect(creates.count == 2)
    #expect(creates.allSatisfy { create in uploads.contains { create.dependsOn.contains($0.id) } })
    bench.transport.clear()
    try folder.push()
    let photo = try bench.id("photo.png")
    let upload = try #require(
      bench.transport.sent.firstIndex { $0.url.hasSuffix("/blobs") && $0.headers.contains { $0.value == "image/png" } })
    let create = try #require(
      bench.transport.sent.firstIndex {
        guard case .bytes(let body) = $0.body, $0.url.hasSuffix("/items") else { return false }
        return String(decoding: body, as: UTF8.self).contains("photo.png")
      })
    #expect(upload < create)
    let row = try bench.row(photo)["item"]
    #expect(row?["type"]?.text == "core.file.image" && row?["source_id"]?.text == nil)
    #expect(row?["properties"]?["blob_ref"]?.text == hash(Self.png))
    #expect(row?["properties"]?["mime_type"]?.text == "image/png" && row?["properties"]?["executable"] == nil)
    #expect(try bench.row(try bench.id("song.mp3"))["item"]?["type"]?.text == "core.file.audio")
    #expect(try folder.placement(of: photo) == "photo.png")

    let newer = Self.png + [1]
    try folder.write("photo.png", bytes: newer)
    let edited = try folder.push()
    #expect(edited.scan.updated == 1)
    #expect(edited.drain.drain.verdicts.map(\.kind) == [.uploadBlob, .updateItem])
    #expect(try bench.row(photo)["item"]?["properties"]?["blob_ref"]?.text == hash(newer))

    try folder.rename("photo.png", to: "Deep photo.png")
    let moved = try folder.push()
    #expect(moved.scan.renamed == 1)
    #expect(
      moved.drain.drain.verdicts.map(\.kind).sorted { $0.rawValue < $1.rawValue } == [.updateEdge, .updateItem])
    #expect(try folder.placement(of: photo) == "Deep photo.png")
    #expect(try bench.row(photo)["item"]?["properties"]?["title"]?.text == "Deep photo.png")
    #expect(try folder.push().drain.drain.answered == 0)
  }

  @Test("F-S271 a file of an item somebody retitled moves only its placement")
  func retitled() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.write("photo.png", bytes: Self.png)
    try folder.push()
    let photo = try bench.id("photo.png")
    try bench.edit(photo, ["title": "A sunset"])
    try folder.push()
    try folder.rename("photo.png", to: "moved.png")
    let push = try folder.push()
    #expect(push.drain.drain.verdicts.map(\.kind) == [.updateEdge])
    #expect(try bench.row(photo)["item"]?["properties"]?["title"]?.text == "A sunset")
    #expect(try folder.placement(of: photo) == "moved.png")
  }

  @Test("F-S272 a file item's file is bytes, whatever its name")
  func namedAsDocument() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    let item = try bench.file("notes.txt", Array("old\n".utf8), type: "core.file", mime: "text/plain")
    let pulled = try folder.push()
    #expect(folder.text("notes.txt") == "old\n", "\(pulled.json.compact)")
    try folder.write("notes.txt", "new\n")
    let push = try folder.push()
    #expect(push.drain.drain.verdicts.map(\.kind) == [.uploadBlob, .updateItem])
    let properties = try bench.row(item)["item"]?["properties"]
    #expect(properties?["blob_ref"]?.text == hash(Array("new\n".utf8)) && properties?["body"] == nil)
    #expect(try bench.titles() == ["notes.txt"])
  }

  @Test("F-S273 an edit waiting on an upload that fails and the move after it go in order once it lands")
  func blocked() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.write("photo.png", bytes: Self.png)
    try folder.push()
    let photo = try bench.id("photo.png")
    try folder.write("photo.png", bytes: Self.png + [1])
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/blobs") ? .failure(.timedOut("no answer")) : nil
    }
    try folder.push()
    try folder.rename("photo.png", to: "moved.png")
    try folder.push()
    let waiting = try folder.queue().filter { $0.kind == .updateItem }
    #expect(waiting.count == 2)
    #expect(try bench.row(photo)["item"]?["version"]?.int == 1)
    #expect(try bench.row(photo)["item"]?["properties"]?["blob_ref"]?.text == hash(Self.png))
    bench.goOnline()
    try folder.push()
    let row = try bench.row(photo)["item"]
    #expect(row?["version"]?.int == 3)
    #expect(row?["properties"]?["blob_ref"]?.text == hash(Self.png + [1]))
    #expect(row?["properties"]?["title"]?.text == "moved.png")
    #expect(try folder.queue().isEmpty)
  }

  @Test("F-S274 a large embedded file is uploaded once, refused, and its bytes stay")
  func tooLarge() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("big.png", bytes: Self.png + Array(repeating: 7, count: 2 << 20))
    try folder.write("note.md", "![](big.png)\n")
    var uploads = 0
    bench.transport.before = { request in
      guard request.method == "POST", request.url.hasSuffix("/blobs") else { return nil }
      uploads += 1
      return .success(HTTPResponse(refusing: 413, "request_too_large"))
    }
    try folder.push()
    try folder.push()
    try folder.push()
    #expect(uploads == 1)
    #expect(folder.bytes("big.png")?.count == (2 << 20) + Self.png.count)
    #expect(try bench.titles() == ["note"])
    #expect(try folder.status(of: "big.png")?.state == .held)
  }

  @Test("F-S275 bytes that cannot be had are absent and named; what is held needs no server")
  func absent() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.push()
    try bench.file("good.png", Self.png, type: "core.file.image", mime: "image/png")
    try bench.file("wrong.png", Self.png + [9], type: "core.file.image", mime: "image/png")
    try folder.folders.working(folder.root, "push") { _ = try $0.catchUp() }
    bench.goOffline()
    let offline = try folder.folders.pull(folder.root)
    #expect(offline.absent == 2 && offline.written == 0)
    #expect(
      offline.flagged.map(\.path) == ["good.png", "wrong.png"] && offline.flagged.allSatisfy { $0.flag == "absent" })
    #expect(folder.files().isEmpty)
    bench.goOnline()
    let wrongHash = ContentHash(of: Self.png + [9]).hex
    bench.transport.after = { request, response in
      guard request.method == "GET", request.url.contains(wrongHash), !request.url.hasSuffix("/url") else {
        return .success(response)
      }
      var changed = response
      changed.body = [0, 0, 0]
      return .success(changed)
    }
    let online = try folder.folders.pull(folder.root)
    #expect(online.written == 1 && online.absent == 1)
    #expect(folder.files() == ["good.png"] && folder.bytes("good.png") == Self.png)
    bench.goOffline()
    let held = try folder.folders.pull(folder.root)
    #expect(held.unchanged == 1 && held.absent == 1)
    #expect(folder.bytes("good.png") == Self.png)
  }

  @Test("F-S277 a refused credential ends a pull, and no file is taken off")
  func unauthorized() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    try folder.push()
    try bench.file("good.png", Self.png, type: "core.file.image", mime: "image/png")
    try bench.item("Note")
    try folder.folders.working(folder.root, "push") { _ = try $0.catchUp() }
    bench.transport.before = { request in
      request.url.contains("/blobs/") ? .success(HTTPResponse(refusing: 401, "unauthorized")) : nil
    }
    #expect(refusal { _ = try folder.folders.pull(folder.root) }?.code == .unauthorized)
    bench.transport.before = { request in
      guard request.url.contains("/blobs/") else { return nil }
      return .success(
        HTTPResponse(
          status: 302,
          headers: [HTTPHeader("Location", "http://elsewhere.test/"), HTTPHeader("X-Marfa-Contract", "0")]))
    }
    #expect(refusal { _ = try folder.folders.pull(folder.root) }?.code == .redirect)
    #expect(folder.text("good.png") == nil)
    bench.goOnline()
    try folder.push()
    #expect(folder.files() == ["Note.md", "good.png"])
  }

  @Test("F-S279 new bytes that cannot be had leave the old file")
  func oldStays() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, Self.all)
    let item = try bench.file("photo.png", Self.png, type: "core.file.image", mime: "image/png")
    try folder.push()
    let newer = Self.png + [2]
    try bench.upload(newer, mime: "image/png")
    try bench.edit(item, ["blob_ref": .string(hash(newer))])
    bench.transport.before = { request in
      request.url.contains("/blobs/") ? .success(HTTPResponse(refusing: 503, "unavailable")) : nil
    }
    let push = try folder.push()
    #expect(push.pull?.absent == 1 && push.pull?.rewritten == 0)
    #expect(folder.bytes("photo.png") == Self.png)
    bench.goOnline()
    #expect(try folder.push().pull?.rewritten == 1)
    #expect(folder.bytes("photo.png") == newer)
  }

  @Test("F-S280 an item of a type that is no file is a document, whatever it carries")
  func bookmark() throws {
    let bench = try FolderBench()
    let blob = try bench.upload(Self.png, mime: "image/png")
    try bench.item(
      "Budget.xlsx", type: "core.bookmark",
      more: JSONObject([("url", "https://example.org/"), ("blob_ref", .string(blob.text))]))
    let folder = try KeptFolder(bench, ["title": "Marks", "search": ["types": ["core.bookmark"]]])
    bench.transport.clear()
    #expect(try folder.push().pull?.written == 1)
    #expect(folder.files() == ["Budget.xlsx.md"])
    #expect(bench.transport.requests.allSatisfy { !$0.contains("/blobs/") })
  }

  @Test("F-S281 a refused create leaves its file lost, until it is changed or moved", arguments: [false, true])
  func lost(moved: Bool) throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("a.md", "A.\n")
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/items")
        ? .success(HTTPResponse(refusing: 400, "validation_error")) : nil
    }
    let push = try folder.push()
    #expect(push.pull?.removed == 0 && push.pull?.unplaced == 0)
    #expect(folder.text("a.md") == "A.\n")
    bench.goOnline()
    let scan = try folder.scan()
    #expect(scan.created == 0 && scan.lost == 1)
    bench.transport.clear()
    try folder.push()
    #expect(bench.writes.isEmpty)
    #expect(try bench.titles().isEmpty)
    let first = try folder.status(of: "a.md")?.item
    if moved { try folder.rename("a.md", to: "b.md") } else { try folder.write("a.md", "A, changed.\n") }
    let again = try folder.push()
    #expect(again.scan.created == 1 && again.scan.requeued == 1)
    let title = moved ? "b" : "a"
    #expect(try bench.titles() == [title])
    #expect(try bench.id(title).description != first)
    #expect(try folder.status(of: "\(title).md")?.state == .inStep)
  }

  @Test("F-S282 a live file moved onto a lost file's old name keeps its binding")
  func ontoLost() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench)
    try folder.write("live.md", "Live.\n")
    try folder.push()
    let live = try bench.id("live")
    try folder.write("lost.md", "Lost.\n")
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/items")
        ? .success(HTTPResponse(refusing: 400, "validation_error")) : nil
    }
    try folder.push()
    bench.goOnline()
    try folder.rename("lost.md", to: "aside.md")
    try folder.rename("live.md", to: "lost.md")
    let scan = try folder.scan()
    #expect(scan.renamed == 1 && scan.requeued == 1)
    #expect(try folder.status(of: "lost.md")?.item == live.description)
    try folder.push()
    #expect(try folder.status(of: "lost.md")?.item == live.description)
    #expect(try folder.placement(of: live) == "lost.md")
    #expect(try bench.titles() == ["aside", "live"])
  }
}

/// Bytes that cannot be had now (F37.2).
struct AbsentBytesScenarios {
  @Test("F-S276 a 503, a 429 and an unreadable held copy leave three files absent; afterwards all are written")
  func environmental() throws {
    let bench = try FolderBench()
    let folder = try KeptFolder(bench, BytesScenarios.all)
    try folder.push()
    let contents: [(Text, [UInt8])] = [
      ("busy.png", BytesScenarios.png + [1]), ("held.png", BytesScenarios.png + [3]),
      ("limited.png", BytesScenarios.png + [2]),
    ]
    for (title, bytes) in contents { try bench.file(title, bytes, type: "core.file.image", mime: "image/png") }
    let hashes = contents.map { ContentHash(of: $0.1) }
    // One copy is held beside the store already, and its disk does not give it.
    try folder.folders.working(folder.root, "test") { try $0.copy.fetch(hashes[1]) }
    let fails = Switch()
    fails.set(true)
    func push() throws -> FolderPush {
      let made = folder.folders
      let door = StoreDoor(
        database: made.door.database,
        blobs: { UnreadableBlobs(try made.door.blobs($0), hashes[1], fails) })
      let folders = Folders(context: made.context, registry: made.registry, endpoint: made.endpoint, door: door)
      bench.clock.advance(nanoseconds: 50_000_000)
      guard case .pushed(let push) = try folders.push(folder.root) else { throw BenchError("waits") }
      return push
    }
    bench.transport.before = { request in
      if request.url.contains(hashes[0].hex) { return .success(HTTPResponse(refusing: 503, "unavailable")) }
      if request.url.contains(hashes[2].hex) { return .success(HTTPResponse(refusing: 429, "rate_limited")) }
      return nil
    }
    let first = try push()
    #expect(first.pull?.absent == 3 && first.pull?.written == 0 && folder.files().isEmpty)
    #expect(first.pull?.flagged.map(\.path) == ["busy.png", "held.png", "limited.png"])
    #expect(words(first).filter { $0.contains("cannot be had now") }.count == 3, "\(words(first))")
    bench.goOnline()
    fails.set(false)
    #expect(try push().pull?.written == 3)
    for (title, bytes) in contents { #expect(folder.bytes(title.string) == bytes) }
    #expect(try bench.titles() == ["busy.png", "held.png", "limited.png"])
  }
}

/// Bytes beside a store, those of one hash unreadable for a while.
private final class UnreadableBlobs: BlobStore {
  private let inner: any BlobStore
  private let hash: ContentHash
  private let fails: Switch

  init(_ inner: any BlobStore, _ hash: ContentHash, _ fails: Switch) {
    self.inner = inner
    self.hash = hash
    self.fails = fails
  }

  func has(_ hash: ContentHash) -> Bool { inner.has(hash) }
  func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)? {
    if fails.isOn, hash == self.hash { throw FileError(code: 13, operation: "open", path: "held") }
    return try inner.open(hash)
  }
  func size(_ hash: ContentHash) -> Int64? { inner.size(hash) }
  func path(_ hash: ContentHash) -> PathBytes? { inner.path(hash) }
  func incoming() throws(FileError) -> any IncomingBlob { try inner.incoming() }
  func remove(_ hash: ContentHash) { inner.remove(hash) }
  func all() -> [(hash: ContentHash, size: Int64)] { inner.all() }
}

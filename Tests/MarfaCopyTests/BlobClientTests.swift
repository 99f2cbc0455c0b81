import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Blobs at the client (blobs.md 8 to 10).
@Suite struct BlobClientTests {
  /// A file item of the instance naming bytes, and their hash.
  private func blob(_ bench: QueueBench, _ text: String = "the bytes") throws -> ContentHash {
    let answer = bench.bench.instance.handle(
      InstanceRequest(
        method: "POST", target: "/blobs",
        headers: [
          HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "text/plain"),
        ], body: Array(text.utf8)))
    guard case .whole(let response) = answer, response.status == 201 else { throw ScratchError("no blob") }
    let hash = ContentHash(of: Array(text.utf8))
    try bench.bench.ask(
      "POST", "/items",
      [
        "type": "core.file",
        "properties": [
          "title": "file.txt", "blob_ref": .string(hash.text), "mime_type": "text/plain", "filename": "file.txt",
        ],
      ])
    return hash
  }

  private func read(_ bench: QueueBench, _ hash: ContentHash) throws -> String {
    let file = try bench.copy.bytes(hash)
    var out: [UInt8] = []
    while case let piece = try file.read(limit: 1 << 16), !piece.isEmpty { out += piece }
    return String(decoding: out, as: UTF8.self)
  }

  @Test("B-S26 bytes that do not match the hash are decoding, and nothing of them is kept")
  func mismatch() throws {
    let bench = try QueueBench()
    let hash = try blob(bench)
    bench.bench.transport.pieces = { request, bytes in
      request.bearer == nil && request.target != "/" ? Array("other bytes".utf8.prefix(bytes.count)) : bytes
    }
    bench.bench.transport.after = { request, response in
      guard request.bearer == nil, request.target != "/", response.status == 200 else { return .success(response) }
      var changed = response
      changed.body = Array(repeating: UInt8(ascii: "x"), count: response.body.count)
      return .success(changed)
    }
    #expect(bench.bench.refusal { try bench.copy.fetch(hash) }?.code == .decoding)
    #expect(!bench.blobs.has(hash))
    #expect(bench.blobs.all().isEmpty)
    bench.bench.transport.after = nil
    bench.bench.transport.pieces = nil
    #expect(try read(bench, hash) == "the bytes")
  }

  @Test("B-S27 the server's own 404, no network and an expired link are bytes_absent with the hash")
  func absent() throws {
    let unknown = ContentHash(of: Array("nowhere".utf8))
    let bench = try QueueBench()
    let missing = bench.bench.refusal { try bench.copy.fetch(unknown) }
    #expect(missing?.code == .bytesAbsent)
    #expect(missing?.message.contains(unknown.hex) == true)
    let hash = try blob(bench)
    bench.on("GET", "/blobs", .drop)
    let away = bench.bench.refusal { try bench.copy.fetch(hash) }
    #expect(away?.code == .bytesAbsent)
    #expect(away?.message.contains(hash.hex) == true)
    bench.heal()
    bench.bench.transport.before = { request in
      request.bearer == nil && request.target != "/"
        ? .success(HTTPResponse(status: 401, body: Array(refusing("unauthorized").utf8))) : nil
    }
    let expired = bench.bench.refusal { try bench.copy.fetch(hash) }
    #expect(expired?.code == .bytesAbsent)
    #expect(expired?.message.contains(hash.hex) == true)
    bench.bench.transport.before = nil
    #expect(try read(bench, hash) == "the bytes")
  }

  @Test("B-S28 a link is followed without a credential")
  func linkWithoutCredential() throws {
    let bench = try QueueBench()
    let hash = try blob(bench)
    bench.clear()
    #expect(try read(bench, hash) == "the bytes")
    let sent = bench.bench.transport.sent.filter { $0.target != "/" }
    #expect(sent.count == 2)
    #expect(sent.first?.target.hasSuffix("/url") == true)
    #expect(sent.first?.bearer != nil)
    #expect(sent.last?.bearer == nil)
    #expect(sent.last?.headers.contains { $0.name.lowercased() == "authorization" } == false)
  }

  @Test("B-S29 what is sent is the bytes of the moment of attaching, whatever the file becomes")
  func bytesOfTheMoment() throws {
    let bench = try QueueBench()
    let disk = bench.bench.context.files
    let directory = try disk.openDirectory("/")
    let file = try directory.create("photo.txt", mode: 0o600, exactMode: false)
    try file.write(Array("first".utf8))
    try file.close()
    let upload = try bench.queue.upload(file: try directory.open("photo.txt"), mimeType: "text/plain")
    try directory.unlink("photo.txt")
    let again = try directory.create("photo.txt", mode: 0o600, exactMode: false)
    try again.write(Array("second".utf8))
    try again.close()
    try bench.drain()
    #expect(bench.writes.map(\.text) == ["first"])
    #expect(try bench.verdict(upload) == .accepted)
    #expect(upload.blob == ContentHash(of: Array("first".utf8)))
  }

  @Test("B-S30 killed between upload and item write: one item, one edge, and the blob lends")
  func killedBetween() throws {
    let bench = try QueueBench()
    let host = try bench.held("H")
    let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("kept".utf8)), mimeType: "text/plain")
    let hash = try #require(upload.blob)
    let item = try bench.queue.createItem(
      ItemDraft(
        type: "core.file",
        properties: [
          "title": "kept.txt", "blob_ref": .string(hash.text), "mime_type": "text/plain", "filename": "kept.txt",
        ], upload: upload.id))
    let id = try #require(item.itemID)
    try bench.queue.createEdge(EdgeDraft(source: id, target: host, type: "attached-to"))
    bench.on("POST", "/items", .lose)
    try bench.drain()
    #expect(try bench.verdict(upload) == .accepted)
    bench.heal()
    try bench.reopen()
    bench.clear()
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted, .accepted])
    #expect(!bench.writes.contains { $0.target == "/blobs" })
    #expect(try bench.bench.ask("GET", "/items?type=core.file")["data"]?.array?.count == 1)
    #expect(try bench.bench.ask("GET", "/edges?edge_type=attached-to")["data"]?.array?.count == 1)
    // Another machine fetches it.
    bench.blobs.remove(hash)
    #expect(try read(bench, hash) == "kept")
  }

  @Test("B-S31 the kept bytes deleted before the drain: upload, file item and edge are refused unsent")
  func bytesGone() throws {
    let bench = try QueueBench()
    let host = try bench.held("H")
    let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("gone".utf8)), mimeType: "text/plain")
    let hash = try #require(upload.blob)
    let item = try bench.queue.createItem(
      ItemDraft(
        type: "core.file",
        properties: [
          "title": "gone.txt", "blob_ref": .string(hash.text), "mime_type": "text/plain", "filename": "gone.txt",
        ], upload: upload.id))
    let edge = try bench.queue.createEdge(
      EdgeDraft(source: try #require(item.itemID), target: host, type: "attached-to"))
    bench.blobs.remove(hash)
    bench.clear()
    let report = try bench.drain()
    #expect(report.unsent == 3)
    #expect(bench.writes.isEmpty)
    #expect(try bench.write(upload.id).reason?.string.contains(hash.hex) == true)
    #expect(try bench.write(item.id).reason == "the upload_blob it waits for was refused")
    #expect(try bench.write(edge.id).reason == "the create_item it waits for was refused")
    #expect(try bench.copy.edges(to: host).isEmpty)
  }

  @Test("B-S32 the kept bytes unreadable for now: the upload has no verdict and goes at the next drain")
  func bytesShut() throws {
    let bench = try QueueBench()
    let upload = try bench.queue.upload(file: MemoryFile(bytes: Array("shut".utf8)), mimeType: "text/plain")
    bench.blobs.isShut = true
    for _ in 0..<6 { #expect(try bench.drain().undelivered == 1) }
    #expect(try bench.verdict(upload) == nil)
    #expect(try bench.write(upload.id).refusals == 0)
    #expect(bench.writes.isEmpty)
    bench.blobs.isShut = false
    try bench.drain()
    #expect(try bench.verdict(upload) == .accepted)
    #expect(bench.writes.map(\.text) == ["shut"])
  }

  @Test(
    "B-S34 a 404 without the contract to the link request is unnamed_answer; a redirect is redirect, never followed")
  func unnamedLink() throws {
    let bench = try QueueBench()
    let hash = try blob(bench)
    bench.on("GET", "/blobs", .unnamed(404, "no such page"))
    #expect(bench.bench.refusal { try bench.copy.fetch(hash) }?.code == .unnamedAnswer)
    bench.heal()
    for target in ["/blobs"] {
      bench.on("GET", target, .answer(302, "", [HTTPHeader("Location", "https://elsewhere.example/b")]))
      #expect(bench.bench.refusal { try bench.copy.fetch(hash) }?.code == .redirect)
      bench.heal()
    }
    bench.bench.transport.before = { request in
      request.bearer == nil && request.target != "/"
        ? .success(HTTPResponse(status: 302, headers: [HTTPHeader("Location", "https://elsewhere.example/b")])) : nil
    }
    #expect(bench.bench.refusal { try bench.copy.fetch(hash) }?.code == .redirect)
    #expect(!bench.bench.transport.sent.contains { $0.url.contains("elsewhere") })
    #expect(!bench.blobs.has(hash))
  }
}

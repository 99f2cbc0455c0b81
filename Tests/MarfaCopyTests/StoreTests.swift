import Glibc
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite struct StoreTests {
  @Test(
    "D-S36 D41.5 D41.6 a store of another shape or version is refused, its unsent writes counted, no deletion advised")
  func wrongSchema() throws {
    for change in ["PRAGMA user_version = 99", "ALTER TABLE pin ADD COLUMN more TEXT"] {
      let bench = try CopyBench()
      let row = "INSERT INTO queue (id, kind, idempotency_key, queued_at, verdict) VALUES"
      try bench.database.execute("\(row) ('a', 'create_item', 'k1', 0, NULL), ('b', 'create_item', 'k2', 0, 'blocked')")
      try bench.database.execute(change)
      let refusal = bench.refusal { try bench.reopen() }
      #expect(refusal?.code == .wrongSchema)
      #expect(refusal?.message.contains("2 unsent") == true)
      #expect(refusal?.message.contains("delete") == false)
    }
  }

  @Test("D-S37 D41.4 a writer adds a table this build adds; a reader says to open it with the writer")
  func addedTable() throws {
    let bench = try CopyBench()
    try bench.database.execute("DROP TABLE purged")
    let refusal = bench.refusal {
      _ = try WorkingCopy.open(
        database: bench.database, blobs: MemoryBlobStore(), context: bench.context, role: .reader, endpoint: nil,
        credentials: nil)
    }
    #expect(refusal?.code == .invalid && refusal?.message.contains("writer") == true)
    try bench.reopen()
    #expect(try !bench.copy.isPurged(bench.context.ids.next()))
  }

  @Test("D-S32 D3.2 a reading handle refuses what writes before any server is asked, and answers reads")
  func reader() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let reader = try WorkingCopy.open(
      database: bench.database, blobs: MemoryBlobStore(), context: bench.context, role: .reader,
      endpoint: Endpoint(baseURL: "nowhere", credential: nil), credentials: nil)
    bench.transport.clear()
    #expect(
      bench.refusal { try reader.hydrate(Slice(types: ["core.note"], tier: "all", edgeTypes: [])) }?.code
        == .readingHandle)
    #expect(bench.refusal { try reader.catchUp() }?.code == .readingHandle)
    #expect(bench.refusal { _ = try reader.follow { _ in .more } }?.code == .readingHandle)
    #expect(bench.refusal { try reader.pin(note, owner: "x") }?.code == .readingHandle)
    #expect(bench.transport.requests.isEmpty)
    #expect(try reader.item(note)?.properties["title"]?.text == "Note")
    #expect(try reader.status().hydration == .complete)
  }

  @Test("D-S27 D2.2 the store names the origin and never the key")
  func noKey() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill()
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/copy.sqlite"
    try bench.database.execute("VACUUM INTO '\(path)'")
    let bytes = try SystemFileSystem().openDirectory(PathBytes("\(directory.path)")).open("copy.sqlite")
    var all: [UInt8] = []
    while case let piece = try bytes.read(limit: 1 << 20), !piece.isEmpty { all += piece }
    let text = String(decoding: all, as: UTF8.self)
    #expect(text.contains(CopyBench.origin))
    #expect(!text.contains(CopyBench.key))
  }

  @Test("SF6.3 D34.2 times are read as the instance reads them, and what is no time is not one")
  func times() throws {
    let cases: [(Text, Text?)] = [
      ("2026", "2026-01-01T00:00:00.000Z"), ("2026-03", "2026-03-01T00:00:00.000Z"),
      ("2026-03-01", "2026-03-01T00:00:00.000Z"), ("2026-03-01T09:30", "2026-03-01T09:30:00.000Z"),
      ("2026-03-01T09:30:15.98765Z", "2026-03-01T09:30:15.987Z"),
      ("2026-03-01T09:30:15+02:00", "2026-03-01T07:30:15.000Z"), ("2024-02-29", "2024-02-29T00:00:00.000Z"),
      ("2026-02-30", nil), ("2026-13-01", nil), ("yesterday", nil), ("", nil), ("2026-03-01T25:00", nil),
      ("2026-03-01T09:30:15+0", nil), ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
    ]
    for (text, expected) in cases { #expect(Timestamp(served: text)?.text == expected, "\(text)") }
  }
}

@Suite struct BlobTests {
  /// Uploads bytes to the instance; their hash.
  private func upload(_ bench: CopyBench, _ bytes: [UInt8]) throws -> ContentHash {
    let response = try bench.transport.send(
      HTTPRequest(
        method: "POST", url: CopyBench.origin + "/blobs",
        headers: [HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "image/png")],
        body: .bytes(bytes)), stop: StopFlag())
    #expect(response.status == 201)
    let hash = ContentHash(of: bytes)
    // A blob is within reach through a row that names it (B5).
    try bench.ask(
      "POST", "/items",
      [
        "type": "core.file",
        "properties": [
          "title": "file.png", "blob_ref": .string(hash.text), "mime_type": "image/png",
          "size_bytes": .int(bytes.count),
        ],
      ])
    return hash
  }

  @Test("D37.1 D37.3 B8.1 bytes come by a link followed without the credential, and from beside the store after that")
  func fetches() throws {
    let bench = try CopyBench()
    let bytes = [UInt8]((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
    let hash = try upload(bench, bytes)
    bench.transport.clear()
    try bench.copy.fetch(hash)
    #expect(try bench.copy.blobs.bytes(hash) == bytes)
    let link = try #require(bench.transport.sent.last)
    #expect(link.url.contains("/fetch?"))
    #expect(!link.headers.contains { $0.name == "Authorization" })
    bench.transport.clear()
    _ = try bench.copy.bytes(hash)
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("D30.1 D37.2 B8.3 bytes that are nowhere are absent, wrong ones are not kept, an unnamed 404 proves nothing")
  func absent() throws {
    let bench = try CopyBench()
    let hash = try upload(bench, Array("words".utf8))
    let refusal = bench.refusal { try bench.copy.fetch(ContentHash(of: [1])) }
    #expect(refusal?.code == .bytesAbsent && refusal?.message.contains(ContentHash(of: [1]).hex) == true)
    bench.transport.before = { request in
      request.url.contains("/fetch?")
        ? .success(HTTPResponse(status: 200, headers: [], body: Array("other".utf8))) : nil
    }
    #expect(bench.refusal { try bench.copy.fetch(hash) }?.code == .decoding)
    #expect(!bench.copy.blobs.has(hash))
    bench.transport.before = { request in request.url.contains("/url") ? .success(HTTPResponse(status: 404)) : nil }
    #expect(bench.refusal { try bench.copy.fetch(hash) }?.code == .unnamedAnswer)
    bench.transport.before = { request in
      request.url.contains("/url") ? .success(HTTPResponse(status: 302, headers: [HTTPHeader("Location", "x")])) : nil
    }
    #expect(bench.refusal { try bench.copy.fetch(hash) }?.code == .redirect)
    bench.transport.before = nil
    try bench.copy.fetch(hash)
    #expect(bench.copy.blobs.has(hash))
  }

  @Test("B10.1 B10.2 X10 on disk: 0600 in 0700 under their hash, whole or not there, half-written ones swept")
  func onDisk() throws {
    let directory = try TemporaryDirectory()
    let files = SystemFileSystem()
    let clock = SystemClock()
    let place = PathBytes("\(directory.path)/core.sqlite.blobs")
    let store = FileBlobStore(path: place, files: files, ids: SystemIds(clock: clock))
    let hash = try store.put(Array("bytes".utf8))
    #expect(store.has(hash) && store.size(hash) == 5)
    #expect(try store.bytes(hash) == Array("bytes".utf8))
    #expect(try files.status(place)?.mode == 0o700)
    #expect(try files.status(place.appending(PathBytes(hash.hex)))?.mode == 0o600)
    let wrong = try store.incoming()
    try wrong.write([1])
    #expect(try wrong.finish(expecting: hash) != hash)
    let half = try store.incoming()
    try half.write([2])
    #expect(store.all().map(\.hash) == [hash])
    store.sweepIncoming(now: Timestamp(milliseconds: clock.now.milliseconds + 2 * 3_600_000))
    #expect(try files.openDirectory(place).list().map(\.name) == [PathBytes(hash.hex)])
    store.remove(hash)
    #expect(!store.has(hash))
  }
}

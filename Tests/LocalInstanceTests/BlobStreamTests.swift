import CPosix
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import LocalInstance

/// Blobs in a directory, on a disk that has as much room as the test says.
private final class TightBlobs: InstanceBlobs {
  private let held: DirectoryBlobs
  private let room: Room
  init(_ path: PathBytes, _ room: Room) throws {
    held = try DirectoryBlobs(path)
    self.room = room
  }
  func keep(_ bytes: [UInt8], as hash: ContentHash) throws { try held.keep(bytes, as: hash) }
  func size(of hash: ContentHash) -> Int? { held.size(of: hash) }
  func read(_ hash: ContentHash, from start: Int, count: Int) throws -> [UInt8]? {
    try held.read(hash, from: start, count: count)
  }
  func remove(_ hash: ContentHash) { held.remove(hash) }
  func begin() throws -> any ArrivingBlob { try held.begin() }
  var available: Int? { room.bytes.load(ordering: .relaxed) }
}

private final class Room: Sendable {
  let bytes = Atomic<Int>(1 << 40)
}

/// A real instance behind the real server, on a thread of its own.
private final class LiveInstance: Sendable {
  let room = Room()
  let url: String
  let blobs: PathBytes
  private let stop = StopFlag()
  private let ended = Atomic<Bool>(false)

  init() throws {
    let directory = PathBytes("/tmp/marfa-live-\(SystemIds(clock: SystemClock()).next())")
    blobs = directory
    let listener = try Listener.tcp("127.0.0.1:0", allowPublic: false)
    url = listener.url
    struct Handed: @unchecked Sendable { let listener: Listener }
    let handed = Handed(listener: listener)
    let room = self.room
    let stop = stop
    detachThread { [self] in
      let clock = SystemClock()
      let ids = SystemIds(clock: clock)
      if let database = try? Database(path: ":memory:", mode: .create), let blobs = try? TightBlobs(directory, room),
        let instance = try? Instance(
          database: database, blobs: blobs, clock: clock, ids: ids, ownerKey: Bench.ownerKey)
      {
        instance.settings.streamsBlobs = true
        let server = HTTPServer(engine: instance, ids: ids, listeners: [handed.listener])
        _ = try? server.run(stop: stop)
      }
      ended.store(true, ordering: .releasing)
    }
  }

  var names: [String] { PrivateFile.names(in: blobs).map { "\($0)" } }

  func end() {
    stop.set(.stopped)
    _ = eventually { ended.load(ordering: .acquiring) }
    for name in PrivateFile.names(in: blobs) { _ = blobs.appending(name).withCString { unlink($0) } }
    _ = blobs.withCString { rmdir($0) }
  }
}

@Suite(.serialized) struct BlobStreamTests {
  static let head = "Host: 127.0.0.1\r\nAuthorization: Bearer \(Bench.ownerKey)\r\n"

  func json(_ response: HTTPResponse?) -> JSON { response.flatMap { try? JSON(parsing: $0.body) } ?? .null }

  private func ask(_ live: LiveInstance, _ method: String, _ target: String, _ body: JSON? = nil) -> HTTPResponse? {
    let bytes = body?.write() ?? []
    let client = WireClient(url: live.url)
    client.write(
      "\(method) \(target) HTTP/1.1\r\n\(Self.head)Content-Type: application/json\r\nContent-Length: \(bytes.count)\r\n\r\n"
    )
    client.write(bytes)
    return client.answer()
  }

  @Test("B-S5 20 MiB are taken by length and chunked, written as they come, and served whole and in parts")
  func large() throws {
    let live = try LiveInstance()
    defer { live.end() }
    let bytes = (0..<(20 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 12) }
    let hash = ContentHash(of: bytes).description
    let byLength = WireClient(url: live.url)
    byLength.write("POST /blobs HTTP/1.1\r\n\(Self.head)Content-Length: \(bytes.count)\r\n\r\n")
    byLength.write(bytes)
    let first = byLength.answer()
    #expect(first?.status == 201)
    #expect(json(first).string("hash") == hash && json(first)["size_bytes"]?.int == bytes.count)
    let chunked = WireClient(url: live.url)
    chunked.write("POST /blobs HTTP/1.1\r\n\(Self.head)Transfer-Encoding: chunked\r\n\r\n")
    for start in stride(from: 0, to: bytes.count, by: 1 << 20) {
      let piece = bytes[start..<min(start + 1 << 20, bytes.count)]
      chunked.write("\(String(piece.count, radix: 16))\r\n")
      chunked.write(Array(piece))
      chunked.write("\r\n")
    }
    chunked.write("0\r\n\r\n")
    let second = chunked.answer()
    #expect(second?.status == 201)
    #expect(json(second).string("hash") == hash)
    #expect(live.names == [String(hash.dropFirst(7))])
    let made = ask(
      live, "POST", "/items",
      ["type": "core.file", "properties": ["blob_ref": string(hash), "mime_type": "image/png"]])
    #expect(made?.status == 201)
    let whole = ask(live, "GET", "/blobs/\(hash)")
    #expect(whole?.status == 200)
    #expect(whole?.header("Content-Length") == "\(bytes.count)")
    #expect(whole?.body == bytes)
    let client = WireClient(url: live.url)
    client.write("GET /blobs/\(hash) HTTP/1.1\r\n\(Self.head)Range: bytes=5-4194308\r\n\r\n")
    let part = client.answer()
    #expect(part?.status == 206)
    #expect(part?.body == Array(bytes[5...4_194_308]))
  }

  @Test("B-S6 too little room is 507 with both numbers, by declared length and while chunks arrive; no file is left")
  func full() throws {
    let live = try LiveInstance()
    defer { live.end() }
    let reserve = 134_217_728
    live.room.bytes.store(reserve + 1_000, ordering: .relaxed)
    let declared = WireClient(url: live.url)
    declared.write("POST /blobs HTTP/1.1\r\n\(Self.head)Content-Length: 2000\r\n\r\n")
    let chunked = WireClient(url: live.url)
    chunked.write("POST /blobs HTTP/1.1\r\n\(Self.head)Transfer-Encoding: chunked\r\n\r\n")
    let piece = [UInt8](repeating: 7, count: 1 << 20)
    for place in 0..<4 {
      if place == 1 {
        // It began while there was room; the disk fills meanwhile.
        #expect(eventually { live.names.contains { $0.hasPrefix(".incoming-") } })
        live.room.bytes.store(reserve - 1, ordering: .relaxed)
      }
      chunked.write("100000\r\n")
      chunked.write(piece)
      chunked.write("\r\n")
    }
    chunked.write("0\r\n\r\n")
    for (answer, room) in [(declared.answer(), reserve + 1_000), (chunked.answer(), reserve - 1)] {
      #expect(answer?.status == 507)
      #expect(answer?.header("X-Error-Code") == "insufficient_storage")
      let details = json(answer)["error"]?["details"]
      #expect(details?["reserve_bytes"]?.int == reserve)
      #expect(details?["available_bytes"]?.int == room)
    }
    #expect(eventually { live.names.isEmpty })
  }

  @Test("an upload without a credential is refused before its body is read")
  func unread() throws {
    let live = try LiveInstance()
    defer { live.end() }
    let stranger = WireClient(url: live.url)
    stranger.write("POST /blobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n\r\n")
    #expect(stranger.answer()?.status == 401)
  }
}

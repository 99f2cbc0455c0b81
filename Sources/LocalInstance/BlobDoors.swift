import MarfaBase

/// Upload, download and links of blobs (B2 to B4).
extension Instance {
  func uploadBlob(_ call: Call) throws -> Reply {
    let type = try judgeUpload(call)
    let count = incoming?.count ?? call.request.body.count
    if count == 0 { throw Refusal.invalid("", "The body is empty.") }
    try judgeRoom(incoming == nil ? count : 0)
    let hash: ContentHash
    if let incoming {
      hash = try incoming.finish()
    } else {
      hash = ContentHash(of: call.request.body)
      if blobs.size(of: hash) == nil { try blobs.keep(call.request.body, as: hash) }
    }
    try database.run(
      """
      INSERT INTO blob (hash, mime_type, size, at) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET at = excluded.at
      """, hash, type, count, clock.now)
    try database.run("INSERT OR IGNORE INTO upload VALUES (?, ?)", hash, call.credential.id)
    let kept = try database.one("SELECT mime_type FROM blob WHERE hash = ?", hash) { $0.text(0) }
    return .json(
      201,
      ["hash": .string(hash.text), "mime_type": .optional(kept), "size_bytes": .int(count)])
  }

  /// Refuses an upload the disk has no room for (B2.5).
  func judgeRoom(_ count: Int) throws {
    guard let available = blobs.available, available - count < settings.diskReserve else { return }
    throw Refusal(
      507, "insufficient_storage", "The disk is nearly full.",
      ["reserve_bytes": .int(settings.diskReserve), "available_bytes": .int(available)])
  }

  /// What an upload's head is judged by, in the order of B2.7; its media type.
  func judgeUpload(_ call: Call) throws -> String {
    let writes = catalog.typeOrder.contains { !isSystem($0) && call.credential.types.writes($0) }
    guard writes else { throw Refusal(403, "type_not_permitted", "The credential writes no type.") }
    try call.query.declare([])
    let media = call.header("content-type").map { type in
      String(decoding: trimmed(Array(type.utf8.prefix { $0 != UInt8(ascii: ";") })), as: UTF8.self)
    }
    if let media, lowercased(media) == "multipart/form-data" {
      throw Refusal.invalid("Content-Type", "The body is the bytes themselves.")
    }
    return media.flatMap { $0.isEmpty ? nil : $0 } ?? "application/octet-stream"
  }

  /// The digest in the path, with or without its prefix (B1.2).
  private func digest(_ call: Call) throws -> ContentHash {
    guard let text = call.parts.first, text.bytes.count == 64 || text.bytes.count == 71,
      text.bytes.count == 64 || text.bytes.starts(with: "sha256:".utf8), let hash = ContentHash(text)
    else { throw Refusal.invalid("hash", "A blob is named by sha256: and 64 lowercase hexadecimal digits.") }
    return hash
  }

  private static let blobNotFound = Refusal(404, "blob_not_found", "No such blob.")

  func downloadBlob(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let hash = try digest(call)
    guard try reaches(hash, call.credential) else { throw Instance.blobNotFound }
    return try blobReply(hash, call)
  }

  private func blobReply(_ hash: ContentHash, _ call: Call) throws -> Reply {
    let type = try database.one("SELECT mime_type FROM blob WHERE hash = ?", hash) { $0.string(0) }
    guard let type, let size = blobs.size(of: hash) else { throw Instance.blobNotFound }
    var start = 0
    var count = size
    var reply = Reply(status: 200, body: [], isBare: true)
    if let header = call.header("range"), let (from, to) = byteRange(header) {
      if from >= size || to.map({ $0 < from }) ?? false {
        var refusal = Refusal(
          416, "range_not_satisfiable", "The range lies outside the blob.", ["size_bytes": .int(size)])
        refusal.headers = [HTTPHeader("Content-Range", "bytes */\(size)")]
        throw refusal
      }
      start = from
      count = min(to ?? size - 1, size - 1) - from + 1
      reply.status = 206
      reply.headers.append(HTTPHeader("Content-Range", "bytes \(start)-\(start + count - 1)/\(size)"))
    }
    reply.headers += [
      HTTPHeader("Content-Type", type), HTTPHeader("Content-Length", "\(count)"), HTTPHeader("Accept-Ranges", "bytes"),
      HTTPHeader("ETag", "\"\(hash)\""),
      HTTPHeader("Content-Disposition", "attachment; filename=\"\(hash.hex)\""),
      HTTPHeader("Content-Security-Policy", "sandbox; default-src 'none'"),
      HTTPHeader("X-Content-Type-Options", "nosniff"),
    ]
    if call.method != "HEAD", settings.streamsBlobs, count > 1 << 20 {
      reply.source = BlobSource(blobs, hash, from: start, count: count)
    } else if call.method != "HEAD" {
      guard let bytes = try blobs.read(hash, from: start, count: count) else { throw Instance.blobNotFound }
      reply.body = bytes
    }
    return reply
  }

  /// `bytes=a-b` and `bytes=a-`; nil for every other form, which is ignored (B3.5).
  private func byteRange(_ header: String) -> (Int, Int?)? {
    guard header.hasPrefix("bytes=") else { return nil }
    let parts = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 2, let from = number(parts[0]) else { return nil }
    if parts[1].isEmpty { return (from, nil) }
    guard let to = number(parts[1]) else { return nil }
    return (from, to)
  }

  private func number(_ text: Substring) -> Int? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let value = Int(text),
      value <= 9_007_199_254_740_991
    else { return nil }
    return value
  }

  private func signature(_ hash: ContentHash, _ expires: Int) throws -> String {
    let key = try secret()
    let inner = ContentHash(of: key.bytes + Array("blob \(hash.hex) \(expires)".utf8)).bytes
    return base64URL(ContentHash(of: key.bytes + inner).bytes)
  }

  /// `GET /blobs/{hash}/url` (B4.1).
  func linkBlob(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["ttl"])
    var ttl = 3600
    if let text = call.query["ttl"] {
      let isLong = text.bytes.count > 18 && text.bytes.allSatisfy { (0x30...0x39).contains($0) }
      guard let value = isLong ? .max : decimal(text), value >= 1 else {
        throw Refusal.invalid("ttl", "ttl is a whole number of at least 1.")
      }
      ttl = min(value, 604_800)
    }
    let hash = try digest(call)
    guard try reaches(hash, call.credential), blobs.size(of: hash) != nil else { throw Instance.blobNotFound }
    let expires = Int(clock.now.milliseconds / 1000) + ttl
    let host = call.header("host").map { "http://\($0)" } ?? settings.origin
    let url = "\(host)/blobs/\(hash)/fetch?expires=\(expires)&signature=\(try signature(hash, expires))"
    return .json(200, ["url": .string(url), "expires_in": .int(ttl)])
  }

  /// `GET /blobs/{hash}/fetch`, without a credential (B4.2, B4.3).
  func fetchBlob(_ call: Call) throws -> Reply {
    try call.query.declare(["expires", "signature"])
    guard let expires = call.query["expires"] else { throw Refusal.missing("expires") }
    guard let signed = call.query["signature"] else { throw Refusal.missing("signature") }
    let hash = try digest(call)
    guard let time = decimal(expires), Int64(time) * 1000 > clock.now.milliseconds,
      signed == (try signature(hash, time))
    else { throw Refusal.unauthorized }
    return try blobReply(hash, call)
  }
}

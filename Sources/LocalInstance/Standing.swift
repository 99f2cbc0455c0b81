import Glibc
import MarfaBase

/// Which blobs a row lends (B5, B6): one bit per row and digest, decided when the row first names the digest.
struct Standing {
  let kind: String
  let owner: EntityID
  let place: Text
  /// Digests the row names and whether it lends them.
  var named: [ContentHash: Bool]
  /// Whether anything differs from what is stored.
  var changed: Bool

  /// Stores it, once the row is written.
  func write(_ database: Database) throws {
    guard changed else { return }
    try database.run("DELETE FROM lending WHERE kind = ? AND owner = ? AND place = ?", kind, owner, place)
    for (hash, lends) in named {
      try database.run(
        "INSERT INTO lending (hash, kind, owner, place, lends) VALUES (?, ?, ?, ?, ?)", hash, kind, owner, place, lends)
    }
  }
}

extension Instance {
  /// The standing a row has once it holds these properties. Digests it named before keep theirs (B6.3); new ones lend
  /// where the writer uploaded the bytes or can read them now, but not those a stale write's base named (B6.5).
  func takeStanding(
    _ properties: JSONObject, kind: String = "item", owner: EntityID, place: Text, held: [UInt8]?,
    base: JSONObject? = nil, _ call: Call
  ) throws -> Standing {
    let text = JSON.object(properties).write()
    let digests = digests(in: text)
    let before = held.map(self.digests) ?? []
    var named: [ContentHash: Bool] = [:]
    if digests.isEmpty, before.isEmpty {
      return Standing(kind: kind, owner: owner, place: place, named: [:], changed: false)
    }
    if !before.isEmpty {
      try database.rows(
        "SELECT hash, lends FROM lending WHERE kind = ? AND owner = ? AND place = ?", [kind, owner, place]
      ) { row in
        if let hash = ContentHash(row.text(0)), digests.contains(hash) { named[hash] = row.bool(1) }
      }
    }
    let baseDigests = base.map { self.digests(in: JSON.object($0).write()) } ?? []
    for hash in digests where named[hash] == nil {
      named[hash] = try !baseDigests.contains(hash) && mayLend(hash, call.credential)
    }
    return Standing(kind: kind, owner: owner, place: place, named: named, changed: digests != before || held == nil)
  }

  /// A conflicted copy keeps the standing of the text it sets aside (B6.5), and lends what its writer proved.
  func copyStanding(from original: EntityID, to copy: ItemRow, _ call: Call) throws {
    var standing = try takeStanding(copy.propertiesObject, owner: copy.id, place: "", held: nil, call)
    try database.rows("SELECT hash FROM lending WHERE kind = 'item' AND owner = ? AND lends", [original]) { row in
      if let hash = ContentHash(row.text(0)), standing.named[hash] != nil { standing.named[hash] = true }
    }
    try standing.write(database)
  }

  private func mayLend(_ hash: ContentHash, _ credential: Credential) throws -> Bool {
    let uploaded = try database.one(
      "SELECT 1 FROM upload WHERE hash = ? AND credential = ?", hash, credential.id
    ) { $0.int(0) }
    if uploaded != nil { return true }
    return try reaches(hash, credential)
  }

  /// Whether some readable row lends the blob to the credential (B5.1).
  func reaches(_ hash: ContentHash, _ credential: Credential) throws -> Bool {
    let lenders = try database.all(
      "SELECT kind, owner, place FROM lending WHERE hash = ? AND lends", hash
    ) { ($0.string(0), $0.id(1), $0.text(2)) }
    for (kind, owner, place) in lenders {
      guard let owner else { continue }
      switch kind {
      case "edge":
        if let edge = try edge(owner), credential.edges.reads(edge.type), let type = try typeOf(edge.source),
          credential.reads(type)
        {
          return true
        }
      case "extension":
        if let type = try typeOf(owner), credential.reads(type), credential.extensions.reads(place) { return true }
      default: if let type = try typeOf(owner), credential.reads(type) { return true }
      }
    }
    return false
  }

  /// Every `sha256:<64 hex>` a text spells.
  private func digests(in text: [UInt8]) -> Set<ContentHash> {
    var found: Set<ContentHash> = []
    text.withUnsafeBytes { bytes in
      guard let start = bytes.baseAddress else { return }
      var at = 0
      // A colon is seldom: what stands around one is looked at.
      while at < bytes.count, let colon = memchr(start + at, Int32(UInt8(ascii: ":")), bytes.count - at) {
        let place = UnsafeRawPointer(colon) - start
        at = place + 1
        guard place >= 6, at + 64 <= bytes.count, bytes[(place - 6)..<place].elementsEqual("sha256".utf8),
          at + 64 == bytes.count || !isAlphanumeric(bytes[at + 64]),
          let hash = ContentHash(Text(bytes: bytes[at..<(at + 64)]))
        else { continue }
        found.insert(hash)
      }
    }
    return found
  }

  /// Sets a file's `size_bytes` from the stored bytes, where its `blob_ref` lends them (B7).
  func settleFile(_ properties: inout JSONObject, _ type: Text, _ standing: Standing) throws {
    guard catalog.isFile(type) else { return }
    if let sent = properties["size_bytes"], !sent.isNull, sent.int == nil {
      throw Refusal.properties([("size_bytes", "size_bytes is not a whole number.")])
    }
    if let text = properties["blob_ref"]?.text, text.bytes.starts(with: "sha256:".utf8),
      let hash = ContentHash(text), standing.named[hash] == true, let size = blobs.size(of: hash)
    {
      properties["size_bytes"] = .int(size)
    } else {
      properties["size_bytes"] = nil
    }
  }
}

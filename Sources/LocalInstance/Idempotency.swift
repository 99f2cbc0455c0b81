import Glibc
import MarfaBase

/// A key of one credential under which a request is being worked on.
struct Claim: Hashable {
  var credential: EntityID
  var name: String

  static func == (left: Claim, right: Claim) -> Bool {
    left.credential == right.credential && left.name.utf8.elementsEqual(right.name.utf8)
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(credential)
    for byte in name.utf8 { hasher.combine(byte) }
  }
}

/// A kept answer as its row holds it.
private struct KeptAnswer {
  var request: String
  var status: Int
  var code: String?
  var body: [UInt8]?
  var grants: Text?
  var draws: Drawing?
}

/// Where a kept answer leaves out an item's properties, which stand in the item's row or, once it has moved on, in the
/// snapshot of that version: words are stored once.
private struct Drawing {
  var item: EntityID
  var version: Int
  var cut: Int

  /// Below this a copy costs less than looking it up.
  static let least = 512

  init?(_ row: Row, from column: Int) {
    guard let item = row.id(column), let version = row.optionalInt(column + 1), let cut = row.optionalInt(column + 2)
    else { return nil }
    (self.item, self.version, self.cut) = (item, version, cut)
  }

  /// Nil where the answer does not begin as an item's does.
  init?(_ row: ItemRow, in body: [UInt8]) {
    var head = Array("{\"item\":{\"id\":\"".utf8)
    head += row.id.text.bytes
    head += "\",\"type\":\"".utf8
    head += row.type.bytes
    head += "\",\"properties\":".utf8
    let end = head.count + row.properties.count
    guard row.properties.count >= Drawing.least, body.count >= end, body.starts(with: head),
      body.withUnsafeBytes({ bytes in
        row.properties.withUnsafeBytes { part in
          guard let start = bytes.baseAddress, let same = part.baseAddress else { return false }
          return memcmp(start + head.count, same, part.count) == 0
        }
      })
    else { return nil }
    (item, version, cut) = (row.id, row.version, head.count)
  }
}

/// Answers kept under idempotency keys (I24, ER3).
extension Instance {
  /// Claims a key for a request. An answer is kept in the transaction of what it answers, so a claim needs to last no
  /// longer than the request, and dies with the process that worked on it.
  func take(_ claim: Claim) throws -> Claim {
    let now = clock.monotonic
    if let since = claims[claim], now < since + 60_000_000_000 {
      throw Refusal(409, "idempotency_key_in_flight", "A request under that idempotency key is being worked on.")
    }
    claims[claim] = now
    return claim
  }

  private func fingerprint(_ call: Call) -> String {
    var hasher = ContentHasher()
    // The contract's number is part of it: after a move to another, the key is another request's (I24.5).
    for part in [call.method, call.request.target, call.isJSON ? "json" : "other", "contract 0"] {
      hasher.update(Array("\(part.utf8.count):\(part)\n".utf8))
    }
    hasher.update(call.request.body)
    return hasher.finish().hex
  }

  /// What the key's first answer was; nil where the request is to be worked on.
  func keptAnswer(_ name: String, _ call: Call) throws -> Reply? {
    let kept = try database.one(
      """
      SELECT request, status, code, body, grants, item, version, cut FROM answer WHERE credential = ? AND name = ?
      """, call.credential.id, name
    ) { row in
      KeptAnswer(
        request: row.string(0), status: row.int(1), code: row.optionalString(2),
        body: row.isNull(3) ? nil : row.bytes(3), grants: row.optionalText(4), draws: Drawing(row, from: 5))
    }
    guard let kept else { return nil }
    guard kept.request == fingerprint(call) else {
      throw Refusal(422, "idempotency_key_reused", "The idempotency key was used for another request.")
    }
    if let grants = kept.grants { try reauthorize(grants, call) }
    guard let body = try kept.body.flatMap({ try whole($0, kept.draws) }) else {
      throw Refusal(
        422, "idempotency_result_not_retained", "The first answer was too large to keep.",
        ["original_status": .int(kept.status)])
    }
    call.extraHeaders.append(HTTPHeader("Idempotency-Replayed", "true"))
    return Reply(status: kept.status, body: body, code: kept.code)
  }

  /// Keeps an answer, but for 401, 403 and 5xx (ER3.6) and the refusal of the key itself.
  func keepAnswer(_ reply: Reply, _ name: String, _ call: Call) throws {
    if reply.status == 401 || reply.status == 403 || reply.status >= 500 { return }
    var body: [UInt8]? = reply.body.count > 1_048_576 ? nil : reply.body
    var draws: Drawing?
    if body != nil, let shown = call.shown, let drawing = Drawing(shown, in: reply.body) {
      draws = drawing
      body = Array(reply.body[..<drawing.cut] + reply.body[(drawing.cut + shown.properties.count)...])
    }
    try database.run(
      """
      INSERT OR REPLACE INTO answer (credential, name, request, status, code, body, at, grants, item, version, cut)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      call.credential.id, name, fingerprint(call), reply.status, reply.code, body, clock.now, call.grantsSpelling,
      draws?.item, draws?.version, draws?.cut)
  }

  /// An answer with the properties it draws put in their place, byte for byte; nil where they are gone.
  private func whole(_ body: [UInt8], _ draws: Drawing?) throws -> [UInt8]? {
    guard let draws else { return body }
    let text = try database.one(
      """
      SELECT properties FROM item WHERE id = ?1 AND version = ?2
      UNION ALL SELECT properties FROM snapshot WHERE item = ?1 AND version = ?2
      """, draws.item, draws.version
    ) { $0.bytes(0) }
    guard let text, draws.cut <= body.count else { return nil }
    return Array(body[..<draws.cut]) + text + Array(body[draws.cut...])
  }

  /// Gives kept answers that draw on an item a copy of their own, before the version they draw on goes: one that is
  /// thinned, or all of an item that is purged.
  func completeAnswers(drawing item: EntityID, version: Int? = nil) throws {
    let kept = try database.all(
      "SELECT rowid, body, item, version, cut FROM answer WHERE item = ?1 AND version = coalesce(?2, version)", item,
      version
    ) { ($0.int(0), $0.bytes(1), Drawing($0, from: 2)) }
    for (row, body, draws) in kept {
      try database.run(
        "UPDATE answer SET body = ?2, item = NULL, version = NULL, cut = NULL WHERE rowid = ?1", row,
        try whole(body, draws))
    }
  }

  /// Holds the credential again to what the first request needed and disclosed, as types and grants stand now (I24.11 to
  /// I24.15). A refusal names nothing that request and answer did not.
  private func reauthorize(_ grants: Text, _ call: Call) throws {
    guard let noted = (try? JSON(parsing: grants.bytes))?.object else { return }
    func texts(_ name: Text) -> [Text] { noted[name]?.array?.compactMap(\.text) ?? [] }
    let credential = call.credential
    try credential.requireSomeType()
    let gone = call.target.segments.first == "edges" && call.parts.count == 1 ? Refusal.edgeNotFound : .itemNotFound
    for type in texts("reads") + texts("types") where !credential.reads(type) { throw gone }
    let shown = try texts("shown").compactMap(strictID).compactMap { try typeOf($0) }
    let written = try texts("written").compactMap(strictID).compactMap { try typeOf($0) }
    for type in shown + written where !credential.reads(type) { throw gone }
    for id in texts("edge_ids").compactMap(strictID) {
      guard let edge = try edge(id), let type = try typeOf(edge.source) else { continue }
      if !credential.reads(type) { throw gone }
      if !credential.types.writes(type) { throw Refusal.writeLost }
    }
    for type in texts("types") { try credential.requireWrite(type) }
    for type in written where !credential.types.writes(type) { throw Refusal.writeLost }
    for type in texts("edges") where !credential.edges.writes(type) { throw Refusal.edgeType(type, .write) }
    for type in texts("edge_reads") where !credential.edges.reads(type) { throw Refusal.edgeType(type, .read) }
    for name in texts("extensions") where !credential.extensions.reads(name) {
      throw Refusal(
        403, "forbidden", "The credential may not read that extension.",
        ["grant": ["kind": "extension", "name": .string(name), "level": "read"]])
    }
    for source in texts("sources") where !credential.claims(source) { throw Refusal.source(source) }
    for word in texts("permissions") where !credential.may(word) { throw Refusal.scope(word.string) }
  }
}

extension Refusal {
  /// The subject of a replay is of a type by now that the credential may not write, and that the first answer did not name.
  fileprivate static let writeLost = Refusal(403, "type_not_permitted", "The credential may not write that any more.")
}

/// What a request under a key needed and disclosed, noted as it was asked.
struct NeededGrants {
  /// Types written.
  var types: [Text] = []
  /// Types of rows shown.
  var reads: [Text] = []
  /// Edge types written.
  var edges: [Text] = []
  var sources: [Text] = []
  var permissions: [Text] = []
  /// Items shown and written, judged by the type they have when replayed; a purged one by what was noted (I24.14).
  var shown: [EntityID] = []
  var written: [EntityID] = []
  /// Edges written, judged by the source they have when replayed.
  var edgeIDs: [EntityID] = []
  /// Edge types and namespaces of extensions an answer disclosed (I24.13).
  var edgeReads: [Text] = []
  var extensions: [Text] = []
}

extension Call {
  var grantsSpelling: Text? {
    var out: [UInt8] = []
    out.reserveCapacity(320)
    func list(_ name: StaticString, _ texts: [Text]) {
      out.append(out.isEmpty ? UInt8(ascii: "{") : UInt8(ascii: ","))
      out.append(UInt8(ascii: "\""))
      out += UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
      out += "\":[".utf8
      for (place, text) in (texts.count < 2 ? texts : Set(texts).sorted()).enumerated() {
        if place > 0 { out.append(UInt8(ascii: ",")) }
        JSON.appendString(text, to: &out)
      }
      out.append(UInt8(ascii: "]"))
    }
    list("types", needs.types)
    list("reads", needs.reads)
    list("edges", needs.edges)
    list("sources", needs.sources)
    list("permissions", needs.permissions)
    list("shown", needs.shown.map(\.text))
    list("written", needs.written.map(\.text))
    list("edge_ids", needs.edgeIDs.map(\.text))
    list("edge_reads", needs.edgeReads)
    list("extensions", needs.extensions)
    out.append(UInt8(ascii: "}"))
    return Text(bytes: out)
  }
}

import MarfaBase

/// One door: what runs, and what holds for it.
struct Door {
  var run: (Instance, Call) throws -> Reply
  /// Whether it needs no credential.
  var isPublic = false
  /// Whether it runs in a writing transaction.
  var isWrite = false
  /// Whether `Idempotency-Key` is honored (I24.1).
  var honorsKey = false
  /// Whether its body is raw bytes, not JSON.
  var takesBytes = false
  /// Whether its body may have 16 MiB (ER2.4).
  var isBulk = false
  var isStream = false
  /// Whether it takes `X-Marfa-Read-View` (RV6.1).
  var isConditional = false
  var isItemPage = false
  var isKeysCurrent = false
}

extension Instance {
  private typealias Run = (Instance, Call) throws -> Reply

  private func read(_ run: @escaping Run) -> Door { Door(run: run) }
  private func conditional(_ run: @escaping Run) -> Door { Door(run: run, isConditional: true) }
  private func write(_ run: @escaping Run) -> Door { Door(run: run, isWrite: true) }
  private func keyed(_ run: @escaping Run) -> Door { Door(run: run, isWrite: true, honorsKey: true) }
  private func bulk(_ run: @escaping Run) -> Door { Door(run: run, isWrite: true, isBulk: true) }
  private func open(_ run: @escaping Run) -> Door { Door(run: run, isPublic: true) }

  /// The door of a method and path; nil where there is none (ER2.3). Sets the path's variable segments.
  func route(_ call: Call) -> Door? {
    let segments = call.target.segments
    let method = call.method
    /// Whether the path is a pattern's, whose `*` stands for any one segment.
    func at(_ pattern: StaticString) -> Bool {
      let pattern = UnsafeBufferPointer(start: pattern.utf8Start, count: pattern.utf8CodeUnitCount)
      var (start, place, stars) = (0, 0, 0)
      while true {
        guard place < segments.count else { return false }
        let end = pattern[start...].firstIndex(of: UInt8(ascii: "/")) ?? pattern.count
        if end == start + 1, pattern[start] == UInt8(ascii: "*") {
          stars |= 1 << place
        } else if !pattern[start..<end].elementsEqual(segments[place].bytes) {
          return false
        }
        place += 1
        if end == pattern.count { break }
        start = end + 1
      }
      guard place == segments.count else { return false }
      call.parts = segments.indices.filter { stars >> $0 & 1 == 1 }.map { segments[$0] }
      return true
    }
    switch method {
    case "GET":
      if at("") { return open { try $0.describeInstance($1) } }
      if at("health") { return open { $0.health($1) } }
      if at("keys/current") {
        var door = conditional { try $0.readCurrentKey($1) }
        door.isKeysCurrent = true
        return door
      }
      if at("keys") { return read { try $0.listKeys($1) } }
      if at("config") { return read { try $0.readConfig($1) } }
      if at("items") {
        var door = conditional { try $0.listItems($1) }
        door.isItemPage = true
        return door
      }
      if at("items/stats") { return read { try $0.itemStats($1) } }
      if at("items/*") { return conditional { try $0.readItem($1) } }
      if at("items/*/versions") { return read { try $0.listVersions($1) } }
      if at("items/*/metadata") { return read { try $0.readMetadata($1) } }
      if at("items/*/extensions") { return read { try $0.readExtensions($1) } }
      if at("items/*/extensions/*") { return read { try $0.readExtensions($1) } }
      if at("items/*/edges") { return conditional { try $0.listItemEdges($1, inbound: false) } }
      if at("items/*/backrefs") { return read { try $0.listItemEdges($1, inbound: true) } }
      if at("items/bulk-actions/jobs/*") { return read { try $0.readJob($1) } }
      if at("metadata/tags") { return read { try $0.countTags($1) } }
      if at("edges") { return conditional { try $0.listEdges($1) } }
      if at("edges/*") { return conditional { try $0.readEdge($1) } }
      if at("edge-types") { return conditional { try $0.listEdgeTypes($1) } }
      if at("types") { return conditional { try $0.listTypes($1) } }
      if at("types/*") { return read { try $0.readType($1) } }
      if at("search") { return read { try $0.search($1) } }
      if at("events") { return Door(run: { _, _ in .ok }, isStream: true) }
      if at("blobs/*") { return read { try $0.downloadBlob($1) } }
      if at("blobs/*/url") { return read { try $0.linkBlob($1) } }
      if at("blobs/*/fetch") { return open { try $0.fetchBlob($1) } }
    case "HEAD":
      if at("blobs/*") { return read { try $0.downloadBlob($1) } }
      if at("blobs/*/fetch") { return open { try $0.fetchBlob($1) } }
    case "POST":
      if at("items") { return keyed { try $0.createItem($1) } }
      if at("items/bulk-get") { return read { try $0.bulkGet($1) } }
      if at("items/lookup") { return read { try $0.lookUp($1) } }
      if at("items/tombstones") { return write { try $0.settleTombstones($1) } }
      if at("items/bulk") { return bulk { try $0.bulkItems($1) } }
      if at("items/bulk-actions") { return keyed { try $0.startBulkAction($1) } }
      if at("items/bulk-actions/jobs/*/cancel") { return write { try $0.cancelJob($1) } }
      if at("edges/bulk") { return bulk { try $0.bulkEdges($1) } }
      if at("housekeeping/*/run") { return Door(run: { try $0.runHousekeeping($1) }) }
      if at("items/*/transition") { return keyed { try $0.transitionItem($1) } }
      if at("items/*/restore") { return keyed { try $0.restoreItem($1) } }
      if at("items/*/purge") { return keyed { try $0.purgeItem($1) } }
      if at("items/*/tags") { return write { try $0.addTags($1) } }
      if at("edges") { return keyed { try $0.createEdge($1) } }
      if at("folders") { return keyed { try $0.createFolder($1) } }
      if at("folders/*/revoke") { return keyed { try $0.revokeFolder($1) } }
      if at("types") { return write { try $0.registerType($1) } }
      if at("edge-types") { return write { try $0.registerEdgeType($1) } }
      if at("keys") { return write { try $0.createKey($1) } }
      if at("blobs") {
        var door = write { try $0.uploadBlob($1) }
        door.takesBytes = true
        return door
      }
    case "PATCH":
      if at("items/*") { return keyed { try $0.patchItem($1) } }
      if at("items/*/metadata") { return write { try $0.writeMetadata($1) } }
      if at("edges/*") { return keyed { try $0.patchEdge($1) } }
      if at("folders/*") { return keyed { try $0.changeFolder($1) } }
      if at("keys/*") { return write { try $0.changeKey($1) } }
    case "PUT":
      if at("items/*/metadata") { return write { try $0.writeMetadata($1) } }
      if at("items/*/extensions/*") { return write { try $0.writeExtension($1) } }
      if at("types/*") { return write { try $0.replaceType($1) } }
      if at("config") { return write { try $0.replaceConfig($1) } }
    case "DELETE":
      if at("items/*") { return keyed { try $0.deleteItem($1) } }
      if at("items/*/tags/*") { return write { try $0.removeTag($1) } }
      if at("items/*/extensions/*") { return write { try $0.writeExtension($1) } }
      if at("edges/*") { return keyed { try $0.deleteEdge($1) } }
      if at("types/*") { return write { try $0.deleteType($1) } }
      if at("edge-types/*") { return write { try $0.deleteEdgeType($1) } }
      if at("keys/*") { return write { try $0.deleteKey($1) } }
    case "OPTIONS": return open { _, _ in Reply(status: 204, body: [], isBare: true) }
    default: break
    }
    return routeSignIn(call)
  }

  // MARK: the instance itself

  /// `GET /` (IN1).
  func describeInstance(_ call: Call) throws -> Reply {
    let value: JSON = [
      "name": "marfa", "version": "0.1.0", "instance_id": .string(instanceID.text), "contract": 0,
      "features": ["copy_stream", "search"],
    ]
    let vary = HTTPHeader("Vary", "Accept")
    if call.prefersPage {
      let page = "<!doctype html><title>Marfa</title><h1>Marfa</h1><p>Instance \(instanceID)</p>"
      return Reply(
        status: 200, body: Array(page.utf8), headers: [vary, HTTPHeader("Content-Type", "text/html; charset=utf-8")],
        isBare: true)
    }
    return Reply(status: 200, body: value.write(), headers: [vary])
  }

  /// `GET /health` (IN5): `503` where a component is down.
  func health(_ call: Call) -> Reply {
    let reads = (try? database.one("SELECT count(*) FROM meta") { $0.int(0) }) != nil
    let free = blobs.available
    let words: [(Text, JSON)] = [
      ("database", reads ? "ok" : "down"), ("database_write", reads && canWrite ? "ok" : "down"),
      ("disk", free == 0 ? "down" : free.map { $0 < settings.diskReserve } ?? false ? "degraded" : "ok"),
      (
        "blob_storage",
        !blobs.isReachable ? "down" : free.map { $0 < settings.diskReserve } ?? false ? "degraded" : "ok"
      ),
    ]
    let isDown = words.contains { $0.1 == "down" }
    return .json(isDown ? 503 : 200, ["components": .object(JSONObject(words))])
  }

  /// Whether a write could begin. A batch under way has begun one.
  private var canWrite: Bool {
    if database.isInTransaction { return true }
    do {
      try database.run("BEGIN IMMEDIATE")
      try database.run("ROLLBACK")
      return true
    } catch { return false }
  }
}

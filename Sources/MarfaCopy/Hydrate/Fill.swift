import MarfaBase

/// How far a fill came, kept with each page so that it can go on (D202.2).
struct FillProgress: Hashable, Sendable {
  /// `first`, `emptied` or `in_place`.
  var kind: Text
  /// The listing of the slice the fill stands in; past the last type come the edge types.
  var listing = 0
  /// Where its next page begins.
  var page: Text?
  var pages = 0
  var listed = 0

  var json: JSON {
    [
      "kind": .string(kind), "listing": .int(listing), "page": .optional(page), "pages": .int(pages),
      "listed": .int(listed),
    ]
  }

  init(kind: Text) { self.kind = kind }

  init?(_ json: JSON) {
    guard let kind = json["kind"]?.text else { return nil }
    self.kind = kind
    listing = json["listing"]?.int ?? 0
    page = json["page"]?.text
    pages = json["pages"]?.int ?? 0
    listed = json["listed"]?.int ?? 0
  }
}

extension WorkingCopy {
  /// Fills the copy with a slice (D6 to D10), going on where a stopped fill of the same slice and view stands (D202), over
  /// the rows of a stale copy in place (D203).
  ///
  /// A refill writes a new mark over the rows it meets, leaving rows equal by version as they are, and takes the unmarked
  /// ones away at its end: the person is never without their copy, and a routine refill costs little. Rows of another
  /// instance are taken away at its beginning.
  /// - Throws: `invalid`, `unknown_type`, `forbidden` before anything is changed; `copy_expired`, `stream_incomplete`,
  ///   `canceled` and the environment's failures with the fill left to go on from where it stands.
  @discardableResult
  package func hydrate(_ slice: Slice, inPlaceOnly: Bool = false) throws(MarfaError) -> HydrateReport {
    try requireWriter()
    try Slice.check(slice)
    try checkStop()
    if inPlaceOnly { try requireStale(slice) }
    try confirmPlace()
    var report = HydrateReport(slice: slice)
    do throws(MarfaError) {
      try fill(slice, inPlaceOnly: inPlaceOnly, again: false, &report)
    } catch {
      // The stored position aged out, or the page cursor did: begin again, once in a call (D202.4).
      guard error.reason == "catchup_too_old" || error.reason == "page_refused", !inPlaceOnly else { throw error }
      report.restarted = error.reason == "page_refused" ? "page_refused" : "log_moved"
      report.resumed = false
      report.pages = 0
      try store.set(.hydrateState, nil)
      try fill(slice, inPlaceOnly: false, again: true, &report)
    }
    try bodies.tryNames()
    return report
  }

  private func requireStale(_ slice: Slice) throws(MarfaError) {
    guard try hydration() == .stale else { throw .expired("not_stale", "the working copy is not one that went stale") }
    guard try self.slice() == slice else {
      throw .expired("slice_changed", "the working copy holds another slice, so it cannot be filled over in place")
    }
  }

  private func fill(
    _ slice: Slice, inPlaceOnly: Bool, again: Bool, _ report: inout HydrateReport
  ) throws(MarfaError) {
    var head = try readHead()
    let stored = (instance: try store.text(.instanceID), view: try store.text(.readView))
    if inPlaceOnly { try requireInPlace(head, stored) }
    var read = try readCatalogs(view: head.view)
    if !inPlaceOnly, try registerDeclared(read.types, &report) {
      // What the key may read by its types may have moved with them (D57.8).
      head = try readHead()
      read = try readCatalogs(view: head.view)
    }
    let catalog = Catalog(version: nil, types: read.types, edgeTypes: read.edgeTypes)
    try requireKnown(slice, catalog)
    try requireReach(slice, catalog, view: head.view)

    var progress: FillProgress
    let state = try hydration()
    let standing = try store.text(.hydrateState).flatMap {
      FillProgress(.object((try? Store.object($0.bytes)) ?? JSONObject()))
    }
    if state == .inProgress, !again, let standing, try resumes(slice, head, &report) {
      progress = standing
      report.resumed = true
      report.pages = progress.pages
    } else {
      progress = FillProgress(kind: state == .never ? "first" : state == .stale ? "in_place" : "emptied")
      if state == .stale {
        let same = try self.slice() == slice && stored.instance == head.instance && stored.view == head.view
        if !same { progress.kind = "emptied" }
      }
      try begin(slice, head, progress)
      try askExpected(slice)
    }
    report.inPlace = progress.kind == "in_place"
    try store.replaceCatalog(types: read.types, edgeTypes: read.edgeTypes)
    let generation = try store.int(.copyGeneration) ?? 0
    try unhurried { () throws(MarfaError) in
      try readListings(slice, view: head.view, generation: generation, &progress, &report)
    }
    try readPins(view: head.view, generation: generation, slice: slice)
    try refreshCatalogs(view: head.view)
    guard let certificate = try certificate() else {
      throw MarfaError(.streamIncomplete, "the copy's position was lost during the fill", reason: "local_copy_changed")
    }
    let taker = EventTaker(copy: self, slice: slice, certificate: certificate, generation: generation)
    try replay(taker, certificate)
    try finish(slice, generation: generation)
    let status = try status()
    report.items = status.items
    report.edges = status.edges
    report.cursor = taker.cursor
  }

  /// The head read; its failures before anything is stored leave the copy as it is, a named 401 or a moved proof under a
  /// filled copy ends it (D53.2).
  private func readHead() throws(MarfaError) -> Marker {
    do throws(MarfaError) { return try server.readHead() } catch {
      let view = try store.text(.readView)
      let endsCopy = error.code == .unauthorized && view != nil
      // A stop before the read returned outranks its failure, but for a credential that ended (D59.1).
      if !endsCopy { try checkStop() }
      if error.code == .unauthorized, try store.text(.readView) != nil {
        throw try expire("credential_ended", error.message)
      }
      if error.code == .copyExpired { throw try expire(error.reason ?? "read_view_invalid", error.message) }
      throw error
    }
  }

  private func requireInPlace(_ head: Marker, _ stored: (instance: Text?, view: Text?)) throws(MarfaError) {
    guard stored.instance == head.instance else {
      throw MarfaError(.instanceChanged, "another instance answers at \(server.origin): \(head.instance)")
    }
    guard stored.view == head.view else {
      throw .expired("reach_changed", "what the key may read changed, so the copy cannot be filled over in place")
    }
    let held = try store.text(.heldCursor).flatMap(Certificate.position) ?? 0
    guard head.position >= held else {
      throw .expired(
        "head_past_log", "the server's log ends at \(head.cursor), behind \(held) this copy reached: it was set back")
    }
  }

  /// D6.5: types and edge types the catalog lacks.
  private func requireKnown(_ slice: Slice, _ catalog: Catalog) throws(MarfaError) {
    for type in slice.typeList where type != "*" && !type.bytes.suffix(2).elementsEqual(".*".utf8) {
      guard catalog.types[type] != nil else { throw MarfaError(.unknownType, "the server knows no type \(type)") }
    }
    for type in slice.edgeTypes {
      guard catalog.edgeTypes[type] != nil else {
        throw MarfaError(.unknownType, "the server knows no edge type \(type)")
      }
    }
  }

  /// D6.6, D6.7: a type the credential reads neither itself nor through any type under it.
  private func requireReach(_ slice: Slice, _ catalog: Catalog, view: Text) throws(MarfaError) {
    let exact = slice.typeList.filter { $0 != "*" && !$0.bytes.suffix(2).elementsEqual(".*".utf8) }
    guard !exact.isEmpty else { return }
    switch try certified("/keys/current", view: view) {
    case .found(let key):
      let levels = key["type_permissions"]?.object ?? key["key"]?["type_permissions"]?.object ?? JSONObject()
      for type in exact {
        let under = catalog.subtree(of: type) + [type]
        guard under.contains(where: { Slice.level(of: $0, in: levels) != "none" }) else {
          throw MarfaError(.forbidden, "the key may not read \(type) nor any type under it")
        }
      }
    case .refused:
      for type in exact {
        let query: [(String, Text)] = [
          ("type", type), ("tier", slice.tier), ("state", "any"), ("include", "edges,metadata"), ("limit", "200"),
        ]
        if case .refused(let refusal) = try certified("/items", query: query, view: view) {
          throw MarfaError(.forbidden, "the app may not read \(type): \(refusal.message)", server: refusal.server)
        }
      }
    }
  }

  /// Whether the standing fill goes on under this head (D202.3); else `restarted` says why not.
  private func resumes(_ slice: Slice, _ head: Marker, _ report: inout HydrateReport) throws(MarfaError) -> Bool {
    if try self.slice() != slice {
      report.restarted = "slice_changed"
    } else if try store.text(.instanceID) != head.instance {
      report.restarted = "instance_changed"
    } else if try store.text(.readView) != head.view {
      report.restarted = "reach_changed"
    } else if try certificate() == nil {
      report.restarted = "log_moved"
    } else {
      return true
    }
    return false
  }

  /// Step 7: in one transaction the copy becomes the one this fill makes.
  private func begin(_ slice: Slice, _ head: Marker, _ progress: FillProgress) throws(MarfaError) {
    let other = try store.text(.instanceID).map { $0 != head.instance } ?? false
    try store.transaction {
      try bumpGeneration()
      if other {
        // Rows of an instance that is not there any more; writes queued for it wait for a decision (D2.11).
        try database.execute("DELETE FROM item; DELETE FROM edge; DELETE FROM purged")
        store.forgetReads()
        try database.execute("UPDATE item_base SET row = NULL; UPDATE edge_base SET row = NULL")
        try database.run("INSERT OR IGNORE INTO text_pending (row) SELECT rowid FROM item_text")
        try queue.instanceChanged()
      }
      try declare(slice)
      try store.set(.hydrateState, Text(bytes: progress.json.write()))
      try store.set(.eventCursor, head.cursor)
      try store.set(.heldCursor, nil)
      try store.set(.readView, head.view)
      try store.set(.instanceID, head.instance)
      try store.set(.serverOrigin, Text(server.origin))
      try store.set(.expiredReason, nil)
      try store.set(.itemsListed, 0)
      try store.set(.itemsExpected, nil)
      try store.set(.fillMark, (try store.int(.fillMark) ?? 0) + 1)
      try database.run("DELETE FROM item_seen")
      if other {
        for id in try queue.waitingItems() { try store.reproject(item: id) }
        for id in try queue.waitingEdges() { try store.reproject(edge: id) }
      }
    }
  }

  /// How many rows the listings will give, asked once; no answer leaves the count unknown (D5.4, SF26.2).
  private func askExpected(_ slice: Slice) throws(MarfaError) {
    let isSystem = { (type: Text) in type.bytes.starts(with: "system.".utf8) }
    var total = 0
    for (types, tier) in [
      (slice.typeList.filter { !isSystem($0) }, slice.tier), (slice.typeList.filter(isSystem), "all"),
    ] where !types.isEmpty {
      var query: [(String, Text)] = [("by", "type"), ("tier", tier)]
      if !types.contains("*") {
        query.append(("type", Text(bytes: Array(types.map(\.bytes).joined(separator: [UInt8(ascii: ",")])))))
      }
      guard let counts = (try? server.request("GET", "/items/stats", query: query).json())?.object else { return }
      total += counts.members.reduce(0) { $0 + ($1.value.int ?? 0) }
    }
    try store.set(.itemsExpected, total)
  }

  // MARK: - The end

  /// Pinned rows the slice did not bring are read by id (D1.18); one the instance certifies absent keeps its pin and
  /// holds no row (D1.19).
  private func readPins(view: Text, generation: Int, slice: Slice) throws(MarfaError) {
    let mark = try store.fillMark()
    let missing = try store.read {
      try database.allRows(
        """
        SELECT DISTINCT pin.item FROM pin LEFT JOIN item ON item.id = pin.item
          LEFT JOIN item_seen ON item_seen.row = item.row
        WHERE item.fill IS NULL OR (item.fill <> ?1 AND coalesce(item_seen.fill, 0) <> ?1) ORDER BY pin.item
        """, [mark]
      ) { $0.id(0) }.compactMap { $0 }
    }
    for id in missing {
      let answer = try certified("/items/\(id)", query: [("include", "edges,metadata")], view: view)
      var item: Item?
      var drawn: [Edge] = []
      if case .found(let json) = answer {
        item = try row(json)
        drawn = try edges(of: json, item: id, view: view).edges
      } else {
        // A pinned row in the bin is one a restore brings back; letting it go would read as lost.
        item = try binRow(id, view: view)
      }
      guard let item else { continue }
      try store.transaction {
        try requireGeneration(generation)
        try store.take(server: item, always: true)
        for edge in drawn { try store.take(server: edge, always: true) }
      }
    }
  }

  /// Step 13: what this fill and its replay did not meet goes, the queue is laid over, the copy is complete.
  private func finish(_ slice: Slice, generation: Int) throws(MarfaError) {
    try store.transaction {
      try requireGeneration(generation)
      let mark = try store.fillMark()
      let items = try database.allRows(
        "SELECT id FROM item WHERE fill <> ?1 AND row NOT IN (SELECT row FROM item_seen WHERE fill = ?1)", [mark]
      ) { $0.id(0) }.compactMap { $0 }
      for id in items { try store.letGo(item: id) }
      let edges = try database.allRows("SELECT id FROM edge WHERE fill <> ?", [mark]) { $0.id(0) }.compactMap { $0 }
      for id in edges { try store.letGo(edge: id) }
      for id in try queue.waitingItems() { try store.reproject(item: id) }
      for id in try queue.waitingEdges() { try store.reproject(edge: id) }
      try store.set(.hydrateState, nil)
      try store.set(.lastSynced, context.clock.now)
      store.changes += 1
    }
  }
}

import MarfaBase

extension WorkingCopy {
  /// Pins a row for an owner, whatever the slice says: the row and every edge it draws are read first (D1.6 to D1.12).
  /// - Throws: `hydration_incomplete` for a copy that is not whole, `not_found` for a row the instance lacks (details say
  ///   `trashed` where its bin holds it).
  @discardableResult
  package func pin(_ id: EntityID, owner: Text) throws(MarfaError) -> PinReport {
    try requireWriter()
    guard try hydration() == .complete, let certificate = try certificate() else {
      throw MarfaError(.hydrationIncomplete, "the working copy is not whole, so nothing can be pinned")
    }
    let wasPinned = try isPinned(id)
    let generation = try store.int(.copyGeneration) ?? 0
    switch try certified("/items/\(id)", query: [("include", "edges,metadata")], view: certificate.view) {
    case .found(let json):
      let item = try row(json)
      let drawn = try edges(of: json, item: id, view: certificate.view)
      try store.transaction {
        try requireGeneration(generation)
        try record(pin: id, owner)
        try store.take(server: item)
        for edge in drawn.edges { try store.take(server: edge) }
      }
    case .refused:
      if let binned = try binRow(id, view: certificate.view) {
        if try store.item(id) != nil { try store.transaction { try store.take(server: binned) } }
        throw MarfaError(
          .notFound, "\(id) lies in the bin, so it cannot be pinned",
          server: .init(status: 404, code: "item_not_found", details: ["trashed": true]))
      }
      // A row of this device's unanswered create can be pinned although the instance lacks it (D1.12).
      guard try queue.hasWaiting(item: id), try serverItem(id) == nil, try item(id) != nil else {
        // The answer is certified, so a row of that id the copy holds goes too (D1.10).
        try store.transaction { try letGo(id, slice: try slice()) }
        throw MarfaError(
          .notFound, "the server holds no item \(id)", server: .init(status: 404, code: "item_not_found"))
      }
      try store.transaction { try record(pin: id, owner) }
    }
    return PinReport(id: id, pinned: true, wasPinned: wasPinned)
  }

  func record(pin id: EntityID, _ owner: Text) throws(MarfaError) {
    try store.read { try database.run("INSERT OR IGNORE INTO pin (item, owner) VALUES (?, ?)", id, owner) }
    try bumpPins()
  }

  /// Lets an owner's pin go. A row nobody pins any more, outside the slice and with no write waiting, leaves with the
  /// edges it draws (D1.20 to D1.23).
  @discardableResult
  package func unpin(_ id: EntityID, owner: Text) throws(MarfaError) -> PinReport {
    try requireWriter()
    let wasPinned = try isPinned(id)
    try store.transaction {
      let gone = try database.run("DELETE FROM pin WHERE item = ? AND owner = ?", id, owner)
      if gone > 0 { try bumpPins() }
      try releaseIfOutside(id)
    }
    return PinReport(id: id, pinned: try isPinned(id), wasPinned: wasPinned)
  }

  /// Lets a row go that neither the slice takes nor anybody pins nor a write waits on (D1.21, D1.23, D86.2).
  package func releaseIfOutside(_ id: EntityID) throws(MarfaError) {
    guard let held = try serverItem(id), try !isPinned(id), try !queue.hasWaiting(item: id), let slice = try slice(),
      case let catalog = try catalog(), !(held.isListed && slice.takes(type: held.type, tier: held.tier, in: catalog))
    else { return }
    try letGo(id, slice: slice)
  }

  // MARK: - Fresh reads

  /// A certified read of a row after an answer (D54, ER15): taken in beneath waiting writes and answered. Nil where the
  /// instance certifies its absence; the row is then let go, unless the instance's bin holds it.
  @discardableResult
  package func freshRead(item id: EntityID) throws(MarfaError) -> Item? {
    let certificate = try requireCertificate()
    let generation = try store.int(.copyGeneration) ?? 0
    let before = try serverItem(id)
    let answer: Certified
    do throws(MarfaError) {
      // A row that comes into the copy comes with the edges it draws: no event repeats them (D1.4, D7.2).
      let include: Text = before == nil ? "edges,metadata" : "metadata"
      answer = try certified("/items/\(id)", query: [("include", include)], view: certificate.view)
    } catch {
      // The one answer that says absence without proof (D54.4).
      guard error.server?.code == "invalid_id" else { throw error }
      return try absent(id, writtenSince: before, generation)
    }
    switch answer {
    case .found(let json):
      let item = try row(json)
      let drawn = try before == nil ? edges(of: json, item: id, view: certificate.view).edges : []
      try store.transaction {
        try requireGeneration(generation)
        try store.take(server: item)
        for edge in drawn { try store.take(server: edge) }
        try releaseIfOutside(id)
      }
      return item
    case .refused:
      if let binned = try binRow(id, view: certificate.view) {
        try store.transaction {
          try requireGeneration(generation)
          try store.take(server: binned)
        }
        return binned
      }
      return try absent(id, writtenSince: before, generation)
    }
  }

  /// Lets a row go that the instance says it has not, unless something wrote it in the copy while the read was out: then it
  /// stays as written (Q12.6, Q12.7).
  private func absent(_ id: EntityID, writtenSince before: Item?, _ generation: Int) throws(MarfaError) -> Item? {
    try store.transaction {
      try requireGeneration(generation)
      if let now = try serverItem(id), now != before { return now }
      try takeAbsence(id)
      return nil
    }
  }

  /// Lets a row go that the instance certified absent; the pins of a create of this device's that was refused go with it
  /// (D1.14). Any other pin stays: its row may come back into reach (D1.19).
  private func takeAbsence(_ id: EntityID) throws(MarfaError) {
    try letGo(id, slice: try slice())
    try store.read {
      let pins = try database.run(
        """
        DELETE FROM pin WHERE item = ?1 AND EXISTS (
          SELECT 1 FROM queue WHERE item = ?1 AND kind = 'create_item' AND verdict = 'refused')
        """, id)
      if pins > 0 { try bumpPins() }
    }
  }

  /// The same of an edge.
  @discardableResult
  package func freshRead(edge id: EntityID) throws(MarfaError) -> Edge? {
    let certificate = try requireCertificate()
    let generation = try store.int(.copyGeneration) ?? 0
    let answer: Certified
    do throws(MarfaError) { answer = try certified("/edges/\(id)", view: certificate.view) } catch {
      guard error.server?.code == "invalid_id" else { throw error }
      answer = .refused(error)
    }
    switch answer {
    case .found(let json):
      guard let edge = json["edge"].flatMap({ Edge($0) }) else {
        throw MarfaError(.decoding, "an edge of the server could not be read")
      }
      let isWhole = try slice()?.edgeTypes.contains(edge.type) ?? false
      try store.transaction {
        try requireGeneration(generation)
        // An edge from a row outside the slice is not held, unless a later write to it waits (D44.3).
        if try isWhole || item(edge.source) != nil || !queue.waiting(edge: id).isEmpty {
          try store.take(server: edge)
        } else {
          try store.letGo(edge: id)
        }
      }
      return edge
    case .refused:
      try store.transaction {
        try requireGeneration(generation)
        try store.letGo(edge: id)
      }
      return nil
    }
  }

  /// Whether the instance's bin holds an item (RV10.3).
  package func isInBin(_ id: EntityID) throws(MarfaError) -> Bool {
    try binRow(id, view: try requireCertificate().view) != nil
  }

  /// The row of the instance's bin; nil where it holds none.
  func binRow(_ id: EntityID, view: Text) throws(MarfaError) -> Item? {
    let query: [(String, Text)] = [
      ("state", "trashed"), ("tier", "all"), ("include", "metadata"), ("filter", Text("id eq \"\(id)\"")),
      ("limit", "1"),
    ]
    let page = try certifiedPage("/items", query: query, view: view)
    if let first = page.rows.first { return try row(first) }
    // A listing that names no type leaves the system types out.
    let system = try certifiedPage("/items", query: query + [("type", "system.*")], view: view)
    return try system.rows.first.map { (json) throws(MarfaError) in try row(json) }
  }
}

extension WorkingCopy {
  /// Pins a row the copy holds already with the edges it draws, without a request: a fill reads it by id only where its
  /// slice does not bring it (D1.18).
  package func pinHeld(_ id: EntityID, owner: Text) throws(MarfaError) {
    try requireWriter()
    try store.transaction { try record(pin: id, owner) }
  }
}

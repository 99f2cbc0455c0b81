import MarfaBase

/// Queueing writes of edges, judged against what is shown first (Q64).
extension WriteQueue {
  /// Queues a new edge; it shows at once from both ends.
  /// - Parameter more: writes it cannot go without, beside the creates of its ends.
  /// - Throws: `validation` under the server's code, `invalid` where the copy does not hold the source (D44.2),
  ///   `hydration_incomplete` during a fill.
  @discardableResult
  package func createEdge(_ draft: EdgeDraft, waitingOn more: [EntityID] = []) throws(MarfaError) -> QueuedWrite {
    try queueing {
      try requireWholeForEdges()
      let catalog = try store.catalog()
      if let id = draft.id, !id.isVersion7 {
        throw MarfaError.validation("the id \(id) is no UUID of version 7", code: "invalid_id")
      }
      if try store.item(draft.source) == nil, try copy.slice()?.edgeTypes.contains(draft.type) != true {
        throw MarfaError(.invalid, "the copy holds no item \(draft.source) for an edge to run from")
      }
      try judge(draft, catalog)
      let id = draft.id ?? context.ids.next()
      var write = entry(.createEdge)
      write.edgeID = id
      write.itemID = draft.source
      write.targetID = draft.target
      write.baseVersion = 0
      write.set(
        body: JSONObject([
          ("id", .string(id.text)), ("source_id", .string(draft.source.text)),
          ("target_id", .string(draft.target.text)), ("edge_type", .string(draft.type)),
          ("properties", .object(draft.properties)),
        ]))
      return try append(write, waitingOn: more)
    }
  }

  /// Judges an edge without queueing it (E107).
  package func checkEdge(_ draft: EdgeDraft) throws(MarfaError) {
    try judge(draft, store.catalog())
  }

  private func judge(_ draft: EdgeDraft, _ catalog: Catalog) throws(MarfaError) {
    try edgeCheck(catalog).judge(
      type: draft.type, source: draft.source, target: draft.target,
      properties: { () throws(MarfaError) in
        try checkPath(draft.type, draft.properties)
        try PropertyCheck.names(draft.properties)
      })
  }

  /// Queues an edit of an edge: properties to merge, and at most one moved end (Q54). Nil where it changes nothing.
  /// - Throws: `not_found` for an edge not held, `invalid` for another version than the one held, `validation`.
  @discardableResult
  package func updateEdge(
    _ id: EntityID, version: Int?, properties: JSONObject? = nil, source: EntityID? = nil, target: EntityID? = nil
  ) throws(MarfaError) -> QueuedWrite? {
    try queueing {
      try requireWholeForEdges()
      guard let edge = try store.edge(id) else { throw MarfaError(.notFound, "the copy holds no edge \(id)") }
      guard let version else { throw MarfaError(.invalid, "an edit names the version it was made on") }
      guard try version == edge.version || version == answeredVersion(edge: id) else {
        throw MarfaError(.invalid, "the edit names version \(version), and the copy holds \(edge.version)")
      }
      var body = JSONObject([("version", .int(version))])
      // An end named as the copy holds it is left out (Q54.2).
      let (source, target) = (source == edge.source ? nil : source, target == edge.target ? nil : target)
      try checkMove(edge, source: source, target: target)
      if let source { body["source_id"] = .string(source.text) }
      if let target { body["target_id"] = .string(target.text) }
      let changed = properties?.members.contains { edge.properties[$0.key] != $0.value } ?? false
      if body.count == 1, !changed { return nil }
      if let properties, changed {
        var merged = edge.properties
        for (key, value) in properties.members { merged[key] = value }
        try checkPath(edge.type, merged)
        try PropertyCheck.names(properties)
        body["properties"] = .object(properties)
      }
      var write = entry(.updateEdge)
      write.edgeID = id
      write.itemID = edge.source
      write.targetID = edge.target
      write.baseVersion = version
      write.set(body: body)
      write.readRecord = JSONObject(
        (properties?.keys ?? []).compactMap { name in edge.properties[name].map { (name, $0) } })
      return try append(write)
    }
  }

  /// Queues the end of an edge.
  /// - Parameter more: writes it cannot go without.
  @discardableResult
  package func deleteEdge(_ id: EntityID, waitingOn more: [EntityID] = []) throws(MarfaError) -> QueuedWrite {
    try queueing {
      try requireWholeForEdges()
      guard let edge = try store.edge(id) else { throw MarfaError(.notFound, "the copy holds no edge \(id)") }
      var write = entry(.deleteEdge)
      write.edgeID = id
      write.itemID = edge.source
      write.targetID = edge.target
      return try append(write, waitingOn: more)
    }
  }

  /// Takes every write to a placement that the server has not taken out of the queue: another machine placed the file first
  /// (Q57.1). Returns how many went.
  @discardableResult
  package func giveWay(edge id: EntityID) throws(MarfaError) -> Int {
    try queueing {
      let writes = try table.all("edge = ? AND (verdict IS NULL OR verdict <> 'accepted')", id)
      for write in writes { try table.remove(write) }
      if !writes.isEmpty { try store.reproject(edge: id) }
      return writes.count
    }
  }

  // MARK: Checks

  func edgeCheck(_ catalog: Catalog) -> EdgeCheck {
    let store = store
    return EdgeCheck(
      catalog: catalog, item: { (id) throws(MarfaError) in try store.item(id) },
      between: { (source, target, type) throws(MarfaError) in
        try store.edges(where: Store.between, [source, type, target])
      },
      from: { (id, type) throws(MarfaError) in try store.edges(where: "source = ? AND type = ?", [id, type]) },
      to: { (id, type) throws(MarfaError) in try store.edges(where: "target = ? AND type = ?", [id, type]) })
  }

  /// Edge writes of every kind wait for a whole copy (Q28.3).
  private func requireWholeForEdges() throws(MarfaError) {
    switch try standing() {
    case .whole, .never: return
    case .filling, .stale: throw incomplete()
    }
  }

  /// Q54.4, E10.24.
  private func checkMove(_ edge: Edge, source: EntityID?, target: EntityID?) throws(MarfaError) {
    guard source != nil || target != nil else { return }
    let catalog = try store.catalog()
    if source != nil, target != nil {
      throw .validation("an edit moves one end of an edge", details: ["errors": [["path": "source_id"]]])
    }
    let cardinality = catalog.edgeTypes[edge.type]?.cardinality ?? .manyToMany
    let movable = source != nil ? cardinality.targetHasOne : cardinality.sourceHasOne
    if !movable {
      throw .validation(
        "the end that stays may hold more than one '\(edge.type)', so this end can't move",
        details: ["errors": [["path": source != nil ? "source_id" : "target_id"]]])
    }
    try edgeCheck(catalog).judge(
      type: edge.type, source: source ?? edge.source, target: target ?? edge.target, replacing: edge.id)
  }

  /// The path of a placement: the only property, required, inside the folder (E2.5 to E2.8).
  private func checkPath(_ type: Text, _ properties: JSONObject) throws(MarfaError) {
    guard type == "in-folder" else { return }
    for key in properties.keys where key != "path" {
      throw .validation(
        "a placement has no property '\(key)'", details: ["errors": [["path": .string(Text("properties.\(key)"))]]])
    }
    guard let path = properties["path"]?.text, path.isPlacement else {
      throw .validation(
        "a placement needs a path inside the folder", details: ["errors": [["path": "properties.path"]]])
    }
  }
}

extension Text {
  /// Whether it is a path a placement can have: inside the folder, of at most 1,024 UTF-16 units, without a backslash and
  /// not begun like a drive (E2.5 to E2.7).
  package var isPlacement: Bool {
    if bytes.isEmpty || utf16Count > 1024 || bytes[0] == UInt8(ascii: "/") { return false }
    if bytes.contains(0) || bytes.contains(UInt8(ascii: "\\")) { return false }
    if bytes.count >= 2, bytes[1] == UInt8(ascii: ":"), (0x61...0x7A).contains(bytes[0] | 0x20) { return false }
    var depth = 0
    for name in bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true) {
      if name.elementsEqual("..".utf8) { depth -= 1 } else if !name.elementsEqual(".".utf8) { depth += 1 }
      if depth < 0 { return false }
    }
    return depth > 0
  }
}

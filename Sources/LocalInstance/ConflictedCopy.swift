import MarfaBase

/// The conflicted copy of a resolved write (versions.md 7).
extension Instance {
  /// Writes the copy, its edges and its link, and announces them; gives its id. A repeat under the same idempotency key
  /// finds the copy there (V26.1).
  func writeConflictedCopy(of held: ItemRow, _ merge: Merge, base: Int, _ call: Call) throws -> EntityID {
    let id = call.idempotencyKey.map { copyID(held.id, base, $0) } ?? ids.next()
    if try item(id) != nil { return id }
    let type = catalog.type(held.type)
    var properties = held.propertiesObject
    for (name, value) in merge.setAside { properties[name] = value }
    if let link = type?.linkField { properties[link] = nil }
    var tags = held.tagList
    if !tags.contains("conflicted-copy") { tags.append("conflicted-copy") }
    let now = clock.now
    var copy = ItemRow(
      id: id, type: held.type, tier: held.tier, schemaVersion: type?.version ?? held.schemaVersion,
      source: held.source, sourceID: nil, latitude: held.latitude, longitude: held.longitude, occurred: held.occurred,
      created: now, updated: now, properties: JSON.object(ordered(properties)).write(), tags: tagText(tags))
    try insert(&copy)
    try copyStanding(from: held.id, to: copy, call)
    for edge in try edges(of: held.id, inbound: false) + edges(of: held.id, inbound: true) {
      try copyEdge(edge, of: held, to: copy, call)
    }
    try insertEdge(
      EdgeRow(
        id: ids.next(), source: copy.id, target: held.id, type: "derived-from", created: now, updated: now),
      sourceType: copy.type)
    return id
  }

  /// One edge of the original, where the copy may have it too (V13.20).
  private func copyEdge(_ edge: EdgeRow, of original: ItemRow, to copy: ItemRow, _ call: Call) throws {
    guard let type = catalog.edgeTypes[edge.type], type.onDelete != "block" else { return }
    let outbound = edge.source == original.id
    let other = outbound ? edge.target : edge.source
    guard type.isWrittenAtTarget != outbound, let far = try item(other), !far.isTrashed else { return }
    if outbound {
      if type.targetHoldsOne || type.onDelete == "cascade" || edge.type == "derived-from" { return }
      if far.state == "revoked" { return }
    } else if type.sourceHoldsOne {
      return
    }
    let (sourceType, targetType) = outbound ? (copy.type, far.type) : (far.type, copy.type)
    guard call.credential.types.writes(sourceType), call.credential.edges.writes(edge.type),
      call.credential.reads(targetType)
    else { return }
    let now = clock.now
    try insertEdge(
      EdgeRow(
        id: ids.next(), source: outbound ? copy.id : other, target: outbound ? other : copy.id, type: edge.type,
        properties: edge.properties, created: now, updated: now), sourceType: sourceType)
  }

  /// An id made of the item, the version named and the key, shaped as a UUIDv7.
  private func copyID(_ item: EntityID, _ base: Int, _ key: String) -> EntityID {
    let digest = ContentHash(of: Array("\(item)\n\(base)\n\(key)".utf8)).bytes
    func word(_ start: Int) -> UInt64 { digest[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
    return EntityID(
      high: word(0) & 0xFFFF_FFFF_FFFF_0FFF | 0x7000, low: word(8) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
  }
}

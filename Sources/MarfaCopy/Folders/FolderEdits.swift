import MarfaBase

/// What an edit of a folder's settings came to.
package struct FolderWrite: Hashable, Sendable {
  /// The settings as the instance answered them.
  package var folder: Item
  /// Whether the copy holds them now; a read that failed after an accepted edit brings them later (D73.1).
  package var isHeld: Bool
}

/// Edits of folder settings: sent at once under an idempotency key, never queued (D69 to D73).
extension WorkingCopy {
  /// Makes a folder.
  /// - Parameters:
  ///   - key: the idempotency key of an earlier try; nil mints one.
  ///   - expected: the instance the change is meant for; another one is `instance_changed`, and nothing is changed.
  @discardableResult
  package func createFolder(
    _ settings: JSONObject, key: Text? = nil, expecting expected: EntityID? = nil
  ) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    try checkFolder(settings)
    return try sendFolder("POST", "/folders", settings, key, expected)
  }

  /// Changes settings, each named one whole. It is judged as the settings will stand (D71.1).
  @discardableResult
  package func changeFolder(
    _ id: EntityID, version: Int, _ changes: JSONObject, key: Text? = nil, expecting expected: EntityID? = nil
  ) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    if changes.isEmpty { throw MarfaError(.invalid, "the change names no setting of the folder") }
    if changes["version"] != nil { throw MarfaError(.invalid, "`version` is no setting of a folder") }
    var standing = try FolderSearch.named(try item(id)?.properties ?? JSONObject())
    standing["revoked_at"] = nil
    for (name, value) in changes.members { standing[name] = value.isNull ? nil : value }
    try checkFolder(standing)
    var body = changes
    body["version"] = .int(version)
    return try sendFolder("PATCH", "/folders/\(id)", body, key, expected)
  }

  /// Revokes a folder.
  @discardableResult
  package func revokeFolder(
    _ id: EntityID, key: Text? = nil, expecting expected: EntityID? = nil
  ) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    return try sendFolder("POST", "/folders/\(id)/revoke", nil, key, expected)
  }

  private func sendFolder(
    _ method: String, _ path: String, _ body: JSONObject?, _ key: Text?, _ expected: EntityID?
  ) throws(MarfaError) -> FolderWrite {
    try server.bounded { () throws(MarfaError) in try sendNow(method, path, body, key, expected) }
  }

  private func sendNow(
    _ method: String, _ path: String, _ body: JSONObject?, _ key: Text?, _ expected: EntityID?
  ) throws(MarfaError) -> FolderWrite {
    try checkStop()
    if let expected { try server.require(instance: expected) }
    // Another instance here ends the copy, and nothing is sent (D2.8).
    if try store.text(.instanceID) != nil { try confirmInstance() }
    let key = key ?? context.ids.next().text
    let answer = try server.request(
      method, path, body: body.map { .bytes(JSON.object($0).write()) } ?? .none,
      headers: [HTTPHeader("Idempotency-Key", key.string)]
    ).json()
    guard let folder = Item(row: answer) else {
      throw MarfaError(.decoding, "the server's answer to the folder could not be read; the edit was accepted")
    }
    return FolderWrite(folder: folder, isHeld: holdWritten(folder))
  }

  /// Holds accepted settings by a certified read, where slice or pin takes them (D72.1). A read that fails takes nothing
  /// from the edit (D73.1).
  private func holdWritten(_ folder: Item) -> Bool {
    do {
      guard try hydration() == .complete, let slice = try slice() else { return false }
      let isTaken = slice.takes(type: folder.type, tier: folder.tier, in: try catalog())
      guard try isTaken || isPinned(folder.id) else { return false }
      return try freshRead(item: folder.id) != nil
    } catch { return false }
  }

  // MARK: - Judging settings before they go

  /// - Throws: `invalid` for what no folder follows (I110.2): `query`, an unknown member or type, a state, a `backref`,
  ///   defaults outside the search; `validation` for a filter or a default tag the instance refuses.
  private func checkFolder(_ settings: JSONObject) throws(MarfaError) {
    if settings["query"] != nil { throw MarfaError(.invalid, "a folder's search is named `search`, not `query`") }
    let judged = try FolderSearch(settings: settings)
    if let text = judged.filter, try Filter(text).hasBackref {
      throw MarfaError(.invalid, "no folder follows a backref condition")
    }
    let catalog = try catalog()
    // Before a fill the catalog is not the instance's.
    for type in catalog.version == nil ? [] : judged.types
    where catalog.type(type) == nil && catalog.subtree(of: type).isEmpty {
      throw MarfaError(.invalid, "there is no type '\(type)' for a folder to hold")
    }
    let search = settings["search"]
    guard let defaults = settings["defaults"], !defaults.isNull else { return }
    for tag in (defaults["tags"]?.array ?? []).compactMap(\.text) { try PropertyCheck.tag(tag) }
    let types = (search?["types"]?.array ?? []).compactMap(\.text)
    if let type = defaults["type"]?.text, !types.isEmpty {
      guard types.contains(where: { catalog.isType(type, under: $0) }) else {
        throw MarfaError(.invalid, "the folder's search does not hold its default type \(type)")
      }
    }
    let tier = search?["tier"]?.text ?? "library"
    if let own = defaults["tier"]?.text, tier != "all", own != tier {
      throw MarfaError(.invalid, "the folder's search does not hold its default tier \(own)")
    }
  }
}

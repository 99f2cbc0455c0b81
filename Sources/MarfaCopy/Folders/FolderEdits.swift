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
  /// - Parameter key: the idempotency key of an earlier try; nil mints one.
  @discardableResult
  package func createFolder(_ settings: JSONObject, key: Text? = nil) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    try checkFolder(settings)
    return try sendFolder("POST", "/folders", settings, key)
  }

  /// Changes settings, each named one whole. It is judged as the settings will stand (D71.1).
  @discardableResult
  package func changeFolder(
    _ id: EntityID, version: Int, _ changes: JSONObject, key: Text? = nil
  ) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    var standing = try item(id)?.properties ?? JSONObject()
    if standing["search"] == nil, let query = standing["query"] { standing["search"] = query }
    for (name, value) in changes.members { standing[name] = value.isNull ? nil : value }
    try checkFolder(standing)
    var body = changes
    body["version"] = .int(version)
    return try sendFolder("PATCH", "/folders/\(id)", body, key)
  }

  /// Revokes a folder.
  @discardableResult
  package func revokeFolder(_ id: EntityID, key: Text? = nil) throws(MarfaError) -> FolderWrite {
    try requireWriter()
    return try sendFolder("POST", "/folders/\(id)/revoke", nil, key)
  }

  private func sendFolder(
    _ method: String, _ path: String, _ body: JSONObject?, _ key: Text?
  ) throws(MarfaError) -> FolderWrite {
    try checkStop()
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

  /// - Throws: `invalid` for a `backref` or defaults outside the search; `validation` for a filter or a default tag the
  ///   instance refuses.
  private func checkFolder(_ settings: JSONObject) throws(MarfaError) {
    let search = settings["search"]
    if let text = search?["filter"]?.text {
      if try Filter(text).hasBackref { throw MarfaError(.invalid, "no folder follows a backref condition") }
    }
    guard let defaults = settings["defaults"], !defaults.isNull else { return }
    for tag in (defaults["tags"]?.array ?? []).compactMap(\.text) { try PropertyCheck.tag(tag) }
    let types = (search?["types"]?.array ?? []).compactMap(\.text)
    if let type = defaults["type"]?.text, !types.isEmpty {
      let catalog = try catalog()
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

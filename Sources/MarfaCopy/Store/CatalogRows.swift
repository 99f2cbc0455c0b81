import MarfaBase

extension Store {
  /// The catalog held, the shipped one where no instance's was held yet (D48.1), and the declared types it lacks.
  package func catalog() throws(MarfaError) -> Catalog {
    if let kept { return kept }
    let held = try heldCatalog()
    let declared = try declaredTypes().filter { $0["id"]?.text.map { held.types[$0] == nil } ?? false }
    let catalog =
      declared.isEmpty
      ? held
      : Catalog(
        version: held.version, types: held.types.values.map(\.definition) + declared,
        edgeTypes: held.edgeTypes.values.map(\.definition))
    kept = catalog
    return catalog
  }

  /// The same without what was declared.
  func heldCatalog() throws(MarfaError) -> Catalog {
    if let keptHeld { return keptHeld }
    guard let version = try int(.catalogVersion) else { return try Catalog.shipped() }
    let held = Catalog(version: version, types: try definitions("item_type"), edgeTypes: try definitions("edge_type"))
    keptHeld = held
    return held
  }

  private func definitions(_ table: String) throws(MarfaError) -> [JSON] {
    try read {
      try database.allRows("SELECT definition FROM \(table) ORDER BY id") { .object(try Store.object($0.bytes(0))) }
    }
  }

  /// Replaces both catalogs whole (D47.5, D8.3). Returns whether either changed; the version moves exactly then (D49.1).
  @discardableResult
  package func replaceCatalog(types: [JSON], edgeTypes: [JSON]) throws(MarfaError) -> Bool {
    let before = try heldCatalog()
    let after = Catalog(version: (before.version ?? 0) + 1, types: types, edgeTypes: edgeTypes)
    let same =
      before.version != nil && before.types.mapValues(\.definition) == after.types.mapValues(\.definition)
      && before.edgeTypes.mapValues(\.definition) == after.edgeTypes.mapValues(\.definition)
    if same { return false }
    try transaction {
      try database.run("DELETE FROM item_type")
      try database.run("DELETE FROM edge_type")
      for type in after.types.values {
        try database.run(
          "INSERT INTO item_type (id, definition) VALUES (?, ?)", type.id, Text(bytes: type.definition.write()))
      }
      for type in after.edgeTypes.values {
        try database.run(
          "INSERT INTO edge_type (id, definition) VALUES (?, ?)", type.id, Text(bytes: type.definition.write()))
      }
      try set(.catalogVersion, after.version)
      keptHeld = after
      forgetCatalog()
      try rereadTitles(from: before, to: after)
      // Which fields are searchable may have changed (D55.3).
      try database.run("INSERT OR IGNORE INTO text_pending (row) SELECT row FROM item")
    }
    return true
  }

  /// Titles of types whose title field moved are keyed again.
  private func rereadTitles(from before: Catalog, to after: Catalog) throws {
    for type in Set(before.types.keys).union(after.types.keys)
    where before.titleField(of: type) != after.titleField(of: type) {
      let items = try database.allRows("SELECT \(Store.itemColumns) FROM item WHERE type = ?", [type]) {
        try Store.item(of: $0)
      }
      for item in items {
        try database.run(
          "UPDATE item SET title_key = ? WHERE id = ?", after.title(of: item).map { NameKey($0).bytes }, item.id)
      }
    }
  }
}

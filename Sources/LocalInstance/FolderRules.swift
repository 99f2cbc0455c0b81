import MarfaBase

/// What a folder's settings may say (I49.3, I53).
struct FolderRules {
  let catalog: Catalog

  private func fail(_ path: String, _ message: String = "The setting is not what it has to be.") -> Refusal {
    Refusal.invalid(path, message)
  }

  /// The keys of the whole body: undeclared ones are refused at the root.
  func judgeMembers(_ body: JSONObject, allowing: Set<Text>) throws {
    for key in body.keys where !Instance.folderSettings.contains(key) && !allowing.contains(key) {
      throw fail("", "\(key) is no setting of a folder.")
    }
  }

  /// The shape of the whole body, then the meaning of each setting, in the order of I53.5.
  func judge(_ body: JSONObject, allowing: Set<Text>) throws {
    try judgeMembers(body, allowing: allowing)
    if let title = body["title"] {
      guard let text = title.text, (1...500).contains(text.utf16Count), !text.bytes.contains(0) else {
        throw fail("title", "title has 1 to 500 characters.")
      }
    }
    if let search = body["search"] { try judgeSearchShape(search) }
    if let defaults = body["defaults"] { try judgeDefaultsShape(defaults) }
    for name in ["include", "ignore"] as [Text] { if let value = body[name] { try judgePatterns(value, name.string) } }
    if let value = body["first_placement"], value.object == nil { throw fail("first_placement") }
    if let value = body["removal_threshold"] { try judgeThreshold(value) }

    let search = body["search"]
    for (place, type) in (search?["types"]?.array ?? []).enumerated() {
      try judgeType(type.text ?? "", "search.types.\(place)")
    }
    if let filter = search?["filter"]?.text {
      do { _ = try Filter(parsing: filter) } catch { throw fail("search.filter", "The filter does not parse.") }
    }
    if let beneath = search?["beneath"]?.text, strictID(beneath) == nil { throw fail("search.beneath") }
    if let type = body["defaults"]?["type"]?.text { try judgeType(type, "defaults.type") }
    try judgeEdges(body["defaults"]?["edges"]?.object ?? JSONObject())
    for (type, directory) in body["first_placement"]?.object?.members ?? [] {
      let path = "first_placement.\(type)"
      try judgeType(type, path)
      guard let text = directory.text, (1...1024).contains(text.utf16Count), depthInside(text) != nil else {
        throw fail(path, "The directory does not stay inside the folder.")
      }
    }
  }

  private func judgeType(_ type: Text, _ path: String) throws {
    guard isTypeIdentifier(type), !isSystem(type) else { throw fail(path, "Not a type a folder holds.") }
    if catalog.types[type] == nil {
      throw Refusal(
        400, "unknown_type", "No type \(type) is registered.",
        ["type": .string(type), "errors": [["path": .string(path), "message": "Unknown type"]]])
    }
  }

  private func judgeKeys(_ object: JSONObject, _ known: [Text], _ path: String) throws {
    if let other = object.keys.first(where: { !known.contains($0) }) {
      throw fail(path, "\(other) is no member of \(path).")
    }
  }

  private func judgeSearchShape(_ value: JSON) throws {
    guard let search = value.object else { throw fail("search") }
    try judgeKeys(search, ["types", "tier", "state", "filter", "beneath"], "search")
    if let types = search["types"] {
      guard let list = types.array, list.count <= 100 else { throw fail("search.types") }
      for (place, type) in list.enumerated() where type.text == nil { throw fail("search.types.\(place)") }
    }
    if let tier = search["tier"], tier.text != "library", tier.text != "feed" { throw fail("search.tier") }
    if let states = search["state"] {
      guard let list = states.array, !list.isEmpty else { throw fail("search.state") }
      for (place, state) in list.enumerated() where state.text != "active" && state.text != "archived" {
        throw fail("search.state.\(place)")
      }
    }
    if let filter = search["filter"], filter.text == nil { throw fail("search.filter") }
    if let beneath = search["beneath"], beneath.text == nil { throw fail("search.beneath") }
  }

  private func judgeDefaultsShape(_ value: JSON) throws {
    guard let defaults = value.object else { throw fail("defaults") }
    try judgeKeys(defaults, ["type", "tier", "properties", "tags", "edges"], "defaults")
    if let type = defaults["type"], type.text == nil { throw fail("defaults.type") }
    if let tier = defaults["tier"], tier.text != "library", tier.text != "feed" { throw fail("defaults.tier") }
    if let properties = defaults["properties"] {
      guard let object = properties.object, !object.keys.contains(where: \.isEmpty) else {
        throw fail("defaults.properties")
      }
    }
    if let tags = defaults["tags"] {
      guard let list = tags.array, list.count <= 100 else { throw fail("defaults.tags") }
      for (place, tag) in list.enumerated() {
        guard let text = tag.text else { throw fail("defaults.tags.\(place)") }
        try judgeTag(text, "defaults.tags.\(place)")
      }
    }
    if let edges = defaults["edges"], edges.object == nil { throw fail("defaults.edges") }
  }

  private func judgeEdges(_ edges: JSONObject) throws {
    if edges.count > 100 { throw fail("defaults.edges", "At most 100 edge types.") }
    for (type, targets) in edges.members {
      let path = "defaults.edges.\(type)"
      guard catalog.edgeTypes[type] != nil, type != "in-folder", let list = targets.array, list.count <= 100,
        list.allSatisfy({ $0.text.flatMap(strictID) != nil })
      else { throw fail(path) }
    }
  }

  private func judgePatterns(_ value: JSON, _ name: String) throws {
    guard let list = value.array, list.count <= 1000 else { throw fail(name) }
    for (place, pattern) in list.enumerated() {
      guard let text = pattern.text, (1...1024).contains(text.utf16Count), !text.bytes.contains(0) else {
        throw fail("\(name).\(place)")
      }
    }
  }

  private func judgeThreshold(_ value: JSON) throws {
    guard let threshold = value.object else { throw fail("removal_threshold") }
    try judgeKeys(threshold, ["files", "fraction"], "removal_threshold")
    if let files = threshold["files"] {
      guard let count = files.int, count >= 0 else { throw fail("removal_threshold.files") }
    }
    if let fraction = threshold["fraction"] {
      guard let share = fraction.number?.double, (0...1).contains(share) else {
        throw fail("removal_threshold.fraction")
      }
    }
  }
}

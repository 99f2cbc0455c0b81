import MarfaBase

/// The members of item bodies, read with the refusals of their shapes.
struct ItemBody {
  let object: JSONObject

  /// The properties; an absent member is nil. Anything but an object is refused (I1.4).
  func properties() throws -> JSONObject? {
    guard let value = object["properties"] else { return nil }
    guard let properties = value.object else { throw Refusal.invalid("properties", "properties is not an object.") }
    try judgeNames(properties)
    return properties
  }

  /// A text member; absent or null is nil.
  func text(_ name: Text) throws -> Text? {
    guard let value = object[name], !value.isNull else { return nil }
    guard let text = value.text else { throw Refusal.invalid(name, "\(name) is not a text.") }
    if text.bytes.contains(0) { throw Refusal.invalid(name, "\(name) holds U+0000.") }
    return text
  }

  /// Refuses null for members that take none (openapi: CreateItem, UpdateItem, CreateEdge, UpdateEdge).
  func refuseNulls(_ names: [Text]) throws {
    for name in names where object[name]?.isNull ?? false { throw Refusal.invalid(name, "\(name) is not null.") }
  }

  /// `occurred_at` (I6): absent is nil, null is `.some(nil)` (VD2).
  func occurred() throws -> Timestamp?? {
    guard let value = object["occurred_at"] else { return nil }
    if value.isNull { return .some(nil) }
    guard let text = value.text, let time = readTime(text) else {
      throw Refusal(
        400, "validation_error", "occurred_at is not a time.",
        ["field": "occurred_at", "errors": [["path": "occurred_at", "message": "Not a time"]]])
    }
    return time
  }

  func tier() throws -> Text? {
    guard let tier = try text("tier") else { return nil }
    guard tier == "library" || tier == "feed" else { throw Refusal.invalid("tier", "tier is library or feed.") }
    return tier
  }

  /// A finite number, as it was written (I6.7).
  func coordinate(_ name: Text) throws -> Text? {
    guard let value = object[name], !value.isNull else { return nil }
    guard let number = value.number, number.double.isFinite else {
      throw Refusal.invalid(name, "\(name) is not a finite number.")
    }
    return Text(number.literal)
  }

  /// The tags named, each once, in order; absent is nil (I11, I37.1).
  func tags() throws -> [Text]? {
    guard let value = object["tags"] else { return nil }
    guard let list = value.array else { throw Refusal.invalid("tags", "tags is not a list.") }
    var tags: [Text] = []
    for (place, entry) in list.enumerated() {
      guard let tag = entry.text else { throw Refusal.invalid("tags.\(place)", "A tag is a text.") }
      try judgeTag(tag, "tags.\(place)")
      if !tags.contains(tag) { tags.append(tag) }
    }
    if list.count > 100 { throw Refusal.invalid("tags", "A write names at most 100 tags.") }
    return tags
  }

  /// Edge type to targets of inline edges (I23, E12); nil where absent or empty.
  func edges() throws -> [(type: Text, targets: [EntityID])]? {
    guard let value = object["edges"] else { return nil }
    guard let map = value.object else { throw Refusal.invalid("edges", "edges is not an object.") }
    var out: [(type: Text, targets: [EntityID])] = []
    for (type, list) in map.members {
      guard let entries = list.array else { throw Refusal.invalid("edges.\(type)", "Not a list of ids.") }
      var targets: [EntityID] = []
      for entry in entries {
        guard let text = entry.text else { throw Refusal.invalid("edges.\(type)", "Not a list of ids.") }
        guard let id = strictID(text) else { throw Refusal.invalidID }
        if !targets.contains(id) { targets.append(id) }
      }
      out.append((type, targets))
    }
    return out.isEmpty ? nil : out
  }

  /// `version`: a whole number of at least 0.
  func version() throws -> Int? {
    guard let value = object["version"], !value.isNull else { return nil }
    guard let version = value.int, version >= 0 else {
      throw Refusal.invalid("version", "version is a whole number of at least 0.")
    }
    return version
  }

  /// Refuses members the door does not declare (I47).
  func declare(_ names: Set<Text>) throws {
    let unknown = object.keys.filter { !names.contains($0) }
    guard !unknown.isEmpty else { return }
    throw Refusal(
      400, "validation_error", "The body names a member this operation does not have.",
      [
        "unknown_body_fields": .array(unknown.map(JSON.string)),
        "errors": .array(unknown.map { ["path": .string($0), "message": "Unknown member"] }),
      ])
  }
}

/// I11.3: not empty, not blank, at most 128 UTF-16 units.
func judgeTag(_ tag: Text, _ path: String) throws {
  let isBlank = String(decoding: tag.bytes, as: UTF8.self).unicodeScalars.allSatisfy(\.properties.isWhitespace)
  if isBlank || tag.utf16Count > 128 || tag.bytes.contains(0) {
    throw Refusal.invalid(path, "A tag has 1 to 128 characters that are not all blank.")
  }
}

/// Tags as the row holds them.
func tagText(_ tags: [Text]) -> [UInt8] { JSON.array(tags.map(JSON.string)).write() }

/// The tags a write would leave may pass 100 only where they were more before (I11.2).
func judgeTagCount(_ tags: [Text], held: Int) throws {
  if tags.count > 100, tags.count > held {
    throw Refusal.invalid("tags", "An item has at most 100 tags.")
  }
}

import MarfaBase

/// `GET` and `PUT /config`: the instance's settings as one document, kept with the data (IN6, T16 to T19).
extension Instance {
  private static let days: [Text] = [
    "audit_retention_days", "trash_retention_days", "inbound_handled_retention_days", "inbound_pending_retention_days",
  ]
  private static let levers: [(name: Text, members: [Text])] = [
    ("strict_mode", ["types"]), ("source_allowlist", ["types", "sources"]), ("source_filter", ["types", "sources"]),
  ]

  /// `GET /config`.
  func readConfig(_ call: Call) throws -> Reply {
    guard call.credential.may("config.manage") else { throw Refusal.scope("config.manage") }
    try call.query.declare([])
    return .json(200, configuration)
  }

  private var configuration: JSON {
    var json = JSONObject([("instance_id", .string(instanceID.text))])
    for (name, value) in storedConfiguration.members { json[name] = value }
    json["event_log_retention_hours"] = .int(settings.eventRetentionHours)
    return .object(json)
  }

  /// `PUT /config` replaces the whole: a member left out goes back to its default.
  func replaceConfig(_ call: Call) throws -> Reply {
    guard call.credential.may("config.manage") else { throw Refusal.scope("config.manage") }
    try call.query.declare([])
    let body = try call.object()
    var kept = JSONObject()
    for (name, value) in body.members {
      switch name {
      case "instance_id":
        guard value.text == instanceID.text else { throw Refusal.invalid(name, "That is another instance.") }
      case "enforcement": kept[name] = .object(try enforcement(value))
      case "event_log_retention_hours": kept[name] = try whole(value, name, upTo: 876_000)
      case _ where Instance.days.contains(name): kept[name] = try whole(value, name, upTo: 36_500)
      default:
        throw Refusal(
          400, "validation_error", "\(name) is no setting.",
          [
            "unknown_body_fields": [.string(name)],
            "errors": [["path": .string(name), "message": "Unknown member"]],
          ])
      }
    }
    let before = settings.sourceFilter
    configurationTouched = true
    try database.run("DELETE FROM meta WHERE name = 'config'")
    try database.run("INSERT INTO meta VALUES ('config', ?)", Text(bytes: JSON.object(kept).write()))
    take(kept)
    if settings.sourceFilter != before {
      try moveViews()
      noteAnnounced()
    }
    return .json(200, configuration)
  }

  private func whole(_ value: JSON, _ path: Text, upTo most: Int) throws -> JSON {
    guard let number = value.int, (0...most).contains(number) else {
      throw Refusal.invalid(path, "\(path) is a whole number from 0 to \(most).")
    }
    return value
  }

  private func enforcement(_ value: JSON) throws -> JSONObject {
    guard let object = value.object else { throw Refusal.invalid("enforcement", "enforcement is an object.") }
    for (name, lever) in object.members {
      let path = Text("enforcement.\(name)")
      guard let known = Instance.levers.first(where: { $0.name == name }), let members = lever.object else {
        throw Refusal.invalid(path, "No such lever, or not an object.")
      }
      if let other = members.keys.first(where: { !known.members.contains($0) }) {
        throw Refusal.invalid(Text("\(path).\(other)"), "The lever has no such member.")
      }
      for member in known.members {
        let inner = "\(path).\(member)"
        guard let value = members[member], !value.isNull else { throw Refusal.missing(inner) }
        guard let list = value.array, list.allSatisfy({ $0.text.map { !$0.isEmpty } ?? false }) else {
          throw Refusal.invalid(inner, "A list of names.")
        }
      }
    }
    return object
  }

  /// Reads the stored configuration, at the opening and after a rollback.
  func loadConfiguration() throws {
    let text = try database.one("SELECT value FROM meta WHERE name = 'config'") { $0.bytes(0) }
    guard let object = try text.flatMap({ try JSON(parsing: $0).object }) else { return }
    take(object)
  }

  private func take(_ object: JSONObject) {
    storedConfiguration = object
    settings.eventRetentionHours = object["event_log_retention_hours"]?.int ?? givenRetentionHours
    settings.trashRetentionDays = object["trash_retention_days"]?.int
    let enforcement = object["enforcement"]
    func texts(_ lever: Text, _ member: Text) -> [Text] {
      enforcement?[lever]?[member]?.array?.compactMap(\.text) ?? []
    }
    func bySource(_ lever: Text) -> [Text: [Text]] {
      let sources = texts(lever, "sources")
      return Dictionary(texts(lever, "types").map { ($0, sources) }) { first, _ in first }
    }
    settings.strictTypes = texts("strict_mode", "types")
    settings.sourceAllowList = bySource("source_allowlist")
    settings.sourceFilter = bySource("source_filter")
  }
}

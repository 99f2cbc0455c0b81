import MarfaBase

/// `GET` and `PUT /config`: the instance's settings as one document, kept with the data (IN6, T16 to T19).
extension Instance {
  private static let days: [Text] = [
    "audit_retention_days", "trash_retention_days", "inbound_handled_retention_days", "inbound_pending_retention_days",
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
      case "enforcement": kept[name] = .object(try Levers.judged(value, at: name))
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
    let levers = Levers(object["enforcement"]?.object)
    settings.strictTypes = levers.strictTypes
    settings.sourceAllowList = levers.sourceAllowList
    settings.sourceFilter = levers.sourceFilter
  }
}

import MarfaBase
import MarfaCopy

/// What of a folder's settings can be judged before a server sees them (C6.6): what needs no catalog.
enum SettingsCheck {
  private static let members: [Text: [Text]] = [
    "search": ["types", "tier", "state", "filter", "beneath", "query"],
    "defaults": ["type", "tier", "properties", "tags", "edges"],
    "removal_threshold": ["files", "fraction"],
  ]

  /// Refuses what no folder could follow.
  /// - Throws: `invalid` naming the setting.
  static func check(_ settings: JSONObject) throws(MarfaError) {
    for (setting, known) in members.sorted(by: { $0.key < $1.key }) {
      guard let value = settings[setting] else { continue }
      guard let object = value.object else { throw MarfaError(.invalid, "the setting '\(setting)' is a JSON object") }
      if let unknown = object.keys.first(where: { !known.contains($0) }) {
        throw MarfaError(
          .invalid, "'\(setting)' has no member '\(unknown)'; it takes \(known.map(\.string).joined(separator: ", "))")
      }
    }
    try checkStates(settings["search"]?["state"])
    for list in ["include", "ignore"] as [Text] {
      for pattern in settings[list]?.array ?? [] { try checkPattern(pattern, list) }
    }
  }

  private static func checkStates(_ states: JSON?) throws(MarfaError) {
    guard let states else { return }
    guard let list = states.array, !list.isEmpty,
      list.allSatisfy({ $0.text == "active" || $0.text == "archived" })
    else { throw MarfaError(.invalid, "the search's 'state' is a list of 'active', 'archived' or both") }
  }

  private static func checkPattern(_ pattern: JSON, _ list: Text) throws(MarfaError) {
    guard let text = pattern.text, !text.isEmpty, !text.bytes.contains(0x0A), !text.bytes.contains(0) else {
      throw MarfaError(.invalid, "a line of '\(list)' is no pattern of .gitignore's syntax")
    }
  }
}

import FolderSync
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
    try checkFilter(settings["search"]?["filter"])
    let include = try patterns(settings["include"], "include")
    let ignore = try patterns(settings["ignore"], "ignore")
    do throws(PatternRefusal) { _ = try PathLists(include: include, ignore: ignore) } catch {
      throw MarfaError(.invalid, error.description)
    }
  }

  /// A condition must parse (`validation`) and ask for no edge coming in (`invalid`).
  private static func checkFilter(_ filter: JSON?) throws(MarfaError) {
    guard let filter else { return }
    guard let text = filter.text else { throw MarfaError(.invalid, "the search's 'filter' is a text") }
    if try Filter(text).hasBackref {
      throw MarfaError(.invalid, "the search's 'filter' asks for a backref, which no folder can follow")
    }
  }

  private static func patterns(_ list: JSON?, _ name: String) throws(MarfaError) -> [Text] {
    guard let list else { return [] }
    guard let values = list.array else {
      throw MarfaError(.invalid, "the setting '\(name)' is a list of patterns")
    }
    var lines: [Text] = []
    for value in values {
      guard let line = value.text, !line.isEmpty, !line.bytes.contains(0x0A), !line.bytes.contains(0) else {
        throw MarfaError(.invalid, "a line of '\(name)' is no pattern: \(value.compact)")
      }
      lines.append(line)
    }
    return lines
  }

  private static func checkStates(_ states: JSON?) throws(MarfaError) {
    guard let states else { return }
    guard let list = states.array, !list.isEmpty,
      list.allSatisfy({ $0.text == "active" || $0.text == "archived" })
    else { throw MarfaError(.invalid, "the search's 'state' is a list of 'active', 'archived' or both") }
  }
}

import MarfaBase

/// A folder's search: what decides which items it holds, asked anew at every pass (F2, D65).
package struct FolderSearch: Hashable, Sendable {
  /// The types, each with its subtree; empty is every type but `system.*`.
  package var types: [Text]
  /// `library` where the folder names none.
  package var tier: Text
  /// `active` and `archived` where the folder names none.
  package var states: [Text]
  /// A condition of the listing grammar.
  package var filter: Text?
  /// An item and all it reaches along `parent-of`.
  package var beneath: EntityID?

  /// A search.
  package init(
    types: [Text] = [], tier: Text = "library", states: [Text] = ["active", "archived"], filter: Text? = nil,
    beneath: EntityID? = nil
  ) {
    self.types = types
    self.tier = tier
    self.states = states
    self.filter = filter
    self.beneath = beneath
  }
}

extension FolderSearch {
  /// The members of each setting that holds some, by setting (I49.3).
  static let members: [Text: [Text]] = [
    "search": ["types", "tier", "state", "filter", "beneath"],
    "defaults": ["type", "tier", "properties", "tags", "edges"], "removal_threshold": ["files", "fraction"],
  ]

  /// The search that a folder's settings name. A lone `query` is read as `search` (I49.8).
  /// - Throws: `invalid` where no folder follows them: both `query` and `search`, a member nobody knows inside a setting (to
  ///   pass one over would hold the wrong files), no state or another state than `active` and `archived` (I110.2, I110.5).
  package init(settings: JSONObject) throws(MarfaError) {
    self.init()
    let settings = try FolderSearch.named(settings)
    for (setting, known) in FolderSearch.members {
      guard let value = settings[setting], !value.isNull else { continue }
      guard let held = value.object else { throw MarfaError(.invalid, "the folder's `\(setting)` is no map") }
      if let other = held.keys.first(where: { !known.contains($0) }) {
        throw MarfaError(.invalid, "no folder follows `\(setting).\(other)`, which this build does not know")
      }
    }
    guard let search = settings["search"]?.object else { return }
    if let named = search["types"], !named.isNull { types = try FolderSearch.texts(named, "search.types") }
    if let named = search["tier"], !named.isNull {
      guard let text = named.text, text == "library" || text == "feed" else {
        throw MarfaError(.invalid, "no folder follows the tier \(named.compact)")
      }
      tier = text
    }
    if let named = search["state"] {
      states = try FolderSearch.texts(named, "search.state")
      if states.isEmpty { throw MarfaError(.invalid, "the folder's `search.state` names no state") }
      for state in states where state != "active" && state != "archived" {
        throw MarfaError(.invalid, "no folder follows the state \(state)")
      }
    }
    if let named = search["filter"], !named.isNull {
      guard let text = named.text else { throw MarfaError(.invalid, "the folder's `search.filter` is no text") }
      filter = text
    }
    if let named = search["beneath"], !named.isNull {
      guard let id = named.text.flatMap({ EntityID($0) }) else {
        throw MarfaError(.invalid, "the folder's `search.beneath` is no item's id")
      }
      beneath = id
    }
  }

  /// Settings with a lone `query` under the name `search`.
  static func named(_ settings: JSONObject) throws(MarfaError) -> JSONObject {
    guard let query = settings["query"] else { return settings }
    if settings["search"] != nil {
      throw MarfaError(.invalid, "the folder's settings hold both `query` and `search`")
    }
    var named = settings
    named["query"] = nil
    named["search"] = query
    return named
  }

  private static func texts(_ value: JSON, _ member: Text) throws(MarfaError) -> [Text] {
    guard let list = value.array else { throw MarfaError(.invalid, "the folder's `\(member)` is no list") }
    var out: [Text] = []
    for value in list {
      guard let text = value.text else { throw MarfaError(.invalid, "the folder's `\(member)` holds \(value.compact)") }
      out.append(text)
    }
    return out
  }
}

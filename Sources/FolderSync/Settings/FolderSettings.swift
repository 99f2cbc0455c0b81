import MarfaBase

/// The settings of a folder as its `system.folder` row holds them (F1 to F3, F-W1, I49), checked for what no folder
/// follows (F2.8, F3.11, F25.9, F56).
package struct FolderSettings: Hashable, Sendable {
  /// The settings the row names, in its order: `revoked_at` left out, a lone `query` as `search` (I49.8).
  package let named: JSONObject
  /// The folder's title.
  package let title: Text
  /// What the folder holds.
  package let search: Search
  /// What a new file leaves blank.
  package let defaults: Defaults
  /// Patterns of the paths taken; none takes every path.
  package let include: [Text]
  /// Patterns of the paths left alone.
  package let ignore: [Text]
  /// Where items made elsewhere first appear, by type.
  package let firstPlacement: [Text: PathBytes]
  /// Past both bounds a removal waits for confirmation.
  package let removalThreshold: RemovalThreshold

  /// `search` (F2).
  package struct Search: Hashable, Sendable {
    /// Types, each with its subtypes; none is every type the key reads but `system.*` (F2.4).
    package var types: [Text] = []
    /// The one tier held (F2.5).
    package var tier: Text = "library"
    /// The states held (F2.6).
    package var states: [ShownState] = [.active, .archived]
    /// A condition of the listing grammar.
    package var filter: Text?
    /// The item everything lies beneath (F2.2).
    package var beneath: EntityID?
  }

  /// `defaults` (F3).
  package struct Defaults: Hashable, Sendable {
    /// A new document's type.
    package var type: Text?
    /// A new file's tier.
    package var tier: Text?
    /// Properties of new documents.
    package var properties = JSONObject()
    /// Tags of new files.
    package var tags: [Text] = []
    /// Edges of new files, by type, in the row's order.
    package var edges: [Edges] = []

    /// The default edges of one type.
    package struct Edges: Hashable, Sendable {
      /// The edge type.
      package let type: Text
      /// The items named.
      package let items: [EntityID]
    }
  }

  /// `removal_threshold` (F46).
  package struct RemovalThreshold: Hashable, Sendable {
    /// More files than this,
    package var files = 10
    /// and more of the folder than this.
    package var fraction = 0.25
  }

  /// Why no folder follows some settings.
  package struct Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The member, as `search.filter`.
    package let member: Text
    /// What is wrong with it, in words that follow its name.
    package let reason: String
    /// Both.
    package var description: String { "\(member): \(reason)" }
  }

  /// The checks other rooms answer.
  package struct Checks {
    /// What is wrong with a filter, or nil: that it does not parse, holds a `backref`, compares with `null` (F2.8, F56.1).
    package var filter: (Text) -> String?
    /// What is wrong with an include or ignore line, or nil (F25.9).
    package var pattern: (Text) -> String?
    /// Whether types, each with its subtypes, hold a type (F3.11).
    package var holds: (_ types: [Text], _ type: Text) -> Bool

    /// Checks of these answers.
    package init(
      filter: @escaping (Text) -> String?, pattern: @escaping (Text) -> String?,
      holds: @escaping (_ types: [Text], _ type: Text) -> Bool
    ) {
      self.filter = filter
      self.pattern = pattern
      self.holds = holds
    }
  }

  /// The settings of a row's properties.
  /// - Throws: `Refusal` naming the member no folder follows.
  package init(row: JSONObject, checks: Checks) throws(Refusal) {
    named = try FolderSettings.named(in: row)
    let reader = SettingsReader(checks: checks)
    var title: Text = ""
    var search = Search()
    var defaults = Defaults()
    var include: [Text] = []
    var ignore: [Text] = []
    var firstPlacement: [Text: PathBytes] = [:]
    var removalThreshold = RemovalThreshold()
    for (key, value) in named.members {
      switch key.string {
      case "title": title = try reader.text(value, "title", 1...500)
      case "search": search = try reader.search(value)
      case "defaults": defaults = try reader.defaults(value)
      case "include": include = try reader.patterns(value, "include")
      case "ignore": ignore = try reader.patterns(value, "ignore")
      case "first_placement": firstPlacement = try reader.firstPlacement(value)
      case "removal_threshold": removalThreshold = try reader.removalThreshold(value)
      default: throw Refusal(member: key, reason: "it is no setting of a folder")
      }
    }
    try reader.judge(defaults, search)
    self.title = title
    self.search = search
    self.defaults = defaults
    self.include = include
    self.ignore = ignore
    self.firstPlacement = firstPlacement
    self.removalThreshold = removalThreshold
  }

  /// The settings a row names: `revoked_at` is none, a lone `query` is `search` (I49.8).
  /// - Throws: where both stand.
  package static func named(in row: JSONObject) throws(Refusal) -> JSONObject {
    if row["query"] != nil, row["search"] != nil {
      throw Refusal(member: "query", reason: "the row holds both `query` and `search`")
    }
    return JSONObject(
      row.members.lazy.filter { $0.key != "revoked_at" }.map { ($0.key == "query" ? "search" : $0.key, $0.value) })
  }

  /// The type of a new document that names none (F3.1).
  package func documentType(isFileType: (Text) -> Bool) -> Text {
    defaults.type ?? search.types.first { !isFileType($0) } ?? "core.note"
  }

  /// The tier of a new file that names none (F3.2).
  package var newTier: Text { defaults.tier ?? search.tier }
}

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

import MarfaBase

/// The line ends a file writes; what the folder appends takes them too (F7.29).
package enum LineEnding: Hashable, Sendable {
  /// `\n`.
  case lf
  /// `\r\n`.
  case crlf

  /// The bytes of one line end.
  package var bytes: [UInt8] { self == .lf ? [0x0A] : [0x0D, 0x0A] }
}

/// The names a server's edge types give frontmatter lines (F7.3, F11). Built from `GET /edge-types`.
package struct EdgeVocabulary: Hashable, Sendable {
  /// Whether a line of each name may hold more than one target; keyed by type names and reverse names alike.
  private let names: Set<Text>

  /// The names of edge types and their reverse names.
  package init(names: some Sequence<Text>) { self.names = Set(names) }

  /// Whether a key is an edge line's. Keys compare exactly, case included (F7.4).
  package func contains(_ key: Text) -> Bool { names.contains(key) }
}

/// What a frontmatter key names (F7.1 to F7.4).
package enum LineName: Hashable, Sendable {
  case type, tier, tags, state, occurredAt, id, version
  /// A line named for an edge type or a reverse name.
  case edge
  /// Every other line.
  case property

  /// What a key names among these edge types.
  package init(_ key: Text, _ vocabulary: EdgeVocabulary) {
    switch key.string {
    case "type": self = .type
    case "tier": self = .tier
    case "tags": self = .tags
    case "state": self = .state
    case "occurred_at": self = .occurredAt
    case "marfa_id": self = .id
    case "marfa_version": self = .version
    default: self = vocabulary.contains(key) ? .edge : .property
    }
  }
}

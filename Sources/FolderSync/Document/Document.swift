import MarfaBase
import MarfaCopy

/// A document's file as read: what its lines name, and where they stand. A value; no I/O.
///
///     switch Document.read(bytes, kind: .markdown, edges: vocabulary) {
///     case .read(let document): document.own.tags; document.edges; document.body
///     case .unreadable(let held): held.reason      // F10.1; held.plainID follows a move (F10.3)
///     case .encoding(let reason): reason           // F10.6
///     }
package struct Document: Sendable {
  /// The file's bytes, as read.
  package let bytes: [UInt8]
  /// Which kind of document.
  package let kind: DocumentKind
  /// Whether a UTF-8 byte-order mark led the file (F8.6).
  package let hasByteOrderMark: Bool
  /// The file's line ends: those of its first line.
  package let lineEnding: LineEnding
  /// Where the frontmatter stands; nil where the whole file is body.
  package let frontmatter: Frontmatter?
  /// The body's bytes within `bytes`.
  package let bodyRange: Range<Int>
  /// Its own-field lines (F7.1).
  package let own: OwnFieldLines
  /// The `marfa_id` line (F13).
  package let id: IDLine
  /// The `marfa_version` line (F23).
  package let version: VersionLine
  /// Edge lines in file order (F7.3).
  package let edges: [EdgeLine]
  /// Every other line, in file order (F7.4). A line named for the body field is among them: the body overwrites it
  /// (F7.10), see `properties(bodyField:)`.
  package let properties: JSONObject

  /// The body.
  package var body: Text { Text(bytes: bytes[bodyRange]) }

  /// The item's properties as the file says them: every property line, the body under its field (F7.10).
  package func properties(bodyField: Text) -> JSONObject {
    var all = properties
    all[bodyField] = .string(body)
    return all
  }

  /// Where frontmatter stands in a file.
  package struct Frontmatter: Hashable, Sendable {
    /// The YAML text between the fences, its last line end included.
    package let yaml: Range<Int>
    /// The closing fence line, its line end included where it has one.
    package let closing: Range<Int>
    /// The lines in file order.
    package let lines: [Line]
  }

  /// One frontmatter line: a key and its value.
  package struct Line: Hashable, Sendable {
    /// The key, as text.
    package let key: Text
    /// What the key names.
    package let name: LineName
    /// Its bytes within the file, from the key to the value's end.
    package let range: Range<Int>
    /// The value.
    package let value: JSON
  }

  /// What reading gave.
  package enum Reading: Sendable {
    /// The file reads.
    case read(Document)
    /// The frontmatter cannot be read (F10.1): the file is held.
    case unreadable(Unreadable)
    /// The bytes are no UTF-8 text, or hold a NUL (F10.6).
    case encoding(reason: String)

    /// The document, where the file reads.
    package var document: Document? { if case .read(let document) = self { document } else { nil } }
  }

  /// A file whose frontmatter cannot be read.
  package struct Unreadable: Error, Hashable, Sendable {
    /// Why, in words, naming the value for an own field.
    package let reason: String
    /// The `marfa_id` line read as plain text inside the fence (F10.3).
    package let plainID: EntityID?
  }
}

/// `active` or `archived`: the states a file shows (F7.22).
package enum ShownState: Hashable, Sendable {
  case active, archived
  /// The state's name.
  package var text: Text { self == .active ? "active" : "archived" }
}

/// A frontmatter line that may be absent. A line present with no value is `.blank`.
package enum Answer<Value: Hashable & Sendable>: Hashable, Sendable {
  /// No such line.
  case absent
  /// The line stands with no value (null).
  case blank
  /// The line says this.
  case says(Value)

  /// Whether the line stands at all.
  package var isPresent: Bool { self != .absent }
  /// What it says.
  package var value: Value? { if case .says(let value) = self { value } else { nil } }
}

/// The own-field lines of a file (F7.22, F7.23).
package struct OwnFieldLines: Hashable, Sendable {
  /// `type`; never blank.
  package var type: Answer<Text> = .absent
  /// `tier`: `feed` or `library`; never blank.
  package var tier: Answer<Text> = .absent
  /// `tags`, each once, in file order; blank is none (F7.23), as `.says([])` is.
  package var tags: Answer<[Text]> = .absent
  /// `state`; blank is active (F7.23).
  package var state: Answer<ShownState> = .absent
  /// `occurred_at`; blank asks for no time (F7.38).
  package var occurredAt: Answer<Timestamp> = .absent

  /// No lines.
  package init() {}

  /// Whether any of the five stands.
  package var isEmpty: Bool {
    !type.isPresent && !tier.isPresent && !tags.isPresent && !state.isPresent && !occurredAt.isPresent
  }
}

/// The `marfa_id` line.
package enum IDLine: Hashable, Sendable {
  case absent
  /// The line names no id (blank, another text, no text).
  case noID
  case names(EntityID)

  /// The id it names.
  package var id: EntityID? { if case .names(let id) = self { id } else { nil } }
}

/// The `marfa_version` line (F7.2: `"3"` and `3.0` are 3).
package enum VersionLine: Hashable, Sendable {
  case absent
  /// The line names no version a server mints: as good as no line (F23.4).
  case noVersion
  case names(Int)

  /// The version it names.
  package var version: Int? { if case .names(let version) = self { version } else { nil } }
}

/// An edge line (F11): the edge type's name or reverse name and what is typed under it.
package struct EdgeLine: Hashable, Sendable {
  /// The key as typed.
  package let key: Text
  /// The targets in order; none for a blank line or an empty list.
  package let targets: [EdgeTarget]
}

/// One target as typed in an edge line.
package enum EdgeTarget: Hashable, Sendable {
  /// A `[[...]]` text.
  case link(LinkText)
  /// Anything else: an invalid line (F11.8). The text as typed, for the reason.
  case invalid(Text)
}

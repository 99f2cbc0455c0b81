import MarfaBase

/// A file, directory or item that was held back or not written, and why (R2, C19.3).
public struct FlaggedFile: Hashable, Sendable {
  /// Relative to the root; `""` is the root itself. Bytes that are no UTF-8 show as `%XX`.
  public var path: String
  /// One of C19.4.
  public var flag: String
  /// Why, in words a person reads.
  public var reason: String
  /// The item, for entries a pull made under F60.
  public var item: String?

  package init(_ path: PathBytes, _ flag: Flag, _ reason: String, item: EntityID? = nil) {
    self.path = path.description
    self.flag = flag.rawValue
    self.reason = reason
    self.item = item?.description
  }

  package init(path: String, flag: Flag, reason: String, item: EntityID? = nil) {
    self.path = path
    self.flag = flag.rawValue
    self.reason = reason
    self.item = item?.description
  }

  package var json: JSON {
    var object = members(["path": .string(path), "flag": .string(flag), "reason": .string(reason)])
    if let item { object["item"] = .string(item) }
    return .object(object)
  }
}

/// Why a file is held, not written, or told of (R2, C19.4).
package enum Flag: String, Sendable {
  case unreadable, encoding, refused, behind, edges, embed, waiting, name, emptied, saved, unguarded, reverted, package,
    gone, size
  case removal, lost, unwritten, outside, unsuited, absent, retained, lists, empty, search, unmounted, restored
  case defaultEdgeRefused = "default_edge_refused"
  case credentialRefused = "credential_refused"
}

/// A missing file that is held, since it cannot be told whether it moved (F43).
public struct UnsureFile: Hashable, Sendable {
  /// Where it was.
  public var path: String
  /// Why it cannot be told.
  public var reason: String

  package var json: JSON { ["path": .string(path), "reason": .string(reason)] }
}

/// A property no file can carry (F7.11).
public struct UncarriedProperty: Hashable, Sendable, Comparable {
  /// The type that declares it.
  public var type: String
  /// Its name.
  public var property: String

  package var json: JSON { ["type": .string(type), "property": .string(property)] }

  /// In order of both.
  public static func < (left: UncarriedProperty, right: UncarriedProperty) -> Bool {
    (Text(left.type), Text(left.property)) < (Text(right.type), Text(right.property))
  }
}

/// What became of `folder.yaml` (C19.5).
public struct SettingsFileOutcome: Hashable, Sendable {
  /// An edit of it was sent and taken.
  public var sent = false
  /// It was written from the settings in force.
  public var written = false
  /// Why an edit is not in force.
  public var flagged: String?
  /// Why it could not be written.
  public var unwritten: String?
  /// The seconds to wait where a rate limit kept an edit from being sent (P6.3); no part of the report.
  package var retryAfter: Int?

  /// Nothing happened.
  public init() {}

  package var json: JSON {
    [
      "sent": .bool(sent), "written": .bool(written), "flagged": flagged.map(JSON.string) ?? .null,
      "unwritten": unwritten.map(JSON.string) ?? .null,
    ]
  }
}

func list(_ entries: [FlaggedFile]) -> JSON { .array(entries.map(\.json)) }
func list(_ paths: [String]) -> JSON { .array(paths.map(JSON.string)) }
func optional(_ words: String?) -> JSON { words.map(JSON.string) ?? .null }

/// An object of these members, for reports and records.
func members(_ pairs: KeyValuePairs<Text, JSON>) -> JSONObject { JSONObject(pairs.map { ($0.key, $0.value) }) }

import MarfaBase

/// How far a grant goes; `write` includes `read` (K3.1).
enum Level: Int, Comparable {
  case none, read, write

  init?(_ text: Text?) {
    switch text?.string {
    case "none": self = .none
    case "read": self = .read
    case "write": self = .write
    default: return nil
    }
  }

  var word: String {
    switch self {
    case .none: "none"
    case .read: "read"
    case .write: "write"
    }
  }

  static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
}

/// Patterns and their levels: exact ids, `<prefix>.*`, `*` (K3.2).
struct GrantMap {
  private(set) var json: JSONObject
  private var exact: [Text: Level] = [:]
  private var prefixes: [(prefix: [UInt8], level: Level)] = []
  private var everything: Level?

  init(_ object: JSONObject) {
    json = object
    for (pattern, value) in object.members {
      guard let level = Level(value.text) else { continue }
      if pattern == "*" {
        everything = level
      } else if pattern.bytes.suffix(2).elementsEqual(".*".utf8) {
        prefixes.append((Array(pattern.bytes.dropLast()), level))
      } else {
        exact[pattern] = level
      }
    }
    prefixes.sort { $0.prefix.count > $1.prefix.count }
  }

  static let all = GrantMap(JSONObject([("*", "write")]))

  /// The level of the most specific pattern that matches; none without one.
  func level(_ id: Text) -> Level {
    if let level = exact[id] { return level }
    for (prefix, level) in prefixes where id.bytes.starts(with: prefix) { return level }
    return everything ?? .none
  }

  func reads(_ id: Text) -> Bool { level(id) >= .read }
  func writes(_ id: Text) -> Bool { level(id) == .write }

  /// Whether any pattern grants anything.
  var reachesSomething: Bool { json.members.contains { (Level($0.value.text) ?? .none) >= .read } }
  /// Whether every id is read, so that nothing needs to be narrowed.
  var readsEverything: Bool {
    (everything ?? .none) >= .read && !json.members.contains { Level($0.value.text) == Level.none }
  }
  /// What it lets be read, spelled one way: a part of the read view (RV9.2).
  var readSpelling: String {
    json.members.compactMap { member in
      Level(member.value.text).map { "\(member.key.string)=\($0 >= .read ? 1 : 0)" }
    }.sorted().joined(separator: ",")
  }
}

/// Who sends a request: a key, or an app's grant through one of its access tokens (K1).
struct Credential {
  enum Kind { case key, app }

  var kind: Kind
  /// The key's id, or the grant's: keys of idempotency and read views belong to it (K12.4).
  var id: EntityID
  var label: Text
  var source: Text
  var sources: [Text]
  var permissions: [Text]
  var defaultTier: Text
  var types: GrantMap
  var edges: GrantMap
  var extensions: GrantMap
  var metadata: GrantMap
  var profile: GrantMap
  var created: Timestamp
  var expires: Timestamp?
  var lastUsed: Timestamp?
  /// Levers of the key's own.
  var levers = Levers()

  func may(_ permission: Text) -> Bool { permissions.contains(permission) }
  func claims(_ source: Text) -> Bool { source == self.source || sources.contains(source) }

  /// Whether an item's rows of this type are read.
  func reads(_ type: Text) -> Bool { types.reads(type) }

  func requireSomeType() throws {
    guard types.reachesSomething else { throw Refusal.reachesNoType }
  }

  func requireWrite(_ type: Text) throws {
    guard types.writes(type) else { throw Refusal.type(type, .write) }
  }

  /// Which sort of sign-in a snapshot's writer names (V33.2).
  var writer: JSON {
    // The owner's key is the local authority (K5.9): what it sends is the person at the machine.
    if source == "local" { return ["kind": "local", "id": "local", "name": "Local command"] }
    let name = label.string.unicodeScalars.filter { scalar in
      scalar.properties.generalCategory != .control && scalar.properties.generalCategory != .format
    }
    var kept = String.UnicodeScalarView()
    kept.append(contentsOf: name.prefix(200))
    return [
      "kind": kind == .key ? "key" : "app", "id": .string(id.text), "name": .string(String(kept)),
    ]
  }
}

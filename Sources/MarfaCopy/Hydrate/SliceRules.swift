import MarfaBase

extension Slice {
  /// Roots a publisher cannot claim at all (T110); the usable namespaces among the reserved ones are left out.
  private static let closedRoots: Set<Text> = [
    "audit", "blobs", "config", "connectors", "content", "edge", "grants", "instance", "items", "keys", "metadata",
    "profile", "schema", "space", "webhooks",
  ]

  /// Refuses a declaration no fill can hold, before anything is read (D6.1 to D6.3).
  static func check(_ slice: Slice) throws(MarfaError) {
    if let types = slice.types, types.isEmpty {
      throw MarfaError(.invalid, "a working copy needs at least one type to hold, or * for every type")
    }
    guard ["library", "feed", "all"].contains(slice.tier) else {
      throw MarfaError(.invalid, "\(slice.tier) is no tier: library, feed or all")
    }
    for type in slice.systemTypes where !type.bytes.starts(with: "system.".utf8) {
      throw MarfaError(.invalid, "\(type) cannot stand beside *, which holds it already")
    }
    for type in slice.types ?? slice.systemTypes {
      guard isWellFormed(type) else { throw MarfaError(.invalid, "\(type) is no type name") }
    }
  }

  /// The type grammar: two or more dot-separated segments, `root.*` among them; three exactly under `app` (D6.3).
  package static func isWellFormed(_ type: Text) -> Bool {
    var segments = type.bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { Array($0) }
    guard type.bytes.count <= 128 else { return false }
    let isWildcard = segments.last.map { $0.elementsEqual("*".utf8) } ?? false
    if isWildcard { segments.removeLast() }
    guard let root = segments.first, segments.allSatisfy(isSegment), !closedRoots.contains(Text(bytes: root)) else {
      return false
    }
    if isWildcard { return true }
    if root.elementsEqual("app".utf8) { return segments.count == 3 }
    return segments.count >= 2
  }

  private static func isSegment(_ bytes: [UInt8]) -> Bool {
    guard let first = bytes.first, first >= UInt8(ascii: "a"), first <= UInt8(ascii: "z") else { return false }
    return bytes.allSatisfy {
      ($0 >= UInt8(ascii: "a") && $0 <= UInt8(ascii: "z")) || ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: "-")
        || $0 == UInt8(ascii: "_")
    }
  }

  /// The listing of a declared type; `system.*` types lie at either tier (D63.1), `*` names no type.
  static func listing(of type: Text, tier: Text) -> [(String, Text)] {
    let isSystem = type.bytes.starts(with: "system.".utf8)
    return (type == "*" ? [] : [("type", type)]) + [
      ("tier", isSystem ? "all" : tier), ("state", "any"), ("include", "edges,metadata"), ("limit", "200"),
    ]
  }

  /// The level a permission map gives a name: exact, then the longest prefix, then `*` (K3.2).
  package static func level(of name: Text, in levels: JSONObject) -> Text {
    if let exact = levels[name]?.text { return exact }
    var best: (length: Int, level: Text)?
    for (pattern, level) in levels.members {
      guard pattern.bytes.suffix(2).elementsEqual(".*".utf8), name.bytes.starts(with: pattern.bytes.dropLast()),
        pattern.bytes.count > best?.length ?? 0, let level = level.text
      else { continue }
      best = (pattern.bytes.count, level)
    }
    return best?.level ?? levels["*"]?.text ?? "none"
  }
}

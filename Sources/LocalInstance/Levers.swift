import MarfaBase

/// The levers of T17 to T19 as the configuration sets them, or a key has them of its own (`enforcement_override`, K2.1).
///
/// A key's levers hold beside the instance's and lift none of them: what a key is given only ever narrows (K5.3, K5.8).
struct Levers {
  /// As they were given; nil where none were.
  private(set) var json: JSONObject?
  private(set) var strictTypes: [Text] = []
  private(set) var sourceAllowList: [Text: [Text]] = [:]
  private(set) var sourceFilter: [Text: [Text]] = [:]

  /// None.
  init() {}

  /// Levers that were judged.
  init(_ object: JSONObject?) {
    json = object
    func texts(_ lever: Text, _ member: Text) -> [Text] {
      object?[lever]?[member]?.array?.compactMap(\.text) ?? []
    }
    func bySource(_ lever: Text) -> [Text: [Text]] {
      let sources = texts(lever, "sources")
      return Dictionary(texts(lever, "types").map { ($0, sources) }) { first, _ in first }
    }
    strictTypes = texts("strict_mode", "types")
    sourceAllowList = bySource("source_allowlist")
    sourceFilter = bySource("source_filter")
  }

  private static let known: [(name: Text, members: [Text])] = [
    ("strict_mode", ["types"]), ("source_allowlist", ["types", "sources"]), ("source_filter", ["types", "sources"]),
  ]

  /// The levers of a body, their shape judged (T16).
  static func judged(_ value: JSON, at place: Text) throws -> JSONObject {
    guard let object = value.object else { throw Refusal.invalid(place, "\(place) is an object.") }
    for (name, lever) in object.members {
      let path = Text("\(place).\(name)")
      guard let known = known.first(where: { $0.name == name }), let members = lever.object else {
        throw Refusal.invalid(path, "No such lever, or not an object.")
      }
      if let other = members.keys.first(where: { !known.members.contains($0) }) {
        throw Refusal.invalid(Text("\(path).\(other)"), "The lever has no such member.")
      }
      for member in known.members {
        let inner = "\(path).\(member)"
        guard let value = members[member], !value.isNull else { throw Refusal.missing(inner) }
        guard let list = value.array, list.allSatisfy({ $0.text.map { !$0.isEmpty } ?? false }) else {
          throw Refusal.invalid(inner, "A list of names.")
        }
      }
    }
    return object
  }

  /// One source filter spelled one way: a part of the read view (RV9.2).
  static func spelling(_ filter: [Text: [Text]]) -> String {
    filter.map { "\($0.key.string):\($0.value.map(\.string).sorted().joined(separator: ","))" }.sorted()
      .joined(separator: ";")
  }
}

extension Instance {
  /// What keeps rows out of a reader's sets: the instance's source filter and the reader's own (SF5.4, RV5.2).
  func sourceFilters(of reader: Credential) -> [(type: Text, sources: [Text])] {
    (Array(settings.sourceFilter) + Array(reader.levers.sourceFilter)).map { (type: $0.key, sources: $0.value) }
  }
}

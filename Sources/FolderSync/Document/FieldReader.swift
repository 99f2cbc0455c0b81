import MarfaBase
import MarfaCopy

/// Sorts frontmatter lines into own fields, id and version, edges and properties (F7.1 to F7.4), and judges own fields
/// (F7.22, F7.23).
struct FieldReader {
  let yaml: YAMLDocument
  let offset: Int
  let edges: EdgeVocabulary
  var lines: [Document.Line] = []
  var own = OwnFieldLines()
  var id = IDLine.absent
  var version = VersionLine.absent
  var edgeLines: [EdgeLine] = []
  var properties = JSONObject()
  private var seen: Set<Text> = []

  init(yaml: YAMLDocument, offset: Int, edges: EdgeVocabulary) {
    self.yaml = yaml
    self.offset = offset
    self.edges = edges
  }

  mutating func read(_ pairs: [YAMLNode.Pair]) throws(YAMLFailure) {
    var budget = yaml.freshBudget
    for pair in pairs {
      let key = try yaml.key(pair.key, budget: &budget)
      let node = yaml.nodes[pair.value]
      guard seen.insert(key).inserted else {
        throw yaml.failure("the key `\(key)` stands twice", at: yaml.nodes[pair.key].start)
      }
      let value = try yaml.value(of: pair.value, depth: 2, budget: &budget)
      let name = LineName(key, edges)
      let start = yaml.nodes[pair.key].start
      lines.append(
        Document.Line(
          key: key, name: name, range: (offset + start)..<(offset + max(node.end, yaml.nodes[pair.key].end)),
          value: value))
      func refused(_ reason: String) -> YAMLFailure { yaml.failure(reason, at: start) }
      switch name {
      case .type:
        guard let text = value.text, !text.isEmpty else { throw refused("`type` names no type: \(shown(value))") }
        own.type = .says(text)
      case .tier:
        guard let text = value.text, text == "feed" || text == "library" else {
          throw refused("`tier` is `feed` or `library`, not \(shown(value))")
        }
        own.tier = .says(text)
      case .tags:
        own.tags = try tags(value, node, refused)
      case .state:
        if value.isNull {
          own.state = .blank
        } else if value.text == "active" {
          own.state = .says(.active)
        } else if value.text == "archived" {
          own.state = .says(.archived)
        } else {
          throw refused("`state` is `active` or `archived`, not \(shown(value))")
        }
      case .occurredAt:
        if value.isNull {
          own.occurredAt = .blank
        } else if let time = value.text.flatMap(OwnTime.parse) {
          own.occurredAt = .says(time)
        } else {
          throw refused("`occurred_at` is no date or time: \(shown(value))")
        }
      case .id: id = value.text.flatMap(EntityID.init).map(IDLine.names) ?? .noID
      case .version: version = FieldReader.version(value).map(VersionLine.names) ?? .noVersion
      case .edge: edgeLines.append(EdgeLine(key: key, targets: targets(value)))
      case .property: properties[key] = value
      }
    }
  }

  /// The version a value names: a positive whole number, also as text or as `3.0` (F7.2).
  static func version(_ value: JSON) -> Int? {
    if let number = value.int { return number > 0 ? number : nil }
    guard let text = value.text, !text.isEmpty, text.bytes.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
      let number = Int(text.string), number > 0
    else { return nil }
    return number
  }

  private func tags(
    _ value: JSON, _ node: YAMLNode, _ refused: (String) -> YAMLFailure
  ) throws(YAMLFailure) -> Answer<[Text]> {
    let texts: [Text]
    switch value {
    case .null:
      // `tags: #work` is a comment to YAML and three tags to its writer (P7.1).
      let rest = yaml.source[node.end...].drop { $0 == 0x20 || $0 == 0x09 }
      if rest.first == UInt8(ascii: "#"), let next = rest.dropFirst().first,
        next >= 0x80 || (next | 0x20 >= 0x61 && next | 0x20 <= 0x7A)
      {
        throw refused(
          "`tags:` is followed by a comment, so YAML reads no tags there; write them as a list: `tags: [work, home]`")
      }
      return .blank
    case .string(let text):
      texts = text.bytes.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map {
        LinkText.trimmed($0)
      }
    case .array(let values):
      var all: [Text] = []
      for value in values {
        guard let text = value.text else { throw refused("`tags` holds \(shown(value)), which is not text") }
        all.append(text)
      }
      texts = all
    case .bool, .number, .object: throw refused("`tags` is no list of text: \(shown(value))")
    }
    var unique: [Text] = []
    var held: Set<Text> = []
    for text in texts {
      guard !LinkText.trimmed(text.bytes[...]).isEmpty else { throw refused("`tags` names an empty tag") }
      if held.insert(text).inserted { unique.append(text) }
    }
    return .says(unique)
  }

  private func targets(_ value: JSON) -> [EdgeTarget] {
    switch value {
    case .null: []
    case .string(let text): [LinkText(value: text).map(EdgeTarget.link) ?? .invalid(text)]
    case .array(let values):
      values.map { value in
        guard let text = value.text else { return .invalid(Text(value.compact)) }
        return LinkText(value: text).map(EdgeTarget.link) ?? .invalid(text)
      }
    case .bool, .number, .object: [.invalid(Text(value.compact))]
    }
  }

  /// A value as a reason shows it, cut short.
  private func shown(_ value: JSON) -> String {
    let text = value.compact
    return text.utf8.count <= 80 ? text : "\(text.prefix(60))..."
  }
}

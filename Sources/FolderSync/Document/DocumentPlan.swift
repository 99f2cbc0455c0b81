import MarfaBase

extension DocumentRewriter {
  /// What each line becomes so that the file says the item (F7.25 to F7.30, F7.42).
  mutating func plan(_ content: ItemContent, over document: Document) {
    body = content.body
    var missing = Missing(content, edges)
    for line in document.frontmatter?.lines ?? [] {
      switch line.name {
      case .type:
        missing.type = false
        fates.append(line.value.text == content.type ? .stays : .becomes(.string(content.type)))
      case .tier:
        missing.tier = false
        fates.append(line.value.text == content.tier ? .stays : .becomes(.string(content.tier)))
      case .tags:
        missing.tags = false
        fates.append(tags(content, document))
      case .state:
        missing.state = false
        let shown = document.own.state.value ?? .active
        fates.append(shown == content.state ? .stays : content.state == .active ? .goes : .becomes("archived"))
      case .occurredAt:
        missing.time = false
        fates.append(time(content, document))
      case .id:
        missing.id = false
        fates.append(id(content.id, document))
      case .version:
        missing.version = false
        fates.append(version(content.version, document))
      case .edge:
        fates.append(edge(line, missing.edges.removeValue(forKey: line.key)))
      case .property:
        guard let value = content.properties[line.key] else {
          // A line with no value says nothing that could be taken out.
          fates.append(line.value.isNull ? .stays : .goes)
          continue
        }
        missing.shown.insert(line.key)
        fates.append(line.value == value ? .stays : .becomes(value))
      }
    }
    missing.append(to: &added, content)
  }

  /// As `plan`, of the id and version lines alone.
  mutating func planLines(id wantedID: EntityID, version wantedVersion: Int, over document: Document) {
    for line in document.frontmatter?.lines ?? [] {
      switch line.name {
      case .id: fates.append(id(wantedID, document))
      case .version: fates.append(version(wantedVersion, document))
      case .type, .tier, .tags, .state, .occurredAt, .edge, .property: fates.append(.stays)
      }
    }
    body = document.body
    if document.id == .absent { added.append(("marfa_id", .string(wantedID.text), wantedID.text.bytes)) }
    if document.version == .absent { added.append(("marfa_version", .int(wantedVersion), nil)) }
  }

  private func id(_ wanted: EntityID?, _ document: Document) -> YAMLEditor.Fate {
    guard let wanted, document.id.id != wanted else { return .stays }
    return .reads(.string(wanted.text), wanted.text.bytes)
  }

  private func version(_ wanted: Int?, _ document: Document) -> YAMLEditor.Fate {
    guard let wanted, document.version.version != wanted else { return .stays }
    return .becomes(.int(wanted))
  }

  /// The order of a line's own tags stands; new ones follow in ascending order.
  private func tags(_ content: ItemContent, _ document: Document) -> YAMLEditor.Fate {
    let shown = document.own.tags.value ?? []
    let wanted = Set(content.tags)
    if Set(shown) == wanted { return .stays }
    if wanted.isEmpty { return .goes }
    let all = shown.filter(wanted.contains) + wanted.subtracting(shown).sorted()
    return .becomes(.array(all.map(JSON.string)))
  }

  /// F7.42: right where the line names a time already, blank while the item has none of its own.
  private func time(_ content: ItemContent, _ document: Document) -> YAMLEditor.Fate {
    if document.own.occurredAt == .blank, !content.hasOwnTime { return .stays }
    if document.own.occurredAt == .says(content.occurredAt) { return .stays }
    return .reads(.string(content.occurredAt.text), DocumentRewriter.quoted(content.occurredAt))
  }

  private func edge(_ line: Document.Line, _ wanted: EdgeContent?) -> YAMLEditor.Fate {
    let shown: [Text]
    switch line.value {
    case .null: shown = []
    case .array(let values): shown = values.compactMap(\.text)
    case .string(let text): shown = [text]
    case .bool, .number, .object: shown = []
    }
    let targets = wanted?.targets ?? []
    let wantedOnes = Set(targets)
    if Set(shown) == wantedOnes, shown.count == (line.value.array?.count ?? shown.count) {
      // A blank line names nothing to take out.
      switch line.value {
      case .bool, .number, .object: break
      case .null, .array, .string: return .stays
      }
    }
    if targets.isEmpty { return .goes }
    var all = shown.filter(wantedOnes.contains)
    var held = Set(all)
    for target in targets where held.insert(target).inserted { all.append(target) }
    if line.value.array == nil, all.count == 1, let only = all.first { return .becomes(.string(only)) }
    return .becomes(.array(all.map(JSON.string)))
  }

  /// As the server answers it, quoted (F7.42).
  fileprivate static func quoted(_ time: Timestamp) -> [UInt8] { Array("\"\(time)\"".utf8) }
}

/// The fields a file has no line for yet.
private struct Missing {
  var type = true
  var tier = true
  var tags: Bool
  var state: Bool
  var time: Bool
  var id: Bool
  var version: Bool
  let properties: JSONObject
  /// The properties that have a line.
  var shown: Set<Text> = []
  var edges: [Text: EdgeContent] = [:]

  init(_ content: ItemContent, _ vocabulary: EdgeVocabulary) {
    tags = !content.tags.isEmpty
    state = content.state == .archived
    time = content.hasOwnTime
    id = content.id != nil
    version = content.version != nil
    // A property of a name that a file reads as something else has no line (F7.11).
    properties = JSONObject(
      content.properties.members.lazy.filter { LineName($0.key, vocabulary) == .property }.map { ($0.key, $0.value) })
    for edge in content.edges where !edge.targets.isEmpty { edges[edge.key] = edge }
  }

  /// Own fields, properties, edge lines by name, id and version (F7.26, F7.27).
  func append(to added: inout [(key: Text, value: JSON, written: [UInt8]?)], _ content: ItemContent) {
    if type { added.append(("type", .string(content.type), nil)) }
    if tier { added.append(("tier", .string(content.tier), nil)) }
    if tags { added.append(("tags", .array(Set(content.tags).sorted().map(JSON.string)), nil)) }
    if state { added.append(("state", "archived", nil)) }
    if time {
      added.append(("occurred_at", .string(content.occurredAt.text), DocumentRewriter.quoted(content.occurredAt)))
    }
    for (key, value) in properties.members where !shown.contains(key) { added.append((key, value, nil)) }
    for edge in edges.values.sorted(by: { $0.key < $1.key }) {
      let targets = edge.targets.map(JSON.string)
      let value: JSON = edge.holdsMany || targets.count > 1 ? .array(targets) : targets[0]
      added.append((edge.key, value, nil))
    }
    if id, let id = content.id { added.append(("marfa_id", .string(id.text), id.text.bytes)) }
    if version, let version = content.version { added.append(("marfa_version", .int(version), nil)) }
  }
}

import MarfaBase

/// Reads the members of a folder's settings, naming the one that is refused.
struct SettingsReader {
  typealias Refusal = FolderSettings.Refusal
  let checks: FolderSettings.Checks

  func text(_ value: JSON, _ member: Text, _ bounds: ClosedRange<Int>) throws(Refusal) -> Text {
    guard let text = value.text else { throw Refusal(member: member, reason: "it is not text") }
    guard bounds.contains(text.utf16Count) else {
      throw Refusal(
        member: member,
        reason: "it has \(text.utf16Count) characters; \(bounds.lowerBound) to \(bounds.upperBound) can be")
    }
    return text
  }

  private func list(_ value: JSON, _ member: Text, atMost limit: Int) throws(Refusal) -> [JSON] {
    guard let values = value.array else { throw Refusal(member: member, reason: "it is no list") }
    guard values.count <= limit else {
      throw Refusal(member: member, reason: "it holds \(values.count) entries; at most \(limit) can be")
    }
    return values
  }

  private func object(_ value: JSON, _ member: Text) throws(Refusal) -> JSONObject {
    guard let object = value.object else { throw Refusal(member: member, reason: "it is no map") }
    return object
  }

  private func id(_ value: JSON, _ member: Text) throws(Refusal) -> EntityID {
    guard let id = value.text.flatMap(EntityID.init) else {
      throw Refusal(member: member, reason: "\(value.compact) is no item's id")
    }
    return id
  }

  private func tier(_ value: JSON, _ member: Text) throws(Refusal) -> Text {
    guard let tier = value.text, tier == "feed" || tier == "library" else {
      throw Refusal(member: member, reason: "\(value.compact) is neither `feed` nor `library`")
    }
    return tier
  }

  func search(_ value: JSON) throws(Refusal) -> FolderSettings.Search {
    var search = FolderSettings.Search()
    for (key, value) in try object(value, "search").members {
      let member = Text("search.\(key)")
      switch key.string {
      case "types":
        search.types = []
        for type in try list(value, member, atMost: 100) { search.types.append(try text(type, member, 1...256)) }
      case "tier": search.tier = try tier(value, member)
      case "state":
        let states = try list(value, member, atMost: 100)
        guard !states.isEmpty else {
          throw Refusal(member: member, reason: "it names no state; leave it out to hold both")
        }
        search.states = []
        for state in states {
          switch state.text?.string {
          case "active": search.states.append(.active)
          case "archived": search.states.append(.archived)
          default:
            throw Refusal(
              member: member, reason: "\(state.compact) is no state a folder holds; `active` and `archived` are")
          }
        }
      case "filter":
        let filter = try text(value, member, 1...100_000)
        if let problem = checks.filter(filter) { throw Refusal(member: member, reason: problem) }
        search.filter = filter
      case "beneath": search.beneath = try id(value, member)
      default: throw Refusal(member: member, reason: "it is no condition a folder follows")
      }
    }
    return search
  }

  func defaults(_ value: JSON) throws(Refusal) -> FolderSettings.Defaults {
    var defaults = FolderSettings.Defaults()
    for (key, value) in try object(value, "defaults").members {
      let member = Text("defaults.\(key)")
      switch key.string {
      case "type": defaults.type = try text(value, member, 1...256)
      case "tier": defaults.tier = try tier(value, member)
      case "properties":
        defaults.properties = try object(value, member)
        if defaults.properties.keys.contains(where: \.isEmpty) {
          throw Refusal(member: member, reason: "a property's name is empty")
        }
      case "tags":
        for tag in try list(value, member, atMost: 100) {
          guard let text = tag.text else { throw Refusal(member: member, reason: "\(tag.compact) is not text") }
          guard !isBlank(text), text.utf16Count <= 128 else {
            throw Refusal(
              member: member, reason: "\(tag.compact) is no tag: 1 to 128 characters, not white space alone")
          }
          defaults.tags.append(text)
        }
      case "edges":
        let edges = try object(value, member)
        guard edges.count <= 100 else {
          throw Refusal(member: member, reason: "it names \(edges.count) edge types; at most 100 can be")
        }
        for (type, items) in edges.members {
          let place = Text("defaults.edges.\(type)")
          var ids: [EntityID] = []
          for item in try list(items, place, atMost: 100) { ids.append(try id(item, place)) }
          defaults.edges.append(.init(type: type, items: ids))
        }
      default: throw Refusal(member: member, reason: "it is no default a folder takes")
      }
    }
    return defaults
  }

  /// Whether trimming leaves nothing; U+FEFF trims too.
  private func isBlank(_ text: Text) -> Bool {
    text.string.unicodeScalars.allSatisfy { $0.properties.isWhitespace || $0 == "\u{FEFF}" }
  }

  func patterns(_ value: JSON, _ member: Text) throws(Refusal) -> [Text] {
    var patterns: [Text] = []
    for line in try list(value, member, atMost: 1000) {
      let pattern = try text(line, member, 1...1024)
      if let problem = checks.pattern(pattern) { throw Refusal(member: member, reason: problem) }
      patterns.append(pattern)
    }
    return patterns
  }

  func firstPlacement(_ value: JSON) throws(Refusal) -> [Text: PathBytes] {
    var places: [Text: PathBytes] = [:]
    for (type, directory) in try object(value, "first_placement").members {
      let text = try text(directory, Text("first_placement.\(type)"), 1...1024)
      places[type] = PathBytes(text)
    }
    return places
  }

  func removalThreshold(_ value: JSON) throws(Refusal) -> FolderSettings.RemovalThreshold {
    var threshold = FolderSettings.RemovalThreshold()
    for (key, value) in try object(value, "removal_threshold").members {
      let member = Text("removal_threshold.\(key)")
      switch key.string {
      case "files":
        guard let files = value.int, files >= 0 else {
          throw Refusal(member: member, reason: "\(value.compact) is no whole number of at least 0")
        }
        threshold.files = files
      case "fraction":
        guard let fraction = value.number?.double, fraction >= 0, fraction <= 1 else {
          throw Refusal(member: member, reason: "\(value.compact) is no number from 0 to 1")
        }
        threshold.fraction = fraction
      default: throw Refusal(member: member, reason: "it is no bound of a removal; `files` and `fraction` are")
      }
    }
    return threshold
  }

  /// Defaults whose type or tier the search does not hold would make files the folder does not follow (F3.11).
  func judge(_ defaults: FolderSettings.Defaults, _ search: FolderSettings.Search) throws(Refusal) {
    if let type = defaults.type, !search.types.isEmpty, !checks.holds(search.types, type) {
      throw Refusal(member: "defaults.type", reason: "the search does not hold `\(type)`")
    }
    if let tier = defaults.tier, tier != search.tier {
      throw Refusal(member: "defaults.tier", reason: "the search holds the `\(search.tier)` tier, not `\(tier)`")
    }
  }
}

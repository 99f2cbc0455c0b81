import MarfaBase

/// Titles asked of the instance: the items a typed name names (D95.4, F-W10).
extension WorkingCopy {
  /// The items out of the bin that a name names by title, asked of the instance under the copy's view (D95.4): each kept
  /// whose title, by its own type's title field, equals the name by case-folded NFC. One names the item, none is missing,
  /// more is ambiguous.
  package func lookUp(name: Text) throws(MarfaError) -> [Item] {
    let certificate = try requireCertificate()
    let catalog = try catalog()
    let forms = Self.forms(of: name)
    let key = NameKey(name)
    var found: [EntityID: Item] = [:]
    // Each title property is read to its fifth page (F11.12), so that the answer does not hang on their order.
    var tooMany: MarfaError?
    for field in catalog.titleFields {
      for form in forms {
        let query: [(String, Text)] = [
          ("tier", "all"), ("state", "any"), ("include", "metadata"), ("limit", "200"),
          ("filter", ServerConnection.filter(field, contains: form)),
        ]
        var pages = 0
        do throws(MarfaError) {
          try walk("/items", query: query, view: certificate.view) { (rows, next) throws(MarfaError) in
            pages += 1
            for json in rows {
              let item = try row(json)
              guard !item.isTrashed, let title = catalog.title(of: item), NameKey(title) == key else { continue }
              found[item.id] = item
            }
            if pages == 5, next != nil {
              throw MarfaError(
                .invalid, "more than 5 pages of items may be named \(name); give the item's id instead",
                reason: "too_many_pages")
            }
          }
        } catch {
          guard error.reason == "too_many_pages" else { throw error }
          tooMany = error
        }
      }
    }
    if let tooMany { throw tooMany }
    return found.values.sorted { $0.id < $1.id }
  }

  /// The items out of the bin that each of many names names by title, for fewer requests than a name costs alone: one
  /// listing of all that has a title where that is short, else several names a question (P6.4).
  ///
  /// What it finds is what `lookUp(name:)` finds for each. A name left out of the answer was not asked: it is long, or too
  /// much is named like it, and has to be asked alone.
  package func lookUp(names: [Text]) throws(MarfaError) -> [Text: [EntityID]] {
    var wanted = TitleMatches(names.filter { $0.bytes.count <= Self.longestNameOfMany })
    let fields = try catalog().titleFields
    guard !fields.isEmpty, fields.count <= Self.conditionLimit else { return [:] }
    // A page of the listing answers for as many names as it takes questions to ask.
    let pages = max(2, wanted.count / 20)
    let titled = fields.map { Text(bytes: Array("properties.".utf8) + $0.bytes + Array(" exists".utf8)) }
    if try match(&wanted, filter: joined(titled), pages: pages) { return wanted.answers }
    wanted = TitleMatches(wanted.names)
    var answers: [Text: [EntityID]] = [:]
    let each = max(1, Self.conditionLimit / fields.count)
    for start in stride(from: 0, to: wanted.count, by: each) {
      var asked = TitleMatches(Array(wanted.names[start..<min(wanted.count, start + each)]))
      let conditions = asked.names.flatMap { name in
        fields.map { ServerConnection.filter($0, contains: Self.forms(of: name)[0]) }
      }
      // A name written in two Unicode forms is asked alone, and so are names that are part of too many titles.
      guard asked.names.allSatisfy({ Self.forms(of: $0).count == 1 }),
        try match(&asked, filter: joined(conditions), pages: 5)
      else { continue }
      answers.merge(asked.answers) { first, _ in first }
    }
    return answers
  }

  /// Conditions of one expression (SF11.1), and the bytes of a name that fits beside others.
  private static let conditionLimit = 10
  private static let longestNameOfMany = 100

  private func joined(_ conditions: [Text]) -> Text {
    Text(bytes: Array(conditions.map(\.bytes).joined(separator: Array(" OR ".utf8))))
  }

  /// Reads a listing of items that may be named so. Answers whether it ended within so many pages.
  private func match(_ wanted: inout TitleMatches, filter: Text, pages limit: Int) throws(MarfaError) -> Bool {
    let certificate = try requireCertificate()
    let catalog = try catalog()
    let query: [(String, Text)] = [
      ("tier", "all"), ("state", "any"), ("include", "metadata"), ("limit", "200"), ("filter", filter),
    ]
    var matches = wanted
    var pages = 0
    do throws(MarfaError) {
      try walk("/items", query: query, view: certificate.view) { (rows, next) throws(MarfaError) in
        pages += 1
        for json in rows {
          let item = try row(json)
          if !item.isTrashed, let title = catalog.title(of: item) { matches.add(item.id, title) }
        }
        if pages == limit, next != nil {
          throw MarfaError(.invalid, "more than \(limit) pages of items may be meant", reason: "too_many_pages")
        }
      }
    } catch {
      guard error.reason == "too_many_pages" else { throw error }
      return false
    }
    wanted = matches
    return true
  }

  /// The Unicode forms a name is asked in (F27.7).
  fileprivate static func forms(of name: Text) -> [Text] {
    let composed = nfc(name.bytes).map { Text(bytes: $0) } ?? name
    let decomposed = nfd(name.bytes).map { Text(bytes: $0) } ?? name
    return composed == decomposed ? [composed] : [composed, decomposed]
  }
}

/// Names, and the items found for each.
private struct TitleMatches {
  private(set) var names: [Text] = []
  private var byKey: [NameKey: [Text]] = [:]
  private var found: [Text: Set<EntityID>] = [:]

  init(_ names: [Text]) {
    for name in names where found[name] == nil {
      found[name] = []
      self.names.append(name)
      byKey[NameKey(name), default: []].append(name)
    }
  }

  var count: Int { names.count }
  var answers: [Text: [EntityID]] { found.mapValues { $0.sorted() } }

  /// Takes an item for the names its title equals. The instance folds case over ASCII alone, so what it would not find for
  /// a name asked alone is not matched here (D95.4).
  mutating func add(_ item: EntityID, _ title: Text) {
    guard let names = byKey[NameKey(title)] else { return }
    let folded = Self.folded(title)
    for name in names where WorkingCopy.forms(of: name).contains(where: { Self.folded($0) == folded }) {
      found[name, default: []].insert(item)
    }
  }

  private static func folded(_ text: Text) -> [UInt8] {
    text.bytes.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
  }
}

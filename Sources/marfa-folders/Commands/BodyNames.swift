import FolderSync
import MarfaBase
import MarfaCopy

/// The links and embeds of an item's body and what each names, by the copy alone (D97.1, C26.8).
struct BodyNames {
  /// What a name names. One the copy cannot tell is asked of the server by the writer of the body, and is `pending` here.
  enum Target {
    /// Exactly one item.
    case item(EntityID)
    /// None that the copy holds.
    case pending
    /// More than one.
    case ambiguous
  }

  /// One link or embed.
  struct Name {
    /// As typed, brackets included.
    var text: Text
    /// What it is looked up by.
    var name: Text
    /// What it names.
    var target: Target

    /// Its members.
    var json: JSON {
      let target: JSON =
        switch target {
        case .item(let id): ["state": "item", "id": .string(id.text)]
        case .pending: ["state": "pending"]
        case .ambiguous: ["state": "ambiguous"]
        }
      return ["text": .string(text), "name": .string(name), "target": target]
    }
  }

  /// In body order.
  private(set) var links: [Name] = []
  /// In body order.
  private(set) var embeds: [Name] = []

  /// Reads the body of an item.
  /// - Throws: `not_held`.
  init(_ copy: WorkingCopy, item id: EntityID) throws(MarfaError) {
    guard let item = try copy.item(id) else { throw MarfaError(.notHeld, "the copy does not hold the item \(id)") }
    let catalog = try copy.catalog()
    let body = catalog.body(of: item) ?? ""
    let references = BodyReferences(body: body, kind: .markdown)
    let resolver = LinkResolver(
      files: FileNames(), titled: { try copy.itemsTitled(key: $0) },
      holds: { try copy.item($0).map { !$0.isTrashed } ?? false })
    func target(_ link: LinkText) throws(MarfaError) -> Target? {
      do { return BodyNames.target(try resolver.resolve(link)) } catch { throw MarfaError(any: error) }
    }
    for link in references.links {
      // D88.R3: a heading alone names nothing.
      guard let target = try target(link.text) else { continue }
      links.append(Name(text: link.text.typed, name: link.text.name, target: target))
    }
    for embed in references.embeds {
      guard case .wiki(let text) = embed.form, let target = try target(text) else { continue }
      embeds.append(Name(text: embed.typed, name: text.name, target: target))
    }
  }

  private static func target(_ found: LinkResolution) -> Target? {
    switch found {
    case .one(let id): .item(id)
    case .ambiguous: .ambiguous
    case .none, .unheldID: .pending
    case .headingOnly: nil
    }
  }
}

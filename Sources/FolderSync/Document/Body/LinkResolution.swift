import MarfaBase
import MarfaCopy

/// What a typed name names (F11.11 to F11.16, F12.3, F12.4).
package enum LinkResolution: Hashable, Sendable {
  /// Exactly one item.
  case one(EntityID)
  /// An id that nobody here holds: the server is asked for it by id (F11.11).
  case unheldID(EntityID)
  /// No item.
  case none
  /// More than one item, in ascending order.
  case ambiguous([EntityID])
  /// `[[#heading]]`: this document itself, no edge (F12.5).
  case headingOnly
}

/// Finds the items typed names answer to, over tables the caller holds.
package struct LinkResolver {
  private let titled: (NameKey) throws -> [EntityID]
  private let holds: (EntityID) throws -> Bool
  private let files: FileNames

  /// A resolver. What reading the tables throws, `resolve` throws: a name is never read as nobody's because a table could
  /// not be read.
  /// - Parameters:
  ///   - files: the files here that are items.
  ///   - titled: the items whose title has this key, in any state but the bin, the server's answers among them.
  ///   - holds: whether the copy holds an item that is not in the bin.
  package init(
    files: FileNames, titled: @escaping (NameKey) throws -> [EntityID], holds: @escaping (EntityID) throws -> Bool
  ) {
    self.files = files
    self.titled = titled
    self.holds = holds
  }

  /// What a link names. Each reading of it is asked; items of two readings make it ambiguous (F12.4).
  package func resolve(_ link: LinkText) throws -> LinkResolution {
    guard !link.name.isEmpty || !link.readings.isEmpty else { return .none }
    if link.name.isEmpty, link.whole.bytes.first(where: { $0 != 0x20 && $0 != 0x09 }) == UInt8(ascii: "#"),
      try matches(link.readings[0]).isEmpty
    {
      return .headingOnly
    }
    var found: Set<EntityID> = []
    var unheld: EntityID?
    for reading in link.readings {
      if reading.bytes.count == 36, let id = EntityID(reading) {
        if try holds(id) { found.insert(id) } else { unheld = id }
      }
      found.formUnion(try matches(reading))
    }
    if found.count > 1 { return .ambiguous(found.sorted()) }
    if let only = found.first { return .one(only) }
    return unheld.map(LinkResolution.unheldID) ?? .none
  }

  private func matches(_ name: Text) throws -> Set<EntityID> {
    Set(try titled(NameKey(name))).union(files.items(named: name))
  }
}

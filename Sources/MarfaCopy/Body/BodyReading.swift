import MarfaBase

/// What a link or an embed of a body names, as the copy can tell (D97.1).
public enum BodyTarget: Hashable, Sendable {
  /// This item.
  case item(EntityID)
  /// Not asked yet.
  case pending
  /// No item.
  case missing
  /// More than one.
  case ambiguous
  /// Its lookup or its edge was refused, and why.
  case refused(String)
}

/// A link or an embed of a body.
public struct BodyName: Hashable, Sendable {
  /// As typed, brackets included.
  public var text: Text
  /// What it names, before `|` and `#`.
  public var name: Text
  /// The item, or why there is none.
  public var target: BodyTarget
}

/// The links and embeds of a body, in its order.
public struct BodyLinks: Hashable, Sendable {
  /// `[[links]]`.
  public var links: [BodyName] = []
  /// Embeds of files.
  public var embeds: [BodyName] = []
}

/// What a target could name, from the copy alone (D212.2).
public struct LinkCandidates: Hashable, Sendable {
  /// How far it is told.
  public enum State: Hashable, Sendable {
    /// One item.
    case bound(EntityID)
    /// More than one.
    case ambiguous
    /// None held.
    case unresolved
  }

  /// As asked.
  public var target: Text
  /// How far it is told.
  public var state: State
  /// The items held that it could name, never one in the bin, by id.
  public var candidates: [EntityID]
}

extension BodyEdges {
  /// The links and embeds of an item's body, from the copy alone.
  /// - Throws: `not_held`.
  package func links(in item: EntityID) throws(MarfaError) -> BodyLinks {
    guard let row = try copy.item(item) else { throw MarfaError(.notHeld, "the copy holds no item \(item)") }
    let names = try BodyNames(copy)
    var links = BodyLinks()
    for reference in BodyReference.all(in: try copy.catalog().body(of: row)) {
      guard let target = try reading(reference, in: item, names) else { continue }
      let name = BodyName(text: reference.text, name: reference.name, target: target)
      if reference.embed == nil { links.links.append(name) } else { links.embeds.append(name) }
    }
    return links
  }

  private func reading(
    _ reference: BodyReference, in item: EntityID, _ names: BodyNames
  ) throws(MarfaError) -> BodyTarget? {
    if let record = try record(of: reference.text, in: item) {
      if let write = record.write, let entry = try queue.table.entry(write), entry.verdict == .refused {
        return .refused(entry.reason?.string ?? "refused")
      }
      switch record.state {
      case .named: return record.target.map { .item($0) } ?? .pending
      case .missing: return .missing
      case .ambiguous: return .ambiguous
      case .refused: return .refused(record.reason?.string ?? "refused")
      case .pending: return .pending
      }
    }
    if reference.id == item { return .item(item) }
    switch try names.nameByEdges(reference, in: item) {
    case .item(let target): return .item(target)
    case .ambiguous: return .ambiguous
    case .itself, .missing, .text, .unknown, nil: break
    }
    // An embed of no file is text (D88.R4).
    if reference.embed != nil, try names.name(reference, in: item, asks: false) == .text { return nil }
    return .pending
  }

  /// What each target could name, read as a link of `item`'s body where one is given.
  package func candidates(of targets: [Text], in item: EntityID? = nil) throws(MarfaError) -> [LinkCandidates] {
    let names = try BodyNames(copy)
    return try targets.map { target throws(MarfaError) in
      let link = LinkText(whole: target)
      let reference = BodyReference(text: link.typed, link: link, embed: nil)
      var found: Set<EntityID> = []
      if let id = reference.id {
        if let row = try copy.item(id), !row.isTrashed { found.insert(id) }
      } else {
        for reading in reference.readings { found.formUnion(try names.held(reading)) }
      }
      var state: LinkCandidates.State = found.isEmpty ? .unresolved : .ambiguous
      if found.count == 1, let only = found.first { state = .bound(only) }
      if let item, case .item(let bound)? = try names.nameByEdges(reference, in: item) { state = .bound(bound) }
      return LinkCandidates(target: target, state: state, candidates: found.sorted())
    }
  }
}

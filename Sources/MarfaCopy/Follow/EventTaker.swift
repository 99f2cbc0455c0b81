import MarfaBase

/// Takes the events of a copy stream into the copy: which one wins, which rows come and go (device chapter 6, EV21).
///
/// Events are taken in batches of one transaction, row change and cursor together (D12.1); what an event needs of the
/// server (a catalog, a row entering the slice) is asked before its transaction begins.
final class EventTaker {
  /// What became of an event.
  private enum Taken { case applied, skipped }

  /// What an event asks of the server before it can be taken.
  private enum Need: Hashable {
    case catalog(Text)
    case row(EntityID)
  }

  let copy: WorkingCopy
  let slice: Slice
  let view: Text
  let generation: Int
  /// Whether an event the catalog cannot answer for ends the stream so that it is opened again (D40.10) instead of the
  /// catalogs being read at once (D15.2).
  var reopensForCatalog = false
  /// Set where such an event was met.
  private(set) var wantsReopen = false
  /// Types and (type, property) pairs the catalogs were read for (D15.4).
  var asked: Set<Text>
  /// Why an event could not be taken; those before it were (D40.20, D40.23).
  private(set) var failure: MarfaError?
  private(set) var applied = 0
  private(set) var skipped = 0
  private(set) var cursor: Text
  private(set) var greatest: Int64
  /// Where the stream was opened.
  private let opened: Int64

  private var read: [EntityID: Certified] = [:]
  private var edgesRead: [EntityID: [Edge]] = [:]

  init(
    copy: WorkingCopy, slice: Slice, certificate: Certificate, generation: Int, asked: Set<Text> = []
  ) {
    self.copy = copy
    self.slice = slice
    view = certificate.view
    cursor = certificate.cursor
    opened = Certificate.position(certificate.cursor) ?? 0
    greatest = opened
    self.generation = generation
    self.asked = asked
  }

  /// An event with what was read of it.
  private struct Frame {
    let name: Text
    let id: Text
    /// The row it makes, where it is one of the many: nothing else of it is read.
    let row: ServerRow?
    /// Its data otherwise.
    let read: JSON?
    let event: ServerEvent

    func data() throws(MarfaError) -> JSON {
      if let read { return read }
      return try ServerConnection.data(event)
    }
  }

  /// The events that can be read, in order; `failure` says why one could not be, and what follows it is left.
  private func frames(of events: [ServerEvent]) throws(MarfaError) -> (frames: [Frame], isUnproven: Bool) {
    let catalog = try copy.catalog()
    var frames: [Frame] = []
    frames.reserveCapacity(events.count)
    for event in events {
      guard let id = event.id else { continue }
      guard Certificate.position(id) != nil else {
        failure = MarfaError(.decoding, "an event of the stream has the id \(id), which is no position")
        break
      }
      if event.name == "item.created", let row = ServerRow(event.data, in: catalog), isPlain(row, catalog) {
        frames.append(Frame(name: event.name, id: id, row: row, read: nil, event: event))
        continue
      }
      do throws(MarfaError) {
        let data = try ServerConnection.data(event)
        // It would end the copy amid a transaction, which would take the end back (D52.4).
        if EventTaker.carriesRow(event.name), data["listed"]?.bool == nil { return (frames, true) }
        frames.append(Frame(name: event.name, id: id, row: nil, read: data, event: event))
      } catch {
        failure = error
        break
      }
    }
    return (frames, false)
  }

  /// Whether a row made is one that needs nothing of the server and belongs to the slice.
  private func isPlain(_ row: ServerRow, _ catalog: Catalog) -> Bool {
    row.isListed && !row.hasImage && catalog.type(row.type) != nil
      && slice.takes(type: row.type, tier: row.tier, in: catalog)
  }

  /// Takes log events in order. Ends early, `wantsReopen` set, at one the catalog cannot answer for. Returns those that
  /// changed the copy (D40.2), their transactions ended.
  /// - Parameter stops: whether a stop ends it between transactions; events that came before one are taken all the same.
  func take(_ events: [ServerEvent], stops: Bool = true) throws(MarfaError) -> [CopyChange] {
    let (frames, isUnproven) = try frames(of: events)
    var place = 0
    var told: [CopyChange] = []
    // Rows are read under the catalog there was; after another came they are read again.
    var areRowsRead = true
    func need(_ frame: Frame) throws(MarfaError) -> [Need] {
      areRowsRead && frame.row != nil ? [] : try needs(frame.name, try frame.data())
    }
    while place < frames.count {
      if stops { try copy.checkStop() }
      for need in try need(frames[place]) {
        if case .catalog(let key) = need {
          asked.insert(key)
          if reopensForCatalog {
            wantsReopen = true
            return told
          }
          try copy.refreshCatalogs(view: view)
          areRowsRead = false
        } else if case .row(let id) = need {
          try readEntering(id)
        }
      }
      var changes: [CopyChange] = []
      var count = 0
      if copy.context.sabotage.breaks(.cursorBeforeEvents), let last = frames.last {
        try copy.store.transaction { try copy.store.set(.eventCursor, last.id) }
      }
      try copy.store.bulk {
        try copy.requireGeneration(generation)
        while place < frames.count, count < 1024 {
          let next = frames[place]
          if count > 0, try !need(next).isEmpty { break }
          if let change = try apply(next, areRowsRead: areRowsRead) {
            applied += 1
            changes.append(change)
          } else {
            skipped += 1
          }
          cursor = next.id
          greatest = max(greatest, Certificate.position(next.id) ?? 0)
          place += 1
          count += 1
        }
        try copy.store.set(.eventCursor, cursor)
      }
      read = [:]
      edgesRead = [:]
      told += changes
    }
    if isUnproven { failure = try copy.invalidProof("a row does not say whether it is listed") }
    return told
  }

  /// Whether an event tells a whole row.
  private static func carriesRow(_ name: Text) -> Bool {
    [
      "item.created", "item.updated", "item.state_changed", "item.deleted", "item.restored", "metadata.changed",
    ].contains(name)
  }

  /// Moves the cursor to a live marker's position (D17.5).
  func take(live marker: Marker) throws(MarfaError) {
    if marker.position < opened {
      throw try copy.expire(
        "head_past_log",
        "the server's log ends at \(marker.cursor), behind \(opened) this copy reached: it was set back")
    }
    guard marker.position >= greatest else {
      throw try copy.invalidProof("the live marker stands at \(marker.cursor), behind the last event \(greatest)")
    }
    try copy.store.transaction {
      try copy.requireGeneration(generation)
      cursor = marker.cursor
      greatest = marker.position
      try copy.store.set(.eventCursor, cursor)
      try copy.store.set(.lastSynced, copy.context.clock.now)
    }
  }

  private func change(_ name: Text, _ data: JSON, _ id: Text) -> CopyChange {
    CopyChange(
      event: name, itemID: data["item"]?["id"]?.text.flatMap { EntityID($0) },
      edgeID: data["edge"]?["id"]?.text.flatMap { EntityID($0) }, cursor: id)
  }

  // MARK: - What an event needs first

  private func needs(_ name: Text, _ data: JSON) throws(MarfaError) -> [Need] {
    guard let item = data["item"]?.object, name != "item.purged", let type = item["type"]?.text,
      let id = item["id"]?.text.flatMap({ EntityID($0) })
    else { return [] }
    var out: [Need] = []
    let catalog = try copy.catalog()
    if let declared = catalog.type(type) {
      if slice.takes(type: type, tier: item["tier"]?.text, in: catalog) {
        for (property, value) in item["properties"]?.object?.members ?? [] {
          guard let text = value.text, text.bytes.starts(with: "data:image/".utf8),
            declared.field(property)?.kind != "thumbnail"
          else { continue }
          let key = Text(bytes: type.bytes + [0] + property.bytes)
          if !asked.contains(key) { out.append(.catalog(key)) }
        }
      }
    } else if !asked.contains(type) {
      out.append(.catalog(type))
    }
    guard name != "item.created", read[id] == nil, data["listed"]?.bool == true else { return out }
    // A row held since it lay in the bin may be held without its edges.
    let isRestored = name == "item.restored"
    if slice.takes(type: type, tier: item["tier"]?.text, in: catalog) {
      var isWanted = isRestored
      if !isWanted { isWanted = try copy.serverItem(id) == nil }
      if isWanted { out.append(.row(id)) }
    } else if isRestored, try copy.isPinned(id) {
      out.append(.row(id))
    }
    return out
  }

  /// A row coming into the slice by another event than its creation is read first, with all its edges: the stream does
  /// not repeat edges that existed (D14.12).
  private func readEntering(_ id: EntityID) throws(MarfaError) {
    let answer = try copy.certified("/items/\(id)", query: [("include", "edges,metadata")], view: view)
    read[id] = answer
    if case .found(let json) = answer { edgesRead[id] = try copy.edges(of: json, item: id, view: view).edges }
  }

  // MARK: - Applying

  /// Takes an event; the change it was, nil where it was skipped.
  private func apply(_ frame: Frame, areRowsRead: Bool) throws(MarfaError) -> CopyChange? {
    // Most events of a catch-up make rows the copy has not, or tell what this device wrote itself.
    if areRowsRead, let row = frame.row, read[row.id] == nil, try copy.store.takeOften(row) ?? false {
      return CopyChange(event: frame.name, itemID: row.id, edgeID: nil, cursor: frame.id)
    }
    let data = try frame.data()
    guard case .applied = try apply(frame.name, data) else { return nil }
    return change(frame.name, data, frame.id)
  }

  private func apply(_ name: Text, _ data: JSON) throws(MarfaError) -> Taken {
    if EventTaker.carriesRow(name) { return try applyItem(name, data) }
    switch name.string {
    case "item.purged": return try applyPurge(data)
    case "edge.created", "edge.updated": return try applyEdge(data)
    case "edge.deleted": return try applyEdgeDelete(data)
    default: return .skipped
    }
  }

  private func applyItem(_ name: Text, _ data: JSON) throws(MarfaError) -> Taken {
    let item = try copy.row(data)
    let catalog = try copy.catalog()
    var belongs = item.isListed && slice.takes(type: item.type, tier: item.tier, in: catalog)
    if belongs, name == "item.created", read[item.id] == nil, try copy.store.takeNew(server: item) { return .applied }
    let held = try copy.serverItem(item.id)
    if let held, item.isEarlier(than: held) { return .skipped }
    if !belongs { belongs = try copy.isPinned(item.id) }
    guard belongs else {
      guard held != nil else { return .skipped }
      try copy.letGo(item.id, slice: slice)
      return .applied
    }
    if case .found(let json)? = read[item.id] {
      try copy.store.take(server: try copy.row(json))
      for edge in edgesRead[item.id] ?? [] { try copy.store.take(server: edge) }
    }
    return try copy.store.take(server: item) ? .applied : .skipped
  }

  private func applyPurge(_ data: JSON) throws(MarfaError) -> Taken {
    guard let id = data["item"]?["id"]?.text.flatMap({ EntityID($0) }) else {
      throw MarfaError(.decoding, "a purge names no item")
    }
    return try copy.takePurge(id) ? .applied : .skipped
  }

  private func applyEdge(_ data: JSON) throws(MarfaError) -> Taken {
    guard let edge = data["edge"].flatMap({ Edge($0) }) else {
      throw MarfaError(.decoding, "an edge of the stream could not be read")
    }
    let held = try copy.serverEdge(edge.id)
    if let held, edge.isEarlier(than: held) { return .skipped }
    var belongs = slice.edgeTypes.contains(edge.type)
    if !belongs { belongs = try copy.item(edge.source) != nil }
    if !belongs { belongs = try copy.queue.hasWaiting(edge: edge.id) }
    guard belongs else {
      guard held != nil else { return .skipped }
      try copy.store.letGo(edge: edge.id)
      return .applied
    }
    return try copy.store.take(server: edge) ? .applied : .skipped
  }

  private func applyEdgeDelete(_ data: JSON) throws(MarfaError) -> Taken {
    guard let id = data["edge"]?["id"]?.text.flatMap({ EntityID($0) }) else {
      throw MarfaError(.decoding, "a deleted edge has no id")
    }
    let held = try copy.serverEdge(id)
    guard held != nil else { return .skipped }
    // EV21.3: it takes the edge away when the copy holds it, unless the copy holds a later one.
    if let held, let gone = data["edge"].flatMap({ Edge($0) }), gone.version < held.version { return .skipped }
    try copy.store.letGo(edge: id)
    return .applied
  }
}

extension WorkingCopy {
  /// Lets a row go with the edges it draws, but those of types held whole; edges held rows draw to it stay (D14.3).
  func letGo(_ id: EntityID, slice: Slice?) throws(MarfaError) {
    try store.letGo(item: id)
    guard try store.item(id) == nil else { return }
    for edge in try edges(from: id) where !(slice?.edgeTypes.contains(edge.type) ?? false) {
      try store.letGo(edge: edge.id)
    }
  }

  /// A purge takes the row, every edge at either end, and its pins (D14.4). Returns whether the copy held any of it.
  @discardableResult
  package func takePurge(_ id: EntityID) throws(MarfaError) -> Bool {
    let held = try serverItem(id) != nil
    let pinned = try isPinned(id)
    try store.transaction {
      for edge in try edges(from: id) + edges(to: id) { try store.letGo(edge: edge.id) }
      try store.letGo(item: id)
      if pinned {
        try database.run("DELETE FROM pin WHERE item = ?", id)
        try bumpPins()
      }
      if held || pinned { try database.run("INSERT OR IGNORE INTO purged (item) VALUES (?)", id) }
    }
    return held || pinned
  }

  func bumpPins() throws(MarfaError) { try store.set(.pinRevision, (try store.int(.pinRevision) ?? 0) + 1) }
}

import MarfaBase
import MarfaCopy

/// A file whose lines, links and embeds are to be resolved, once every file of the scan is known (F33).
struct EdgeWork {
  var file: Int
  var item: EntityID
  var document: Document?
  var isNew = false
  /// Whether its bytes are others than those last read, so that refused names are asked again (F11.18).
  var isChanged = true
}

extension ScanPass {
  func decideAllEdges() throws {
    let all = edgeWork.filter { !unmade.contains($0.item) }
    guard !all.isEmpty else { return }
    var names = FileNames()
    for file in files {
      // A file kept of an item in the bin answers to no name: an item there is matched by none (F11.19).
      if let item = file.item, !unmade.contains(item), !inBin.contains(item) { names.add(file.path, item: item) }
    }
    if mode.asksServer, all.count > 1 {
      var asked: [Text] = []
      var seen: Set<Text> = []
      for work in all {
        try folder.checkStop()
        var statement = EdgeStatement(pass: self, names: names, work: work)
        for name in try statement.namesToAsk() where seen.insert(name).inserted { asked.append(name) }
      }
      try lookups.ask(all: asked)
    }
    for work in all {
      try folder.checkStop()
      var statement = EdgeStatement(pass: self, names: names, work: work)
      try statement.read()
      try commitEdges(statement, work)
    }
  }

  private func commitEdges(_ statement: EdgeStatement, _ work: EdgeWork) throws {
    let path = files[work.file].path
    report.embeds += statement.embeds
    let body = statement.bodyReasons
    for reason in body { report.flagged.append(FlaggedFile(path, .edges, reason)) }
    let shown = try folder.store.binding(of: work.item)?.edges ?? []
    let held = try folder.copy.edges(from: work.item) + folder.copy.edges(to: work.item)
    let decision = decideEdges(
      statement.stated, shown: shown, held: held, item: work.item, line: work.document?.version.version)
    var reasons = statement.lineReasons + decision.reasons
    reasons = reasons.enumerated().filter { reasons.firstIndex(of: $1) == $0 }.map(\.element)
    if !reasons.isEmpty { report.flagged.append(FlaggedFile(path, .edges, reasons.joined(separator: "; "))) }
    let defaults = work.isNew ? defaultEdges(statement) : []
    try group { [self] in
      guard var binding = try folder.store.binding(of: work.item) else { return }
      binding.edges = decision.shown.map { edge in
        var edge = edge
        if edge.place == .embed {
          edge.embed = statement.embedded[edge.other] ?? shown.first { $0.edge == edge.edge }?.embed
        }
        return edge
      }
      binding.heldBack = decision.heldBack
      binding.edgesOwed = !statement.bodyReasons.isEmpty || !statement.embeds.isEmpty || statement.waits
      binding.dropRefusals(notStatedBy: statement.stated, isWhole: statement.isWhole)
      if !reasons.isEmpty {
        binding.hold = Hold(.edges, reasons.joined(separator: "; "))
      } else if binding.hold?.flag == .edges {
        binding.hold = nil
      }
      let body = try bodyWrite(of: work.item)
      var unseen: [ContentHash] = []
      for change in decision.changes {
        if !work.isChanged, let meaning = change.meaning(at: work.item) {
          // The server has it, and shows this copy none of it: asked again at each pass, it would be refused at each.
          if binding.unseenEdges.contains(meaning) {
            unseen.append(meaning)
            continue
          }
          // Refused, and the same bytes ask for it again: once is enough (F9.7, F11.30).
          if binding.refusals.contains(where: { $0.meaning == meaning }) {
            try leave(change, in: &binding)
            continue
          }
        }
        try apply(change, to: &binding, shown: shown, by: body)
      }
      binding.unseenEdges = unseen
      if try owedCopies().contains(work.item) { try folder.store.takeOwedEdges(of: work.item) }
      if !binding.edgesOwed { binding.lostEdges = [] }
      for place in binding.edges.indices where binding.edges[place].place == .embed && binding.edges[place].embed == nil
      {
        binding.edges[place].embed = statement.embedded[binding.edges[place].other]
      }
      for edge in defaults {
        do {
          try create(
            edge.type, source: edge.isSource ? work.item : edge.other, target: edge.isSource ? edge.other : work.item,
            item: work.item, detail: FolderWrite.defaultEdge)
        } catch let error as MarfaError where error.isLocalRefusal || error.code == .notFound || error.code == .notHeld
        {
          // Its own file is sent all the same, and nothing else waits for it (F3.7, C9.11).
          let reason = "default edge \(edge.type): \(error.refusalReason)"
          binding.refusedDefaults.append(reason)
          report.flagged.append(FlaggedFile(binding.path, .defaultEdgeRefused, reason))
        }
      }
      try folder.store.save(binding)
    }
  }

  /// The write by which a file's present body is on its way: what its links and embeds ask for goes once that landed, and
  /// not where another device's body won over it (D91.1, D94.1).
  private func bodyWrite(of item: EntityID) throws -> EntityID? {
    try folder.store.writes(of: item).last { mine in
      try mine.role == .edit && folder.copy.queue.write(mine.id)?.verdict == nil
    }?.id
  }

  /// - Parameters:
  ///   - shown: the edges the file showed before.
  ///   - body: the write its body waits in.
  private func apply(
    _ change: EdgeChange, to binding: inout Binding, shown: [ShownEdge], by body: EntityID?
  ) throws {
    let item = binding.item
    func waits(_ place: ShownEdge.Place?) -> EntityID? { place == .link || place == .embed ? body : nil }
    do {
      switch change {
      case .create(let type, let isSource, let other, let place):
        let lost = binding.lostEdges.firstIndex {
          $0.type == type && $0.isSource == isSource && $0.other == other
        }
        let properties = lost.map { binding.lostEdges.remove(at: $0).properties } ?? JSONObject()
        let id = try create(
          type, source: isSource ? item : other, target: isSource ? other : item, item: item, detail: nil,
          properties: properties, by: waits(place))
        binding.edges.append(ShownEdge(edge: id, type: type, other: other, place: place))
      case .move(let edge, let version, _, let isSource, let other, _):
        guard
          let queued = try folder.copy.queue.updateEdge(
            edge, version: version, source: isSource ? nil : other, target: isSource ? other : nil)
        else { return }
        try folder.store.link(FolderWrite(id: queued.id, item: item, role: .edge, detail: edge.text))
      case .delete(let edge):
        guard try folder.copy.edge(edge) != nil else { return }
        let body = waits(shown.first { $0.edge == edge }?.place)
        let queued = try folder.copy.queue.deleteEdge(edge, waitingOn: body.map { [$0] } ?? [])
        if let body { try folder.copy.bodies.note(queued.id, of: item, by: body) }
        try folder.store.link(FolderWrite(id: queued.id, item: item, role: .edge, detail: edge.text))
      }
    } catch let error as MarfaError where error.isLocalRefusal {
      try leave(change, in: &binding)
      binding.hold = Hold(.edges, error.refusalReason)
      report.flagged.append(FlaggedFile(binding.path, .edges, error.refusalReason))
    }
  }

  /// Of a move that is not made the edge stands where it was, and the record names it there (F11.30).
  private func leave(_ change: EdgeChange, in binding: inout Binding) throws {
    guard case .move(let edge, _, _, _, _, _) = change, let there = try folder.copy.edge(edge),
      let place = binding.edges.firstIndex(where: { $0.edge == edge })
    else { return }
    binding.edges[place].other = there.other(than: binding.item)
  }

  @discardableResult
  private func create(
    _ type: Text, source: EntityID, target: EntityID, item: EntityID, detail: Text?,
    properties: JSONObject = JSONObject(), by body: EntityID? = nil
  ) throws -> EntityID {
    let id = folder.context.ids.next()
    let queued = try folder.copy.queue.createEdge(
      EdgeDraft(id: id, source: source, target: target, type: type, properties: properties),
      waitingOn: body.map { [$0] } ?? [])
    if let body { try folder.copy.bodies.note(queued.id, of: item, by: body) }
    try folder.store.link(FolderWrite(id: queued.id, item: item, role: .edge, detail: detail ?? id.text))
    return id
  }

  /// The default edges of a new file, but for the types its own lines name (F3.7, F3.8).
  private func defaultEdges(_ statement: EdgeStatement) -> [(type: Text, isSource: Bool, other: EntityID)] {
    facts.settings.defaults.edges.flatMap { edges in
      statement.namedTypes.contains(edges.type)
        ? [] : edges.items.map { (type: edges.type, isSource: edges.type != "parent-of", other: $0) }
    }
  }
}

/// What one file states of edges, its names resolved.
private struct EdgeStatement {
  let pass: ScanPass
  let names: FileNames
  let work: EdgeWork
  var stated: [StatedEdges] = []
  var lineReasons: [String] = []
  var bodyReasons: [String] = []
  var embeds: [FlaggedFile] = []
  /// The embeds as typed, by the item each names.
  var embedded: [EntityID: Text] = [:]
  /// Types the file has a line for, under either name.
  var namedTypes: Set<Text> = []
  var waits = false
  private var refused: [Text: String] = [:]
  private var heldHere: [Edge] = []

  init(pass: ScanPass, names: FileNames, work: EdgeWork) {
    self.pass = pass
    self.names = names
    self.work = work
  }

  /// Whether every line, link and embed was told: what is not stated then is not in the file.
  var isWhole: Bool {
    work.document != nil && !waits && bodyReasons.isEmpty && embeds.isEmpty && lineReasons.isEmpty
      && stated.allSatisfy { $0.standsDown == nil && !$0.holdsRemovals }
  }

  private var folder: FolderEngine { pass.folder }
  private var facts: PassFacts { pass.facts }

  mutating func read() throws {
    guard let document = work.document else { return }
    if work.isChanged { try folder.store.forgetLookups(of: work.item) }
    refused = try folder.store.refusedLookups(of: work.item)
    heldHere = try folder.copy.edges(from: work.item) + folder.copy.edges(to: work.item)
    for line in document.edges { try read(line) }
    let references = pass.files[work.file].references
    if let type = facts.catalog.edgeTypes[PassFacts.references] { try readLinks(references.links, type) }
    if let type = facts.catalog.edgeTypes[PassFacts.attachedTo] { readEmbeds(references.embeds, type) }
  }

  /// The names the server is to be asked for, as `read` will ask them.
  mutating func namesToAsk() throws -> [Text] {
    guard let document = work.document else { return [] }
    refused = work.isChanged ? [:] : try folder.store.refusedLookups(of: work.item)
    heldHere = try folder.copy.edges(from: work.item) + folder.copy.edges(to: work.item)
    var links: [(link: LinkText, type: Text, isSource: Bool)] = []
    for line in document.edges {
      guard let (type, isReverse) = facts.catalog.edgeType(named: line.key), type.id != PassFacts.inFolder else {
        continue
      }
      for case .link(let link) in line.targets { links.append((link, type.id, !isReverse)) }
    }
    if let type = facts.catalog.edgeTypes[PassFacts.references] {
      links += pass.files[work.file].references.links.map { ($0.text, type.id, true) }
    }
    var names: [Text] = []
    for (link, type, isSource) in links where try settled(link, type: type, isSource: isSource) == nil {
      names += link.readings.filter { EntityID($0) == nil && refused[$0] == nil }
    }
    return names
  }

  private mutating func entry(_ type: EdgeType, isSource: Bool) -> Int {
    if let place = stated.firstIndex(where: { $0.type.id == type.id && $0.isSource == isSource }) { return place }
    stated.append(StatedEdges(type: type, isSource: isSource))
    return stated.count - 1
  }

  private mutating func add(_ item: EntityID, _ place: ShownEdge.Place, to entry: Int) {
    if !stated[entry].others.contains(where: { $0.item == item }) { stated[entry].others.append((item, place)) }
  }

  private mutating func standDown(_ entry: Int, _ reason: String) {
    if stated[entry].standsDown == nil { stated[entry].standsDown = reason } else { lineReasons.append(reason) }
  }

  // MARK: Lines

  private mutating func read(_ line: EdgeLine) throws {
    guard let (type, isReverse) = facts.catalog.edgeType(named: line.key) else { return }
    namedTypes.insert(type.id)
    guard type.id != PassFacts.inFolder else {
      lineReasons.append("an in-folder line is not read")
      return
    }
    let isSource = !isReverse
    let entry = entry(type, isSource: isSource)
    let isCanonical = type.writtenAt == .target ? isReverse : !isReverse
    for target in line.targets {
      switch target {
      case .invalid(let typed): standDown(entry, "\(line.key): \(typed) is no [[link]]")
      case .link(let link):
        switch try resolve(link, type: type.id, isSource: isSource) {
        case .item(let other):
          if other == work.item {
            standDown(entry, "\(line.key): \(link.typed) names the file's own item")
          } else if !isCanonical, try !isFileItem(other) {
            let key = isReverse ? type.id : type.reverseName ?? type.id
            standDown(entry, "\(line.key) is written in the other item's file, as \(key)")
          } else {
            add(other, .line, to: entry)
          }
        case .headingOnly: standDown(entry, "\(line.key): \(link.typed) matches no item")
        case .problem(let reason): standDown(entry, "\(line.key): \(reason)")
        }
      }
    }
  }

  private func isFileItem(_ id: EntityID) throws -> Bool {
    try folder.copy.item(id).map { facts.isFileItem($0.type) } ?? false
  }

  // MARK: Body

  private mutating func readLinks(_ links: [BodyLink], _ type: EdgeType) throws {
    let entry = entry(type, isSource: true)
    for link in links {
      switch try resolve(link.text, type: type.id, isSource: true) {
      case .headingOnly: break
      case .item(let other): if other != work.item { add(other, .link, to: entry) }
      case .problem(let reason):
        stated[entry].holdsRemovals = true
        bodyReasons.append("in the body: \(reason)")
      }
    }
  }

  private mutating func readEmbeds(_ found: [BodyEmbed], _ type: EdgeType) {
    let entry = entry(type, isSource: false)
    let path = pass.files[work.file].path
    for embed in found {
      func tell(_ reason: String) { embeds.append(FlaggedFile(path, .embed, "\(embed.typed) \(reason)")) }
      switch pass.embedFiles.resolve(embed, in: path) {
      case .notAFile: break
      case .leadsOut: tell("leads out of the folder")
      case .rawSpace:
        stated[entry].holdsRemovals = true
        tell("names no file: a space ends its path; write it between < and >")
      case .missing:
        stated[entry].holdsRemovals = true
        tell("names no file here")
      case .file(let file):
        if let item = pass.itemByPath[file], !pass.unmade.contains(item) {
          add(item, .embed, to: entry)
          if embedded[item] == nil { embedded[item] = embed.typed }
        } else {
          stated[entry].holdsRemovals = true
          tell("names a file that is not sent")
        }
      }
    }
  }

  // MARK: Names

  private enum Resolved {
    case item(EntityID)
    case headingOnly
    case problem(String)
  }

  /// What is told of a name without asking for it by title.
  private enum Settled {
    case item(EntityID)
    case headingOnly
    /// An id nothing here holds.
    case unheldID(EntityID)

    var resolved: Resolved {
      switch self {
      case .item(let item), .unheldID(let item): .item(item)
      case .headingOnly: .headingOnly
      }
    }
  }

  private var resolver: LinkResolver {
    let (folder, lookups) = (folder, pass.lookups)
    return LinkResolver(
      files: names,
      titled: { key in Set(try folder.copy.itemsTitled(key: key)).union(lookups.titled(key)).sorted() },
      holds: { id in try folder.copy.item(id).map { !$0.isTrashed } ?? false })
  }

  /// Nil where its titles have to be asked of the server.
  private func settled(_ link: LinkText, type: Text, isSource: Bool) throws -> Settled? {
    let local = try resolver.resolve(link)
    let candidates: Set<EntityID>
    switch local {
    case .headingOnly: return .headingOnly
    case .unheldID(let id): return .unheldID(id)
    case .one(let item): candidates = [item]
    case .ambiguous(let items): candidates = Set(items)
    case .none: candidates = []
    }
    let edged = Set(
      heldHere.filter { $0.type == type && ($0.source == work.item) == isSource }.map { $0.other(than: work.item) })
    let already = candidates.intersection(edged)
    if already.count == 1, let item = already.first { return .item(item) }
    if let id = EntityID(link.name), candidates.contains(id), candidates.count == 1 { return .item(id) }
    return nil
  }

  /// One typed name (F11.11 to F11.19). A name that already names its edge's item stays that item's, whoever else takes
  /// the name (F11.15); any other that is no id is asked of the server too.
  private mutating func resolve(_ link: LinkText, type: Text, isSource: Bool) throws -> Resolved {
    if let settled = try settled(link, type: type, isSource: isSource) {
      guard case .unheldID(let id) = settled else { return settled.resolved }
      switch try pass.lookups.item(id) {
      case .none:
        waits = true
        return .problem("\(link.typed) is asked of the server once it can be reached")
      case .some(.some(let item)): return .item(item)
      case .some(.none): return .problem("\(link.typed) matches no item")
      }
    }

    for name in link.readings where EntityID(name) == nil {
      if let reason = refused[name] { return .problem("\(link.typed): \(reason)") }
      switch try pass.lookups.ask(name) {
      case .asked: break
      case .waits:
        waits = true
        return .problem("\(link.typed) is asked of the server once it can be reached")
      case .refused(let reason):
        try folder.store.refuseLookup(of: work.item, name, reason)
        return .problem("\(link.typed): \(reason)")
      }
    }
    switch try resolver.resolve(link) {
    case .one(let item):
      if try folder.copy.item(item) == nil, case .some(.none) = try pass.lookups.item(item) {
        return .problem("\(link.typed) matches no item")
      }
      return .item(item)
    case .ambiguous: return .problem("\(link.typed) matches more than one item")
    case .unheldID, .none: return .problem("\(link.typed) matches no item")
    case .headingOnly: return .headingOnly
    }
  }
}

extension Binding {
  /// Lets go of refusals of edges the file names no more (F9.10). While something in it names nothing that can be told, it
  /// may be that very edge.
  fileprivate mutating func dropRefusals(notStatedBy stated: [StatedEdges], isWhole: Bool) {
    guard isWhole, refusals.contains(where: { $0.meaning != nil }) else { return }
    var said: Set<ContentHash> = []
    for entry in stated {
      for other in entry.others {
        said.insert(
          FileRefusal.edgeMeaning(
            entry.type.id, from: entry.isSource ? item : other.item, to: entry.isSource ? other.item : item))
      }
    }
    refusals.removeAll { refusal in
      guard case .edge = refusal.change, let meaning = refusal.meaning else { return false }
      return !said.contains(meaning)
    }
  }
}

extension ScanPass {
  /// Which item each file found is the file of.
  var itemByPath: [PathBytes: EntityID] {
    if let pathItems { return pathItems }
    let read = Dictionary(files.compactMap { file in file.item.map { (file.path, $0) } }) { first, _ in first }
    pathItems = read
    return read
  }
}

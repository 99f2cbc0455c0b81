import MarfaBase
import MarfaCopy

/// Where each item's file goes (F19).
extension PullPass {
  func rank() throws {
    var wishes: [PlacementWish] = []
    for item in held.union(bindings.keys).union(embedded.keys) {
      guard let head = try folder.copy.head(item) else { continue }
      let membership = try membership(of: item, head)
      guard membership == .held || membership == .leftOtherwise, membership == .held || bindings[item] != nil else {
        continue
      }
      if membership == .held, bindings[item] == nil, facts.isFileItem(head.type), !writes(item) { continue }
      // A deleted file that is not written back asks for no path: another item placed there is written (F21.5).
      if let binding = bindings[item], binding.missingSince != nil, let row = try folder.copy.item(item),
        !shows(binding, otherThan: row)
      {
        continue
      }
      guard var wish = try wish(of: head) else { continue }
      wish.isLeftOver = membership == .leftOtherwise && facts.isFileItem(head.type)
      wishes.append(wish)
    }
    places = rankPlacements(wishes) { [disk] path, own in disk.isTaken(path, but: own) }
    fileNames = try namesToBe()
  }

  /// Whether an item changed since its file was last agreed in what the file shows (F21.4).
  func shows(_ binding: Binding, otherThan row: Item) -> Bool {
    let now = Showed(row, bodyField: facts.bodyField(of: row.type), names: facts.names, form: binding.form)
    return binding.showed.map { $0 != now } ?? true
  }

  /// A file item of a type the search holds, or one embedded here.
  private func writes(_ item: EntityID) -> Bool { held.contains(item) || embedded[item] != nil }

  /// The path an item asks for; nil where this folder does not write it, which is told (F19.18, F19.19).
  private func wish(of row: ItemHead) throws -> PlacementWish? {
    let binding = bindings[row.id]
    let own = binding.flatMap { $0.missingSince == nil ? $0.path : nil }
    let edge = try folder.placement(of: row.id)
    let isServers = try edge.map { try folder.copy.serverEdge($0.id) != nil } ?? false
    let isFile = facts.isFileItem(row.type)
    if let own, found[own] == nil {
      switch walked.reach(of: own, seen: binding?.identity) {
      case .looked: break
      case .leftOut, .link, .unreadable, .unmounted:
        // A file the walk does not reach keeps its path; the pull tells of it where it comes to the file itself.
        return PlacementWish(
          item: row.id, path: own, placement: edge.flatMap { isServers ? ($0.createdAt, $0.id) : nil }, own: own)
      }
    }
    var path: PathBytes
    if let own, try folder.isHeldBack(row.id) {
      // The server refused the move: the file stays where the person put it (F19.22).
      path = own
    } else if let embed = embedded[row.id] {
      path = embed
    } else if let text = edge?.properties["path"]?.text {
      switch PlacementPath(text) {
      case .inside(let inside): path = inside
      case .outside(let reason):
        tell(own ?? PathBytes(text), .outside, reason, row.id)
        return nil
      }
    } else if let own {
      path = own
    } else {
      guard let whole = try folder.copy.item(row.id) else { return nil }
      path = try takenPath(of: whole) ?? madePath(of: whole)
    }
    // Where the disk cannot hold the name, the nearest it can (P7.8): the file's placement follows it.
    if folder.takesWindowsNames { path = DocumentNames.windows(path) }
    if let own, own.nameKey == path.nameKey { path = own } else { path = disk.spelled(path) }
    if own != path, PassFacts.refusal(ofPlacementAt: path) != nil {
      tell(own ?? path, .outside, "no placement holds such a path, so no file is written there", row.id)
      return nil
    }
    // In the empty place of a volume that is not there a file would be hidden once it is back (P2.1).
    if own != path, case .unmounted(_, let reason)? = walked.goneVolume(above: path) {
      tell(own ?? path, .unmounted, reason, row.id)
      return nil
    }
    if own == nil || own != path,
      isUnsuited(
        path, isFileItem: isFile, mimeType: isFile ? try folder.copy.item(row.id)?.properties["mime_type"]?.text : nil)
    {
      tell(own ?? path, .unsuited, "its placement would make the file another kind than the item", row.id)
      return nil
    }
    if !facts.lists.takes(path) {
      if own != path || found[path] == nil {
        let why =
          facts.lists.verdict(on: path) == .package
          ? "it lies in a package, which is one thing and no directory" : "the folder's lists do not take this path"
        tell(own ?? path, .outside, why, row.id)
        return nil
      }
    }
    if own != path || found[path] == nil, disk.leadsThroughLink(path) {
      tell(own ?? path, .outside, "a symbolic link on its way leads out of the folder", row.id)
      return nil
    }
    if walked.nestedFolders.contains(where: { $0.contains(path) }) {
      tell(own ?? path, .outside, "it lies in another folder's directory", row.id)
      return nil
    }
    return PlacementWish(
      item: row.id, path: path, placement: edge.flatMap { isServers ? ($0.createdAt, $0.id) : nil }, own: own)
  }

  /// The path of a text file that another folder of the machine let go: taken in, it stays the kind of file it is, since no
  /// frontmatter is ever written into one (F17.1, F44.2). Nil for every other item.
  private func takenPath(of row: Item) throws -> PathBytes? {
    guard !plansOnly, !facts.isFileItem(row.type), bindings[row.id] == nil, held.contains(row.id),
      try !others().isEmpty, let source = try others().letGo(row.id), source.binding.form == .text,
      let ending = source.binding.path.name.fileExtension
    else { return nil }
    let made = madePath(of: row)
    let name = Text(bytes: DocumentNames.stem(of: made.name).bytes + [UInt8(ascii: ".")] + ending.bytes)
    return made.parent.appending(DocumentNames.file(title: name))
  }

  /// The path made of an item's title, under its type's first placement (F19.6, F58).
  func madePath(of row: Item) -> PathBytes {
    let title = row.properties[facts.titleField(of: row.type)]?.text ?? ""
    let name = facts.isFileItem(row.type) ? DocumentNames.file(title: title) : DocumentNames.document(title: title)
    for type in facts.catalog.chain(row.type) {
      if let directory = facts.settings.firstPlacement[type],
        case .inside(let inside) = PlacementPath(directory.text)
      {
        return inside.appending(name)
      }
    }
    return name
  }

  // MARK: Placements the pull queues (F19.7, F19.15)

  func queuePlacements(_ order: [EntityID]) throws {
    let unplaced = try folder.copy.reading {
      try order.compactMap { item -> (EntityID, Place)? in
        guard let place = places[item], let binding = bindings[item], binding.missingSince == nil,
          binding.path == place.path, let row = try folder.copy.head(item),
          try membership(of: item, row) == .held || place.isBeside, try !folder.isPlaced(item, at: place.path)
        else { return nil }
        return (item, place)
      }
    }
    for (item, place) in unplaced {
      do {
        if try folder.commit({ try folder.place(item, at: place.path) }) { report.placed += 1 }
      } catch let error as MarfaError where error.isLocalRefusal {
        report.flagged.append(FlaggedFile(place.path, .refused, error.refusalReason, item: item))
      }
    }
  }
}

extension FolderEngine {
  /// Placements refused that are held back now (F19.22); one of an item the copy lost is forgotten (F86), and one whose
  /// item another placement moved since (F19.24).
  func standingRefusals() throws -> Int {
    var count = 0
    for refused in try store.refusedPlacements() {
      if try copy.head(refused.item) == nil || !isHeldBack(refused.item) {
        try store.forgetRefusedPlacement(of: refused.item)
      } else if let binding = try store.binding(of: refused.item), try isPlaced(refused.item, at: binding.path) {
        // Moved back to where its placement says: nothing waits. What was refused there is still not asked again (F19.23).
        continue
      } else {
        count += 1
      }
    }
    return count
  }

  /// Lets the pins of an item go where no file here is its file or writes an edge to it (F35.6, F11.24).
  func release(_ item: EntityID) throws {
    if try store.binding(of: item) == nil { try copy.unpin(item, owner: Pin.file) }
  }

  /// Takes back an end of a placement queued in this pass, whose file stays after all (F44.18).
  func withdrawEnd(of item: EntityID) throws {
    for write in try store.writes(of: item) where write.role == .end {
      if let queued = try copy.queue.write(write.id), queued.verdict == nil, let edge = queued.edgeID {
        _ = try copy.queue.giveWay(edge: edge)
        try store.unlink(write.id)
      }
    }
  }
}

import MarfaBase

/// The listings of a fill, read and stored.
extension WorkingCopy {
  /// Runs work whose commits a power cut may take, the last ones first: pages, which are read again then. No commit waits for
  /// the disk; the first one after it, which does, finds all of them there before it. Nothing is queued or sent within it.
  func unhurried(_ work: () throws(MarfaError) -> Void) throws(MarfaError) {
    // A log alone keeps the order of what a power cut leaves.
    let mode = try store.read { try database.one("PRAGMA journal_mode") { $0.string(0) } }
    guard mode == "wal", !database.isInTransaction else { return try work() }
    try store.read { try database.execute("PRAGMA synchronous = NORMAL") }
    // To set it fails for nothing but a transaction, and none is left open.
    defer { try? database.execute("PRAGMA synchronous = FULL") }
    try work()
  }

  /// Rows read and not stored yet, with how far the fill is with them.
  private struct Gathered {
    var rows: [PageItem] = []
    var edges: [Edge] = []
    var size = 0
    var progress: FillProgress

    /// As many as one transaction takes in within a twentieth of a second.
    var isFull: Bool { rows.count + edges.count >= 1000 || size >= 1 << 22 }
  }

  /// A row a fill takes in.
  private enum PageItem {
    case text(ServerRow)
    case item(Item)
  }

  /// Steps 8 to 10: each listing of the slice, then each edge type held whole, page by page, some pages in a transaction
  /// with the fill's progress. What was read when a fill fails or is stopped is kept (D202.5).
  func readListings(
    _ slice: Slice, view: Text, generation: Int, _ progress: inout FillProgress, _ report: inout HydrateReport
  ) throws(MarfaError) {
    let types = slice.typeList
    var gathered = Gathered(progress: progress)
    var pages = report.pages
    defer {
      progress = gathered.progress
      report.pages = pages
    }
    var stored = context.clock.monotonic
    func flush(always: Bool = true) throws(MarfaError) {
      // From a slow server each page is a while's work: what came within half a second is shown and kept.
      guard always || gathered.isFull || context.clock.monotonic - stored > 500_000_000 else { return }
      try storePages(gathered, generation)
      // Rows that could not be stored stay gathered: the progress is never stored without them.
      gathered = Gathered(progress: gathered.progress)
      stored = context.clock.monotonic
    }
    while gathered.progress.listing < types.count + slice.edgeTypes.count {
      let state = gathered.progress
      let isItems = state.listing < types.count
      func took(_ rows: Int, _ more: Int, next: Text?) throws(MarfaError) {
        pages += 1 + more
        gathered.progress.pages = pages
        if isItems { gathered.progress.listed += rows }
        gathered.progress.page = next
        if next == nil { gathered.progress.listing += 1 }
        try flush(always: false)
      }
      do throws(MarfaError) {
        if isItems {
          let query = Slice.listing(of: types[state.listing], tier: slice.tier)
          try walkItems(query: query, view: view, from: state.page) { (rows, next) throws(MarfaError) in
            try took(rows.count, try readRows(rows, view: view, into: &gathered), next: next)
          }
        } else {
          let query: [(String, Text)] = [("edge_type", slice.edgeTypes[state.listing - types.count]), ("limit", "200")]
          try walk("/edges", query: query, view: view, from: state.page, looksAhead: true) {
            (rows, next) throws(MarfaError) in
            gathered.edges += try pageEdges(rows)
            try took(rows.count, 0, next: next)
          }
        }
      } catch {
        // A copy that ended meanwhile takes nothing.
        try? flush()
        // The instance refuses the page a resumed fill stood at: begin again (D202.4).
        if report.resumed, state.page != nil, error.code == .validation {
          throw MarfaError(.streamIncomplete, error.message, server: error.server, reason: "page_refused")
        }
        throw error
      }
    }
    try flush()
  }

  /// Reads the rows of a page with the edges they draw; how many further pages of edges that took.
  private func readRows(_ rows: [PageRow], view: Text, into gathered: inout Gathered) throws(MarfaError) -> Int {
    var read: [PageItem] = []
    var edges: [Edge] = []
    var (pages, size) = (0, 0)
    read.reserveCapacity(rows.count)
    func take(_ drawn: (edges: [Edge], pages: Int)) {
      edges += drawn.edges
      pages += drawn.pages
    }
    for row in rows {
      switch row {
      case .text(let row):
        if !row.isListed, try !isPinned(row.id) { continue }
        read.append(.text(row))
        size += row.properties.bytes.count
        guard let text = row.edges else { continue }
        take(try self.edges(of: ["item": ["edges": .object(try Store.object(text))]], item: row.id, view: view))
      case .json(let json):
        let item = try self.row(json)
        if !item.isListed, try !isPinned(item.id) { continue }
        read.append(.item(item))
        take(try self.edges(of: json, item: item.id, view: view))
      }
    }
    // Only whole pages are gathered, so that the progress stored says what was.
    gathered.rows += read
    gathered.edges += edges
    gathered.size += size
    return pages
  }

  private func pageEdges(_ rows: [JSON]) throws(MarfaError) -> [Edge] {
    var edges: [Edge] = []
    for json in rows {
      guard let edge = Edge(json) else { throw MarfaError(.decoding, "an edge of the server could not be read") }
      edges.append(edge)
    }
    return edges
  }

  private func storePages(_ gathered: Gathered, _ generation: Int) throws(MarfaError) {
    try store.bulk {
      try requireGeneration(generation)
      for row in gathered.rows {
        switch row {
        case .text(let row): try store.take(server: row, always: true)
        case .item(let item): try store.take(server: item, always: true)
        }
      }
      for edge in gathered.edges { try store.take(server: edge, always: true) }
      try store.set(.hydrateState, Text(bytes: gathered.progress.json.write()))
      try store.set(.itemsListed, gathered.progress.listed)
    }
  }
}

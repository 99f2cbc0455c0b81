import MarfaBase

/// What a certified read answered: a fact under the copy's view either way (D52.3).
enum Certified: Sendable {
  /// A 2xx that carried the view.
  case found(JSON)
  /// One of the refusals the instance certifies, with its code.
  case refused(MarfaError)
}

extension WorkingCopy {
  /// A GET under the read view (D52, RV10.2): judged by transport, redirect, contract and status, then by its proof.
  /// What cannot be accepted ends the copy. Refusals that say nothing of the copy are thrown as they are.
  func certified(_ path: String, query: [(String, Text)] = [], view: Text) throws(MarfaError) -> Certified {
    switch try certifiedAnswer(path, query: query, view: view) {
    case .success(let answer): .found(try answer.json())
    case .failure(let refusal): .refused(refusal)
    }
  }

  /// The same, the answer not read yet.
  private func certifiedAnswer(
    _ path: String, query: [(String, Text)] = [], view: Text, ahead: ServerConnection.Ahead? = nil
  ) throws(MarfaError) -> Result<Answer, MarfaError> {
    try checkStop()
    let answer: Answer
    do throws(MarfaError) { answer = try server.ask("GET", path, query: query, view: view, ahead: ahead) } catch {
      // A renewal that found the sign-in ended mends nothing: the copy ends, and the caller asks for a new one (ER15.2).
      if error.code == .signedOut, try store.text(.readView) == view {
        _ = try expire("credential_ended", error.message)
      }
      throw error
    }
    if answer.isSuccess {
      try requireProof(answer, view, path)
      return .success(answer)
    }
    let refusal = server.refusal(answer)
    // A stop before a read returned outranks its failure, but for what ends the copy (D59.1).
    if answer.status >= 408, answer.status != 409 { try checkStop() }
    switch (answer.status, refusal.server?.code) {
    case (404, _), (403, _):
      // A 403 of another door (a missing permission) is certified for /keys/current alone; any other that names the
      // contract without proof cannot be told from a view that moved (ER15, D52.6).
      try requireProof(answer, view, path)
      return .failure(refusal)
    case (409, "read_view_changed"):
      throw try expire(
        "read_view_changed", "what the key may read, or how rows are typed, changed; the copy must be filled again")
    case (401, _):
      guard try store.text(.readView) == view else { throw refusal }
      throw try expire("credential_ended", refusal.message)
    default: throw refusal
    }
  }

  private func requireProof(_ answer: Answer, _ view: Text, _ path: String) throws(MarfaError) {
    if let proof = answer.header("X-Marfa-Read-View"), Text(proof) == view { return }
    throw try invalidProof("the answer to \(path) (status \(answer.status)) does not prove the copy's read view")
  }

  func invalidProof(_ why: String) throws(MarfaError) -> MarfaError {
    try expire("read_view_invalid", "\(why); the copy must be filled again")
  }

  /// A page of a certified listing: its rows and where the next begins, nil after the last.
  func certifiedPage(
    _ path: String, query: [(String, Text)], view: Text, ahead: ServerConnection.Ahead? = nil
  ) throws(MarfaError) -> (rows: [JSON], next: Text?) {
    try page(of: try certifiedAnswer(path, query: query, view: view, ahead: ahead).get(), path)
  }

  private func page(of answer: Answer, _ path: String) throws(MarfaError) -> (rows: [JSON], next: Text?) {
    let page = try answer.json()
    guard let rows = page["data"]?.array, let next = page["next_cursor"] else {
      throw try invalidProof("a page of \(path) says neither its rows nor whether another follows")
    }
    if next.isNull { return (rows, nil) }
    guard let cursor = next.text, !cursor.isEmpty else {
      throw try invalidProof("a page of \(path) names no readable next page")
    }
    return (rows, cursor)
  }

  /// Every page of a certified listing, each handed on; a cursor met twice ends the copy (D7.4).
  /// - Parameters:
  ///   - first: the cursor to begin from; nil is the first page.
  ///   - looksAhead: whether each page is asked for while the one before is handed on: for a reader that takes them all.
  func walk(
    _ path: String, query: [(String, Text)], view: Text, from first: Text? = nil, looksAhead: Bool = false,
    page: ([JSON], _ next: Text?) throws(MarfaError) -> Void
  ) throws(MarfaError) {
    try walk(
      path, query: query, view: view, from: first, looksAhead: looksAhead,
      read: { (answer) throws(MarfaError) in try self.page(of: answer, path) }, page: page)
  }

  /// The same for a listing of items, whose rows are handed on as texts where they can be.
  func walkItems(
    query: [(String, Text)], view: Text, from first: Text?, page: ([PageRow], _ next: Text?) throws(MarfaError) -> Void
  ) throws(MarfaError) {
    let catalog = try catalog()
    try walk(
      "/items", query: query, view: view, from: first, looksAhead: true,
      read: { (answer) throws(MarfaError) in
        if let page = ServerRow.page(answer.body, in: catalog) { return page }
        let (rows, next) = try self.page(of: answer, "/items")
        return (rows.map { .json($0) }, next)
      }, page: page)
  }

  private func walk<Row>(
    _ path: String, query: [(String, Text)], view: Text, from first: Text?, looksAhead: Bool,
    read: (Answer) throws(MarfaError) -> (rows: [Row], next: Text?),
    page: ([Row], _ next: Text?) throws(MarfaError) -> Void
  ) throws(MarfaError) {
    var cursor = first
    var seen: Set<Text> = []
    var ahead: ServerConnection.Ahead?
    while true {
      let asked = query + (cursor.map { [("cursor", $0)] } ?? [])
      let answer = try certifiedAnswer(path, query: asked, view: view, ahead: ahead).get()
      let (rows, next) = try read(answer)
      if let next, !seen.insert(next).inserted || next == cursor {
        throw try invalidProof("the listing \(path) repeats a page")
      }
      // The server makes the next page while this one is taken in.
      ahead = (looksAhead ? next : nil).flatMap { server.begin(path, query: query + [("cursor", $0)], view: view) }
      try page(rows, next)
      guard let next else { return }
      cursor = next
    }
  }

  /// Both catalogs, certified, each walked to its end (D7 step 3).
  func readCatalogs(view: Text) throws(MarfaError) -> (types: [JSON], edgeTypes: [JSON]) {
    var types: [JSON] = []
    var edgeTypes: [JSON] = []
    try walk("/types", query: [], view: view) { (rows, _) throws(MarfaError) in types += rows }
    try walk("/edge-types", query: [], view: view) { (rows, _) throws(MarfaError) in edgeTypes += rows }
    return (types, edgeTypes)
  }

  /// Reads both catalogs again and takes them (D15.1). Returns whether either changed.
  @discardableResult
  func refreshCatalogs(view: Text) throws(MarfaError) -> Bool {
    let read = try readCatalogs(view: view)
    return try store.replaceCatalog(types: read.types, edgeTypes: read.edgeTypes)
  }

  /// Reads both catalogs again under the copy's view, so that an edge type made elsewhere is known (F11.1).
  package func refreshEdgeTypes() throws(MarfaError) {
    try requireWriter()
    try refreshCatalogs(view: try requireCertificate().view)
  }

  /// A row as a page or a read answers it.
  func row(_ json: JSON) throws(MarfaError) -> Item {
    guard json["listed"]?.bool != nil else { throw try invalidProof("a row does not say whether it is listed") }
    guard let item = Item(row: json) else { throw MarfaError(.decoding, "a row of the server could not be read") }
    return item
  }

  /// The edges a row of an answer draws: those it carries and, where a block goes on, the rest of it (D7.2).
  func edges(of json: JSON, item: EntityID, view: Text) throws(MarfaError) -> (edges: [Edge], pages: Int) {
    var out: [Edge] = []
    var pages = 0
    func take(_ rows: [JSON]) throws(MarfaError) {
      for row in rows {
        guard let edge = Edge(row) else { throw MarfaError(.decoding, "an edge of the server could not be read") }
        out.append(edge)
      }
    }
    for (type, block) in json["item"]?["edges"]?.object?.members ?? [] {
      try take(block["data"]?.array ?? [])
      guard let next = block["next_cursor"]?.text else { continue }
      try walk(
        "/items/\(item)/edges", query: [("edge_type", type), ("limit", "200")], view: view, from: next
      ) { (rows, _) throws(MarfaError) in
        pages += 1
        try take(rows)
      }
    }
    return (out, pages)
  }
}

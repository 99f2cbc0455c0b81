import MarfaBase

/// The tuple a copy is certified by: the three change together (D52.1, RV10.1).
struct Certificate: Hashable, Sendable {
  var cursor: Text
  var instance: Text
  var view: Text

  /// Whether a cursor is `0`, or a digit 1 to 9 and digits, at most 9223372036854775807 (D52.7).
  static func position(_ cursor: Text) -> Int64? {
    let bytes = cursor.bytes
    guard let first = bytes.first, bytes.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), first != 0x30 || bytes.count == 1
    else { return nil }
    return Int64(cursor.string)
  }

  /// Whether a view is 64 lowercase hex digits.
  static func isView(_ view: Text) -> Bool {
    view.bytes.count == 64
      && view.bytes.allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || ($0 >= UInt8(ascii: "a") && $0 <= UInt8(ascii: "f")) }
  }
}

extension WorkingCopy {
  /// The certificate held, complete and well formed; nil else.
  func certificate() throws(MarfaError) -> Certificate? {
    guard let cursor = try store.text(.eventCursor), Certificate.position(cursor) != nil,
      let instance = try store.text(.instanceID), let view = try store.text(.readView), Certificate.isView(view)
    else { return nil }
    return Certificate(cursor: cursor, instance: instance, view: view)
  }

  /// The slice declared by the fill; nil before any.
  package func slice() throws(MarfaError) -> Slice? {
    guard let stored = try store.text(.slice) else { return nil }
    let json = JSON.object(try Store.object(stored.bytes))
    func texts(_ name: Text) -> [Text] { (json[name]?.array ?? []).compactMap(\.text) }
    return Slice(typeList: texts("types"), tier: json["tier"]?.text ?? "library", edgeTypes: texts("edge_types"))
  }

  func declare(_ slice: Slice) throws(MarfaError) {
    let json: JSON = [
      "types": .array(slice.typeList.map { .string($0) }), "tier": .string(slice.tier),
      "edge_types": .array(slice.edgeTypes.map { .string($0) }),
    ]
    try store.set(.slice, Text(bytes: json.write()))
  }

  /// How far the copy is filled: a record of what it was told, never a question to the server (D201).
  package func hydration() throws(MarfaError) -> Hydration {
    if try store.text(.hydrateState) != nil { return .inProgress }
    guard try store.text(.slice) != nil else { return .never }
    if try certificate() != nil { return .complete }
    let hasView = try store.text(.readView).map(Certificate.isView) ?? false
    let hasInstance = try store.text(.instanceID) != nil
    if hasView, hasInstance, try store.text(.heldCursor) != nil, try store.text(.eventCursor) == nil { return .stale }
    return .expired
  }

  /// Whether a slice is answered whole: the copy is complete and what it holds covers it.
  package func answers(_ slice: Slice) throws(MarfaError) -> Bool {
    guard try hydration() == .complete, let held = try self.slice() else { return false }
    guard held.tier == "all" || held.tier == slice.tier, Set(slice.edgeTypes).isSubset(of: held.edgeTypes) else {
      return false
    }
    let catalog = try catalog()
    func covers(_ type: Text) -> Bool {
      let isSystem = type.bytes.starts(with: "system.".utf8)
      if held.types == nil, !isSystem { return true }
      return (held.types ?? held.systemTypes).contains { $0 == type || catalog.isType(type, under: $0) }
    }
    if let types = slice.types { return types.allSatisfy(covers) }
    return held.types == nil && slice.systemTypes.allSatisfy(covers)
  }

  /// Refuses where a folder's or a view's rows are asked of a copy that is not whole (D4, D4.4).
  package func requireComplete() throws(MarfaError) {
    switch try hydration() {
    case .complete: return
    case .never: throw MarfaError(.hydrationIncomplete, "the working copy was never filled")
    case .inProgress:
      throw MarfaError(.hydrationIncomplete, "the working copy is not filled yet; a fill goes on from where it stopped")
    case .stale:
      throw MarfaError(
        .hydrationIncomplete, "the working copy is out of date; it must be filled again", reason: "stale")
    case .expired:
      throw MarfaError(
        .hydrationIncomplete, "the working copy has ended; it must be filled again",
        reason: try store.text(.expiredReason)?.string)
    }
  }

  /// The certificate of a completed fill, for a drain, a pin, a catch-up (D102.1).
  func requireCertificate() throws(MarfaError) -> Certificate {
    switch try hydration() {
    case .complete:
      if let held = try certificate() { return held }
      throw MarfaError(.hydrationIncomplete, "the working copy lost its proof; it must be filled again")
    case .never: throw MarfaError(.noCursor, "the working copy was never filled, so there is nothing to follow from")
    case .inProgress: throw MarfaError(.hydrationIncomplete, "the working copy's fill is not complete")
    case .stale:
      throw .expired("catchup_too_old", "the server's log no longer reaches back to this copy; it must be filled again")
    case .expired:
      throw .expired(
        try store.text(.expiredReason)?.string ?? "read_view_invalid",
        "the working copy has ended; it must be filled again")
    }
  }

  /// The state report (D5). It answers in every state.
  package func status() throws(MarfaError) -> CopyStatus {
    let counts = try store.read {
      (
        try database.one("SELECT count(*) FROM item") { $0.int(0) } ?? 0,
        try database.one("SELECT count(*) FROM edge") { $0.int(0) } ?? 0
      )
    }
    return CopyStatus(
      serverOrigin: try store.text(.serverOrigin), instanceID: try store.text(.instanceID), slice: try slice(),
      pinned: try pins(), eventCursor: try store.text(.eventCursor), hydration: try hydration(), items: counts.0,
      edges: counts.1, catalogVersion: try store.int(.catalogVersion), itemsListed: try store.int(.itemsListed),
      itemsExpected: try store.int(.itemsExpected), cacheBytes: blobs.all().reduce(0) { $0 + Int($1.size) },
      cacheBudget: blobBudget,
      lastSynced: try store.int(.lastSynced).map { Timestamp(milliseconds: Int64($0)) })
  }

  // MARK: - How a copy ends

  /// Ends the copy with a reason: cursor and view are dropped, the generation moves; slice, pins, rows and the whole
  /// queue stay (D201.4). A copy that no fill declared a slice for has nothing to end. Returns the error to throw.
  package func expire(_ reason: String, _ message: String) throws(MarfaError) -> MarfaError {
    if try store.text(.slice) != nil, role == .writer {
      try store.transaction {
        try store.set(.eventCursor, nil)
        try store.set(.readView, nil)
        try store.set(.heldCursor, nil)
        try store.set(.hydrateState, nil)
        try store.set(.expiredReason, reason)
        try bumpGeneration()
      }
    }
    return .expired(reason, message)
  }

  /// The log let the cursor go: rows, view and the held position stay, the cursor is dropped (D16.1).
  func goStale(minimum: Text) throws(MarfaError) -> MarfaError {
    try store.transaction {
      try store.set(.heldCursor, try store.text(.eventCursor) ?? "0")
      try store.set(.eventCursor, nil)
      try bumpGeneration()
    }
    return .expired(
      "catchup_too_old",
      "the server's log begins at \(minimum) and no longer reaches back to this copy; it must be filled again")
  }

  func bumpGeneration() throws(MarfaError) {
    try store.set(.copyGeneration, (try store.int(.copyGeneration) ?? 0) + 1)
    store.changes += 1
  }

  /// An answer to a request of one generation must not write into another (D54.5).
  func requireGeneration(_ generation: Int) throws(MarfaError) {
    guard try store.int(.copyGeneration) ?? 0 == generation else {
      throw MarfaError(
        .streamIncomplete, "the copy changed while the server was asked; nothing of the answer was taken",
        reason: "local_copy_changed")
    }
  }

  // MARK: - Which instance answers

  /// Where the store was filled from another address than the one asked: the root is read, and the same instance moves
  /// the store to its new address, another is refused (D2.3, D2.4).
  func confirmPlace() throws(MarfaError) {
    guard let stored = try store.text(.serverOrigin), try store.text(.instanceID) != nil,
      let endpoint = server.endpoint, stored != Text(endpoint.origin)
    else { return }
    try confirmPlace(try server.root())
  }

  private func confirmPlace(_ root: ServerRoot) throws(MarfaError) {
    guard let stored = try store.text(.serverOrigin), let held = try store.text(.instanceID),
      let endpoint = server.endpoint, stored != Text(endpoint.origin)
    else { return }
    guard root.instanceID.text == held else {
      throw MarfaError(
        .wrongServer,
        "this copy belongs to the instance \(held) at \(stored); \(endpoint.origin) is another one (\(root.instanceID))"
      )
    }
    if role == .writer { try store.set(.serverOrigin, Text(endpoint.origin)) }
  }

  /// The root as the first request with a credential finds it.
  func confirm(_ root: ServerRoot) throws(MarfaError) {
    try confirmPlace(root)
    try requireInstance(root)
  }

  /// Reads the root and compares the instance with the copy's; another one ends the copy and sends nothing (D2.8, Q60).
  package func confirmInstance() throws(MarfaError) {
    try confirmPlace()
    try requireInstance(try server.root())
  }

  private func requireInstance(_ root: ServerRoot) throws(MarfaError) {
    guard let held = try store.text(.instanceID), root.instanceID.text != held else { return }
    throw try expire(
      "instance_changed",
      "the instance \(root.instanceID) answers at \(server.origin), not \(held) this copy was filled from")
  }
}

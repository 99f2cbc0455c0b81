import MarfaBase

/// The body of a bulk write: up to 5,000 entries, each judged as on its single door (I30, E13).
struct BulkPage {
  static let cap = 5000

  var entries: [JSON]
  var mode: CreationMode
  var isAtomic: Bool

  /// - Parameter member: the list's name, `items` or `edges`.
  init(_ body: JSONObject, _ member: Text) throws {
    try ItemBody(object: body).declare([member, "mode", "atomic", "enable_fanout"])
    guard let list = body[member], !list.isNull else { throw Refusal.missing(member.string) }
    guard let entries = list.array else { throw Refusal.invalid(member, "\(member) is not a list.") }
    if entries.count > BulkPage.cap {
      throw Refusal(
        400, "validation_error", "At most \(BulkPage.cap) entries.",
        ["cap": .int(BulkPage.cap), "provided": .int(entries.count)])
    }
    self.entries = entries
    switch body["mode"] ?? "upsert" {
    case "upsert": mode = .upsert
    case "create_only": mode = .createOnly
    default: throw Refusal.invalid("mode", "mode is upsert or create_only.")
    }
    isAtomic = true
    if let value = body["atomic"] {
      guard let flag = value.bool else { throw Refusal.invalid("atomic", "atomic is true or false.") }
      isAtomic = flag
    }
    // There are no webhooks here to fan out to (I32).
    if let value = body["enable_fanout"], value.bool == nil {
      throw Refusal.invalid("enable_fanout", "enable_fanout is true or false.")
    }
  }
}

/// What became of one entry.
enum BulkOutcome {
  case created(EntityID)
  case updated(EntityID)
  case skipped(EntityID?, reason: Text)
  case errored(Refusal)

  var word: Text {
    switch self {
    case .created: "created"
    case .updated: "updated"
    case .skipped: "skipped"
    case .errored: "errored"
    }
  }

  func json(_ index: Int) -> JSON {
    var out = JSONObject([("index", .int(index)), ("outcome", .string(word))])
    switch self {
    case .created(let id), .updated(let id): out["id"] = .string(id.text)
    case .skipped(let id, let reason):
      if let id { out["id"] = .string(id.text) }
      out["reason"] = .string(reason)
    case .errored(let refusal): out["error"] = refusal.inner
    }
    return .object(out)
  }
}

extension Refusal {
  /// As an entry's error: code, words and details, without a conflict's rows (V35.1).
  var inner: JSON {
    var error = JSONObject([("code", .string(code)), ("message", .string(message))])
    error["details"] = details
    return .object(error)
  }

  /// What a refused entry makes of an atomic page (I31, E13.6).
  func rollingBack(_ index: Int) -> Refusal {
    var inner = JSONObject([("code", .string(code)), ("index", .int(index))])
    inner["details"] = details
    return Refusal(status, "bulk_atomic_rollback", "Entry \(index): \(message)", .object(inner))
  }
}

extension Instance {
  /// Works through a page. Atomic, the gates of every entry come first and the first refusal takes all back; otherwise a
  /// refused entry alone writes nothing.
  func bulk(
    _ page: BulkPage, gate: (JSON) throws -> Void, write: (JSON) throws -> BulkOutcome
  ) throws -> Reply {
    var outcomes: [BulkOutcome] = []
    outcomes.reserveCapacity(page.entries.count)
    if page.isAtomic {
      for (place, entry) in page.entries.enumerated() {
        do { try gate(entry) } catch { throw rollback(error, place) }
      }
    }
    for (place, entry) in page.entries.enumerated() {
      do {
        outcomes.append(page.isAtomic ? try write(entry) : try database.transaction { try write(entry) })
      } catch {
        let refused = refusal(error)
        if page.isAtomic { throw rollback(error, place) }
        if refused.status >= 500 { throw refused }
        try readCounters()
        outcomes.append(.errored(refused))
      }
    }
    var counts = JSONObject()
    for word in ["created", "updated", "skipped", "errored"] as [Text] {
      counts[word] = .int(outcomes.count { $0.word == word })
    }
    return .json(
      200,
      ["counts": .object(counts), "results": .array(outcomes.enumerated().map { $1.json($0) })])
  }

  /// Trouble of the server's own is no entry's refusal.
  private func rollback(_ error: any Error, _ place: Int) -> Refusal {
    let refused = refusal(error)
    return refused.status >= 500 ? refused : refused.rollingBack(place)
  }

  /// `POST /items/bulk`.
  func bulkItems(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let page = try BulkPage(try call.object(), "items")
    func creation(_ entry: JSON) throws -> ItemCreation {
      guard let object = entry.object else { throw Refusal.invalid("items", "An entry is not an object.") }
      return try ItemCreation(object)
    }
    return try bulk(
      page,
      gate: { entry in
        // A malformed entry is told in its turn.
        if let made = try? creation(entry) { _ = try admit(made, call) }
      },
      write: { entry in
        let made = try creation(entry)
        switch try create(made, source: try admit(made, call), mode: page.mode, call) {
        case .created(let row): return .created(row.id)
        case .updated(let row): return .updated(row.id)
        case .held(let row, let reason): return .skipped(row?.id, reason: reason)
        }
      })
  }
}

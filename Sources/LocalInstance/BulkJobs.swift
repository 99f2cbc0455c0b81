import MarfaBase

/// A bulk action on its way: which rows it matched, which are left, and what became of the others (I33, I34).
struct BulkJob {
  var id: EntityID
  var credential: EntityID
  var status: Text
  /// The request's body, read again for each batch.
  var request: JSONObject
  var matched: Int
  var pending: [EntityID]
  var succeeded = 0
  var errors: [JSON] = []
  /// Rows a cascade of this job moved, which are counted in their turn and not moved again (I27.8).
  var taken: Set<EntityID> = []
  var created: Timestamp
  var started: Timestamp?
  var finished: Timestamp?

  var isOver: Bool { status != "queued" && status != "running" }

  /// As its door answers it.
  var json: JSON {
    [
      "id": .string(id.text), "action": request["action"] ?? .null, "status": .string(status),
      "matched": .int(matched), "processed": .int(matched - pending.count), "succeeded": .int(succeeded),
      "failed": .int(errors.count), "errors": .array(errors), "created_at": .string(created.text),
      "started_at": .optional(started?.text), "finished_at": .optional(finished?.text),
    ]
  }

  var stored: JSON {
    [
      "request": .object(request), "matched": .int(matched), "succeeded": .int(succeeded), "errors": .array(errors),
      "taken": .array(taken.map { .string($0.text) }), "created": .int(created.milliseconds),
      "started": started.map { .int($0.milliseconds) } ?? .null,
      "finished": finished.map { .int($0.milliseconds) } ?? .null,
    ]
  }
}

extension BulkJob {
  init?(id: EntityID?, credential: EntityID?, status: Text, body: [UInt8], pending: [UInt8]) {
    guard let id, let credential, let stored = try? JSON(parsing: body), let left = try? JSON(parsing: pending) else {
      return nil
    }
    func ids(_ value: JSON?) -> [EntityID] { value?.array?.compactMap { $0.text.flatMap(strictID) } ?? [] }
    func time(_ name: Text) -> Timestamp? {
      stored[name]?.int.map { Timestamp(milliseconds: Int64($0)) }
    }
    self.init(
      id: id, credential: credential, status: status, request: stored["request"]?.object ?? JSONObject(),
      matched: stored["matched"]?.int ?? 0, pending: ids(left), succeeded: stored["succeeded"]?.int ?? 0,
      errors: stored["errors"]?.array ?? [], taken: Set(ids(stored["taken"])),
      created: time("created") ?? Timestamp(milliseconds: 0), started: time("started"), finished: time("finished"))
  }
}

/// `POST /items/bulk-actions` and its jobs.
extension Instance {
  func startBulkAction(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare([])
    let body = try call.object()
    if body["action"]?.text == "purge" {
      // Its dry run too (I36).
      guard call.credential.may("items.purge") else { throw Refusal.scope("items.purge") }
      call.needs.permissions.append("items.purge")
    }
    let action = try BulkAction(body)
    if let type = action.move {
      try call.credential.requireWrite(type)
      if catalog.types[type] == nil { throw Refusal.unknownType(type) }
    }
    guard let filterValue = body["filter"], !filterValue.isNull else { throw Refusal.missing("filter") }
    guard let filter = filterValue.object else { throw Refusal.invalid("filter", "filter is not an object.") }
    var isDry = false
    if let value = body["dry_run"] {
      guard let flag = value.bool else { throw Refusal.invalid("dry_run", "dry_run is true or false.") }
      isDry = flag
    }
    var most = 10_000
    if let value = body["max_items"] {
      guard let count = value.int, (1...50_000).contains(count) else {
        throw Refusal.invalid("max_items", "max_items is a whole number from 1 to 50,000.")
      }
      most = count
    }
    var expected: Set<EntityID>?
    if action.isPurge, let value = body["expected_ids"] {
      guard let list = value.array, !list.isEmpty else {
        throw Refusal.invalid("expected_ids", "expected_ids is a list that names something.")
      }
      expected = []
      for entry in list {
        guard let id = entry.text.flatMap(strictID) else { throw Refusal.invalidID }
        expected?.insert(id)
      }
    }
    var ids = try matched(filter, atMost: most + 1, call)
    // A purge takes only what the person was shown.
    if let expected { ids = ids.filter(expected.contains) }
    if ids.count > most {
      throw Refusal(
        400, "bulk_cap_exceeded", "The filter matches more than \(most) items.", ["max_items": .int(most)])
    }
    for id in ids { if let type = try typeOf(id) { call.needs.reads.append(type) } }
    if isDry {
      return .json(200, ["matched": .int(ids.count), "ids": .array(ids.map { .string($0.text) })])
    }
    let job = BulkJob(
      id: self.ids.next(), credential: call.credential.id, status: "queued", request: body, matched: ids.count,
      pending: ids, created: clock.now)
    try database.run(
      "INSERT INTO job (id, credential, status, at, body, pending) VALUES (?, ?, ?, ?, ?, ?)", job.id, job.credential,
      job.status, clock.now, Text(bytes: job.stored.write()), pendingText(job))
    jobCredentials[job.id] = call.credential
    return .json(202, ["job": job.json])
  }

  private func pendingText(_ job: BulkJob) -> Text {
    Text(bytes: JSON.array(job.pending.map { .string($0.text) }).write())
  }

  private func store(_ job: BulkJob) throws {
    try database.run(
      "UPDATE job SET status = ?2, body = ?3, pending = ?4 WHERE id = ?1", job.id, job.status,
      Text(bytes: job.stored.write()), pendingText(job))
  }

  private func job(_ condition: String, _ values: [(any SQLiteValue)?]) throws -> BulkJob? {
    try database.all(
      "SELECT id, credential, status, body, pending FROM job WHERE \(condition) ORDER BY seq LIMIT 1", values
    ) { row in
      BulkJob(
        id: row.id(0), credential: row.id(1), status: row.text(2), body: row.bytes(3), pending: row.bytes(4))
    }.first ?? nil
  }

  /// The job of the path, for its own credential or one with that permission (I34).
  private func jobNamed(_ call: Call, _ permission: Text) throws -> BulkJob {
    guard let id = call.parts.first.flatMap(strictID), let found = try job("id = ?", [id]) else {
      throw Refusal(404, "bulk_job_not_found", "No such job.")
    }
    if found.credential != call.credential.id, !call.credential.may(permission) {
      throw Refusal.scope(permission.string)
    }
    return found
  }

  func readJob(_ call: Call) throws -> Reply {
    try call.query.declare([])
    return .json(200, ["job": try jobNamed(call, "instance.read").json])
  }

  func cancelJob(_ call: Call) throws -> Reply {
    try call.query.declare([])
    var job = try jobNamed(call, "instance.maintain")
    if !job.isOver {
      job.status = "canceled"
      job.finished = clock.now
      try store(job)
    }
    return .json(200, ["job": job.json])
  }

  /// Works on the oldest waiting job, up to 500 rows of it in one commit. Jobs that ended a week ago are forgotten.
  func runBulkJobs() {
    guard let waiting = try? job("status IN ('queued', 'running')", []) else { return }
    do {
      try database.transaction { try work(on: waiting) }
      tellAnnounced()
    } catch {
      // A full disk, a busy database: the batch was taken back and is worked on again at the next tick.
      try? readCounters()
    }
  }

  private func work(on held: BulkJob) throws {
    var job = held
    job.status = "running"
    job.started = job.started ?? clock.now
    let call = Call(InstanceRequest(method: "POST", target: "/items/bulk-actions"), requestID: job.id.description)
    if let credential = credential(of: job), let action = try? BulkAction(job.request) {
      call.credential = credential
      let batch = job.pending.prefix(500)
      job.pending.removeFirst(batch.count)
      for id in batch { try work(on: id, action, &job, call) }
    } else {
      // Who asked may do nothing any more.
      for id in job.pending { job.fail(id, .unauthorized) }
      job.pending = []
    }
    if job.pending.isEmpty {
      job.status = "completed"
      job.finished = clock.now
      jobCredentials[job.id] = nil
    }
    try store(job)
    let week = Timestamp(milliseconds: clock.now.milliseconds - 7 * 86_400_000)
    try database.run("DELETE FROM job WHERE status NOT IN ('queued', 'running') AND at < ?", week)
  }

  private func credential(of job: BulkJob) -> Credential? {
    let stored = try? database.one(
      "SELECT id, source, spec, created, expires, last_used FROM credential WHERE id = ?", job.credential
    ) { row in
      Instance.credential(
        id: row.id(0), source: row.text(1), spec: row.bytes(2), created: row.time(3), expires: row.time(4),
        lastUsed: row.time(5))
    }
    if let stored, let key = stored { return key }
    guard (try? signIn.grant(job.credential, at: clock.now)) != nil else { return nil }
    return jobCredentials[job.id]
  }

  private func work(on id: EntityID, _ action: BulkAction, _ job: inout BulkJob, _ call: Call) throws {
    if job.taken.contains(id) {
      job.succeeded += 1
      return
    }
    do {
      let moved = try database.transaction { try perform(action, on: id, call) }
      job.taken.formUnion(moved.filter { $0 != id })
      job.succeeded += 1
    } catch {
      let refused = refusal(error)
      if refused.status >= 500 { throw refused }
      try readCounters()
      job.fail(id, refused)
    }
  }

  /// One row's share of an action. Gives the rows that moved with it.
  private func perform(_ action: BulkAction, on id: EntityID, _ call: Call) throws -> [EntityID] {
    func update(_ change: (inout ItemWrite) -> Void) throws {
      let row = try writableItem(id, call)
      var write = ItemWrite(base: row.version)
      change(&write)
      _ = try apply(write, to: row, call)
    }
    switch action {
    case .transition(let state):
      return try move(try writableItem(id, call, trashed: true), to: state, call)
    case .purge:
      let row = try writableItem(id, call, trashed: true)
      guard call.credential.may("items.purge") else { throw Refusal.scope("items.purge") }
      guard row.isTrashed else { throw Refusal(400, "invalid_transition", "The item is not in the bin.") }
      try purge(row)
    case .tags(let add, let remove):
      let row = try writableItem(id, call)
      _ = try writeTags(row.tagList.filter { !remove.contains($0) } + add, row, call)
    case .tier(let tier): try update { $0.tier = tier }
    case .properties(let properties, let type):
      if let type {
        try call.credential.requireWrite(type)
        if catalog.types[type] == nil { throw Refusal.unknownType(type) }
      }
      try update { ($0.properties, $0.type) = (properties, type) }
    case .occurred(let time): try update { $0.occurred = .some(time) }
    }
    return []
  }
}

extension BulkJob {
  /// Notes a row the action was refused for.
  mutating func fail(_ id: EntityID, _ refusal: Refusal) {
    var error = JSONObject([("id", .string(id.text))])
    for (name, value) in refusal.inner.object?.members ?? [] { error[name] = value }
    errors.append(.object(error))
  }
}

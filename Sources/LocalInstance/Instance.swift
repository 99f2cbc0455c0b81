import MarfaBase

/// A small Marfa instance on SQLite: `handle(request) -> answer` plus event sources, used from one thread.
///
///     let instance = try Instance(database: database, blobs: MemoryBlobs(), clock: clock, ids: ids, ownerKey: token)
///     let answer = instance.handle(InstanceRequest(method: "GET", target: "/"))
///
/// HTTP is a shell around it. It answers as the contract says any instance does; what it leaves out is answered `404`.
public final class Instance {
  let database: Database
  let blobs: any InstanceBlobs
  let clock: any Clock
  let ids: any IdSource
  let catalog: Catalog
  /// The identity of the data, made with the database (IN1.2).
  public let instanceID: EntityID
  /// Settings a test or the command may turn.
  public var settings = InstanceSettings() {
    didSet {
      if settings.busyBudget != oldValue.busyBudget { database.waitForLocks(max(0, settings.busyBudget)) }
    }
  }
  /// Called after a commit that announced something, on the instance's thread: the shell then asks its streams.
  public var onEvents: (() -> Void)?

  var streams: [EventStream] = []
  var isStopping = false
  /// Cached counters of the `meta` table, read again after a rollback.
  var viewCounter = 0
  var credentials: [String: Credential] = [:]
  var lastUsed: [EntityID: Timestamp] = [:]
  var rates: [EntityID: RateWindow] = [:]
  /// The upload being answered, whose bytes the shell wrote as they came.
  var incoming: (any ArrivingBlob)?
  /// What the owner decides about sign-ins.
  public var signInPolicy = SignInPolicy()
  /// Sign-ins that wait for a decision on the page: by user code, or by request.
  var waitingSignIns: [Text: WaitingSignIn] = [:]
  private var announced = false
  private var isInBatch = false
  /// How many writes were worked on since the last tick.
  var writesSinceTick = 0
  var housekeeping: Housekeeping
  /// Requests under an idempotency key that are being worked on, and since when (ER3.4).
  var claims: [Claim: UInt64] = [:]
  /// Who asked for a job that has not ended, for apps, whose grants are held in memory.
  var jobCredentials: [EntityID: Credential] = [:]

  /// Opens an instance over its database, making the tables in a fresh one.
  /// - Parameters:
  ///   - ownerKey: the plaintext of a key that may do everything; made or renewed at each opening (K5.9). nil leaves
  ///     the keys as they are.
  /// - Throws: `InstanceError` for a database it refuses, `SQLiteError`.
  public init(
    database: Database, blobs: any InstanceBlobs, clock: any Clock, ids: any IdSource, ownerKey: String?
  ) throws {
    self.database = database
    self.blobs = blobs
    self.clock = clock
    self.ids = ids
    housekeeping = Housekeeping(from: clock.monotonic)
    try Schema.open(database) { ids.next() }
    guard let id = try database.one("SELECT value FROM meta WHERE name = 'instance_id'", read: { $0.id(0) }), let id
    else { throw InstanceError.foreignDatabase(Schema.number) }
    instanceID = id
    catalog = try Catalog(database)
    try readCounters()
    try loadConfiguration()
    if let ownerKey { try ensureOwnerKey(ownerKey) }
  }

  func readCounters() throws {
    viewCounter = try database.one("SELECT value FROM meta WHERE name = 'view'") { Int($0.string(0)) ?? 0 } ?? 0
    credentials = [:]
  }

  /// Answers one request. Never throws: a fault inside is `500 internal_error` (ER4.1).
  public func handle(_ request: InstanceRequest) -> InstanceAnswer {
    let call = Call(request, requestID: requestID(request))
    do {
      return try answer(call)
    } catch {
      return .whole(finish(.refused(refusal(error)), call))
    }
  }

  /// What an error is answered as, told with this instance's budget (ER4.2).
  func refusal(_ error: any Error) -> Refusal {
    var refusal = Refusal.of(error)
    if refusal.code == "write_contention" { refusal.details = ["budget_ms": .int(settings.busyBudget)] }
    return refusal
  }

  /// Runs `work`, whose `handle` calls share one durable commit, each a savepoint of it (group commit). The answers are
  /// for sending only once this returns; where it throws, nothing of the batch was written.
  public func batch(_ work: () throws -> Void) throws {
    isInBatch = true
    do {
      try database.transaction { try work() }
      isInBatch = false
    } catch {
      isInBatch = false
      announced = false
      try? forgetCaches()
      throw error
    }
    tellAnnounced()
  }

  /// Runs `work`, which waits for no lock of another process: what the instance does of its own accord keeps no request
  /// waiting, and a request waits out its budget once (ER4.2).
  func withoutWaiting(_ work: () -> Void) {
    database.waitForLocks(0)
    work()
    database.waitForLocks(max(0, settings.busyBudget))
  }

  /// Does what is due: heartbeats and ended credentials of streams, bulk jobs, housekeeping, indexing. Call it about once
  /// a second.
  public func tick() {
    for stream in streams { stream.beat() }
    withoutWaiting {
      indexWhereIdle()
      runBulkJobs()
      keepHouse()
    }
    if streams.contains(where: \.hasSomething) { onEvents?() }
  }

  /// Ends every stream with `server_stopping`; streams opened from here on are ended so too (EV17.1).
  public func stop() {
    isStopping = true
    for stream in streams { stream.end("server_stopping") }
    persistUse()
  }

  // MARK: one request

  private func answer(_ call: Call) throws -> InstanceAnswer {
    guard let door = route(call) else {
      if call.method == "GET", call.header("x-marfa-read-view") != nil {
        throw Refusal.invalid("X-Marfa-Read-View", "No conditional read is at this path.")
      }
      throw Refusal.notFound
    }
    call.door = door
    if door.isPublic {
      if call.method == "GET", call.header("x-marfa-read-view") != nil {
        throw Refusal.invalid("X-Marfa-Read-View", "This read is not conditional.")
      }
      return reply(try inTransaction(when: door.isWrite) { try door.run(self, call) }, call)
    }
    call.credential = try authenticate(call)
    if let refused = limitRate(call) { return .whole(finish(.refused(refused), call)) }
    if door.isStream {
      return try openStream(call)
    }
    var certifies = false
    if call.method == "GET", let view = call.header("x-marfa-read-view") {
      try judgeView(view, call)
      certifies = true
    }
    var reply: Reply
    if door.isWrite {
      let most = door.isBulk ? 16_777_216 : 1_048_576
      if call.request.body.count > most, !door.takesBytes {
        throw Refusal(413, "request_too_large", "A JSON body has at most \(most) bytes here.")
      }
      reply = try write(call, door)
    } else {
      do { reply = try door.run(self, call) } catch { reply = .refused(refusal(error)) }
    }
    if certifies, reply.isCertified(door) {
      reply.headers.append(HTTPHeader("X-Marfa-Read-View", readView(call.credential)))
      reply.headers.append(HTTPHeader("Cache-Control", "no-store"))
    }
    return self.reply(reply, call)
  }

  private func reply(_ reply: Reply, _ call: Call) -> InstanceAnswer {
    let response = finish(reply, call)
    return reply.source.map { .stream(head: response, source: $0) } ?? .whole(response)
  }

  /// Runs a write in its transaction, under its idempotency key where it has one (I24).
  private func write(_ call: Call, _ door: Door) throws -> Reply {
    let name = door.honorsKey ? call.header("idempotency-key") : nil
    if let name, name.isEmpty || name.utf16.count > 255 {
      // The query's keys are judged before a header's fault (ER2.1); each door judges its own, narrower set later.
      if call.target.segments.first != "folders" { try call.credential.requireSomeType() }
      try call.query.declare(["conflict", "version"])
      throw Refusal.invalid("Idempotency-Key", "An idempotency key has 1 to 255 characters.")
    }
    writesSinceTick += 1
    let claim = try name.map { try take(Claim(credential: call.credential.id, name: $0)) }
    defer { if let claim { claims[claim] = nil } }
    /// One savepoint holds the door's work and the answer kept of it. A refusal takes the work back and is kept beside.
    func worked() throws -> Reply {
      call.idempotencyKey = name
      if let name, let kept = try keptAnswer(name, call) { return kept }
      let reply: Reply
      do {
        return try database.transaction {
          let reply = try door.run(self, call)
          if let name { try keepAnswer(reply, name, call) }
          return reply
        }
      } catch {
        let refusal = refusal(error)
        try forgetCaches()
        if refusal.status >= 500 { throw refusal }
        reply = .refused(refusal)
      }
      if let name { try keepAnswer(reply, name, call) }
      return reply
    }
    do {
      let reply = try isInBatch ? worked() : database.transaction(worked)
      tellAnnounced()
      return reply
    } catch {
      try? forgetCaches()
      throw error
    }
  }

  private func inTransaction(when isWrite: Bool, _ work: () throws -> Reply) throws -> Reply {
    isWrite ? try database.transaction { try work() } : try work()
  }

  /// After a rollback the caches may hold what was taken back.
  private func forgetCaches() throws {
    try readCounters()
    if catalogTouched {
      catalogTouched = false
      try catalog.reload(database)
    }
    if configurationTouched {
      configurationTouched = false
      try loadConfiguration()
    }
  }

  /// Set by doors that change the registry, so that a rollback reads it again.
  var catalogTouched = false
  /// Set by a change of the configuration, for the same reason.
  var configurationTouched = false
  /// The hours an event is kept where `PUT /config` says nothing (EV11.1).
  var givenRetentionHours = InstanceSettings().eventRetentionHours
  /// What `PUT /config` was given last.
  var storedConfiguration = JSONObject()

  /// Notes that the transaction under way announces something.
  func noteAnnounced() { announced = true }

  func tellAnnounced() {
    guard announced, !isInBatch else { return }
    announced = false
    catalogTouched = false
    onEvents?()
  }

  // MARK: every answer

  private func requestID(_ request: InstanceRequest) -> String {
    let sent = request.headers.first { isNamed($0.name, "x-request-id") }?.value
    if let sent, (1...128).contains(sent.utf8.count),
      sent.utf8.allSatisfy({ isAlphanumeric($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") })
    {
      return sent
    }
    return ids.next().description
  }

  /// The headers every answer carries (IN3.1, IN4), and a page for a browser where it is a refusal (ER1.3).
  func finish(_ reply: Reply, _ call: Call) -> HTTPResponse {
    var response = HTTPResponse(status: reply.status, headers: reply.headers, body: reply.body)
    if !reply.isBare {
      if reply.code != nil, call.prefersPage, !reply.isConflict {
        response.body = Array("<!doctype html><title>\(reply.status)</title><h1>\(reply.status)</h1>".utf8)
        response.headers.append(HTTPHeader("Content-Type", "text/html; charset=utf-8"))
      } else {
        response.headers.append(HTTPHeader("Content-Type", "application/json"))
      }
    }
    if let code = reply.code { response.headers.append(HTTPHeader("X-Error-Code", code)) }
    response.headers.append(HTTPHeader("X-Marfa-Contract", "0"))
    response.headers.append(HTTPHeader("X-Request-ID", call.requestID))
    response.headers += call.extraHeaders
    return response
  }
}

/// What an instance is set up to do; the defaults are the contract's.
public struct InstanceSettings: Sendable {
  /// Hours an event is kept; 0 keeps all for ever (EV11.1).
  public var eventRetentionHours = 168
  /// Requests a minute a credential may send; nil limits nothing (K6.4).
  public var requestsPerMinute: Int?
  /// Streams open at once; 0 is no limit (EV18.1).
  public var maximumViewers = 0
  /// Days an item stays in the bin before the retention job purges it; nil keeps it for ever. A decision of ours: nobody's
  /// words are destroyed by an instance nobody told to.
  public var trashRetentionDays: Int?
  /// Milliseconds a busy database is waited for (ER4.2).
  public var busyBudget = 5000
  /// Bytes an upload must leave free (B2.5).
  public var diskReserve = 134_217_728
  /// Whether a long blob is answered piece by piece, for a shell that can.
  var streamsBlobs = false
  /// Seconds an access token lives (K18.2).
  public var accessTokenSeconds = 3600
  /// From type to the sources listed of it: the source filter of T19 and RV5.2.
  public var sourceFilter: [Text: [Text]] = [:]
  /// From type to the sources a create may resolve to (T18).
  public var sourceAllowList: [Text: [Text]] = [:]
  /// Types whose items take no undeclared property (T17).
  public var strictTypes: [Text] = []
  /// The origin told in discovery, without a path (K7.2).
  public var origin = "http://127.0.0.1:8600"

  /// The contract's defaults.
  public init() {}
}

/// Whether a name is another in any ASCII case; `lower` is in lower case.
func isNamed(_ name: String, _ lower: String) -> Bool {
  name.utf8.count == lower.utf8.count
    && zip(name.utf8, lower.utf8).allSatisfy { ($0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0) == $1 }
}

func lowercased(_ name: String) -> String {
  String(decoding: name.utf8.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }, as: UTF8.self)
}

func isAlphanumeric(_ byte: UInt8) -> Bool {
  (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
}

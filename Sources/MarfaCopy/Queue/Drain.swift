import Dispatch
import MarfaBase

extension WriteQueue {
  /// Sends what can be sent, in order, and records what became of each write (chapter 8).
  ///
  /// - Parameter observer: sees each verdict inside the transaction that settles it.
  /// - Returns: the report; a pass a server's absence or a refused credential ended early is one too.
  /// - Throws: `reading_handle`; `no_cursor`, `hydration_incomplete`, `copy_expired` where the copy has no view of a
  ///   completed fill (Q60.4); `contract_mismatch`, `redirect`, `signed_out`, `storage_full`, `canceled`. Verdicts reached
  ///   before stay.
  @discardableResult
  package func drain(observer: (any DrainObserver)? = nil) throws(MarfaError) -> DrainReport {
    try copy.requireWriter()
    try turn.begin()
    defer { turn.end() }
    try requireView()
    try copy.checkStop()
    try takeBack()
    // Two counts, each by its own index: asked together they would read every write ever answered.
    let owed = try table.count("owed_read = 1") + table.count("landed IS NOT NULL")
    let unanswered = try table.count("verdict IS NULL")
    let names = try copy.bodies.hasWaiting()
    guard owed + unanswered > 0 || names else { return DrainReport() }
    return try Drain(self, observer).run()
  }

  private func requireView() throws(MarfaError) {
    switch try copy.hydration() {
    case .complete: return
    case .never: throw MarfaError(.noCursor, "the copy was never filled, so its writes can't be sent yet")
    case .inProgress: throw incomplete()
    case .stale:
      throw .expired("stale", "the server's log no longer reaches back to the copy; it must be filled again first")
    case .expired:
      let reason = try store.text(.expiredReason)?.string ?? "expired"
      throw .expired(reason, "the copy has ended (\(reason)); it must be filled again before it sends")
    }
  }

  /// What blocked by itself is tried again by itself (Q27.1).
  private func takeBack() throws(MarfaError) {
    try store.transaction {
      try store.database.run(
        """
        UPDATE queue SET verdict = NULL, reason = NULL, answer = NULL, answered_at = NULL
        WHERE verdict = 'blocked' AND reason IN ('credential_refused', 'awaiting_dependency')
        """)
    }
  }
}

/// One pass over the queue. What is sent, when, and what ends it; settling and reading are in the files beside.
final class Drain {
  /// Most writes out at once (Q9.11).
  static let width = 16
  /// How long a write in flight is waited for once a stop was asked for (H12).
  static let grace = 5

  let queue: WriteQueue
  let observer: (any DrainObserver)?
  var report = DrainReport()
  /// Why the pass sends nothing more, where a failure of the way to the server ended it.
  var unavailable: String?
  /// Whether a refused credential ended it.
  var isStopped = false
  /// The error that ends the drain once what is out has been settled.
  var failure: MarfaError?
  /// Whether an accepted write moved the read view (Q44.10, Q54.6).
  var movedView = false
  /// Writes answered in this pass whose row is to be read.
  var toRead: [QueuedWrite] = []

  private var pending: [Int] = []
  private var place = 0
  private var lastSeen = 0
  /// Writes to be judged again, in order, ahead of the rest.
  private var woken: [Int] = []
  private var waiters: [EntityID: [Int]] = [:]
  /// Writes that wait for one to come back, whatever of it, by the server's order alone.
  private var deferred: [(seq: Int, lane: Lane, behind: Int)] = []
  private var inFlight: [Int: Attempt] = [:]
  /// Writes counted already, so that the end of the pass does not count them again.
  var counted: Set<Int> = []
  private var isFirst = true
  /// How many more requests the server's limit lets through, as it last said (P6.3); nil where it says none.
  var rateLeft: Int?
  /// How long until the limit begins anew, in seconds.
  var rateWait = 1

  struct Attempt {
    var write: QueuedWrite
    var credential: String
    var lane: Lane
    var isSecond = false
  }

  var copy: WorkingCopy { queue.copy }
  var table: QueueTable { queue.table }
  var store: Store { queue.store }
  var sabotage: Sabotage { queue.context.sabotage }
  var mayGoOn: Bool { unavailable == nil && !isStopped && failure == nil && !copy.stop.isSet }

  init(_ queue: WriteQueue, _ observer: (any DrainObserver)?) {
    self.queue = queue
    self.observer = observer
  }

  func run() throws(MarfaError) -> DrainReport {
    do throws(MarfaError) { try copy.confirmInstance() } catch {
      // An instance that can't be confirmed is sent nothing, and nothing is counted against the writes (Q60.2).
      try environmental(error)
    }
    if mayGoOn { try readOwedFirst() }
    // Names that wait are asked before anything is sent, and their edges go in this pass (D95.3).
    if mayGoOn { try copy.bodies.tryNames() }
    let synchronous = try lazily()
    defer { try? store.database.execute("PRAGMA synchronous = \(synchronous)") }
    try loadPending()
    try send()
    if mayGoOn { try readAnswered() }
    return try end()
  }

  /// Takes what a rate limit asks for: of a read, or of the renewal of a sign-in, as of a write (Q17.7).
  func takeLimit(_ error: MarfaError) {
    guard error.code == .rateLimited || error.server?.status == 429 else { return }
    report.isRateLimited = true
    if let wait = error.retryAfter { report.takeWait(wait) }
  }

  /// Takes an error of a request the drain made itself: a failure of the way ends the pass, any other ends the drain.
  func environmental(_ error: MarfaError) throws(MarfaError) {
    guard error.isEnvironmental else { throw error }
    unavailable = unavailable ?? error.message
    // A read's wait counts where it is a 429's (Q17.7).
    takeLimit(error)
  }

  /// A verdict lost with the power is told again under its key, so settling needs no sync of its own; putting a write on the
  /// wire does. Returns the setting to go back to.
  private func lazily() throws(MarfaError) -> Int {
    try store.read {
      let before = try store.database.one("PRAGMA synchronous") { $0.int(0) } ?? 2
      try store.database.execute("PRAGMA synchronous = NORMAL")
      return before
    }
  }

  // MARK: Sending

  private func loadPending() throws(MarfaError) {
    pending = try store.read {
      try store.database.all("SELECT seq FROM queue WHERE verdict IS NULL AND seq > ? ORDER BY seq", lastSeen) {
        $0.int(0)
      }
    }
    place = 0
    lastSeen = max(lastSeen, pending.last ?? 0)
  }

  private func send() throws(MarfaError) {
    let giveUp = StopFlag()
    let stop = copy.stop
    // The pool outlives a stop by the grace of H12; the real transport blocks in it, so a timer of its own ends the wait.
    let token = stop.onSet {
      DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(Drain.grace)) { giveUp.set(.stopped) }
    }
    defer { stop.forget(token) }
    let pool = queue.context.transport.pool(stop: giveUp)
    while true {
      if mayGoOn { try fill(pool) }
      guard let first = pool.next() else {
        guard mayGoOn, hasCandidate else { break }
        continue
      }
      var came = [first]
      while came.count < Drain.width {
        if let next = pool.ready() {
          came.append(next)
        } else if waitsForMore(than: came.count), let next = pool.next() {
          came.append(next)
        } else {
          break
        }
      }
      var answers: [(result: Result<HTTPResponse, TransportError>, attempt: Attempt)] = []
      for (tag, result) in came {
        if let attempt = inFlight.removeValue(forKey: tag) { answers.append((result, attempt)) }
      }
      if !answers.isEmpty { isFirst = false }
      try take(answers, pool)
      for (_, attempt) in answers where inFlight[attempt.write.seq] == nil {
        let tag = attempt.write.seq
        for waiting in deferred where waiting.behind == tag { putBack(waiting.seq) }
        deferred.removeAll { $0.behind == tag }
      }
    }
  }

  /// Whether answers are gathered on before what came is recorded. A window is refilled by halves, so nothing goes out before
  /// half of it is back, and what comes until then shares a commit. Not while bytes go up, which may take their time.
  private func waitsForMore(than came: Int) -> Bool {
    mayGoOn && hasCandidate && inFlight.count - came > Drain.width / 2
      && !inFlight.values.contains { $0.write.kind == .uploadBlob }
  }

  private var hasCandidate: Bool { !woken.isEmpty || place < pending.count }

  private func next() throws(MarfaError) -> Int? {
    if !woken.isEmpty, place >= pending.count || woken[0] < pending[place] { return woken.removeFirst() }
    if place >= pending.count {
      // A settling caller may have queued more; they go in this pass.
      try loadPending()
      if pending.isEmpty { return nil }
    }
    place += 1
    return pending[place - 1]
  }

  private func putBack(_ seq: Int) { woken.insert(seq, at: woken.firstIndex { $0 > seq } ?? woken.count) }

  /// Gathers a window of writes that may go, makes them durably `sent` in one commit, then puts them on the wire.
  private func fill(_ pool: any RequestPool) throws(MarfaError) {
    // Paced by what the limit leaves: none is sent to be refused.
    let width = isFirst ? 1 : min(Drain.width, rateLeft ?? Drain.width)
    if width <= 0 {
      guard inFlight.isEmpty, hasCandidate else { return }
      unavailable = unavailable ?? "\(copy.server.origin) lets no more requests through for \(rateWait) s"
      report.isRateLimited = true
      report.takeWait(rateWait)
      return
    }
    // Refilled by halves, so that a window shares its commit.
    guard inFlight.count <= width / 2, !inFlight.values.contains(where: \.lane.isAlone) else { return }
    let credential: String
    do throws(MarfaError) { credential = try copy.server.currentCredential() } catch {
      // A sign-in that cannot be renewed now is a server out of reach.
      if error.isEnvironmental { return try environmental(error) }
      failure = error
      return
    }
    var window: [(attempt: Attempt, request: HTTPRequest)] = []
    while inFlight.count + window.count < width, let seq = try next() {
      guard !counted.contains(seq), let head = try table.head(seq: seq), head.verdict == nil else { continue }
      let readiness: Readiness =
        sabotage.breaks(.queueOrderIgnored)
        ? .ready : try Readiness.of(head, entry: { (id) throws(MarfaError) in try self.table.head(id) })
      if case .held(let blocker) = readiness {
        waiters[blocker, default: []].append(seq)
        continue
      }
      guard var write = try table.entry(seq: seq) else { continue }
      write.readBody()
      if case .refused(let kind, let verdict) = readiness {
        try refuseUnsent(write, Readiness.reason(kind, verdict))
        continue
      }
      let lane = try lane(write)
      if lane.isAlone, !(inFlight.isEmpty && window.isEmpty && deferred.isEmpty) {
        // Nothing later passes it.
        putBack(seq)
        break
      }
      if let ahead = ahead(of: lane, seq, window.map(\.attempt)) {
        deferred.append((seq, lane, ahead))
        continue
      }
      if sabotage.breaks(.newKeyOnRetry), write.sent { write.idempotencyKey = queue.context.ids.next().text }
      guard let request = try request(&write, credential) else { continue }
      write.sent = true
      window.append((Attempt(write: write, credential: credential, lane: lane), request))
      if lane.isAlone { break }
    }
    if window.isEmpty { return }
    if !sabotage.breaks(.sentNotRecorded) {
      try durably { () throws(MarfaError) in try table.markSent(window.map(\.attempt.write)) }
    }
    for (attempt, _) in window { inFlight[attempt.write.seq] = attempt }
    pool.start(window.map { (request: $0.request, tag: $0.attempt.write.seq) })
  }

  /// The write that must come back before one of a lane may go: one that is out, or what one that waits its turn waits for.
  private func ahead(of lane: Lane, _ seq: Int, _ window: [Attempt]) -> Int? {
    let out = (Array(inFlight.values) + window).sorted { $0.write.seq < $1.write.seq }
    if let attempt = out.first(where: { $0.lane.comesBefore(lane) }) { return attempt.write.seq }
    return deferred.first { $0.seq < seq && $0.lane.comesBefore(lane) }?.behind
  }

  /// A commit that is on the disk when it returns: nothing goes out before (Q3.3, architecture "durable before the wire").
  private func durably(_ work: () throws(MarfaError) -> Void) throws(MarfaError) {
    if !sabotage.breaks(.sentNotDurable) {
      try store.read { try store.database.execute("PRAGMA synchronous = FULL") }
    }
    defer { try? store.database.execute("PRAGMA synchronous = NORMAL") }
    try store.transaction(work)
  }

  private func lane(_ write: QueuedWrite) throws(MarfaError) -> Lane {
    let catalog = try store.catalog()
    var type: Text?
    var cascades = false
    if let id = write.edgeID {
      type = write.body?["edge_type"]?.text
      if type == nil { type = try store.edge(id)?.type }
      if type == nil { type = try store.serverEdge(id)?.type }
      if type == nil { type = try table.all("edge = ? AND kind = 'create_edge'", id).last?.body?["edge_type"]?.text }
    } else if write.kind == .deleteItem, let id = write.itemID {
      cascades = try store.edges(where: "source = ?", [id]).contains {
        catalog.edgeTypes[$0.type]?.definition["cascade_on_delete"]?.text == "cascade"
      }
    }
    return Lane(write, edgeType: type.flatMap { catalog.edgeTypes[$0] }, cascades: cascades)
  }

  /// The request of a write; nil where it settled or was left instead (chapter 8, steps 7.4 to 7.6).
  private func request(_ write: inout QueuedWrite, _ credential: String) throws(MarfaError) -> HTTPRequest? {
    if write.kind == .deleteItem, write.baseVersion ?? 0 == 0 {
      try refuseUnsent(write, "the server confirmed no version for the delete to name")
      return nil
    }
    var bytes: (body: HTTPBody, size: Int64)?
    if write.kind == .uploadBlob {
      guard let opened = try upload(write) else { return nil }
      bytes = opened
    }
    guard let door = Door.request(write, upload: bytes?.body) else {
      try countUnmade(write)
      return nil
    }
    var request = try copy.server.made(
      door.method, door.path, body: door.body, headers: door.headers, credential: credential)
    // An answer comes once the bytes are up.
    if let size = bytes?.size { request.answerTimeout += UInt64(max(0, size)) / 32_768 * 1_000_000_000 }
    return request
  }

  /// The bytes of an upload; nil where they are gone (refused unsent, Q37.3) or can't be opened now (left, Q37.4).
  private func upload(_ write: QueuedWrite) throws(MarfaError) -> (body: HTTPBody, size: Int64)? {
    guard let hash = write.blob else { return (.none, 0) }
    let found: (body: HTTPBody, size: Int64)?
    do throws(FileError) { found = try bytes(hash) } catch {
      var left = write
      left.reason = Text("the bytes sha256:\(hash.hex) can't be opened now: \(error.description)")
      report.verdicts.append(DrainReport.Entry(left))
      report.undelivered += 1
      counted.insert(write.seq)
      return nil
    }
    if let found {
      guard let limit = copy.uploadLimit, found.size > limit else { return found }
      var left = write
      left.reason = DrainReport.spares
      report.verdicts.append(DrainReport.Entry(left))
      report.held += 1
      counted.insert(write.seq)
      return nil
    }
    try refuseUnsent(write, Text("the bytes sha256:\(hash.hex) are gone from beside the store"))
    return nil
  }

  private func bytes(_ hash: ContentHash) throws(FileError) -> (body: HTTPBody, size: Int64)? {
    guard let file = try copy.blobs.open(hash) else { return nil }
    let size = Int64(try file.status().size)
    if let path = copy.blobs.path(hash) { return (.file(path, size: size), size) }
    return try copy.blobs.bytes(hash).map { (.bytes($0), size) }
  }

  // MARK: What an answer lets go

  /// Judges again the writes that waited for one, in order, before the rest.
  func wake(_ id: EntityID) {
    for seq in waiters.removeValue(forKey: id) ?? [] { putBack(seq) }
  }

  /// Sends a write once more, under its key, with a renewed credential.
  func sendAgain(_ attempt: Attempt, credential: String, _ pool: any RequestPool) throws(MarfaError) {
    var write = attempt.write
    guard let request = try request(&write, credential) else { return }
    inFlight[write.seq] = Attempt(
      write: write, credential: credential, lane: attempt.lane, isSecond: true)
    pool.start(request, tag: write.seq)
  }

  // MARK: The end

  private func end() throws(MarfaError) -> DrainReport {
    if let failure { throw failure }
    if isStopped {
      try park()
      report.unavailable = unavailable
      try expireMovedView()
      return report
    }
    // A stop leaves the rest as it is, under its keys (Q61.1).
    try copy.checkStop()
    try account()
    report.unavailable = unavailable
    let isWhole = unavailable == nil && report.undelivered == 0 && report.retryAfterSeconds == nil
    if let expiry = try expireMovedView(), isWhole { throw expiry }
    return report
  }

  /// An accepted change of a type or of an edge's source is another read view: the copy ends, once, after the last write.
  @discardableResult
  private func expireMovedView() throws(MarfaError) -> MarfaError? {
    guard movedView else { return nil }
    return try copy.expire(
      "read_view_changed", "a write moved what the copy may read, so it must be filled again; the queue is kept")
  }

  /// Counts and marks what the pass came to without sending it (Q6.9, Q6.10, Q24.1).
  private func account() throws(MarfaError) {
    let rest = try table.all("verdict IS NULL").filter { !counted.contains($0.seq) }
    try store.transaction {
      for var write in rest {
        let readiness = try Readiness.of(write) { (id) throws(MarfaError) in try self.table.head(id) }
        guard case .held = readiness else {
          report.undelivered += 1
          continue
        }
        report.held += 1
        write.verdict = .blocked
        write.reason = Text(BlockedReason.awaitingDependency.rawValue)
        try table.update(write)
      }
    }
  }

  /// Every unanswered write waits for another credential (Q20).
  private func park() throws(MarfaError) {
    try store.transaction {
      try store.database.run(
        "UPDATE queue SET verdict = 'blocked', reason = 'credential_refused' WHERE verdict IS NULL")
    }
    let parked = try table.count("verdict = 'blocked' AND reason = 'credential_refused'")
    report.stopped = "credential refused by the server: drain stopped, \(parked) queued write(s) parked"
  }
}

import MarfaBase

/// How a run over the copy stream ended.
enum RunEnd: Sendable {
  /// `stream_live` came and the caller wanted no more.
  case live
  /// The reader was told to stop for a reason of its own (reopen, a stop).
  case closed
  /// The server ended it, or sent `stream_incomplete`.
  case ended(String)
}

extension WorkingCopy {
  /// Takes every event from the cursor to the head (device chapter 6). Both catalogs are read first (D15.1).
  /// - Parameter triesNames: whether names of bodies that wait are tried at its end (D95.3); a drain does so itself.
  /// - Throws: `no_cursor`, `hydration_incomplete` and `copy_expired` for a copy that cannot be caught up;
  ///   `stream_incomplete` for a stream that ended before its live marker, the cursor at the last event taken.
  @discardableResult
  package func catchUp(triesNames: Bool = true) throws(MarfaError) -> CatchUpReport {
    try requireWriter()
    try checkStop()
    let certificate = try requireCertificate()
    guard let slice = try slice() else { throw MarfaError(.noCursor, "the working copy was never filled") }
    try confirmPlace()
    try refreshCatalogs(view: certificate.view)
    let taker = EventTaker(
      copy: self, slice: slice, certificate: certificate, generation: try store.int(.copyGeneration) ?? 0)
    try replay(taker, certificate)
    if triesNames { try bodies.tryNames() }
    return CatchUpReport(applied: taker.applied, skipped: taker.skipped, cursor: taker.cursor, reachedHead: true)
  }

  /// Runs the stream from a certificate to its live marker.
  func replay(_ taker: EventTaker, _ certificate: Certificate) throws(MarfaError) {
    let started = context.clock.monotonic
    let end = try run(taker, certificate, silence: ServerConnection.Silence.catchUp) { (_, isLive) throws(MarfaError) in
      if isLive { return .enough }
      return context.clock.monotonic - started > 120_000_000_000 ? .enough : .more
    }
    switch end {
    case .live: return
    case .closed:
      try checkStop()
      throw MarfaError(
        .streamIncomplete, "the event stream did not reach its end in two minutes; the next catch-up goes on from there"
      )
    case .ended(let why): throw MarfaError(.streamIncomplete, why)
    }
  }

  /// Reads a copy stream from a certificate: judges its markers and terminal frames, hands its log events to `taker`.
  /// - Parameters:
  ///   - opened: called once the stream has told its head, before any event.
  ///   - tell: told each event that changed the copy, after its transaction.
  ///   - step: asked after each piece, with whether `tell` had enough and whether the stream is live.
  func run(
    _ taker: EventTaker, _ certificate: Certificate, silence: UInt64, tell: (CopyChange) -> StreamStep = { _ in .more },
    opened: () -> Void = {}, step: (_ hadEnough: Bool, _ isLive: Bool) throws(MarfaError) -> StreamStep
  ) throws(MarfaError) -> RunEnd {
    var hadEnough = false
    func take(_ events: [ServerEvent], stops: Bool = true) throws(MarfaError) {
      for change in try taker.take(events, stops: stops) where tell(change) == .enough { hadEnough = true }
      if let failure = taker.failure { throw failure }
    }
    var isOpened = false
    var isLive = false
    var incomplete: String?
    var firstByte: UInt64?
    // Until the stream is live nobody waits for a single event: they are gathered, so that many share a commit.
    var log: [ServerEvent] = []
    var size = 0
    func takeGathered(stops: Bool = true) throws(MarfaError) {
      let batch = log
      log = []
      size = 0
      try take(batch, stops: stops)
    }
    let end: StreamEnd
    do throws(MarfaError) {
      end = try server.copyStream(from: (certificate.cursor, certificate.view), silence: silence) {
        (events) throws(MarfaError) in
        let now = context.clock.monotonic
        let begun = firstByte ?? now
        firstByte = begun
        // Comments alone are not how a catch-up begins (EV16.2).
        if !isOpened, silence == ServerConnection.Silence.catchUp, events.isEmpty, now - begun >= silence {
          incomplete = "the event stream told nothing in the time it has to begin"
          return .enough
        }
        for event in events {
          if event.id != nil, isOpened {
            log.append(event)
            size += event.data.count
            continue
          }
          try takeGathered()
          if taker.wantsReopen { return .enough }
          switch event.name.string {
          case "stream_cursor":
            try judge(try marker(event, certificate), against: certificate)
            isOpened = true
            opened()
          case "stream_live":
            try taker.take(live: try marker(event, certificate))
            isLive = true
          case "stream_incomplete":
            let reason = try? ServerConnection.data(event)["reason"]?.text
            incomplete =
              reason.map { "the server ended the event stream: \($0)" } ?? "the server ended the event stream"
            return .enough
          default: try terminal(event)
          }
        }
        if isLive || log.count >= 1024 || size >= 1 << 22 { try takeGathered() }
        return taker.wantsReopen ? .enough : try step(hadEnough, isLive)
      }
    } catch {
      // What came before the stream broke is taken all the same.
      if !log.isEmpty { try takeGathered(stops: false) }
      throw try judged(opening: error, certificate)
    }
    try takeGathered(stops: false)
    if let incomplete { return .ended(incomplete) }
    switch end {
    case .closed: return isLive ? .live : .closed
    case .ended: return .ended("the event stream ended before it was live")
    case .silent:
      return isLive ? .ended("the event stream kept silent") : .ended("the event stream fell silent before it was live")
    }
  }

  /// A refused opening: a view that moved and a credential that ended end the copy (D52.8, D53.2).
  private func judged(opening error: MarfaError, _ certificate: Certificate) throws(MarfaError) -> MarfaError {
    switch (error.code, error.server?.code) {
    case (.conflict, "read_view_changed"):
      return try expire(
        "read_view_changed", "what the key may read, or how rows are typed, changed; the copy must be filled again")
    case (.unauthorized, _):
      return try expire("credential_ended", error.message)
    case (.signedOut, _):
      // A renewal found the sign-in ended: the copy ends with it, and the caller hears that a new one is needed (ER15.2).
      _ = try expire("credential_ended", error.message)
      return error
    default: return error
    }
  }

  private func marker(_ event: ServerEvent, _ certificate: Certificate) throws(MarfaError) -> Marker {
    guard let marker = Marker(try ServerConnection.data(event), named: event.name) else {
      throw try invalidProof("a marker of the event stream is malformed")
    }
    guard marker.instance == certificate.instance else {
      throw try expire(
        "instance_changed",
        "the instance \(marker.instance) answers at \(server.origin), not \(certificate.instance) (read_view_invalid)")
    }
    guard marker.view == certificate.view else {
      throw try invalidProof("a marker of the event stream names another read view")
    }
    return marker
  }

  private func judge(_ head: Marker, against certificate: Certificate) throws(MarfaError) {
    guard let position = Certificate.position(certificate.cursor), head.position < position else { return }
    throw try expire(
      "head_past_log",
      "the server's log ends at \(head.cursor), behind \(certificate.cursor) this copy reached: it was set back")
  }

  /// The frames that end a stream and say what becomes of the copy (D16, EV23). Unknown names without an id are passed.
  private func terminal(_ event: ServerEvent) throws(MarfaError) {
    switch event.name.string {
    case "catchup_too_old" where context.sabotage.breaks(.staleCursorKept):
      let oldest = try ServerConnection.data(event)["min_retained_id"]?.text ?? "0"
      try store.transaction { try store.set(.eventCursor, oldest) }
      throw MarfaError(.streamIncomplete, "sabotaged")
    case "catchup_too_old":
      // A text or a number (EV9.3).
      let oldest = try ServerConnection.data(event)["min_retained_id"]
      let minimum = oldest?.text ?? oldest?.number.map { Text($0.literal) }
      throw try goStale(minimum: minimum ?? "a later position")
    case "cursor_ahead":
      let data = try ServerConnection.data(event)
      throw try expire(
        "head_past_log",
        "the server's log ends at \(data["head"]?.text ?? "?"), behind \(data["requested"]?.text ?? "?") this copy reached: "
          + "it was set back")
    case "read_view_changed":
      throw try expire(
        "read_view_changed", "what the key may read, or how rows are typed, changed; the copy must be filled again")
    default: return
    }
  }
}

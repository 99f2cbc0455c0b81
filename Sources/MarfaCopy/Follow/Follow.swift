import MarfaBase

extension WorkingCopy {
  /// Holds the copy stream: a catch-up that does not end at the head (device chapter 7). Events are taken as they come,
  /// each that changed the copy told after its transaction; a stream that ends, drops or falls silent is opened again.
  /// - Parameters:
  ///   - wasUnreachable: whether the caller was last told `server.unreachable` by an earlier follow (D40.15).
  ///   - drains: whether the queue is drained once each time the server is back (D205.2).
  ///   - refills: whether a copy whose position the log let go is filled again in place and followed on (D203.10); without,
  ///     it stays stale and the follow ends.
  ///   - onDrain: told what each such drain did; one that failed leaves the rest queued for the next return (D205.5).
  ///   - onChange: told each change; `.enough` ends the follow.
  /// - Returns: the report, once told to stop or once `onChange` had enough.
  /// - Throws: what ends it for good: the copy's end, another contract, a redirect, a refusal no wait mends (D40.9).
  package func follow(
    wasUnreachable: Bool = false, drains: Bool = false, refills: Bool = false,
    onDrain: (Result<DrainReport, MarfaError>) -> Void = { _ in }, onChange: (CopyChange) -> StreamStep
  ) throws(MarfaError) -> FollowReport {
    try requireWriter()
    var report = FollowReport()
    var loop = FollowLoop(isTold: wasUnreachable, owesDrain: drains && wasUnreachable)
    while !stop.isSet, !loop.isDone {
      let opened = context.clock.monotonic
      var failure: MarfaError
      do throws(MarfaError) {
        failure = try followOnce(&loop, &report, onDrain, onChange)
        if loop.isReopening { continue }
      } catch {
        failure = error
        // The copy ended; the follow ends with what refused it (EV24.3).
        if error.code == .copyExpired, error.reason == "credential_ended" {
          failure = MarfaError(.unauthorized, error.message, server: error.server ?? .init(status: 401))
        }
        if refills, error.code == .copyExpired, error.reason == "catchup_too_old" {
          do throws(MarfaError) {
            try refill(&loop, onChange)
            continue
          } catch { failure = error }
        }
      }
      loop.asked = []
      if stop.isSet || loop.isDone || failure.code == .canceled { break }
      guard failure.isEnvironmental || failure.code == .streamIncomplete else { throw failure }
      report.lastFailure = failure.message
      report.reconnects += 1
      if loop.wasOpened, context.clock.monotonic - opened >= 30_000_000_000 { loop.wait = 1 }
      if !loop.wasOpened {
        report.failedOpens += 1
        if !loop.isTold {
          loop.isTold = true
          loop.owesDrain = drains
          let news = CopyChange(
            event: "server.unreachable", cursor: try store.text(.eventCursor), reason: failure.message)
          if onChange(news) == .enough { break }
        }
      }
      let seconds = max(UInt64(loop.wait), UInt64(min(300, failure.retryAfter ?? 0)))
      loop.wait = min(30, loop.wait * 2)
      context.scheduler.wait(nanoseconds: seconds * 1_000_000_000, unless: stop)
    }
    report.cursor = try store.text(.eventCursor) ?? report.cursor
    return report
  }

  /// What a follow remembers between the streams it opens.
  private struct FollowLoop {
    /// Whether the caller knows the server to be out of reach.
    var isTold: Bool
    /// Whether the queue is to be drained once the server answers.
    var owesDrain: Bool
    var isDone = false
    /// The stream ended to be opened at once: its two minutes are over, or a catalog must be read.
    var isReopening = false
    var wasOpened = false
    /// Seconds to wait before the next opening.
    var wait = 1
    var asked: Set<Text> = []
  }

  /// One opening: the root, both catalogs, the stream (D40.6). Returns why it ended.
  private func followOnce(
    _ loop: inout FollowLoop, _ report: inout FollowReport, _ onDrain: (Result<DrainReport, MarfaError>) -> Void,
    _ onChange: (CopyChange) -> StreamStep
  ) throws(MarfaError) -> MarfaError {
    loop.isReopening = false
    loop.wasOpened = false
    _ = try requireCertificate()
    guard let slice = try slice() else { throw MarfaError(.noCursor, "the working copy was never filled") }
    try confirmInstance()
    if loop.owesDrain { drainOnce(&loop, onDrain) }
    // A drain may have ended the copy.
    let certificate = try requireCertificate()
    if try refreshCatalogs(view: certificate.view) {
      if onChange(CopyChange(event: "catalog.changed", cursor: certificate.cursor)) == .enough { loop.isDone = true }
    }
    let taker = EventTaker(
      copy: self, slice: slice, certificate: certificate, generation: try store.int(.copyGeneration) ?? 0,
      asked: loop.asked)
    taker.reopensForCatalog = true
    var isDone = loop.isDone
    var isTold = loop.isTold
    var wasOpened = false
    let opened = context.clock.monotonic
    var outlived = false
    defer {
      report.applied += taker.applied
      report.skipped += taker.skipped
      loop.isDone = isDone
      loop.isTold = isTold
      loop.wasOpened = wasOpened
      loop.asked = taker.wantsReopen ? taker.asked : []
    }
    let end = try run(
      taker, certificate, silence: ServerConnection.Silence.held, tell: onChange,
      opened: {
        wasOpened = true
        guard isTold else { return }
        isTold = false
        if onChange(CopyChange(event: "server.reachable", cursor: taker.cursor)) == .enough { isDone = true }
      }
    ) { (hadEnough, _) throws(MarfaError) in
      if hadEnough { isDone = true }
      outlived = context.clock.monotonic - opened >= 120_000_000_000
      return isDone || outlived || stop.isSet ? .enough : .more
    }
    loop.isReopening = taker.wantsReopen || (outlived && !isDone)
    switch end {
    case .live, .closed: return MarfaError(.streamIncomplete, "the event stream was closed")
    case .ended(let why): return MarfaError(.streamIncomplete, why)
    }
  }

  /// Sends what was queued while the server was away.
  private func drainOnce(_ loop: inout FollowLoop, _ onDrain: (Result<DrainReport, MarfaError>) -> Void) {
    loop.owesDrain = false
    let told: Result<DrainReport, MarfaError>
    do throws(MarfaError) {
      guard try queue.unansweredCount() + queue.blockedCount() > 0 else { return }
      told = .success(try queue.drain())
    } catch { told = .failure(error) }
    onDrain(told)
  }

  /// Fills a stale copy in place, and says so.
  private func refill(
    _ loop: inout FollowLoop, _ onChange: (CopyChange) -> StreamStep
  ) throws(MarfaError) {
    guard let slice = try slice() else { throw MarfaError(.noCursor, "the working copy was never filled") }
    let filled = try hydrate(slice, inPlaceOnly: true)
    if onChange(CopyChange(event: "copy.refreshed", cursor: filled.cursor)) == .enough { loop.isDone = true }
  }
}

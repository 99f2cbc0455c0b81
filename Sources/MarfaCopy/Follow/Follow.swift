import MarfaBase

extension WorkingCopy {
  /// Holds the copy stream: a catch-up that does not end at the head (device chapter 7). Events are taken as they come,
  /// each that changed the copy told after its transaction; a stream that ends, drops or falls silent is opened again.
  /// - Parameters:
  ///   - wasUnreachable: whether the caller was last told `server.unreachable` by an earlier follow (D40.15).
  ///   - onChange: told each change; `.enough` ends the follow.
  /// - Returns: the report, once told to stop or once `onChange` had enough.
  /// - Throws: what ends it for good: the copy's end, another contract, a redirect, a refusal no wait mends (D40.9).
  package func follow(
    wasUnreachable: Bool = false, onChange: (CopyChange) -> StreamStep
  ) throws(MarfaError) -> FollowReport {
    try requireWriter()
    var report = FollowReport()
    var loop = FollowLoop(isTold: wasUnreachable)
    while !stop.isSet, !loop.isDone {
      let opened = context.clock.monotonic
      var failure: MarfaError
      do throws(MarfaError) {
        failure = try followOnce(&loop, &report, onChange)
        if loop.isReopening { continue }
      } catch {
        failure = error
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
    _ loop: inout FollowLoop, _ report: inout FollowReport, _ onChange: (CopyChange) -> StreamStep
  ) throws(MarfaError) -> MarfaError {
    loop.isReopening = false
    loop.wasOpened = false
    let certificate = try requireCertificate()
    guard let slice = try slice() else { throw MarfaError(.noCursor, "the working copy was never filled") }
    try confirmInstance()
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
}

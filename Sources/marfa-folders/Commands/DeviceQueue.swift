import MarfaBase
import MarfaCopy

/// `device queue`, `drain`, `forget`, `discard`, `release` and `withdraw`.
func deviceQueueDoors() -> [Command] {
  let write = Argument("ID", "The queued write.")
  return [
    Command(name: "queue", summary: "the writes that wait or are kept", run: queue),
    Command(
      name: "drain", summary: "send what waits",
      discussion: "Leaves by 5 where the credential was refused, by 3 where something stayed undelivered, else by 0.",
      run: drain),
    Command(name: "forget", summary: "clear the answered writes", run: forget),
    Command(name: "discard", summary: "drop a refused or dead write", arguments: [write], run: discard),
    Command(
      name: "release", summary: "let a blocked write go again",
      options: [Option("reason", .oneOf(BlockedReason.allCases.map(\.rawValue)), "All that are blocked for it.")],
      arguments: [Argument("ID", optional: true, "The queued write.")], run: release),
    Command(name: "withdraw", summary: "take an unsent write back", arguments: [write], run: withdraw),
  ]
}

/// Queued writes in words (C26.9).
enum QueueWords {
  /// One write: kind, subject, verdict, reason, what the refusal says, what it waits on.
  /// - Parameter entries: the queue, where it is printed whole: it then names the one write that is waited on, while it is
  ///   (Q59.5). A write just queued says how many it waits on (Q59.4).
  static func line(_ write: QueuedWrite, among entries: [QueuedWrite]? = nil) -> String {
    var line = "\(write.id) \(write.kind.rawValue)"
    if let subject = write.edgeID ?? write.itemID { line += " \(subject)" }
    if let tag = write.tag { line += " '\(tag)'" }
    line += " \(write.verdict?.rawValue ?? "unanswered")"
    if let reason = write.reason { line += ": \(reason)" }
    if let refusal = write.refusal { line += said(refusal) }
    if write.refusals > 0 { line += ", \(write.refusals)/5 refused" }
    if let entries {
      let open =
        write.isWaiting ? write.dependsOn.filter { id in entries.contains { $0.id == id && $0.isAwaited } } : []
      if open.count == 1 { line += ", waiting on \(open[0])" }
      if open.count > 1 { line += ", waiting on \(open.count) writes" }
    } else if !write.dependsOn.isEmpty {
      line += ", waiting on \(write.dependsOn.count)"
    }
    if let ahead = write.follows, write.isWaiting { line += ", after \(ahead)" }
    return line
  }

  /// One verdict of a drain.
  static func line(_ entry: DrainReport.Entry) -> String {
    var line = "\(entry.kind.rawValue)"
    if let subject = entry.edgeID ?? entry.itemID { line += " \(subject)" }
    line += " \(entry.verdict?.rawValue ?? "unanswered")"
    if let reason = entry.reason { line += ": \(reason)" }
    if let refusal = entry.refusal { line += said(refusal) }
    return line
  }

  private static func said(_ refusal: Refusal) -> String {
    var words = ""
    if let message = refusal.message { words += " (\(message))" }
    if refusal.trashed { words += ", the item is in the bin" }
    if let grant = refusal.grant { words += ", the key lacks \(grant.level) on \(grant.name)" }
    for field in refusal.fields { words += ", \(field.field): \(field.message)" }
    return words
  }
}

@Sendable private func queue(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let writes = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.all() }
  if writes.isEmpty { invocation.program.output.note("Nothing is queued.") }
  invocation.program.output.answer(.array(writes.map(\.json)), writes.map { QueueWords.line($0, among: writes) })
  return 0
}

@Sendable private func drain(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let store = try DeviceStore(invocation)
  let report = try store.use(asks: true) { (copy) throws(MarfaError) in
    try DeviceStore.refuseWaitingFirstSync(copy, store.path)
    return try copy.queue.drain()
  }
  var lines = report.verdicts.map { QueueWords.line($0) }
  lines += drainWords(report)
  invocation.program.output.answer(report.json, lines)
  // C4.2: the report was printed; it alone says how to leave.
  return Int32(report.exit)
}

/// The counts of a drain and why it ended.
func drainWords(_ report: DrainReport) -> [String] {
  var line = "answered \(report.answered), held \(report.held)"
  if report.unsent > 0 { line += ", unsent \(report.unsent)" }
  if report.unmade > 0 { line += ", not made \(report.unmade)" }
  let refused = report.verdicts.count { $0.verdict == .refused || $0.verdict == .dead }
  if refused > 0 { line += ", refused \(refused) write(s)" }
  var lines = [line]
  lines += undeliveredWords(report)
  return lines
}

/// What a drain left undelivered, why it stopped, and each unclaimed source.
func undeliveredWords(_ report: DrainReport) -> [String] {
  var lines: [String] = []
  if report.undelivered > 0 || report.unavailable != nil {
    var line = "\(counted(report.undelivered, "write")) undelivered, kept for the next time"
    if let why = report.unavailable { line += ": \(why)" }
    if let wait = report.retryAfterSeconds { line += "; the server asks to wait \(wait) s" }
    lines.append(line)
  }
  if let why = report.stopped { lines.append("sending stopped: \(why)") }
  lines += report.unclaimedSources.map { "the key claims no source '\($0)'" }
  return lines
}

@Sendable private func forget(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let cleared = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.forget() }
  invocation.program.output.answer(.int(cleared), ["\(counted(cleared, "write")) cleared"])
  return 0
}

@Sendable private func discard(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let done = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.discard(id) }
  invocation.program.output.answer(.bool(done), [done ? "\(id) discarded" : "\(id) is not there to discard"])
  return 0
}

@Sendable private func release(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard (invocation.argument(0) != nil) != invocation.has("reason") else {
    throw MarfaError(.usage, "'release' takes either a write's ID or --reason")
  }
  let reason = invocation.value("reason").flatMap { BlockedReason(rawValue: $0.string) }
  let one: EntityID? = reason == nil ? try id(invocation) : nil
  let released = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> Int in
    if let reason { return try copy.queue.release(reason: reason) }
    return try one.map { (id) throws(MarfaError) in try copy.queue.release(id) } ?? 0
  }
  invocation.program.output.answer(.int(released), ["\(counted(released, "write")) released"])
  return 0
}

@Sendable private func withdraw(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let done = try DeviceStore(invocation).use(asks: true) { (copy) throws(MarfaError) in try copy.queue.withdraw(id) }
  invocation.program.output.answer(.bool(done), [done ? "\(id) withdrawn" : "\(id) could not be withdrawn"])
  return 0
}

import MarfaBase

/// When the instance's own jobs are due: first five seconds after its start, then hourly (V34.9).
struct Housekeeping {
  /// A job by the name its door has.
  enum Job: String, CaseIterable {
    case thinning = "version-thinning"
    case events = "event-retention"
    case bin = "trash-retention"
  }

  static let first: UInt64 = 5_000_000_000
  static let hour: UInt64 = 3_600_000_000_000

  private(set) var due: [Job: UInt64]
  /// The item a thinning under way goes on after; nil when none is.
  var thinned: String?

  init(from start: UInt64) {
    due = Dictionary(uniqueKeysWithValues: Job.allCases.map { ($0, start + Housekeeping.first) })
  }

  static let soon: UInt64 = 60_000_000_000

  /// A job met a lock of another process: it is tried again in a minute.
  mutating func postpone(_ job: Job, at now: UInt64) { due[job] = now + Housekeeping.soon }

  /// Whether a job is due now; it is next due in an hour.
  mutating func takes(_ job: Job, at now: UInt64) -> Bool {
    guard let time = due[job], now >= time else { return false }
    due[job] = now + Housekeeping.hour
    return true
  }
}

extension Instance {
  /// Runs what is due, thinning in batches of 500 items a tick. A job that fails is tried again an hour later, one that met
  /// a lock in a minute.
  func keepHouse() {
    let now = clock.monotonic
    func run(_ job: Housekeeping.Job, _ work: () throws -> Void) {
      do { try work() } catch {
        if (error as? SQLiteError)?.isBusy ?? false { housekeeping.postpone(job, at: now) }
      }
    }
    if housekeeping.takes(.events, at: now) { run(.events) { try sweep() } }
    if housekeeping.takes(.bin, at: now) { run(.bin) { _ = try retireBin() } }
    if housekeeping.takes(.thinning, at: now) { housekeeping.thinned = "" }
    if let after = housekeeping.thinned {
      housekeeping.thinned = nil
      run(.thinning) { housekeeping.thinned = try thinVersions(after: after, atMost: 500) }
    }
  }

  /// Purges what the bin's retention lets go. Gives how many items went.
  private func retireBin() throws -> Int {
    guard let days = settings.trashRetentionDays else { return 0 }
    return try purgeBin(olderThanDays: days)
  }

  /// `POST /housekeeping/{job}/run`, for whoever maintains the instance.
  func runHousekeeping(_ call: Call) throws -> Reply {
    guard call.credential.may("instance.maintain") else { throw Refusal.scope("instance.maintain") }
    try call.query.declare([])
    guard let job = Housekeeping.Job(rawValue: call.parts.first?.string ?? "") else {
      throw Refusal(404, "housekeeping_job_not_found", "No such housekeeping job.")
    }
    let started = clock.now
    let result: JSON
    switch job {
    case .thinning:
      let before = try snapshotCount()
      try thinVersions()
      result = ["removed": .int(before - (try snapshotCount()))]
    case .events:
      try sweep()
      result = ["oldest_event": try oldestEvent().map(JSON.int) ?? .null]
    case .bin: result = ["purged": .int(try retireBin())]
    }
    return .json(
      200,
      [
        "name": .string(job.rawValue), "started_at": .string(started.text), "finished_at": .string(clock.now.text),
        "outcome": "ok", "result": result, "error": nil,
      ])
  }

  private func snapshotCount() throws -> Int {
    try database.one("SELECT count(*) FROM snapshot") { $0.int(0) } ?? 0
  }
}

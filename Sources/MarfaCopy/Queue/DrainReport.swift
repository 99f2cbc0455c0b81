import MarfaBase

/// What a drain did (C26.3, chapter 12).
package struct DrainReport: Sendable {
  /// What became of one write.
  package struct Entry: Sendable {
    package var id: EntityID
    package var kind: WriteKind
    package var itemID: EntityID?
    package var edgeID: EntityID?
    package var verdict: WriteVerdict?
    package var reason: Text?
    package var conflictedCopyID: EntityID?
    package var refusals: Int
    package var replayed = false
    package var mergedFields: [Text] = []
    package var refusal: Refusal?

    /// What became of a write, as its row has it.
    package init(_ write: QueuedWrite, replayed: Bool = false, mergedFields: [Text] = []) {
      id = write.id
      kind = write.kind
      itemID = write.itemID
      edgeID = write.edgeID
      verdict = write.verdict
      reason = write.verdict == .dead ? nil : write.reason
      conflictedCopyID = write.conflictedCopyID
      refusals = write.refusals
      self.replayed = replayed
      self.mergedFields = mergedFields
      refusal = write.refusal
    }

    /// Its members.
    package var json: JSON {
      [
        "id": .string(id.text), "kind": .string(kind.rawValue), "item_id": .optional(itemID?.text),
        "edge_id": .optional(edgeID?.text), "verdict": .optional(verdict.map { Text($0.rawValue) }),
        "reason": .optional(reason), "conflicted_copy_id": .optional(conflictedCopyID?.text),
        "refusals": .int(refusals),
        "replayed": .bool(replayed), "merged_fields": .array(mergedFields.map { .string($0) }),
        "refusal": refusal?.json ?? .null,
      ]
    }
  }

  /// Writes sent that had an answer not taken as environmental (Q6.8).
  package var answered = 0
  /// Writes held for a dependency or a write ahead.
  package var held = 0
  /// Writes no answer reached, which wait uncounted (Q6.10).
  package var undelivered = 0
  /// Writes given a verdict without being sent, held and parked ones left out.
  package var unsent = 0
  /// Writes whose request could not be made.
  package var unmade = 0
  /// Why the pass ended early for want of a server.
  package var unavailable: String?
  /// That a refused credential parked the queue.
  package var stopped: String?
  /// The sources no claim of the credential covers, each once.
  package var unclaimedSources: [Text] = []
  /// The longest wait a server asked for, at most 300.
  package var retryAfterSeconds: Int?
  /// A rate limit was met, whether it named a wait or not (P6.3).
  package var isRateLimited = false
  /// An entry for each write sent or settled.
  package var verdicts: [Entry] = []

  /// A report of nothing.
  package init() {}

  /// The reason of an upload left for later because this machine spares its network or its battery (P5.3).
  package static let spares: Text = "waits for a network that is not metered, or for mains"
  /// How many were.
  package var spared: Int {
    Set(verdicts.lazy.filter { $0.verdict == nil && $0.reason == DrainReport.spares }.map(\.id)).count
  }

  /// Takes in what a later pass of the same drain did (Q6.16).
  package mutating func add(_ later: DrainReport) {
    answered += later.answered
    held = later.held
    undelivered += later.undelivered
    unsent += later.unsent
    unmade += later.unmade
    unavailable = later.unavailable ?? unavailable
    stopped = later.stopped ?? stopped
    for source in later.unclaimedSources where !unclaimedSources.contains(source) { unclaimedSources.append(source) }
    if let wait = later.retryAfterSeconds { takeWait(wait) }
    isRateLimited = isRateLimited || later.isRateLimited
    verdicts += later.verdicts
  }

  /// Takes in a server's wait (Q17.7).
  mutating func takeWait(_ seconds: Int) { retryAfterSeconds = min(300, max(retryAfterSeconds ?? 0, seconds)) }

  /// The exit status of a bare drain (Q59.2).
  package var exit: Int { stopped != nil ? 5 : unavailable != nil || undelivered > 0 ? 3 : 0 }

  /// The members of C26.3.
  package var json: JSON {
    [
      "answered": .int(answered), "held": .int(held), "undelivered": .int(undelivered), "unsent": .int(unsent),
      "unmade": .int(unmade), "unavailable": unavailable.map { .string($0) } ?? .null,
      "verdicts": .array(verdicts.map(\.json)), "stopped": stopped.map { .string($0) } ?? .null,
      "unclaimed_sources": .array(unclaimedSources.map { .string($0) }),
      "retry_after_seconds": retryAfterSeconds.map { .int($0) } ?? .null,
    ]
  }
}

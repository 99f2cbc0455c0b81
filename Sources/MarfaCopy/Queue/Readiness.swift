import MarfaBase

/// Whether a write may go now (queue.md chapter 7). Pure: it judges one write by the entries around it.
enum Readiness: Hashable {
  /// It may go.
  case ready
  /// It waits for the write named.
  case held(by: EntityID)
  /// A write it depends on was refused or is dead: it is refused without being sent (Q16.1).
  case refused(WriteKind, WriteVerdict)

  /// Judges `follows` first and `depends_on` second, so that a write the drain would refuse is held in its place while the
  /// write ahead waits, and the writes behind it do not step past (Q42.4).
  static func of(_ write: QueuedWrite, entry: (EntityID) throws(MarfaError) -> QueuedWrite?) throws(MarfaError)
    -> Readiness
  {
    var next = write.follows
    var seen: Set<EntityID> = []
    // A write ahead that was refused, is dead or blocked frees its follower (Q42.3), but not past a write further ahead
    // that has no answer yet (Q1.3).
    while let id = next, seen.insert(id).inserted, let ahead = try entry(id) {
      switch ahead.verdict {
      case nil: return .held(by: id)
      case .blocked where ahead.blockedReason == .awaitingDependency || ahead.blockedReason == .credentialRefused:
        return .held(by: id)
      case .accepted, .merged, .conflicted: next = nil
      case .refused, .dead, .blocked: next = ahead.follows
      }
    }
    for id in write.dependsOn {
      guard let dependency = try entry(id) else { return .held(by: id) }
      // Nothing goes to a row whose landing no read has found (Q39.6, QD5).
      if dependency.isUnfoundLanding { return .held(by: id) }
      switch dependency.verdict {
      case nil, .blocked: return .held(by: id)
      case .accepted, .merged, .conflicted: continue
      case .refused: return .refused(dependency.kind, .refused)
      case .dead: return .refused(dependency.kind, .dead)
      }
    }
    return .ready
  }

  /// The reason of a write refused for its dependency.
  static func reason(_ kind: WriteKind, _ verdict: WriteVerdict) -> Text {
    Text("the \(kind.rawValue) it waits for was \(verdict.rawValue)")
  }

  /// The reason of a write refused because what it waits for was withdrawn.
  static func withdrawnReason(_ kind: WriteKind) -> Text { Text("the \(kind.rawValue) it waits for was withdrawn") }
}

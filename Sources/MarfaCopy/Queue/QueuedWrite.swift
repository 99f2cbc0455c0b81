import MarfaBase

/// One entry of the queue: what C26.2 reports, and what only the queue itself needs.
package struct QueuedWrite: Sendable {
  /// The entry's own id.
  package var id: EntityID
  /// What it does.
  package var kind: WriteKind
  /// The item; for an edge write, the edge's source.
  package var itemID: EntityID?
  /// The edge's target.
  package var targetID: EntityID?
  /// The edge.
  package var edgeID: EntityID?
  /// The namespace of an extension write.
  package var namespace: Text?
  /// The tag of a tag write.
  package var tag: Text?
  /// The bytes of an upload.
  package var blob: ContentHash?
  /// The version it is based on.
  package var baseVersion: Int?
  /// The key every attempt goes under (Q3.1).
  package var idempotencyKey: Text
  /// The writes it cannot go without.
  package var dependsOn: [EntityID] = []
  /// The write ahead of it to the same row or edge.
  package var follows: EntityID?
  /// What became of it; nil while nothing was decided.
  package var verdict: WriteVerdict?
  /// A blocked reason, the server's code, or the drain's sentence.
  package var reason: Text?
  /// The server's last settling answer, whole.
  package var answer: Text? { didSet { parsedAnswer = nil } }
  /// The copy a conflict set aside.
  package var conflictedCopyID: EntityID?
  /// Counted failures, 0 to 5.
  package var refusals = 0
  /// When it was queued.
  package var queuedAt: Timestamp
  /// When it was answered.
  package var answeredAt: Timestamp?

  /// Its place in the order of sending.
  var seq = 0
  /// The MIME type of an upload.
  package var mimeType: Text?
  /// The exact body, byte for byte as it goes (Q3.4).
  var bodyText: Text? { didSet { parsedBody = nil } }
  /// The exact query, without `?`.
  var query: Text = ""
  /// Whether it was put on the wire since it was queued or last released.
  var sent = false
  /// What the copy showed when an edit was queued, a property absent where it was not shown; for a delete the content it
  /// read (Q52.2). Nil for an edit said to be read earlier.
  var readRecord: JSONObject?
  /// Whether it is an edit said to be read at an earlier version (Q43).
  var asRead = false
  /// Whether the read after its answer is still owed (Q12.4). Until then it stays laid over its row.
  var owesRead = false
  /// The row a landed create was answered with, while no read found it (Q38.5, Q39.6).
  var landedID: EntityID?
  /// Whether a withdraw refused it, so that no release takes it (Q46.6).
  var withdrawn = false
  /// Keys used up by releases, so that a late answer under one is known (Q27.3).
  var spentKeys: [Text] = []

  /// An entry of a kind, its id and key minted.
  init(id: EntityID, kind: WriteKind, idempotencyKey: Text, queuedAt: Timestamp) {
    self.id = id
    self.kind = kind
    self.idempotencyKey = idempotencyKey
    self.queuedAt = queuedAt
  }

  /// Body and answer as values, where somebody has read them: each is asked for many times.
  private var parsedBody: JSON?
  private var parsedAnswer: JSON?

  /// The body as it was or will be sent (Q47.2); null for an upload and for a write without one.
  package var body: JSON? {
    parsedBody ?? bodyText.flatMap { try? JSON(parsing: $0.bytes) }
  }

  /// The answer as a value; nil where there is none, or it cannot be read.
  package var answerValue: JSON? {
    parsedAnswer ?? answer.flatMap { try? JSON(parsing: $0.bytes) }
  }

  /// Sets the body.
  mutating func set(body: JSONObject) {
    bodyText = Text(bytes: JSON.object(body).write())
    parsedBody = .object(body)
  }

  /// Sets the answer.
  mutating func set(answer: JSON?) {
    self.answer = answer.map { Text(bytes: $0.write()) }
    parsedAnswer = answer
  }

  /// Reads the body once, for those that ask for it.
  mutating func readBody() { parsedBody = body }

  /// Takes over what another value of the same entry says beside what became of it.
  mutating func takeContent(of other: QueuedWrite) {
    bodyText = other.bodyText
    parsedBody = other.parsedBody
    query = other.query
    readRecord = other.readRecord
  }

  /// The entry without body, answer and what was read.
  var head: QueuedWrite {
    var head = self
    head.bodyText = nil
    head.answer = nil
    head.readRecord = nil
    return head
  }

  /// The blocked reason.
  package var blockedReason: BlockedReason? {
    verdict == .blocked ? reason.flatMap { BlockedReason(rawValue: $0.string) } : nil
  }

  /// Whether it has no verdict, is `blocked` or `dead`: a release can still send it.
  package var isWaiting: Bool {
    switch verdict {
    case nil, .blocked, .dead: true
    case .accepted, .merged, .conflicted, .refused: false
    }
  }

  /// Whether a write that depends on it still waits: no verdict, `blocked`, or landed on a row no read found (Q59.5).
  package var isAwaited: Bool { verdict == nil || verdict == .blocked || landedID != nil }

  /// Whether it is held behind another write, which an app sees as waiting (Q24.4).
  package var isHeld: Bool { blockedReason == .awaitingDependency }

  /// Whether it still shows over its row: waiting, or answered with the read after it owed (Q12.3).
  var isLaidOver: Bool { isWaiting || owesRead }

  /// Whether it is a create refused onto a row its key names that no read found yet (Q39.6); also one accepted there (QD5).
  var isUnfoundLanding: Bool { landedID != nil }

  /// Whether the drain refused it without sending it.
  var isRefusedUnsent: Bool { verdict == .refused && !sent }

  /// The server's refusal in its parts: for a refused write, and for one blocked `credential_refused` (Q48.1).
  package var refusal: Refusal? {
    guard let reason else { return nil }
    switch verdict {
    case .refused:
      guard sent, answer != nil else { return Refusal(reason: reason) }
      var refusal = Refusal(reason: reason, answer: answerValue)
      // A create acknowledged onto a row in the bin (Q41.3).
      if reason == "trashed", answerValue?["error"] == nil { refusal.trashed = true }
      return refusal
    case .blocked where reason == "credential_refused" && answer != nil:
      return Refusal(reason: reason, answer: answerValue)
    case .blocked, .accepted, .merged, .conflicted, .dead, nil: return nil
    }
  }

  /// The properties an item or edge edit or create carries.
  package var bodyProperties: JSONObject? { body?["properties"]?.object }

  /// Whether it sends its properties whole.
  var isWhole: Bool { body?["properties_mode"]?.text == "replace" }

  /// Whether a create carries a natural key.
  var isKeyedCreate: Bool { kind == .createItem && body?["source_id"]?.text != nil }

  /// The members of C26.2, in its order.
  package var json: JSON {
    [
      "id": .string(id.text), "kind": .string(kind.rawValue), "item_id": .optional(itemID?.text),
      "target_id": .optional(targetID?.text), "edge_id": .optional(edgeID?.text), "namespace": .optional(namespace),
      "tag": .optional(tag), "blob": .optional(blob.map { Text("sha256:\($0.hex)") }),
      "base_version": baseVersion.map { .int($0) } ?? .null, "idempotency_key": .string(idempotencyKey),
      "depends_on": .array(dependsOn.map { .string($0.text) }), "follows": .optional(follows?.text),
      "verdict": .optional(verdict.map { Text($0.rawValue) }), "reason": .optional(verdict == .dead ? nil : reason),
      "answer": .optional(answer), "refusal": refusal?.json ?? .null, "body": body ?? .null,
      "conflicted_copy_id": .optional(conflictedCopyID?.text), "refusals": .int(refusals),
      "queued_at": .string(queuedAt.text), "answered_at": .optional(answeredAt?.text),
    ]
  }
}

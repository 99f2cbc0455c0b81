// SKELETON of the queue: its owner replaces this file whole.
import MarfaBase

/// What a queued write does: the fifteen kinds, and no other (Q32.1).
package enum WriteKind: String, CaseIterable, Sendable {
  case createItem = "create_item"
  case updateItem = "update_item"
  case deleteItem = "delete_item"
  case restoreItem = "restore_item"
  case transitionItem = "transition_item"
  case createEdge = "create_edge"
  case updateEdge = "update_edge"
  case deleteEdge = "delete_edge"
  case replaceMetadata = "replace_metadata"
  case mergeMetadata = "merge_metadata"
  case addTag = "add_tag"
  case removeTag = "remove_tag"
  case writeExtension = "write_extension"
  case deleteExtension = "delete_extension"
  case uploadBlob = "upload_blob"

  /// What a success answer of its door must hold (Q32.4).
  package enum Answer: Sendable {
    /// `{"item", "metadata"}`.
    case item
    /// `{"edge"}`.
    case edge
    /// `{"metadata"}`.
    case sidecar
    /// `{"extensions"}`.
    case extensions
    /// `{"ok": true}`.
    case ok
    /// `{"hash", "mime_type", "size_bytes"}`.
    case blob
  }

  /// The shape its success answer has. Every kind has its own entry; nothing falls through to a default (Q32.3).
  package var answer: Answer {
    switch self {
    case .createItem, .updateItem, .restoreItem, .transitionItem: .item
    case .createEdge, .updateEdge: .edge
    case .deleteItem, .deleteEdge: .ok
    case .replaceMetadata, .mergeMetadata, .addTag, .removeTag: .sidecar
    case .writeExtension, .deleteExtension: .extensions
    case .uploadBlob: .blob
    }
  }

  /// The method of its door.
  package var method: String {
    switch self {
    case .createItem, .restoreItem, .transitionItem, .createEdge, .addTag, .uploadBlob: "POST"
    case .updateItem, .updateEdge, .mergeMetadata: "PATCH"
    case .replaceMetadata, .writeExtension: "PUT"
    case .deleteItem, .deleteEdge, .removeTag, .deleteExtension: "DELETE"
    }
  }

  /// Whether it is a write to an edge.
  package var isEdgeWrite: Bool {
    switch self {
    case .createEdge, .updateEdge, .deleteEdge: true
    case .createItem, .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata,
      .addTag,
      .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      false
    }
  }

  /// Whether a refused write of it carries a person's content, which a clearing keeps (Q47.1).
  package var carriesContent: Bool {
    switch self {
    case .createItem, .updateItem, .replaceMetadata, .mergeMetadata, .writeExtension, .createEdge, .updateEdge: true
    case .deleteItem, .restoreItem, .transitionItem, .deleteEdge, .addTag, .removeTag, .deleteExtension, .uploadBlob:
      false
    }
  }

  /// Whether a write waiting on a create that landed elsewhere by a refusal is refused with it: it replaces, removes or
  /// moves a state. The others only add, and follow to the landed row (Q39.4, Q39.5).
  package var isRefusedByLanding: Bool {
    switch self {
    case .updateItem, .deleteItem, .restoreItem, .transitionItem, .replaceMetadata, .mergeMetadata, .removeTag,
      .writeExtension, .deleteExtension:
      true
    case .createItem, .addTag, .createEdge, .updateEdge, .deleteEdge, .uploadBlob: false
    }
  }
}

/// What became of a write (Q7.1). None of them: nothing was decided.
package enum WriteVerdict: String, Sendable {
  case accepted, merged, conflicted, refused, blocked, dead

  /// Whether the server took the write.
  package var isSuccess: Bool {
    switch self {
    case .accepted, .merged, .conflicted: true
    case .refused, .blocked, .dead: false
    }
  }
}

/// Why a write is `blocked`: a closed list (Q26.1).
package enum BlockedReason: String, CaseIterable, Sendable {
  case credentialRefused = "credential_refused"
  case keySpent = "key_spent"
  case ancestorUnavailable = "ancestor_unavailable"
  case conflictUnresolved = "conflict_unresolved"
  case awaitingDependency = "awaiting_dependency"
  case instanceChanged = "instance_changed"
}

/// A field a server refused, and its words.
package struct FieldRefusal: Hashable, Sendable {
  /// The property.
  package var field: Text
  /// The server's sentence; empty where it gave none.
  package var message: Text
}

/// The grant whose lack refused a request (ER7).
package struct MissingGrant: Hashable, Sendable {
  /// `type`, `edge_type` or `extension`.
  package var kind: Text
  /// The type, edge type or namespace.
  package var name: Text
  /// `read` or `write`.
  package var level: Text

  /// A grant as `details.grant` spells it; nil where a part is missing or names something else (ER7.3, Q51.2).
  init?(_ json: JSON?) {
    guard let kind = json?["kind"]?.text, let name = json?["name"]?.text, let level = json?["level"]?.text,
      kind == "type" || kind == "edge_type" || kind == "extension", level == "read" || level == "write"
    else { return nil }
    (self.kind, self.name, self.level) = (kind, name, level)
  }
}

/// A server's refusal in its parts (Q48). A part missing or in another shape reads as absent; nothing is guessed.
package struct Refusal: Hashable, Sendable {
  /// The code, or the drain's own sentence.
  package var reason: Text
  /// The server's code.
  package var code: Text?
  /// The server's sentence.
  package var message: Text?
  /// The fields it named.
  package var fields: [FieldRefusal] = []
  /// Whether the row is in the bin (Q48.2).
  package var trashed = false
  /// The grant that was missing.
  package var grant: MissingGrant?
  /// `error.details` whole (Q48.7).
  package var details: JSON?

  /// A refusal made by the drain: its reason and nothing else (Q48.5).
  init(reason: Text) { self.reason = reason }

  /// The parts of an error answer.
  init(reason: Text, answer: JSON?) {
    self.reason = reason
    guard let error = answer?["error"] else { return }
    code = error["code"]?.text
    message = error["message"]?.text
    details = error["details"]
    for entry in details?["errors"]?.array ?? [] {
      if let field = entry["field"]?.text {
        fields.append(FieldRefusal(field: field, message: entry["message"]?.text ?? ""))
      }
    }
    trashed = details?["trashed"]?.bool == true
    grant = MissingGrant(details?["grant"])
  }

  /// The members of C26.2.
  package var json: JSON {
    [
      "reason": .string(reason), "code": .optional(code), "message": .optional(message),
      "fields": .array(fields.map { ["field": .string($0.field), "message": .string($0.message)] }),
      "trashed": .bool(trashed),
      "grant": grant.map { ["kind": .string($0.kind), "name": .string($0.name), "level": .string($0.level)] } ?? .null,
    ]
  }
}

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
  package var answer: Text?
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
  var bodyText: Text?
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

  /// The body as it was or will be sent (Q47.2); null for an upload and for a write without one.
  package var body: JSON? {
    bodyText.flatMap { try? JSON(parsing: $0.bytes) }
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
    let answerJSON = answer.flatMap { try? JSON(parsing: $0.bytes) }
    switch verdict {
    case .refused:
      guard sent, answer != nil else { return Refusal(reason: reason) }
      var refusal = Refusal(reason: reason, answer: answerJSON)
      // A create acknowledged onto a row in the bin (Q41.3).
      if reason == "trashed", answerJSON?["error"] == nil { refusal.trashed = true }
      return refusal
    case .blocked where reason == "credential_refused" && answer != nil:
      return Refusal(reason: reason, answer: answerJSON)
    case .blocked, .accepted, .merged, .conflicted, .dead, nil: return nil
    }
  }

  /// The properties an item or edge edit or create carries.
  var bodyProperties: JSONObject? { body?["properties"]?.object }

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

    init(_ write: QueuedWrite, replayed: Bool = false, mergedFields: [Text] = []) {
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
  /// An entry for each write sent or settled.
  package var verdicts: [Entry] = []

  /// A report of nothing.
  package init() {}

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

private let unwritten = MarfaError(.invalid, "NOT WRITTEN YET: the queue")

/// An item to be made.
package struct ItemDraft: Sendable {
  package var id: EntityID
  package var type: Text
  package var tier: Text?
  package var properties: JSONObject
  package var occurredAt: Text?
  /// The upload the create waits for.
  package var upload: EntityID?

  package init(
    id: EntityID, type: Text, tier: Text?, properties: JSONObject, occurredAt: Text? = nil, upload: EntityID? = nil
  ) {
    self.id = id
    self.type = type
    self.tier = tier
    self.properties = properties
    self.occurredAt = occurredAt
    self.upload = upload
  }
}

/// An edit of an item.
package struct ItemEdit: Sendable {
  package enum Mode: Sendable { case merge, replace }
  package var properties: JSONObject
  package var mode: Mode
  package var version: Int
  /// Whether the edit says the version it was read at, other than the one held (Q43).
  package var readAtVersion: Bool
  package var type: Text?
  package var tier: Text?
  package var occurredAt: Text?

  package init(
    properties: JSONObject, mode: Mode, version: Int, readAtVersion: Bool = false, type: Text? = nil, tier: Text? = nil,
    occurredAt: Text? = nil
  ) {
    self.properties = properties
    self.mode = mode
    self.version = version
    self.readAtVersion = readAtVersion
    self.type = type
    self.tier = tier
    self.occurredAt = occurredAt
  }
}

/// An edge to be made.
package struct EdgeDraft: Sendable {
  package var id: EntityID
  package var source: EntityID
  package var target: EntityID
  package var type: Text
  package var properties: JSONObject

  package init(id: EntityID, source: EntityID, target: EntityID, type: Text, properties: JSONObject = JSONObject()) {
    self.id = id
    self.source = source
    self.target = target
    self.type = type
    self.properties = properties
  }
}

/// Sees each verdict inside the transaction that settles it.
package protocol DrainObserver: AnyObject {
  func settled(_ write: QueuedWrite, _ entry: DrainReport.Entry) throws(MarfaError)
}

/// The writes of a copy: queued, sent in order, settled.
package final class WriteQueue: Projection {
  unowned let copy: WorkingCopy
  init(copy: WorkingCopy) { self.copy = copy }

  package func createItem(_ draft: ItemDraft) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func updateItem(_ id: EntityID, _ edit: ItemEdit) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func deleteItem(_ id: EntityID) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func restoreItem(_ id: EntityID) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func transition(_ id: EntityID, _ state: Text) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func addTag(_ id: EntityID, _ tag: Text) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func removeTag(_ id: EntityID, _ tag: Text) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func createEdge(_ draft: EdgeDraft) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func updateEdge(
    _ id: EntityID, version: Int, properties: JSONObject? = nil, source: EntityID? = nil, target: EntityID? = nil
  ) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func deleteEdge(_ id: EntityID) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func upload(file: any ReadableFile, mimeType: Text) throws(MarfaError) -> QueuedWrite { throw unwritten }
  package func write(_ id: EntityID) throws(MarfaError) -> QueuedWrite? { throw unwritten }
  package func all() throws(MarfaError) -> [QueuedWrite] { throw unwritten }
  package func waiting(item: EntityID) throws(MarfaError) -> [QueuedWrite] { throw unwritten }
  package func waiting(edge: EntityID) throws(MarfaError) -> [QueuedWrite] { throw unwritten }
  package func unansweredCount() throws(MarfaError) -> Int { throw unwritten }
  package func blockedCount() throws(MarfaError) -> Int { throw unwritten }
  package func drain(observer: (any DrainObserver)? = nil) throws(MarfaError) -> DrainReport { throw unwritten }
  package func withdraw(_ id: EntityID) throws(MarfaError) { throw unwritten }
  package func discard(_ id: EntityID) throws(MarfaError) { throw unwritten }
  package func release(_ id: EntityID) throws(MarfaError) { throw unwritten }
  package func release(reason: BlockedReason) throws(MarfaError) -> Int { throw unwritten }
  package func forget() throws(MarfaError) { throw unwritten }

  package func hasWaiting(item: EntityID) throws(MarfaError) -> Bool { false }
  package func hasWaiting(edge: EntityID) throws(MarfaError) -> Bool { false }
  package func shown(item: EntityID, base: Item?) throws(MarfaError) -> Item? { base }
  package func shown(edge: EntityID, base: Edge?) throws(MarfaError) -> Edge? { base }
  package func waitingItems() throws(MarfaError) -> [EntityID] { [] }
  package func waitingEdges() throws(MarfaError) -> [EntityID] { [] }
}

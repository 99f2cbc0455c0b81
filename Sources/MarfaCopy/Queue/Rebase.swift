import MarfaBase

/// Where a later unsent write goes after an answer to a write ahead of it on the same row or edge (queue.md, chapter 13).
///
/// Edits waiting in the queue are laid over the copy without moving its version, so edits made one after another share a
/// base. An unsent edit moves onto the answer of the write ahead exactly where that answer is what the edit was made against.
/// A wrong move loses another writer's words or sets a person's own edit aside as a conflict with itself; so each case
/// stands here alone, as a pure function, with its rule.
enum Rebase {
  /// What the write ahead came to.
  struct Ahead {
    /// The write ahead, as it was sent.
    var write: QueuedWrite
    /// Its outcome.
    var outcome: Outcome

    enum Outcome {
      /// Answered with a success and the row at this state. `repeated`: `acknowledged: true`.
      case success(WriteVerdict, Row, repeated: Bool)
      /// Refused, dead, or blocked for a reason that leaves it decided.
      case unlanded
    }

    /// The answered row.
    struct Row {
      var version: Int
      /// For an item, its members as the answer gives them; for an edge, the edge's.
      var members: JSON
      var properties: JSONObject { members["properties"]?.object ?? JSONObject() }
    }
  }

  /// The later write as it must stand after the answer; itself where nothing moves.
  static func after(_ ahead: Ahead, _ later: QueuedWrite) -> QueuedWrite {
    // A sent write is never touched (Q3.3).
    guard !later.sent, later.isWaiting else { return later }
    switch later.kind {
    case .updateItem, .updateEdge: return edit(later, after: ahead)
    case .deleteItem: return delete(later, after: ahead)
    case .createItem, .restoreItem, .transitionItem, .createEdge, .deleteEdge, .replaceMetadata, .mergeMetadata,
      .addTag,
      .removeTag, .writeExtension, .deleteExtension, .uploadBlob:
      return later
    }
  }

  // MARK: Edits

  private static func edit(_ later: QueuedWrite, after ahead: Ahead) -> QueuedWrite {
    let write = ahead.write
    switch (write.kind, ahead.outcome) {
    case (.createItem, .success(_, let row, let repeated)), (.createEdge, .success(_, let row, let repeated)):
      return onCreate(later, write, row, repeated: repeated)
    case (.updateItem, .success(let verdict, let row, _)) where verdict == .accepted || verdict == .merged:
      return onItemEdit(later, write, row)
    case (.updateEdge, .success(_, let row, _)): return onEdgeEdit(later, write, row)
    case (.updateItem, _), (.updateEdge, _): return backToBase(later, write)
    // A delete, a restore, a tag and the rest of the row's writes move no version.
    default: return later
    }
  }

  /// Q36: edits of an own create.
  private static func onCreate(
    _ later: QueuedWrite, _ create: QueuedWrite, _ row: Ahead.Row, repeated: Bool
  ) -> QueuedWrite {
    guard later.baseVersion == 0, !later.asRead else { return later }
    let created = (create.queuedAt.text, row.members["created_at"]?.text)
    // The version that create made (Q36.4).
    if repeated { return moved(later, to: 1, row: nil, created: created) }
    if let named = create.body?["version"]?.int, named > 0, row.version > named + 1, !holds(later, row.properties) {
      // Merged over another write, on content the edit never read (Q36.2).
      return moved(later, to: named, row: nil, created: created)
    }
    return moved(later, to: row.version, row: row, created: created)
  }

  /// Q42.9 to Q42.12.
  private static func onItemEdit(_ later: QueuedWrite, _ write: QueuedWrite, _ row: Ahead.Row) -> QueuedWrite {
    guard let base = later.baseVersion else { return later }
    if !later.asRead, holds(later, row.properties) {
      if base < row.version { return moved(later, to: row.version, row: row, created: nil) }
      if base == row.version { return later }
    }
    return backToBase(later, write)
  }

  /// Q42.15.
  private static func onEdgeEdit(_ later: QueuedWrite, _ write: QueuedWrite, _ row: Ahead.Row) -> QueuedWrite {
    guard let base = later.baseVersion else { return later }
    if base == row.version - 1, !later.asRead { return moved(later, to: row.version, row: row, created: nil) }
    if base == row.version { return later }
    return backToBase(later, write)
  }

  /// Q42.14: a value that came from the write ahead, not from the server, must not go on a later base, where the server
  /// would take it as newer than the row's.
  private static func backToBase(_ later: QueuedWrite, _ write: QueuedWrite) -> QueuedWrite {
    guard let base = later.baseVersion, let earlier = write.baseVersion, base > earlier else { return later }
    let carried = later.bodyProperties ?? JSONObject()
    let shared = (write.bodyProperties ?? JSONObject()).keys.contains { carried[$0] != nil }
    return shared ? moved(later, to: earlier, row: nil, created: nil) : later
  }

  // MARK: What a move does

  /// Whether the answered row has, for each property the edit changed, the value the edit read (absent equal to absent).
  static func holds(_ edit: QueuedWrite, _ answered: JSONObject) -> Bool {
    guard let read = edit.readRecord, edit.kind == .updateItem || edit.kind == .updateEdge else { return false }
    return changed(edit, read).allSatisfy { answered[$0] == read[$0] }
  }

  /// The properties an edit changes: carried at another value than read, or, of a whole edit, read and left out.
  static func changed(_ edit: QueuedWrite, _ read: JSONObject) -> [Text] {
    let carried = edit.bodyProperties ?? JSONObject()
    var names = carried.members.filter { read[$0.key] != $0.value }.map(\.key)
    if edit.isWhole { names += read.keys.filter { carried[$0] == nil } }
    return names
  }

  /// The edit on another version (Q42.18, Q45.4).
  /// - Parameters:
  ///   - row: the answer it moves onto; nil where it goes to another base without one.
  ///   - created: when the own create was queued and the `created_at` it was answered with: a time cleared before that
  ///     answer was written as the first and goes as the second (QD7).
  private static func moved(
    _ edit: QueuedWrite, to version: Int, row: Ahead.Row?, created: (queued: Text, answered: Text?)?
  ) -> QueuedWrite {
    guard var body = edit.body?.object else { return edit }
    var out = edit
    out.baseVersion = version
    body["version"] = .int(version)
    if let created, created.queued == body["occurred_at"]?.text { body["occurred_at"] = .optional(created.answered) }
    if let read = edit.readRecord, let carried = edit.bodyProperties, version != edit.baseVersion {
      if !edit.isWhole {
        // Sent on another version than it was queued on, what it carries as read would count as a change.
        var kept = JSONObject()
        for (key, value) in carried.members where read[key] != value { kept[key] = value }
        body["properties"] = .object(kept)
      } else if let row, edit.kind == .updateItem {
        body["properties"] = .object(Overlay.whole(carried, read: read, over: row.properties))
        out.readRecord = row.properties
      }
    }
    out.bodyText = Text(bytes: JSON.object(body).write())
    return out
  }

  // MARK: Deletes

  /// The content a delete read, compared by Q52.2.
  static let contentMembers: [Text] = [
    "properties", "type", "tier", "source", "source_id", "occurred_at", "schema_version",
  ]

  /// Q52.2 to Q52.4.
  private static func delete(_ later: QueuedWrite, after ahead: Ahead) -> QueuedWrite {
    guard case .success(let verdict, let row, let repeated) = ahead.outcome, verdict == .accepted || verdict == .merged,
      let base = later.baseVersion, row.version > base, !repeated
    else { return later }
    var out = later
    if ahead.write.kind == .createItem {
      // The first answer to an own create confirms what the server fills in.
      guard base == 0 else { return later }
      var read = later.readRecord ?? JSONObject()
      for member in contentMembers where member != "properties" && member != "type" {
        read[member] = row.members[member]
      }
      out.readRecord = read
    } else {
      guard ahead.write.kind == .updateItem, let read = later.readRecord,
        contentMembers.allSatisfy({ content(read[$0]) == content(row.members[$0]) })
      else { return later }
    }
    out.baseVersion = row.version
    out.query = Text("version=\(row.version)")
    return out
  }

  /// A member for comparison: null is absent (I0.3).
  private static func content(_ value: JSON?) -> JSON? { value?.isNull == true ? nil : value }

  /// The content a delete reads off a shown row.
  static func content(of item: Item) -> JSONObject {
    JSONObject([
      ("properties", .object(item.properties)), ("type", .string(item.type)), ("tier", .optional(item.tier)),
      ("source", .optional(item.source)), ("source_id", .optional(item.sourceID)),
      ("occurred_at", .string(item.occurredAt.text)), ("schema_version", .int(item.schemaVersion)),
    ])
  }
}

import MarfaBase
import MarfaCopy

/// A document's meaning as its file states it, edge lines aside.
package struct FileFields: Hashable, Sendable {
  /// Whether the file can carry frontmatter; a `.txt` file is its body alone.
  package var carriesFields: Bool
  package var type: Text?
  package var tier: Text?
  /// The tags of a `tags` line; nil where there is none.
  package var tags: Set<Text>?
  /// The state of a `state` line; nil where there is none.
  package var state: Text?
  /// The instant of an `occurred_at` line; nil where there is none, or a null one.
  package var occurredAt: Timestamp?
  /// Every other property the lines carry, in order, a line named for a body field included.
  package var properties: JSONObject
  package var body: Text
  /// The version its line names; of a `.txt` file, the version it was last agreed at.
  package var line: Int?
  /// The tags in the order they are listed, for naming one.
  package var tagList: [Text] = []

  package init(
    carriesFields: Bool = true, type: Text? = nil, tier: Text? = nil, tags: Set<Text>? = nil, state: Text? = nil,
    occurredAt: Timestamp? = nil, properties: JSONObject = JSONObject(), body: Text, line: Int? = nil
  ) {
    self.carriesFields = carriesFields
    self.type = type
    self.tier = tier
    self.tags = tags
    self.state = state
    self.occurredAt = occurredAt
    self.properties = properties
    self.body = body
    self.line = line
  }
}

/// What the catalog says of the names a file uses.
package struct FieldNames: Sendable {
  /// Own fields, id and version lines, edge types' names and reverse names: never properties (F7.1 to F7.3, F7.11).
  package var reserved: Set<Text>

  package static let own: Set<Text> = ["type", "tier", "tags", "state", "occurred_at", "marfa_id", "marfa_version"]

  package init(_ catalog: Catalog) {
    reserved = Self.own
    for (name, type) in catalog.edgeTypes {
      reserved.insert(name)
      if let reverse = type.reverseName { reserved.insert(reverse) }
    }
  }

  package init(reserved: Set<Text>) { self.reserved = reserved }
}

extension Showed {
  /// What a file of an item shows.
  package init(_ item: Item, bodyField: Text, names: FieldNames, form: FileForm) {
    let body = item.properties[bodyField]?.text ?? ""
    switch form {
    case .markdown:
      var properties = JSONObject()
      for member in item.properties.members where member.key != bodyField && !names.reserved.contains(member.key) {
        properties[member.key] = member.value
      }
      self.init(own: OwnLines(item), properties: properties, body: ContentHash(of: body.bytes))
    case .text:
      self.init(own: nil, properties: JSONObject(), body: ContentHash(of: body.bytes))
    case .bytes:
      self.init(
        own: nil, properties: JSONObject(),
        body: item.properties["blob_ref"]?.text.flatMap { ContentHash($0) } ?? ContentHash(of: []),
        // Absent reads as off, as a file shows it (F50.2).
        executable: item.properties["executable"]?.bool ?? false)
    }
  }
}

extension OwnLines {
  /// The own-field lines a pull writes for an item (F7.25, F7.42).
  package init(_ item: Item) {
    self.init(
      type: item.type, tier: item.tier, tags: Set(item.tags), state: item.state == "archived" ? "archived" : "active",
      occurredAt: item.occurredAt == item.createdAt ? nil : item.occurredAt)
  }
}

/// An edit to queue for an item (F-W6).
package struct PlannedEdit: Hashable, Sendable {
  package var properties: JSONObject
  /// Whole: a property left out is cleared. Else a merge.
  package var replaces: Bool
  package var version: Int
  /// Whether the file was read at that version (Q43).
  package var readThere: Bool
  package var retype: Text?
  package var tier: Text?
  package var occurredAt: Timestamp?
}

/// What a bound or checked-out document's file asks for.
package struct EditDecision: Hashable, Sendable {
  package var edit: PlannedEdit?
  /// Tags taken out are queued before those added (F55.2).
  package var tagsRemoved: [Text] = []
  package var tagsAdded: [Text] = []
  package var state: Text?
  /// Own-field lines not sent, in the order of F7.20; empty where nothing is behind.
  package var behind: [String] = []
  /// Whether the line names a version this copy does not hold.
  package var namesUnknownVersion = false
  /// The line the edit spends; nil where it sends none.
  package var spends: Int?
  /// The own-field base from here on; nil where the folder never wrote any.
  package var ownLines: OwnLines?
  /// What the file shows from here on.
  package var showed: Showed

  package var sendsNothing: Bool { edit == nil && tagsRemoved.isEmpty && tagsAdded.isEmpty && state == nil }
}

/// What is known beside the file.
package struct EditSituation {
  package var binding: Binding?
  /// The item as the copy shows it, waiting writes laid over it.
  package var item: Item
  /// The body field of its type.
  package var bodyField: Text
  /// The body field of the type its `type` line names, where that is another type.
  package var retypedBodyField: Text?
  package var names: FieldNames
  /// Whether a write of the file waits for its answer.
  package var waits: Bool

  package init(
    binding: Binding?, item: Item, bodyField: Text, retypedBodyField: Text? = nil, names: FieldNames, waits: Bool
  ) {
    self.binding = binding
    self.item = item
    self.bodyField = bodyField
    self.retypedBodyField = retypedBodyField
    self.names = names
    self.waits = waits
  }
}

/// What a document's file asks for, against the last agreement and the item (F7, F23).
///
/// Its line says which of four bases the file stands on, and no fifth exists, since a line is absent, or below, at or
/// above the copy's version:
/// - at it, or below it where the last agreement showed all the item holds: **current**. Sent whole, own fields three-way.
/// - below it and not spent: **behind**, merged against the line, said to be read there.
/// - below it and spent by an earlier edit of this file: **behind**, merged on the copy's version, because the text was
///   made against that edit. Where the copy has gone on since that edit landed and no pull has shown it in the file yet, it
///   is merged on the version the edit came to: what another device wrote after it was never before this person.
/// - absent or above it: **behind**, merged on the copy's version; one whose line is still to be written (P1.3) on the
///   version its own last write came to.
///
/// A file behind clears nothing and moves no own field (F7.19). Whatever the base, a file whose meaning is the last
/// agreement's asks for nothing: formatting and the line alone are no edit (F7.28, F23.13).
package func decideEdit(_ file: FileFields, _ situation: EditSituation) -> EditDecision {
  let (item, binding) = (situation.item, situation.binding)
  let form: FileForm = file.carriesFields ? .markdown : .text
  let shown = Showed(item, bodyField: situation.bodyField, names: situation.names, form: form)
  let base = EditBase(file: file, binding: binding, item: item, shown: shown, waits: situation.waits)
  let own = file.carriesFields ? base.own(of: file) : nil
  var properties = JSONObject()
  for member in file.properties.members where member.key != situation.bodyField {
    properties[member.key] = member.value
  }
  let now = Showed(own: own, properties: properties, body: ContentHash(of: file.body.bytes))
  var decision = EditDecision(ownLines: binding?.ownLines, showed: now)

  var moves = PlannedEdit(properties: JSONObject(), replaces: false, version: item.version, readThere: false)
  if file.carriesFields {
    if base.isCurrent {
      decideOwnFields(file, base, &decision, &moves)
    } else {
      decision.behind = base.behindLines(file)
      decision.namesUnknownVersion = (file.line ?? 0) > item.version
    }
  }

  let agreed = binding?.showed
  let differs = agreed.map { $0.properties != now.properties || $0.body != now.body } ?? true
  let isOwnMove = moves.retype != nil || moves.tier != nil || moves.occurredAt != nil
  guard differs || isOwnMove || binding?.setAside != nil else { return decision }

  var carried = file.properties
  // A file behind was written from another type where its line names one: its body is that type's (F7.19).
  let bodyField =
    base.isCurrent || moves.retype != nil ? situation.bodyField : situation.retypedBodyField ?? situation.bodyField
  if let retypedBody = situation.retypedBodyField, moves.retype != nil, retypedBody != situation.bodyField {
    // Where two types keep their body in different properties nothing is dropped (F9.3).
    let line = carried[retypedBody]
    let fills = line.map { !$0.isNull && $0 != .string(Text("")) } ?? false
    if !fills { carried[retypedBody] = .string(file.body) }
    carried[situation.bodyField] = .string(file.body)
  } else if !file.body.isEmpty || item.properties[bodyField].map({ !$0.isNull }) ?? false {
    carried[bodyField] = .string(file.body)
  } else {
    carried[bodyField] = nil
  }

  if base.isCurrent && file.carriesFields && binding?.setAside == nil {
    for member in item.properties.members
    where situation.names.reserved.contains(member.key) && member.key != situation.bodyField {
      carried[member.key] = member.value
    }
    guard carried != item.properties || isOwnMove else { return decision }
    moves.replaces = true
    moves.version = item.version
  } else {
    if base.isSpent, let sent = binding?.lastSent, sent.line == file.line {
      // The same buffer saved again: what it merely carries since its last save is no change of its own, and another
      // device's value of it stands.
      carried.removeAll { member in
        member.key == bodyField
          ? sent.showed.body == now.body : sent.showed.properties[member.key] == member.value
      }
    }
    guard carried.members.contains(where: { item.properties[$0.key] != $0.value }) || isOwnMove else { return decision }
    if let setAside = binding?.setAside {
      moves.version = setAside
      moves.readThere = true
    } else if let line = base.mergeLine {
      moves.version = line
      moves.readThere = true
    }
  }
  moves.properties = carried
  decision.edit = moves
  decision.spends = max(file.line.map { min($0, item.version) } ?? 0, moves.version)
  return decision
}

/// Which version a file stands on, and what its own-field lines are compared with.
private struct EditBase {
  let item: Item
  let binding: Binding?
  let isCurrent: Bool
  /// The line a file behind is merged against; nil for the copy's version.
  let mergeLine: Int?
  /// Whether an earlier edit of the file spent its line.
  let isSpent: Bool

  init(file: FileFields, binding: Binding?, item: Item, shown: Showed, waits: Bool) {
    self.item = item
    self.binding = binding
    let line = file.line
    // The bytes before this save: a buffer of another line is not what the folder last agreed with.
    // What was refused of its tags and state aside: beside an edit that landed they leave the file current (F9.13).
    let showedAll = !waits && binding?.showedLanded == shown && binding?.line == line
    let held = item.version
    if let line {
      isCurrent = line == held || (showedAll && line < held)
      isSpent = !isCurrent && line < held && line <= binding?.spentLine ?? 0
      mergeLine = !isCurrent && line < held ? (isSpent ? EditBase.unshown(binding, held) : line) : nil
    } else {
      isCurrent = false
      isSpent = false
      mergeLine = EditBase.unshown(binding, held)
    }
  }

  /// The version the words of the file's own last edit stand on, where the copy holds a later one that no pull has written
  /// into the file.
  private static func unshown(_ binding: Binding?, _ held: Int) -> Int? {
    guard let binding, binding.linesOwed, let version = binding.standsOn ?? binding.landed, version < held else {
      return nil
    }
    return version
  }

  /// The tags a file states: its line's, or none where the folder wrote own-field lines into it (F7.14).
  func tags(of file: FileFields) -> Set<Text>? { file.tags ?? (binding?.ownLines == nil ? nil : []) }

  func state(of file: FileFields) -> Text? { file.state ?? (binding?.ownLines == nil ? nil : "active") }

  /// The own fields a file shows, those it leaves to the item filled in from it.
  func own(of file: FileFields) -> OwnLines {
    let shown = OwnLines(item)
    let at = file.occurredAt ?? shown.occurredAt
    return OwnLines(
      type: file.type ?? shown.type, tier: file.tier ?? shown.tier, tags: tags(of: file) ?? shown.tags,
      state: state(of: file) ?? shown.state, occurredAt: at == item.createdAt ? nil : at)
  }

  /// The lines of a file behind that differ from the folder's own last write, or from the item where it wrote none
  /// (F7.20).
  func behindLines(_ file: FileFields) -> [String] {
    let written = binding?.ownLines ?? OwnLines(item)
    var behind: [String] = []
    if let type = file.type, type != written.type { behind.append("type") }
    if let tier = file.tier, tier != written.tier { behind.append("tier") }
    if let tags = tags(of: file), tags != written.tags { behind.append("tags") }
    if let state = state(of: file), state != written.state { behind.append("state") }
    if let at = file.occurredAt, at != written.occurredAt ?? item.occurredAt { behind.append("occurred_at") }
    return behind
  }
}

/// The own fields of a current file: only what differs from the folder's own last write goes, less what another machine
/// moved away from at this line, which an old buffer may still show (F7.13 to F7.17, F7.40).
private func decideOwnFields(
  _ file: FileFields, _ base: EditBase, _ decision: inout EditDecision, _ moves: inout PlannedEdit
) {
  let item = base.item
  let written = base.binding?.ownLines
  let from = written ?? OwnLines(item)
  let movedAway = base.binding?.movedAway ?? MovedAway()
  var next = from

  if let type = file.type, type != from.type {
    if type != item.type { moves.retype = type }
    next.type = type
  }
  if let tier = file.tier, tier != from.tier {
    if tier != item.tier { moves.tier = tier }
    next.tier = tier
  }
  if let tags = base.tags(of: file) {
    var held: [Text] = []
    for tag in tags.subtracting(from.tags).sorted() {
      if movedAway.tags[tag]?.contains(true) ?? false {
        held.append(tag)
      } else {
        next.tags.insert(tag)
        if !item.tags.contains(tag) { decision.tagsAdded.append(tag) }
      }
    }
    for tag in from.tags.subtracting(tags).sorted() {
      if movedAway.tags[tag]?.contains(false) ?? false {
        held.append(tag)
      } else {
        next.tags.remove(tag)
        if item.tags.contains(tag) { decision.tagsRemoved.append(tag) }
      }
    }
    decision.behind += held.sorted().map { "tags (\($0))" }
  }
  if let state = base.state(of: file), state != from.state {
    if movedAway.states.contains(state) {
      decision.behind.append("state (\(state))")
    } else {
      next.state = state
      if state != item.state { decision.state = state }
    }
  }
  if let at = file.occurredAt, at != from.occurredAt ?? item.occurredAt {
    if at != item.occurredAt { moves.occurredAt = at }
    next.occurredAt = at == item.createdAt ? nil : at
  }
  if written != nil { decision.ownLines = next }
}

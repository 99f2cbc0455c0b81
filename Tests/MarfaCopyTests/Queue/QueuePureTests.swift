import MarfaBase
import Testing

@testable import MarfaCopy

/// Values for the tables below.
enum Sample {
  static let now = Timestamp(milliseconds: 1_927_000_000_000)

  static func id(_ number: UInt64) -> EntityID {
    EntityID(high: 0x0197_c1aa_0000_7000 | number, low: 0x8000_0000_0000_0000 | number)
  }

  static func object(_ json: String) -> JSONObject { (try? JSON(parsing: json))?.object ?? JSONObject() }

  static func write(
    _ kind: WriteKind, _ number: UInt64 = 1, base: Int? = nil, body: String? = nil, read: String? = nil,
    sent: Bool = false
  ) -> QueuedWrite {
    var write = QueuedWrite(id: id(number), kind: kind, idempotencyKey: id(number + 1000).text, queuedAt: now)
    write.seq = Int(number)
    write.itemID = id(0xA1)
    if kind.isEdgeWrite { write.edgeID = id(0xE1) }
    write.baseVersion = base
    write.bodyText = body.map { Text($0) }
    write.readRecord = read.map(object)
    write.sent = sent
    return write
  }

  static func edit(
    _ number: UInt64, base: Int, _ properties: String, read: String?, whole: Bool = false, kind: WriteKind = .updateItem
  ) -> QueuedWrite {
    write(
      kind, number, base: base,
      body: #"{"version":\#(base),"properties":\#(properties)\#(whole ? #","properties_mode":"replace""# : "")}"#,
      read: read)
  }

  static func item(_ properties: String, version: Int = 1, tags: [Text] = []) -> Item {
    Item(
      id: id(0xA1), type: "core.note", tier: "library", properties: object(properties), tags: tags, version: version,
      occurredAt: now, createdAt: now, updatedAt: now)
  }

  static func answer(_ version: Int, _ properties: String) -> Rebase.Ahead.Row {
    Rebase.Ahead.Row(
      version: version,
      members: [
        "version": .int(version), "properties": .object(object(properties)), "type": "core.note", "tier": "library",
        "source": "laptop", "schema_version": 1, "occurred_at": .string(now.text), "created_at": .string(now.text),
      ])
  }
}

@Suite struct RebaseTests {
  private func move(
    _ edit: QueuedWrite, behind ahead: QueuedWrite, _ verdict: WriteVerdict, _ row: Rebase.Ahead.Row,
    repeated: Bool = false
  ) -> QueuedWrite {
    Rebase.after(.init(write: ahead, outcome: .success(verdict, row, repeated: repeated)), edit)
  }

  private let create = Sample.write(
    .createItem, 1, base: 0, body: #"{"type":"core.note","properties":{"title":"A"}}"#, sent: true)

  @Test("Q36.1 an edit of an own create goes on the version it was answered with, another base stays")
  func ownCreate() {
    let edit = Sample.edit(2, base: 0, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    let moved = move(edit, behind: create, .accepted, Sample.answer(1, #"{"title":"A"}"#))
    #expect(moved.baseVersion == 1)
    #expect(moved.bodyText == #"{"version":1,"properties":{"title":"B"}}"#)
    let later = Sample.edit(2, base: 4, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    #expect(move(later, behind: create, .accepted, Sample.answer(6, #"{"title":"A"}"#)).baseVersion == 4)
  }

  @Test("Q36.2 Q36.3 behind a create merged over another write, what that write touched goes on the create's version")
  func mergedCreate() {
    var conditional = create
    conditional.bodyText = #"{"type":"core.note","properties":{"title":"A"},"source_id":"k","version":3}"#
    let row = Sample.answer(5, #"{"title":"A","body":"theirs"}"#)
    let touched = Sample.edit(2, base: 0, #"{"body":"mine"}"#, read: "{}")
    #expect(move(touched, behind: conditional, .accepted, row).baseVersion == 3)
    let apart = Sample.edit(2, base: 0, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    #expect(move(apart, behind: conditional, .accepted, row).baseVersion == 5)
  }

  @Test("Q36.4 behind a create answered as a repeat an edit goes on 1")
  func repeatedCreate() {
    let edit = Sample.edit(2, base: 0, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    #expect(move(edit, behind: create, .accepted, Sample.answer(6, #"{"title":"C"}"#), repeated: true).baseVersion == 1)
  }

  @Test("Q42.9 to Q42.12 an edit moves onto an answer that is what it was made against, and nowhere else")
  func itemEdits() {
    let ahead = Sample.edit(1, base: 4, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    let mine = Sample.edit(2, base: 4, #"{"title":"C"}"#, read: #"{"title":"B"}"#)
    // Its own answer.
    #expect(move(mine, behind: ahead, .accepted, Sample.answer(5, #"{"title":"B","body":"x"}"#)).baseVersion == 5)
    // Merged over a write that left the title alone.
    #expect(move(mine, behind: ahead, .merged, Sample.answer(7, #"{"title":"B","body":"theirs"}"#)).baseVersion == 7)
    // Merged over one that touched what the edit carries.
    let body = Sample.edit(2, base: 4, #"{"body":"mine"}"#, read: #"{"body":"x"}"#)
    #expect(move(body, behind: ahead, .merged, Sample.answer(7, #"{"title":"B","body":"theirs"}"#)).baseVersion == 4)
    // Made after a catch-up at a later version: never onto an older answer.
    let after = Sample.edit(2, base: 9, #"{"body":"mine"}"#, read: #"{"body":"x"}"#)
    #expect(move(after, behind: ahead, .accepted, Sample.answer(5, #"{"title":"B","body":"x"}"#)).baseVersion == 9)
    // The same, carrying what the write ahead carries: back to its base.
    let shared = Sample.edit(2, base: 9, #"{"title":"mine"}"#, read: #"{"title":"B"}"#)
    #expect(move(shared, behind: ahead, .accepted, Sample.answer(5, #"{"title":"B"}"#)).baseVersion == 4)
  }

  @Test(
    "Q42.16 Q42.14 Q42.17 nothing moves onto an answer that did not land; what shares a property goes back to the base")
  func unlanded() {
    let ahead = Sample.edit(1, base: 4, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    let same = Sample.edit(2, base: 4, #"{"title":"C"}"#, read: #"{"title":"B"}"#)
    let later = Sample.edit(2, base: 6, #"{"title":"C"}"#, read: #"{"title":"B"}"#)
    let apart = Sample.edit(2, base: 6, #"{"body":"C"}"#, read: "{}")
    #expect(move(same, behind: ahead, .conflicted, Sample.answer(7, #"{"title":"B"}"#)).baseVersion == 4)
    #expect(move(later, behind: ahead, .conflicted, Sample.answer(7, #"{"title":"B"}"#)).baseVersion == 4)
    #expect(Rebase.after(.init(write: ahead, outcome: .unlanded), later).baseVersion == 4)
    #expect(Rebase.after(.init(write: ahead, outcome: .unlanded), apart).baseVersion == 6)
  }

  @Test("Q-S134 a moved edit drops a property it carries at the value it read; one that stays keeps it")
  func dropsUnchanged() {
    let ahead = Sample.edit(1, base: 4, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    let edit = Sample.edit(2, base: 4, #"{"title":"C","body":"x"}"#, read: #"{"title":"B","body":"x"}"#)
    let moved = move(edit, behind: ahead, .merged, Sample.answer(6, #"{"title":"B","body":"theirs"}"#))
    #expect(moved.bodyText == #"{"version":6,"properties":{"title":"C"}}"#)
    #expect(move(edit, behind: ahead, .conflicted, Sample.answer(6, #"{"title":"B"}"#)).bodyText == edit.bodyText)
  }

  @Test("Q45.4 a whole edit moved onto an answer keeps what landed there, and reads it from then on")
  func wholeMoves() {
    let ahead = Sample.edit(
      1, base: 4, #"{"title":"B","notes":"n","body":"x"}"#, read: #"{"title":"A","notes":"n","body":"x"}"#, whole: true)
    let edit = Sample.edit(
      2, base: 4, #"{"title":"C","body":"x"}"#, read: #"{"title":"B","notes":"n","body":"x"}"#, whole: true)
    let row = Sample.answer(6, #"{"title":"B","notes":"n","body":"theirs","due":"1"}"#)
    let moved = move(edit, behind: ahead, .merged, row)
    #expect(moved.baseVersion == 6)
    #expect(moved.bodyProperties == Sample.object(#"{"title":"C","body":"theirs","due":"1"}"#))
    #expect(moved.readRecord == row.properties)
  }

  @Test("Q42.15 an edge's edit moves onto the answer one ahead, stays on it, or goes back")
  func edgeEdits() {
    let ahead = Sample.edit(1, base: 2, #"{"path":"a"}"#, read: #"{"path":"0"}"#, kind: .updateEdge)
    func edit(_ base: Int) -> QueuedWrite {
      Sample.edit(2, base: base, #"{"path":"b"}"#, read: #"{"path":"a"}"#, kind: .updateEdge)
    }
    #expect(move(edit(2), behind: ahead, .accepted, Sample.answer(3, #"{"path":"a"}"#)).baseVersion == 3)
    #expect(move(edit(3), behind: ahead, .accepted, Sample.answer(3, #"{"path":"a"}"#)).baseVersion == 3)
    #expect(move(edit(5), behind: ahead, .accepted, Sample.answer(3, #"{"path":"a"}"#)).baseVersion == 2)
    #expect(Rebase.after(.init(write: ahead, outcome: .unlanded), edit(2)).baseVersion == 2)
  }

  @Test("Q43.5 an edit said to be read earlier never moves onto an answer")
  func asRead() {
    let ahead = Sample.edit(1, base: 5, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    var edit = Sample.edit(2, base: 3, #"{"body":"C"}"#, read: nil)
    edit.asRead = true
    #expect(move(edit, behind: ahead, .accepted, Sample.answer(6, #"{"title":"B"}"#)).baseVersion == 3)
  }

  @Test("Q3.3 a sent write is never touched")
  func sentStays() {
    var edit = Sample.edit(2, base: 0, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    edit.sent = true
    #expect(move(edit, behind: create, .accepted, Sample.answer(1, #"{"title":"A"}"#)).bodyText == edit.bodyText)
  }

  @Test("Q52.2 Q52.3 a delete follows the answer that holds what it read, and no other")
  func deletes() {
    let ahead = Sample.edit(1, base: 4, #"{"title":"B"}"#, read: #"{"title":"A"}"#)
    var delete = Sample.write(.deleteItem, 2, base: 4)
    delete.query = "version=4"
    let row = Sample.answer(5, #"{"title":"B"}"#)
    var read = JSONObject()
    for member in Rebase.contentMembers { read[member] = row.members[member] }
    delete.readRecord = read
    let moved = move(delete, behind: ahead, .accepted, row)
    #expect(moved.baseVersion == 5)
    #expect(moved.query == "version=5")
    #expect(move(delete, behind: ahead, .merged, Sample.answer(6, #"{"title":"B","body":"new"}"#)).baseVersion == 4)
  }

  @Test("Q52.2 Q52.4 the first answer to an own create carries the delete along; a repeat does not")
  func deleteOfCreate() {
    var delete = Sample.write(.deleteItem, 2, base: 0, read: #"{"properties":{"title":"B"},"type":"core.note"}"#)
    delete.query = ""
    let moved = move(delete, behind: create, .accepted, Sample.answer(1, #"{"title":"A"}"#))
    #expect(moved.baseVersion == 1)
    #expect(moved.readRecord?["source"]?.text == "laptop")
    #expect(moved.readRecord?["properties"]?["title"]?.text == "B")
    #expect(move(delete, behind: create, .accepted, Sample.answer(6, "{}"), repeated: true).baseVersion == 0)
  }

  @Test("QD7 a time cleared before the create was answered goes as the time the answer names")
  func clearedTime() {
    let edit = Sample.write(
      .updateItem, 2, base: 0, body: #"{"version":0,"occurred_at":"\#(Sample.now)"}"#, read: "{}")
    let row = Rebase.Ahead.Row(
      version: 1, members: ["version": 1, "properties": [:], "created_at": "2031-01-01T00:00:00.000Z"])
    #expect(
      move(edit, behind: create, .accepted, row).bodyText == #"{"version":1,"occurred_at":"2031-01-01T00:00:00.000Z"}"#)
  }
}

@Suite struct OverlayTests {
  private let types = Overlay.Types { type in
    type == "core.note" ? [("title", true), ("body", false)] : nil
  }

  @Test(
    "Q35.9 Q53.4 Q53.5 a create shows declared fields first, index names before all, and drops nulls for optional fields"
  )
  func create() {
    let write = Sample.write(
      .createItem, body: #"{"type":"core.note","properties":{"z":null,"body":null,"7":"x","title":"T","links":null}}"#)
    let shown = Overlay.item(nil, [write], types: types)
    #expect(shown?.properties.keys == ["7", "title", "z"])
    #expect(shown?.properties["z"] == .null)
    #expect(shown?.version == 0)
  }

  @Test("Q53.1 Q53.3 a merge's null leaves an optional property; positions are kept and new names come last")
  func merge() {
    let edit = Sample.edit(2, base: 3, #"{"new":1,"body":null,"title":"B"}"#, read: "{}")
    let shown = Overlay.item(Sample.item(#"{"title":"A","body":"x"}"#, version: 3), [edit], types: types)
    #expect(shown?.properties == Sample.object(#"{"title":"B","body":"x","new":1}"#))
    #expect(shown?.properties.keys == ["title", "body", "new"])
    #expect(shown?.version == 3)
  }

  @Test("Q45.2 Q53.2 a whole edit clears what it read and left out, and keeps what another device added since")
  func whole() {
    let edit = Sample.edit(
      2, base: 3, #"{"title":"B","body":"x","gone":null}"#, read: #"{"title":"A","body":"x","notes":"n","gone":"g"}"#,
      whole: true)
    let server = Sample.item(#"{"title":"A","body":"theirs","notes":"n","gone":"g","due":"1"}"#, version: 4)
    let shown = Overlay.item(server, [edit], types: types)
    #expect(shown?.properties == Sample.object(#"{"title":"B","body":"theirs","due":"1"}"#))
  }

  @Test("Q35.1 states, tags and extensions are laid over in queue order; an answered write is not")
  func rest() {
    var tag = Sample.write(.addTag, 1, body: #"{"tags":["b"]}"#)
    tag.tag = "b"
    var gone = Sample.write(.removeTag, 2)
    gone.tag = "a"
    var answered = Sample.write(.deleteItem, 3)
    answered.verdict = .accepted
    let archived = Sample.write(.transitionItem, 4, body: #"{"state":"archived"}"#)
    let shown = Overlay.item(Sample.item("{}", tags: ["a"]), [tag, gone, answered, archived], types: types)
    #expect(shown?.tags == ["b"])
    #expect(shown?.state == "archived")
    answered.owesRead = true
    #expect(Overlay.item(Sample.item("{}"), [answered], types: types)?.state == "trashed")
  }

  @Test("Q54.3 a waiting move shows the edge at its new end; a waiting delete shows none")
  func edges() {
    let edge = Edge(
      id: Sample.id(0xE1), source: Sample.id(1), target: Sample.id(2), type: "parent-of", version: 1,
      createdAt: Sample.now, updatedAt: Sample.now)
    let move = Sample.write(.updateEdge, body: #"{"version":1,"source_id":"\#(Sample.id(3))"}"#)
    #expect(Overlay.edge(edge, [move])?.source == Sample.id(3))
    #expect(Overlay.edge(edge, [move])?.version == 1)
    #expect(Overlay.edge(edge, [move, Sample.write(.deleteEdge)]) == nil)
  }
}

@Suite struct ReadinessTests {
  private func judge(_ write: QueuedWrite, among others: [QueuedWrite]) throws -> Readiness {
    try Readiness.of(write) { (id) throws(MarfaError) in others.first { $0.id == id } }
  }

  private func ahead(_ verdict: WriteVerdict?, _ reason: Text? = nil) -> QueuedWrite {
    var write = Sample.edit(1, base: 1, "{}", read: nil)
    write.verdict = verdict
    write.reason = reason
    return write
  }

  @Test("Q42.2 Q42.3 what holds a follower and what frees it")
  func follows() throws {
    var edit = Sample.edit(2, base: 1, "{}", read: nil)
    edit.follows = Sample.id(1)
    for (verdict, reason, held) in [
      (nil, nil, true), (.blocked, "awaiting_dependency", true), (.blocked, "credential_refused", true),
      (.blocked, "conflict_unresolved", false), (.blocked, "key_spent", false), (.accepted, nil, false),
      (.merged, nil, false), (.conflicted, nil, false), (.refused, "x", false), (.dead, nil, false),
    ] as [(WriteVerdict?, Text?, Bool)] {
      #expect(try judge(edit, among: [ahead(verdict, reason)]) == (held ? .held(by: Sample.id(1)) : .ready))
    }
    #expect(try judge(edit, among: []) == .ready)
  }

  @Test("Q1.3 a refused write between does not let a follower past one without an answer")
  func chain() throws {
    var between = Sample.edit(2, base: 1, "{}", read: nil)
    between.follows = Sample.id(1)
    between.verdict = .refused
    var edit = Sample.edit(3, base: 1, "{}", read: nil)
    edit.follows = Sample.id(2)
    #expect(try judge(edit, among: [ahead(nil), between]) == .held(by: Sample.id(1)))
    #expect(try judge(edit, among: [ahead(.accepted), between]) == .ready)
  }

  @Test("Q16.1 Q24.1 Q39.6 dependencies: held, refused, or free")
  func dependencies() throws {
    var edge = Sample.write(.createEdge, 2)
    edge.dependsOn = [Sample.id(1)]
    #expect(try judge(edge, among: [ahead(nil)]) == .held(by: Sample.id(1)))
    #expect(try judge(edge, among: [ahead(.blocked, "key_spent")]) == .held(by: Sample.id(1)))
    #expect(try judge(edge, among: []) == .held(by: Sample.id(1)))
    #expect(try judge(edge, among: [ahead(.refused)]) == .refused(.updateItem, .refused))
    #expect(try judge(edge, among: [ahead(.dead)]) == .refused(.updateItem, .dead))
    #expect(try judge(edge, among: [ahead(.merged)]) == .ready)
    var landed = ahead(.refused)
    landed.landedID = Sample.id(9)
    #expect(try judge(edge, among: [landed]) == .held(by: Sample.id(1)))
    #expect(Readiness.reason(.createItem, .refused) == "the create_item it waits for was refused")
  }

  @Test("Q42.4 follows is judged before a refused dependency")
  func both() throws {
    var edit = Sample.edit(3, base: 1, "{}", read: nil)
    edit.follows = Sample.id(1)
    edit.dependsOn = [Sample.id(2)]
    var upload = Sample.write(.uploadBlob, 2)
    upload.verdict = .refused
    #expect(try judge(edit, among: [ahead(nil), upload]) == .held(by: Sample.id(1)))
  }
}

@Suite struct OutcomeTests {
  private func read(
    _ status: Int, _ body: String = "", _ write: QueuedWrite = Sample.edit(1, base: 1, "{}", read: nil),
    contract: String? = "0"
  ) -> String {
    let headers = contract.map { [HTTPHeader("x-marfa-contract", $0)] } ?? []
    let response = HTTPResponse(status: status, headers: headers, body: Array(body.utf8))
    switch Outcome.read(response, to: write, contract: "0", origin: "https://m") {
    case .success(let verdict, _, _): return verdict.rawValue
    case .refused(let code, _): return "refused \(code)"
    case .landed(let code, _, _): return "landed \(code)"
    case .blocked(let reason, _): return "blocked \(reason.rawValue)"
    case .unclaimed(let source, _): return "unclaimed \(source)"
    case .credentialRefused: return "credential"
    case .counted: return "counted"
    case .environmental: return "environmental"
    case .ends(let error): return "ends \(error.code.rawValue)"
    }
  }

  private let item =
    #"{"id":"0197c1aa-0000-7000-8000-0000000000a1","type":"core.note","state":"active","properties":{},"version":2,"created_at":"2031-01-01T00:00:00.000Z","updated_at":"2031-01-01T00:00:00.000Z"}"#

  @Test("Q9.1 Q10.1 Q11.1 the three successes are told apart by the resolution alone")
  func successes() {
    #expect(read(200, #"{"item":\#(item)}"#) == "accepted")
    #expect(read(200, #"{"item":\#(item),"conflict_resolution":{"fields":["title"]}}"#) == "merged")
    #expect(
      read(200, #"{"item":\#(item),"conflict_resolution":{"fields":["body"],"conflicted_copy_id":"\#(Sample.id(7))"}}"#)
        == "conflicted")
  }

  @Test("Q17 Q18 Q19 Q20 Q21 Q22 Q23 Q62 the closed classification, the contract header first")
  func classes() {
    for status in [400, 401, 403, 404, 408, 409, 422, 429, 500, 503] {
      #expect(read(status, contract: nil) == "environmental")
      #expect(read(status, contract: "1") == "ends contract_mismatch")
    }
    for status in [408, 425, 429, 500, 502, 503, 507] { #expect(read(status) == "environmental") }
    #expect(read(200, #"{"item":\#(item)}"#, contract: nil) == "ends contract_mismatch")
    for status in [301, 307] {
      #expect(read(status) == "ends redirect")
      #expect(read(status, contract: "1") == "ends redirect")
    }
    #expect(read(401) == "credential")
    #expect(read(200, "nonsense") == "counted")
    #expect(read(200, #"{"ok":true}"#) == "counted")
    #expect(read(409, #"{"error":{"code":"idempotency_key_in_flight"}}"#) == "counted")
    #expect(read(422, #"{"error":{"code":"idempotency_key_reused"}}"#) == "blocked key_spent")
    #expect(read(409, #"{"error":{"code":"version_conflict"}}"#) == "counted")
    let current = #""current":{"id":"0197c1aa-0000-7000-8000-0000000000a1","version":4}"#
    #expect(read(409, #"{"error":{"code":"version_conflict"},\#(current)}"#) == "blocked conflict_unresolved")
    #expect(read(409, #"{"error":{"code":"ancestor_unavailable"},\#(current)}"#) == "blocked ancestor_unavailable")
    for (status, code) in [(400, "invalid_properties"), (404, "item_not_found"), (405, "x"), (410, "y"), (413, "z")] {
      #expect(read(status, #"{"error":{"code":"\#(code)"}}"#) == "refused \(code)")
    }
    #expect(read(422, "no json") == "refused unknown")
  }

  @Test("Q40.1 Q51.1 Q51.2 a 403 blocks for a whole grant or for a bare source, and is refused else")
  func forbidden() {
    func grant(_ members: String) -> String {
      #"{"error":{"code":"type_not_permitted","details":{"grant":{\#(members)}}}}"#
    }
    #expect(read(403, grant(#""kind":"type","name":"core.note","level":"write""#)) == "blocked credential_refused")
    for broken in [
      #""kind":"type","name":"core.note""#, #""kind":"all","name":"x","level":"write""#,
      #""kind":"type","name":"x","level":"none""#, #""kind":"type","name":1,"level":"read""#,
    ] {
      #expect(read(403, grant(broken)) == "refused type_not_permitted")
    }
    let create = Sample.write(.createItem, body: #"{"type":"core.note","source":"feed","properties":{}}"#)
    let bare = #"{"error":{"code":"forbidden","details":{"source":"feed"}}}"#
    #expect(read(403, bare, create) == "unclaimed feed")
    #expect(read(403, bare) == "refused forbidden")
    #expect(
      read(403, #"{"error":{"code":"forbidden","details":{"source":"feed","type":"x"}}}"#, create)
        == "refused forbidden")
  }

  @Test("Q39.1 Q41.1 a keyed create that names another row, and one whose row lies in the bin")
  func keyed() {
    let create = Sample.write(.createItem, body: #"{"type":"core.note","source_id":"k","properties":{}}"#)
    let other = #""current":{"id":"0197c1aa-0000-7000-8000-0000000000ff","version":4}"#
    #expect(read(409, #"{"error":{"code":"version_conflict"},\#(other)}"#, create) == "landed version_conflict")
    #expect(read(409, #"{"error":{"code":"ancestor_unavailable"},\#(other)}"#, create) == "landed ancestor_unavailable")
    let binned = item.replacing("active", with: "trashed")
    #expect(read(200, #"{"item":\#(binned),"acknowledged":true}"#, create) == "refused trashed")
    #expect(read(200, #"{"item":\#(binned),"acknowledged":true}"#) == "accepted")
  }

  @Test("Q32.5 Q37.2 each door's own success shape")
  func shapes() {
    #expect(read(200, #"{"ok":true}"#, Sample.write(.deleteItem)) == "accepted")
    #expect(read(200, #"{"metadata":{"tags":[]}}"#, Sample.write(.addTag)) == "accepted")
    #expect(read(200, #"{"extensions":{}}"#, Sample.write(.writeExtension)) == "accepted")
    #expect(read(200, #"{"item":\#(item)}"#, Sample.write(.addTag)) == "counted")
    var upload = Sample.write(.uploadBlob)
    upload.blob = ContentHash(of: [1])
    #expect(read(201, #"{"hash":"\#("sha256:" + ContentHash(of: [1]).hex)"}"#, upload) == "accepted")
    #expect(read(201, #"{"hash":"\#("sha256:" + ContentHash(of: [2]).hex)"}"#, upload) == "counted")
  }

  @Test("Q48.1 Q48.4 a refusal's parts; what is missing or misshapen is absent")
  func parts() throws {
    let answer = try JSON(
      parsing:
        #"{"error":{"code":"invalid_properties","message":"title is required","details":{"errors":[{"field":"title","message":"required"},{"path":"x"}],"trashed":1}}}"#
    )
    let refusal = Refusal(reason: "invalid_properties", answer: answer)
    #expect(
      refusal.json.compact
        == #"{"reason":"invalid_properties","code":"invalid_properties","message":"title is required","fields":[{"field":"title","message":"required"}],"trashed":false,"grant":null}"#
    )
    #expect(Refusal(reason: "x", answer: nil).json["code"]?.isNull == true)
  }
}

@Suite struct CheckTests {
  private func field(_ kind: Text, _ more: JSON = [:]) -> Field {
    Field(name: "f", kind: kind, isRequired: false, isSearchable: true, declaredBy: "t", definition: more)
  }

  private func takes(_ kind: Text, _ json: String, _ more: JSON = [:]) throws -> Bool {
    PropertyCheck.fault(try JSON(parsing: json), field(kind, more)) == nil
  }

  @Test("Q55.2 Q55.4 the kinds of values, at their bounds")
  func kinds() throws {
    let table: [(Text, String, Bool)] = [
      ("string", #""x""#, true), ("string", "1", false), ("string", #""a\u0000""#, false), ("number", "1.5", true),
      ("number", #""1""#, false), ("integer", "3.0", true), ("integer", "3.5", false),
      ("integer", "9007199254740991", true), ("integer", "9007199254740992", false), ("boolean", "true", true),
      ("boolean", "0", false), ("array", "[1,{}]", true), ("array", "{}", false), ("object", "{}", true),
      ("date", #""2024-02-29""#, true), ("date", #""2023-02-29""#, false), ("date", #""2024-02-29T00:00:00Z""#, false),
      ("date", #""0000-02-29""#, true), ("datetime", #""2024-02-29""#, true),
      ("datetime", #""2024-02-29T10:00Z""#, true),
      ("datetime", #""2024-02-29T10:00:00.123456+02:00""#, true), ("datetime", #""2024-02-29T10:00:00""#, false),
      ("datetime", #""2024-02-29t10:00:00Z""#, false), ("datetime", #""2024-02-29T24:00:00Z""#, false),
      ("email", #""a.b+c@example.org""#, true), ("email", #""a@domain-.test""#, true),
      ("email", #""a@localhost""#, false),
      ("email", #""a@domain.t""#, false), ("email", #""a@-domain.test""#, false), ("email", #""a..b@c.de""#, false),
      ("url", #""https://example.org/a?b#c""#, true), ("url", #""example.org""#, false),
      ("url", #""mailto:a@b""#, true),
      ("url", #""http://""#, false), ("url", #""https://[::1]:80/""#, true), ("url", #""https://a b/""#, false),
      ("thumbnail", #""data:image/jpeg;base64,/9j/""#, true), ("thumbnail", #""data:image/png;base64,/9j/""#, false),
      ("thumbnail", #""data:image/jpeg;base64,/9j""#, false), ("later-kind", "1", true),
    ]
    for (kind, json, taken) in table { #expect(try takes(kind, json) == taken, "\(kind) \(json)") }
    #expect(try takes("string", "\"\u{1F600}\u{1F600}\"", ["maxLength": 4]))
    #expect(try !takes("string", "\"\u{1F600}\u{1F600}\"", ["maxLength": 3]))
    #expect(try takes("enum", #""a""#, ["enum_values": ["a", "b"]]))
    #expect(try !takes("enum", #""c""#, ["enum_values": ["a", "b"]]))
    #expect(try !takes("array", "[1,2]", ["maxItems": 1]))
  }

  @Test("Q55.12 Q55.14 tags, empty names and numbers that would not survive")
  func bounds() throws {
    #expect(throws: MarfaError.self) { try PropertyCheck.tag("") }
    #expect(throws: MarfaError.self) { try PropertyCheck.tag(" \u{A0}\u{FEFF}") }
    #expect(throws: MarfaError.self) { try PropertyCheck.tag(Text(String(repeating: "a", count: 129))) }
    try PropertyCheck.tag(Text(String(repeating: "a", count: 128)))
    let hundred = (0..<100).map { Text("t\($0)") }
    try PropertyCheck.tagCount(adding: hundred, to: [])
    #expect(throws: MarfaError.self) { try PropertyCheck.tagCount(adding: ["x"], to: hundred) }
    try PropertyCheck.tagCount(adding: ["t1"], to: hundred + ["over"])
    for (json, kept) in [
      ("9007199254740992", true), ("9007199254740993", false), ("12345678901234567890", false), ("0.1", true),
      ("[1,{\"a\":9007199254740993}]", false),
    ] {
      let properties = JSONObject([(Text("n"), try JSON(parsing: json))])
      if kept {
        try PropertyCheck.names(properties)
      } else {
        #expect(throws: MarfaError.self) { try PropertyCheck.names(properties) }
      }
    }
    #expect(throws: MarfaError.self) { try PropertyCheck.names(JSONObject([("", 1)])) }
  }
}

import FolderSync
import MarfaBase
import MarfaCopy
import Testing

/// The pure deciders, case by case.
struct DecisionTests {
  static let id = EntityID("01900000-0000-7000-8000-00000000b001")!
  static let other = EntityID("01900000-0000-7000-8000-00000000b002")!

  static func item(_ version: Int, _ properties: JSONObject, tags: [Text] = []) -> Item {
    let at = Timestamp(milliseconds: 1_927_000_000_000)
    return Item(
      id: id, type: "core.note", tier: "library", properties: properties, tags: tags, version: version, occurredAt: at,
      createdAt: at, updatedAt: at)
  }

  struct Line: Sendable {
    var line: Int?
    var spent: Int
    /// The line of the bytes before the save, where those showed all the copy holds.
    var before: Int?
    var replaces: Bool
    var version: Int
    var readThere: Bool
  }

  @Test(
    "the version line decides the base of an edit (F23, the table of F23.15)",
    arguments: [
      Line(line: 4, spent: 9, replaces: true, version: 4, readThere: false),
      Line(line: 3, spent: 0, before: 3, replaces: true, version: 4, readThere: false),
      Line(line: 3, spent: 2, replaces: false, version: 3, readThere: true),
      Line(line: 3, spent: 3, replaces: false, version: 4, readThere: false),
      Line(line: nil, spent: 0, replaces: false, version: 4, readThere: false),
      Line(line: 9, spent: 0, replaces: false, version: 4, readThere: false),
    ])
  func base(_ row: Line) {
    let item = Self.item(4, JSONObject([("title", "Plan"), ("body", "Words.")]))
    let names = FieldNames(reserved: FieldNames.own)
    var binding = Binding(item: Self.id, path: "Plan.md", form: .markdown)
    binding.showed = Showed(item, bodyField: "body", names: names, form: .markdown)
    binding.line = row.before
    if row.spent > 0 { binding.spent = [SpentLine(line: row.spent, write: nil)] }
    let file = FileFields(properties: JSONObject([("title", "Plan")]), body: "Other.", line: row.line)
    let decision = decideEdit(
      file, EditSituation(binding: binding, item: item, bodyField: "body", names: names, waits: false))
    #expect(decision.edit?.replaces == row.replaces)
    #expect(decision.edit?.version == row.version)
    #expect(decision.edit?.readThere == row.readThere)
  }

  @Test("a file whose meaning is the last agreement's asks for nothing, whatever its line (F7.28, F23.13)")
  func meaning() {
    let item = Self.item(4, JSONObject([("title", "Plan"), ("n", 1), ("body", "Words.")]))
    let names = FieldNames(reserved: FieldNames.own)
    var binding = Binding(item: Self.id, path: "Plan.md", form: .markdown)
    binding.showed = Showed(item, bodyField: "body", names: names, form: .markdown)
    binding.ownLines = OwnLines(item)
    for line in [nil, 1, 4, 99] {
      let file = FileFields(properties: JSONObject([("n", 1), ("title", "Plan")]), body: "Words.", line: line)
      let decision = decideEdit(
        file, EditSituation(binding: binding, item: item, bodyField: "body", names: names, waits: false))
      #expect(decision.sendsNothing, "line \(String(describing: line))")
    }
  }

  @Test("a tag another machine moved away from at this line is not sent back, but flagged (F7.17)")
  func movedAway() {
    let item = Self.item(1, JSONObject([("title", "Plan"), ("body", "Words.")]), tags: ["new"])
    let names = FieldNames(reserved: FieldNames.own)
    var binding = Binding(item: Self.id, path: "Plan.md", form: .markdown)
    binding.showed = Showed(item, bodyField: "body", names: names, form: .markdown)
    binding.ownLines = OwnLines(item)
    binding.movedAway.tags = ["new": [false]]
    let file = FileFields(tags: ["own"], properties: JSONObject([("title", "Plan")]), body: "Words.", line: 1)
    let decision = decideEdit(
      file, EditSituation(binding: binding, item: item, bodyField: "body", names: names, waits: false))
    #expect(decision.tagsAdded == ["own"] && decision.tagsRemoved == [])
    #expect(decision.behind == ["tags (new)"])
  }

  static func claim(_ path: PathBytes, _ inode: UInt64?, _ carries: EntityID? = nil, birth: Int64 = 1) -> FileClaim {
    FileClaim(
      path: path, identity: inode.map { StoredIdentity(device: nil, inode: $0, birth: birth) }, carries: carries,
      form: .markdown)
  }

  static func bound(_ item: EntityID, _ path: PathBytes, _ inode: UInt64?) -> Binding {
    var binding = Binding(item: item, path: path, form: .markdown)
    binding.identity = inode.map { StoredIdentity(device: nil, inode: $0, birth: 1) }
    return binding
  }

  @Test("of files claiming one id one keeps it, whatever the walk's order (F15.1, F15.6)")
  func identity() {
    let binding = Self.bound(Self.id, "a.md", 1)
    // Bound at its path with its identity: it stays that item's whatever it carries.
    #expect(resolveIdentity([Self.claim("a.md", 1, Self.other)], [binding]) == [.item(Self.id)])
    // Moved and without its line: by identity.
    #expect(resolveIdentity([Self.claim("b.md", 1)], [binding]) == [.item(Self.id)])
    // Renamed, with a new file at the old name: the new one is new (F13.5).
    #expect(
      resolveIdentity([Self.claim("a.md", 2), Self.claim("b.md", 1)], [binding]) == [.new, .item(Self.id)])
    // An original saved without its line over an older copy carrying it (F15.4).
    #expect(
      resolveIdentity([Self.claim("a.md", 3), Self.claim("copy.md", 2, Self.id, birth: 0)], [binding])
        == [.item(Self.id), .new])
    // Two unbound files: the earlier born, else path order (F15.1).
    #expect(
      resolveIdentity([Self.claim("b.md", 1, Self.id, birth: 5), Self.claim("a.md", 2, Self.id, birth: 9)], [])
        == [.item(Self.id), .new])
    #expect(
      resolveIdentity([Self.claim("b.md", 1, Self.id), Self.claim("a.md", 2, Self.id)], []) == [.new, .item(Self.id)])
    // No identity on either side: at its path.
    #expect(resolveIdentity([Self.claim("a.md", nil)], [Self.bound(Self.id, "a.md", nil)]) == [.item(Self.id)])
    // A copy's own binding by identity, the id it carries kept by another file (F15.3).
    #expect(
      resolveIdentity(
        [Self.claim("a.md", 1, Self.id), Self.claim("moved.md", 2, Self.id)],
        [binding, Self.bound(Self.other, "copy.md", 2)]) == [.item(Self.id), .item(Self.other)])
  }

  @Test("no two items are given one path, and numbers are counted from the bare name (F19.14, F19.15)")
  func placements() {
    let at = Timestamp(milliseconds: 1)
    let wishes = [
      PlacementWish(item: Self.other, path: "Plan.md", placement: nil, own: "plan.md"),
      PlacementWish(item: Self.id, path: "Plan.md", placement: (at, Self.id), own: nil),
    ]
    let places = rankPlacements(wishes) { path, _ in path == "Plan (2).md" }
    #expect(places[Self.id] == Place(path: "Plan.md", isBeside: false))
    #expect(places[Self.other] == Place(path: "Plan (3).md", isBeside: true))
    // A file left over takes no name from one that every machine has, however old its placement is (F19.17).
    let leftOver = rankPlacements([
      PlacementWish(item: Self.other, path: "a.png", placement: (at, Self.other), own: "a.png", isLeftOver: true),
      PlacementWish(
        item: Self.id, path: "a.png", placement: (Timestamp(milliseconds: 9), Self.id), own: nil),
    ]) { _, _ in false }
    #expect(leftOver[Self.id] == Place(path: "a.png", isBeside: false))
    #expect(leftOver[Self.other] == Place(path: "a (2).png", isBeside: true))
    #expect(unnumbered("Plan (2).md") == "Plan.md")
    #expect(unnumbered("Plan (two).md") == "Plan (two).md")
    #expect(unnumbered("(2).md") == "(2).md")
  }

  @Test("F361 in part: a removal is large past both bounds")
  func large() {
    func large(_ count: Int, _ bound: Int) -> Bool { isLargeRemoval(count, ofBound: bound, files: 10, fraction: 0.25) }
    #expect(!large(10, 12) && large(11, 12) && !large(11, 44) && large(12, 44))
    #expect(isLargeRemoval(1, ofBound: 2, files: 0, fraction: 0))
  }
}

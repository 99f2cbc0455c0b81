import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// Client and instance judge by code of their own; here the same questions go to both, made by a seed.
@Suite("Client and instance judge alike") struct AgreementTests {
  /// What a judge said: the code, what is at fault, and of which constraint.
  private struct Verdict: Equatable, CustomStringConvertible {
    var code: Text?
    var place: Text?
    var description: String { code.map { "\($0) \(place ?? "-")" } ?? "taken" }

    static let taken = Verdict()

    init() {}
    init(code: Text?, details: JSON?) {
      self.code = code ?? "?"
      let error = details?["errors"]?.array?.first
      place = error?["field"]?.text ?? error?["path"]?.text ?? details?["constraint"]?.text
      if place == nil { place = details?.object?.keys.first { $0 == "source_type" || $0 == "target_type" } }
    }
  }

  private static func here(_ work: () throws(MarfaError) -> Void) -> Verdict {
    do throws(MarfaError) { try work() } catch {
      return Verdict(code: error.server?.code ?? Text(error.code.rawValue), details: error.server?.details)
    }
    return .taken
  }

  /// The same of a call that is taken back where it is taken.
  private static func undone(_ bench: CopyBench, _ work: () throws -> Void) -> Verdict {
    struct Undone: Error {}
    var isTaken = false
    let verdict = here { () throws(MarfaError) in
      try bench.copy.store.transaction {
        try work()
        isTaken = true
        throw Undone()
      }
    }
    return isTaken ? .taken : verdict
  }

  /// What the instance says to a request.
  private static func there(_ bench: CopyBench, _ method: String, _ target: String, _ body: JSON) -> Verdict {
    bench.clock.advance(nanoseconds: 5_000_000)
    let answer = bench.instance.handle(
      InstanceRequest(
        method: method, target: target,
        headers: [
          HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "application/json"),
        ], body: body.write()))
    guard case .whole(let response) = answer, let json = try? JSON(parsing: response.body) else { return .taken }
    if (200..<300).contains(response.status) { return .taken }
    return Verdict(code: json["error"]?["code"]?.text, details: json["error"]?["details"])
  }

  // MARK: Values

  private static let kinds: [(kind: Text, more: JSONObject)] = [
    ("string", JSONObject()), ("string", ["maxLength": 6]), ("enum", ["enum_values": ["on", "off"]]),
    ("enum", ["enum_values": ["é", ""], "maxLength": 3]), ("number", JSONObject()), ("integer", JSONObject()),
    ("boolean", JSONObject()), ("array", ["items_type": "string", "maxItems": 2]), ("object", JSONObject()),
    ("url", JSONObject()), ("email", JSONObject()), ("date", JSONObject()), ("datetime", JSONObject()),
    ("thumbnail", JSONObject()),
  ]

  private static let texts: [String] = [
    "", "on", "é", "e\u{301}", "three!", "\u{1F600}\u{1F600}\u{1F600}", "nul\u{0}", "2031-02-28", "2032-02-29",
    "0000-02-29", "2031-13-01", "2031-02-03T04:05Z", "2031-02-03T04:05:06.789+23:59", "2031-02-03T24:00:00Z",
    "2031-02-03T04:05:06-00:00", "a@b.example", "a.b'c+d@x-.test", "\"a b\"@c.example", "a@b@c.example",
    "http://a.example/p", "https://[::1]:80/x", "http://1.2.3.256/", "foo://@a", "mailto:a@b", "file:///etc/x",
    "data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgp=", "data:image/jpeg;base64,/9j/",
    "data:image/webp;base64,UklGRgAAAABXRUJQ", "data:image/gif;base64,R0lGODlh",
  ]
  private static let alphabet: [String] =
    [
      "0", "1", "9", "-", ":", "T", "Z", "+", ".", " ", "@", "a", "'", "_", "/", "?", "#", "[", "]", "%", "=", "\\",
      "\"",
    ]
    + ["\u{0}", "\t", "\u{7F}", "é", "\u{FFFD}", "\u{1F600}", "\u{202E}", "\u{FEFF}"]
  private static let numbers: [String] = [
    "0", "-0", "1", "-1", "1.0", "1e3", "1E-3", "1.5", "-0.25", "1e-400", "4.00000000000000000000001", "1e308", "1e400",
    "9007199254740991", "-9007199254740991", "9007199254740991.4", "9007199254740992.0", "1e21",
  ]

  private static let odd: [JSON] = [
    .null, .bool(true), .bool(false), .array([]), [1, "x"], ["k": "v"], .object(JSONObject()), ["a"],
    ["a", "nul\u{0}"],
    ["a", "b", "c"], ["k": ["nul\u{0}"]],
  ]

  private static func value(_ random: inout SplitMix) throws -> JSON {
    switch random.next() % 12 {
    case 0: return try JSON(parsing: numbers[Int(random.next() % UInt64(numbers.count))])
    case 1: return odd[Int(random.next() % UInt64(odd.count))]
    default:
      var scalars = Array(texts[Int(random.next() % UInt64(texts.count))].unicodeScalars)
      for _ in 0..<random.next() % 4 {
        let place = Int(random.next() % UInt64(scalars.count + 1))
        let piece = Array(alphabet[Int(random.next() % UInt64(alphabet.count))].unicodeScalars)
        switch random.next() % 3 {
        case 0: scalars.insert(contentsOf: piece, at: place)
        case 1 where place < scalars.count: scalars.remove(at: place)
        default: if place < scalars.count { scalars.replaceSubrange(place...place, with: piece) }
        }
      }
      var text = String.UnicodeScalarView()
      text.append(contentsOf: scalars)
      return .string(Text(String(text)))
    }
  }

  @Test("T-S24 I-S39 values made by a seed meet the same verdict here and on the instance, for every kind of field")
  func values() throws {
    let bench = try CopyBench()
    for (place, (kind, more)) in AgreementTests.kinds.enumerated() {
      var plain: JSONObject = ["type": .string(kind)]
      for (key, value) in more.members { plain[key] = value }
      var required = plain
      required["required"] = true
      for (name, field) in [("free", plain), ("held", required)] {
        try bench.ask(
          "POST", "/types",
          [
            "id": .string(Text("acme.\(name)-\(place)")),
            "fields": ["value": .object(field), "title": ["type": "string"]],
          ])
      }
    }
    try bench.fill(["*"], tier: "all")
    var random = SplitMix(seed: 20)
    var taken = 0
    var refused = 0
    // A text at the longest a field takes by itself, and one past it.
    let long: [JSON] = [("", 100_000), ("", 100_001), ("http://a.b/", 99_989), ("http://a.b/", 99_990)].map {
      .string(Text($0.0 + String(repeating: "a", count: $0.1)))
    }
    for (place, (kind, _)) in AgreementTests.kinds.enumerated() {
      for round in 0..<140 {
        let isLong = round < long.count && (kind == "string" || kind == "url")
        let value = isLong ? long[round] : try AgreementTests.value(&random)
        let type = Text("acme.\(round % 3 == 0 ? "held" : "free")-\(place)")
        let properties: JSONObject = ["title": "T", "value": value]
        let before = try bench.copy.queue.all().count
        let here = AgreementTests.here { () throws(MarfaError) in
          let write = try bench.copy.queue.createItem(ItemDraft(type: type, properties: properties))
          _ = try bench.copy.queue.withdraw(write.id)
        }
        let there = AgreementTests.there(
          bench, "POST", "/items", ["type": .string(type), "properties": .object(properties)])
        #expect(here == there, "\(kind) \(String(value.compact.prefix(120))): \(here) here, \(there) there")
        if here != .taken { #expect(try bench.copy.queue.all().count == before) }
        if there == .taken { taken += 1 } else { refused += 1 }
      }
    }
    // Neither judge is one that takes or refuses all.
    #expect(taken > 150 && refused > 300, "\(taken) taken, \(refused) refused")
  }

  @Test("I-S39 Q55.10 a write queued before its type changed stays queued, is sent as it is and judged by the instance")
  func catalogChange() throws {
    let bench = try CopyBench()
    try bench.ask("POST", "/types", ["id": "acme.thing", "fields": ["title": ["type": "string"]]])
    try bench.fill(["*"], tier: "all")
    let write = try bench.copy.queue.createItem(ItemDraft(type: "acme.thing", properties: ["title": "Old"]))
    try bench.ask(
      "PUT", "/types/acme.thing",
      ["version": 2, "fields": ["title": ["type": "string"], "size": ["type": "integer", "required": true]]])
    try bench.copy.catchUp()
    #expect(try bench.copy.catalog().type("acme.thing")?.field("size")?.isRequired == true)
    let kept = try #require(try bench.copy.queue.write(write.id))
    #expect(kept.verdict == nil && kept.bodyText == write.bodyText && kept.idempotencyKey == write.idempotencyKey)
    // A new one is judged by what the copy holds now.
    let now = AgreementTests.here { () throws(MarfaError) in
      try bench.copy.queue.createItem(ItemDraft(type: "acme.thing", properties: ["title": "New"]))
    }
    #expect(now.code == "invalid_properties" && now.place == "size")
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.refused] && report.verdicts.first?.reason == "invalid_properties")
  }

  // MARK: Edges

  @Test("E-S40 Q64.1 an impossible edge or move queues nothing, and its code and place are the instance's")
  func edges() throws {
    let bench = try CopyBench()
    let types: [Text] = [
      "about", "attached-to", "authored-by", "in-collection", "in-folder", "in-thread", "parent-of", "references",
      "supersedes", "in-folder", "no-such",
    ]
    let slice = ["*", "system.folder"] as [Text]
    let whole = Array(Set(types.dropLast())).sorted()
    var items = try (0..<5).map { try bench.note(Text("Note \($0)")) }
    for title in ["One", "Two"] as [Text] {
      let made = try bench.ask("POST", "/items", ["type": "core.media.album", "properties": ["title": .string(title)]])
      items.append(try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) }))
    }
    for title in ["Kept", "Revoked"] as [Text] {
      let made = try bench.ask("POST", "/folders", ["title": .string(title), "search": [:]])
      let id = try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
      items.append(id)
      if title == "Revoked" { try bench.ask("POST", "/folders/\(id)/revoke") }
    }
    let trashed = try bench.note("Trashed")
    let version = try bench.ask("GET", "/items/\(trashed)")["item"]?["version"]?.int ?? 0
    try bench.ask("DELETE", "/items/\(trashed)?version=\(version)")
    items.append(trashed)
    try bench.fill(slice, tier: "all", edges: whole)
    var random = SplitMix(seed: 3)
    var said: [String: Int] = [:]
    for _ in 0..<500 {
      let type = types[Int(random.next() % UInt64(types.count))]
      let source = items[Int(random.next() % UInt64(items.count))]
      var target = items[Int(random.next() % UInt64(items.count))]
      // Of any end at all few are folders.
      if type == "in-folder", random.next() % 4 > 0 { target = items[7 + Int(random.next() % 2)] }
      let queue = bench.copy.queue
      let held = try bench.copy.edges(ofType: type)
      let here: Verdict
      let there: Verdict
      if random.next() % 3 > 0, let edge = held.randomElement(using: &random) {
        let both = random.next() % 10 == 0
        let movesSource = both || random.next() % 2 == 0
        let (from, to) = (movesSource ? source : nil, both || !movesSource ? target : nil)
        guard (from ?? edge.source) != edge.source || (to ?? edge.target) != edge.target else { continue }
        here = AgreementTests.undone(bench) {
          _ = try queue.updateEdge(edge.id, version: edge.version, source: from, target: to)
        }
        var body: JSONObject = ["version": .int(edge.version)]
        if let from { body["source_id"] = .string(from.text) }
        if let to { body["target_id"] = .string(to.text) }
        there = AgreementTests.there(bench, "PATCH", "/edges/\(edge.id)", .object(body))
        #expect(
          here == there, "\(type) \(edge.source) -> \(edge.target) moved: \(here) here, \(there) there")
      } else {
        let path = ["", "../a", "a.md", "b.md", "c.md", "a/b.md"][Int(random.next() % 6)]
        let properties: JSONObject = type == "in-folder" ? ["path": .string(Text(path))] : JSONObject()
        let draft = EdgeDraft(source: source, target: target, type: type, properties: properties)
        here = AgreementTests.undone(bench) { try queue.createEdge(draft) }
        there = AgreementTests.there(
          bench, "POST", "/edges",
          [
            "source_id": .string(source.text), "target_id": .string(target.text), "edge_type": .string(type),
            "properties": .object(properties),
          ])
        #expect(here == there, "\(type) \(path): \(here) here, \(there) there")
      }
      #expect(try queue.all().isEmpty)
      said[there.description, default: 0] += 1
      guard there == .taken else { continue }
      // A moved source is another read view: the copy fills anew.
      do throws(MarfaError) { try bench.copy.catchUp() } catch {
        #expect(error.code == .copyExpired)
        try bench.fill(slice, tier: "all", edges: whole)
      }
    }
    for verdict in [
      "edge_cycle -", "edge_constraint_violation duplicate", "edge_constraint_violation cardinality",
      "edge_constraint_violation nesting", "edge_constraint_violation target_type", "edge_constraint_violation revoked",
      "item_not_found -", "edge_type_not_found -", "validation_error source_id", "validation_error target_id", "taken",
    ] {
      #expect(said[verdict, default: 0] > 0, "\(verdict) was never met: \(said)")
    }
  }
}

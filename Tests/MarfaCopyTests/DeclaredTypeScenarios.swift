import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

@Suite("Declared types") struct DeclaredTypeScenarios {
  private static let recipe: JSONObject = [
    "id": "app.kitchen.recipe", "label": "Recipe", "required": ["name"],
    "fields": ["name": ["type": "string", "maxLength": 20], "page": ["type": "string", "format": "url"]],
  ]
  private static let cake: JSONObject = [
    "id": "app.kitchen.cake", "parent": "app.kitchen.recipe", "fields": ["layers": ["type": "integer"]],
  ]

  private static func code(_ bench: CopyBench, _ type: Text, _ properties: JSONObject) -> MarfaError? {
    bench.refusal { try bench.copy.queue.createItem(ItemDraft(type: type, properties: properties)) }
  }

  private static func registered(_ bench: CopyBench) -> [Text] {
    bench.transport.sent.filter { $0.url.contains("/types") && $0.method != "GET" }.map { request in
      Text("\(request.method) \(request.json?["id"]?.text ?? "-")")
    }
  }

  @Test("D-S147 writes are judged by declared types; a bad declaration declares none; the latest set replaces")
  func judged() throws {
    let bench = try CopyBench()
    let unknown = DeclaredTypeScenarios.code(bench, "app.kitchen.recipe", ["name": "Pie"])
    #expect(unknown?.code == .unknownType && unknown?.server?.code == "unknown_type")
    try bench.copy.declareTypes([DeclaredTypeScenarios.recipe, DeclaredTypeScenarios.cake])
    let stored = try bench.copy.declaredTypes()
    #expect(stored.map { $0["id"] } == ["app.kitchen.recipe", "app.kitchen.cake"])
    #expect(stored[0]["fields"]?["page"] == ["type": "url"] && stored[0]["required"] == nil)
    #expect(stored[0]["fields"]?["name"]?["required"] == true)
    for (type, properties) in [
      ("app.kitchen.recipe", ["page": "https://a.example"]), ("app.kitchen.recipe", ["name": 3]),
      ("app.kitchen.recipe", ["name": "A name of more than twenty"]),
      ("app.kitchen.recipe", ["name": "Pie", "page": "x"]),
      ("app.kitchen.cake", ["layers": 3]), ("app.kitchen.cake", ["name": "Pie", "layers": "three"]),
    ] as [(Text, JSONObject)] {
      let refusal = DeclaredTypeScenarios.code(bench, type, properties)
      #expect(refusal?.code == .validation && refusal?.server?.code == "invalid_properties", "\(type)")
    }
    #expect(DeclaredTypeScenarios.code(bench, "app.kitchen.cake", ["name": "Tart", "layers": 2]) == nil)
    #expect(try bench.copy.queue.all().count == 1)

    // One bad definition declares none of its set.
    let bad: [JSONObject] = [
      ["id": "app.kitchen", "fields": [:]], ["id": "Bad.Name", "fields": [:]], ["id": "core.soup", "fields": [:]],
      ["id": "core.note", "fields": [:]], ["id": "app.kitchen.x", "fields": ["a": ["type": "colour"]]],
      ["id": "app.kitchen.x", "fields": ["a": [:]]],
      ["id": "app.kitchen.x", "parent": "app.kitchen.none", "fields": [:]],
      ["id": "app.kitchen.x"], ["id": "app.kitchen.*", "fields": [:]],
    ]
    for type in bad {
      let good: JSONObject = ["id": "app.kitchen.tool", "fields": [:]]
      #expect(
        bench.refusal { try bench.copy.declareTypes([good, type]) }?.code == .invalid, "\(JSON.object(type).compact)")
    }
    #expect(try bench.copy.declaredTypes() == stored)
    // The latest set replaces; what was queued under a type left out stays.
    try bench.copy.declareTypes([["id": "app.kitchen.tool", "fields": ["name": ["type": "string"]]]])
    #expect(DeclaredTypeScenarios.code(bench, "app.kitchen.recipe", ["name": "Pie"])?.code == .unknownType)
    #expect(DeclaredTypeScenarios.code(bench, "app.kitchen.tool", ["name": "Whisk"]) == nil)
    #expect(try bench.copy.queue.all().count == 2)
    // They outlive the handle; an empty set clears them.
    try bench.reopen()
    #expect(try bench.copy.catalog().type("app.kitchen.tool") != nil)
    try bench.copy.declareTypes([])
    #expect(try bench.copy.catalog().type("app.kitchen.tool") == nil)
    #expect(try bench.copy.declaredTypes().isEmpty && bench.transport.requests.isEmpty)
  }

  @Test("D-S148 T-S45 a fill registers parents first; a 503 fails it; a refusal is reported and the write waits")
  func registers() throws {
    let bench = try CopyBench()
    try bench.copy.declareTypes([DeclaredTypeScenarios.cake, DeclaredTypeScenarios.recipe])
    #expect(DeclaredTypeScenarios.code(bench, "app.kitchen.cake", ["name": "Tart"]) == nil)
    // What clears by itself fails the fill, and leaves the copy unfilled.
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/types") ? bench.named(503, "unavailable") : nil
    }
    #expect(bench.refusal { try bench.fill(["*"]) }?.code == .server)
    #expect(try bench.copy.hydration() == .never)
    // A refusal is reported, and the fill goes on without the type.
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/types") ? bench.named(403, "forbidden") : nil
    }
    let refused = try bench.fill(["*"])
    #expect(refused.unregisteredTypes.map(\.id) == ["app.kitchen.recipe", "app.kitchen.cake"])
    #expect(refused.unregisteredTypes.allSatisfy { $0.code == "forbidden" && $0.message == "Said by a test." })
    #expect(refused.registeredTypes.isEmpty)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.queue.all().map(\.verdict) == [nil])
    // Once the instance takes them the same fill registers both, the parent first, and the write is sent.
    bench.transport.before = nil
    bench.transport.clear()
    let report = try bench.fill(["*"])
    #expect(report.registeredTypes == ["app.kitchen.recipe", "app.kitchen.cake"] && report.unregisteredTypes.isEmpty)
    #expect(DeclaredTypeScenarios.registered(bench) == ["POST app.kitchen.recipe", "POST app.kitchen.cake"])
    #expect(try bench.ask("GET", "/types/app.kitchen.cake")["fields"]?["page"]?["type"] == "url")
    #expect(try bench.copy.queue.drain().verdicts.map(\.verdict) == [.accepted])
    // Held as declared, nothing is sent again.
    bench.transport.clear()
    let again = try bench.fill(["*"])
    #expect(again.registeredTypes.isEmpty && again.replacedTypes.isEmpty && again.unreplacedTypes.isEmpty)
    #expect(DeclaredTypeScenarios.registered(bench).isEmpty)
    // A slice that names an exact type the instance still lacks is refused (D57.13).
    try bench.copy.declareTypes([["id": "app.kitchen.tool", "fields": [:]]])
    bench.transport.before = { request in
      request.method == "POST" && request.url.hasSuffix("/types") ? bench.named(403, "forbidden") : nil
    }
    #expect(bench.refusal { try bench.fill(["app.kitchen.tool"]) }?.code == .unknownType)
  }

  @Test("D-S149 T-S45 an app.* type held in another definition is replaced, or listed; one outside app.* never is")
  func replaces() throws {
    let bench = try CopyBench()
    try bench.ask(
      "POST", "/types", ["id": "app.kitchen.recipe", "fields": ["name": ["type": "string"]]])
    try bench.ask("POST", "/types", ["id": "acme.recipe", "fields": ["name": ["type": "string"]]])
    try bench.copy.declareTypes([
      DeclaredTypeScenarios.recipe, ["id": "acme.recipe", "fields": ["name": ["type": "string", "maxLength": 5]]],
    ])
    bench.transport.before = { request in request.method == "PUT" ? bench.named(403, "forbidden") : nil }
    let listed = try bench.fill(["*"])
    #expect(listed.unreplacedTypes == [.init(id: "app.kitchen.recipe", code: "forbidden", message: "Said by a test.")])
    #expect(listed.replacedTypes.isEmpty && listed.registeredTypes.isEmpty && listed.unregisteredTypes.isEmpty)
    bench.transport.before = nil
    bench.transport.clear()
    let replaced = try bench.fill(["*"])
    #expect(replaced.replacedTypes == ["app.kitchen.recipe"] && replaced.unreplacedTypes.isEmpty)
    #expect(bench.transport.requests.filter { $0.hasPrefix("PUT") } == ["PUT /types/app.kitchen.recipe"])
    #expect(try bench.ask("GET", "/types/app.kitchen.recipe")["fields"]?["name"]?["maxLength"] == 20)
    #expect(try bench.ask("GET", "/types/acme.recipe")["fields"]?["name"]?["maxLength"] == nil)
    // The instance's definition is the one writes are judged by.
    #expect(DeclaredTypeScenarios.code(bench, "acme.recipe", ["name": "longer than five"]) == nil)
    bench.transport.clear()
    #expect(try bench.fill(["*"]).replacedTypes.isEmpty)
    #expect(!bench.transport.requests.contains { $0.hasPrefix("PUT") })
  }
}

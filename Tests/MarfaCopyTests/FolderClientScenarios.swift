import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

@Suite("What the client does with folders") struct FolderClientScenarios {
  private static func folder(_ bench: CopyBench, _ search: JSON) throws -> EntityID {
    let made = try bench.ask("POST", "/folders", ["title": "F", "search": search])
    return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
  }

  @Test("I-S149 without a server, or out of its reach, a folder is not made and nothing waits to be sent")
  func noServer() throws {
    let bench = try CopyBench()
    try bench.fill(["core.note", "system.folder"])
    bench.transport.before = { _ in .failure(.unreachable("away")) }
    #expect(bench.refusal { try bench.copy.createFolder(["title": "F"]) }?.code == .network)
    bench.transport.before = { _ in .failure(.noConnection("no network")) }
    #expect(bench.refusal { try bench.copy.createFolder(["title": "F"]) }?.code == .noConnection)
    #expect(try bench.copy.queue.all().isEmpty)
    bench.transport.before = nil
    bench.transport.clear()
    let alone = try WorkingCopy.open(
      database: try Database(path: ":memory:", mode: .create), blobs: MemoryBlobStore(), context: bench.context,
      role: .writer, endpoint: nil, credentials: nil)
    #expect(bench.refusal { try alone.createFolder(["title": "F"]) }?.code == .noServer)
    #expect(try alone.queue.all().isEmpty && bench.transport.requests.isEmpty)
    // Lost on the way back, the same key makes no second folder.
    bench.transport.after = { request, response in
      request.method == "POST" ? .failure(.unreachable("the connection broke")) : .success(response)
    }
    let key: Text = "019f2c10-8000-7a44-9c03-6d1f0a2b3c4d"
    #expect(bench.refusal { try bench.copy.createFolder(["title": "Once"], key: key) }?.code == .network)
    bench.transport.after = nil
    let made = try bench.copy.createFolder(["title": "Once"], key: key)
    let listed = try bench.ask("GET", "/items?type=system.folder&tier=all")["data"]?.array ?? []
    #expect(listed.count == 1 && listed.first?["id"]?.text == made.folder.id.text)
  }

  @Test(
    "I-S150 a backref, an empty state list, an unknown member or type is invalid when made, changed or followed; nothing is sent"
  )
  func unfollowed() throws {
    let bench = try CopyBench()
    try bench.note("Note")
    try bench.fill(["core.note", "system.folder"], tier: "all")
    let good = try bench.copy.createFolder(["title": "Good", "search": ["types": ["core.note"]]])
    let searches: [JSON] = [
      ["filter": "backref[references] exists"], ["state": []], ["state": ["trashed"]], ["state": "active"],
      ["states": ["active"]], ["tier": "all"], ["types": ["acme.nothing"]], ["types": "core.note"],
      ["beneath": "nowhere"], ["near": "me"],
    ]
    bench.transport.clear()
    for search in searches {
      #expect(
        bench.refusal { try bench.copy.createFolder(["title": "F", "search": search]) }?.code == .invalid,
        "\(search.compact)")
      #expect(
        bench.refusal {
          try bench.copy.changeFolder(good.folder.id, version: good.folder.version, ["search": search])
        }?.code == .invalid, "\(search.compact)")
    }
    for settings in [
      ["title": "F", "defaults": ["kind": "x"]], ["title": "F", "removal_threshold": ["most": 3]],
      ["title": "F", "query": ["types": ["core.note"]]],
    ] as [JSONObject] {
      #expect(bench.refusal { try bench.copy.createFolder(settings) }?.code == .invalid)
    }
    for changes in [JSONObject(), ["version": 1]] as [JSONObject] {
      #expect(
        bench.refusal { try bench.copy.changeFolder(good.folder.id, version: 1, changes) }?.code == .invalid)
    }
    #expect(
      bench.refusal { try bench.copy.createFolder(["title": "F", "search": ["filter": "nonsense"]]) }?.code
        == .validation)
    #expect(bench.transport.requests.isEmpty)

    // Followed, a row that another build wrote is refused as well, never read as less than it says.
    for search in searches where search["types"]?.array == nil {
      let row: JSONObject = ["title": "F", "search": search]
      let held = Item(
        id: bench.newID(), type: "system.folder", tier: "library", properties: row, version: 1,
        occurredAt: bench.clock.now, createdAt: bench.clock.now, updatedAt: bench.clock.now)
      let refusal = bench.refusal { _ = try bench.copy.items(matching: try WorkingCopy.search(of: held)) }
      #expect(refusal?.code == .invalid, "\(search.compact)")
    }
  }

  @Test(
    "I-S151 what the copy cannot answer whole is thrown, listed or searched: a type, the tier, parent-of, a revoked folder"
  )
  func neverPart() throws {
    let bench = try CopyBench()
    let root = try bench.note("Root")
    let child = try bench.note("Child")
    try bench.edge("parent-of", root, child)
    let mark = try FolderClientScenarios.folder(bench, ["types": ["core.note", "core.bookmark"]])
    let every = try FolderClientScenarios.folder(bench, [:])
    let fed = try FolderClientScenarios.folder(bench, ["types": ["core.note"], "tier": "feed"])
    let beneath = try FolderClientScenarios.folder(bench, ["types": ["core.note"], "beneath": .string(root.text)])
    let revoked = try FolderClientScenarios.folder(bench, ["types": ["core.note"]])
    try bench.ask("POST", "/folders/\(revoked)/revoke")
    let whole = try FolderClientScenarios.folder(bench, ["types": ["core.note"]])
    func refusals(_ id: EntityID) -> [MarfaError?] {
      [
        bench.refusal { _ = try bench.copy.list(inFolder: id) },
        bench.refusal { _ = try bench.copy.search("root", inFolder: id) },
      ]
    }
    // Before any fill there is no slice to answer from.
    #expect(refusals(whole).allSatisfy { $0?.code == .invalid })
    try bench.fill(["core.note", "system.folder"], edges: [])
    for id in [mark, every, fed, beneath, revoked] {
      for refusal in refusals(id) { #expect(refusal?.code == .invalid, "\(id)") }
    }
    for refusal in refusals(bench.newID()) {
      #expect(refusal?.code == .notHeld || refusal?.code == .notFound)
    }
    #expect(Set(try bench.copy.list(inFolder: whole).map(\.id)) == [root, child])
    #expect(try bench.copy.search("root", inFolder: whole).map(\.item.id) == [root])
    // Held whole, each answers, the revoked one aside.
    try bench.fill(["*", "system.folder"], tier: "all", edges: ["parent-of"])
    #expect(Set(try bench.copy.list(inFolder: beneath).map(\.id)) == [root, child])
    #expect(Set(try bench.copy.list(inFolder: every).map(\.id)) == [root, child])
    #expect(try bench.copy.list(inFolder: fed).isEmpty)
    for refusal in refusals(revoked) { #expect(refusal?.code == .invalid) }
  }

  @Test(
    "I-S158 a lone query is the search, both are invalid, a change of it says search, and the instance takes search alone"
  )
  func query() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.note("Mark", type: "core.bookmark")
    let folder = try FolderClientScenarios.folder(bench, ["types": ["core.note"]])
    // An older instance names the setting `query`.
    bench.transport.after = { request, response in
      var older = response
      let text = String(decoding: response.body, as: UTF8.self)
      if request.method == "GET", request.url.contains("/items") {
        older.body = Array(text.replacing("\"search\":{", with: "\"query\":{").utf8)
      }
      return .success(older)
    }
    try bench.fill(["core.note", "core.bookmark", "system.folder"], tier: "all")
    bench.transport.after = nil
    let held = try #require(try bench.copy.folder(folder))
    #expect(held.properties["query"] != nil && held.properties["search"] == nil)
    #expect(try WorkingCopy.search(of: held).types == ["core.note"])
    #expect(try bench.copy.list(inFolder: folder).map(\.id) == [note])
    // A change of it names `search`, judged over what the row says under `query`.
    bench.transport.clear()
    #expect(
      bench.refusal {
        try bench.copy.changeFolder(folder, version: 1, ["defaults": ["type": "core.bookmark"]])
      }?.code == .invalid)
    #expect(bench.transport.requests.isEmpty)
    _ = try bench.copy.changeFolder(folder, version: 1, ["search": ["types": ["core.bookmark"]]])
    let sent = try #require(bench.transport.sent.first { $0.method == "PATCH" }?.json)
    #expect(sent["search"] == ["types": ["core.bookmark"]] && sent["query"] == nil)
    // Both at once can't be told apart.
    var both = held
    both.properties["search"] = ["types": ["core.bookmark"]]
    let refusal = bench.refusal { _ = try WorkingCopy.search(of: both) }
    #expect(refusal?.code == .invalid)
    #expect(refusal?.message.contains("query") == true && refusal?.message.contains("search") == true)
    // The local instance knows no `query`.
    let answer = bench.instance.handle(
      InstanceRequest(
        method: "POST", target: "/folders",
        headers: [
          HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "application/json"),
        ], body: Array(#"{"title":"F","query":{"types":["core.note"]}}"#.utf8)))
    guard case .whole(let response) = answer else { throw ScratchError("a stream") }
    let error = try JSON(parsing: response.body)["error"]
    #expect(response.status == 400 && error?["code"] == "validation_error")
    #expect(error?.compact.contains("query") == true)
  }
}

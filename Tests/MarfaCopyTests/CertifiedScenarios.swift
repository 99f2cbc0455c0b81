import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

@Suite("Certified access") struct CertifiedScenarios {
  @Test(
    "D-S103 a proof that is missing, malformed or another, and a row not said to be listed, end the copy",
    arguments: ["none", "short", "other", "no listed", "text listed"])
  func proofs(_ how: String) throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    bench.transport.after = { request, response in
      guard request.url.contains("/items/\(note)?") else { return .success(response) }
      var changed = response
      func view(_ value: String?) {
        changed.headers.removeAll { $0.name.lowercased() == "x-marfa-read-view" }
        if let value { changed.headers.append(HTTPHeader("X-Marfa-Read-View", value)) }
      }
      switch how {
      case "none": view(nil)
      case "short": view("abc")
      case "other": view(String(repeating: "b", count: 64))
      default:
        guard var row = (try? JSON(parsing: response.body))?.object else { break }
        row["listed"] = how == "no listed" ? nil : "yes"
        changed.body = JSON.object(row).write()
      }
      return .success(changed)
    }
    let refusal = bench.refusal { try bench.copy.pin(note, owner: "app") }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_invalid")
    #expect(bench.refusal { _ = try bench.copy.list(ListQuery()) }?.code == .hydrationIncomplete)
    #expect(try bench.copy.queue.unansweredCount() == 1)
    #expect(try bench.copy.pins().isEmpty)
  }

  @Test(
    "D-S104 a limit, a failing server, a dropped connection and a gateway's answer leave the copy complete",
    arguments: ["429", "503", "drop", "502"])
  func passing(_ how: String) throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    bench.transport.before = { request in
      guard request.url.contains("/items/\(note)?") else { return nil }
      switch how {
      case "drop": return .failure(.unreachable("dropped"))
      case "502": return .success(HTTPResponse(status: 502, headers: [], body: []))
      default: return bench.named(Int(how) ?? 0)
      }
    }
    let refusal = try #require(bench.refusal { try bench.copy.pin(note, owner: "app") })
    #expect(refusal.exit == 3)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.get(note)?.properties["title"]?.text == "Note")
  }

  @Test(
    "D-S105 a retype, a narrowed grant and a changed source filter end the copy when it next asks; a fill rebuilds it",
    arguments: ["retype", "grant", "filter"])
  func moves(_ how: String) throws {
    let bench = try CopyBench()
    let (note, other) = (try bench.note("Note"), try bench.note("Other"))
    let key = try bench.makeKey(["core.note": "write", "core.bookmark": "read"])
    try bench.reopen(key: key.key)
    try bench.fill()
    let write = try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    switch how {
    case "retype": try bench.edit(other, version: 1, ["type": "core.bookmark", "retype": true])
    case "grant":
      try bench.ask(
        "PATCH", "/keys/\(key.id)", ["type_permissions": ["core.note": "write"], "edge_permissions": ["*": "write"]])
    default: bench.instance.settings.sourceFilter = ["core.bookmark": ["elsewhere"]]
    }
    let refusal = bench.refusal { try bench.copy.catchUp() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "read_view_changed")
    #expect(try bench.copy.hydration() == .expired)
    try bench.fill()
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(note)?.properties["title"]?.text == "Mine")
    #expect(try bench.copy.queue.write(write.id)?.verdict == nil)
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(write.id)?.verdict == .accepted)
  }

  @Test("D-S109 an answer to a question of an older generation changes nothing of the newer one")
  func lateAnswer() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note", tier: "feed")
    try bench.fill()
    var isAsked = false
    bench.transport.after = { [bench] request, response in
      guard request.url.contains("/items/\(note)?"), !isAsked else { return .success(response) }
      isAsked = true
      // The copy is filled anew, by another slice, before the answer arrives.
      _ = try? bench.fill(["core.bookmark"])
      return .success(response)
    }
    let refusal = bench.refusal { try bench.copy.pin(note, owner: "app") }
    #expect(refusal?.code == .streamIncomplete && refusal?.reason == "local_copy_changed")
    #expect(try bench.copy.item(note) == nil)
    #expect(try bench.copy.pins().isEmpty)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.slice()?.typeList == ["core.bookmark"])
  }

  @Test("D-S108 a named 401 on the head's stream ends a filled copy, credential_ended")
  func credential() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    let queued = try bench.copy.queue.all().map(\.json)
    try bench.reopen(key: "marfa_revoked")
    let refusal = bench.refusal { try bench.fill() }
    #expect(refusal?.code == .copyExpired && refusal?.reason == "credential_ended")
    #expect(try bench.copy.hydration() == .expired)
    // Rows are stored still, the report answers, and the queue is as it was.
    #expect(try bench.copy.status().items == 1)
    #expect(try bench.copy.queue.all().map(\.json) == queued)
    let key = try bench.makeKey(["*": "write"])
    try bench.reopen(key: key.key)
    try bench.fill()
    let report = try bench.copy.queue.drain()
    #expect(report.verdicts.map(\.verdict) == [.accepted])
    #expect(
      bench.transport.sent.contains { request in
        request.method == "PATCH"
          && request.headers.contains {
            $0.name == "Idempotency-Key" && $0.value == queued[0]["idempotency_key"]?.text?.string
          }
      })
  }

  // MARK: - Contract, redirects, unnamed answers

  private static func contract(_ lines: [String], _ response: HTTPResponse) -> HTTPResponse {
    var changed = response
    changed.headers.removeAll { $0.name.lowercased() == "x-marfa-contract" }
    changed.headers += lines.map { HTTPHeader("X-Marfa-Contract", $0) }
    return changed
  }

  @Test("D-S111 no contract, a longer version and two that differ are refused; two equal lines are one")
  func versions() throws {
    for (lines, taken) in [([], false), (["01"], false), (["0.1"], false), (["0", "1"], false), (["0", "0"], true)]
      as [([String], Bool)]
    {
      let bench = try CopyBench()
      bench.transport.after = { _, response in .success(CertifiedScenarios.contract(lines, response)) }
      let refusal = bench.refusal { try bench.fill() }
      #expect(taken ? refusal == nil : refusal?.code == .contractMismatch, "\(lines)")
    }
  }

  @Test(
    "D-S115 a read on another contract names server, status and both versions, says nothing of a write, and exits 1")
  func words() throws {
    let bench = try CopyBench()
    try bench.fill()
    bench.transport.after = { request, response in
      request.url.hasSuffix("/types") ? .success(CertifiedScenarios.contract(["7"], response)) : .success(response)
    }
    let refusal = try #require(bench.refusal { try bench.copy.catchUp() })
    #expect(refusal.code == .contractMismatch && refusal.exit == 1)
    #expect(refusal.message.contains(CopyBench.origin) && refusal.message.contains("200"))
    #expect(refusal.message.contains("7") && refusal.message.contains("0"))
    #expect(!refusal.message.contains("write"))
  }

  @Test(
    "D-S116 a redirect, whatever contract it names, is not followed: one request, state as it was; a write keeps its key",
    arguments: [["0"], ["1"], []])
  func redirects(_ lines: [String]) throws {
    let bench = try CopyBench()
    bench.transport.before = { request in
      .success(
        CertifiedScenarios.contract(
          lines, HTTPResponse(status: 307, headers: [HTTPHeader("Location", "https://other.test/")])))
    }
    let refusal = bench.refusal { try bench.fill() }
    #expect(refusal?.code == .redirect && refusal?.message.contains("https://other.test/") == true)
    #expect(refusal?.message.contains("307") == true)
    #expect(bench.transport.requests.count == 1)
    #expect(try bench.copy.hydration() == .never)

    bench.transport.before = nil
    try bench.fill()
    let write = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "N", "body": "x"]))
    bench.transport.before = { request in
      guard request.method == "POST" else { return nil }
      return .success(
        CertifiedScenarios.contract(
          lines, HTTPResponse(status: 307, headers: [HTTPHeader("Location", "https://other.test/")])))
    }
    #expect(bench.refusal { try bench.copy.queue.drain() }?.code == .redirect)
    let left = try #require(try bench.copy.queue.write(write.id))
    #expect(left.verdict == nil && left.refusals == 0 && left.idempotencyKey == write.idempotencyKey)
    bench.transport.before = nil
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(write.id)?.verdict == .accepted)
  }

  @Test(
    "D-S112 a write on another contract ends the pass, unjudged, and goes again under its key; nothing behind it went")
  func writeMismatch() throws {
    let bench = try CopyBench()
    try bench.fill()
    let first = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "1", "body": "x"]))
    let second = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "2", "body": "x"]))
    bench.transport.after = { request, response in
      request.method == "POST" ? .success(CertifiedScenarios.contract(["1"], response)) : .success(response)
    }
    let refusal = bench.refusal { try bench.copy.queue.drain() }
    #expect(refusal?.code == .contractMismatch && refusal?.message.contains("may have taken effect") == true)
    #expect(try bench.copy.queue.write(first.id)?.verdict == nil)
    func keys() -> [String] {
      bench.transport.sent.filter { $0.method == "POST" }
        .compactMap { $0.headers.first { $0.name == "Idempotency-Key" }?.value }
    }
    #expect(keys() == [first.idempotencyKey.string])
    bench.transport.after = nil
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(first.id)?.verdict == .accepted)
    #expect(keys() == [first.idempotencyKey, first.idempotencyKey, second.idempotencyKey].map(\.string))
    #expect(try bench.copy.list(ListQuery()).count == 2)
  }

  @Test(
    "D-S113 a read back, or of a landed row, on another contract ends the pass; its verdict stays and nothing goes twice"
  )
  func readBackMismatch() throws {
    for lands in [false, true] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      if lands {
        try bench.ask(
          "POST", "/items",
          ["type": "core.note", "tier": "feed", "source_id": "k", "properties": ["title": "There", "body": "x"]])
      }
      try bench.fill()
      let write: QueuedWrite
      if lands {
        write = try bench.copy.queue.createItem(
          ItemDraft(type: "core.note", properties: ["title": "Here", "body": "x"], sourceID: "k"))
      } else {
        write = try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
        bench.transport.before = { request in
          request.method == "PATCH" ? bench.named(422, "validation_error") : nil
        }
      }
      bench.transport.after = { request, response in
        request.method == "GET" && request.url.contains("/items/")
          ? .success(CertifiedScenarios.contract(["1"], response)) : .success(response)
      }
      #expect(bench.refusal { try bench.copy.queue.drain() }?.code == .contractMismatch)
      let verdict = try bench.copy.queue.write(write.id)?.verdict
      #expect(verdict == (lands ? .accepted : .refused))
      bench.transport.after = nil
      bench.transport.before = nil
      try bench.copy.queue.drain()
      #expect(try bench.copy.queue.write(write.id)?.verdict == verdict)
      #expect(bench.transport.sent.filter { $0.method != "GET" }.count == 1)
      #expect(try bench.copy.item(note)?.properties["title"]?.text == "Note")
    }
  }

  @Test(
    "D-S117 what something in front answers a write is unavailable, however often; the instance's own 403 is a refusal")
  func unnamedWrites() throws {
    let bench = try CopyBench()
    try bench.fill()
    let first = try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "1", "body": "x"]))
    try bench.copy.queue.createItem(ItemDraft(type: "core.note", properties: ["title": "2", "body": "x"]))
    for pass in 0..<7 {
      bench.transport.clear()
      bench.transport.before = { request in
        request.method == "POST" ? .success(HTTPResponse(status: pass == 3 ? 401 : 404, headers: [], body: [])) : nil
      }
      let report = try bench.copy.queue.drain()
      #expect(report.unavailable?.contains("X-Marfa-Contract") == true)
      #expect(report.stopped == nil)
      #expect(bench.transport.sent.filter { $0.method == "POST" }.count == 1)
      #expect(try bench.copy.queue.write(first.id)?.refusals == 0)
      #expect(try bench.copy.queue.write(first.id)?.verdict == nil)
    }
    bench.transport.before = { request in request.method == "POST" ? bench.named(403, "type_not_permitted") : nil }
    let report = try bench.copy.queue.drain()
    #expect(report.unavailable == nil)
    let settled = try #require(try bench.copy.queue.write(first.id))
    #expect(settled.verdict == .refused || settled.verdict == .blocked || settled.refusals > 0)
  }

  @Test("D-S118 an unnamed refusal of stream, catalog, blob link or landed row is unnamed_answer, exit 3")
  func unnamedReads() throws {
    let bench = try CopyBench()
    let file = try bench.uploaded(Array("png".utf8), "a.png")
    try bench.ask(
      "POST", "/items",
      ["type": "core.note", "tier": "feed", "source_id": "k", "properties": ["title": "There", "body": "x"]])
    try bench.fill(["core.note", "core.file"])
    func unnamed(_ part: String, _ status: Int) {
      bench.transport.before = { request in
        request.method == "GET" && request.url.contains(part)
          ? .success(HTTPResponse(status: status, headers: [], body: [])) : nil
      }
    }
    func expects(_ work: () throws -> Void) {
      let refusal = bench.refusal(work)
      #expect(refusal?.code == .unnamedAnswer && refusal?.exit == 3)
    }
    for status in [401, 404] {
      unnamed("/events", status)
      expects { try bench.copy.catchUp() }
      unnamed("/types", status)
      expects { try bench.copy.catchUp() }
      unnamed("/url", status)
      expects { try bench.copy.fetch(ContentHash(of: Array("png".utf8))) }
      #expect(try bench.copy.hydration() == .complete)
    }
    bench.transport.before = nil
    let write = try bench.copy.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "Here", "body": "x"], sourceID: "k"))
    unnamed("/items/", 404)
    #expect(try bench.copy.queue.drain().unavailable?.contains("X-Marfa-Contract") == true)
    #expect(try bench.copy.queue.write(write.id)?.verdict == .accepted)
    #expect(try bench.copy.hydration() == .complete)
    #expect(try bench.copy.item(file) != nil)
  }

  @Test("D-S119 an unnamed 404 takes no row and says nothing of bytes; the instance's own does")
  func unnamedAbsence() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.fill()
    let write = try bench.copy.queue.updateItem(note, ItemEdit(properties: ["title": "Mine"], version: 1))
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.ask("POST", "/items/\(note)/purge?version=1")
    bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/items/")
        ? .success(HTTPResponse(status: 404, headers: [], body: [])) : nil
    }
    #expect(try bench.copy.queue.drain().unavailable != nil)
    #expect(try bench.copy.queue.write(write.id)?.verdict == .refused)
    #expect(try bench.copy.item(note) != nil)
    bench.transport.before = nil
    try bench.copy.queue.drain()
    #expect(try bench.copy.item(note) == nil)
    let nowhere = ContentHash(of: [9])
    bench.transport.before = { request in
      request.url.contains("/url") ? .success(HTTPResponse(status: 404, headers: [], body: [])) : nil
    }
    #expect(bench.refusal { try bench.copy.fetch(nowhere) }?.code == .unnamedAnswer)
    bench.transport.before = nil
    #expect(bench.refusal { try bench.copy.fetch(nowhere) }?.code == .bytesAbsent)
  }
}

@Suite("Folders, the bin and purging through a copy") struct FolderDoorScenarios {
  private static func folder(
    _ bench: CopyBench, _ search: JSON, title: Text = "Folder"
  ) throws -> EntityID {
    let made = try bench.ask("POST", "/folders", ["title": .string(title), "search": search])
    return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
  }

  @Test("D-S188 a folder's list and search hold what its own evaluation holds; beneath gives descendants and the root")
  func lists() throws {
    let bench = try CopyBench()
    let (root, child) = (try bench.note("Root"), try bench.note("Child soup", tags: ["work"]))
    let archived = try bench.note("Archived")
    try bench.ask("POST", "/items/\(archived)/transition", ["state": "archived"])
    try bench.note("Fed soup", tier: "feed")
    try bench.note("Mark", type: "core.bookmark")
    try bench.edge("parent-of", root, child)
    let all = try FolderDoorScenarios.folder(bench, ["types": ["core.note"]])
    let work = try FolderDoorScenarios.folder(
      bench, ["types": ["core.note"], "filter": "tags contains \"work\""], title: "Work")
    let beneath = try FolderDoorScenarios.folder(
      bench, ["types": ["core.note"], "beneath": .string(root.text)], title: "Beneath")
    try bench.fill(["core.note", "system.folder"], tier: "all")
    let search = try WorkingCopy.search(of: try #require(try bench.copy.folder(all)))
    #expect(Set(try bench.copy.list(inFolder: all).map(\.id)) == Set(try bench.copy.items(matching: search)))
    #expect(Set(try bench.copy.list(inFolder: all).map(\.id)) == [root, child, archived])
    #expect(try bench.copy.list(inFolder: work).map(\.id) == [child])
    #expect(Set(try bench.copy.list(inFolder: beneath).map(\.id)) == [root, child])
    #expect(try bench.copy.search("soup", inFolder: all).map(\.item.id) == [child])
    #expect(try bench.copy.search("root", inFolder: work).isEmpty)
    #expect(try bench.copy.folder(bench.newID()) == nil)
    #expect(bench.refusal { _ = try bench.copy.folder(root) }?.code == .invalid)
  }

  @Test("D-S189 what the slice lacks, a backref, a revoked folder and no folder are refused by name")
  func refusals() throws {
    let bench = try CopyBench()
    let type = try FolderDoorScenarios.folder(bench, ["types": ["core.bookmark"]], title: "1")
    let tier = try FolderDoorScenarios.folder(bench, ["types": ["core.note"], "tier": "feed"], title: "2")
    let root = try bench.note("Root")
    let beneath = try FolderDoorScenarios.folder(
      bench, ["types": ["core.note"], "beneath": .string(root.text)], title: "3")
    let revoked = try FolderDoorScenarios.folder(bench, ["types": ["core.note"]], title: "4")
    try bench.ask("POST", "/folders/\(revoked)/revoke", [:])
    let backref = try FolderDoorScenarios.folder(
      bench, ["types": ["core.note"], "filter": "backref[references] exists"], title: "5")
    try bench.fill(["core.note", "system.folder"], edges: [])
    for (id, word) in [
      (type, "core.bookmark"), (tier, "feed"), (beneath, "parent-of"), (revoked, revoked.text.string),
      (backref, "backref"), (root, root.text.string),
    ] {
      let refusal = bench.refusal { _ = try bench.copy.list(inFolder: id) }
      #expect(refusal?.code == .invalid && refusal?.message.contains(word) == true, "\(word)")
      #expect(bench.refusal { _ = try bench.copy.search("x", inFolder: id) }?.code == .invalid)
    }
    #expect(bench.refusal { _ = try bench.copy.list(inFolder: bench.newID()) }?.code == .notHeld)
    // Its settings are read all the same.
    #expect(try bench.copy.folder(backref) != nil)
  }

  @Test("D-S190 a folder is made, changed and revoked at once, held on return and never queued; refusals go unsent")
  func edits() throws {
    let bench = try CopyBench()
    try bench.fill(["core.note", "system.folder"])
    let made = try bench.copy.createFolder(["title": "One", "search": ["types": ["core.note"]]])
    #expect(made.isHeld)
    let id = made.folder.id
    #expect(try bench.copy.folder(id)?.properties["title"]?.text == "One")
    let changed = try bench.copy.changeFolder(id, version: made.folder.version, ["title": "Two"])
    #expect(try bench.copy.folder(id)?.properties["title"]?.text == "Two")
    #expect(
      bench.refusal { try bench.copy.changeFolder(id, version: made.folder.version, ["title": "Three"]) }?.code
        == .versionConflict)
    try bench.copy.revokeFolder(id)
    #expect(try bench.copy.folder(id)?.state == "revoked")
    #expect(
      bench.refusal { try bench.copy.changeFolder(id, version: changed.folder.version, ["title": "Four"]) }?.server?
        .code == "invalid_transition")
    let keys = bench.transport.sent.filter { $0.method != "GET" }.map { request in
      request.headers.first { $0.name == "Idempotency-Key" }?.value
    }
    #expect(keys.allSatisfy { $0 != nil } && Set(keys).count == keys.count)
    #expect(try bench.copy.queue.all().isEmpty)

    // Refused before anything is sent.
    bench.transport.clear()
    for (settings, code) in [
      (["title": "F", "search": ["filter": "backref[references] exists"]], .invalid),
      (["title": "F", "search": ["types": ["core.note"]], "defaults": ["type": "core.bookmark"]], .invalid),
      (["title": "F", "search": ["types": ["core.note"]], "defaults": ["tier": "feed"]], .invalid),
      (["title": "F", "search": ["filter": "nonsense"]], .validation),
      (["title": "F", "search": ["types": ["core.note"]], "defaults": ["tags": ["  "]]], .validation),
    ] as [(JSONObject, MarfaError.Code)] {
      #expect(bench.refusal { try bench.copy.createFolder(settings) }?.code == code)
    }
    let open = try FolderDoorScenarios.folder(bench, ["types": ["core.note"]], title: "Open")
    try bench.copy.catchUp()
    bench.transport.clear()
    // A change is judged as the settings will stand.
    #expect(
      bench.refusal { try bench.copy.changeFolder(open, version: 1, ["defaults": ["type": "core.bookmark"]]) }?.code
        == .invalid)
    #expect(bench.transport.requests.isEmpty)
    // Out of reach, with nothing left to send.
    bench.transport.before = { _ in .failure(.unreachable("offline")) }
    #expect(bench.refusal { try bench.copy.createFolder(["title": "F"]) }?.code == .network)
    #expect(try bench.copy.queue.all().isEmpty)
    // Accepted although the read after it fails.
    bench.transport.before = { request in
      request.method == "GET" && request.url.contains("/items/") ? bench.named(503) : nil
    }
    let unread = try bench.copy.createFolder(["title": "Unread", "search": ["types": ["core.note"]]])
    #expect(!unread.isHeld)
    bench.transport.before = nil
    try bench.copy.catchUp()
    #expect(try bench.copy.folder(unread.folder.id) != nil)
    // Settings that carry a backref already still change.
    let backref = try FolderDoorScenarios.folder(
      bench, ["types": ["core.note"], "filter": "backref[references] exists"], title: "Back")
    try bench.copy.catchUp()
    #expect(bench.refusal { try bench.copy.changeFolder(backref, version: 1, ["title": "B"]) }?.code == .invalid)
  }

  @Test("D-S192 the bin is read in pages, newest change first, and held nowhere; out of reach it is not answered")
  func bin() throws {
    let bench = try CopyBench()
    try bench.fill()
    var ids: [EntityID] = []
    for number in 0..<5 {
      let id = try bench.note(Text("N\(number)"), tier: number % 2 == 0 ? "library" : "feed")
      try bench.ask("DELETE", "/items/\(id)?version=1")
      ids.append(id)
    }
    var found: [EntityID] = []
    var next: Text?
    var pages = 0
    repeat {
      let page = try bench.copy.bin(limit: 2, cursor: next)
      #expect(page.rows.allSatisfy(\.isTrashed) && page.rows.count <= 2)
      found += page.rows.map(\.id)
      next = page.next
      pages += 1
    } while next != nil
    #expect(found == ids.reversed() && pages == 3)
    #expect(try bench.copy.status().items == 0)
    #expect(!bench.transport.sent.last!.headers.contains { $0.name == "X-Marfa-Read-View" })
    bench.transport.before = { _ in .failure(.unreachable("offline")) }
    #expect(bench.refusal { _ = try bench.copy.bin() }?.code == .network)
  }

  @Test(
    "D-S194 a row of the bin is restored by id, queued once and shown once answered; purged at its version it is gone")
  func restore() throws {
    let bench = try CopyBench()
    try bench.fill()
    let (back, gone) = (try bench.note("Back"), try bench.note("Gone"))
    for id in [back, gone] { try bench.ask("DELETE", "/items/\(id)?version=1") }
    let rows = try bench.copy.bin().rows
    #expect(Set(rows.map(\.id)) == [back, gone])
    try bench.copy.queue.restoreItem(back)
    #expect(bench.refusal { try bench.copy.queue.restoreItem(back) }?.code == .invalid)
    #expect(try bench.copy.get(back) == nil)
    try bench.copy.queue.drain()
    #expect(try bench.copy.get(back)?.state == "active")
    try bench.copy.purge(gone, version: try #require(rows.first { $0.id == gone }).version)
    #expect(try bench.copy.bin().rows.isEmpty)
  }

  @Test("D-S195 a purge of what is not held, is shown restored, or has a write waiting on it sends nothing")
  func purgeRefused() throws {
    let bench = try CopyBench()
    let (restored, waiting, blocked) = (try bench.note("R"), try bench.note("W"), try bench.note("B"))
    try bench.fill()
    let edit = try bench.copy.queue.updateItem(blocked, ItemEdit(properties: ["title": "Mine"], version: 1))
    bench.transport.before = { request in request.method == "PATCH" ? bench.conflict(blocked) : nil }
    try bench.copy.queue.drain()
    #expect(try bench.copy.queue.write(edit.id)?.verdict == .blocked)
    bench.transport.before = nil
    try bench.copy.queue.updateItem(waiting, ItemEdit(properties: ["title": "Mine"], version: 1))
    for id in [restored, waiting, blocked] { try bench.ask("DELETE", "/items/\(id)?version=1") }
    try bench.copy.catchUp()
    try bench.copy.queue.restoreItem(restored)
    bench.transport.clear()
    #expect(bench.refusal { try bench.copy.purge(bench.newID()) }?.code == .notHeld)
    let refusal = bench.refusal { try bench.copy.purge(restored) }
    #expect(refusal?.code == .validation && refusal?.server?.code == "invalid_transition")
    for id in [waiting, blocked] {
      let refusal = bench.refusal { try bench.copy.purge(id) }
      #expect(refusal?.code == .invalid && refusal?.message.contains("waiting") == true)
    }
    #expect(bench.transport.requests.isEmpty)
  }

  @Test("D-S196 a purge before another instance ends the copy and sends nothing")
  func purgeElsewhere() throws {
    let bench = try CopyBench()
    let note = try bench.note("Note")
    try bench.ask("DELETE", "/items/\(note)?version=1")
    try bench.fill()
    let other = try CopyBench(seed: 9)
    bench.transport.handle = { other.instance.handle($0) }
    bench.transport.clear()
    let refusal = bench.refusal { try bench.copy.purge(note) }
    let theirs = try other.instance.identity()
    #expect(refusal?.code == .copyExpired && refusal?.message.contains(theirs) == true)
    #expect(bench.transport.requests == ["GET /"])
    #expect(try bench.copy.hydration() == .expired)
  }

  @Test("D-S197 a purge is one POST at the held version; row, edges and pin go, and its event changes nothing after")
  func purge() throws {
    let bench = try CopyBench()
    let (gone, other, named) = (try bench.note("Gone"), try bench.note("Other"), try bench.note("Named"))
    try bench.edge("references", gone, other)
    try bench.edge("references", other, gone)
    try bench.fill()
    try bench.copy.pin(gone, owner: "app")
    for id in [gone, named] { try bench.ask("DELETE", "/items/\(id)?version=1") }
    try bench.copy.catchUp()
    bench.transport.clear()
    try bench.copy.purge(gone)
    #expect(bench.transport.requests.filter { $0.hasPrefix("POST") } == ["POST /items/\(gone)/purge?version=1"])
    #expect(
      bench.transport.sent.last { $0.method == "POST" }?.headers.contains { $0.name == "Idempotency-Key" } == true)
    #expect(try bench.copy.item(gone) == nil && bench.copy.pins().isEmpty)
    #expect(try bench.copy.edges(from: other).isEmpty && bench.copy.edges(to: other).isEmpty)
    #expect(try bench.copy.queue.all().isEmpty)
    #expect(try bench.copy.catchUp().applied == 0)
    bench.transport.clear()
    #expect(bench.refusal { try bench.copy.purge(named, version: 7) }?.code == .versionConflict)
    #expect(bench.transport.requests.contains("POST /items/\(named)/purge?version=7"))
  }

  @Test("D-S198 a purge refused, moved since, unsent or unanswered leaves row, queue and pins")
  func purgeKept() throws {
    for how in ["forbidden", "moved", "unsent", "unanswered"] {
      let bench = try CopyBench()
      let note = try bench.note("Note")
      try bench.fill()
      try bench.copy.pin(note, owner: "app")
      try bench.ask("DELETE", "/items/\(note)?version=1")
      try bench.copy.catchUp()
      let code: MarfaError.Code
      switch how {
      case "forbidden":
        code = .forbidden
        bench.transport.before = { request in
          request.method == "POST" ? bench.named(403, "insufficient_permissions") : nil
        }
      case "moved":
        code = .versionConflict
        bench.transport.before = { request in request.method == "POST" ? bench.named(409, "version_conflict") : nil }
      case "unsent":
        code = .network
        bench.transport.before = { _ in .failure(.unreachable("offline")) }
      default:
        code = .network
        bench.transport.after = { request, response in
          request.method == "POST" ? .failure(.unreachable("broke")) : .success(response)
        }
      }
      #expect(bench.refusal { try bench.copy.purge(note) }?.code == code, "\(how)")
      #expect(try bench.copy.rowState(note) == .trashed)
      #expect(try bench.copy.pins() == [note])
      #expect(try bench.copy.queue.all().isEmpty)
    }
  }
}

import LocalInstance
import MarfaBase
import TestSupport
import Testing

@testable import MarfaCopy

/// What the copy makes of an answer (errors.md, part two): three independent writes, the answer given to the second.
@Suite struct ErrorClientTests {
  /// Three notes held, each with an edit waiting.
  private struct Three {
    let bench: QueueBench
    let ids: [EntityID]
    let edits: [QueuedWrite]

    init(signsIn: Bool = false) throws {
      let bench = try QueueBench(signsIn: signsIn)
      let ids = try (0..<3).map { try bench.held(Text("\($0)")) }
      self.bench = bench
      self.ids = ids
      edits = try ids.map { try bench.edit($0, ["title": "mine", "body": "mine"]) }
    }

    func answer(_ status: Int, _ text: String, _ headers: [HTTPHeader] = []) {
      bench.on("PATCH", "/items/\(ids[1])", .answer(status, text, headers))
    }
    func verdicts() throws -> [WriteVerdict?] { try edits.map { try bench.verdict($0) } }
    func second() throws -> QueuedWrite { try bench.write(edits[1].id) }
    var keys: [String] { edits.map(\.idempotencyKey.string) }
  }

  @Test("ER-S17 a 201 is accepted, with a resolution merged, with a copy named conflicted")
  func successes() throws {
    for (theirs, expected) in [
      (nil, .accepted), (["title": "theirs"], .merged), (["body": "theirs"], .conflicted),
    ] as [(JSON?, WriteVerdict)] {
      let three = try Three()
      if let theirs { try three.bench.theirs(three.ids[1], theirs) }
      let report = try three.bench.drain()
      #expect(try three.verdicts() == [.accepted, expected, .accepted])
      let entry = try #require(report.verdicts.first { $0.id == three.edits[1].id })
      #expect((entry.conflictedCopyID != nil) == (expected == .conflicted))
      #expect(try three.second().conflictedCopyID == entry.conflictedCopyID)
    }
    // A create's 201.
    let bench = try QueueBench()
    try bench.create("A")
    #expect(try bench.drain().verdicts.map(\.verdict) == [.accepted])
  }

  @Test("ER-S18 each code that refuses is refused under its name, and the third write is sent")
  func refused() throws {
    for (status, code) in [
      (400, "validation_error"), (400, "missing_required_field"), (400, "invalid_id"), (400, "invalid_properties"),
      (400, "unknown_type"), (400, "edge_cycle"), (400, "edge_constraint_violation"), (403, "forbidden"),
      (403, "type_not_permitted"), (404, "item_not_found"), (404, "not_found"), (405, "method_not_allowed"),
      (409, "conflict"), (409, "type_mismatch"), (409, "id_reused"), (410, "gone"), (413, "payload_too_large"),
      (422, "idempotency_result_not_retained"), (404, ""),
    ] {
      let three = try Three()
      three.answer(status, code.isEmpty ? "what" : refusing(code))
      try three.bench.drain()
      #expect(try three.verdicts() == [.accepted, .refused, .accepted], "\(code)")
      #expect(try three.second().reason == Text(code.isEmpty ? "unknown" : code))
      #expect(try three.bench.served(three.ids[2])["version"] == 2)
      three.bench.clear()
      three.bench.heal()
      try three.bench.drain()
      #expect(three.bench.requests.isEmpty)
    }
  }

  @Test("ER-S19 401 parks it and the third, after one renewal was tried; a good credential sends both under their keys")
  func unauthorized() throws {
    let three = try Three(signsIn: true)
    for place in [1, 2] {
      three.bench.on("PATCH", "/items/\(three.ids[place])", .answer(401, refusing("unauthorized")))
    }
    let report = try three.bench.drain()
    #expect(report.stopped?.contains("2 queued write(s) parked") == true)
    #expect(report.exit == 5)
    #expect(try three.verdicts() == [.accepted, .blocked, .blocked])
    #expect(try three.second().blockedReason == .credentialRefused)
    #expect(try three.second().refusals == 0)
    // One for each write that was out.
    #expect(three.bench.sign.renewals <= 2)
    #expect(three.bench.sign.renewals >= 1)
    three.bench.heal()
    three.bench.clear()
    try three.bench.drain()
    #expect(try three.verdicts() == [.accepted, .accepted, .accepted])
    #expect(three.bench.writes.compactMap(\.key) == Array(three.keys.dropFirst()))

    // A write not out yet when it comes is parked unsent.
    let alone = try QueueBench()
    let one = try alone.held("A")
    let first = try alone.edit(one, ["title": "mine"])
    let second = try alone.create("B")
    alone.onWrites(.answer(401, refusing("unauthorized")))
    let stopped = try alone.drain()
    #expect(alone.writes.count == 1)
    #expect(stopped.answered == 1)
    #expect(stopped.stopped?.contains("2 queued") == true)
    #expect(try alone.write(first.id).blockedReason == .credentialRefused)
    #expect(try alone.queue.waiting(item: second).map(\.blockedReason) == [.credentialRefused])
  }

  @Test("ER-S20 403 with a grant blocks that write alone; the next drain takes it once the owner gave the grant")
  func grant() throws {
    let three = try Three()
    three.answer(
      403, refusing("type_not_permitted", #"{"grant":{"kind":"type","name":"core.note","level":"write"}}"#))
    let report = try three.bench.drain()
    #expect(report.stopped == nil)
    #expect(try three.verdicts() == [.accepted, .blocked, .accepted])
    #expect(try three.second().blockedReason == .credentialRefused)
    three.bench.heal()
    three.bench.clear()
    try three.bench.drain()
    #expect(try three.verdicts() == [.accepted, .accepted, .accepted])
    #expect(three.bench.writes.compactMap(\.key) == [three.keys[1]])
  }

  @Test("ER-S21 403 whose grant lacks its level is refused")
  func grantWithoutLevel() throws {
    let three = try Three()
    three.answer(403, refusing("type_not_permitted", #"{"grant":{"kind":"type","name":"core.note"}}"#))
    try three.bench.drain()
    #expect(try three.verdicts() == [.accepted, .refused, .accepted])
  }

  @Test("ER-S22 403 with exactly the source on a create blocks the later creates of that source unsent, and no others")
  func source() throws {
    let bench = try QueueBench()
    let edited = try bench.held("H")
    try bench.edit(edited, ["title": "mine"])
    let first = try bench.create("A", source: "feed")
    let second = try bench.create("B", source: "feed")
    let other = try bench.create("C")
    // As the instance itself answers a source that is not claimed: an answer of its own, scripted for the owner's key.
    bench.on("POST", "/items", holding: #""source":"feed""#, .answer(403, refusing("forbidden", #"{"source":"feed"}"#)))
    // The second is not out with the first: it waits behind a full window.
    let report = try bench.drain()
    #expect(report.unclaimedSources == ["feed"])
    for id in [first, second] {
      #expect(try bench.queue.waiting(item: id).map(\.blockedReason) == [.credentialRefused])
      #expect(try bench.copy.item(id)?.version == 0)
    }
    #expect(try bench.copy.item(other)?.version == 1)
    bench.heal()

    // First of a pass it goes alone: the rest of its source goes nowhere.
    let alone = try QueueBench()
    for title in ["A", "B", "C"] as [Text] { try alone.create(title, source: "feed") }
    let free = try alone.create("D")
    alone.on("POST", "/items", holding: "feed", .answer(403, refusing("forbidden", #"{"source":"feed"}"#)))
    let once = try alone.drain()
    #expect(alone.writes.count == 2)
    #expect(once.unsent == 2)
    #expect(once.verdicts.filter { $0.reason == "credential_refused" }.count == 3)
    #expect(try alone.copy.item(free)?.version == 1)
    // More than the source in the details is an ordinary refusal.
    let more = try QueueBench()
    let id = try more.create("A", source: "feed")
    more.on("POST", "/items", .answer(403, refusing("forbidden", #"{"source":"feed","type":"core.note"}"#)))
    try more.drain()
    #expect(try more.queue.all().map(\.verdict) == [.refused])
    #expect(try more.copy.item(id) == nil)
  }

  @Test("ER-S23 what clears by itself ends the pass uncounted, says why, and the next drain sends under the same keys")
  func environmental() throws {
    var acts: [(QueueBench.Act, String)] = [500, 502, 503, 507, 408, 425, 429].map {
      (.answer($0, refusing("whatever")), "\($0)")
    }
    acts += [401, 403, 404, 409].map { (.unnamed($0, refusing("item_not_found")), "\($0)") }
    acts.append((.drop, "could not be reached"))
    acts.append((.lose, "could not be reached"))
    for (act, said) in acts {
      let three = try Three()
      three.bench.on("PATCH", "/items/\(three.ids[1])", act)
      let report = try three.bench.drain()
      #expect(report.unavailable?.contains(said) == true, "\(said)")
      if case .unnamed = act { #expect(report.unavailable?.contains("named no contract") == true) }
      #expect(report.undelivered >= 1)
      #expect(report.stopped == nil)
      #expect(try three.second().verdict == nil)
      #expect(try three.second().refusals == 0)
      #expect(try three.verdicts()[0] == .accepted)
      three.bench.heal()
      three.bench.clear()
      try three.bench.drain()
      #expect(try three.verdicts() == [.accepted, .accepted, .accepted])
      #expect(three.bench.writes.first?.key == three.keys[1])
    }
    // A timeout.
    let three = try Three()
    three.bench.bench.transport.before = { $0.method == "PATCH" ? .failure(.timedOut("no answer in 60 s")) : nil }
    let report = try three.bench.drain()
    #expect(report.undelivered == 3)
    #expect(report.answered == 0)
    #expect(three.bench.writes.count == 1)
    three.bench.bench.transport.before = nil
    try three.bench.drain()
    #expect(try three.verdicts() == [.accepted, .accepted, .accepted])
  }

  @Test("ER-S24 Retry-After 7 reports 7, 9999 reports 300; a date is counted from now, nonsense is none")
  func retryAfter() throws {
    let three = try Three()
    let clock = three.bench.bench.clock
    _ = clock
    for (value, expected) in [("7", 7), ("9999", 300), ("soon", nil), ("-5", 0)] as [(String, Int?)] {
      three.bench.heal()
      three.answer(503, "{}", [HTTPHeader("Retry-After", value)])
      #expect(try three.bench.drain().retryAfterSeconds == expected, "\(value)")
    }
  }

  @Test("ER-S25 a 201 without JSON five times is dead at the fifth; the third write was accepted in the first pass")
  func unreadable() throws {
    let three = try Three()
    three.answer(201, "not json")
    for round in 1...5 {
      try three.bench.drain()
      #expect(try three.verdicts() == [.accepted, round == 5 ? .dead : nil, .accepted])
      #expect(try three.second().refusals == round)
    }
  }

  @Test("ER-S26 a key still in flight counts, and is taken at a later drain")
  func inFlight() throws {
    let three = try Three()
    three.answer(409, refusing("idempotency_key_in_flight"))
    try three.bench.drain()
    #expect(try three.verdicts() == [.accepted, nil, .accepted])
    #expect(try three.second().refusals == 1)
    three.bench.heal()
    try three.bench.drain()
    #expect(try three.second().verdict == .accepted)
    #expect(try three.second().idempotencyKey == three.edits[1].idempotencyKey)
  }

  @Test("ER-S27 a spent key blocks, and a release sends it under a fresh one")
  func keySpent() throws {
    let three = try Three()
    three.answer(422, refusing("idempotency_key_reused"))
    try three.bench.drain()
    #expect(try three.second().blockedReason == .keySpent)
    three.bench.heal()
    three.bench.clear()
    try three.bench.drain()
    #expect(three.bench.requests.isEmpty)
    #expect(try three.bench.queue.release(three.edits[1].id) == 1)
    try three.bench.drain()
    #expect(try three.second().verdict == .accepted)
    #expect(three.bench.writes.count == 1)
    #expect(three.bench.writes.first?.key != three.keys[1])
  }

  @Test("ER-S28 version_conflict blocks conflict_unresolved, not sent again until released or withdrawn")
  func versionConflict() throws {
    for withdraws in [false, true] {
      let three = try Three()
      three.answer(409, #"{"error":{"code":"version_conflict"},"current":{"id":"\#(three.ids[1])","version":9}}"#)
      try three.bench.drain()
      #expect(try three.second().blockedReason == .conflictUnresolved)
      #expect(try three.second().answer.flatMap { try? JSON(parsing: $0.bytes) }?["current"]?["version"] == 9)
      three.bench.heal()
      three.bench.clear()
      try three.bench.drain()
      #expect(three.bench.requests.isEmpty)
      if withdraws {
        #expect(try three.bench.queue.withdraw(three.edits[1].id))
        #expect(try three.bench.title(three.ids[1]) == "1")
      } else {
        #expect(try three.bench.queue.release(three.edits[1].id) == 1)
        try three.bench.drain()
        #expect(try three.second().verdict == .accepted)
      }
    }
  }

  @Test("ER-S29 ER-S30 a keyed create's conflict naming another row is refused and shows it; one in the bin is marked")
  func keyed() throws {
    for code in ["version_conflict", "ancestor_unavailable"] {
      let bench = try QueueBench()
      let id = try bench.theirNote("theirs", key: "k")
      let write = try bench.queue.createItem(
        ItemDraft(type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k", version: 4))
      bench.on("POST", "/items", .answer(409, #"{"error":{"code":"\#(code)"},"current":{"id":"\#(id)"}}"#))
      try bench.drain()
      #expect(try bench.verdict(write) == .refused)
      #expect(try bench.write(write.id).reason == Text(code))
      #expect(try bench.title(id) == "theirs")
      #expect(try bench.copy.item(try #require(write.itemID)) == nil)
    }
    let bench = try QueueBench()
    let id = try bench.theirNote("theirs", key: "k")
    try bench.bench.ask("DELETE", "/items/\(id)")
    let write = try bench.queue.createItem(
      ItemDraft(type: "core.note", properties: ["title": "K", "body": "k"], sourceID: "k"))
    let report = try bench.drain()
    #expect(report.verdicts.map(\.verdict) == [.refused])
    #expect(report.verdicts[0].refusal?.trashed == true)
    #expect(try bench.write(write.id).refusal?.trashed == true)
  }

  @Test(
    "ER-S32 a kill between the answer and its recording: the next drain replays the key and records the answer once")
  func killedBeforeRecording() throws {
    let three = try Three()
    // The answer came, the process went: what is on the disk is a write marked sent.
    three.bench.on("PATCH", "/items/\(three.ids[1])", .lose)
    try three.bench.drain()
    three.bench.heal()
    #expect(try three.second().sent)
    try three.bench.reopen()
    three.bench.clear()
    let report = try three.bench.drain()
    #expect(report.verdicts.first { $0.id == three.edits[1].id }?.replayed == true)
    #expect(try three.verdicts() == [.accepted, .accepted, .accepted])
    #expect(try three.bench.served(three.ids[1])["version"] == 2)
    three.bench.clear()
    try three.bench.drain()
    #expect(three.bench.requests.isEmpty)
  }

  @Test("ER-S33 a refused edit's text outlives forgetting, until it is discarded")
  func refusedText() throws {
    let three = try Three()
    three.answer(400, refusing("validation_error"))
    try three.bench.drain()
    #expect(try three.bench.queue.forget() == 2)
    #expect(try three.second().body?["properties"] == ["title": "mine", "body": "mine"])
    try three.bench.reopen()
    #expect(try three.second().body?["properties"]?["body"] == "mine")
    #expect(try three.bench.queue.discard(three.edits[1].id))
    #expect(try three.bench.queue.all().isEmpty)
  }

  @Test("ER-S34 what depends on a blocked write awaits it; on a refused or dead one it is refused unsent, saying so")
  func dependants() throws {
    for (act, verdict) in [
      (.answer(422, refusing("idempotency_key_reused")), .blocked),
      (.answer(400, refusing("validation_error")), .refused),
      (.answer(200, "?"), .dead),
    ] as [(QueueBench.Act, WriteVerdict)] {
      let bench = try QueueBench()
      let id = try bench.create("A")
      let edit = try bench.edit(id, ["title": "B"])
      bench.on("POST", "/items", act)
      for _ in 0..<5 { try bench.drain() }
      #expect(try bench.queue.all().first?.verdict == verdict)
      let behind = try bench.write(edit.id)
      if verdict == .blocked {
        #expect(behind.blockedReason == .awaitingDependency)
        #expect(try bench.title(id) == "B")
      } else {
        #expect(behind.verdict == .refused)
        #expect(behind.reason == Text("the create_item it waits for was \(verdict.rawValue)"))
        #expect(!behind.sent)
      }
      #expect(bench.writes.allSatisfy { $0.method == "POST" })
    }
  }

  @Test("ER-S35 a row read back: unnamed 404 keeps it, certified lets it go but for the bin's, unproved ends the copy")
  func readBack() throws {
    let refusesEdits: (QueueBench) throws -> EntityID = { bench in
      let id = try bench.held("A")
      try bench.edit(id, ["title": "mine"])
      bench.on("PATCH", .answer(400, refusing("validation_error")))
      return id
    }
    let unnamed = try QueueBench()
    let kept = try refusesEdits(unnamed)
    unnamed.on("GET", "/items/\(kept)", .unnamed(404, "no such page"))
    #expect(try unnamed.drain().unavailable?.contains("404") == true)
    #expect(try unnamed.title(kept) == "mine")
    #expect(try unnamed.copy.hydration() == .complete)

    let certified = try QueueBench()
    let gone = try refusesEdits(certified)
    certified.on("GET", "/items/\(gone)", .answer(404, refusing("item_not_found")))
    try certified.drain()
    #expect(try certified.copy.item(gone) == nil)

    let binned = try QueueBench()
    let trashed = try refusesEdits(binned)
    try binned.bench.ask("DELETE", "/items/\(trashed)")
    try binned.drain()
    #expect(try binned.copy.rowState(trashed) == .trashed)

    let unproved = try QueueBench()
    let id = try refusesEdits(unproved)
    unproved.on(
      "GET", "/items/\(id)",
      .answer(404, refusing("item_not_found"), [HTTPHeader("X-Marfa-Read-View", String(repeating: "0", count: 64))]))
    let error = unproved.bench.refusal { try unproved.drain() }
    #expect(error?.code == .copyExpired)
    #expect(error?.reason == "read_view_invalid")
    #expect(try unproved.queue.all().map(\.verdict) == [.refused])
    #expect(try unproved.title(id) == "mine")
  }

  @Test("ER-S36 an unknown code with 400 is refused under it; with a 5xx the write waits")
  func unknownCode() throws {
    let three = try Three()
    three.answer(400, refusing("never_heard_of"))
    try three.bench.drain()
    #expect(try three.second().reason == "never_heard_of")
    #expect(try three.second().verdict == .refused)
    let waits = try Three()
    waits.answer(599, refusing("never_heard_of"))
    try waits.bench.drain()
    #expect(try waits.second().verdict == nil)
    #expect(try waits.second().refusals == 0)
  }

  @Test("ER-S37 a redirect ends the drain and tells its place, six times over; another contract ends it and goes again")
  func endsTheDrain() throws {
    let three = try Three()
    three.answer(308, "", [HTTPHeader("Location", "https://elsewhere.example/api")])
    let before = try three.bench.queue.all().map(\.json)
    for round in 0..<6 {
      let error = three.bench.bench.refusal { try three.bench.drain() }
      #expect(error?.code == .redirect)
      #expect(error?.message.contains("https://elsewhere.example/api") == true)
      #expect(error?.exit == 1)
      #expect(try three.second().verdict == nil)
      #expect(try three.second().json == before[1], "\(round)")
    }
    #expect(!three.bench.bench.transport.sent.contains { $0.url.contains("elsewhere") })
    #expect(try three.verdicts()[0] == .accepted)

    let other = try Three()
    other.answer(200, "{}", [HTTPHeader("X-Marfa-Contract", "1")])
    let error = other.bench.bench.refusal { try other.bench.drain() }
    #expect(error?.code == .contractMismatch)
    #expect(try other.second().verdict == nil)
    #expect(try other.second().sent)
    #expect(try other.second().refusals == 0)
    other.bench.heal()
    other.bench.clear()
    try other.bench.drain()
    #expect(other.bench.writes.first?.key == other.keys[1])
    #expect(try other.verdicts() == [.accepted, .accepted, .accepted])
  }

  @Test(
    "ER-S39 a renewal that meets 503 leaves the write waiting; one answered invalid_grant ends the drain signed_out")
  func renewals() throws {
    let three = try Three(signsIn: true)
    three.answer(401, refusing("unauthorized"))
    three.bench.sign.renewal = .failure(MarfaError(.server, "503", server: .init(status: 503)))
    let report = try three.bench.drain()
    #expect(report.unavailable != nil)
    #expect(try three.second().verdict == nil)
    #expect(try three.second().refusals == 0)
    #expect(!report.isRateLimited && report.retryAfterSeconds == nil)
    // A rate limit met by the renewal is one of the drain's (P6.3, Q17.7).
    three.bench.sign.renewal = .failure(
      MarfaError(.rateLimited, "slow down", server: .init(status: 429), retryAfter: 9))
    let limited = try three.bench.drain()
    #expect(limited.isRateLimited && limited.retryAfterSeconds == 9 && limited.unavailable != nil)
    #expect(try three.second().verdict == nil)
    three.bench.sign.renewal = .failure(MarfaError(.signedOut, "the sign-in has ended: invalid_grant"))
    let error = three.bench.bench.refusal { try three.bench.drain() }
    #expect(error?.code == .signedOut)
    #expect(try three.second().verdict == nil)
    #expect(try three.verdicts()[0] == .accepted)
    #expect(try three.second().idempotencyKey == three.edits[1].idempotencyKey)
  }

  @Test("ER-S31 a full disk ends the drain storage_full; nothing is counted, nothing lost")
  func fullDisk() throws {
    let bench = try QueueBench()
    try bench.create("A")
    let id = try bench.create("B", body: Text(String(repeating: "long ", count: 15_000)))
    try bench.copy.database.execute("VACUUM")
    bench.on(
      "POST", holding: "long ",
      .first {
        let pages = try #require(try bench.copy.database.one("PRAGMA page_count") { $0.int(0) })
        try bench.copy.database.execute("PRAGMA max_page_count = \(pages)")
      })
    let before = try bench.queue.all()
    let error = bench.bench.refusal { try bench.drain() }
    #expect(error?.code == .storageFull)
    let after = try bench.queue.all()
    #expect(after.map(\.id) == before.map(\.id))
    #expect(after.map(\.refusals) == [0, 0])
    #expect(after[1].verdict == nil)
    #expect(after[1].bodyText == before[1].bodyText)
    try bench.copy.database.execute("PRAGMA max_page_count = 1000000")
    bench.heal()
    try bench.drain()
    #expect(try bench.served(id)["version"] == 1)
  }
}

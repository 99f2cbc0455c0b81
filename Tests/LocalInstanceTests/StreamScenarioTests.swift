import Glibc
import LocalInstance
import MarfaBase
import Testing

extension Bench {
  /// Opens a stream.
  func stream(_ query: String = "", after cursor: String? = nil, key: String? = nil, view: String? = nil) -> Answer {
    var headers: [HTTPHeader] = []
    if let cursor { headers.append(HTTPHeader("Last-Event-ID", cursor)) }
    if let view { headers.append(HTTPHeader("X-Marfa-Read-View", view)) }
    return send("GET", "/events\(query)", key: key, headers: headers)
  }

  /// A stream that has gone live, its opening read.
  func live(_ query: String = "", key: String? = nil) -> Answer {
    let stream = stream(query, key: key)
    _ = stream.text()
    return stream
  }
}

extension Event {
  var item: JSON { data["item"] ?? .null }
  var itemID: String? { item.string("id") }
  var edgeID: String? { data["edge"]?.string("id") }
}

@Suite("Streams")
struct StreamScenarioTests {
  let bench: Bench
  init() throws { bench = try Bench() }

  @Test("EV-S2 no credential, an unknown one and a revoked one are 401 in JSON")
  func credentials() throws {
    let gone = try bench.mint("gone")
    try bench.instance.revokeKey(gone.id)
    for key in ["", "marfa_k1_unknown", gone.token] {
      let refused = bench.stream(key: key)
      expect(refused, 401, "unauthorized")
      #expect(refused.source == nil)
      #expect(refused.response.header("Content-Type") == "application/json")
    }
  }

  @Test("EV-S3 a key that reaches nothing is told so before a malformed cursor")
  func reachesNothing() {
    expect(bench.stream(after: "abc", key: bench.mint([:])), 403, "type_not_permitted")
  }

  @Test("EV-S4 an undeclared key is named; one that begins with _ is ignored")
  func undeclared() {
    let refused = bench.stream("?since=5&type=*")
    expect(refused, 400, "validation_error")
    #expect(refused.details?["unknown_parameters"] == ["since"])
    #expect(bench.stream("?_since=5").frames().first?.kind == "stream_cursor")
  }

  @Test("EV-S5 a type carries its items and its descendants', live and on replay")
  func types() {
    expect(bench.send("POST", "/types", ["id": "acme.memo", "parent": "core.note", "fields": [:]]), 201)
    let live = bench.live("?type=core.note")
    let note = bench.noteID()
    let memo = bench.made("acme.memo", ["body": "m"]).id
    _ = bench.task()
    #expect(live.frames().map(\.itemID) == [note, memo])
    #expect(bench.stream("?type=core.note", after: "0").frames().compactMap(\.itemID) == [note, memo])
  }

  @Test("EV-S6 two entries are a union; ten and a blank one open, eleven do not")
  func union() {
    let live = bench.live("?type=core.note,core.task")
    let note = bench.noteID()
    _ = bench.made("core.event", ["title": "e"])
    let task = bench.task()
    #expect(live.frames().map(\.itemID) == [note, task])
    let ten = Array(repeating: "core.note", count: 10).joined(separator: ",")
    #expect(bench.stream("?type=\(ten),,%20").status == 200)
    expect(bench.stream("?type=\(ten),core.task"), 400, "validation_error")
    #expect(bench.stream("?type=,").details?["empty_parameters"] == ["type"])
  }

  @Test("EV-S7 a wildcard that reaches nothing opens and stays quiet; * alone is refused")
  func wildcard() {
    expect(bench.send("POST", "/types", ["id": "acme.deal", "fields": [:]]), 201)
    let live = bench.live("?type=core.*", key: bench.mint(["acme.*": "read"]))
    _ = bench.noteID()
    _ = bench.made("acme.deal", ["a": 1])
    #expect(live.frames().isEmpty)
    let refused = bench.stream("?type=*")
    expect(refused, 400, "validation_error")
    #expect(refused.path == "type")
    // One registered later that the wildcard matches is carried.
    let all = bench.live("?type=acme.*")
    expect(bench.send("POST", "/types", ["id": "acme.later", "fields": [:]]), 201)
    let later = bench.made("acme.later", ["a": 1]).id
    #expect(all.frames().map(\.itemID) == [later])
  }

  @Test("EV-S8 unregistered and unreadable entries; of several the first in the list answers")
  func refusedTypes() {
    let notes = bench.mint(["core.note": "read"])
    expect(bench.stream("?type=acme.none"), 400, "unknown_type")
    let unreadable = bench.stream("?type=core.task", key: notes)
    expect(unreadable, 403, "type_not_permitted")
    #expect(unreadable.details?["grant"] == ["kind": "type", "name": "core.task", "level": "read"])
    expect(bench.stream("?type=core.note,acme.none,core.task", key: notes), 400, "unknown_type")
    expect(bench.stream("?type=core.note,core.task,acme.none", key: notes), 403, "type_not_permitted")
    let songs = bench.live("?type=core.media", key: bench.mint(["core.media.song": "read"]))
    let song = bench.made("core.media.song", ["title": "s"]).id
    _ = bench.album()
    #expect(songs.frames().map(\.itemID) == [song])
  }

  @Test("EV-S9 a type does not narrow edges")
  func edgesStay() {
    let (task, note) = (bench.task(), bench.noteID())
    let live = bench.live("?type=core.note")
    let edge = bench.edge(task, "about", note).id
    let frames = live.frames()
    #expect(frames.map(\.edgeID) == [edge])
    #expect(frames.first?.data.string("source_type") == "core.task")
  }

  @Test("EV-S10 edges=none carries items alone; another word is refused")
  func noEdges() {
    let live = bench.live("?edges=none")
    let (a, b) = (bench.noteID(), bench.noteID())
    expect(bench.edge(a, "about", b), 201)
    #expect(live.frames().map(\.itemID) == [a, b])
    #expect(bench.stream("?edges=none", after: "0").frames().allSatisfy { $0.edgeID == nil })
    #expect(bench.stream("?edges=some").path == "edges")
  }

  @Test("EV-S11 a read view on a plain stream is refused")
  func viewOnPlain() {
    expect(bench.stream(view: String(repeating: "a", count: 64)), 400, "validation_error")
  }

  @Test("EV-S12 over the viewer limit a stream is refused, and opens once one leaves")
  func viewers() {
    bench.instance.settings.maximumViewers = 1
    let first = bench.live()
    let second = bench.stream()
    expect(second, 503, "stream_capacity_exhausted")
    #expect(second.detail("reason") == "viewer_cap")
    first.source?.close()
    #expect(bench.stream().frames().first?.kind == "stream_cursor")
  }

  @Test("EV-S13 many open streams hold up no write, and each gets its frame")
  func many() {
    let streams = (0..<50).map { _ in bench.live() }
    let id = bench.noteID()
    for stream in streams { #expect(stream.frames().map(\.itemID) == [id]) }
  }

  @Test("EV-S16 cursors that are no canonical decimal; an empty one is live only")
  func cursors() {
    _ = bench.noteID()
    for bad in ["-1", "+1", "01", "1.0", "1e3", " 1", "9223372036854775808", "abc"] {
      let refused = bench.stream(after: bad)
      expect(refused, 400, "validation_error")
      #expect(refused.path == "Last-Event-ID")
    }
    #expect(bench.stream(after: "").frames().map(\.kind) == ["stream_cursor", "stream_live"])
  }

  @Test("EV-S18 a cursor past the head is told so, and the stream ends")
  func ahead() {
    _ = bench.noteID()
    let stream = bench.stream(after: "2")
    let frames = stream.frames()
    #expect(frames.map(\.kind) == ["stream_cursor", "cursor_ahead"])
    #expect(frames.allSatisfy { $0.id == nil })
    #expect(frames.last?.data == ["event_type": "cursor_ahead", "requested": "2", "head": "1"])
    #expect(stream.source?.take() == nil)
  }

  /// 1,200 notes of some 2 KB: more than a stream hands out in one piece.
  func fill() throws {
    let body = String(repeating: "x", count: 2_200)
    try bench.instance.batch { for place in 0..<1_200 { _ = bench.noteID("\(place) \(body)") } }
  }

  @Test("EV-S19 a sweep that overtakes a replay ends it as too old, without a gap")
  func overtaken() throws {
    try fill()
    let stream = bench.stream(after: "0")
    let first = String(decoding: stream.source?.take() ?? [], as: UTF8.self)
    let sent = first.components(separatedBy: "\nid: ").count - 1
    #expect(sent > 0 && sent < 1_200)
    bench.clock.advance(seconds: 169 * 3600)
    try bench.instance.sweep()
    let rest = stream.frames()
    #expect(rest.map(\.kind) == ["catchup_too_old"])
    #expect(rest.first?.id == nil)
    #expect(rest.first?.data.string("min_retained_id") == "1200")
    #expect(stream.source?.take() == nil)
  }

  @Test("EV-S24 writes during a replay arrive after it, once, before the stream is live")
  func duringReplay() throws {
    try fill()
    let stream = bench.stream(after: "0")
    var bytes = stream.source?.take() ?? []
    let late = bench.noteID("late")
    while let more = stream.source?.take(), !more.isEmpty { bytes += more }
    let blocks = String(decoding: bytes, as: UTF8.self).components(separatedBy: "\n\n")
    let ids = blocks.filter { $0.hasPrefix("id: ") }.compactMap { Int($0.dropFirst(4).prefix { $0 != "\n" }) }
    #expect(ids == Array(1...1_201))
    #expect(blocks.filter { $0.contains(late) }.count == 1)
    let last = blocks.last(where: { !$0.isEmpty }) ?? ""
    #expect(last.hasPrefix("event: stream_live"))
  }

  @Test("EV-S21 with a retention of 0 nothing is ever retired")
  func keepsAll() throws {
    bench.instance.settings.eventRetentionHours = 0
    for _ in 0..<3 { _ = bench.noteID() }
    bench.clock.advance(seconds: 100_000 * 3600)
    try bench.instance.sweep()
    #expect(bench.events().map(\.id) == [1, 2, 3])
  }

  @Test("EV-S22 after a disconnect in a burst the rest comes once, in rising order")
  func resumes() {
    let stream = bench.live()
    let notes = (0..<3).map { _ in bench.noteID() }
    expect(bench.edge(notes[0], "about", notes[1]), 201)
    let seen = stream.frames()
    stream.source?.close()
    expect(bench.edge(notes[1], "about", notes[2]), 201)
    bench.trash(notes[0])
    expect(bench.purge(notes[0]), 200)
    let rest = bench.events(after: seen.last?.id ?? 0)
    #expect(rest.map(\.kind) == ["edge.created", "item.deleted", "edge.deleted", "item.purged"])
    let ids = (seen + rest).compactMap(\.id)
    #expect(ids == Array(1...ids.count))
  }

  @Test("EV-S23 after a restart old ids replay and the next one is higher")
  func restart() throws {
    let place = Place()
    let note: String
    do {
      let first = try Bench(path: place.path)
      note = first.noteID()
      expect(first.patch(note, 1, ["properties": ["body": "b"]]), 200)
      first.instance.stop()
    }
    let second = try Bench(path: place.path)
    #expect(second.events().map(\.id) == [1, 2])
    #expect(second.events().compactMap(\.itemID) == [note, note])
    second.trash(note)
    #expect(second.events(after: 2).map(\.id) == [3])
  }

  @Test("EV-S25 resuming from the live marker resends nothing, withheld events included")
  func withheldTail() {
    let notes = bench.mint(["core.note": "read"])
    let first = bench.noteID()
    for _ in 0..<3 { _ = bench.task() }
    let replay = bench.stream(after: "0", key: notes).frames()
    #expect(replay.compactMap(\.itemID) == [first])
    let marker = replay.last
    #expect(marker?.kind == "stream_live" && marker?.data.string("cursor") == "4")
    let resumed = bench.stream(after: marker?.data.string("cursor"), key: notes)
    #expect(resumed.frames().filter { $0.id != nil }.isEmpty)
    let next = bench.noteID()
    #expect(resumed.frames().map(\.itemID) == [next])
  }

  @Test("EV-S28 a part that went with its host says so, and names it to who may read it")
  func cascade() {
    let (host, part) = (bench.task(), bench.noteID())
    expect(bench.edge(host, "parent-of", part), 201)
    bench.trash(host)
    func deleted(_ key: String?) -> JSON? {
      bench.events(key: key).first { $0.kind == "item.deleted" && $0.itemID == part }?.item
    }
    #expect(deleted(nil)?["trashed_by_cascade"]?.bool == true)
    #expect(deleted(nil)?.string("trashed_with") == host)
    let notes = bench.mint(["core.note": "read"])
    #expect(deleted(notes)?["trashed_by_cascade"]?.bool == true)
    #expect(deleted(notes)?["trashed_with"] == nil)
  }

  @Test("EV-S29 a part brought back by its host names it to who may read it")
  func restored() {
    let (host, part) = (bench.task(), bench.noteID())
    expect(bench.edge(host, "parent-of", part), 201)
    bench.trash(host)
    expect(bench.restore(host), 200)
    func back(_ key: String?) -> JSON? {
      bench.events(key: key).first { $0.kind == "item.restored" && $0.itemID == part }?.data
    }
    #expect(back(nil)?.string("restored_with") == host)
    let blind = back(bench.mint(["core.note": "read"]))
    #expect(blind != nil && blind?["restored_with"] == nil)
    #expect(bench.events().first { $0.kind == "item.restored" && $0.itemID == host }?.data["restored_with"] == nil)
  }

  @Test("EV-S30 a purge tells each edge before the item and names it, the retention's purge too")
  func purges() throws {
    for byRetention in [false, true] {
      let (gone, other) = (bench.noteID(), bench.noteID())
      let edges = [bench.edge(gone, "about", other).id, bench.edge(other, "references", gone).id]
      bench.trash(gone)
      let head = try bench.head()
      if byRetention {
        bench.clock.advance(seconds: 3 * 86_400)
        #expect(try bench.instance.purgeBin(olderThanDays: 1) == 1)
      } else {
        expect(bench.purge(gone), 200)
      }
      let told = bench.events(after: head)
      #expect(told.map(\.kind) == ["edge.deleted", "edge.deleted", "item.purged"])
      #expect(Set(told.compactMap(\.edgeID)) == Set(edges))
      #expect(told.prefix(2).allSatisfy { $0.data.string("purged_with") == gone })
      #expect(told.last?.itemID == gone)
    }
  }

  @Test("EV-S31 a moved edge is told as it stands, a deleted one as it stood")
  func edgeFrames() {
    let (a, b, c) = (bench.noteID(), bench.noteID(), bench.noteID())
    let id = bench.edge(a, "parent-of", b, ["x": 1]).id
    expect(bench.send("PATCH", "/edges/\(id)", ["version": 1, "source_id": .string(c)]), 200)
    let stands = bench.send("GET", "/edges/\(id)").edge
    #expect(bench.events().last?.kind == "edge.updated")
    #expect(bench.events().last?.data["edge"] == stands)
    #expect(stands.string("source_id") == c)
    expect(bench.send("DELETE", "/edges/\(id)"), 200)
    #expect(bench.events().last?.data["edge"] == stands)
  }

  @Test("EV-S32 metadata holds readable namespaces; with none and no tags it is left out")
  func metadata() {
    let id = bench.noteID()
    for name in ["one", "two"] {
      expect(bench.send("PUT", "/items/\(id)/extensions/acme.\(name)", ["v": 1]), 200)
    }
    let one = bench.mint(extensions: ["acme.one": "read"])
    let last = bench.events(key: one).last
    #expect(last?.data["metadata"]?["extensions"] == ["acme.one": ["v": 1]])
    #expect(last?.data["metadata"]?.string("item_id") == id)
    #expect(last?.item["edges"] == nil)
    let none = bench.mint(extensions: [:])
    #expect(bench.events(key: none).last?.data["metadata"] == nil)
    expect(bench.send("POST", "/items/\(id)/tags", ["tags": ["t"]]), 200)
    #expect(bench.events(key: none).last?.data["metadata"]?["tags"] == ["t"])
    #expect(bench.events(key: none).last?.data["metadata"]?["extensions"] == [:])
  }

  @Test("EV-S34 a bulk move of three items is three state changes")
  func bulkMove() throws {
    let ids = (0..<3).map { _ in bench.noteID() }
    let told = bench.announced {
      _ = bench.act(["action": "transition", "state": "archived", "filter": ["type": "core.note"]])
    }
    #expect(told.map(\.kind) == ["item.state_changed", "item.state_changed", "item.state_changed"])
    #expect(Set(told.compactMap(\.itemID)) == Set(ids))
    #expect(told.allSatisfy { $0.item.string("state") == "archived" })
  }

  @Test("EV-S35 a replay under a key and an acknowledged create say nothing")
  func silentRepeats() {
    let id = bench.newID()
    let body: JSON = ["type": "core.note", "id": .string(id), "properties": ["body": "a"]]
    expect(bench.send("POST", "/items", body, headers: under("k")), 201)
    let patch: JSON = ["version": 1, "properties": ["body": "b"]]
    expect(bench.send("PATCH", "/items/\(id)", patch, headers: under("p")), 200)
    let told = bench.announced {
      expect(bench.send("POST", "/items", body, headers: under("k")), 201)
      expect(bench.send("PATCH", "/items/\(id)", patch, headers: under("p")), 200)
      let again = bench.send("POST", "/items", body)
      #expect(again.isAcknowledged)
    }
    #expect(told.isEmpty)
  }

  @Test("EV-S36 a refused, a rolled back and a contended write are not logged and not sent")
  func silentFailures() throws {
    let place = Place()
    let bench = try Bench(path: place.path)
    let id = bench.noteID()
    let live = bench.live()
    let head = try bench.head()
    expect(bench.patch(id, 9, ["properties": ["body": "b"]]), 409)
    expect(bench.made("core.note", [:]), 400, "invalid_properties")
    // The item's own write is taken back with its refused edge.
    expect(
      bench.made("core.note", ["body": "x"], ["edges": ["about": [.string(bench.newID())]]]), 404, "item_not_found")
    struct Taken: Error {}
    #expect(throws: Taken.self) {
      try bench.instance.batch {
        expect(bench.patch(id, 1, ["properties": ["body": "b"]]), 200)
        throw Taken()
      }
    }
    #expect(bench.read(id).version == 1)
    let other = try Database(path: place.path, mode: .create)
    try other.execute("PRAGMA busy_timeout = 0")
    bench.instance.settings.busyBudget = 1
    try other.execute("BEGIN IMMEDIATE")
    expect(bench.patch(id, 1, ["properties": ["body": "c"]]), 503, "write_contention")
    try other.execute("ROLLBACK")
    #expect(live.frames().isEmpty)
    #expect(try bench.head() == head)
    expect(bench.patch(id, 1, ["properties": ["body": "d"]]), 200)
    #expect(live.frames().map { $0.item["properties"]?.string("body") } == ["d"])
  }

  @Test("EV-S37 who may not read the source's type gets no edge frame, live, replayed or by a purge")
  func hiddenSource() {
    let (task, note) = (bench.task(), bench.noteID())
    let notes = bench.mint(["core.note": "read"])
    let live = bench.live(key: notes)
    let edge = bench.edge(task, "about", note).id
    expect(bench.send("PATCH", "/edges/\(edge)", ["version": 1, "properties": ["x": 1]]), 200)
    bench.trash(task)
    expect(bench.purge(task), 200)
    #expect(live.frames().isEmpty)
    #expect(!bench.events(key: notes).contains { $0.kind.hasPrefix("edge.") })
    #expect(bench.events().filter { $0.edgeID == edge }.count == 3)
  }

  @Test("EV-S38 a key narrowed while its stream is open stops getting what it lost; the stream stays")
  func narrowed() throws {
    let key = try bench.mint("narrow")
    let live = bench.live(key: key.token)
    let first = bench.task()
    #expect(live.frames().map(\.itemID) == [first])
    try bench.change(key) { $0.types = JSONObject([(Text("core.note"), JSON.string("read"))]) }
    _ = bench.task()
    let note = bench.noteID()
    #expect(live.frames().map(\.itemID) == [note])
  }

  @Test("EV16.4 a replay of large notes is not piled up for a reader that takes nothing, who is ended after 30 s")
  func pile() throws {
    let body = String(repeating: "x", count: 90_000)
    for place in 0..<60 { _ = bench.noteID("\(place) \(body)") }
    let stuck = bench.stream(after: "0")
    let first = stuck.source?.take() ?? []
    #expect(first.count > 1 << 20 && first.count < 2 << 20)
    stuck.source?.unread = first.count
    bench.clock.advance(seconds: 20)
    // A byte taken is a sign of life.
    stuck.source?.unread = first.count - 1
    bench.clock.advance(seconds: 20)
    bench.instance.tick()
    #expect(stuck.source?.isPushed == false)
    bench.clock.advance(seconds: 11)
    bench.instance.tick()
    // Its end goes behind what waits unread.
    #expect(stuck.source?.isPushed == true)
    let end = stuck.frames()
    #expect(end.map(\.kind) == ["stream_incomplete"])
    #expect(end.first?.data.string("reason") == "reader_behind")
    let patient = bench.stream(after: "0")
    #expect(patient.frames().count { $0.kind == "item.created" } == 60)
  }

  @Test("EV-S41 a reader with 4 MiB unread, or one that takes nothing in a catch-up, is ended as behind")
  func behind() throws {
    let live = bench.live()
    live.source?.unread = 4_194_304
    _ = bench.noteID()
    let end = live.frames()
    #expect(end.map(\.kind) == ["stream_incomplete"])
    #expect(end.first?.data.string("reason") == "reader_behind")
    #expect(live.source?.take() == nil)
    let fits = bench.live()
    fits.source?.unread = 4_000_000
    _ = bench.noteID()
    #expect(fits.frames().map(\.kind) == ["item.created"])
    fits.source?.close()
    try fill()
    let replay = bench.stream(after: "0")
    _ = replay.source?.take()
    bench.clock.advance(seconds: 29)
    bench.instance.tick()
    let more = replay.source?.take() ?? []
    #expect(!more.isEmpty)
    let stuck = bench.stream(after: "0")
    _ = stuck.source?.take()
    bench.clock.advance(seconds: 31)
    bench.instance.tick()
    let rest = stuck.frames()
    #expect(rest.last?.kind == "stream_incomplete")
    #expect(rest.last?.data.string("reason") == "reader_behind")
  }
}

/// A database's place on disk, gone with the test.
final class Place: Sendable {
  let path: String
  private let directory: String

  init() {
    directory = "/tmp/marfa-instance-\(SystemIds(clock: SystemClock()).next())"
    mkdir(directory, 0o700)
    path = directory + "/instance.sqlite"
  }

  deinit {
    for end in ["", "-wal", "-shm"] { unlink(path + end) }
    rmdir(directory)
  }
}

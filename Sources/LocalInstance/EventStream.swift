import MarfaBase

/// One open stream: replay from its cursor, then live, read from the log as the shell asks for bytes (EV1 to EV18).
/// A position in the log is all it keeps, so a slow reader costs nothing and nothing is sent twice.
final class EventStream: EventSource {
  /// What a stream was opened with.
  struct Opening {
    var isCopy = false
    var showsEdges = true
    /// The types of item frames; nil is every readable one.
    var types: [Text]?
    /// The cursor to replay after; nil goes live at once.
    var cursor: Int?
    var view = ""
  }

  private unowned let instance: Instance
  private let token: String
  private let opening: Opening
  /// The last event passed; nil while the head could not be read (EV8.2).
  private var position: Int?
  private var lastSent: Int?
  private var isOpened = false
  private var isLive = false
  private var pending: [UInt8] = []
  private var isOver = false
  private var lastByte: UInt64
  private var lastTake: UInt64
  private var lastCheck: UInt64
  var unread = 0 {
    didSet { if unread < oldValue { lastTake = instance.clock.monotonic } }
  }

  /// - Parameter head: where the log stands; nil where it could not be read.
  init(_ instance: Instance, token: String, _ opening: Opening, head: Int?) {
    self.instance = instance
    self.token = token
    self.opening = opening
    position = opening.cursor ?? head
    lastByte = instance.clock.monotonic
    lastTake = lastByte
    lastCheck = lastByte
  }

  /// Whether `take` has bytes that no event announces: a heartbeat, an end.
  var hasSomething: Bool { !pending.isEmpty || isOver }

  /// The end goes behind what waits unread, however a reader that took nothing comes to it.
  var isPushed: Bool { isLive || isOver }

  func take() -> [UInt8]? {
    lastTake = instance.clock.monotonic
    if !isOver { advance() }
    if !pending.isEmpty {
      defer { pending = [] }
      lastByte = lastTake
      return pending
    }
    if isOver {
      close()
      return nil
    }
    return []
  }

  func close() {
    isOver = true
    instance.streams.removeAll { $0 === self }
  }

  /// At each tick: the heartbeat, the credential, a reader that stopped taking (EV15, EV16).
  func beat() {
    guard !isOver else { return }
    let now = instance.clock.monotonic
    if isOpened, !isLive, now - lastTake > 30_000_000_000 {
      end("reader_behind")
      return
    }
    if now - lastCheck >= 25_000_000_000 {
      lastCheck = now
      if reader() == nil {
        end("credential_ended")
        return
      }
    }
    if now - lastByte >= 30_000_000_000, unread == 0, pending.isEmpty {
      pending += ":ping\n\n".utf8
      lastByte = now
    }
  }

  /// The terminal frame of EV9.1.
  func end(_ reason: String) {
    guard !isOver else { return }
    if !isOpened {
      isOpened = true
      pending += ": connected\n\n".utf8
    }
    terminal(
      "stream_incomplete", [("reason", .string(reason)), ("cursor", lastSent.map { .string("\($0)") } ?? .null)])
  }

  private func reader() -> Credential? { instance.credential(token: token) }

  var hasCredential: Bool { reader() != nil }

  private func frame(_ kind: String, _ members: [(Text, JSON)]) {
    pending += "event: \(kind)\ndata: ".utf8
    JSON.object(JSONObject([("event_type", .string(kind))] + members)).append(to: &pending)
    pending += "\n\n".utf8
  }

  private func terminal(_ kind: String, _ members: [(Text, JSON)]) {
    frame(kind, members)
    isOver = true
  }

  private func marker(_ kind: String, _ cursor: Int?) {
    var members: [(Text, JSON)] = [("cursor", cursor.map { .string("\($0)") } ?? .null)]
    if opening.isCopy {
      members += [("instance_id", .string(instance.instanceID.text)), ("read_view", .string(opening.view))]
    }
    frame(kind, members)
  }

  private func advance() {
    guard let reader = reader() else { return end("credential_ended") }
    if instance.isStopping { return end("server_stopping") }
    do {
      if opening.isCopy, instance.readView(reader) != opening.view {
        if !isOpened { pending += ": connected\n\n".utf8 }
        return terminal("read_view_changed", [])
      }
      if !isOpened { try open() }
      while !isOver, pending.count < 1 << 20 {
        if try !step(reader) { break }
      }
    } catch {
      end("replay_failed")
    }
  }

  private func open() throws {
    let read = try? instance.head()
    isOpened = true
    pending += ": connected\n\n".utf8
    guard let head = read else {
      // A copy's stream, and one that has a place to go on from, are no use without it (RV3.6); a plain one begins with what
      // comes (EV8.2).
      if opening.isCopy || opening.cursor != nil { end("replay_failed") }
      return
    }
    marker("stream_cursor", head)
    if position == nil { position = head }
    guard let cursor = opening.cursor else { return }
    if cursor > head {
      terminal("cursor_ahead", [("requested", .string("\(cursor)")), ("head", .string("\(head)"))])
    } else {
      try judgeAge(cursor)
    }
  }

  /// Too old exactly when the oldest kept is past the next one needed (EV10.5).
  private func judgeAge(_ position: Int) throws {
    guard let oldest = try instance.oldestEvent(), oldest > position + 1 else { return }
    terminal(
      "catchup_too_old",
      [("min_retained_id", .string("\(oldest)")), ("requested", .string("\(opening.cursor ?? position)"))])
  }

  /// Sends up to a batch of events; whether more may follow at once.
  private func step(_ reader: Credential) throws -> Bool {
    guard var position = position ?? (try? instance.head()) else {
      // Live with no place to name; it is found once the log can be read again.
      if !isLive {
        isLive = true
        marker("stream_live", nil)
      }
      return false
    }
    defer { self.position = position }
    try judgeAge(position)
    if isOver { return false }
    // A replay is read as its reader takes it, never piled up (EV16.4).
    let most = isLive ? 500 : 50
    let events = try instance.events(after: position, limit: most)
    for event in events {
      if !isLive, pending.count >= 1 << 20 { return false }
      let frame = try instance.frame(of: event, opening, reader)
      if let frame {
        if isLive, unread + pending.count >= 4_194_304 {
          end("reader_behind")
          return false
        }
        pending += frame
        lastSent = event.id
      }
      position = event.id
    }
    if events.count == most { return true }
    if !isLive {
      isLive = true
      position = max(position, try instance.head())
      marker("stream_live", position)
    }
    return false
  }
}

/// A row of the log.
struct LoggedEvent {
  var id: Int
  var kind: Text
  var subject: EntityID
  var type: Text
  var edgeType: Text?
  var source: Text?
  var withID: EntityID?
  var withType: Text?
  /// What it tells of an item; nil for an edge's, and for an item that is gone.
  var told: Told?
  /// An edge as it stood, where it has changed since.
  var edge: [UInt8]?

  /// An item as an event tells it, whoever reads it: without `trashed_with`.
  struct Told {
    /// The item without its closing brace.
    var open: [UInt8]
    var tags: [UInt8]
    var extensions: [UInt8]
  }
}

extension LoggedEvent.Told {
  /// The text of `Instance.frameBody`: three lines.
  init?(_ body: [UInt8]) {
    guard let first = body.firstIndex(of: UInt8(ascii: "\n")),
      let second = body[(first + 1)...].firstIndex(of: UInt8(ascii: "\n")), first > 0
    else { return nil }
    open = Array(body[..<(first - 1)])
    tags = Array(body[(first + 1)..<second])
    extensions = Array(body[(second + 1)...])
  }

  /// An item as its row stands.
  init(_ row: Row) {
    open = []
    open.reserveCapacity(row.count(14) + 512)
    ItemRow.appendOpen(row, to: &open, reader: nil)
    tags = row.bytes(15)
    extensions = row.bytes(16)
  }
}

extension Instance {
  /// Events of the log, each with what it tells: a copy of its own, or the row as it still stands.
  func events(after position: Int, limit: Int) throws -> [LoggedEvent] {
    let first = ItemRow.columnCount
    return try database.all(
      """
      SELECT \(ItemRow.prefixed), e.id, e.kind, e.subject, e.type, e.edge_type, e.source, e.with_id, e.with_type, e.body
      FROM (SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?) AS e
        LEFT JOIN item i ON e.body IS NULL AND e.edge_type IS NULL AND i.id = e.subject
      ORDER BY e.id
      """, position, limit
    ) { row in
      var event = LoggedEvent(
        id: row.int(first), kind: row.text(first + 1), subject: row.id(first + 2) ?? EntityID(high: 0, low: 0),
        type: row.text(first + 3), edgeType: row.optionalText(first + 4), source: row.optionalText(first + 5),
        withID: row.id(first + 6), withType: row.optionalText(first + 7))
      if event.edgeType != nil {
        event.edge = row.isNull(first + 8) ? nil : row.bytes(first + 8)
      } else if !row.isNull(first + 8) {
        event.told = LoggedEvent.Told(row.bytes(first + 8))
      } else if !row.isNull(0) {
        event.told = LoggedEvent.Told(row)
      }
      return event
    }
  }

  /// The frame of an event for a reader; nil where it is withheld (EV14).
  func frame(of event: LoggedEvent, _ opening: EventStream.Opening, _ reader: Credential) throws -> [UInt8]? {
    guard reader.reads(event.type) else { return nil }
    var out: [UInt8] = []
    out.reserveCapacity((event.told?.open.count ?? 512) + 512)
    out += "id: \(event.id)\nevent: ".utf8
    out += event.kind.bytes
    out += "\ndata: {\"event_type\":\"".utf8
    out += event.kind.bytes
    if let edgeType = event.edgeType {
      guard opening.showsEdges, reader.edges.reads(edgeType), let edge = try event.edge ?? edge(event.subject)?.text
      else { return nil }
      out += "\",\"edge\":".utf8
      out += edge
      out += ",\"source_type\":".utf8
      JSON.appendString(event.type, to: &out)
      if let gone = event.withID { out += ",\"purged_with\":\"\(gone)\"".utf8 }
    } else {
      if let types = opening.types, !types.contains(where: { covers($0, event.type) }) { return nil }
      guard let told = event.told else { return nil }
      out += "\",\"item\":".utf8
      out += told.open
      let tellsWith = event.withID != nil && event.withType.map(reader.reads) ?? false
      if tellsWith, let with = event.withID, event.kind != "item.restored" {
        out += ",\"trashed_with\":\"\(with)\"".utf8
      }
      out.append(UInt8(ascii: "}"))
      let extensions = readableExtensions(told.extensions, reader)
      if opening.isCopy || told.tags.count > 2 || extensions.count > 2 {
        out += ",\"metadata\":{\"item_id\":\"\(event.subject)\",\"tags\":".utf8
        out += told.tags
        out += ",\"extensions\":".utf8
        out += extensions
        out += "}".utf8
      }
      if tellsWith, let with = event.withID, event.kind == "item.restored" {
        out += ",\"restored_with\":\"\(with)\"".utf8
      }
      if opening.isCopy { out += ",\"listed\":\(isListed(type: event.type, source: event.source ?? "", reader))".utf8 }
    }
    out += "}\n\n".utf8
    return out
  }

  private func readableExtensions(_ text: [UInt8], _ reader: Credential) -> [UInt8] {
    if text.count == 2 || reader.extensions.readsEverything { return text }
    let all = (try? JSON(parsing: text))?.object ?? JSONObject()
    return JSON.object(JSONObject(all.members.filter { reader.extensions.reads($0.key) }.map { ($0.key, $0.value) }))
      .write()
  }

  /// Whether an entry of a stream's `type` list means a type.
  private func covers(_ entry: Text, _ type: Text) -> Bool {
    if entry.bytes.suffix(2).elementsEqual(".*".utf8) {
      let prefix = Text(bytes: entry.bytes.dropLast(2))
      return type.bytes.starts(with: prefix.bytes + [0x2E]) || catalog.subtree(prefix).contains(type) || type == prefix
    }
    return type == entry || catalog.subtree(entry).contains(type)
  }

  /// `GET /events` (EV1.5, RV2.5).
  func openStream(_ call: Call) throws -> InstanceAnswer {
    var opening = EventStream.Opening()
    opening.isCopy = call.query.count(of: "copy") > 0
    if opening.isCopy {
      do { try judgeCopyStream(call, &opening) } catch let refusal as Refusal {
        try call.credential.requireSomeType()
        throw refusal
      }
      opening.view = readView(call.credential)
      if let named = call.header("x-marfa-read-view"), named != opening.view { throw Refusal.viewChanged }
      try call.credential.requireSomeType()
    } else {
      try judgePlainStream(call, &opening)
    }
    if settings.maximumViewers > 0, streams.count >= settings.maximumViewers {
      throw Refusal(503, "stream_capacity_exhausted", "Too many streams are open.", ["reason": "viewer_cap"])
    }
    let stream = EventStream(self, token: bearer(call) ?? "", opening, head: try? head())
    streams.append(stream)
    var head = finish(Reply(status: 200, body: [], isBare: true), call)
    head.headers += [HTTPHeader("Content-Type", "text/event-stream"), HTTPHeader("Cache-Control", "no-store")]
    return .stream(head: head, source: stream)
  }

  private func judgePlainStream(_ call: Call, _ opening: inout EventStream.Opening) throws {
    try call.credential.requireSomeType()
    if call.header("x-marfa-read-view") != nil {
      throw Refusal.invalid("X-Marfa-Read-View", "A read view goes with a copy stream.")
    }
    try call.query.declare(["type", "edges", "copy"])
    if let entries = try call.query.list("type") {
      if entries.count > 10 { throw Refusal.invalid("type", "At most 10 types.") }
      for entry in entries where entry == "*" { throw Refusal.invalid("type", "\(entry) is no type.") }
      let known = try knownTypes()
      for entry in entries { _ = try typesNamed(entry, known, call.credential) }
      opening.types = entries
    }
    if let edges = call.query["edges"] {
      guard edges == "all" || edges == "none" else { throw Refusal.invalid("edges", "edges is all or none.") }
      opening.showsEdges = edges == "all"
    }
    if let text = call.header("last-event-id"), !text.isEmpty { opening.cursor = try cursor(text) }
  }

  private func judgeCopyStream(_ call: Call, _ opening: inout EventStream.Opening) throws {
    try call.query.declare(["edges", "copy"])
    guard call.query.count(of: "copy") == 1, call.query["copy"] == "1" else {
      throw Refusal.invalid("copy", "copy is 1, once.")
    }
    guard call.query.count(of: "edges") == 1, call.query["edges"] == "all" else {
      throw Refusal.invalid("edges", "A copy stream has edges=all, once.")
    }
    let cursors = call.headerCount("last-event-id")
    let views = call.headerCount("x-marfa-read-view")
    guard cursors <= 1 else { throw Refusal.invalid("Last-Event-ID", "One cursor.") }
    guard views <= 1 else { throw Refusal.invalid("X-Marfa-Read-View", "One read view.") }
    if let text = call.header("last-event-id") { opening.cursor = try cursor(text) }
    if let view = call.header("x-marfa-read-view") { try judgeViewForm(view) }
    guard cursors == views else {
      throw Refusal.invalid(
        cursors == 0 ? "Last-Event-ID" : "X-Marfa-Read-View", "A resume names its cursor and its read view.")
    }
  }

  /// A canonical decimal from 0 to 9223372036854775807 (EV10.1).
  private func cursor(_ text: String) throws -> Int {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), text == "0" || text.utf8.first != 0x30,
      let value = Int(text)
    else { throw Refusal.invalid("Last-Event-ID", "The cursor is no canonical decimal.") }
    return value
  }
}

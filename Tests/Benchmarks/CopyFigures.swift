import MarfaBase
import MarfaCopy
import TestSupport

/// What a working copy costs: filling, following, sending, reading.
enum CopyFigures {
  /// - Parameter creates: what one create costs the instance, asked by a plain client.
  static func measure(
    _ options: Options, _ served: Served, creates: Cost, _ scratch: ScratchDirectory, _ report: inout FigureReport
  ) throws {
    let store = scratch.at("copy.sqlite")
    func work(_ what: String, _ more: String...) throws -> Cost {
      try Work.apart([what, store, served.socket, served.key] + more, scratch)
    }
    let count = options.copyNotes
    let fill = try work("fill")
    let index = try work("index")
    let bare = try BareSQLite.load(store, below: try scratch.makeDirectory("bare"))
    report.add("fill of \(count) notes, readable", fill, against: bare.rows, "bare SQLite load", atMost: 1.5)
    report.add("making them searchable", index, against: bare.index, "bare index build", atMost: 1.5)
    report.add("memory of a fill", bytes: fill.memory, atMost: 100 << 20)
    report.add("memory of indexing", bytes: index.memory, atMost: 100 << 20)
    report.add("refill that changes nothing", try work("fill"), against: fill, "fill", atMost: 0.5)
    try reads(options, store, served, &report)

    let news = count / 10
    let client = try LoadClient(socket: served.socket, key: served.key, connections: 16)
    _ = try InstanceFigures.create(news, client, served)
    let caught = try work("catch-up") / news
    report.add("caught-up events", perSecond: 1 / caught.wall, busy: caught.processor, atLeast: 20_000)
    let sent = min(10_000, count)
    let before = served.process.processor
    let drain = try work("drain", "\(sent)") / sent
    let server = (served.process.processor - before) / Double(sent)
    report.add("drain of \(sent) creates, one", drain, against: creates, "the instance's own", atMost: 2)
    report.note("the instance was busy \(spelled(server)) for each of them")
  }

  private static func reads(
    _ options: Options, _ store: String, _ served: Served, _ report: inout FigureReport
  ) throws {
    let context = Work.context(socket: served.socket)
    let endpoint = Endpoint(baseURL: "http://local", origin: "local", credential: served.key)
    func open() throws -> OpenStore {
      try OpenStore.open(
        path: PathBytes(store), context: context, role: .writer, endpoint: endpoint, credentials: nil)
    }
    let opening = try timed(options.runs) {
      let opened = try open()
      _ = try opened.copy.status()
    }
    report.add("opening a copy", opening, atMost: 0.005)
    let copy = try open().copy
    func list(_ name: String, _ filter: Text, expect count: Int) throws {
      var query = ListQuery()
      query.types = ["core.note"]
      query.filter = filter
      query.limit = 50
      var found = 0
      _ = try copy.list(query)
      let cost = try timed(options.runs) { found = try copy.list(query).count }
      guard found == count else { throw ScratchError("\(name): \(found) rows, not \(count)") }
      report.add(name, cost, atMost: 0.01)
    }
    let rare = min(50, options.copyNotes / 500)
    try list("a list of 50, equal to one in 500", "properties.shelf eq \"shelf-77\"", expect: rare)
    try list("a list of 50, equal to one in 4", "properties.room eq \"room-1\"", expect: 50)
    try list("a list of 50, equal to none", "properties.room eq \"nowhere\"", expect: 0)
    try list("a list of 50, a range of one in 4", "properties.rank gte 750", expect: 50)
    try list("a list of 50, a range of one in 500", "properties.rank gt 997", expect: rare)
    try list("a list of 50, two conditions", "properties.room eq \"room-1\" AND properties.rank lt 100", expect: 50)
    try list("a list of 50, by tag", "tags contains \"area-3\"", expect: 50)
    func search(_ name: String, _ words: Text, atMost bound: Double) throws {
      _ = try copy.search(words)
      report.add(name, try timed(options.runs) { _ = try copy.search(words) }, atMost: bound)
    }
    try search("search, 1 % match", "\"quarry\"", atMost: 0.01)
    try search("search, 3 % match", "\"harbour\"", atMost: 0.01)
    try search("search, 90 % match", "\"everywhere\"", atMost: 0.2)
    try search("search, a prefix of two letters", "ha", atMost: 0.2)
  }
}

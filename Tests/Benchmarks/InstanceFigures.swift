import Glibc
import MarfaBase
import TestSupport

/// What a small instance costs, asked over its socket by a plain client.
enum InstanceFigures {
  /// Measures, and fills the instance with the notes the copy needs. Returns the rate of creates it took, by elapsed time.
  static func measure(_ options: Options, _ served: Served, _ report: inout FigureReport) throws -> Cost {
    let client = try LoadClient(socket: served.socket, key: served.key, connections: 16)
    let made = try create(options.copyNotes, client, served)
    let each = made.cost / options.copyNotes
    guard options.parts.contains(.instance) else { return each }
    report.add(
      "durable creates of 2.7 KB, 16 connections", perSecond: 1 / each.wall, busy: each.processor, atLeast: 6000)
    let bare = try BareSQLite.durable(options.requests)
    report.note(
      "one row and one index by bare SQLite, 16 a commit: \(fixed(1 / bare.wall, 0))/s (\(spelled(bare.processor)))")

    let gets = try load(options.requests, client, served) { place in
      client.request("GET", "/items/\(made.ids[place * 7919 % made.ids.count])")
    }
    report.add("gets by id, 16 connections", perSecond: 1 / gets.wall, busy: gets.processor, atLeast: 20_000)

    let one = try LoadClient(socket: served.socket, key: served.key, connections: 1)
    func asked(_ target: String) throws -> Cost {
      try load(40, one, served) { _ in one.request("GET", target) }
    }
    _ = try asked("/items?limit=200")
    report.add("a page of 200", try asked("/items?limit=200"), atMost: 0.001)
    let title = "properties.title%20contains%20%22"
    report.add("contains on a title, few rows", try asked("/items?filter=\(title)77%20ba%22"), atMost: 0.01)
    report.add("contains on a title, no row", try asked("/items?filter=\(title)zzzz%22"), atMost: 0.01)

    let before = served.process.memory
    let streams = try LoadClient(socket: served.socket, key: served.key, connections: 500)
    try streams.openStreams(streams.request("GET", "/events", headers: ["Accept: text/event-stream"]))
    report.add("memory of 500 idle streams", bytes: served.process.memory - before, atMost: 40 << 20)
    return each
  }

  /// The cost of one of many requests: elapsed here, processor time of the server.
  static func load(
    _ count: Int, _ client: LoadClient, _ served: Served, _ request: (Int) -> [UInt8]
  ) throws -> Cost {
    let before = served.process.processor
    let cost = try timed { try client.send(count, request) }
    return Cost(wall: cost.wall, processor: served.process.processor - before) / count
  }

  /// Makes notes, each under an idempotency key, and gives their ids.
  static func create(_ count: Int, _ client: LoadClient, _ served: Served) throws -> (cost: Cost, ids: [String]) {
    var notes = Notes()
    let ids = SystemIds(clock: SystemClock())
    var made: [String] = []
    var cost = Cost(wall: 0, processor: 0)
    // The texts are made beforehand, a thousand at a time, so that their making is not measured.
    for start in stride(from: 0, to: count, by: 1000) {
      var requests: [[UInt8]] = []
      for place in start..<min(count, start + 1000) {
        let id = ids.next()
        made.append(id.description)
        requests.append(
          client.request(
            "POST", "/items", notes.create(place, id: id).write(), headers: ["Idempotency-Key: \(ids.next())"]))
      }
      let each = try load(requests.count, client, served) { requests[$0] }
      cost.wall += each.wall * Double(requests.count)
      cost.processor += each.processor * Double(requests.count)
    }
    return (cost, made)
  }
}

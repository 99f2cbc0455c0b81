import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import TestSupport

/// Work done in a process of its own, so that its memory and processor time are its own: `bench work WHAT ...`. It prints
/// what it took as two numbers, elapsed and processor seconds.
enum Work {
  static func run(_ arguments: [String]) throws {
    guard arguments.count >= 4 else { throw ScratchError("work WHAT STORE SOCKET KEY [COUNT]") }
    // As the program does.
    takeMemoryInLargeSteps()
    let context = context(socket: arguments[2])
    let endpoint = Endpoint(baseURL: "http://local", origin: "local", credential: arguments[3])
    let count = arguments.count > 4 ? Int(arguments[4]) ?? 0 : 0
    if ["pass", "read", "read-anew", "walk"].contains(arguments[0]) {
      return try pass(arguments[0], arguments[1], registry: arguments[5], count, context, endpoint)
    }
    let open = try OpenStore.open(
      path: PathBytes(arguments[1]), context: context, role: .writer, endpoint: endpoint, credentials: nil)
    let copy = open.copy
    switch arguments[0] {
    case "fill":
      tell(
        try timed {
          _ = try copy.hydrate(Slice(types: ["core.note"], tier: "library", edgeTypes: ["references"]))
        })
    case "index": tell(try timed { _ = try copy.search("quarry") })
    case "catch-up": tell(try timed { _ = try copy.catchUp() })
    case "drain":
      var notes = Notes()
      for place in 0..<count {
        let note = notes.create(place, id: context.ids.next())
        _ = try copy.queue.createItem(
          ItemDraft(type: "core.note", properties: note["properties"]?.object ?? JSONObject()))
      }
      tell(
        try timed {
          let report = try copy.queue.drain()
          guard report.answered == count else { throw ScratchError("\(report.answered) of \(count) answered") }
        })
    default: throw ScratchError("unknown work \(arguments[0])")
    }
  }

  /// The median of several passes over a folder without a change, after one that is not counted.
  private static func pass(
    _ what: String, _ root: String, registry: String, _ runs: Int, _ context: Context, _ endpoint: Endpoint
  ) throws {
    let folders = Folders(
      context: context, registry: Registry(path: PathBytes(registry), files: context.files), endpoint: endpoint,
      door: StoreDoor(
        database: { root, mode in
          try Database(path: root.appending(".marfa/core.sqlite").description, mode: mode)
        },
        blobs: { root in
          FileBlobStore(path: root.appending(".marfa/core.sqlite.blobs"), files: context.files, ids: context.ids)
        }))
    try folders.working(PathBytes(root), "sync") { engine in
      func once() throws {
        switch what {
        case "walk": _ = try walk(root: engine.openRoot(), lists: engine.facts().lists, now: engine.now)
        case "read", "read-anew": _ = try engine.scan()
        default: _ = try engine.sync(quick: true, isWatch: true)
        }
      }
      let path = PathBytes(root).appending(".marfa/core.sqlite").description
      func isQuiet() throws -> Bool {
        try Database(path: path, mode: .readOnly).one("SELECT count(*) FROM quiet WHERE kept") { $0.int(0) } == 1
      }
      if what == "read-anew" {
        // Without the record of a quiet pass each file is read into a document and decided.
        try Database(path: path, mode: .create).run("DELETE FROM quiet")
      }
      try once()
      if what == "read", try !isQuiet() { throw ScratchError("no quiet pass is recorded") }
      tell(try timed(max(1, runs), once))
    }
  }

  static func context(socket: String) -> Context {
    let clock = SystemClock()
    return Context(
      clock: clock, ids: SystemIds(clock: clock), files: SystemFileSystem(),
      transport: CurlTransport(CurlTransport.Options(localSocket: PathBytes(socket))), scheduler: SystemScheduler(),
      log: SilentLog())
  }

  private static func tell(_ cost: Cost) { print("\(cost.wall) \(cost.processor)") }

  /// Runs work in a process of its own. The memory is the whole process's.
  static func apart(_ words: [String], _ scratch: ScratchDirectory) throws -> Cost {
    guard let program = realpath("/proc/self/exe", nil) else { throw ScratchError("no program") }
    defer { free(program) }
    let output = scratch.at("work.out")
    let whole = try Command.run([String(cString: program), "work"] + words, output: output)
    let numbers = String(decoding: fileBytes(output) ?? [], as: UTF8.self).split(whereSeparator: \.isWhitespace)
    guard numbers.count == 2, let wall = Double(numbers[0]), let processor = Double(numbers[1]) else {
      throw ScratchError("work \(words[0]) told nothing")
    }
    return Cost(wall: wall, processor: processor, memory: whole.memory)
  }
}

private struct SilentLog: Log {
  func write(_ line: String) {}
}

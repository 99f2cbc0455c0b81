import CPosix
import Glibc
import MarfaBase
import Synchronization
import TestSupport

/// What a folder costs, by the built program as a person runs it, against the machine's own tools on the same tree.
enum FolderFigures {
  static func measure(
    _ options: Options, _ scratch: ScratchDirectory, _ report: inout FigureReport
  ) async throws {
    let count = options.folderNotes
    let served = try await Served(scratch, "folder")
    let root = scratch.at("Notes")
    var notes = Notes()
    try notes.write(count, below: root)
    let made = try await served.program.run(
      ["--json", "create", "--title", "Notes", "--search", #"{"types":["core.note"]}"#])
    guard let folder = (made.json?["item"] ?? made.json)?["id"]?.text?.string else { throw ScratchError(made.errText) }
    func program(_ words: String...) throws -> Cost {
      try Command.run([MarfaFolders.binary] + words, environment: served.program.environment)
    }

    let before = served.process.processor
    let first = try program("add", root, "--folder", folder, "--yes")
    let push = try program("push", root)
    let served1 = served.process.processor - before
    let replay = try replay(count, scratch)
    let whole = Cost(
      wall: first.wall + push.wall, processor: first.processor + push.processor + served1,
      memory: max(first.memory, push.memory))
    report.add("first push of \(count) notes", whole, against: replay, "requests and landings alone", atMost: 1.5)
    report.note(
      "of it the program \(spelled(first.processor + push.processor)), the instance \(spelled(served1)); at most "
        + "\(whole.memory >> 20) MB")

    try firstPull(count, folder, served, scratch, &report)

    func figure(
      _ name: String, atMost target: Double, _ ours: () throws -> Cost, _ peerName: String, _ peer: () throws -> Cost
    ) throws {
      let found = try Command.compare(options.runs, ours, peer)
      report.add(name, found.ours, against: found.peer, peerName, atMost: target)
    }
    let listing = {
      try Command.run(["find", root, "-path", "\(root)/.marfa", "-prune", "-o", "-printf", "%p %s %T@\\n"])
    }
    let sums = {
      try Command.run(["find", root, "-name", "*.md", "-exec", "sha256sum", "{}", "+"])
    }
    let registry = served.program.environment["MARFA_FOLDER_REGISTRY"] ?? ""
    func inside(_ what: String) throws -> Cost {
      try Work.apart([what, root, served.socket, served.key, "3", registry], scratch)
    }
    // The lines a first push wrote are read, then a pass with nothing to do is recorded (`Quiet`).
    for _ in 0..<3 { _ = try program("sync", root) }
    try figure("walk alone", atMost: 1, { try inside("walk") }, "find -printf", listing)
    try figure("a watch's quick pass, no change", atMost: 1.2, { try inside("pass") }, "find -printf", listing)
    try figure("reading and deciding, no change", atMost: 1.2, { try inside("read") }, "sha256sum", sums)
    try figure("the same, each file decided anew", atMost: 1.2, { try inside("read-anew") }, "sha256sum", sums)
    for _ in 0..<2 { _ = try program("sync", root) }
    try figure("sync, no change", atMost: 1.2, { try program("sync", root) }, "sha256sum", sums)
    if Command.isInstalled("git") {
      let git = ["git", "-C", root, "-c", "user.name=x", "-c", "user.email=x@example.org"]
      for words in [["init", "-q"], ["add", "."], ["commit", "-qm", "notes"]] { _ = try Command.run(git + words) }
      try figure(
        "status", atMost: 2, { try program("status", root) }, "git status",
        { try Command.run(git + ["status", "--porcelain"]) })
      // The directory is left as it was before the next figure.
      _ = try Command.run(["rm", "-rf", "\(root)/.git"])
    } else {
      report.note("git is not installed: status is not compared")
    }
    try others(root, scratch, { try program("sync", root) }, { try inside("pass") }, options, &report)
  }

  /// Tools that few machines have.
  private static func others(
    _ root: String, _ scratch: ScratchDirectory, _ sync: () throws -> Cost, _ pass: () throws -> Cost,
    _ options: Options, _ report: inout FigureReport
  ) throws {
    let second = scratch.at("second")
    if Command.isInstalled("rclone") {
      let words = [
        "rclone", "--quiet", "bisync", root, second, "--exclude", ".marfa/**", "--workdir", scratch.at("rclone"),
      ]
      _ = try Command.run(["mkdir", "-p", second])
      _ = try Command.run(words + ["--resync"])
      let found = try Command.compare(options.runs, sync, { try Command.run(words) })
      report.add("sync, no change", found.ours, against: found.peer, "rclone bisync", atMost: 0.1)
    } else {
      report.note("rclone is not installed: sync is not compared with it")
    }
    if Command.isInstalled("unison") {
      // Its own records lie with the rest, not in the home of whoever measures.
      let words = [
        "env", "UNISON=\(scratch.at("unison"))", "unison", root, scratch.at("third"), "-batch", "-auto", "-silent",
        "-ignore", "Name .marfa",
      ]
      _ = try Command.run(words)
      let looking = try Command.compare(options.runs, pass, { try Command.run(words) })
      report.add("a watch's quick pass, no change", looking.ours, against: looking.peer, "unison", atMost: 1.2)
      // As a sync does, it reads every file.
      let reading = words + ["-fastcheck", "false"]
      let found = try Command.compare(options.runs, sync, { try Command.run(reading) })
      report.add("sync, no change", found.ours, against: found.peer, "unison, reading", atMost: 1.2)
    } else {
      report.note("unison is not installed: sync is not compared with it")
    }
  }

  /// What a second machine's first pull of the same folder costs, against the same rows read in pages by a plain client and
  /// the same files landed with parallel fsync.
  private static func firstPull(
    _ count: Int, _ folder: String, _ served: Served, _ scratch: ScratchDirectory, _ report: inout FigureReport
  ) throws {
    let root = try scratch.makeDirectory("Second")
    var environment = served.program.environment
    environment["HOME"] = try scratch.makeDirectory("second-home")
    environment["MARFA_FOLDER_REGISTRY"] = scratch.at("second-home/folders.json")
    environment["XDG_STATE_HOME"] = scratch.at("second-home/state")
    func program(_ words: String...) throws -> Cost {
      try Command.run([MarfaFolders.binary] + words, environment: environment)
    }
    let before = served.process.processor
    var whole = try program("add", root, "--folder", folder, "--yes")
    whole += try program("sync", root)
    let answered = served.process.processor - before
    whole.processor += answered
    guard fileBytes("\(root)/part-0/Note 0.md") != nil else { throw ScratchError("the second machine pulled nothing") }
    let client = try LoadClient(socket: served.socket, key: served.key, connections: 1)
    let start = served.process.processor
    var peer = try timed {
      var cursor: String? = ""
      while let from = cursor {
        let page = client.request(
          "GET", "/items?type=core.note&limit=200&include=metadata" + (from.isEmpty ? "" : "&cursor=\(from)"))
        try client.send(1, { _ in page }) { _, body in
          cursor = (try? JSON(parsing: Array(body)))?["next_cursor"]?.text?.string
        }
      }
    }
    peer.processor += served.process.processor - start
    peer += try timed { try land(count, below: try scratch.makeDirectory("landed-new")) }
    report.add("first pull of \(count) notes", whole, against: peer, "pages and landings alone", atMost: 1.5)
    report.note(
      "of it the program \(spelled(whole.processor - answered)), the instance \(spelled(answered)); at most "
        + "\(whole.memory >> 20) MB")
  }

  /// The requests of a first push by a plain client over 16 connections (P6.4: for each note a create, its placement, its two
  /// tags and its link), and as many files landed with parallel fsync in place of those that stand.
  private static func replay(_ count: Int, _ scratch: ScratchDirectory) throws -> Cost {
    // The requests go to an instance of their own, whose processor time counts as the other's does.
    let program = MarfaFolders(home: scratch.at("folder-home"))
    let data = scratch.at("replay")
    let child = try program.start(["instance", "run", "--json", "--data", data])
    defer { child.signal(SIGKILL) }
    while !child.out.contains(0x0A), child.status == nil { usleep(2000) }
    guard let line = child.out.split(separator: 0x0A).first, let ready = try? JSON(parsing: Array(line)) else {
      throw ScratchError("the instance did not start")
    }
    let key = ready["owner_key"]?.text?.string ?? ""
    let client = try LoadClient(socket: data + "/instance.sock", key: key, connections: 16)
    let process = RunningProcess(pid: child.pid)
    var notes = Notes()
    let ids = SystemIds(clock: SystemClock())
    var made: [String] = []
    let creates = (0..<count).map { place -> [UInt8] in
      let id = ids.next()
      made.append(id.description)
      var note = notes.create(place, id: id).object ?? JSONObject()
      note["properties"] = ["title": .string("Note \(place)"), "body": .string(notes.text(4300)), "rank": .int(place)]
      return client.request("POST", "/items", JSON.object(note).write(), headers: ["Idempotency-Key: \(ids.next())"])
    }
    let tags = (0..<2 * count).map { place -> [UInt8] in
      let tag: JSON = ["tags": [.string(place % 2 == 0 ? "area-\(place / 2 % 20)" : "all")]]
      return client.request(
        "POST", "/items/\(made[place / 2])/tags", tag.write(), headers: ["Idempotency-Key: \(ids.next())"])
    }
    var folder = ""
    let settings: JSON = ["title": "Notes", "search": ["types": ["core.note"]]]
    let making = client.request(
      "POST", "/folders", settings.write(), headers: ["Idempotency-Key: \(ids.next())"])
    try client.send(1, { _ in making }) { _, body in
      let answer = try? JSON(parsing: Array(body))
      folder = (answer?["item"] ?? answer?["folder"] ?? answer)?["id"]?.text?.string ?? ""
    }
    let placements = (0..<count).map { place -> [UInt8] in
      let edge: JSON = [
        "source_id": .string(made[place]), "edge_type": "in-folder", "target_id": .string(folder),
        "properties": ["path": .string("part-\(place / 50)/Note \(place).md")],
      ]
      return client.request("POST", "/edges", edge.write(), headers: ["Idempotency-Key: \(ids.next())"])
    }
    let edges = (0..<count).map { place -> [UInt8] in
      let edge: JSON = [
        "source_id": .string(made[place]), "edge_type": "references", "target_id": .string(made[(place + 1) % count]),
      ]
      return client.request("POST", "/edges", edge.write(), headers: ["Idempotency-Key: \(ids.next())"])
    }
    let before = process.processor
    var cost = try timed {
      try client.send(count) { creates[$0] }
      try client.send(2 * count) { tags[$0] }
      try client.send(count) { placements[$0] }
      try client.send(count) { edges[$0] }
    }
    cost.processor += process.processor - before
    let landed = try scratch.makeDirectory("landed")
    try land(count, below: landed)
    cost += try timed { try land(count, below: landed) }
    return cost
  }

  /// Lands files of 4.4 KB by four threads: a temporary file, synced, renamed.
  private static func land(_ count: Int, below directory: String) throws {
    let landing = Landing(count: count, directory: directory)
    for _ in 0..<4 { Thread.start { landing.work() } }
    while landing.running.load(ordering: .acquiring) > 0 { usleep(1000) }
    guard landing.failures.load(ordering: .acquiring) == 0 else { throw ScratchError("files could not be landed") }
  }
}

private final class Landing: Sendable {
  let running = Atomic(4)
  let failures = Atomic(0)
  private let next = Atomic(0)
  private let count: Int
  private let directory: String

  init(count: Int, directory: String) {
    self.count = count
    self.directory = directory
  }

  func work() {
    let bytes = [UInt8](repeating: 0x61, count: 4400)
    while true {
      let place = next.wrappingAdd(1, ordering: .relaxed).oldValue
      if place >= count { break }
      let temporary = "\(directory)/.new-\(place)"
      let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
      let landed =
        marfa_write_all(descriptor, bytes, bytes.count) == 0 && fsync(descriptor) == 0 && close(descriptor) == 0
        && rename(temporary, "\(directory)/Note \(place).md") == 0
      if !landed { failures.wrappingAdd(1, ordering: .relaxed) }
    }
    running.wrappingSubtract(1, ordering: .releasing)
  }
}

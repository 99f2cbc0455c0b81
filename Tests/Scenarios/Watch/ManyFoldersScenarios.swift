@testable import FolderSync
import Glibc
import MarfaBase
@testable import MarfaCopy
import TestSupport
import Testing

/// The kernel's limits, many folders in one process, and a credential that is changed under a watch (W6, P6.5, N3.2).
@Suite(.serialized) struct ManyFoldersScenarios {
  /// Whether a process can be given few inotify watches: a user namespace has a limit of its own.
  static let canLimitWatches: Bool = {
    var pid = pid_t()
    let said: [String] = ["unshare", "-Ur", "sh", "-c", "echo 8 >/proc/sys/user/max_inotify_watches"]
    var words: [UnsafeMutablePointer<CChar>?] = said.map { strdup($0) }
    words.append(nil)
    defer { for word in words { free(word) } }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    guard posix_spawnp(&pid, "unshare", &actions, nil, &words, environ) == 0 else { return false }
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    return status == 0
  }()

  @Test(
    "X-S70 with 8 watches to be had and 20 directories the watcher's failure is said once, and changes everywhere are found",
    .enabled(if: canLimitWatches))
  func fewWatches() async throws {
    let desk = try await ProcessScenarios()
    for number in 1...20 { try desk.scratch.write("Notes/d\(number)/first.md", "First of \(number).\n") }
    try await desk.add()
    var environment = desk.program.environment
    environment["MARFA_BINARY"] = MarfaFolders.binary
    environment["NOTES"] = desk.notes
    let child = try ChildProcess(
      [
        "unshare", "-Ur", "sh", "-c",
        #"echo 8 >/proc/sys/user/max_inotify_watches && exec "$MARFA_BINARY" watch "$NOTES" --json"#,
      ], environment: environment)
    try await desk.wait(child, for: "passed")
    try await desk.wait(child, for: "watcher_failed")
    for number in 1...20 { try desk.scratch.write("Notes/d\(number)/second.md", "Second of \(number).\n") }
    try await child.wait("every note sent", within: .seconds(180)) { _ in
      (1...20).allSatisfy { desk.scratch.text("Notes/d\($0)/second.md")?.contains("marfa_id") == true }
    }
    try await desk.end(child)
    #expect(desk.names(child).count { $0 == "watcher_failed" } == 1)
    let told = desk.events(child).first { $0["event"] == "watcher_failed" }?["message"]?.text?.string
    #expect(told?.contains("max_user_watches") == true, "\(told ?? "nothing")")
    #expect(try await desk.insist(["push", desk.notes]).json?["drain"]?["answered"] == 0)
  }

  @Test("P6.5 of the folders that ask one server with one credential one holds the stream, and the next one after it")
  func hub() throws {
    let clock = SystemClock()
    let context = Context(
      clock: clock, ids: SystemIds(clock: clock), files: SystemFileSystem(), transport: CurlTransport(),
      scheduler: SystemScheduler(), log: SilentLog())
    let hub = StreamHub()
    let listeners = try (0..<3).map { _ in try ServerListening(context: context, waker: Waker(clock: clock), hub: hub) }
    func key(_ credential: String) -> StreamHub.Key {
      StreamHub.Key(
        StreamPlace(endpoint: Endpoint(baseURL: "http://a.test", credential: credential), cursor: "1", view: "1"))
    }
    #expect(key("one") != key("two") && key("one") == key("one"))
    #expect(hub.join(key("one"), listeners[0]) && !hub.join(key("one"), listeners[1]))
    #expect(hub.join(key("two"), listeners[2]), "another credential has a stream of its own")
    hub.tell(.changed, key("one"), but: listeners[0])
    hub.tell(.changed, key("one"), but: listeners[0])
    #expect(listeners[1].take() == [.changed] && listeners[0].take().isEmpty && listeners[2].take().isEmpty)
    hub.giveUp(key("one"), listeners[0], leaves: true)
    #expect(hub.join(key("one"), listeners[1]) && !hub.join(key("one"), listeners[0]))
  }

  @Test("P6.5 three folders of one server in one process share one event stream, and each hears of its changes")
  func oneStream() async throws {
    let desk = try await ProcessScenarios()
    let program = desk.program
    let dirs = ["One", "Two", "Three"].map { desk.scratch.at($0) }
    for dir in dirs {
      let added = try await program.run(["add", dir, "--folder", desk.folder, "--yes"], deadline: .seconds(120))
      try #require(added.status == 0, "\(added.errText)")
    }
    let child = try program.start(["watch", "--json"])
    func passed(_ dir: String) -> Bool {
      desk.events(child).contains { $0["event"] == "passed" && $0["dir"]?.text?.string == dir }
    }
    for dir in dirs { try await child.wait("a pass of \(dir)", within: .seconds(120)) { _ in passed(dir) } }
    // Another computer's note reaches all three by the one stream.
    let other = ["MARFA_FOLDER_REGISTRY": desk.scratch.at("other.json")]
    try desk.scratch.write("Other/News.md", "News.\n")
    #expect(
      try await desk.insist(["add", desk.scratch.at("Other"), "--folder", desk.folder, "--yes"], other).status == 0)
    #expect(try await desk.insist(["push", desk.scratch.at("Other")], other).status == 0)
    try await child.wait("the news everywhere", within: .seconds(120)) { _ in
      ["One", "Two", "Three"].allSatisfy { desk.scratch.text("\($0)/News.md")?.contains("News.") == true }
    }
    // The folder that held it goes; another takes it up.
    #expect(try await desk.insist(["remove", dirs[0]]).status == 0)
    #expect(try await desk.insist(["remove", dirs[1]]).status == 0)
    try desk.scratch.write("Other/Later.md", "Later.\n")
    #expect(try await desk.insist(["push", desk.scratch.at("Other")], other).status == 0)
    try await child.wait("the later news", within: .seconds(120)) { _ in
      desk.scratch.text("Three/Later.md")?.contains("Later.") == true
    }
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(90)).status == 0)
  }

  @Test(
    "N-S14 a watch over all with a refused credential: once a new key is kept, its folder goes on without a restart")
  func newKeyKept() async throws {
    let desk = try await ProcessScenarios()
    let session = try await SessionBus(home: desk.scratch.path)
    var program = session.program(desk.program)
    program.environment["MARFA_API_KEY"] = nil
    program.environment["MARFA_API_URL"] = nil
    func instance(_ words: [String]) async throws -> JSON {
      let ran = try await desk.program.run(
        ["--json", "instance", "key"] + words + ["--data", desk.scratch.at("data")], deadline: .seconds(120))
      try #require(ran.status == 0, "\(ran.errText)")
      return ran.json ?? .null
    }
    let first = try await instance(["create", "--folders", "--label", "first"])
    let second = try await instance(["create", "--folders", "--label", "second"])
    let keep = ["--json", "keys", "keep", "--url", desk.server.url, "--key"]
    let kept = try await program.run(keep + [try #require(first["key"]?.text?.string, "\(first.compact)")])
    try #require(kept.status == 0, "\(kept.errText)")
    try await desk.add()
    _ = try await instance(["revoke", try #require(first["id"]?.text?.string)])
    try desk.scratch.write("Notes/One.md", "One.\n")
    let child = try program.start(["watch", "--json"])
    try await desk.wait(child, for: "failed")
    let failed = try #require(desk.events(child).first { $0["event"] == "failed" })
    #expect(failed["error"]?["code"] == "unauthorized" && failed["dir"]?.text?.string == desk.notes)
    #expect(desk.scratch.text("Notes/One.md") == "One.\n")
    let better = try await program.run(keep + [try #require(second["key"]?.text?.string)], deadline: .seconds(120))
    try #require(better.status == 0, "\(better.errText)")
    child.signal(SIGHUP)
    try await child.wait("its words sent", within: .seconds(180)) { _ in
      desk.scratch.text("Notes/One.md")?.contains("marfa_id") == true
    }
    #expect(child.status == nil && desk.names(child).contains("watching"))
    child.signal(SIGTERM)
    #expect(try await child.end(within: .seconds(90)).status == 0)
    try await session.end()
  }
}

import FolderSync
import Glibc
import MarfaBase
import Testing
import TestSupport

/// `log`, `conflicts` and `doctor` (N6).
@Suite("looking closer") struct LookingTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  private func folder(_ files: [String: String]) async throws -> String {
    for (name, text) in files { try scratch.write("Notes/\(name)", text) }
    let added = try await json(
      ["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(["sync", notes])
    return try #require(added["folder"]?.text?.string)
  }

  @Test("N-S22 of 1,200 passes the log holds 1,000, and its JSON parses line by line, newest last")
  func log() async throws {
    _ = try await folder(["One.md": "# One\n"])
    let first = try await program.run(["--json", "log", notes])
    let line = try #require(first.jsonLines.last)
    #expect(
      line.object?.keys == [
        "at", "took_ms", "pass", "sent", "written", "removed", "held", "refused", "error",
      ])
    #expect(line["pass"] == "push")
    #expect((line["sent"]?.int ?? 0) >= 1)
    // As many passes as a watch makes in a day, kept by the store's own record of them.
    let database = try Database(path: notes + "/.marfa/core.sqlite", mode: .readWrite)
    let store = try FolderStore(database, writer: true)
    let now = SystemClock().now.milliseconds
    try database.transaction { () throws(SQLiteError) in
      for number in 0..<1200 {
        try store.log(
          LoggedPass(
            at: Timestamp(milliseconds: now + Int64(number)), took: number, pass: "watch", sent: 0, written: 0,
            removed: 0, held: 0, refused: 0, error: number == 1199 ? "network" : nil))
      }
    }
    let ran = try await program.run(["--json", "log", notes, "-n", "5000"])
    #expect(ran.status == 0)
    let lines = ran.out.split(separator: 0x0A)
    #expect(lines.count == 1000)
    #expect(ran.jsonLines.count == 1000)
    #expect(ran.jsonLines.first?["took_ms"] == 200)
    #expect(ran.jsonLines.last?["took_ms"] == 1199)
    #expect(ran.jsonLines.last?["error"] == "network")
    #expect(try await program.run(["log", notes]).outText.split(separator: "\n").count == 20)
  }

  @Test("N6.3 a watch's passes that did something are in the log, and those that found nothing are not")
  func watchLog() async throws {
    _ = try await folder(["One.md": "# One\n"])
    let watch = try program.start(["--json", "watch", notes])
    func events() -> [JSON] { watch.out.split(separator: 0x0A).compactMap { try? JSON(parsing: Array($0)) } }
    try await watch.wait("watching", within: .seconds(120)) { _ in events().contains { $0["event"] == "watching" } }
    try scratch.write("Notes/Two.md", "# Two\n")
    try await watch.wait("the file sent", within: .seconds(120)) { _ in
      events().contains { ($0["drain"]?["answered"]?.int ?? 0) > 0 }
    }
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    let passes = try await program.run(["--json", "log", notes, "-n", "100"]).jsonLines
    let watched = passes.filter { $0["pass"] == "watch" }
    #expect(watched.contains { ($0["sent"]?.int ?? 0) > 0 }, "\(passes.map(\.compact))")
    #expect(
      watched.allSatisfy { pass in
        ["sent", "written", "removed", "held", "refused"].contains { (pass[Text($0)]?.int ?? 0) > 0 }
          || !(pass["error"]?.isNull ?? true)
      })
  }

  @Test("N6.4 doctor takes several directories, tells each one's storage, and what a key lacks there")
  func doctorOfSeveral() async throws {
    _ = try await folder(["One.md": "# One\n"])
    let other = scratch.at("Other")
    _ = try await json(["add", other, "--create", "Other", "--search", #"{"types":["core.note"]}"#, "--yes"])
    let ran = try await program.run(["--json", "doctor", notes, other])
    let checks = ran.json?["checks"]?.array ?? []
    for dir in [notes, other] {
      for check in ["storage", "store", "permissions"] {
        #expect(
          checks.contains { $0["dir"]?.text?.string == dir && $0["check"]?.text?.string == check }, "\(check) of \(dir)"
        )
      }
    }
    let key = try await json([
      "instance", "key", "create", "--data", scratch.at("data"), "--permission", "*=read", "--permission",
      "edge.*=read",
    ])
    var weak = program
    weak.environment["MARFA_API_KEY"] = key["key"]?.text?.string ?? ""
    let told = try await weak.run(["--json", "doctor", notes])
    let found = (told.json?["checks"]?.array ?? []).first { $0["check"] == "permissions" }
    #expect(
      found?["result"] == "warning" && found?["message"]?.text?.string.contains("in-folder") == true, "\(told.outText)")
  }

  @Test("N-S24 conflicts lists both files; keep mine leaves one live note with my text and the copy in the bin")
  func conflicts() async throws {
    _ = try await folder(["Plan.md": "# Plan\n\nfirst\n"])
    let status = try await json(["status", notes])
    let id = try #require(status["files"]?.array?.first?["item_id"]?.text?.string)
    let other = ["device", "--db", scratch.at("other.sqlite")]
    func collide(_ theirs: String, _ mine: String) async throws {
      _ = try await json(other + ["hydrate", "--types", "core.note", "--tier", "all"])
      let version = try await json(other + ["items", "get", id])["version"]?.int ?? 0
      let properties: JSON = ["body": .string(Text("# Plan\n\n\(theirs)\n"))]
      _ = try await json(
        other + ["items", "update", id, "--version", "\(version)", "--properties", properties.compact])
      _ = try await json(other + ["drain"])
      let text = try #require(scratch.text("Notes/Plan.md"))
      let head = text.firstRange(of: "# Plan")?.lowerBound ?? text.endIndex
      try scratch.write("Notes/Plan.md", text[..<head] + "# Plan\n\n\(mine)\n")
      let push = try await program.run(["sync", notes])
      #expect(push.status == 0, "\(push.errText)")
      // C19.9: once, the file and the file its text went to.
      let said = push.outText.split(separator: "\n").filter { $0.contains("conflicted update_item ") }
      #expect(said.count == 1, "\(push.outText)")
      #expect(said.first?.contains("conflicted update_item Plan.md") == true)
      let copy = scratch.files("Notes").first { $0 != "Plan.md" } ?? "no file"
      #expect(said.first?.contains("conflicted copy \(copy)") == true, "\(push.outText)")
      #expect(!(try await program.run(["sync", notes])).outText.contains("conflicted update_item"))
    }
    #expect(try await json(["conflicts", notes]) == [])
    try await collide("theirs", "mine")
    let found = try #require(try await json(["conflicts"]).array)
    try #require(found.count == 1, "\(scratch.files("Notes"))")
    #expect(found[0].object?.keys == ["dir", "item_id", "path", "copy_id", "copy_path"])
    #expect(found[0]["dir"]?.text?.string == notes)
    #expect(found[0]["item_id"]?.text?.string == id)
    #expect(found[0]["path"] == "Plan.md")
    let copyPath = try #require(found[0]["copy_path"]?.text?.string)
    #expect(scratch.text("Notes/\(copyPath)")?.contains("mine") == true)
    #expect(scratch.text("Notes/Plan.md")?.contains("theirs") == true)
    let shown = try await program.run(["conflicts", "open", notes + "/Plan.md"])
    #expect(shown.outText.contains("-theirs") && shown.outText.contains("+mine"), "\(shown.errText)")
    #expect(try await program.run(["conflicts", "keep", "both", notes + "/Plan.md"]).status == 2)
    let kept = try await program.run(["--json", "conflicts", "keep", "mine", notes + "/Plan.md"])
    #expect(kept.status == 0, "\(kept.errText)")
    #expect(scratch.files("Notes") == ["Plan.md"])
    #expect(scratch.text("Notes/Plan.md")?.contains("mine") == true)
    #expect(scratch.text("Notes/Plan.md")?.contains("theirs") == false)
    _ = try await json(other + ["hydrate", "--types", "core.note", "--tier", "all"])
    let live = try #require(try await json(other + ["items", "list"]).array)
    #expect(live.map { $0["id"]?.text?.string } == [id])
    #expect(live.first?["properties"]?["body"]?.text?.string.contains("mine") == true)
    let bin = try await json(other + ["items", "bin"])
    #expect(bin["items"]?.array?.map { $0["id"] } == [found[0]["copy_id"]])
    #expect(try await json(["conflicts"]) == [])
    // Theirs: the copy goes, the original stays as it is.
    try await collide("theirs again", "mine again")
    let again = try #require(try await json(["conflicts", notes]).array?.first?["copy_path"]?.text?.string)
    _ = try await json(["conflicts", "keep", "theirs", notes + "/" + again])
    #expect(scratch.files("Notes") == ["Plan.md"])
    #expect(scratch.text("Notes/Plan.md")?.contains("theirs again") == true)
  }

  @Test("N-S20 forty files with type: book are one group of forty in status, with the way out once")
  func statusGroups() async throws {
    var files = ["One.md": "# One\n"]
    for number in 10..<50 { files["Book \(number).md"] = "---\ntype: book\n---\n# Book \(number)\n" }
    _ = try await folder(files)
    let report = try await json(["status", notes])
    let held = report["files"]?.array?.filter { $0["status"] == "held" } ?? []
    #expect(held.count == 40, "\(report.compact)")
    let text = try await program.run(["status", notes]).outText
    let lines = text.split(separator: "\n")
    #expect(lines.first == "1 file in step")
    #expect(lines.filter { $0.contains("40 files held") }.count == 1, "\(text)")
    #expect(lines.filter { $0.contains("book") }.count == 1, "\(text)")
    #expect(lines.filter { $0.contains("save the file") }.count == 1)
    #expect(lines.filter { $0.contains(".md") }.count == 10)
    #expect(text.contains("and 30 more"))
    let all = try await program.run(["status", notes, "--all"]).outText
    #expect(all.split(separator: "\n").filter { $0.contains(".md") }.count == 40)
  }

  @Test("C-S42 a conflict on an item that is no file here is not said, then or later")
  func conflictElsewhere() async throws {
    try scratch.write("Notes/One.md", "---\ntags: [here]\n---\n# One\n")
    _ = try await json([
      "add", notes, "--create", "Notes", "--search",
      #"{"types":["core.note"],"filter":"tags contains \"here\""}"#, "--yes",
    ])
    let other = ["device", "--db", scratch.at("other.sqlite")]
    _ = try await json(other + ["hydrate", "--types", "core.note", "--tier", "all"])
    let made = try await json(
      other + ["items", "create", "--type", "core.note", "--properties", #"{"title":"Away","body":"first"}"#])
    let id = try #require(made["item_id"]?.text?.string)
    _ = try await json(other + ["drain"])
    _ = try await json(["sync", notes])
    #expect(scratch.files("Notes") == ["One.md"])
    let mine = ["device", "--db", notes + "/.marfa/core.sqlite"]
    func edit(_ device: [String], _ body: String) async throws {
      let properties: JSON = ["body": .string(Text(body))]
      _ = try await json(device + ["items", "update", id, "--version", "1", "--properties", properties.compact])
    }
    try await edit(mine, "mine")
    try await edit(other, "theirs")
    _ = try await json(other + ["drain"])
    let push = try await program.run(["sync", notes])
    #expect(push.status == 0, "\(push.errText)")
    #expect(!push.outText.contains("conflicted"), "\(push.outText)")
    let queue = try await json(mine + ["queue"])
    #expect(queue.array?.contains { $0["verdict"] == "conflicted" } == true, "\(queue.compact)")
    #expect(!(try await program.run(["sync", notes])).outText.contains("conflicted"))
    #expect(scratch.files("Notes") == ["One.md"])
    #expect(try await json(["conflicts", notes]) == [])
  }

  @Test("N-S23 doctor names a low inotify limit, a skewed clock, a read-only directory and a stale temporary file")
  func doctor() async throws {
    _ = try await folder(["One.md": "# One\n"])
    let well = try await program.run(["--json", "doctor"])
    #expect(well.status == 0, "\(well.outText)")
    #expect(well.json?.object?.keys == ["checks", "problems", "warnings"])
    #expect(well.json?["problems"] == 0)
    #expect(
      well.json?["checks"]?.array?.allSatisfy {
        $0.object?.keys == ["check", "dir", "result", "message", "fix"]
      } == true)
    // A process that has ended gives a number nobody has.
    let child = try ChildProcess(["true"], environment: ["PATH": "/usr/bin:/bin"])
    _ = try await child.end()
    try scratch.write("Notes/.marfa-\(child.pid)-3.tmp", "half")
    try scratch.write("limits/max_user_watches", "1\n")
    chmod(notes, 0o555)
    defer { chmod(notes, 0o755) }
    let skewed = try ScriptedServer { request in
      switch request.door {
      case "/":
        .json(
          200,
          #"{"name":"marfa","version":"1","instance_id":"019a0000-0000-7000-8000-0000000000aa","contract":0,"features":[]}"#,
          headers: ["Date: Sun, 06 Nov 1994 08:49:37 GMT"])
      case "/items/stats": .json(401, #"{"error":{"code":"unauthorized","message":"No."}}"#)
      default: .json(404, "{}")
      }
    }
    var ill = program
    ill.environment["MARFA_API_URL"] = skewed.url
    ill.environment["MARFA_TEST_LIMITS"] = scratch.at("limits")
    let ran = try await ill.run(["--json", "doctor", notes])
    #expect(ran.status == 4)
    func finding(_ check: String) -> JSON? { ran.json?["checks"]?.array?.first { $0["check"] == .string(Text(check)) } }
    #expect(finding("inotify")?["result"] == "problem")
    #expect(finding("inotify")?["fix"]?.text?.string.contains("fs.inotify.max_user_watches") == true)
    #expect(finding("clock")?["result"] == "problem")
    #expect(finding("clock")?["fix"]?.text != nil)
    #expect(finding("directory")?["result"] == "problem")
    #expect(finding("directory")?["dir"]?.text?.string == notes)
    #expect(finding("directory")?["fix"]?.text?.string.contains("chmod") == true)
    #expect(finding("leftovers")?["result"] == "warning")
    #expect(finding("leftovers")?["message"]?.text?.string.contains(".marfa-\(child.pid)-3.tmp") == true)
    #expect(finding("credential")?["result"] == "problem")
    #expect(ran.json?["problems"] == 4)
    let text = try await ill.run(["doctor", notes])
    #expect(text.status == 4)
    #expect(text.outText.contains("problem: \(notes): the directory is read-only. Make it writable"))
  }

  @Test("P7.4 doctor --report writes what a helper asks for, its owner's alone, without a text, name, address or key")
  func report() async throws {
    _ = try await folder([
      "Secret plan.md": "# Secret plan\n\nbodywords\n", "Bad.md": "---\ntags: [a\n---\nbodywords\n",
    ])
    let ran = try await program.run(["--json", "doctor", "--report", scratch.at("report.json")])
    #expect(ran.status == 0 && ran.json?["problems"] == 0, "\(ran.outText)")
    let text = try #require(scratch.text("report.json"))
    let report = try JSON(parsing: Array(text.utf8))
    #expect(report.object?.keys == ["program", "system", "checks", "folders"])
    #expect(report["folders"]?.array?.first?["files"] == ["held": 1, "in_step": 1], "\(text)")
    #expect(report["folders"]?.array?.first?["passes"]?.array?.isEmpty == false)
    for word in ["bodywords", "Secret plan", "Bad.md", notes, scratch.path, server.url, server.key] {
      #expect(!text.contains(word), "\(word): \(text)")
    }
    var status = stat()
    #expect(stat(scratch.at("report.json"), &status) == 0 && status.st_mode & 0o777 == 0o600)
    let again = try await program.run(["--json", "doctor", "--report", scratch.at("report.json")])
    #expect(again.status == 1 && again.code == "invalid")
  }
}

import Glibc
import MarfaBase
import Testing
import TestSupport

/// What docs/security.md claims of the program and no other test shows.
@Suite("security") struct SecurityTests {
  let scratch: ScratchDirectory
  let program: MarfaFolders
  let notes: String

  init() throws {
    scratch = try ScratchDirectory()
    program = MarfaFolders(home: scratch.path)
    notes = scratch.at("Notes")
  }

  private func at(_ url: String, _ key: String) -> MarfaFolders {
    var program = program
    program.environment["MARFA_API_URL"] = url
    program.environment["MARFA_API_KEY"] = key
    return program
  }

  // MARK: A malicious server

  @Test("a server's placements at dot-led, secret, foreign and state paths are written nowhere")
  func placements() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let own = at(server.url, server.key)
    let made = try await own.run(["create", "--title", "Notes", "--search", #"{"types":["core.note"]}"#])
    let folder = String(try #require(made.outText.split(separator: " ").first))
    let store = scratch.at("device.sqlite")
    func device(_ words: [String]) async throws {
      let ran = try await own.run(["--json", "device", "--db", store] + words)
      try #require(ran.status == 0, "\(words): \(ran.errText)")
    }
    try await device(["hydrate", "--types", "*", "--tier", "all"])
    let paths = [
      "../outside.md", ".git/hooks/post-commit.md", ".bashrc.md", ".ssh/authorized_keys.md",
      ".marfa/folder.yaml", ".marfa/core.sqlite", ".MARFA/folder.yaml", "a/../../up.md", "id_rsa.md", "sub/.env.md",
      "nul\u{0}.md", "sub/./dot.md", "sub//empty.md", "/tmp/marfa-absolute.md", "..", ".",
    ]
    for number in paths.indices {
      let id = EntityID.fixed(number)
      try await device([
        "items", "create", "--type", "core.note", "--id", id, "--properties",
        #"{"title":"Planted \#(number)","body":"planted"}"#,
      ])
      try await device([
        "edges", "create", "--source", id, "--target", folder, "--type", "in-folder", "--properties",
        #"{"path":"Honest \#(number).md"}"#,
      ])
    }
    try await device([
      "items", "create", "--type", "core.note", "--id", EntityID.fixed(99), "--properties",
      #"{"title":"Good","body":"good"}"#,
    ])
    try await device(["drain"])
    // No honest server takes such a placement: this one's database is changed behind its back.
    let database = try Database(path: scratch.at("data/instance.sqlite"), mode: .create)
    try database.execute("PRAGMA busy_timeout = 60000")
    for (number, path) in paths.enumerated() {
      let changed = try database.run(
        "UPDATE edge SET properties = ? WHERE source = ? AND type = 'in-folder'",
        (["path": .string(Text(path))] as JSON).write().text, EntityID.fixed(number))
      #expect(changed == 1)
    }

    try #require(try await own.run(["add", notes, "--folder", folder, "--yes"]).status == 0)
    let settings = scratch.text("Notes/.marfa/folder.yaml")
    let ran = try await own.run(["--json", "sync", notes])
    #expect(ran.status == 0, "\(ran.errText)")
    // What reads as a path inside is one; nothing else is written.
    #expect(Set(names(of: notes)).isSubset(of: [".marfa", "Good.md", "sub", "tmp"]), "\(names(of: notes))")
    #expect(
      Set(scratch.files("Notes")).isSubset(of: ["Good.md", "sub/dot.md", "sub/empty.md", "tmp/marfa-absolute.md"]))
    #expect(scratch.text("Notes/Good.md") != nil)
    #expect(scratch.text("Notes/.marfa/folder.yaml") == settings)
    for name in ["outside.md", "up.md"] { #expect(scratch.bytes(name) == nil) }
    #expect(fileBytes("/tmp/marfa-absolute.md") == nil)
    // Each is named to the person.
    let said = Set((ran.json?["pull"]?["flagged"]?.array ?? []).compactMap { $0["item"]?.text?.string })
    for number in 0..<10 { #expect(said.contains(EntityID.fixed(number)), "\(paths[number])") }
  }

  @Test("no control character of a file's name or of a server's words reaches a terminal")
  func controlCharacters() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let own = at(server.url, server.key)
    try #require(try await own.run(["add", notes, "--create", "--yes"]).status == 0)
    try scratch.write("Notes/red \u{1B}[31m\u{7}\u{9B}2J.md", "---\ntags: [\n---\n")
    try scratch.write("Notes/right \u{202E}to left.md", "---\ntags: [\n---\n")
    for words in [["sync", notes], ["status", notes], ["scan", notes]] {
      let ran = try await own.run(words)
      #expect(ran.status == 0)
      #expect(ran.outText.contains("red "))
      #expect(isPlain(ran.out) && isPlain(ran.err), "\(words): \(ran.outText)")
    }
    let rude = try ScriptedServer { request in
      if request.path == "/" { return .root() }
      return .json(
        403, #"{"error":{"code":"forbidden","message":"no\u001b]0;owned\u0007 \u001b[2J\u202e way"}}"#)
    }
    let ran = try await at(rude.url, "marfa_k1_1").run(["create", "--title", "x"])
    #expect(ran.status == 1)
    #expect(ran.errText.contains("way"))
    #expect(isPlain(ran.err), "\(ran.errText)")
  }

  @Test("a line end in a file's, a folder's or an item's name begins no line of a listing, a report or a difference")
  func lineEnds() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let own = at(server.url, server.key)
    let folder = scratch.at("Two\nlines")
    try scratch.write("Two\nlines/held\nforged.md", "---\ntags: [\n---\n")
    try scratch.write("Two\nlines/good\nforged.md", "Words.\n")
    let added = try await own.run(["add", folder, "--create", "Two\nforged", "--yes"])
    try #require(added.status == 0, "\(added.errText)")
    for words in [["sync", folder], ["list"], ["status", folder], ["scan", folder], ["log", folder]] {
      let ran = try await own.run(words)
      #expect(ran.status == 0, "\(words): \(ran.errText)")
      for line in (ran.outText + ran.errText).split(separator: "\n") {
        #expect(!line.hasPrefix("forged") && !line.hasPrefix("lines"), "\(words): \(line)")
      }
    }
    let listed = try await own.run(["list"])
    #expect(listed.outText.contains("Two\\u{a}lines"), "\(listed.outText)")
    try scratch.write("Two\nlines/good\nforged.md", "Other words.\n")
    let shown = try await own.run(["diff", folder, "good\nforged.md"])
    #expect(!shown.outText.split(separator: "\n").contains { $0.hasPrefix("forged") }, "\(shown.outText)")
    let json = try await own.run(["--json", "list"])
    #expect(json.json?.compact.contains(#"Two\nlines"#) == true)
  }

  @Test("a file of the command line that cannot be read is told by its whole path")
  func wholePath() async throws {
    let ran = try await program.run(["create", "--file", "/nonexistent.json", "--title", "x"])
    #expect(ran.status != 0 && ran.errText.contains("/nonexistent.json"), "\(ran.errText)")
    let deeper = try await program.run(["create", "--file", scratch.at("no/such.json"), "--title", "x"])
    #expect(deeper.status != 0 && deeper.errText.contains(scratch.at("no/such.json")), "\(deeper.errText)")
  }

  /// Whether text holds no control character but tab and line end, and none that turns its direction.
  private func isPlain(_ bytes: [UInt8]) -> Bool {
    String(decoding: bytes, as: UTF8.self).unicodeScalars.allSatisfy { scalar in
      switch scalar.value {
      case 0x09, 0x0A: true
      case 0..<0x20, 0x7F..<0xA0, 0x202A...0x202E, 0x2066...0x2069: false
      default: true
      }
    }
  }

  @Test("a store that came with a directory names no server a credential goes to, until the directory is added here")
  func foreignStore() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let seen = try ScriptedServer(upstream: server.url) { _ in nil }
    try #require(
      try await at(seen.url, server.key).run(["add", notes, "--create", "--yes"]).status == 0)
    let before = seen.requests.count
    var other = program
    other.environment["MARFA_FOLDER_REGISTRY"] = scratch.at("other.json")
    other.environment["MARFA_API_KEY"] = "marfa_k1_a_key_of_another_server"
    for words in [["sync", notes], ["hydrate", notes], ["watch", notes]] {
      let ran = try await other.run(["--json"] + words)
      #expect(ran.code == "no_server", "\(words): \(ran.errText) \(ran.outText)")
    }
    for words in [["pull", notes], ["restore", notes], ["status", notes]] { _ = try await other.run(words) }
    #expect(seen.requests.count == before)
    // Where this machine added it, the address it was added with is the one used.
    var own = other
    own.environment["MARFA_FOLDER_REGISTRY"] = nil
    own.environment["MARFA_API_KEY"] = server.key
    #expect(try await own.run(["sync", notes]).status == 0)
    #expect(seen.requests.count > before)
  }

  // MARK: A malicious file

  @Test("links, pipes and bombs in a folder send nothing of another file and hold nothing up")
  func hostileFiles() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let own = at(server.url, server.key)
    try scratch.makeDirectory("Notes")
    try scratch.write("elsewhere/secret.txt", "the word is xyzzy\n")
    for name in ["linked.md", "linked.png"] {
      try #require(symlink(scratch.at("elsewhere/secret.txt"), scratch.at("Notes/\(name)")) == 0)
    }
    try #require(symlink(scratch.at("elsewhere"), scratch.at("Notes/way")) == 0)
    for name in ["pipe.md", "pipe.png"] { try #require(mkfifo(scratch.at("Notes/\(name)"), 0o644) == 0) }
    try scratch.write(
      "Notes/Bait.md",
      "![[linked.png]] ![[pipe.png]] ![[way/secret.txt]] ![](../elsewhere/secret.txt) ![](/etc/passwd)\n")
    let laughs = (1..<30).map { "a\($0): &a\($0) [*a\($0 - 1), *a\($0 - 1), *a\($0 - 1)]" }.joined(separator: "\n")
    try scratch.write("Notes/Laughs.md", "---\na0: &a0 [x]\n\(laughs)\n---\n")
    try scratch.write("Notes/Deep.md", "---\nx: \(String(repeating: "[", count: 50_000))\n---\n")
    try scratch.write("Notes/Brackets.md", String(repeating: "![[", count: 100_000))
    try #require(
      try await own.run(
        ["add", notes, "--create", "--search", #"{"types":["core.note","core.file"]}"#, "--yes"]
      ).status == 0)
    let ran = try await own.run(["--json", "sync", notes])
    #expect(ran.status == 0, "\(ran.errText)")
    #expect(ran.json?["drain"]?["undelivered"] == 0)
    let items = try await own.run(["--json", "server"])
    #expect(items.status == 0)
    // What the server holds are the two texts that can be sent; nothing of the other file is among its bytes.
    let held = Set((ran.json?["scan"]?["flagged"]?.array ?? []).compactMap { $0["path"]?.text?.string })
    #expect(held.isSuperset(of: ["Laughs.md", "Deep.md"]), "\(held)")
    for name in names(of: scratch.at("data")) {
      let bytes = scratch.bytes("data/\(name)") ?? []
      #expect(!String(decoding: bytes, as: UTF8.self).contains("xyzzy"), "\(name)")
    }
    #expect(scratch.text("elsewhere/secret.txt") == "the word is xyzzy\n")
  }

  // MARK: Another user of the machine

  @Test("the local instance's data, its owner key among it, is its owner's alone whatever the umask")
  func instanceFiles() async throws {
    let child = try ChildProcess(
      [
        "bash", "-c", "umask 000; exec \"$0\" instance run --json --data \"$1\"", MarfaFolders.binary,
        scratch.at("data"),
      ],
      environment: program.environment)
    defer { child.signal(SIGKILL) }
    try await child.wait("the instance to be ready") { $0.out.contains(0x0A) || $0.status != nil }
    var status = stat()
    #expect(lstat(scratch.at("data"), &status) == 0 && status.st_mode & 0o077 == 0)
    let files = names(of: scratch.at("data"))
    #expect(files.count > 1)
    for name in files {
      #expect(lstat(scratch.at("data/\(name)"), &status) == 0 && status.st_mode & 0o077 == 0, "\(name)")
    }
  }

  @Test("no process of the program may leave a core file")
  func core() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program)
    let limits = String(decoding: fileBytes("/proc/\(server.child.pid)/limits") ?? [], as: UTF8.self)
    let line = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
    // Neither the limit nor what it could be raised to.
    #expect(line.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"], "\(line)")
  }

  @Test("no credential stands in the arguments or the files of a folder, nor in what any command says")
  func noCredentialLies() async throws {
    let server = try await LocalServer(data: scratch.at("data"), program: program, port: true)
    let own = at(server.url, server.key)
    try scratch.write("Notes/Plan.md", "A plan.\n")
    let secret = String(server.key.dropFirst(12))
    for words in [
      ["add", notes, "--create", "--yes"], ["sync", notes], ["status", notes], ["log", notes], ["doctor"], ["list"],
      ["whoami"], ["server"], ["keys", "current"], ["--json", "whoami"], ["--json", "doctor"],
    ] {
      let ran = try await own.run(words)
      #expect(!ran.outText.contains(secret) && !ran.errText.contains(secret), "\(words)")
    }
    for name in names(of: scratch.at("Notes/.marfa")) {
      let bytes = scratch.bytes("Notes/.marfa/\(name)") ?? []
      #expect(!String(decoding: bytes, as: UTF8.self).contains(secret), "\(name)")
    }
    let registry = scratch.bytes(".local/share/marfa/folders.json") ?? []
    #expect(!registry.isEmpty && !String(decoding: registry, as: UTF8.self).contains(secret))
  }

  // MARK: The network

  @Test("a server whose certificate nobody vouches for is sent nothing; an authority of MARFA_CA_FILE vouches for it")
  func certificates() async throws {
    guard hasTool("openssl") else { return }
    let (key, certificate) = (scratch.at("key.pem"), scratch.at("cert.pem"))
    let made = try await runTool(
      [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
      ], home: scratch.path)
    try #require(made.status == 0, "\(made.errText)")
    let child = try ChildProcess(
      ["openssl", "s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate, "-www"],
      environment: ["PATH": "/usr/bin:/bin", "HOME": scratch.path])
    defer { child.signal(SIGKILL) }
    try await child.wait("the server to listen") { $0.outText.contains("ACCEPT ") || $0.status != nil }
    let port = try #require(
      child.outText.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") }?.split(separator: ":").last)
    let url = "https://127.0.0.1:\(port)"
    let refused = try await at(url, "marfa_k1_secret").run(["--json", "create", "--title", "x"])
    #expect(refused.status == 3 && refused.code == "network", "\(refused.errText)")
    #expect(refused.message.lowercased().contains("certificate"), "\(refused.message)")
    // openssl's own page is no Marfa server's, but it came.
    var trusting = at(url, "marfa_k1_secret")
    trusting.environment["MARFA_CA_FILE"] = certificate
    let reached = try await trusting.run(["--json", "server"])
    #expect(reached.code != "network", "\(reached.errText)")
  }
}

extension [UInt8] {
  /// As text.
  fileprivate var text: String { String(decoding: self, as: UTF8.self) }
}

extension EntityID {
  /// An id of a test's own.
  fileprivate static func fixed(_ number: Int) -> String {
    "018f0000-0000-7000-8000-0000000000\(number < 10 ? "0" : "")\(number)"
  }
}

extension ChildProcess {
  /// Standard output so far as text.
  fileprivate var outText: String { String(decoding: out, as: UTF8.self) }
}

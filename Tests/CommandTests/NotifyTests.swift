import Glibc
import MarfaBase
import Testing
import TestSupport

/// What a watch tells the desktop (N5), against a notification daemon of the test's own.
@Suite("notifications") struct NotifyTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  private func folder(of count: Int) async throws {
    for number in 0..<count { try scratch.write("Notes/\(number).md", "# Note \(number)\n") }
    _ = try await json(["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(["sync", notes])
  }

  private func deleteAll(of count: Int) { for number in 0..<count { unlink(notes + "/\(number).md") } }

  @Test("N-S18 a large removal that waits is one notification with Review and Restore, and Restore restores")
  func removal() async throws {
    try await folder(of: 30)
    let session = try await SessionBus(home: scratch.path, keyring: false)
    let daemon = try NotificationDaemon(address: session.address)
    // The person's terminal, for Review.
    try scratch.write("bin/xdg-terminal-exec", "#!/bin/sh\nprintf '%s\\n' \"$@\" > '\(scratch.at("reviewed"))'\n")
    chmod(scratch.at("bin/xdg-terminal-exec"), 0o755)
    var program = program
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
    program.environment["PATH"] = scratch.at("bin") + ":/usr/local/bin:/usr/bin:/bin"
    let watch = try program.start(["--json", "watch", notes])
    try await watch.shows("\"event\":\"passed\"")
    #expect(daemon.calls.isEmpty)
    deleteAll(of: 30)
    try await eventually("the notification") { daemon.shown.count == 1 }
    let shown = try #require(daemon.shown.first)
    #expect(shown.actions == ["review", "Review", "restore", "Restore"])
    #expect(shown.body.contains("30 files gone here") && shown.body.contains("Notes"), "\(shown.body)")
    #expect(!shown.body.contains(".md"))
    daemon.press("review", of: shown.id)
    try await eventually("the terminal") { scratch.text("reviewed")?.contains("--watch") == true }
    #expect(scratch.text("reviewed")?.contains(notes) == true)
    daemon.press("restore", of: shown.id)
    try await eventually("the files") { scratch.files("Notes").filter { $0.hasSuffix(".md") }.count == 30 }
    try await eventually("the notification to go") { daemon.closed.contains(shown.id) }
    #expect(daemon.calls.filter { $0.replaces == 0 }.count == 1, "\(daemon.calls)")
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    #expect(try await json(["status", notes])["files"]?.array?.allSatisfy { $0["status"] == "in_step" } == true)
    daemon.end()
    try await session.end()
  }

  @Test(
    "a notification put away does not come back unchanged; a daemon without buttons gets none; --no-notify tells none")
  func putAway() async throws {
    try await folder(of: 30)
    let session = try await SessionBus(home: scratch.path, keyring: false)
    let daemon = try NotificationDaemon(address: session.address, actions: false)
    var program = program
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
    deleteAll(of: 30)
    let quiet = try program.start(["--json", "watch", notes, "--no-notify"])
    try await quiet.shows("\"paused\":30")
    quiet.signal(SIGTERM)
    #expect(try await quiet.end().status == 0)
    program.environment["MARFA_NOTIFY"] = "off"
    let off = try program.start(["--json", "watch", notes])
    try await off.shows("\"paused\":30")
    off.signal(SIGTERM)
    #expect(try await off.end().status == 0)
    #expect(daemon.calls.isEmpty)
    program.environment["MARFA_NOTIFY"] = nil
    let watch = try program.start(["--json", "watch", notes])
    try await eventually("the notification") { daemon.shown.count == 1 }
    let shown = try #require(daemon.shown.first)
    #expect(shown.actions == [])
    daemon.dismiss(shown.id)
    // Another pass that says something, and finds the removal as it was.
    try scratch.write("Notes/More.md", "# More\n")
    try await watch.shows("\"created\":1")
    watch.signal(SIGTERM)
    let ran = try await watch.end()
    #expect(ran.status == 0)
    #expect(daemon.calls.count == 1, "\(daemon.calls)")
    daemon.end()
    try await session.end()
  }

  @Test("a daemon that comes later is told what stands; a conflicted edit names its note only where that is asked for")
  func later() async throws {
    try await folder(of: 30)
    let session = try await SessionBus(home: scratch.path, keyring: false)
    var program = program
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
    deleteAll(of: 30)
    let watch = try program.start(["--json", "watch", notes])
    try await watch.shows("\"paused\":30")
    let daemon = try NotificationDaemon(address: session.address)
    try await eventually("the notification") { daemon.shown.count == 1 }
    // Another pass: by its end the watch has heard which notification that is.
    try scratch.write("Notes/More.md", "# More\n")
    try await watch.shows("\"created\":1")
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    // Nobody would answer its buttons any more.
    try await eventually("the notification to go") { daemon.shown.isEmpty }
    daemon.end()
    try await session.end()
  }

  @Test("N5.1 a directory gone for a minute is told once, and taken back when it is there again")
  func directoryGone() async throws {
    try await folder(of: 1)
    let session = try await SessionBus(home: scratch.path, keyring: false)
    let daemon = try NotificationDaemon(address: session.address)
    var program = program
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
    program.environment["MARFA_TEST_TIME"] = "20"
    let watch = try program.start(["--json", "watch", notes])
    try await watch.shows("\"event\":\"passed\"")
    #expect(rename(notes, scratch.at("Away")) == 0)
    try await eventually("the notification") { daemon.shown.contains { $0.summary.contains("gone") } }
    #expect(rename(scratch.at("Away"), notes) == 0)
    try await eventually("the notification to go") { daemon.shown.isEmpty }
    #expect(daemon.calls.count == 1, "\(daemon.calls)")
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    daemon.end()
    try await session.end()
  }

  @Test("N5.1 a refused credential and a first sync that waits are told, each until it no longer stands")
  func refusedAndWaiting() async throws {
    try await folder(of: 1)
    let other = scratch.at("Other")
    try scratch.write("Other/One.md", "# Other\n")
    _ = try await json(["add", other, "--create", "Other", "--search", #"{"types":["core.note"]}"#])
    let session = try await SessionBus(home: scratch.path, keyring: false)
    let daemon = try NotificationDaemon(address: session.address)
    try scratch.write("key", "marfa_key_refused_00000000\n")
    var program = program
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
    program.environment["MARFA_API_KEY"] = nil
    let watch = try program.start(["--json", "watch", "--key-file", scratch.at("key")])
    try await eventually("both") { daemon.shown.count == 2 }
    let refused = try #require(daemon.shown.first { $0.actions == ["sign-in", "Sign in"] }, "\(daemon.shown)")
    let waiting = try #require(daemon.shown.first { $0.actions == ["review", "Review"] }, "\(daemon.shown)")
    #expect(refused.body.contains("Notes") && waiting.body.contains("Other"))
    try scratch.write("key", server.key + "\n")
    watch.signal(SIGHUP)
    try await eventually("the refusal to go") { daemon.closed.contains(refused.id) }
    #expect(daemon.shown.map(\.id) == [waiting.id])
    #expect(try await self.program.run(["confirm", other]).status == 0)
    watch.signal(SIGHUP)
    try await eventually("the first sync to go") { daemon.shown.isEmpty }
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    daemon.end()
    try await session.end()
  }

  @Test("N5.1 P7.4 an edit that went to a conflicted copy is told without the note's name, but where that is asked for")
  func conflict() async throws {
    try await folder(of: 1)
    let id = try #require(
      try await json(["status", notes])["files"]?.array?.first?["item_id"]?.text?.string)
    let session = try await SessionBus(home: scratch.path, keyring: false)
    for (setting, names) in [("", false), ("titles", true)] {
      let daemon = try NotificationDaemon(address: session.address)
      // Both sides change the body while no watch runs.
      let other = ["device", "--db", scratch.at("other.sqlite")]
      _ = try await json(other + ["hydrate", "--types", "core.note", "--tier", "all"])
      let version = try await json(other + ["items", "get", id])["version"]?.int ?? 0
      _ = try await json(
        other + [
          "items", "update", id, "--version", "\(version)", "--properties", ##"{"body":"# Theirs \##(names)"}"##,
        ])
      _ = try await json(other + ["drain"])
      let text = try #require(scratch.text("Notes/0.md"))
      let head = text.firstRange(of: "\n---\n")?.upperBound ?? text.startIndex
      try scratch.write("Notes/0.md", text[..<head] + "# Mine \(names)\n")
      var program = program
      program.environment["DBUS_SESSION_BUS_ADDRESS"] = session.address
      program.environment["MARFA_NOTIFY"] = setting
      let watch = try program.start(["--json", "watch", notes])
      try await eventually("the notification") { daemon.shown.count == 1 }
      let shown = try #require(daemon.shown.first)
      #expect(shown.actions == ["review", "Review", "open", "Open"])
      #expect(shown.body.contains("0.md") == names, "\(shown.body)")
      #expect(!shown.body.contains("Mine") && !shown.body.contains("Theirs"))
      try await watch.wait("the copy's file") { _ in scratch.files("Notes").filter { $0.hasSuffix(".md") }.count == 2 }
      let kept = try await self.program.run(["conflicts", "keep", "mine", notes + "/0.md"])
      #expect(kept.status == 0, "\(kept.errText)")
      try await eventually("the notification to go") { daemon.shown.isEmpty }
      watch.signal(SIGTERM)
      #expect(try await watch.end().status == 0)
      daemon.end()
    }
    try await session.end()
  }

  /// Runs a line of shell on a session's bus.
  private func shell(_ line: String, _ session: SessionBus) async throws {
    let child = try ChildProcess(
      ["sh", "-c", line],
      environment: [
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch.path, "XDG_DATA_HOME": scratch.path + "/keyring",
        "XDG_RUNTIME_DIR": scratch.path, "LC_ALL": "C.UTF-8", "DBUS_SESSION_BUS_ADDRESS": session.address,
      ])
    let ran = try await child.end()
    try #require(ran.status == 0, "\(line): \(ran.outText) \(ran.errText)")
  }

  @Test("P-S25 of a locked keyring no prompt opens, one notification comes, and unlocking starts the sync")
  func lockedKeyring() async throws {
    try await folder(of: 1)
    // A bus that starts no service: one it started would be locked too, and stand in the unlocked one's way.
    let session = try await SessionBus(home: scratch.path, activates: false)
    var quiet = session.program(program)
    quiet.environment["MARFA_API_URL"] = nil
    quiet.environment["MARFA_API_KEY"] = nil
    let kept = try await quiet.run(["keys", "keep", "--url", server.url, "--key", server.key])
    try #require(kept.status == 0, "\(kept.errText)")
    try await shell(
      "dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets "
        + "org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/collection/login", session)
    let daemon = try NotificationDaemon(address: session.address)
    let watch = try quiet.start(["--json", "watch"])
    try await eventually("the notification") { daemon.shown.contains { $0.summary.contains("keyring is locked") } }
    #expect(!String(decoding: watch.out, as: UTF8.self).contains("\"event\":\"passed\""))
    try await shell("printf pw | gnome-keyring-daemon --replace --unlock --components=secrets >/dev/null", session)
    try await watch.shows("\"event\":\"passed\"", within: .seconds(300))
    try await eventually("the notification to go") { daemon.shown.isEmpty }
    #expect(daemon.calls.count == 1, "\(daemon.calls)")
    watch.signal(SIGTERM)
    #expect(try await watch.end().status == 0)
    daemon.end()
    try await session.end()
  }

  @Test("P-S26 a watch's journal holds no body and no key, and with MARFA_LOG_PATHS=off no path")
  func journal() async throws {
    for name in ["Secret plan", "Held", "Away"] {
      try scratch.write("Notes/deep/\(name).md", "# \(name)\n\nbodywords\n")
    }
    _ = try await json(["add", notes, "--create", "Notes", "--search", #"{"types":["core.note"]}"#, "--yes"])
    _ = try await json(["sync", notes])
    let all = [["watch", notes], ["--json", "watch", notes], ["watch"], ["--json", "watch"]]
    for (number, words) in all.enumerated() {
      var hiding = program
      hiding.environment["MARFA_LOG_PATHS"] = "off"
      let watch = try hiding.start(words)
      try await watch.shows("pass")
      // Something new, something held, something that is a secret's name, something gone.
      try scratch.write("Notes/deep/New \(number).md", "# New\n\nbodywords\n")
      try scratch.write("Notes/deep/Held.md", "---\ntags: [a\n---\nbodywords \(number)\n")
      try scratch.write("Notes/deep/.env", "key=bodywords\n")
      try await watch.shows("path-")
      try await watch.wait("the new note") {
        let text = String(decoding: $0.out, as: UTF8.self)
        return text.contains("created 1") || text.contains("\"created\":1")
      }
      watch.signal(SIGTERM)
      let ran = try await watch.end()
      #expect(ran.status == 0)
      let journal = ran.outText + ran.errText
      for word in ["bodywords", server.key, "deep/", "Secret plan", "Held.md", "New", notes, ".env"] {
        #expect(!journal.contains(word), "\(words): \(word): \(journal)")
      }
    }
  }

  @Test("N-S19 without a session bus, and with one that is dead or silent, a watch neither fails nor waits for it")
  func noBus() async throws {
    try await folder(of: 30)
    deleteAll(of: 30)
    // A socket that takes connections and never says a word.
    let silent = try SilentSocket(at: scratch.at("silent"))
    for bus in [nil, "unix:path=\(scratch.at("nowhere"))", "unix:path=\(scratch.at("silent"))", "nonsense"] {
      var program = program
      program.environment["DBUS_SESSION_BUS_ADDRESS"] = bus
      let watch = try program.start(["--json", "watch", notes])
      try await watch.shows("\"paused\":30")
      watch.signal(SIGTERM)
      let ran = try await watch.end()
      #expect(ran.status == 0, "\(bus ?? "none"): \(ran.errText)")
      #expect(ran.err.isEmpty, "\(ran.errText)")
    }
    silent.close()
  }
}

/// A listening socket nobody answers at.
private struct SilentSocket {
  private let descriptor: Int32

  init(at path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { place in
      for (index, byte) in path.utf8.prefix(107).enumerated() { place[index] = byte }
    }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
    }
    guard bound == 0, listen(descriptor, 8) == 0 else { throw ScratchError("no silent socket") }
  }

  func close() { Glibc.close(descriptor) }
}

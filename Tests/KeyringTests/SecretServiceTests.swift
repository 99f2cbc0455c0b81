import CPosix
import Glibc
import MarfaBase
import Testing

@testable import Keyring

/// Which session the inner tests run in; nil in an ordinary run, where each is started in a bus of its own.
private var scene: String? { getenv("MARFA_KEYRING_SCENE").map { String(cString: $0) } }

private func isScene(_ name: String) -> Bool { scene?.utf8.elementsEqual(name.utf8) ?? false }

@discardableResult
private func shell(_ text: String) -> Int32 {
  var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("/bin/sh"), strdup("-c"), strdup(text), nil]
  defer { for each in arguments { free(each) } }
  var pid = pid_t()
  guard posix_spawn(&pid, "/bin/sh", nil, nil, &arguments, environ) == 0 else { return -1 }
  var status: Int32 = 0
  while waitpid(pid, &status, 0) < 0, errno == EINTR {}
  return status
}

/// Runs this very test program again, inner tests only, in a session of its own.
private func inSession(_ scene: String, config: String? = nil, before: String) -> Int32 {
  let home = ScratchHome()
  let program = (try? SystemFileSystem().resolve("/proc/self/exe"))?.description ?? ""
  var bus = "dbus-run-session"
  if let config {
    let file = home.path.appending("bus.conf")
    let descriptor = file.withCString { marfa_openat(AT_FDCWD, $0, O_CREAT | O_WRONLY, 0o600) }
    _ = marfa_write_all(descriptor, config, config.utf8.count)
    close(descriptor)
    bus += " --config-file=\(file)"
  }
  let inner = "\(before) exec timeout 60 '\(program)' --testing-library swift-testing --filter InsideSessionTests"
  return shell(
    """
    export HOME='\(home.path)' XDG_DATA_HOME='\(home.path)/data' XDG_RUNTIME_DIR='\(home.path)' \
    MARFA_KEYRING_SCENE=\(scene); unset DISPLAY WAYLAND_DISPLAY GNOME_KEYRING_CONTROL
    \(bus) -- sh -c "\(inner)" >'\(home.path)/out' 2>&1 && grep -q 'Test run with .* passed' '\(home.path)/out' \
    || { cat '\(home.path)/out'; exit 1; }
    """)
}

private let bareBus = """
  <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
   "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
  <busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/>
  <allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
  """

@Suite(.enabled(if: scene == nil)) struct SecretServiceTests {
  @Test("X22.1 X22.4 S-S4 a real keyring keeps, replaces, finds and forgets; locked it throws and nothing prompts")
  func realService() {
    #expect(
      inSession(
        "open",
        before: "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1;") == 0)
  }

  @Test("X22.4 X-S62 without a Secret Service on the bus every call is unavailable and no file is made")
  func absent() { #expect(inSession("absent", config: bareBus, before: "") == 0) }

  @Test("a service that never answers costs a call its deadline, and is asked again when it does")
  func silent() { #expect(inSession("silent", before: unlocked) == 0) }

  @Test("a keyring the bus denies is told as one that cannot be asked, never as an empty one")
  func denied() {
    let denying = bareBus.replacing(
      "</policy>", with: "<deny send_destination=\"org.freedesktop.secrets\"/></policy>")
    #expect(inSession("denied", config: denying, before: unlocked) == 0)
  }

  @Test("another service that takes the first one's place while the program runs is asked from then on")
  func replaced() { #expect(inSession("replaced", config: bareBus, before: unlocked) == 0) }

  private let unlocked = "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1;"
}

@Suite(.enabled(if: scene != nil), .serialized) struct InsideSessionTests {
  private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  @Test("a real keyring", .enabled(if: isScene("open")))
  func open() throws {
    let service = SecretService()
    #expect(try service.secret(service: "marfa-folders", account: "https://a") == nil)
    #expect(try service.remove(service: "marfa-folders", account: "https://a") == false)
    try service.store(bytes("one"), service: "marfa-folders", account: "https://a", label: "marfa at a")
    try service.store(bytes("two \u{e9}"), service: "marfa-folders", account: "https://a", label: "marfa at a")
    try service.store(bytes("b"), service: "marfa-folders", account: "https://b", label: "marfa at b")
    try service.store(bytes("other"), service: "other.marfa-key", account: "https://a", label: "other")
    #expect(try service.secret(service: "marfa-folders", account: "https://a") == bytes("two \u{e9}"))
    #expect(try service.secret(service: "other.marfa-key", account: "https://a") == bytes("other"))
    #expect(try service.remove(service: "marfa-folders", account: "https://b"))
    #expect(try service.secret(service: "marfa-folders", account: "https://b") == nil)
    let lock =
      "dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets"
      + " org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/collection/login >/dev/null"
    #expect(shell(lock) == 0)
    let locked = KeyStoreError.locked("the keyring is locked")
    #expect(throws: locked) { try service.secret(service: "marfa-folders", account: "https://a") }
    #expect(throws: locked) { try service.remove(service: "marfa-folders", account: "https://a") }
    #expect(throws: locked) {
      try service.store(bytes("x"), service: "marfa-folders", account: "https://c", label: "c")
    }
    // "Not kept" is told apart from "cannot be read", locked or not.
    #expect(try service.secret(service: "marfa-folders", account: "https://b") == nil)
  }

  @Test("no keyring", .enabled(if: isScene("absent")))
  func absent() throws {
    let service = SecretService()
    for _ in 0..<2 {
      do {
        _ = try service.secret(service: "marfa-folders", account: "https://a")
        Issue.record("an answer")
      } catch {
        guard case .unavailable = error else {
          Issue.record("\(error)")
          continue
        }
      }
    }
    let home = getenv("HOME").map { PathBytes(String(cString: $0)) } ?? "/"
    let names = try SystemFileSystem().openDirectory(home).list().map(\.name.description).sorted()
    #expect(names == ["bus.conf", "out"])
  }

  /// The process that keeps the secrets now.
  private func keeper() throws -> pid_t {
    let home = getenv("HOME").map { String(cString: $0) } ?? "/"
    // A service that was just started takes its name a moment later.
    let ask =
      "for i in $(seq 600); do dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / "
      + "org.freedesktop.DBus.GetConnectionUnixProcessID string:org.freedesktop.secrets >'\(home)/pid' 2>/dev/null "
      + "&& exit 0; sleep 0.1; done; exit 1"
    #expect(shell(ask) == 0)
    let file = try SystemFileSystem().openDirectory(PathBytes(home)).open("pid")
    let words = String(decoding: try file.read(limit: 64), as: UTF8.self)
    return try #require(words.split(separator: " ").last.flatMap { pid_t($0.filter(\.isNumber)) })
  }

  @Test("a silent keyring", .enabled(if: isScene("silent")))
  func silent() throws {
    let patient = SecretService()
    try patient.store(bytes("one"), service: "marfa-folders", account: "https://a", label: "marfa at a")
    let keeper = try keeper()
    #expect(kill(keeper, SIGSTOP) == 0)
    let service = SecretService(deadline: 500_000_000)
    do {
      _ = try service.secret(service: "marfa-folders", account: "https://a")
      Issue.record("an answer")
    } catch {
      guard case .unavailable(let words) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(words.contains("did not answer"))
    }
    #expect(kill(keeper, SIGCONT) == 0)
    #expect(try patient.secret(service: "marfa-folders", account: "https://a") == bytes("one"))
  }

  @Test("a denied keyring", .enabled(if: isScene("denied")))
  func denied() {
    let service = SecretService()
    func isRefused(_ call: () throws(KeyStoreError) -> Void) -> Bool {
      do throws(KeyStoreError) { try call() } catch {
        switch error {
        case .unavailable, .failed: return true
        case .locked, .unreadable: return false
        }
      }
      return false
    }
    #expect(isRefused { () throws(KeyStoreError) in _ = try service.secret(service: "marfa-folders", account: "a") })
    #expect(isRefused { () throws(KeyStoreError) in _ = try service.remove(service: "marfa-folders", account: "a") })
    #expect(
      isRefused { () throws(KeyStoreError) in
        try service.store(bytes("x"), service: "marfa-folders", account: "a", label: "a")
      })
  }

  @Test("a replaced keyring", .enabled(if: isScene("replaced")))
  func replaced() throws {
    let service = SecretService()
    try service.store(bytes("one"), service: "marfa-folders", account: "https://a", label: "marfa at a")
    let first = try keeper()
    #expect(kill(first, SIGTERM) == 0)
    // Whoever asks first once it is gone has the bus start one that is locked; the person's own takes its place.
    #expect(
      shell("printf pw | gnome-keyring-daemon --replace --unlock --components=secrets >/dev/null 2>&1") == 0)
    #expect(try keeper() != first)
    #expect(try service.secret(service: "marfa-folders", account: "https://a") == bytes("one"))
    try service.store(bytes("two"), service: "marfa-folders", account: "https://a", label: "marfa at a")
    #expect(try service.secret(service: "marfa-folders", account: "https://a") == bytes("two"))
  }
}

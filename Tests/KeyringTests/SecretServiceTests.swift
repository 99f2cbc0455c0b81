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

  @Test("a service that never answers costs a call its deadline")
  func silent() {
    let silent =
      "import dbus,time;b=dbus.SessionBus();b.request_name('org.freedesktop.secrets');open(__import__('os').environ['HOME']+'/up','w');time.sleep(60)"
    #expect(
      inSession(
        "silent", config: bareBus,
        before:
          "/usr/bin/python3 -c \\\"\(silent)\\\" & for i in \\$(seq 100); do [ -e \\$HOME/up ] && break; sleep 0.05; done;"
      ) == 0)
  }
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
    let began = marfa_boottime()
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
    #expect(marfa_boottime() - began < 5_000_000_000)
    let home = getenv("HOME").map { PathBytes(String(cString: $0)) } ?? "/"
    let names = try SystemFileSystem().openDirectory(home).list().map(\.name.description).sorted()
    #expect(names == ["bus.conf", "out"])
  }

  @Test("a silent keyring", .enabled(if: isScene("silent")))
  func silent() {
    let service = SecretService(deadline: 500_000_000)
    let began = marfa_boottime()
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
    #expect(marfa_boottime() - began < 5_000_000_000)
  }
}

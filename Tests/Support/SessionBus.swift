import Glibc
import MarfaBase

/// A session bus of a test's own with an unlocked keyring on it, gone with the test that made it.
///
///     let session = try await SessionBus(home: scratch.path)
///     let program = session.program(MarfaFolders(home: scratch.path))
package final class SessionBus: Sendable {
  private let child: ChildProcess
  /// The bus's address.
  package let address: String

  /// Starts a bus and, unless told otherwise, the keyring.
  package init(home: String, keyring: Bool = true) async throws {
    let start =
      keyring ? "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; " : ""
    child = try ChildProcess(
      ["dbus-run-session", "--", "sh", "-c", start + "echo \"$DBUS_SESSION_BUS_ADDRESS\"; exec cat >/dev/null"],
      environment: [
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "XDG_DATA_HOME": home + "/keyring",
        "XDG_RUNTIME_DIR": home, "LC_ALL": "C.UTF-8",
      ])
    try await child.wait("the session bus", within: .seconds(60)) { $0.out.contains(0x0A) || $0.status != nil }
    let line = child.out.split(separator: 0x0A).first.map { String(decoding: $0, as: UTF8.self) } ?? ""
    guard line.hasPrefix("unix:") else {
      throw ScratchError("no session bus: \(line) \(String(decoding: child.err, as: UTF8.self))")
    }
    address = line
  }

  /// The program on this bus, its credential store on.
  package func program(_ program: MarfaFolders) -> MarfaFolders {
    var program = program
    program.environment["MARFA_KEYCHAIN"] = nil
    program.environment["DBUS_SESSION_BUS_ADDRESS"] = address
    return program
  }

  /// Ends the bus and waits for it, so that none of its processes outlives the test.
  package func end() async throws {
    child.endInput()
    _ = try await child.end()
  }
}

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

  private static let bare = """
    <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
     "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
    <busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>
    <policy context="default"><allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
    """

  /// Starts a bus and, unless told otherwise, the keyring.
  /// - Parameter activates: whether the bus starts services that are asked for and are not there.
  package init(home: String, keyring: Bool = true, activates: Bool = true) async throws {
    var bus = ["dbus-run-session"]
    if !activates {
      let config = home + "/bus.conf"
      let descriptor = open(config, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      guard descriptor >= 0, write(descriptor, SessionBus.bare, SessionBus.bare.utf8.count) > 0 else {
        throw ScratchError("no bus configuration could be written")
      }
      close(descriptor)
      bus.append("--config-file=\(config)")
    }
    let start =
      keyring ? "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; " : ""
    child = try ChildProcess(
      bus + ["--", "sh", "-c", start + "echo \"$DBUS_SESSION_BUS_ADDRESS\"; exec cat >/dev/null"],
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

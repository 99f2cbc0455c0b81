import Glibc
import MarfaBase

/// A local instance run by the built program, gone with the test that made it.
///
///     let server = try await LocalServer(in: scratch, program: program)
///     let ran = try await program.run(["add", dir, "--folder", id] + server.options)
package final class LocalServer: Sendable {
  /// Its process.
  package let child: ChildProcess
  /// The line it printed.
  package let ready: JSON

  /// Runs an instance on a directory of the test's own. With `port` it listens on loopback and answers at `url`.
  package init(data: String, program: MarfaFolders, port: Bool = false) async throws {
    child = try program.start(
      ["instance", "run", "--json", "--data", data] + (port ? ["--listen", "127.0.0.1:0"] : []))
    try await child.wait("the instance to be ready") { $0.out.contains(0x0A) || $0.status != nil }
    guard let line = child.out.split(separator: 0x0A).first, let ready = try? JSON(parsing: Array(line)) else {
      throw ScratchError("the instance did not start: \(String(decoding: child.err, as: UTF8.self))")
    }
    self.ready = ready
  }

  deinit { child.signal(SIGKILL) }

  /// Its address.
  package var url: String { ready["url"]?.text?.string ?? "" }
  /// Its owner's key.
  package var key: String { ready["owner_key"]?.text?.string ?? "" }
  /// Options that name it.
  package var options: [String] { ["--url", url, "--key", key] }
}

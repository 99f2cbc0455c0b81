import MarfaBase
import Testing
import TestSupport

/// The desktop's settings of proxies, read by GIO's own resolver as a session of the desktop would.
@Suite("the desktop's proxy") struct ProxyTests {
  @Test(
    "P6.2 requests to another machine go through the desktop's proxy, those to this one never, and its environment's goes first"
  )
  func desktop() async throws {
    let scratch = try ScratchDirectory()
    var program = MarfaFolders(home: try scratch.makeDirectory("home"))
    let server = try await LocalServer(data: scratch.at("instance"), program: program, port: true)
    // What answers is a proxy without the server's word.
    let desktop = try ScriptedServer { _ in .json(503, "{}", contract: nil) }
    let environment = try ScriptedServer { _ in .json(503, "{}", contract: nil) }
    defer {
      desktop.stop()
      environment.stop()
    }
    let port = try #require(desktop.url.split(separator: ":").last)
    try scratch.write(
      "config/glib-2.0/settings/keyfile",
      """
      [system/proxy]
      mode='manual'
      ignore-hosts=['kept.test']

      [system/proxy/http]
      host='127.0.0.1'
      port=\(port)

      """)
    program.environment.merge([
      "XDG_CURRENT_DESKTOP": "GNOME", "GSETTINGS_BACKEND": "keyfile", "XDG_CONFIG_HOME": scratch.at("config"),
    ]) { $1 }
    func asked(_ url: String) async throws -> Int32 {
      try await program.run(["whoami", "--url", url, "--key", server.key, "--allow-http"]).status
    }
    #expect(try await asked(server.url) == 0)
    #expect(desktop.requests.isEmpty)
    // A host the desktop leaves out is asked for directly, and has no address.
    #expect(try await asked("http://kept.test") == 3)
    #expect(desktop.requests.isEmpty)
    #expect(try await asked("http://notes.test") == 3)
    #expect(!desktop.requests.isEmpty)
    #expect(desktop.requests.allSatisfy { $0.path.hasPrefix("http://notes.test/") })
    let before = desktop.requests.count
    program.environment["http_proxy"] = environment.url
    #expect(try await asked("http://notes.test") == 3)
    #expect(desktop.requests.count == before && !environment.requests.isEmpty)
  }
}

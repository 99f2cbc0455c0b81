import CPosix
import FoundationEssentials
import Glibc
import MarfaBase
import Synchronization
import Testing

@testable import Keyring

/// A home directory that goes with the test.
final class ScratchHome: Sendable {
  let path: PathBytes
  init() {
    var template = Array("/tmp/marfa-keys-XXXXXX".utf8CString)
    path = template.withUnsafeMutableBufferPointer { PathBytes(String(cString: mkdtemp($0.baseAddress!))) }
  }
  deinit { Self.remove(path) }

  private static func remove(_ path: PathBytes) {
    if let directory = try? SystemFileSystem().openDirectory(path), let entries = try? directory.list() {
      for entry in entries { remove(path.appending(entry.name)) }
    }
    if path.withCString({ unlink($0) }) != 0 { _ = path.withCString { rmdir($0) } }
  }

  var locks: PathBytes { path.appending(".marfa-credential-locks") }
}

private func mode(_ path: PathBytes) -> UInt32? {
  var found = marfa_stat()
  return path.withCString { marfa_statx(AT_FDCWD, $0, &found) } == 0 ? found.mode & 0o777 : nil
}

private let site = "https://marfa.example"

private func token(_ name: String, expires: String = "2099-01-01T00:00:00Z", refresh: String? = "marfa_rt_1")
  -> KeptToken
{
  KeptToken(
    accessToken: name, refreshToken: refresh, expiresAt: expires, clientID: "c", scope: "*:read",
    tokenEndpoint: "https://marfa.example/auth/oauth2/token", revocationEndpoint: nil)
}

@Suite struct KeptCredentialsTests {
  @Test(
    "X22.2 X22.3 entries read back as they were kept, unknown members ignored, and what reads as none is unreadable")
  func entries() throws {
    let secrets = MemorySecrets()
    let home = ScratchHome()
    let kept = KeptCredentials(store: secrets, home: home.path)
    #expect(try kept.entry(for: site) == nil)
    try kept.save(.key("marfa_k1_a"), for: site)
    #expect(try kept.entry(for: site) == .key("marfa_k1_a"))
    #expect(
      try secrets.secret(service: "marfa-folders", account: site).map { String(decoding: $0, as: UTF8.self) }
        == #"{"kind":"key","key":"marfa_k1_a"}"#)
    try kept.save(.token(token("marfa_at_1")), for: site)
    #expect(try kept.entry(for: site) == .token(token("marfa_at_1")))
    let foreign = #"""
      {"kind":"token","new":1,"access_token":"a","refresh_token":null,"expires_at":"2031-02-03T04:05:06.7+02:00",
      "client_id":"c","scope":"s","token_endpoint":"t","revocation_endpoint":"r"}
      """#
    try secrets.store(Array(foreign.utf8), service: "marfa-folders", account: site, label: "")
    #expect(try kept.entry(for: site)?.credential == "a")
    for bad in [
      "", "{}", "[]", "marfa_k1_x", #"{"kind":"key"}"#, #"{"kind":"token","access_token":"a"}"#, #"{"kind":"x"}"#,
    ] {
      try secrets.store(Array(bad.utf8), service: "marfa-folders", account: site, label: "")
      #expect(throws: KeyStoreError.unreadable("what the keyring keeps for \(site) cannot be read")) {
        try kept.entry(for: site)
      }
    }
    // A keep writes over what does not read.
    try kept.save(.key("marfa_k1_b"), for: site)
    #expect(try kept.entry(for: site) == .key("marfa_k1_b"))
    #expect(try kept.forget(site))
    #expect(try kept.forget(site) == false)
    try kept.setCurrent(site)
    #expect(try kept.current() == site)
    try kept.setCurrent(nil)
    #expect(try kept.current() == nil)
    try kept.saveClient("client-1", for: site)
    #expect(try kept.client(for: site) == "client-1")
    #expect(try kept.entry(for: site) == nil)
  }

  @Test("X21.3 X21.4 the lock lies in a private directory under the origin's hash, is never removed and never written")
  func lockPlace() throws {
    let home = ScratchHome()
    let lock = try CredentialLock(origin: site, home: home.path)
    let file = home.locks.appending(PathBytes(ContentHash(of: Array(site.utf8)).hex + ".lock"))
    #expect(mode(home.locks) == 0o700)
    #expect(mode(file) == 0o600)
    lock.release()
    #expect(mode(file) == 0o600)
    #expect(CredentialLock.homeDirectory != nil)
  }

  @Test("X-S60 K-S25 a lock directory or file that is not ours alone is refused, naming it, before anything is read")
  func untrusted() throws {
    let secrets = MemorySecrets()
    let home = ScratchHome()
    let kept = KeptCredentials(store: secrets, home: home.path)
    try kept.save(.key("marfa_k1_a"), for: site)
    let file = home.locks.appending(PathBytes(ContentHash(of: Array(site.utf8)).hex + ".lock"))
    func expectRefused(_ path: PathBytes, _ change: () -> Void, undo: () -> Void) {
      change()
      do {
        try kept.save(.key("marfa_k1_other"), for: site)
        Issue.record("saved over \(path)")
      } catch {
        guard case .lock(let refused) = error else {
          Issue.record("\(error)")
          return
        }
        #expect(refused.path == path)
      }
      var called = false
      _ = try? kept.renewing(site, refused: nil, now: Timestamp(milliseconds: 0)) { _ in
        called = true
        return .left
      }
      #expect(!called)
      undo()
    }
    expectRefused(home.locks, { chmod(home.locks.description, 0o755) }, undo: { chmod(home.locks.description, 0o700) })
    expectRefused(file, { chmod(file.description, 0o640) }, undo: { chmod(file.description, 0o600) })
    let second = home.locks.appending("second")
    expectRefused(file, { link(file.description, second.description) }, undo: { unlink(second.description) })
    let aside = home.locks.appending("aside")
    expectRefused(
      file,
      {
        rename(file.description, aside.description)
        symlink("aside", file.description)
      },
      undo: {
        unlink(file.description)
        rename(aside.description, file.description)
      })
    expectRefused(
      file,
      {
        rename(file.description, aside.description)
        mkfifo(file.description, 0o600)
      },
      undo: {
        unlink(file.description)
        rename(aside.description, file.description)
      })
    let moved = home.path.appending("moved")
    expectRefused(
      home.locks,
      {
        rename(home.locks.description, moved.description)
        symlink("moved", home.locks.description)
      },
      undo: {
        unlink(home.locks.description)
        rename(moved.description, home.locks.description)
      })
    if geteuid() == 0 {
      expectRefused(
        home.locks, { chown(home.locks.description, 65_534, 65_534) }, undo: { chown(home.locks.description, 0, 0) })
      expectRefused(file, { chown(file.description, 65_534, 65_534) }, undo: { chown(file.description, 0, 0) })
    }
    #expect(try kept.entry(for: site) == .key("marfa_k1_a"))
    try kept.save(.key("marfa_k1_b"), for: site)
  }

  @Test("X-S59 of many that refresh one sign-in at once, one spends the refresh token and the others use what it kept")
  func oneRefresh() throws {
    let secrets = MemorySecrets()
    let home = ScratchHome()
    try KeptCredentials(store: secrets, home: home.path).save(.token(token("old")), for: site)
    let spent = Atomic<Int>(0)
    let agreed = Atomic<Int>(0)
    let done = Atomic<Int>(0)
    let path = home.path
    for _ in 0..<8 {
      _ = startTestThread {
        // Each has its own handle of the entries, as another process would.
        let kept = KeptCredentials(store: secrets, home: path)
        let got = try? kept.renewing(site, refused: "old", now: Timestamp(milliseconds: 0)) { old in
          spent.add(1, ordering: .relaxed)
          usleep(20_000)
          return .renewed(token("new", refresh: "marfa_rt_2"))
        }
        if case .use(let entry)? = got, entry.credential == "new" { agreed.add(1, ordering: .relaxed) }
        done.add(1, ordering: .releasing)
      }
    }
    let deadline = marfa_boottime() + 10_000_000_000
    while done.load(ordering: .acquiring) < 8, marfa_boottime() < deadline { usleep(2000) }
    #expect(spent.load(ordering: .relaxed) == 1)
    #expect(agreed.load(ordering: .relaxed) == 8)
  }

  @Test("K16.3 K16.6 K16.7 K16.8 what a renewal comes to")
  func renewals() throws {
    let secrets = MemorySecrets()
    let home = ScratchHome()
    let kept = KeptCredentials(store: secrets, home: home.path)
    let now = Timestamp(milliseconds: 1_000_000)
    func renew(_ refused: String?, _ answer: KeptCredentials.Refresh) throws -> KeptCredentials.Renewal {
      try kept.renewing(site, refused: refused, now: now) { _ in answer }
    }
    guard case .nothing = try renew("x", .left) else { return #expect(Bool(false)) }
    try kept.save(.key("k"), for: site)
    guard case .nothing = try renew("k", .left) else { return #expect(Bool(false)) }
    guard case .use(.key("k")) = try renew("old token", .left) else { return #expect(Bool(false)) }
    // Not refused: renewed only within 60 seconds of its end.
    try kept.save(.token(token("a", expires: "1970-01-01T00:17:41Z")), for: site)
    guard case .use(let same) = try renew(nil, .ended), same.credential == "a" else { return #expect(Bool(false)) }
    try kept.save(.token(token("a", expires: "1970-01-01T00:17:40Z")), for: site)
    guard case .use(let fresh) = try renew(nil, .renewed(token("b"))), fresh.credential == "b" else {
      return #expect(Bool(false))
    }
    #expect(try kept.entry(for: site)?.credential == "b")
    guard case .left = try renew("b", .left) else { return #expect(Bool(false)) }
    #expect(try kept.entry(for: site)?.credential == "b")
    guard
      case .dropped = try kept.renewing(
        site, refused: "b", now: now,
        { _ in
          secrets.failure = .locked("x")
          return .renewed(token("c"))
        })
    else { return #expect(Bool(false)) }
    secrets.failure = nil
    #expect(try kept.entry(for: site)?.credential == "b")
    guard case .ended = try renew("b", .ended) else { return #expect(Bool(false)) }
    #expect(try kept.entry(for: site) == nil)
    try kept.save(.token(token("d", refresh: nil)), for: site)
    guard case .nothing = try renew("d", .left) else { return #expect(Bool(false)) }
  }

  /// Secrets that can be read and forgotten, and kept no more.
  private struct FullSecrets: SecretStore {
    func accounts(service: String) throws(KeyStoreError) -> [String] { [] }

    let secrets: MemorySecrets
    func secret(service: String, account: String) throws(KeyStoreError) -> [UInt8]? {
      try secrets.secret(service: service, account: account)
    }
    func store(_ secret: [UInt8], service: String, account: String, label: String) throws(KeyStoreError) {
      throw .failed("the keyring keeps nothing more")
    }
    func remove(service: String, account: String) throws(KeyStoreError) -> Bool {
      try secrets.remove(service: service, account: account)
    }
  }

  @Test(
    "K-S28 a keyring that refuses the new set: the failure is told, and neither half of a set nor the spent one is kept"
  )
  func refusedSet() throws {
    let secrets = MemorySecrets()
    let home = ScratchHome()
    try KeptCredentials(store: secrets, home: home.path).save(.token(token("old")), for: site)
    let kept = KeptCredentials(store: FullSecrets(secrets: secrets), home: home.path)
    guard
      case .dropped(let error) = try kept.renewing(
        site, refused: "old", now: Timestamp(milliseconds: 0), { _ in .renewed(token("new", refresh: "marfa_rt_2")) })
    else { return #expect(Bool(false)) }
    #expect(error == .failed("the keyring keeps nothing more"))
    #expect(try kept.entry(for: site) == nil)
  }

  @Test("S-S4 a key store without an entry answers nil, a locked one throws")
  func keyStore() throws {
    let secrets = MemorySecrets()
    let store = SecretServiceKeyStore(application: "org.example.App", secrets: secrets)
    let server = try #require(URL(string: "HTTPS://Marfa.Example:443/base/"))
    #expect(try store.key(for: server) == nil)
    try store.save("marfa_k1_a", for: server)
    #expect(try secrets.secret(service: "org.example.App.marfa-key", account: site) != nil)
    #expect(try store.key(for: try #require(URL(string: site))) == "marfa_k1_a")
    secrets.failure = .locked("the keyring is locked")
    #expect(throws: KeyStoreError.locked("the keyring is locked")) { try store.key(for: server) }
    #expect(KeyStoreError.locked("").code() == "no_keychain")
    secrets.failure = nil
    try store.delete(for: server)
    try store.delete(for: server)
    #expect(try store.key(for: server) == nil)
    #expect(try origin(of: try #require(URL(string: "http://[::1]:8600/x"))) == "http://[::1]:8600")
    let memory = MemoryKeyStore()
    try memory.save("k", for: server)
    #expect(try memory.key(for: server) == "k")
  }

  @Test("times are read as RFC 3339 has them")
  func times() {
    #expect(KeptToken.time("1970-01-01T00:00:00Z")?.milliseconds == 0)
    #expect(KeptToken.time("1970-01-01T02:00:00.25+02:00")?.milliseconds == 250)
    #expect(KeptToken.time("2031-02-03T04:05:06.789Z")?.description == "2031-02-03T04:05:06.789Z")
    for bad in ["", "2031-02-03", "2031-13-03T04:05:06Z", "2031-02-03T04:05:06", "2031-02-03T04:05:06Zx"] {
      #expect(KeptToken.time(bad) == nil)
    }
  }
}

/// Runs work on a thread of its own.
func startTestThread(_ work: @escaping @Sendable () -> Void) -> Bool {
  final class Box: Sendable {
    let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) { self.work = work }
  }
  var thread = pthread_t()
  let begun = pthread_create(
    &thread, nil,
    {
      Unmanaged<Box>.fromOpaque($0!).takeRetainedValue().work()
      return nil
    }, Unmanaged.passRetained(Box(work)).toOpaque())
  pthread_detach(thread)
  return begun == 0
}

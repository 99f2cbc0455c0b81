public import FoundationEssentials
import MarfaBase
import Synchronization

/// Where an app keeps its keys, one for each server (S3).
public protocol KeyStore: Sendable {
  /// Keeps a key in place of the one kept for that server.
  func save(_ key: String, for server: URL) throws
  /// The key kept for a server; nil where none is, which alone means that the person must connect again (S3.1).
  /// - Throws: `KeyStoreError` where one is kept and cannot be read, or nobody can tell.
  func key(for server: URL) throws -> String?
  /// Forgets the key kept for a server. Nothing kept is no error.
  func delete(for server: URL) throws
}

/// An app's keys in the Secret Service, apart from those of the command line (S3.2, X22.5).
public struct SecretServiceKeyStore: KeyStore {
  private let service: String
  private let secrets: any SecretStore

  /// The keys of an application, named as its desktop file is: `org.example.Notes`.
  public init(application: String) {
    self.init(application: application, secrets: SecretService(unlocking: .asking))
  }

  init(application: String, secrets: any SecretStore) {
    service = "\(application).marfa-key"
    self.secrets = secrets
  }

  /// Keeps a key.
  public func save(_ key: String, for server: URL) throws {
    let origin = try origin(of: server)
    try secrets.store(Array(key.utf8), service: service, account: origin, label: "Marfa at \(origin)")
  }

  /// The key kept for a server.
  public func key(for server: URL) throws -> String? {
    let origin = try origin(of: server)
    guard let secret = try secrets.secret(service: service, account: origin) else { return nil }
    guard let key = String(validating: secret, as: UTF8.self), !key.isEmpty else {
      throw KeyStoreError.unreadable("what the keyring keeps for \(origin) cannot be read")
    }
    return key
  }

  /// Forgets the key kept for a server.
  public func delete(for server: URL) throws {
    _ = try secrets.remove(service: service, account: try origin(of: server))
  }
}

/// Keys in memory, for tests.
public final class MemoryKeyStore: KeyStore {
  private let keys = Mutex<[Text: String]>([:])

  /// No keys.
  public init() {}

  /// Keeps a key.
  public func save(_ key: String, for server: URL) throws {
    let origin = Text(try origin(of: server))
    keys.withLock { $0[origin] = key }
  }

  /// The key kept for a server.
  public func key(for server: URL) throws -> String? {
    let origin = Text(try origin(of: server))
    return keys.withLock { $0[origin] }
  }

  /// Forgets the key kept for a server.
  public func delete(for server: URL) throws {
    let origin = Text(try origin(of: server))
    keys.withLock { _ = $0.removeValue(forKey: origin) }
  }
}

/// Scheme, host and port of a server's address, in lower case, the scheme's own port left out.
func origin(of server: URL) throws(KeyStoreError) -> String {
  guard let scheme = server.scheme?.lowercased(), let host = server.host()?.lowercased(), !host.isEmpty else {
    throw .failed("\(server.absoluteString) is not a server's address")
  }
  let own = scheme.utf8.elementsEqual("https".utf8) ? 443 : scheme.utf8.elementsEqual("http".utf8) ? 80 : nil
  let name = host.utf8.contains(UInt8(ascii: ":")) && host.utf8.first != UInt8(ascii: "[") ? "[\(host)]" : host
  guard let port = server.port, port != own else { return "\(scheme)://\(name)" }
  return "\(scheme)://\(name):\(port)"
}

import MarfaBase

/// Why the local instance could not be run, reached or copied.
public enum InstanceFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Another process runs an instance on the data directory (N2.3): `reading_handle`, exit 4. Its pid, where it told it.
  case held(pid: Int32?, data: PathBytes)
  /// It did not become ready in time, or ended first (N2.9): `network`, exit 3. The instance's own words.
  case notReady(String)
  /// It answered with a refusal.
  case refused(status: Int, code: String, message: String)
  /// Something asked for cannot be: an address that is not loopback, a backup's target that is not empty.
  case invalid(String)
  /// The database is a newer build's, or none of ours: it is left as it is, exit 78 (IN7.3).
  case foreign(String)
  /// The disk or the database failed: `io`.
  case failed(String)

  /// The sentence for the person.
  public var description: String {
    switch self {
    case .held(let pid, let data):
      "an instance already runs on \(data)" + (pid.map { " (process \($0))" } ?? "") + "; `instance stop` ends it"
    case .notReady(let words), .invalid(let words), .foreign(let words), .failed(let words): words
    case .refused(_, let code, let message): "\(message) (\(code))"
    }
  }
}

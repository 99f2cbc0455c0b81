import MarfaBase

/// The one public error of the product: a code of the closed set (cli C5), words for a person, and what the server said.
///
///     do { try copy.catchUp() } catch { print(error.code.rawValue, error.message) }
public struct MarfaError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The codes of C5.1 and C5.2.
  public enum Code: String, Hashable, Sendable, CaseIterable {
    case usage
    case noStore = "no_store"
    case noServer = "no_server"
    case invalid
    case notHeld = "not_held"
    case notFound = "not_found"
    case validation
    case conflict
    case versionConflict = "version_conflict"
    case tooLarge = "too_large"
    case forbidden
    case unknownType = "unknown_type"
    case contractMismatch = "contract_mismatch"
    case redirect
    case rateLimited = "rate_limited"
    case server
    case network
    case noConnection = "no_connection"
    case unnamedAnswer = "unnamed_answer"
    case decoding
    case streamIncomplete = "stream_incomplete"
    case bytesAbsent = "bytes_absent"
    case io
    case storageFull = "storage_full"
    case watch
    case canceled
    case store
    case noCursor = "no_cursor"
    case hydrationIncomplete = "hydration_incomplete"
    case noCatalog = "no_catalog"
    case readingHandle = "reading_handle"
    case wrongSchema = "wrong_schema"
    case copyExpired = "copy_expired"
    case wrongServer = "wrong_server"
    case firstSyncWaiting = "first_sync_waiting"
    case noKeychain = "no_keychain"
    case instanceChanged = "instance_changed"
    case unsentDiffers = "unsent_differs"
    case keyChanging = "key_changing"
    case closed
    case unauthorized
    case noCredential = "no_credential"
    case signedOut = "signed_out"
  }

  /// What the server said, or what it would have said where the device refuses in its place (D210.1).
  public struct Server: Hashable, Sendable {
    /// The HTTP status, where an answer gave one.
    public var status: Int?
    /// The server's own code.
    public var code: Text?
    /// `details` whole.
    public var details: JSON?

    /// What a server said.
    public init(status: Int? = nil, code: Text? = nil, details: JSON? = nil) {
      self.status = status
      self.code = code
      self.details = details
    }
  }

  /// The code.
  public var code: Code
  /// What happened, to what, and what can be done, in words.
  public var message: String
  /// The server's part, or nil where no server spoke.
  public var server: Server?
  /// The server's wait, in seconds.
  public var retryAfter: Int?
  /// The reason of `copy_expired` (an open string, D201.3), the state of a blocked call.
  public var reason: String?
  /// The answer's whole body where the server refused with members beside `error` (the 409 envelopes, ER5).
  public var body: JSON?

  /// An error of a code.
  public init(
    _ code: Code, _ message: String, server: Server? = nil, retryAfter: Int? = nil, reason: String? = nil,
    body: JSON? = nil
  ) {
    self.code = code
    self.message = message
    self.server = server
    self.retryAfter = retryAfter
    self.reason = reason
    self.body = body
  }

  /// A refusal the device makes as the instance would: `validation` under the instance's code (D210.1).
  public static func validation(
    _ message: String, code: Text = "validation_error", details: JSON? = nil
  ) -> MarfaError {
    MarfaError(.validation, message, server: Server(code: code, details: details))
  }

  /// The end of a copy, with its reason (D201.3).
  public static func expired(_ reason: String, _ message: String) -> MarfaError {
    MarfaError(.copyExpired, message, reason: reason)
  }

  /// The exit status a command leaves by (C4.1).
  public var exit: Int {
    switch code {
    case .usage, .noStore, .noServer: 2
    case .invalid, .notHeld, .notFound, .validation, .conflict, .versionConflict, .tooLarge, .forbidden, .unknownType,
      .contractMismatch, .redirect:
      1
    case .server:
      // 5xx and 408 clear by themselves; any other status no code names is a refusal (C5.1).
      if let status = server?.status, status < 500, status != 408 { 1 } else { 3 }
    case .rateLimited, .network, .noConnection, .unnamedAnswer, .decoding, .streamIncomplete, .bytesAbsent, .io,
      .storageFull, .watch, .canceled:
      3
    case .store, .noCursor, .hydrationIncomplete, .noCatalog, .readingHandle, .wrongSchema, .copyExpired, .wrongServer,
      .firstSyncWaiting, .noKeychain, .instanceChanged, .unsentDiffers, .keyChanging, .closed:
      4
    case .unauthorized, .noCredential, .signedOut: 5
    }
  }

  /// The seconds a rate limit is waited out that names none.
  package static let unnamedWait = 10

  /// Whether it clears by itself and is asked again: no answer, a timeout, 408, 425, 429, 5xx, an unnamed refusal
  /// (D210.3).
  public var isEnvironmental: Bool {
    switch code {
    case .network, .noConnection, .unnamedAnswer, .rateLimited: true
    case .server: exit == 3 || server?.status == 425
    default: false
    }
  }

  /// The refusal as one JSON object (C4.3).
  public var json: JSON {
    var server: JSON = .null
    if let said = self.server {
      server = [
        "status": said.status.map { .int($0) } ?? .null, "code": .optional(said.code), "details": said.details ?? .null,
      ]
    }
    return [
      "error": [
        "code": .string(code.rawValue), "message": .string(message), "server": server,
        "retry_after_seconds": retryAfter.map { .int($0) } ?? .null,
      ],
      "exit": .int(exit),
    ]
  }

  /// The code and the message.
  public var description: String { "\(code.rawValue): \(message)" }
}

extension MarfaError {
  /// A failed call of SQLite: a full disk stands apart from every other failure (D210.4).
  package init(_ error: SQLiteError) {
    if error.isFull {
      self.init(.storageFull, "the disk is full: the store could not be written")
    } else {
      self.init(.store, "the store failed: \(error.description)")
    }
  }

  /// A failed call of the file system.
  package init(_ error: FileError) {
    self.init(error.isStorageFull ? .storageFull : .io, error.description)
  }

  /// Whatever a closure threw: our own error as it is, SQLite's and the file system's in their class.
  package init(any error: any Error) {
    switch error {
    case let error as MarfaError: self = error
    case let error as SQLiteError: self.init(error)
    case let error as FileError: self.init(error)
    case let error as JSONError: self.init(.store, "the store holds text that is no JSON: \(error.description)")
    default: self.init(.store, "\(error)")
    }
  }
}

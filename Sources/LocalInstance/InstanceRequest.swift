import MarfaBase

/// A request as the HTTP shell or the simulation hands it in.
public struct InstanceRequest: Sendable {
  /// The method, upper case.
  public var method: String
  /// Path and query as written on the request line, still percent-encoded: `/items?limit=2`.
  public var target: String
  /// The header lines, in order.
  public var headers: [HTTPHeader]
  /// The body; empty for none.
  public var body: [UInt8]

  /// A request.
  public init(method: String, target: String, headers: [HTTPHeader] = [], body: [UInt8] = []) {
    self.method = method
    self.target = target
    self.headers = headers
    self.body = body
  }
}

/// What the instance answers.
public enum InstanceAnswer {
  /// A whole answer.
  case whole(HTTPResponse)
  /// An answer whose body comes piece by piece: an event stream.
  case stream(head: HTTPResponse, source: any EventSource)
}

/// The body of an open event stream. The shell asks it for bytes after `Instance.onEvents` and after `tick()`.
public protocol EventSource: AnyObject {
  /// Bytes ready to send now, empty where there are none yet; nil when the stream is over.
  func take() -> [UInt8]?
  /// How many bytes the reader has not taken off the wire yet, told by the shell (EV16.3). Default: not told.
  var unread: Int { get set }
  /// Whether bytes are to be taken as events come, although earlier ones wait unread (EV16.3). False while catching up:
  /// then only a reader that took everything is given more (EV16.4).
  var isPushed: Bool { get }
  /// Ends it: the reader went away.
  func close()
}

extension EventSource {
  /// Live, unless told otherwise.
  public var isPushed: Bool { true }
}

/// Where the bytes of blobs lie: a directory, or memory.
public protocol InstanceBlobs: AnyObject {
  /// Keeps bytes under their hash, whole or not at all, durable when it returns (B2.8, B2.9).
  func keep(_ bytes: [UInt8], as hash: ContentHash) throws
  /// The size of a blob, or nil where there is none.
  func size(of hash: ContentHash) -> Int?
  /// Some bytes of a blob, or nil where there is none.
  func read(_ hash: ContentHash, from start: Int, count: Int) throws -> [UInt8]?
  /// Removes a blob.
  func remove(_ hash: ContentHash)
  /// Bytes free where they are kept, or nil where there is no bound (B2.5).
  var available: Int? { get }
  /// Whether blobs can be kept and read now (IN5.1).
  var isReachable: Bool { get }
  /// Begins a blob whose bytes come in pieces.
  func begin() throws -> any ArrivingBlob
}

/// A blob on its way in: hashed while it is written, so that none is ever held whole (B2.8).
public protocol ArrivingBlob: AnyObject {
  /// How many bytes have come.
  var count: Int { get }
  /// Takes the next bytes.
  func append(_ bytes: UnsafeRawBufferPointer) throws
  /// Keeps it under its hash, whole and durable. Asked again, it answers the same.
  func finish() throws -> ContentHash
  /// Leaves nothing of it behind, unless it was finished.
  func discard()
}

extension InstanceBlobs {
  /// In memory always.
  public var isReachable: Bool { true }
  /// Collected in memory, unless told otherwise.
  public func begin() throws -> any ArrivingBlob { CollectedBlob(self) }
}

/// Collects a blob's bytes in memory.
private final class CollectedBlob: ArrivingBlob {
  private let blobs: any InstanceBlobs
  private var bytes: [UInt8] = []
  init(_ blobs: any InstanceBlobs) { self.blobs = blobs }
  var count: Int { bytes.count }
  func append(_ more: UnsafeRawBufferPointer) { bytes += more }
  func finish() throws -> ContentHash {
    let hash = ContentHash(of: bytes)
    if blobs.size(of: hash) == nil { try blobs.keep(bytes, as: hash) }
    return hash
  }
  func discard() { bytes = [] }
}

/// Blobs in memory, for tests and the simulation.
public final class MemoryBlobs: InstanceBlobs {
  private var blobs: [ContentHash: [UInt8]] = [:]
  /// Bytes free, settable by tests.
  public var available: Int?

  /// No blobs.
  public init() {}

  /// Keeps bytes.
  public func keep(_ bytes: [UInt8], as hash: ContentHash) { blobs[hash] = bytes }
  /// The size of a blob.
  public func size(of hash: ContentHash) -> Int? { blobs[hash]?.count }
  /// Some bytes of a blob.
  public func read(_ hash: ContentHash, from start: Int, count: Int) -> [UInt8]? {
    blobs[hash].map { Array($0.dropFirst(start).prefix(count)) }
  }
  /// Removes a blob.
  public func remove(_ hash: ContentHash) { blobs[hash] = nil }
}

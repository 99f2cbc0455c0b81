import MarfaBase

/// What the HTTP shell serves: an instance, or a test's stand-in. Used from the server's one thread.
protocol ServedEngine: AnyObject {
  /// Answers one request.
  func handle(_ request: InstanceRequest) -> InstanceAnswer
  /// Runs `work`, whose writes share one durable commit.
  func batch(_ work: () throws -> Void) throws
  /// Runs `work`, which waits for no lock of another process.
  func withoutWaiting(_ work: () -> Void)
  /// Does what is due.
  func tick()
  /// Ends every stream with `server_stopping`.
  func stop()
  /// Called after a commit that announced something.
  var onEvents: (() -> Void)? { get set }
  /// Asked at an upload's head, before its body is read (B2.6).
  func beginUpload(_ request: InstanceRequest) -> UploadStart
  /// A refusal of an upload under way that the disk has no room for (B2.5).
  func refusal(ofUpload incoming: any ArrivingBlob) -> HTTPResponse?
  /// Answers an upload whose bytes have all come.
  func handle(_ request: InstanceRequest, upload incoming: any ArrivingBlob) -> InstanceAnswer
}

/// What becomes of an upload's body.
enum UploadStart {
  /// It is collected as any request's is.
  case collected
  /// It is written as it comes.
  case incoming(any ArrivingBlob)
  /// It is not read.
  case refused(HTTPResponse)
}

extension ServedEngine {
  func withoutWaiting(_ work: () -> Void) { work() }
  func beginUpload(_ request: InstanceRequest) -> UploadStart { .collected }
  func refusal(ofUpload incoming: any ArrivingBlob) -> HTTPResponse? { nil }
  func handle(_ request: InstanceRequest, upload incoming: any ArrivingBlob) -> InstanceAnswer { handle(request) }
}

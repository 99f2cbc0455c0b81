import MarfaBase

/// What the HTTP shell serves: an instance, or a test's stand-in. Used from the server's one thread.
protocol ServedEngine: AnyObject {
  /// Answers one request.
  func handle(_ request: InstanceRequest) -> InstanceAnswer
  /// Runs `work`, whose writes share one durable commit.
  func batch(_ work: () throws -> Void) throws
  /// Does what is due.
  func tick()
  /// Ends every stream with `server_stopping`.
  func stop()
  /// Called after a commit that announced something.
  var onEvents: (() -> Void)? { get set }
}

import MarfaBase

/// Kills a machine's process at one of its calls: of the disk, the network, or a commit of its store. What it did before
/// stays, nothing after it does, though the code still unwinds.
///
/// `@unchecked`: the whole simulation runs on one thread; nothing here is shared with another.
final class KillSwitch: @unchecked Sendable {
  private var remaining: Int?
  private(set) var isDead = false
  /// Syncs left out.
  var sabotage = Sabotage.none
  private(set) var place = ""

  /// Arms it: the process dies at the call of that number, of all or of requests: before one goes out, or once the server
  /// took it and nobody heard.
  func arm(at call: Int, amongRequests: Bool = false) {
    remaining = call
    isDead = false
    countsRequests = amongRequests
  }
  private var countsRequests = false

  /// It dies between two calls.
  func die() { isDead = true }

  /// A new process: not armed.
  func reset() {
    remaining = nil
    isDead = false
  }

  /// A call is about to be made. Whether it must not be.
  func reached(_ place: @autoclosure () -> String) -> Bool {
    if isDead { return true }
    guard let left = remaining else { return false }
    if countsRequests, !place().hasSuffix("request") { return false }
    if left == 0 {
      isDead = true
      self.place = place()
      return true
    }
    remaining = left - 1
    return false
  }

  /// Among which calls a moment is counted.
  enum Moments { case disk, renames, requests }

  /// What somebody else does at a call, and how many calls it is away.
  private var interruption: (calls: Int, among: Moments, act: (PathBytes) -> Void)?

  /// Somebody acts at the call of that number: told what the call is for.
  func interrupt(at calls: Int, among: Moments, _ act: @escaping (PathBytes) -> Void) {
    interruption = (calls, among, act)
  }

  /// Nobody acts any more. Whether somebody still was to.
  func isUninterrupted() -> Bool {
    defer { interruption = nil }
    return interruption != nil
  }

  private func count(_ call: FileCall) {
    switch interruption?.among {
    case .disk: countDown(call.name)
    case .renames where call.operation == .rename: countDown(call.name)
    case .renames, .requests, nil: return
    }
  }

  /// A request is about to go out.
  func countRequest() {
    if interruption?.among == .requests { countDown(.empty) }
  }

  private func countDown(_ name: PathBytes) {
    guard let interruption, !isDead else { return }
    if interruption.calls == 0 {
      self.interruption = nil
      interruption.act(name)
    } else {
      self.interruption?.calls -= 1
    }
  }

  /// Decides over the calls of the disk.
  var faults: Faults {
    Faults { [self] call in
      count(call)
      return switch call.operation {
      case .write, .sync, .syncDirectory, .rename, .link, .unlink, .create, .makeDirectory, .setMode, .removeDirectory:
        if reached("\(call.operation.rawValue) \(call.name)") {
          .crash
        } else if call.operation == .sync && sabotage.breaks(.fileSyncSkipped)
          || call.operation == .syncDirectory && sabotage.breaks(.directorySyncSkipped)
        {
          .skip
        } else {
          .proceed
        }
      default: isDead ? .crash : .proceed
      }
    }
  }
}

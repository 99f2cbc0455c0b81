import MarfaBase

/// Kills a machine's process at one of its calls: of the disk, the network, or a commit of its store. What it did before
/// stays, nothing after it does, though the code still unwinds.
///
/// `@unchecked`: the whole simulation runs on one thread; nothing here is shared with another.
final class KillSwitch: @unchecked Sendable {
  private var remaining: Int?
  private(set) var isDead = false
  private(set) var place = ""

  /// Arms it: the process dies at the call of that number.
  func arm(at call: Int) {
    remaining = call
    isDead = false
  }

  /// A new process: not armed.
  func reset() {
    remaining = nil
    isDead = false
  }

  /// A call is about to be made. Whether it must not be.
  func reached(_ place: @autoclosure () -> String) -> Bool {
    if isDead { return true }
    guard let left = remaining else { return false }
    if left == 0 {
      isDead = true
      self.place = place()
      return true
    }
    remaining = left - 1
    return false
  }

  /// Decides over the calls of the disk.
  var faults: Faults {
    Faults { [self] call in
      switch call.operation {
      case .write, .sync, .syncDirectory, .rename, .link, .unlink, .create, .makeDirectory, .setMode, .removeDirectory:
        reached("\(call.operation.rawValue) \(call.name)") ? .crash : .proceed
      default: isDead ? .crash : .proceed
      }
    }
  }
}

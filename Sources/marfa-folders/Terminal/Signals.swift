import CPosix
import Glibc
import MarfaBase
import Synchronization

/// What SIGHUP asks for. Until a command takes it, it ends the program as ever.
final class Hangup: Sendable {
  private let taken = Mutex<(@Sendable () -> Void)?>(nil)

  /// Nothing takes it.
  init() {}

  /// Calls `body` at each SIGHUP from now on.
  func take(_ body: @escaping @Sendable () -> Void) { taken.withLock { $0 = body } }

  /// Called on the signals' thread.
  fileprivate func came() {
    guard let body = taken.withLock({ $0 }) else {
      var hangup = sigset_t()
      sigemptyset(&hangup)
      sigaddset(&hangup, SIGHUP)
      signal(SIGHUP, SIG_DFL)
      kill(getpid(), SIGHUP)
      pthread_sigmask(SIG_UNBLOCK, &hangup, nil)
      return
    }
    body()
  }
}

/// A descriptor that `poll` wakes on; -1 where none is to be had.
func eventDescriptor() -> Int32 { eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK)) }

/// Turns SIGINT and SIGTERM into the stop flag (C4.6): the first asks for a stop at the next safe point, a second SIGINT
/// ends the program at once with 130. SIGPIPE is ignored, so that a closed pipe is an answer of `write`.
///
/// The signals are blocked in every thread and taken by one that waits for them, so no code of ours runs in a handler.
/// A program started from here must unblock them again (`posix_spawnattr_setsigmask`).
func watchSignals(_ stop: StopFlag, _ hangup: Hangup) {
  signal(SIGPIPE, SIG_IGN)
  var taken = takenSignals()
  pthread_sigmask(SIG_BLOCK, &taken, nil)
  var thread = pthread_t()
  let flag = Unmanaged.passRetained(SignalTargets(stop: stop, hangup: hangup))
  let started = pthread_create(
    &thread, nil,
    { argument in
      guard let argument else { return nil }
      waitForSignals(Unmanaged<SignalTargets>.fromOpaque(argument).takeRetainedValue())
      return nil
    }, flag.toOpaque())
  if started == 0 { pthread_detach(thread) } else { flag.release() }
}

private final class SignalTargets: Sendable {
  let stop: StopFlag
  let hangup: Hangup
  init(stop: StopFlag, hangup: Hangup) {
    self.stop = stop
    self.hangup = hangup
  }
}

/// SIGINT, SIGTERM, and SIGHUP unless whoever started the program (`nohup`) has it ignored.
private func takenSignals() -> sigset_t {
  var taken = sigset_t()
  sigemptyset(&taken)
  sigaddset(&taken, SIGINT)
  sigaddset(&taken, SIGTERM)
  var before = sigaction()
  if sigaction(SIGHUP, nil, &before) == 0, unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self) != 1 {
    sigaddset(&taken, SIGHUP)
  }
  return taken
}

private func waitForSignals(_ targets: SignalTargets) {
  let stop = targets.stop
  var taken = takenSignals()
  var interrupts = 0
  while true {
    var received: Int32 = 0
    guard sigwait(&taken, &received) == 0 else { continue }
    if received == SIGHUP {
      targets.hangup.came()
      continue
    }
    if received == SIGINT { interrupts += 1 }
    if interrupts > 1 { _exit(130) }
    stop.set(.stopped)
  }
}

import CPosix
import Glibc
import MarfaBase

/// A descriptor that `poll` wakes on; -1 where none is to be had.
func eventDescriptor() -> Int32 { eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK)) }

/// Turns SIGINT and SIGTERM into the stop flag (C4.6): the first asks for a stop at the next safe point, a second SIGINT
/// ends the program at once with 130. SIGPIPE is ignored, so that a closed pipe is an answer of `write`.
///
/// The signals are blocked in every thread and taken by one that waits for them, so no code of ours runs in a handler.
/// A program started from here must unblock them again (`posix_spawnattr_setsigmask`).
func watchSignals(_ stop: StopFlag) {
  signal(SIGPIPE, SIG_IGN)
  var taken = sigset_t()
  sigemptyset(&taken)
  sigaddset(&taken, SIGINT)
  sigaddset(&taken, SIGTERM)
  pthread_sigmask(SIG_BLOCK, &taken, nil)
  var thread = pthread_t()
  let flag = Unmanaged.passRetained(stop)
  let started = pthread_create(
    &thread, nil,
    { argument in
      guard let argument else { return nil }
      waitForSignals(Unmanaged<StopFlag>.fromOpaque(argument).takeRetainedValue())
      return nil
    }, flag.toOpaque())
  if started == 0 { pthread_detach(thread) } else { flag.release() }
}

private func waitForSignals(_ stop: StopFlag) {
  var taken = sigset_t()
  sigemptyset(&taken)
  sigaddset(&taken, SIGINT)
  sigaddset(&taken, SIGTERM)
  var interrupts = 0
  while true {
    var received: Int32 = 0
    guard sigwait(&taken, &received) == 0 else { continue }
    if received == SIGINT { interrupts += 1 }
    if interrupts > 1 { _exit(130) }
    stop.set(.stopped)
  }
}

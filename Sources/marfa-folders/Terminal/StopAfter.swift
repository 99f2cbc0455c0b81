import Glibc
import MarfaBase

/// Sets the stop flag after so many seconds, from a thread of its own (`--for`).
func stopAfter(_ seconds: Int, _ stop: StopFlag, _ context: Context) {
  final class Timer: Sendable {
    let seconds: Int
    let stop: StopFlag
    let scheduler: any Scheduler
    init(_ seconds: Int, _ stop: StopFlag, _ scheduler: any Scheduler) {
      self.seconds = seconds
      self.stop = stop
      self.scheduler = scheduler
    }
  }
  var thread = pthread_t()
  let timer = Unmanaged.passRetained(Timer(seconds, stop, context.scheduler))
  let started = pthread_create(
    &thread, nil,
    { argument in
      guard let argument else { return nil }
      let timer = Unmanaged<Timer>.fromOpaque(argument).takeRetainedValue()
      if timer.scheduler.wait(nanoseconds: UInt64(timer.seconds) * 1_000_000_000, unless: timer.stop) {
        timer.stop.set(.stopped)
      }
      return nil
    }, timer.toOpaque())
  if started == 0 { pthread_detach(thread) } else { timer.release() }
}

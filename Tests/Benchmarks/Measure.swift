import Glibc
import TestSupport

/// Times work of this process's own thread.
func timed(_ work: () throws -> Void) rethrows -> Cost {
  let (wall, processor) = (clockSeconds(CLOCK_MONOTONIC), clockSeconds(CLOCK_PROCESS_CPUTIME_ID))
  try work()
  return Cost(
    wall: clockSeconds(CLOCK_MONOTONIC) - wall, processor: clockSeconds(CLOCK_PROCESS_CPUTIME_ID) - processor)
}

/// The median of several runs of work of this thread.
func timed(_ runs: Int, _ work: () throws -> Void) rethrows -> Cost {
  var costs: [Cost] = []
  for _ in 0..<runs { costs.append(try timed(work)) }
  return Cost.median(costs)
}

private func clockSeconds(_ clock: clockid_t) -> Double {
  var time = timespec()
  clock_gettime(clock, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// Other programs, run to their end and measured.
enum Command {
  /// Whether a program is installed.
  static func isInstalled(_ name: String) -> Bool {
    for directory in (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":")
    where access("\(directory)/\(name)", X_OK) == 0 { return true }
    return false
  }

  /// Runs a program, its output dropped or kept in a file.
  static func run(_ words: [String], environment: [String: String]? = nil, output: String = "/dev/null") throws -> Cost
  {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    var argv: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var envp: [UnsafeMutablePointer<CChar>?] = (environment ?? [:]).map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for pointer in argv + envp { free(pointer) } }
    var pid: pid_t = 0
    var usage = rusage()
    var status: Int32 = 0
    let start = clockSeconds(CLOCK_MONOTONIC)
    let failure =
      environment == nil
      ? posix_spawnp(&pid, words[0], &actions, nil, &argv, environ)
      : posix_spawnp(&pid, words[0], &actions, nil, &argv, &envp)
    guard failure == 0 else { throw ScratchError("\(words[0]): \(String(cString: strerror(failure)))") }
    while wait4(pid, &status, 0, &usage) < 0, errno == EINTR {}
    let wall = clockSeconds(CLOCK_MONOTONIC) - start
    guard status == 0 else { throw ScratchError("\(words.joined(separator: " ")) ended by \(status >> 8)") }
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return Cost(
      wall: wall, processor: seconds(usage.ru_utime) + seconds(usage.ru_stime), memory: Int(usage.ru_maxrss) << 10)
  }

  /// The medians of two commands run by turns, so that a busy machine meets both alike.
  static func compare(
    _ runs: Int, _ ours: () throws -> Cost, _ peer: () throws -> Cost
  ) throws -> (ours: Cost, peer: Cost) {
    var (mine, others): ([Cost], [Cost]) = ([], [])
    for _ in 0..<runs {
      mine.append(try ours())
      others.append(try peer())
    }
    return (Cost.median(mine), Cost.median(others))
  }
}

/// A process beside this one, read through /proc.
struct RunningProcess {
  let pid: pid_t

  /// Processor seconds it has used.
  var processor: Double {
    let words = text("stat").drop { $0 != ")" }.split(separator: " ")
    guard words.count > 13, let user = Double(words[12]), let system = Double(words[13]) else { return .nan }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Bytes it holds in memory.
  var memory: Int {
    let line = text("status").split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
    return (line?.split(separator: " ").dropLast().last.flatMap { Int($0) } ?? 0) << 10
  }

  private func text(_ name: String) -> String {
    String(decoding: fileBytes("/proc/\(pid)/\(name)") ?? [], as: UTF8.self)
  }
}

import Glibc
import MarfaBase
import MarfaCopy

/// What a notification's buttons do: what their commands do, as processes of their own, so that they ask for the folder as
/// anyone does (N5.2).
struct DesktopActions: Sendable {
  private let program: Program

  /// The buttons of this program's notifications.
  init(_ program: Program) { self.program = program }

  /// Does what a button says. Returns at once.
  func run(_ action: Notice.Action, _ key: NoticeKey) {
    let words = words(action, key)
    guard !words.isEmpty else { return }
    let program = program
    _ = startThread {
      guard start(words, program) == 127 else { return }
      program.output.note("\(words[0].description) could not be started for the notification")
    }
  }

  private func words(_ action: Notice.Action, _ key: NoticeKey) -> [PathBytes] {
    let own = program.executable
    switch action {
    case .restore: return [own, "restore", "--", key.dir]
    case .open: return ["xdg-open", key.dir]
    case .review:
      switch key.kind {
      case .conflict: return inTerminal([own, "conflicts", "--", key.dir]) ?? ["xdg-open", key.dir]
      case .removal, .credential, .keyring, .gone, .firstSync:
        return inTerminal([own, "status", "--watch", "--", key.dir]) ?? ["xdg-open", key.dir]
      }
    case .signIn: return inTerminal([own, "login"]) ?? []
    }
  }

  /// The command in a terminal of the desktop's; nil where none is found.
  private func inTerminal(_ words: [PathBytes]) -> [PathBytes]? {
    let terminals: [[PathBytes]] = [
      ["xdg-terminal-exec"], ["x-terminal-emulator", "-e"], ["gnome-terminal", "--"], ["konsole", "-e"],
      ["xfce4-terminal", "-x"], ["foot"], ["kitty"], ["alacritty", "-e"], ["xterm", "-e"],
    ]
    let directories = (program.environment["PATH"] ?? "").bytes.split(separator: UInt8(ascii: ":"))
    for terminal in terminals {
      let isThere = directories.contains { directory in
        PathBytes(bytes: Array(directory)).appending(terminal[0]).withCString { access($0, X_OK) == 0 }
      }
      if isThere { return terminal + words }
    }
    return nil
  }
}

/// Starts a program of the desktop's and waits for its end on the calling thread: as a transient unit of the user manager
/// where this process is one of its units, so that it neither inherits the unit's limits nor ends with it (N4.3).
private func start(_ words: [PathBytes], _ program: Program) -> Int32 {
  guard program.isUnit else { return runTool(words, quiet: true) }
  var unit: [PathBytes] = ["systemd-run", "--user", "--collect", "--quiet", "--wait"]
  for name in program.environment.keys where name.bytes.starts(with: "MARFA_".utf8) {
    // The value goes over the bus; a command line could be read by others.
    unit.append(PathBytes(bytes: Array("--setenv=".utf8) + name.bytes))
  }
  let status = runTool(unit + ["--"] + words, quiet: true)
  return status == 127 ? runTool(words, quiet: true) : status
}

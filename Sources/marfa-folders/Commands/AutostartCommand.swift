import MarfaBase
import MarfaCopy

/// `autostart` (N4).
func autostartCommand() -> Command {
  Command(
    name: "autostart", summary: "start the watch of every folder at sign-in",
    commands: [
      Command(
        name: "enable", summary: "start 'watch' at sign-in from now on",
        discussion:
          "As a unit of the systemd user manager where one answers, else as an entry of the desktop's autostart.",
        options: [
          Option("systemd", "As a user unit."), Option("xdg", "As an entry of the desktop's autostart."),
          Option("force", "Write over a file of that name somebody else wrote."),
        ], run: enable),
      Command(name: "disable", summary: "start it no more, and stop the one the unit runs", run: disable),
      Command(name: "status", summary: "whether it is started at sign-in, and by what", run: status),
    ])
}

@Sendable private func enable(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  guard !(invocation.has("systemd") && invocation.has("xdg")) else {
    throw MarfaError(.usage, "--systemd and --xdg exclude each other")
  }
  let autostart = try Autostart(invocation.program)
  let kind: Autostart.Kind =
    if invocation.has("systemd") { .systemd } else if invocation.has("xdg") { .xdg } else {
      autostart.managerAnswers ? .systemd : .xdg
    }
  let file = try autostart.enable(kind, force: invocation.has("force"))
  let how = kind == .systemd ? "the systemd user manager" : "the desktop's autostart"
  let said = try autostart.status()
  invocation.program.output.answer(
    said, ["\(how) runs 'marfa-folders watch' at sign-in: \(file)"])
  return 0
}

@Sendable private func disable(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let autostart = try Autostart(invocation.program)
  let gone = try autostart.disable()
  let said = try autostart.status()
  invocation.program.output.answer(
    said, gone.isEmpty ? ["nothing was started at sign-in"] : gone.map { "removed \($0)" })
  return 0
}

@Sendable private func status(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let said = try Autostart(invocation.program).status()
  let files = (said["files"]?.array ?? []).compactMap { $0.text?.string }
  let running = said["running"]?.bool ?? false
  invocation.program.output.answer(
    said, ["started at sign-in: \(said["enabled"]?.text ?? "none")\(running ? ", running now" : "")"] + files)
  return 0
}

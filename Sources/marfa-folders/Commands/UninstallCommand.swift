import FolderSync
import Glibc
import LocalInstance
import MarfaBase
import MarfaCopy

/// `uninstall` (P4.3).
func uninstallCommand() -> Command {
  Command(
    name: "uninstall", summary: "take away what this program set up on this computer; your files stay",
    discussion: """
      Stops the watch that starts at sign-in and takes its files away, forgets every kept credential, and stops this \
      computer's instance. The program itself is the package manager's to remove.

      Refused while writes of a folder wait to be sent, so that nothing you wrote is lost. The instance's data, which \
      no other place has, goes only with --backup, into the directory it names, or with --purge.
      """,
    options: [
      Option("purge", "Take away every folder's .marfa/ too, the list of folders, and the instance's data."),
      Option("backup", .text("DIR"), "First copy the instance's data there; then it is taken away here."),
    ], run: uninstall)
}

/// What was taken away.
private struct Uninstalled {
  var files: [PathBytes] = []
  var origins: [String] = []
  var keyring: String?
  var instanceStopped = false
  var instanceRemoved = false
  var instanceKept: PathBytes?
  var backup: PathBytes?
  var folders: [PathBytes] = []

  var json: JSON {
    [
      "files": .array(files.map { .string($0.text) }), "forgotten": .array(origins.map { .string(Text($0)) }),
      "keyring": keyring.map { .string(Text($0)) } ?? .null,
      "instance": [
        "stopped": .bool(instanceStopped), "removed": .bool(instanceRemoved), "backup": .optional(backup?.text),
      ], "folders": .array(folders.map { .string($0.text) }),
    ]
  }

  var lines: [String] {
    var lines = files.map { "removed \($0)" } + origins.map { "forgot the credential for \($0)" }
    if let keyring { lines.append("kept credentials could not be looked for: \(keyring)") }
    if instanceStopped { lines.append("stopped this computer's instance") }
    if let backup { lines.append("copied its data to \(backup)") }
    if instanceRemoved { lines.append("removed its data") }
    if let instanceKept {
      lines.append(
        "its data stays at \(instanceKept); `uninstall --purge` takes it away, `uninstall --backup DIR` after a copy")
    }
    lines += folders.map { "\($0) is no folder any more; its files stay" }
    return lines.isEmpty ? ["nothing was set up on this computer"] : lines
  }
}

@Sendable private func uninstall(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let program = invocation.program
  let session = Session(invocation)
  let work = FolderWork.offline(session)
  let folders = try work.list().map(\.dir)
  // Everything that may refuse is asked before anything goes.
  var waiting: [String] = []
  for dir in folders {
    let count = try work.unsent(dir)
    if count > 0 { waiting.append("\(dir) (\(counted(count, "write")))") }
  }
  guard waiting.isEmpty else {
    throw MarfaError(
      .invalid,
      "nothing was taken away, because writes wait to be sent: \(waiting.joined(separator: ", ")); 'sync' sends them")
  }
  let target = try backupTarget(invocation)
  var done = Uninstalled()
  done.files = try Autostart(program).disable()
  try endInstance(invocation, target, &done)
  if invocation.has("purge") {
    for dir in folders {
      try work.remove(dir)
      done.folders.append(dir)
    }
    done.files += removeList(program)
  }
  do throws(MarfaError) {
    let kept = try session.kept.entries()
    do { done.origins = try kept.forgetAll() } catch { throw MarfaError(error) }
  } catch {
    // Nobody to ask keeps nothing of ours; a locked one is told, since what it keeps stays.
    done.keyring = error.message
  }
  program.output.answer(done.json, done.lines)
  return 0
}

/// Where a copy of the instance's data shall go, at a terminal offered; a place that cannot take it is refused here.
private func backupTarget(_ invocation: Invocation) throws(MarfaError) -> PathBytes? {
  let program = invocation.program
  guard let directory = program.instanceDirectory, ((try? SystemFileSystem().status(directory)) ?? nil) != nil else {
    return nil
  }
  var target = invocation.value("backup").map { program.absolute(PathBytes($0)) }
  if target == nil, program.terminal.canAsk, !program.output.json {
    program.terminal.ask("This computer's instance holds notes. A directory to copy its data to, or Enter for none: ")
    if let answer = try program.terminal.readLine(), !Terminal.trimmed(answer).isEmpty {
      target = program.absolute(PathBytes(Terminal.trimmed(answer)))
    }
  }
  guard let target else { return nil }
  let home = try program.instanceHome()
  do throws(InstanceFailure) { try home.prepareBackup(at: target) } catch { throw MarfaError(error) }
  return target
}

/// Stops the instance. Its data goes with a backup or with `--purge`.
private func endInstance(
  _ invocation: Invocation, _ target: PathBytes?, _ done: inout Uninstalled
) throws(MarfaError) {
  let program = invocation.program
  guard let directory = program.instanceDirectory, ((try? SystemFileSystem().status(directory)) ?? nil) != nil else {
    return
  }
  let home = try program.instanceHome()
  do throws(InstanceFailure) {
    if let target {
      try home.backup(to: target)
      done.backup = target
    }
    done.instanceStopped = try home.stop()
  } catch { throw MarfaError(error) }
  guard target != nil || invocation.has("purge") else {
    done.instanceKept = directory
    return
  }
  guard runTool(["rm", "-rf", "--one-file-system", "--"], [directory], quiet: true) == 0 else {
    throw MarfaError(.io, "the instance's data at \(directory) could not be removed")
  }
  done.instanceRemoved = true
}

/// The list of folders and its lock, once it lists none.
private func removeList(_ program: Program) -> [PathBytes] {
  guard let list = program.registryFile else { return [] }
  var removed: [PathBytes] = []
  for name in [list, PathBytes(bytes: list.bytes + Array(".watch".utf8))] {
    if name.withCString({ unlink($0) }) == 0 { removed.append(name) }
  }
  return removed
}

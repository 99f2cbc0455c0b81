import FolderSync
import MarfaBase
import MarfaCopy

/// `rebuild`: a folder whose store is damaged, mended (P4.2).
func rebuildCommand() -> Command {
  Command(
    name: "rebuild", summary: "give a folder whose store is damaged a new one",
    discussion:
      "Moves the store aside, saves what it had not sent as files under DIR/.marfa/rescued, fills a new one and knows your files again by their ids. Nothing is written or sent before 'confirm'.",
    options: [Option("folder", .text("ID"), "The folder item it follows, where that cannot be read any more.")],
    arguments: [Argument("DIR", "The folder's directory.")], run: rebuild)
}

@Sendable private func rebuild(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let root = directory(of: invocation)
  let work = try FolderWork(Session(invocation), for: root)
  var named: EntityID?
  if invocation.has("folder") { named = try folderID(invocation.value("folder")) }
  let rebuilt = try work.rebuild(root, following: named)
  var lines = ["The old store lies at \(rebuilt.aside)."]
  if !rebuilt.rescued.isEmpty {
    lines.append(
      "\(counted(rebuilt.rescued.count, "write")) it had not sent \(rebuilt.rescued.count == 1 ? "is" : "are") saved there as files."
    )
  }
  if let plan = rebuilt.added.firstSync.plan { lines.append(planWords(plan)) }
  if let unread = rebuilt.added.firstSync.unread { lines.append("What it does could not be read: \(unread).") }
  lines.append(
    rebuilt.added.firstSync.waiting
      ? "Nothing is written or sent until 'marfa-folders confirm \(shellWord(root))' lets it go."
      : "Everything is in step.")
  invocation.program.output.answer(rebuilt.json, lines)
  return 0
}

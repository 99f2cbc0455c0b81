import FolderSync
import MarfaBase

/// What a flagged file's line says (C19.8).
func flaggedWords(_ flagged: Report) -> String {
  let path = flagged.words("path").flatMap { $0.isEmpty ? nil : $0 } ?? "."
  let reason = flagged.words("reason") ?? ""
  switch flagged.words("flag") ?? "" {
  case "unreadable": return "\(path): held, its frontmatter cannot be read: \(reason)"
  case "behind": return "\(path): lines not sent, the item has moved on: \(reason)"
  case "edges": return "\(path): link lines left as typed: \(reason)"
  case "waiting": return "\(path): waits: \(reason)"
  case "unwritten", "outside", "unsuited", "absent", "retained":
    return "\(path): not written\(flagged.words("item").map { " (item \($0))" } ?? ""): \(reason)"
  case "size", "saved", "unguarded": return "\(path): \(reason)"
  case "default_edge_refused": return "\(path): sent, but for a default edge of the folder's: \(reason)"
  case "embed": return "\(path): embed: \(reason)"
  default: return "\(path): held, left as written: \(reason)"
  }
}

/// The lines of a paused large removal: the count and the two commands that settle it.
func pausedWords(disk: Int, pull: Int) -> [String] {
  var lines: [String] = []
  if disk > 0 {
    lines.append(
      "\(counted(disk, "file")) went from this directory at once: their removal waits. "
        + "'confirm' sends it, 'restore' puts them back.")
  }
  if pull > 0 {
    lines.append(
      "\(counted(pull, "item")) went elsewhere at once: their files wait here. "
        + "'confirm' removes them, 'restore' puts the items back, but for any that was purged.")
  }
  return lines
}

/// What became of `folder.yaml` (C19.5).
func settingsWords(_ settings: Report) -> [String] {
  var lines: [String] = []
  if settings.has("sent") { lines.append("settings: the edit of folder.yaml was sent") }
  if settings.has("written") { lines.append("settings: folder.yaml written") }
  if let reason = settings.words("flagged") { lines.append("settings: folder.yaml is not in force: \(reason)") }
  if let reason = settings.words("unwritten") {
    lines.append("settings: folder.yaml could not be written: \(reason)")
  }
  return lines
}

/// The plan of a first sync (F54, P7.2).
func planWords(_ plan: FolderPlan) -> String {
  var words = "First sync: \(counted(plan.write, "file")) to write, \(counted(plan.send, "file")) to send"
  if plan.beside > 0 { words += ", \(plan.beside) of the written beside a file that has the name" }
  words += "."
  if plan.send > 0 { words += " Each note sent gains a few lines of frontmatter, its id and version among them." }
  return words
}

import FolderSync

/// A count and its noun: `1 file`, `3 files`.
func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
  "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
}

/// Counts in one line, those that are zero left out; nil where all are.
func clauses(_ counts: [(Int, String)]) -> String? {
  let said = counts.filter { $0.0 > 0 }.map { "\($0.1) \($0.0)" }
  return said.isEmpty ? nil : said.joined(separator: ", ")
}

/// What a flagged file's line says (C19.8).
func words(of flagged: FlaggedFile) -> String {
  let path = flagged.path.isEmpty ? "." : flagged.path
  switch flagged.flag {
  case "unreadable": return "\(path): held, its frontmatter cannot be read: \(flagged.reason)"
  case "behind": return "\(path): lines not sent, the item has moved on: \(flagged.reason)"
  case "edges": return "\(path): link lines left as typed: \(flagged.reason)"
  case "waiting": return "\(path): waits: \(flagged.reason)"
  case "unwritten", "outside", "unsuited", "absent", "retained":
    return "\(path): not written" + (flagged.item.map { " (item \($0))" } ?? "") + ": \(flagged.reason)"
  case "size": return "\(path): \(flagged.reason)"
  case "embed": return "\(path): embed not read: \(flagged.reason)"
  case "saved": return "\(path): \(flagged.reason)"
  default: return "\(path): held, left as written: \(flagged.reason)"
  }
}

/// The lines of a paused large removal: the count and the two commands that settle it.
func pausedWords(_ disk: Int, _ pull: Int) -> [String] {
  var lines: [String] = []
  if disk > 0 {
    lines.append(
      "\(counted(disk, "file")) gone from this directory at once: their removal waits. 'confirm' sends it, 'restore' puts them back."
    )
  }
  if pull > 0 {
    lines.append(
      "\(counted(pull, "item")) removed elsewhere at once: their files wait here. 'confirm' removes them, 'restore' puts the items back."
    )
  }
  return lines
}

/// What became of `folder.yaml`.
func settingsWords(_ settings: SettingsFileOutcome) -> [String] {
  var lines: [String] = []
  if settings.sent { lines.append("settings: the edit of folder.yaml was sent") }
  if settings.written { lines.append("settings: folder.yaml written") }
  if let reason = settings.flagged { lines.append("settings: folder.yaml is not in force: \(reason)") }
  if let reason = settings.unwritten { lines.append("settings: folder.yaml could not be written: \(reason)") }
  return lines
}

/// The plan of a first sync (F54, P7.2).
func planWords(_ plan: FolderPlan) -> String {
  var words = "First sync: \(counted(plan.write, "file")) to write, \(counted(plan.send, "file")) to send"
  if plan.beside > 0 { words += ", \(plan.beside) of the written beside a file that has the name" }
  words += "."
  if plan.send > 0 { words += " Each sent note gains the lines 'id' and 'version' in its frontmatter." }
  return words
}

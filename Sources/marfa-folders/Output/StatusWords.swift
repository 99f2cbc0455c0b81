import FolderSync

/// Where every file stands, in words (C9.12).
struct StatusWords {
  /// The report.
  let status: FolderStatus

  /// The lines of `status`: the count in step, each other file, what waits for the person.
  var lines: [String] {
    let inStep = status.files.count { $0.state == .inStep }
    var lines = ["\(counted(inStep, "file")) in step"]
    for file in status.files where isTold(file) { lines.append(line(of: file)) }
    if status.pausedOnDisk > 0 || status.pausedInPull > 0 {
      lines.append(
        "large removal waits: \(status.pausedOnDisk) gone here, \(status.pausedInPull) removed elsewhere; "
          + "'confirm' lets it go, 'restore' puts everything back")
    }
    if status.firstSyncWaits {
      if let plan = status.plan {
        lines.append("\(planWords(plan)) 'confirm' lets it go.")
      } else {
        lines.append("The first sync waits and has not been read yet; 'push' says what it will do.")
      }
    }
    return lines
  }

  // C9.11: whatever its status, a file with a flag, a reason or a warning is listed.
  private func isTold(_ file: FolderFile) -> Bool {
    file.state != .inStep || file.flag != nil || file.reason != nil || file.warning != nil
  }

  private func line(of file: FolderFile) -> String {
    var line = "\(file.path): \(file.state.rawValue.replacing("_", with: " "))"
    if !file.waits.isEmpty { line += " (\(file.waits.map(\.word).joined(separator: ", ")))" }
    if let reason = file.reason {
      line += ": \(reason)"
    } else if let flag = file.flag {
      line += ": \(flag.replacing("_", with: " "))"
    }
    if let warning = file.warning { line += "; \(warning)" }
    return line
  }
}

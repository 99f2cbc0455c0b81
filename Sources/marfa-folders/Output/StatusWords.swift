import FolderSync

/// Where every file stands, in words (C9.12).
struct StatusWords {
  /// The report.
  let status: FolderStatus
  /// Whether every path is listed, or at most ten of each cause (N6.1).
  var all = false

  /// The lines of `status`: the count in step, each other file, what waits for the person.
  var lines: [String] {
    let inStep = status.files.count { $0.state == .inStep }
    var lines = ["\(counted(inStep, "file")) in step"]
    let told = status.files.filter(isTold)
    for file in told where cause(of: file) == nil { lines.append(line(of: file)) }
    lines += groups(told)
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

  // MARK: What needs a person

  /// What files are grouped by: they share a way out. nil for one that only waits, or needs nobody.
  private struct Cause: Hashable {
    var state: FileState
    var flag: String
    var reason: String
  }

  private func cause(of file: FolderFile) -> Cause? {
    guard let flag = file.flag, file.warning == nil, StatusWords.wayOut(flag) != nil else { return nil }
    // A waiting file needs nobody, unless what it waits for is a credential.
    if file.state == .waiting, flag != "credential_refused" { return nil }
    return Cause(state: file.state, flag: flag, reason: file.reason ?? flag.replacing("_", with: " "))
  }

  /// Files by what keeps them: the cause and its way out once, then their paths (N6.1). One file alone is a line of its own.
  private func groups(_ files: [FolderFile]) -> [String] {
    var order: [Cause] = []
    var members: [Cause: [FolderFile]] = [:]
    for file in files {
      guard let cause = cause(of: file) else { continue }
      if members[cause] == nil { order.append(cause) }
      members[cause, default: []].append(file)
    }
    var lines: [String] = []
    for cause in order {
      let files = members[cause] ?? []
      guard files.count > 1 else {
        lines += files.map(line)
        if let way = StatusWords.wayOut(cause.flag) { lines.append("  \(way)") }
        continue
      }
      lines.append("\(counted(files.count, "file")) \(cause.state.rawValue.replacing("_", with: " ")): \(cause.reason)")
      if let way = StatusWords.wayOut(cause.flag) { lines.append("  \(way)") }
      let shown = all ? files[...] : files.prefix(10)
      lines += shown.map { "  \($0.path)" }
      if shown.count < files.count { lines.append("  and \(files.count - shown.count) more; --all lists them") }
    }
    return lines
  }

  /// What a person can do about a flag (C19.4); nil where there is nothing to do.
  private static func wayOut(_ flag: String) -> String? {
    switch flag {
    case "unreadable": "Mend what the reason names in the file and save it."
    case "encoding": "Save the file as UTF-8."
    case "edges": "Mend the link lines the reason names and save the file."
    case "refused", "default_edge_refused":
      "Change what the reason names and save the file, or change the folder's settings."
    case "credential_refused": "'marfa-folders login' or 'keys keep' gives a working credential; 'sync' then sends it."
    case "lost": "Save the file again to send it as a new item, or remove it."
    case "name": "Rename one of the two."
    case "emptied": "Save it with its text, or delete the file if that is meant."
    case "gone": "Bring the directory back."
    case "package": "Move the files out of the package to have them synced."
    case "retained", "unwritten": "Move aside what lies in the way; the next 'sync' writes it."
    default: nil
    }
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

import FolderSync

/// Where every file stands, in words (C9.12).
struct StatusWords {
  /// The report.
  let status: FolderStatus
  /// Whether every path is listed, or at most ten of each cause (N6.1).
  var all = false

  /// Whether everything that is not in step is grouped by its cause, what waits too.
  var byCause = false

  /// The lines in words alone.
  var lines: [String] { styled.map(\.1) }

  /// The lines of `status`: the count in step, each other file, what waits for the person.
  var styled: [(Style, String)] {
    let inStep = status.files.count { $0.state == .inStep }
    let told = status.files.filter(isTold)
    var lines: [(Style, String)] = [(.good, "\(counted(inStep, "file")) in step")]
    if byCause {
      let states: [FileState] = [.waiting, .held, .unmatched, .unreached, .outside]
      lines += states.compactMap { state in
        let count = told.count { $0.state == state }
        return count > 0 ? (style(of: state), "\(counted(count, "file")) \(shown(state))") : nil
      }
    } else {
      for file in told where cause(of: file) == nil { lines.append((style(of: file.state), line(of: file))) }
    }
    lines += groups(told)
    if let reason = status.unfollowed { lines.append((.bad, "nothing is synced: \(reason)")) }
    if let pause = status.pause {
      let end = pause.until.map { " until \($0.text)" } ?? ""
      lines.append((.careful, "the watch is paused\(end); 'resume' ends that"))
    }
    if status.pausedOnDisk > 0 || status.pausedInPull > 0 {
      lines.append(
        (
          .bad,
          "large removal waits: \(status.pausedOnDisk) gone here, \(status.pausedInPull) removed elsewhere; "
            + "'confirm' lets it go, 'restore' puts everything back"
        ))
    }
    if status.firstSyncWaits {
      if let plan = status.plan {
        lines.append((.careful, "\(planWords(plan)) 'confirm' lets it go."))
      } else {
        lines.append((.careful, "The first sync waits and has not been read yet; 'push' says what it will do."))
      }
    }
    return lines
  }

  private func shown(_ state: FileState) -> String { state.rawValue.replacing("_", with: " ") }

  private func style(of state: FileState) -> Style {
    switch state {
    case .inStep: .good
    case .waiting: .faint
    case .held: .bad
    case .unmatched, .unreached: .careful
    case .outside: .plain
    }
  }

  // MARK: What needs a person

  /// What files are grouped by: they share a way out. nil for one that only waits, or needs nobody.
  private struct Cause: Hashable {
    var state: FileState
    var flag: String
    var reason: String
  }

  private func cause(of file: FolderFile) -> Cause? {
    let flag = file.flag ?? ""
    let reason = file.reason ?? flag.replacing("_", with: " ")
    if byCause {
      let waits = file.waits.map(\.word).joined(separator: ", ")
      return Cause(state: file.state, flag: flag, reason: reason.isEmpty ? waits : reason)
    }
    guard file.flag != nil, file.warning == nil, StatusWords.wayOut(flag) != nil else { return nil }
    // A waiting file needs nobody, unless what it waits for is a credential.
    if file.state == .waiting, !flag.utf8.elementsEqual("credential_refused".utf8) { return nil }
    return Cause(state: file.state, flag: flag, reason: reason)
  }

  /// Files by what keeps them: the cause and its way out once, then their paths (N6.1). One file alone is a line of its own.
  private func groups(_ files: [FolderFile]) -> [(Style, String)] {
    var order: [Cause] = []
    var members: [Cause: [FolderFile]] = [:]
    for file in files {
      guard let cause = cause(of: file) else { continue }
      if members[cause] == nil { order.append(cause) }
      members[cause, default: []].append(file)
    }
    var lines: [(Style, String)] = []
    for cause in order {
      let files = members[cause] ?? []
      let style = style(of: cause.state)
      let way = StatusWords.wayOut(cause.flag).flatMap { $0.isEmpty ? nil : (Style.strong, "  \($0)") }
      guard files.count > 1 else {
        lines += files.map { (style, line(of: $0)) }
        if let way { lines.append(way) }
        continue
      }
      let reason = cause.reason.isEmpty ? "" : ": \(cause.reason)"
      lines.append((style, "\(counted(files.count, "file")) \(shown(cause.state))\(reason)"))
      if let way { lines.append(way) }
      let listed = all ? files[...] : files.prefix(10)
      lines += listed.map { file in (.plain, "  \(file.path)\(file.warning.map { "; \($0)" } ?? "")") }
      if listed.count < files.count {
        lines.append((.plain, "  and \(files.count - listed.count) more; --all lists them"))
      }
    }
    return lines
  }

  /// What a person can do about a flag (C19.4); nil where there is nothing to do, empty where the reason says it.
  private static func wayOut(_ flag: String) -> String? {
    switch flag {
    case "unreadable": "Mend what the reason names in the file and save it."
    case "encoding": "Save the file as UTF-8."
    case "edges": "Mend the link lines the reason names and save the file."
    case "refused": "Change what the reason names and save the file, or change the folder's settings."
    case "default_edge_refused": "Change the default edges in the folder's settings; the file itself was sent."
    case "credential_refused": "'marfa-folders login' or 'keys keep' gives a working credential; 'sync' then sends it."
    case "lost": "Save the file again to send it as a new item, or remove it."
    case "name": "Rename one of the two."
    case "emptied": "Save it with its text, or delete the file if that is meant."
    case "gone": "Bring the directory back."
    case "removal": ""
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
    var line = "\(file.path): \(shown(file.state))"
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

extension StatusWords {
  /// As a command line asks for it.
  init(_ status: FolderStatus, _ invocation: Invocation) {
    self.init(status: status, all: invocation.has("all"), byCause: invocation.has("cause"))
  }
}

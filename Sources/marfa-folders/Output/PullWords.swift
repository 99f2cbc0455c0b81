import MarfaBase

/// What a pull did, in words (C19.7).
struct PullWords {
  /// The object of C19.2.
  let pull: Report
  /// The files its `unmatched` counts, which its report does not name (F35.9).
  var unmatchedFiles: [String] = []

  /// The lines of `pull`.
  var lines: [String] {
    if let gone = pull.words("root_gone") { return ["nothing written: \(gone)"] }
    let counts: [Text] = ["written", "rewritten", "moved", "unchanged", "skipped"]
    var lines = ["pulled: " + counts.map { "\($0) \(pull.count($0))" }.joined(separator: ", ")]
    lines += notWritten + PullWords.unplaced(pull.count("unplaced"))
    let more = clauses([
      (pull.count("beside"), "written beside another"), (pull.count("revived"), "written back after a delete"),
    ])
    if let more { lines.append("pulled: \(more)") }
    let left = clauses([
      (pull.count("removed") - pull.count("purged"), "removed"), (pull.count("purged"), "purged"),
      (pull.count("kept"), "kept because changed here"), (pull.count("unmatched"), "left, no longer matched"),
      (pull.count("taken"), "taken in from another folder"),
      (pull.count("elsewhere"), "not yet taken by another folder"),
      (pull.count("let_go"), "let go to another folder"), (pull.count("ended"), "placements ended"),
    ])
    if let left { lines.append("pulled: \(left)") }
    return lines + unmatched + settingsWords(pull.report("settings")) + paused + uncarried + flagged + embeds
  }

  /// Files left whose item left the search.
  var unmatched: [String] { unmatchedFiles.map { "\($0): left, its item no longer matches the folder's search" } }

  /// Items that got no file.
  var notWritten: [String] {
    let counts = clauses([
      (pull.count("unwritten"), "unwritten"), (pull.count("outside"), "outside"),
      (pull.count("unsuited"), "unsuited"), (pull.count("absent"), "bytes absent"),
    ])
    return counts.map { ["not written: \($0)"] } ?? []
  }

  /// Refused placements (C19.10).
  static func unplaced(_ count: Int) -> [String] {
    guard count > 0 else { return [] }
    return [
      "\(counted(count, "placement")) refused by the server: not sent again until the file moves, its placement moves "
        + "on, or the key or the settings change"
    ]
  }

  /// A large removal that waits.
  var paused: [String] { pausedWords(disk: 0, pull: pull.count("paused")) }
  /// Properties no file can carry.
  var uncarried: [String] {
    pull.list("uncarried").map {
      "property '\($0.words("property") ?? "")' of \($0.words("type") ?? "") is carried by no file"
    }
  }
  /// Files left, and items not written.
  var flagged: [String] { pull.list("flagged").map(flaggedWords) }
  /// Embeds whose file was not written.
  var embeds: [String] {
    pull.list("embeds").map(embedWords)
  }

  private func embedWords(_ embed: Report) -> String {
    "\(embed.words("path") ?? ""): embed's file not written: \(embed.words("reason") ?? "")"
  }

  /// The same, but for those the scan of the same pass names already: one embed is warned of once (C16.7).
  func embeds(notToldBy scan: ScanWords) -> [String] {
    let told = scan.scan.list("embeds").compactMap { entry -> (path: String, typed: String)? in
      guard let path = entry.words("path"), let reason = entry.words("reason") else { return nil }
      // A reason is the embed as typed and what is wrong with it.
      let ends = [" names ", " leads "].compactMap { reason.ranges(of: $0).last?.lowerBound }
      return ends.max().map { (path, reason[..<$0] + " ") }
    }
    return pull.list("embeds").filter { entry in
      !told.contains { path, typed in
        entry.words("path") == path && entry.words("reason")?.hasPrefix(typed) == true  // lint: our own words
      }
    }.map(embedWords)
  }
}

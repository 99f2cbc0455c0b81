import FolderSync

/// What a pull did, in words (C19.7).
struct PullWords {
  /// The report.
  let pull: FolderPull

  /// The lines of `pull`.
  var lines: [String] {
    if let gone = pull.rootGone { return ["nothing written: \(gone)"] }
    var lines = [
      "pulled: written \(pull.written), rewritten \(pull.rewritten), moved \(pull.moved), unchanged \(pull.unchanged), "
        + "skipped \(pull.skipped)"
    ]
    lines += notWritten
    if let more = clauses([(pull.beside, "written beside another"), (pull.revived, "written back after a delete")]) {
      lines.append("pulled: \(more)")
    }
    let left = clauses([
      (pull.removed - pull.purged, "removed"), (pull.purged, "purged"), (pull.kept, "kept, changed here"),
      (pull.unmatched, "no longer matched, left here"), (pull.taken, "taken in from another folder"),
      (pull.elsewhere, "not yet taken by another folder"), (pull.letGo, "let go to another folder"),
      (pull.ended, "placements ended"),
    ])
    if let left { lines.append("pulled: \(left)") }
    lines += settingsWords(pull.settings)
    lines += pausedWords(0, pull.paused)
    lines += uncarried
    lines += pull.flagged.map(words(of:))
    lines += embeds
    return lines
  }

  /// Items that got no file, and placements held back.
  var notWritten: [String] {
    var lines: [String] = []
    let counts = clauses([
      (pull.unwritten, "unwritten"), (pull.outside, "outside"), (pull.unsuited, "unsuited"),
      (pull.absent, "bytes absent"),
    ])
    if let counts { lines.append("not written: \(counts)") }
    lines += PullWords.unplaced(pull.unplaced)
    return lines
  }

  /// Refused placements (C19.10).
  static func unplaced(_ count: Int) -> [String] {
    guard count > 0 else { return [] }
    return [
      "\(counted(count, "placement")) refused by the server: not sent again until the file moves, its placement moves on, "
        + "or the key or the settings change"
    ]
  }

  /// Properties no file can carry.
  var uncarried: [String] {
    pull.uncarried.map { "property '\($0.property)' of \($0.type) is carried by no file" }
  }

  /// Embeds whose file was not written.
  var embeds: [String] {
    pull.embeds.map { "\($0.path): embed's file not written: \($0.reason)" }
  }
}

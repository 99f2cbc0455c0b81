import FolderSync
import MarfaBase

/// What a watch tells, in words (C17.6, C19.7).
struct WatchWords {
  /// A line and whether it goes to standard error.
  struct Line {
    var words: String
    var isError: Bool
  }

  private var refusedPlacements = 0
  /// The lines of each standing condition as last said: what is said of a change is the difference (F79).
  private var said: [StandingCondition: Set<Text>] = [:]

  /// Nothing was told yet.
  init() {}

  /// The lines of an event.
  mutating func lines(_ event: WatchEvent) -> [Line] {
    switch event {
    case .watching(let directory, let storage):
      var lines = [Line(words: "watching \(directory); Ctrl-C stops it", isError: true)]
      if let warning = storage["warning"]?.text { lines.append(Line(words: warning.string, isError: true)) }
      return lines
    case .watcherFailed(let message):
      return [Line(words: "the disk's notices failed: \(message); the watch goes on", isError: true)]
    case .retrying(let error, let seconds):
      let what = error.code == .storageFull ? "the disk is full" : "the copy could not be filled"
      let words = "\(what): \(error.message); tried again in \(seconds) s, then ever later, up to 30 s"
      return [Line(words: words, isError: true)]
    case .unreachable(let server, let reason):
      return said("\(server) cannot be reached: \(reason); edits wait here")
    case .reachable(let server): return said("\(server) answers again")
    case .waiting(_, let scan):
      return said("waiting: \(Report(scan).words("root_gone") ?? "the directory is gone")")
    case .copyChanging(let reason): return said("the copy keeps changing: \(reason); it is written at the next pass")
    case .passed(let pass, let standing): return self.pass(pass, standing).map { Line(words: $0, isError: false) }
    case .handedOver(let command, let pid):
      let who = command.map { "'\($0)'" } ?? "another command"
      return said("\(who)\(pid.map { " (process \($0))" } ?? "") works the folder now")
    case .heldElsewhere(let pid):
      return said("another process\(pid.map { " (\($0))" } ?? "") took the folder; the watch keeps trying")
    case .takenBack: return said("the watch works the folder again")
    case .paused(let pause):
      let end = pause.until.map { "until \($0.text)" } ?? "until 'resume'"
      return said("paused \(end); nothing of the folder is held")
    case .resumed: return said("the pause is over; the watch works the folder again")
    case .removed: return said("the folder was removed; the watch ends")
    case .unlisted: return said("the folder left this machine's list; the watch ends")
    }
  }

  private func said(_ words: String) -> [Line] { [Line(words: words, isError: false)] }

  private mutating func pass(_ pass: WatchPass, _ standing: Set<StandingCondition>) -> [String] {
    let scan = ScanWords(scan: Report(pass.scan))
    let drain = DrainWords(drain: Report(pass.drain))
    let pull = PullWords(pull: Report(pass.pull))
    var settings = Report(pass.settings)
    if !standing.contains(.settingsFlagged), !standing.contains(.settingsUnwritten) {
      // What is not in force was said before and stands; only what happened now is said.
      settings = Report(["sent": .bool(settings.has("sent")), "written": .bool(settings.has("written"))])
    }
    var lines = settingsWords(settings)
    var counts: [(Int, String)] = [
      (scan.scan.count("created"), "created"), (scan.scan.count("updated"), "updated"),
      (scan.scan.count("renamed"), "renamed"), (scan.scan.count("deleted"), "deleted"),
      (drain.drain.count("answered"), "answered"), (drain.drain.count("undelivered"), "waiting to be sent"),
      (pull.pull.count("written") + pull.pull.count("rewritten"), "files written"),
      (pull.pull.count("moved"), "files moved"),
      (pull.pull.count("removed") - pull.pull.count("purged"), "files removed"),
    ]
    let notWritten = ["unwritten", "outside", "unsuited", "absent"].map { pull.pull.count($0) }.reduce(0, +)
    counts += [
      (notWritten, "not written"), (scan.scan.count("lost"), "lost by the copy"),
      (scan.scan.count("unreached"), "not reached"), (pull.pull.count("unmatched"), "no longer matched"),
      (drain.drain.count("rebased"), "sent again on a newer version"),
      (drain.drain.count("gave_way"), "placed by another machine first"),
    ]
    lines.append("pass: \(clauses(counts) ?? "everything in step")")
    if pull.pull.count("unplaced") != refusedPlacements {
      refusedPlacements = pull.pull.count("unplaced")
      lines += PullWords.unplaced(refusedPlacements)
    }
    if pull.pull.count("purged") > 0 {
      lines.append("\(counted(pull.pull.count("purged"), "file")) of purged items removed")
    }
    lines += scan.trashed + drain.refused + drain.spared
    if standing.contains(.stopped) { lines += drain.stopped }
    lines += pass.conflicts.map(conflictWords) + pass.filed.map(filedWords)
    return lines + notices(standing, scan, pull)
  }

  /// What stands and has changed (C17.8).
  private mutating func notices(_ standing: Set<StandingCondition>, _ scan: ScanWords, _ pull: PullWords) -> [String] {
    var lines: [String] = []
    for condition in StandingCondition.allCases where standing.contains(condition) {
      let now: [String] =
        switch condition {
        case .pausedDisk: scan.paused
        case .pausedPull: pull.paused
        case .directories: scan.directories
        case .secrets: scan.secrets
        case .settling: scan.settling
        case .warnings: scan.warnings
        case .flagged: scan.flagged + pull.flagged
        case .uncarried: pull.uncarried
        case .embeds: scan.embeds + pull.embeds(notToldBy: scan)
        case .registry: scan.registry
        case .unsure: scan.unsure
        case .undelivered, .stopped, .lost, .unreached, .unwritten, .outside, .unsuited, .unplaced, .absent, .kept,
          .unmatched, .settingsFlagged, .settingsUnwritten:
          []
        }
      let before = said[condition] ?? []
      lines += now.filter { !before.contains(Text($0)) }
      said[condition] = Set(now.map { Text($0) })
    }
    return lines
  }
}

import MarfaBase

/// What holds over many passes and is said when it changes, and only then (C17.8, F78, F79).
package enum StandingCondition: String, CaseIterable, Sendable {
  case undelivered, stopped, pausedDisk, pausedPull, lost, unreached, directories, secrets, settling, warnings,
    unwritten
  case outside, unsuited, unplaced, absent, kept, unmatched, settingsFlagged, settingsUnwritten, flagged, uncarried
  case embeds, registry, unsure

  /// Whether it is said on a line of its own, and so repeated by no eventful pass that left it as it was.
  package var hasOwnLine: Bool {
    switch self {
    case .undelivered, .lost, .unreached, .unwritten, .outside, .unsuited, .absent, .kept, .unmatched: false
    case .stopped, .pausedDisk, .pausedPull, .directories, .secrets, .settling, .warnings, .unplaced, .settingsFlagged,
      .settingsUnwritten, .flagged, .uncarried, .embeds, .registry, .unsure:
      true
    }
  }
}

/// Decides, pass by pass, what a watch tells (C17.7): it keeps the standing conditions as last told.
package struct StandingNotices: Sendable {
  private var told: [StandingCondition: JSON]?
  private var embeds: [JSON] = []

  /// Nothing was told yet: the first pass is always told.
  package init() {}

  /// What to tell of a pass: nil for nothing; else the standing conditions that changed.
  package mutating func judge(_ pass: WatchPass) -> Set<StandingCondition>? {
    let now = standing(pass)
    guard let before = told else {
      told = now
      return Set(StandingCondition.allCases.filter { !Self.isEmpty(now[$0]) })
    }
    let changed = Set(StandingCondition.allCases.filter { now[$0] ?? nil != before[$0] ?? nil })
    told = now
    return changed.isEmpty && !Self.didSomething(pass) ? nil : changed
  }

  /// Whether a pass did anything a person would ask after (C17.7). Waiting out a grace is nothing (F77).
  static func didSomething(_ pass: WatchPass) -> Bool {
    let counts: [(JSON, [Text])] = [
      (pass.scan, ["created", "updated", "renamed", "deleted", "moved_away", "requeued"]),
      (pass.drain, ["answered", "gave_way"]),
      (pass.pull, ["written", "rewritten", "moved", "removed", "taken", "let_go", "revived"]),
    ]
    return counts.contains { report, names in names.contains { (report[$0]?.int ?? 0) > 0 } }
      || pass.settings["sent"]?.bool == true || !pass.filed.isEmpty
  }

  private mutating func standing(_ pass: WatchPass) -> [StandingCondition: JSON] {
    var out: [StandingCondition: JSON] = [:]
    for condition in StandingCondition.allCases {
      out[condition] =
        switch condition {
        case .undelivered: pass.drain["undelivered"]
        case .stopped: pass.drain["stopped"]
        case .pausedDisk: pass.scan["paused"]
        case .pausedPull: pass.pull["paused"]
        case .lost, .unreached, .directories, .secrets, .settling, .warnings, .registry, .unsure:
          pass.scan[Text(condition.rawValue)]
        case .unwritten, .outside, .unsuited, .unplaced, .absent, .kept, .unmatched, .uncarried:
          pass.pull[Text(condition.rawValue)]
        case .settingsFlagged: pass.settings["flagged"]
        case .settingsUnwritten: pass.settings["unwritten"]
        case .flagged: .array((pass.scan["flagged"]?.array ?? []) + (pass.pull["flagged"]?.array ?? []))
        case .embeds: carried(pass)
        }
    }
    // A pass without a pull says nothing of what a pull keeps: what was told stands.
    if pass.pull.isNull, let told {
      for condition in [
        StandingCondition.pausedPull, .unwritten, .outside, .unsuited, .unplaced, .absent, .kept, .unmatched,
        .uncarried,
      ] {
        out[condition] = told[condition]
      }
    }
    return out
  }

  /// The embeds of a pass; those a quick pass did not read are carried from the pass before (C17.8).
  private mutating func carried(_ pass: WatchPass) -> JSON {
    let found = (pass.scan["embeds"]?.array ?? []) + (pass.pull["embeds"]?.array ?? [])
    if pass.isReading {
      embeds = found
    } else {
      for entry in found where !embeds.contains(entry) { embeds.append(entry) }
    }
    return .array(embeds)
  }

  private static func isEmpty(_ value: JSON?) -> Bool {
    switch value {
    case nil, .null?: true
    case .number(let number)?: number == JSONNumber(0)
    case .array(let values)?: values.isEmpty
    case .bool, .string, .object: false
    }
  }
}

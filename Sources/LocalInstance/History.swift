import MarfaBase

/// An item's snapshots (V3, V20) and their thinning (V34).
extension Instance {
  func listVersions(_ call: Call) throws -> Reply {
    try call.credential.requireSomeType()
    try call.query.declare(["limit", "cursor"])
    let limit = try call.query.limit(1...200, default: 50)
    let row = try readableItem(try call.id(), call.credential)
    var after = 0
    if let text = call.query["cursor"] {
      guard let place = try cursors.read(text, "versions").first?.int else {
        throw Refusal.invalid("cursor", "The cursor is none of this listing.")
      }
      after = place
    }
    return .text(200, try versionsPage(of: row.id, limit: limit, after: after, call))
  }

  /// A page of the snapshots the credential may read, oldest first.
  func versionsPage(of item: EntityID, limit: Int, after: Int, _ call: Call) throws -> [UInt8] {
    let types = try database.all("SELECT DISTINCT type FROM snapshot WHERE item = ?", item) { $0.text(0) }
    var conditions = Conditions()
    conditions.add("item = ? AND version > ?", [item, after])
    conditions.add("type", in: types.filter { !call.credential.reads($0) }, negated: true)
    let rows = try database.all(
      """
      SELECT version, id, properties, type, tier, occurred, source_id, writer, created FROM snapshot
      WHERE \(conditions.whereClause) ORDER BY version LIMIT \(limit + 1)
      """, conditions.values
    ) { row in
      var out = Array("{\"id\":\"".utf8)
      out += row.bytes(1)
      out += "\",\"item_id\":\"\(item)\",\"version\":\(row.int(0)),\"properties\":".utf8
      out += row.bytes(2)
      out += ",\"type\":\"".utf8
      out += row.bytes(3)
      out += "\",\"tier\":\"".utf8
      out += row.bytes(4)
      out += "\",\"occurred_at\":\"\(row.time(5) ?? Timestamp(milliseconds: 0))\",\"source_id\":".utf8
      JSON.optional(row.optionalText(6)).append(to: &out)
      out += ",\"writer\":".utf8
      out += row.bytes(7)
      out += ",\"created_at\":\"\(row.time(8) ?? Timestamp(milliseconds: 0))\"}".utf8
      return (row.int(0), out)
    }
    var out = Array("{\"data\":[".utf8)
    for (place, (_, text)) in rows.prefix(limit).enumerated() {
      if place > 0 { out += ",".utf8 }
      out += text
    }
    out += "],\"next_cursor\":".utf8
    if rows.count > limit {
      try cursors.write("versions", [.int(rows[limit - 1].0)]).append(to: &out)
    } else {
      out += "null".utf8
    }
    return out + "}".utf8
  }

  /// Thins snapshots by the policies of their items' types (V34), all of them.
  public func thinVersions() throws {
    var after = ""
    while let last = try thinVersions(after: after, atMost: 500) { after = last }
  }

  /// Thins the snapshots of some items, in the order of their ids. Gives the last of them, nil when no more follow.
  func thinVersions(after: String, atMost count: Int) throws -> String? {
    let items = try database.all(
      """
      SELECT s.item, i.type FROM snapshot s JOIN item i ON i.id = s.item
      WHERE s.item > ? GROUP BY s.item HAVING count(*) > 2 ORDER BY s.item LIMIT \(count)
      """, after
    ) { ($0.string(0), $0.text(1)) }
    try database.transaction {
      for (item, type) in items {
        // As it stands now, and the defaults for a type no longer registered (V34.7, V34.8).
        let policy = catalog.type(type)?.json["version_policy"]
        let kept = try database.all(
          "SELECT version, created FROM snapshot WHERE item = ? ORDER BY version DESC", item
        ) { ($0.int(0), $0.int(1)) }
        let thinning = Thinning(
          now: Int(clock.now.milliseconds), recent: policy?["recent_days"]?.int ?? 30,
          daily: policy?["daily_snapshot_days"]?.int ?? 90, weekly: policy?["weekly_snapshot_days"]?.int ?? 365,
          most: policy?["max_versions"]?.int ?? 500)
        for version in thinning.gone(kept) {
          if let id = EntityID(item) { try completeAnswers(drawing: id, version: version) }
          try database.run("DELETE FROM snapshot WHERE item = ? AND version = ?", item, version)
        }
      }
    }
    return items.count == count ? items.last?.0 : nil
  }
}

/// Which snapshots of one item go (V34.4).
struct Thinning {
  let now: Int
  let recent: Int
  let daily: Int
  let weekly: Int
  let most: Int

  /// - Parameter snapshots: version and time, newest version first.
  func gone(_ snapshots: [(version: Int, created: Int)]) -> [Int] {
    guard snapshots.count > 2 else { return [] }
    let day = 86_400_000
    var kept: [Int] = []
    var days: Set<Int> = []
    var weeks: Set<Int> = []
    for (place, snapshot) in snapshots.enumerated() {
      let age = now - snapshot.created
      let date = Int((Double(snapshot.created) / Double(day)).rounded(.down))
      let isKept: Bool
      if age <= recent * day {
        isKept = true
      } else if age <= daily * day {
        isKept = days.insert(date).inserted
      } else if age <= weekly * day {
        // 1970-01-01 was a Thursday; ISO weeks begin on Monday.
        isKept = weeks.insert(Int((Double(date + 3) / 7).rounded(.down))).inserted
      } else {
        isKept = false
      }
      if isKept || place == 0 { kept.append(snapshot.version) }
    }
    let staying = Set(kept.prefix(max(1, most)))
    return snapshots.map(\.version).filter { !staying.contains($0) }
  }
}

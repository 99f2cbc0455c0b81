import FolderSync
import MarfaBase

extension World {
  // MARK: - Looking

  /// Prints where the followed word stands, where that changed.
  func tellFollowed() throws {
    guard let followed else { return }
    var places = machines.flatMap { machine in
      (machine.notes + machine.pictures).filter { Words.found(in: $0.text).contains(followed) }.map {
        "m\(machine.number) \($0.path)"
      }
    }
    places += try items().filter { Words.found(in: $0.body).contains(followed) }.map { "item \($0.id) \($0.state)" }
    places += try self.items("core.file,core.file.image").filter { item in
      item.blob.map { Words.found(in: server.text(of: $0)).contains(followed) } == true
    }.map { "picture \($0.id) \($0.state)" }
    if places != followedAt { print("  \(followed): \(places)") }
    followedAt = places
  }

  /// Prints whose file each path is on each machine, what each note names, and the pictures and edges on the server.
  func tellAll() throws {
    for machine in machines {
      let owners = try machine.owners()
      for file in machine.notes + machine.pictures {
        let named = file.text.split(separator: "\n").filter { $0.contains("[[") || $0.contains("](") }
        print("  m\(machine.number) \(file.path) \(owners[file.path.description] ?? "nobody's") \(named)")
      }
    }
    for item in try items() + items("core.file,core.file.image") {
      print("  item \(item.id) \(item.state) \(item.title) \(item.blob == nil ? "" : "picture")")
    }
    for edge in try edges("references,about,attached-to,in-folder") {
      print("  edge \(edge.type) \(edge.source) \(edge.target) \(edge.path)")
    }
  }

  /// Writes every store as it stands into `directory`, for a look at a violation.
  func keep(in directory: String) throws {
    try database.run("VACUUM INTO ?", Text("\(directory)/instance.sqlite"))
    for machine in machines { try machine.keepStore(at: "\(directory)/machine\(machine.number).sqlite") }
  }

  /// An item as the instance holds it.
  struct Held {
    var id: Text
    var state: Text
    var title: Text
    var body: String
    var version: Int
    /// Where a file's bytes are, for a file item.
    var blob: Text?
    /// What a conflicted copy was made from.
    var original: Text?
    var isConflictedCopy: Bool { original != nil }
  }

  /// An edge as the instance holds it.
  struct HeldEdge: Hashable {
    var type: String
    var source: String
    var target: String
    /// The path of a placement.
    var path = ""
  }

  private func pages(_ target: String) throws -> [JSON] {
    var found: [JSON] = []
    var cursor: Text?
    repeat {
      let page = try World.ask(instance, "GET", target + "&limit=200" + (cursor.map { "&cursor=\($0)" } ?? ""))
      found += page["data"]?.array ?? []
      cursor = page["next_cursor"]?.text
    } while cursor != nil
    return found
  }

  /// Every edge of those types.
  func edges(_ types: String) throws -> [HeldEdge] {
    try pages("/edges?edge_type=\(types)").map { row in
      let edge = row["edge"] ?? row
      return HeldEdge(
        type: edge["edge_type"]?.text?.string ?? "", source: edge["source_id"]?.text?.string ?? "",
        target: edge["target_id"]?.text?.string ?? "", path: edge["properties"]?["path"]?.text?.string ?? "")
    }
  }

  /// What the instance holds of notes, or of another type: live ones and those in the bin.
  func items(_ type: String = "core.note") throws -> [Held] {
    // By its link to the original: a person may take the tag away.
    let copies = Dictionary(try edges("derived-from").map { ($0.source, $0.target) }) { one, _ in one }
    return try ["active", "archived", "trashed"].flatMap { state in
      try pages("/items?type=\(type)&state=\(state)&tier=all&include=metadata").map { row in
        let item = row["item"] ?? row
        let properties = item["properties"]
        return Held(
          id: item["id"]?.text ?? "", state: item["state"]?.text ?? "", title: properties?["title"]?.text ?? "",
          body: properties?["body"]?.text?.string ?? "", version: item["version"]?.int ?? 0,
          blob: properties?["blob_ref"]?.text, original: copies[item["id"]?.text?.string ?? ""].map { Text($0) })
      }
    }
  }

  /// The words of each item's earlier versions.
  func historyByItem() throws -> [String: Set<String>] {
    try database.all("SELECT item, properties FROM snapshot") { ($0.string(0), $0.text(1)) }
      .reduce(into: [:]) { found, row in
        let body = (try? JSON(parsing: row.1.bytes))?["body"]?.text?.string ?? ""
        found[row.0, default: []].formUnion(Words.found(in: body))
      }
  }

  /// The words of an item and of its earlier versions.
  func historyOf(_ id: String) throws -> Set<String> {
    try database.all("SELECT properties FROM snapshot WHERE item = ?", Text(id)) { $0.text(0) }
      .reduce(into: []) { found, row in
        let body = (try? JSON(parsing: row.bytes))?["body"]?.text?.string ?? ""
        found.formUnion(Words.found(in: body))
      }
  }

  /// The words of every picture the instance ever took.
  func pictureWords() throws -> Set<String> {
    try database.all("SELECT properties FROM snapshot") { $0.text(0) }.reduce(into: []) { found, row in
      guard let blob = (try? JSON(parsing: row.bytes))?["blob_ref"]?.text else { return }
      found.formUnion(Words.found(in: server.text(of: blob)))
    }
  }
}

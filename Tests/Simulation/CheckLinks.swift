import MarfaBase

/// What must hold of links, lines and embeds once everything is quiet: the edges on the server are those the files name.
extension World {
  /// A name typed in `[[...]]`, without what is shown for it and without a heading.
  private static func links(in line: String) -> [(name: String, isEmbed: Bool)] {
    guard !line.contains("`[[") else { return [] }
    var found: [(String, Bool)] = []
    var rest = line[...]
    while let open = rest.firstRange(of: "[["), let close = rest[open.upperBound...].firstRange(of: "]]") {
      let isEmbed = open.lowerBound > line.startIndex && line[line.index(before: open.lowerBound)] == "!"
      let name = rest[open.upperBound..<close.lowerBound].prefix { $0 != "|" && $0 != "#" }
      found.append((String(name), isEmbed))
      rest = rest[close.upperBound...]
    }
    return found
  }

  /// Paths typed in `![](...)`.
  private static func shownPaths(in line: String) -> [String] {
    guard let open = line.firstRange(of: "!["), let paren = line[open.upperBound...].firstRange(of: "]("),
      !line[open.upperBound...].hasPrefix("["), let close = line[paren.upperBound...].lastIndex(of: ")")
    else { return [] }
    return [line[paren.upperBound..<close].filter { $0 != "<" && $0 != ">" }.replacing("%20", with: " ")]
  }

  /// The items a name may name: by id, by title, by the name or path of a file here.
  private func candidates(_ name: String, _ titles: [(id: String, title: String)], _ files: [String: String]) -> Set<
    String
  > {
    var found = Set(titles.filter { $0.id == name || $0.title.lowercased() == name.lowercased() }.map(\.id))
    for (path, id) in files {
      for written in [
        path,
        path.hasSuffix(".md") ? String(path.dropLast(3)) : path.hasSuffix(".png") ? String(path.dropLast(4)) : path,
      ]
      where written.lowercased() == name.lowercased() || written.lowercased().hasSuffix("/" + name.lowercased()) {
        found.insert(id)
      }
    }
    return found
  }

  func checkLinks(_ items: [Held], _ owners: [[String: String]], held: Set<String>) throws {
    let pictures = try self.items("core.file,core.file.image")
    let live = (items + pictures).filter { $0.state != "trashed" }
    let liveIDs = Set(live.map(\.id.string))
    // Nor is what an edit set aside meant for its item followed: edges are writes of their own.
    let copies = Set(items.filter(\.isConflictedCopy).flatMap { [$0.id.string, $0.original?.string ?? ""] })
    let titles = live.map { ($0.id.string, $0.title.string) }
    let everyEdge = try edges("references,about,attached-to")
    let edges = everyEdge.filter { liveIDs.contains($0.source) && liveIDs.contains($0.target) }
    // A name that was one's who is in the bin now stays that one's until its file changes.
    let toBin = Set(everyEdge.filter { liveIDs.contains($0.source) && !liveIDs.contains($0.target) }.map(\.source))
    var seen: Set<HeldEdge> = []
    for edge in edges where !seen.insert(edge).inserted { throw Violation(words: "an edge is there twice: \(edge)") }
    // The machine whose person typed a name tells of it; others took the text as it came.
    let shown = Dictionary(grouping: machines.flatMap(\.unresolved), by: \.path).mapValues { $0.map(\.reason) }
    for machine in machines {
      let files = owners[machine.number]
      // A file kept of a note in the bin answers to no name (F11.19).
      let named = owners.map { $0.filter { liveIDs.contains($0.value) } }
      for note in machine.notes {
        // What a conflicted copy names it was given by the server.
        guard let id = World.id(of: note.text), liveIDs.contains(id), !held.contains(id), !copies.contains(id),
          files[note.path.description] == id
        else { continue }
        let (front, body) = World.parts(of: note.text)
        let context = "m\(machine.number) \(note.path) \(id)\n\(note.text)"
        // A file another machine holds under a name of its own makes a name ambiguous there, which it tells.
        func isAmbiguousElsewhere(_ name: String) -> Bool {
          machines.contains { other in
            other.unresolved.contains { $0.path == note.path.description && $0.reason.contains(name) }
              && candidates(name, titles, named[other.number]).count != 1
          }
        }
        try checkLinks(
          context, id, front ?? [], body, edges, toBin.contains(id) ? nil : shown[note.path.description] ?? [], held,
          { self.candidates($0, titles, named[machine.number]) }, isAmbiguousElsewhere)
        try checkEmbeds(
          context, id, note.path, front ?? [], body, edges, shown[note.path.description] ?? [], machine, files, titles)
      }
    }
    try checkPictures(pictures.filter { $0.state != "trashed" }, owners, edges)
  }

  private func checkLinks(
    _ context: String, _ id: String, _ front: [String], _ body: [String], _ edges: [HeldEdge], _ told: [String]?,
    _ held: Set<String>, _ candidates: (String) -> Set<String>, _ isAmbiguousElsewhere: (String) -> Bool
  ) throws {
    let inBody = body.flatMap { World.links(in: $0) }.filter { !$0.isEmbed }.map(\.name)
    for type in ["references", "about"] {
      let inLines = World.entries(type, front).flatMap { World.links(in: $0) }.map(\.name)
      let names = (type == "references" ? inBody : []) + inLines
      let targets = Set(edges.filter { $0.type == type && $0.source == id }.map(\.target))
      var allowed: Set<String> = []
      var isHeldBack = false
      for name in names {
        let named = candidates(name)
        allowed.formUnion(named)
        guard named.count == 1, let only = named.first else {
          if named != [id], named.isDisjoint(with: targets) { isHeldBack = true }
          // One that never was anybody's; others are told of where they stopped to be while their file changed.
          if let told, named.isEmpty, name.hasPrefix("Nobody"), !told.contains(where: { $0.contains(name) }) {
            throw Violation(words: "nobody is told of [[\(name)]], which names \(named.count) items: \(context)")
          }
          continue
        }
        // One that was another's when it was read stays that one's (F11.15), whose edge no other name here tells.
        let others = (type == "references" ? inBody : inLines).filter { $0 != name }.reduce(into: Set<String>()) {
          $0.formUnion(candidates($1))
        }
        if !targets.subtracting(others).isEmpty { continue }
        // One whose file stands elsewhere on some machine has other names there.
        if let told, only != id, !targets.contains(only), !held.contains(only), !isAmbiguousElsewhere(name) {
          throw Violation(words: "no \(type) edge though [[\(name)]] names \(only) alone: \(context) \(told)")
        }
      }
      // One whose file could not be written where it is placed answers to its names there all the same.
      let others = targets.subtracting(allowed).subtracting(held)
      if !others.isEmpty, !isHeldBack {
        throw Violation(
          words: "a \(type) edge the file does not show: to \(others.sorted()) from \(context) \(told ?? [])")
      }
    }
  }

  private func checkEmbeds(
    _ context: String, _ id: String, _ path: PathBytes, _ front: [String], _ body: [String], _ edges: [HeldEdge],
    _ told: [String], _ machine: Machine, _ files: [String: String], _ titles: [(id: String, title: String)]
  ) throws {
    let sources = Set(edges.filter { $0.type == "attached-to" && $0.target == id }.map(\.source))
    let here = machine.pictures.map(\.path.description)
    let directory = path.parent.description.isEmpty ? "" : "\(path.parent)/"
    var shown: Set<String> = []
    var isHeldBack = false
    func see(_ typed: String, _ file: String?, _ name: String) throws {
      if let file {
        guard let item = files[file] else {
          // One of this machine alone stands in front of the one the name was typed for.
          if machine.held.contains(file) || files.keys.contains(where: { $0.lowercased().hasSuffix(name.lowercased()) })
          {
            isHeldBack = true
            return
          }
          throw Violation(words: "a picture a note shows is no item: \(file) in \(context) \(told)")
        }
        shown.insert(item)
        let others = files.filter { $0.key.lowercased().hasSuffix(name.lowercased()) }.map(\.value)
        shown.formUnion(others)
        // Not demanded yet: the edge of a picture one deleted while another showed or painted it, which comes back without
        // every edge it had.
        if words.droppedPictures.contains(PathBytes(file).name.description) {
          isHeldBack = true
          return
        }
        guard sources.contains(item) || !sources.isDisjoint(with: others) else {
          throw Violation(words: "no attached-to edge though \(typed) shows \(file) \(item): \(context) \(told)")
        }
      } else {
        isHeldBack = true
        if !told.contains(where: { $0.replacing("%20", with: " ").contains(name) }) {
          throw Violation(words: "nobody is told of \(typed), which shows nothing: \(context) \(told)")
        }
      }
    }
    for line in body {
      for link in World.links(in: line) where link.isEmbed {
        let wanted = link.name.lowercased()
        let whole = here.filter { $0.lowercased() == wanted }
        let ending = here.filter { $0.lowercased().hasSuffix("/" + wanted) || $0.lowercased() == wanted }
        let best = ending.min { one, two in
          func rank(_ path: String) -> (Int, Int, String) {
            let parent = path.split(separator: "/").dropLast().joined(separator: "/")
            return (parent + (parent.isEmpty ? "" : "/") == directory ? 0 : 1, path.split(separator: "/").count, path)
          }
          return rank(one) < rank(two)
        }
        try see("![[\(link.name)]]", whole.first ?? best, link.name)
      }
      for typed in World.shownPaths(in: line) {
        var parts = typed.hasPrefix("/") ? [] : directory.split(separator: "/").map(String.init)
        var isOutside = false
        for part in typed.split(separator: "/") {
          if part == ".." {
            if parts.isEmpty { isOutside = true } else { parts.removeLast() }
          } else {
            parts.append(String(part))
          }
        }
        if isOutside { continue }
        let wanted = parts.joined(separator: "/").lowercased()
        try see(
          "![](\(typed))", here.first { $0.lowercased() == wanted },
          typed.split(separator: "/").last.map(String.init) ?? typed)
      }
    }
    // A line of the frontmatter shows what the body does not.
    let lines = (World.entries("has-attachment", front) + World.entries("attached-to", front))
      .flatMap { World.links(in: $0) }.flatMap { candidates($0.name, titles, files) }
    let others = sources.subtracting(shown).subtracting(lines)
    if !others.isEmpty, !isHeldBack {
      throw Violation(
        words: "an attached-to edge the file does not show: from \(others.sorted()) to \(context) \(told)")
    }
  }

  /// A picture of an item is the same everywhere it is.
  private func checkPictures(_ items: [Held], _ owners: [[String: String]], _ edges: [HeldEdge]) throws {
    for item in items {
      var first: (machine: Int, path: PathBytes, text: String)?
      let isShown = edges.contains { $0.type == "attached-to" && $0.source == item.id.string }
      for machine in machines {
        let files = machine.pictures.filter { owners[machine.number][$0.path.description] == item.id.string }
        if files.count > 1 { throw Violation(words: "two files are one picture: \(files.map(\.path))") }
        guard let file = files.first else { continue }
        // One that nothing shows stays as it is where it is.
        guard isShown, !machine.held.contains(file.path.description) else { continue }
        if let first, first.path != file.path || first.text != file.text {
          throw Violation(
            words: "a picture differs: \(first) and on m\(machine.number) \(file), item \(item.id) \(item.title)")
        }
        first = first ?? (machine.number, file.path, file.text)
      }
    }
  }
}

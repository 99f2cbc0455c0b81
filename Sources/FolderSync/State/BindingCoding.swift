import MarfaBase

/// A binding's colder facts as JSON, and a whole binding as JSON for the records of landings.
extension Binding {
  /// Everything beside the columns of table `binding`.
  package var facts: JSON {
    var object = JSONObject()
    if let setAside { object["set_aside"] = .int(setAside) }
    if let agreed { object["agreed"] = .int(agreed) }
    if let line { object["line"] = .int(line) }
    if let landed { object["landed"] = .int(landed) }
    if let standsOn { object["stands_on"] = .int(standsOn) }
    if let showed { object["showed"] = showed.json }
    if let ownLines { object["own"] = ownLines.json }
    if !movedAway.isEmpty { object["moved"] = movedAway.json }
    if !spent.isEmpty { object["spent"] = .array(spent.map(\.json)) }
    if let lastSent { object["sent"] = ["line": .int(lastSent.line), "showed": lastSent.showed.json] }
    if !earlier.isEmpty {
      object["earlier"] = .object(
        JSONObject(earlier.sorted { $0.key < $1.key }.map { (Text(String($0.key)), .string($0.value.hex)) }))
    }
    if !ownEarlier.isEmpty { object["own_earlier"] = .array(ownEarlier.map { .string($0.hex) }) }
    if !edges.isEmpty { object["edges"] = .array(edges.map(\.json)) }
    if !lostEdges.isEmpty { object["lost_edges"] = .array(lostEdges.map(\.json)) }
    if !heldBack.isEmpty { object["held_back"] = .array(heldBack.map { .string($0.text) }) }
    if !refusals.isEmpty { object["refusals"] = .array(refusals.map(\.json)) }
    if !refusedDefaults.isEmpty { object["refused_defaults"] = .array(refusedDefaults.map { .string(Text($0)) }) }
    if !unseenEdges.isEmpty { object["unseen_edges"] = .array(unseenEdges.map { .string($0.hex) }) }
    if edgesOwed { object["edges_owed"] = true }
    if linesOwed { object["lines_owed"] = true }
    if !filled.isEmpty { object["filled"] = .object(filled) }
    if let titledAs { object["titled_as"] = .string(Text(hex(titledAs.bytes))) }
    if broughtByHand { object["brought"] = true }
    if let missed { object["missed"] = missed.json }
    if hold != nil, let heldHash { object["held"] = .string(heldHash.hex) }
    return .object(object)
  }

  /// Takes the facts in. Answers whether every one of them could be read: a fact that cannot be is never none, since a
  /// binding without its agreement would read its file as changed.
  mutating func read(facts: JSON) -> Bool {
    guard facts.object != nil else { return false }
    var isWhole = true
    func one<Value>(_ key: Text, _ read: (JSON) -> Value?) -> Value? {
      guard let kept = facts[key] else { return nil }
      let value = read(kept)
      if value == nil { isWhole = false }
      return value
    }
    func all<Value>(_ key: Text, _ read: (JSON) -> Value?) -> [Value] {
      one(key) { list in
        guard let list = list.array else { return nil }
        let values = list.compactMap(read)
        return values.count == list.count ? values : nil
      } ?? []
    }
    setAside = one("set_aside", \.int)
    agreed = one("agreed", \.int)
    line = one("line", \.int)
    landed = one("landed", \.int)
    standsOn = one("stands_on", \.int)
    showed = one("showed") { Showed(json: $0) }
    ownLines = one("own") { OwnLines(json: $0) }
    movedAway = MovedAway(json: one("moved") { $0.object == nil ? nil : $0 })
    spent = all("spent") { SpentLine(json: $0) }
    lastSent = one("sent") { sent in
      guard let line = sent["line"]?.int, let showed = Showed(json: sent["showed"]) else { return nil }
      return SentText(line: line, showed: showed)
    }
    for member in one("earlier", \.object)?.members ?? [] {
      if let version = Int(member.key.string), let digest = member.value.text.flatMap({ ContentHash($0) }) {
        earlier[version] = digest
      } else {
        isWhole = false
      }
    }
    ownEarlier = all("own_earlier") { $0.text.flatMap { ContentHash($0) } }
    edges = all("edges") { ShownEdge(json: $0) }
    lostEdges = all("lost_edges") { LostEdge(json: $0) }
    heldBack = all("held_back") { $0.text.flatMap { EntityID($0) } }
    edgesOwed = one("edges_owed", \.bool) ?? false
    filled = one("filled", \.object) ?? JSONObject()
    linesOwed = one("lines_owed", \.bool) ?? false
    titledAs = one("titled_as") { $0.text.flatMap(unhex).map { PathBytes(bytes: $0) } }
    broughtByHand = one("brought", \.bool) ?? false
    missed = one("missed") { Showed(json: $0) }
    heldHash = one("held") { $0.text.flatMap { ContentHash($0) } }
    refusals = all("refusals") { FileRefusal(json: $0) }
    refusedDefaults = all("refused_defaults") { $0.text?.string }
    // As earlier builds kept them, which held the file for good.
    let former = refusals.filter { $0.reason.hasPrefix("default edge ") }
    refusals.removeAll { former.contains($0) }
    refusedDefaults += former.map(\.reason)
    unseenEdges = all("unseen_edges") { $0.text.flatMap { ContentHash($0) } }
    return isWhole
  }

  /// The whole binding, for a record of a landing.
  package var json: JSON {
    var object: JSONObject = members([
      "item": .string(item.text), "path": .string(Text(hex(path.bytes))), "form": .int(form.rawValue), "facts": facts,
      "unmatched": .bool(unmatched),
    ])
    if let identity {
      object["identity"] = [
        "device": identity.device.map { .string(String($0)) } ?? .null, "inode": .string(String(identity.inode)),
        "birth": .int(identity.birth),
      ]
    }
    if let seen {
      object["seen"] = [
        "size": .string(String(seen.size)), "modified": .int(seen.modified), "executable": .bool(seen.executable),
        "read_at": .int(seen.readAt),
      ]
    }
    if let readHash { object["read"] = .string(readHash.hex) }
    if let writtenHash { object["written"] = .string(writtenHash.hex) }
    if let missingSince { object["missing"] = .int(missingSince.milliseconds) }
    if let hold { object["hold"] = ["flag": .string(hold.flag.rawValue), "reason": .string(hold.reason)] }
    return .object(object)
  }

  package init?(json: JSON) {
    guard let item = json["item"]?.text.flatMap({ EntityID($0) }), let path = json["path"]?.text.flatMap(unhex),
      let form = json["form"]?.int.flatMap(FileForm.init(rawValue:))
    else { return nil }
    self.init(item: item, path: PathBytes(bytes: path), form: form)
    guard let facts = json["facts"], read(facts: facts) else { return nil }
    unmatched = json["unmatched"]?.bool ?? false
    if let kept = json["identity"], let inode = kept["inode"]?.text.flatMap({ UInt64($0.string) }),
      let birth = kept["birth"]?.int
    {
      identity = StoredIdentity(
        device: kept["device"]?.text.flatMap { UInt64($0.string) }, inode: inode, birth: Int64(birth))
    }
    if let kept = json["seen"], let size = kept["size"]?.text.flatMap({ UInt64($0.string) }),
      let modified = kept["modified"]?.int, let executable = kept["executable"]?.bool, let at = kept["read_at"]?.int
    {
      seen = SeenStat(size: size, modified: Int64(modified), executable: executable, readAt: Int64(at))
    }
    readHash = json["read"]?.text.flatMap { ContentHash($0) }
    writtenHash = json["written"]?.text.flatMap { ContentHash($0) }
    missingSince = json["missing"]?.int.map { Timestamp(milliseconds: Int64($0)) }
    if let kept = json["hold"], let flag = kept["flag"]?.text.flatMap({ Flag(rawValue: $0.string) }) {
      hold = Hold(flag, kept["reason"]?.text?.string ?? "")
    }
  }
}

extension MovedAway {
  var json: JSON {
    var shown = JSONObject()
    for (tag, earlier) in tags.sorted(by: { $0.key < $1.key }) {
      shown[tag] = .array(earlier.sorted { !$0 && $1 }.map(JSON.bool))
    }
    return ["tags": .object(shown), "states": .array(states.sorted().map(JSON.string))]
  }

  init(json: JSON?) {
    self.init()
    for member in json?["tags"]?.object?.members ?? [] {
      tags[member.key] = Set((member.value.array ?? []).compactMap(\.bool))
    }
    states = Set((json?["states"]?.array ?? []).compactMap(\.text))
  }
}

extension SpentLine {
  var json: JSON {
    ["line": .int(line), "write": write.map { .string($0.text) } ?? .null, "when_landed": .bool(whenLanded)]
  }

  init?(json: JSON) {
    guard let line = json["line"]?.int else { return nil }
    self.init(
      line: line, write: json["write"]?.text.flatMap { EntityID($0) }, whenLanded: json["when_landed"]?.bool ?? false)
  }
}

extension ShownEdge {
  var json: JSON {
    var object: JSONObject = members([
      "edge": .string(edge.text), "type": .string(type), "other": .string(other.text), "place": .int(place.rawValue),
    ])
    if let embed { object["embed"] = .string(embed) }
    if let since { object["since"] = .int(since) }
    return .object(object)
  }

  init?(json: JSON) {
    guard let edge = json["edge"]?.text.flatMap({ EntityID($0) }), let type = json["type"]?.text,
      let other = json["other"]?.text.flatMap({ EntityID($0) }),
      let place = json["place"]?.int.flatMap(Place.init(rawValue:))
    else { return nil }
    self.init(
      edge: edge, type: type, other: other, place: place, embed: json["embed"]?.text, since: json["since"]?.int)
  }
}

extension LostEdge {
  var json: JSON {
    .object(
      members([
        "type": .string(type), "source": .bool(isSource), "other": .string(other.text), "place": .int(place.rawValue),
        "properties": .object(properties),
      ]))
  }

  init?(json: JSON) {
    guard let type = json["type"]?.text, let isSource = json["source"]?.bool,
      let other = json["other"]?.text.flatMap({ EntityID($0) }),
      let place = json["place"]?.int.flatMap(ShownEdge.Place.init(rawValue:)),
      let properties = json["properties"]?.object
    else { return nil }
    self.init(type: type, isSource: isSource, other: other, place: place, properties: properties)
  }
}

extension FileRefusal {
  var json: JSON {
    var object = members(["reason": .string(reason)])
    switch change {
    case .edit: object["change"] = "edit"
    case .tag(let tag):
      object["change"] = "tag"
      object["tag"] = .string(tag)
    case .untag(let tag):
      object["change"] = "untag"
      object["tag"] = .string(tag)
    case .state(let state):
      object["change"] = "state"
      object["state"] = .string(state)
    case .edge(let edge):
      object["change"] = "edge"
      object["edge"] = .string(edge.text)
    case .local: object["change"] = "local"
    }
    if let meaning { object["meaning"] = .string(meaning.hex) }
    if let missing { object["missing"] = .string(missing.text) }
    return .object(object)
  }

  init?(json: JSON) {
    let change: Change
    switch json["change"]?.text?.string {
    case "edit": change = .edit
    case "tag":
      guard let tag = json["tag"]?.text else { return nil }
      change = .tag(tag)
    case "untag":
      guard let tag = json["tag"]?.text else { return nil }
      change = .untag(tag)
    case "state":
      guard let state = json["state"]?.text else { return nil }
      change = .state(state)
    case "edge":
      guard let edge = json["edge"]?.text.flatMap({ EntityID($0) }) else { return nil }
      change = .edge(edge)
    case "local": change = .local
    default: return nil
    }
    self.init(
      change, json["reason"]?.text?.string ?? "", meaning: json["meaning"]?.text.flatMap { ContentHash($0) },
      missing: json["missing"]?.text.flatMap { EntityID($0) })
  }
}

private func hex(_ bytes: [UInt8]) -> String {
  let digits = Array("0123456789abcdef".utf8)
  return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}

private func unhex(_ text: Text) -> [UInt8]? {
  guard text.bytes.count % 2 == 0 else { return nil }
  var out: [UInt8] = []
  for place in stride(from: 0, to: text.bytes.count, by: 2) {
    guard let byte = UInt8(String(decoding: text.bytes[place..<place + 2], as: UTF8.self), radix: 16) else {
      return nil
    }
    out.append(byte)
  }
  return out
}

import MarfaBase

extension ServerConnection {
  /// Items whose title may be a name, asked by each title property and spelling: `contains` folds ASCII case alone, so
  /// what comes is more or other than what the name names, and the caller compares (D95.4, F-W10). Rows in the bin are left
  /// out; each item comes once.
  /// - Throws: `invalid` where more than five pages answer one question.
  package func lookUp(
    forms: [Text], titleFields: [Text], view: Text? = nil
  ) throws(MarfaError) -> [Item] {
    var found: [EntityID: Item] = [:]
    for field in titleFields {
      for form in forms {
        var query: [(String, Text)] = [
          ("tier", "all"), ("state", "any"), ("include", "metadata"), ("limit", "200"),
          ("filter", ServerConnection.filter(field, contains: form)),
        ]
        for page in 1...6 {
          if stop.isSet { throw stopped }
          guard page <= 5 else {
            throw MarfaError(.invalid, "more than 1,000 items may be named \(form); give the item's id instead")
          }
          let json = try request("GET", "/items", query: query, view: view).json()
          for row in json["data"]?.array ?? [] {
            guard let item = Item(row: row) else {
              throw MarfaError(.decoding, "a row of the server could not be read")
            }
            if !item.isTrashed { found[item.id] = item }
          }
          guard let next = json["next_cursor"]?.text else { break }
          query.removeAll { $0.0 == "cursor" }
          query.append(("cursor", next))
        }
      }
    }
    return found.values.sorted { $0.id < $1.id }
  }

  /// `properties.<field> contains "<text>"`: a quote is written `\"`, nothing else escapes, so backslashes at the end are
  /// left off (D95.4).
  static func filter(_ field: Text, contains text: Text) -> Text {
    var value: [UInt8] = []
    var bytes = text.bytes[...]
    while bytes.last == UInt8(ascii: "\\") { bytes = bytes.dropLast() }
    for byte in bytes {
      if byte == UInt8(ascii: "\"") { value.append(UInt8(ascii: "\\")) }
      value.append(byte)
    }
    return Text(
      bytes: Array("properties.".utf8) + field.bytes + Array(" contains \"".utf8) + value + [UInt8(ascii: "\"")])
  }

  /// An item as the server has it now, with its tags; nil where it answers `item_not_found`. Not certified: it proves
  /// nothing to the copy.
  package func readItem(_ id: EntityID) throws(MarfaError) -> Item? {
    let answer = try ask("GET", "/items/\(id)", query: [("include", "metadata")])
    guard answer.isSuccess else {
      let refusal = refusal(answer)
      if refusal.code == .notFound { return nil }
      throw refusal
    }
    guard let item = Item(row: try answer.json()) else {
      throw MarfaError(.decoding, "the item \(id) of the server could not be read")
    }
    return item
  }

  /// Items by id, those that the server answers, a hundred a request.
  package func bulkGet(_ ids: [EntityID]) throws(MarfaError) -> [Item] {
    var out: [Item] = []
    for start in stride(from: 0, to: ids.count, by: 100) {
      let asked = ids[start..<min(ids.count, start + 100)]
      let body: JSON = ["ids": .array(asked.map { .string($0.text) }), "include": ["metadata"]]
      let json = try request("POST", "/items/bulk-get", body: .bytes(body.write())).json()
      // Items and their metadata stand in two lists (I20.6, IQ2).
      var metadata: [Text: JSON] = [:]
      for entry in json["metadata"]?.array ?? [] { if let id = entry["item_id"]?.text { metadata[id] = entry } }
      for item in json["items"]?.array ?? json["data"]?.array ?? [] {
        guard let id = item["id"]?.text, let own = metadata[id], let read = Item(row: ["item": item, "metadata": own])
        else {
          throw MarfaError(.decoding, "a row of the server could not be read")
        }
        out.append(read)
      }
    }
    return out
  }

  /// What the credential says of itself (K2).
  package func currentKey() throws(MarfaError) -> JSON {
    try bounded { () throws(MarfaError) in try request("GET", "/keys/current").json() }
  }

  /// Refuses where another instance than the one a change expects answers; nothing was sent that changes anything (K17.3).
  func require(instance expected: EntityID) throws(MarfaError) {
    let root = try root()
    guard root.instanceID == expected else {
      throw MarfaError(
        .instanceChanged, "the instance \(root.instanceID) answers at \(origin), not \(expected); nothing was changed")
    }
  }
}

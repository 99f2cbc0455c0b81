import MarfaBase

/// What a bulk action does to each row it matched (I33).
enum BulkAction {
  case transition(Text)
  case purge
  case tags(add: [Text], remove: [Text])
  case tier(Text)
  /// Lays properties over, and moves the row where a type is named.
  case properties(JSONObject?, move: Text?)
  case occurred(Timestamp)

  /// The members that belong to one action.
  private static let own: [Text: Set<Text>] = [
    "transition": ["state"], "purge": ["confirm", "expected_ids"], "update_tags": ["add", "remove"],
    "update_tier": ["tier"], "update_properties": ["properties", "type", "retype"],
    "update_occurred_at": ["occurred_at"],
  ]
  /// The members every action takes.
  private static let common: Set<Text> = ["action", "filter", "dry_run", "max_items", "enable_fanout"]

  init(_ object: JSONObject) throws {
    let body = ItemBody(object: object)
    try body.declare(BulkAction.own.values.reduce(BulkAction.common) { $0.union($1) })
    guard let value = object["action"], !value.isNull else { throw Refusal.missing("action") }
    guard let name = value.text, let own = BulkAction.own[name] else {
      throw Refusal.invalid("action", "No such bulk action.")
    }
    for (key, _) in object.members where !BulkAction.common.contains(key) && !own.contains(key) {
      throw Refusal.invalid(key, "\(name) takes no \(key).")
    }
    switch name.string {
    case "transition":
      guard let state = try body.text("state") else { throw Refusal.missing("state") }
      guard ["active", "archived", "trashed"].contains(state) else {
        throw Refusal.invalid("state", "state is active, archived or trashed.")
      }
      self = .transition(state)
    case "purge":
      if object["dry_run"]?.bool != true, object["confirm"]?.text != "PURGE" {
        throw Refusal(400, "bulk_confirmation_required", "A bulk purge is confirmed with PURGE.")
      }
      self = .purge
    case "update_tags":
      func list(_ name: Text) throws -> [Text] {
        guard let value = object[name] else { return [] }
        return try ItemBody(object: JSONObject([(Text("tags"), value)])).tags() ?? []
      }
      let (add, remove) = (try list("add"), try list("remove"))
      if add.isEmpty, remove.isEmpty { throw Refusal.invalid("add", "update_tags names no tag.") }
      self = .tags(add: add, remove: remove)
    case "update_tier":
      guard let tier = try body.tier() else { throw Refusal.missing("tier") }
      self = .tier(tier)
    case "update_properties":
      let properties = try body.properties()
      var move: Text?
      if object["retype"]?.bool == true {
        guard let type = try body.text("type"), isTypeIdentifier(type), !isSystem(type) else {
          throw Refusal.invalid("type", "retype needs a type.")
        }
        move = type
      }
      if properties == nil, move == nil { throw Refusal.missing("properties") }
      self = .properties(properties, move: move)
    default:
      guard let occurred = try body.occurred(), let time = occurred else { throw Refusal.missing("occurred_at") }
      self = .occurred(time)
    }
  }

  /// The type rows are moved to, where they are.
  var move: Text? { if case .properties(_, let type) = self { type } else { nil } }
  var isPurge: Bool { if case .purge = self { true } else { false } }
}

/// The rows a bulk action is for.
extension Instance {
  private static let filterMembers: Set<Text> = [
    "type", "state", "source", "tier", "tags", "filter", "occurred_after", "occurred_before", "updated_after",
    "updated_before",
  ]

  /// The ids a filter matches, oldest row first: it narrows as the query of a listing does, active rows where it names no
  /// state, and never a `system.*` row.
  func matched(_ filter: JSONObject, atMost count: Int, _ call: Call) throws -> [EntityID] {
    let unknown = filter.keys.filter { !Instance.filterMembers.contains($0) }
    if !unknown.isEmpty {
      throw Refusal(
        400, "validation_error", "The filter names a member it does not have.",
        [
          "unknown_filter_fields": .array(unknown.map(JSON.string)),
          "errors": .array(unknown.map { ["path": .string("filter.\($0)"), "message": "Unknown member"] }),
        ])
    }
    var query: [String] = []
    var types: [Text]?
    for (name, value) in filter.members {
      let texts = value.array?.map(\.text) ?? [value.text]
      guard texts.allSatisfy({ $0 != nil }) else { throw Refusal.invalid("filter.\(name)", "\(name) is not a text.") }
      let list = texts.compactMap { $0 }.map(\.bytes).joined(separator: [UInt8(ascii: ",")])
      if name == "type" {
        types = commaList(Text(bytes: list))
        if types?.isEmpty ?? true { throw emptyFilter("type") }
      } else {
        query.append("\(name)=\(percentEncoded(list))")
      }
    }
    let listing = Call(
      InstanceRequest(method: "GET", target: "/items?" + query.joined(separator: "&")), requestID: call.requestID)
    listing.credential = call.credential
    var conditions: Conditions
    do { conditions = try narrow(listing, standardState: "active") } catch let refusal as Refusal {
      throw refusal.inFilter
    }
    if let types {
      let known = try knownTypes()
      var chosen: Set<Text> = []
      for type in types {
        do { chosen.formUnion(try typesNamed(type, known, call.credential)) } catch let refusal as Refusal {
          // A type nobody registered selects by its id (SF3.3).
          guard refusal.code == "unknown_type" else { throw refusal.inFilter }
          chosen.insert(type)
        }
      }
      conditions.add("i.type", in: chosen.filter { call.credential.reads($0) && !isSystem($0) }.sorted())
    }
    return try database.all(
      "SELECT i.id FROM item i WHERE \(conditions.whereClause) ORDER BY i.created, i.id LIMIT \(count)",
      conditions.values
    ) { $0.id(0) }.compactMap { $0 }
  }

  private func emptyFilter(_ name: Text) -> Refusal {
    Query.empty(name).inFilter
  }

  private func percentEncoded(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var out: [UInt8] = []
    for byte in bytes {
      if isAlphanumeric(byte) {
        out.append(byte)
      } else {
        out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: out, as: UTF8.self)
  }
}

extension Refusal {
  /// The refusal of a listing's parameter as that of a bulk body's filter: its path is `filter.<field>` (SF2.4).
  fileprivate var inFilter: Refusal {
    guard var details = details?.object else { return self }
    func prefixed(_ value: JSON) -> JSON { .string(Text("filter.\(value.text ?? "")")) }
    if let errors = details["errors"]?.array {
      details["errors"] = .array(
        errors.map { error in
          guard var object = error.object, let path = object["path"] else { return error }
          object["path"] = prefixed(path)
          return .object(object)
        })
    }
    if let empty = details["empty_parameters"]?.array { details["empty_parameters"] = .array(empty.map(prefixed)) }
    var refusal = self
    refusal.details = .object(details)
    return refusal
  }
}

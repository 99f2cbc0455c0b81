import LocalInstance
import MarfaBase
import Testing

/// What the scenario suites share: keys of given reach, edges by name, listings walked to their end.
extension Bench {
  /// A key of the maps given; what it may do beyond them is nothing.
  func mint(
    _ types: JSON = ["*": "write"], edges: JSON = ["*": "write"], metadata: JSON = ["*": "write"],
    extensions: JSON = ["*": "write"], permissions: [Text] = [], source: String? = nil
  ) -> String {
    var body = JSONObject()
    body["label"] = "Scene"
    body["type_permissions"] = types
    body["edge_permissions"] = edges
    body["metadata_permissions"] = metadata
    body["extension_permissions"] = extensions
    body["permissions"] = .array(permissions.map { JSON.string($0) })
    if let source { body["source"] = .string(Text(source)) }
    let made = send("POST", "/keys", .object(body), key: Bench.ownerKey)
    #expect(made.status == 201, "\(made.json.compact)")
    return made.json["key"]?.text?.string ?? ""
  }

  func edge(
    _ source: String, _ type: String, _ target: String, _ properties: JSON? = nil, id: String? = nil, key: String?
  ) -> Answer {
    var body = JSONObject()
    body["source_id"] = .string(Text(source))
    body["edge_type"] = .string(Text(type))
    body["target_id"] = .string(Text(target))
    body["properties"] = properties
    if let id { body["id"] = .string(Text(id)) }
    return send("POST", "/edges", .object(body), key: key)
  }

  func made(_ type: String, _ properties: JSON, _ more: JSON = [:], key: String? = nil) -> Answer {
    var object = JSONObject()
    object["type"] = .string(Text(type))
    object["properties"] = properties
    for (name, value) in more.object?.members ?? [] { object[name] = value }
    return send("POST", "/items", .object(object), key: key)
  }

  func task(_ title: String = "Task", _ more: JSON = [:]) -> String {
    made("core.task", ["title": .string(title)], more).id
  }

  func album() -> String { made("core.media.album", ["title": "Album"]).id }

  func folder(_ title: String = "Folder") -> String { send("POST", "/folders", ["title": .string(title)]).id }

  func trash(_ id: String) { expect(send("DELETE", "/items/\(id)", key: Bench.ownerKey), 200) }

  func newID() -> String { ids.next().description }

  /// Every row of a listing, following its cursors; stops after 100 pages.
  func walk(_ target: String, key: String? = nil) -> (rows: [JSON], pages: [Int]) {
    var rows: [JSON] = []
    var pages: [Int] = []
    var cursor: String?
    repeat {
      let mark = target.contains("?") ? "&" : "?"
      let answer = send("GET", target + (cursor.map { "\(mark)cursor=\($0)" } ?? ""), key: key)
      expect(answer, 200)
      rows += answer.data
      pages.append(answer.data.count)
      cursor = answer.json["next_cursor"]?.text?.string
    } while cursor != nil && pages.count < 100
    return (rows, pages)
  }

  func ids(_ target: String, key: String? = nil) -> [String] {
    walk(target, key: key).rows.map { $0["id"]?.text?.string ?? "" }
  }

  func registerEdge(_ id: String, _ cardinality: String = "many-to-many", _ more: JSON = [:]) -> Answer {
    var body = JSONObject()
    body["id"] = .string(Text(id))
    body["cardinality"] = .string(Text(cardinality))
    for (name, value) in more.object?.members ?? [] { body[name] = value }
    return send("POST", "/edge-types", .object(body))
  }
}

extension Answer {
  var edge: JSON { json["edge"] ?? .null }
  var message: String { json["error"]?["message"]?.text?.string ?? "" }
  func detail(_ name: Text) -> String? { details?[name]?.text?.string }
}

extension JSON {
  func string(_ name: Text) -> String? { self[name]?.text?.string }
}

/// Whether an answer refuses an edge for a constraint, and names what it concerns.
func expectConstraint(
  _ answer: Answer, _ constraint: String, _ more: [(Text, String)] = [],
  sourceLocation: SourceLocation = #_sourceLocation
) {
  expect(answer, 400, "edge_constraint_violation", sourceLocation: sourceLocation)
  #expect(answer.detail("constraint") == constraint, sourceLocation: sourceLocation)
  for (name, value) in more {
    #expect(answer.detail(name) == value, "\(answer.json.compact)", sourceLocation: sourceLocation)
  }
}

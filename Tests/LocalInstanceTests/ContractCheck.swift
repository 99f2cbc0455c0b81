import MarfaBase
import Testing

#if canImport(Glibc)
  import Glibc
#endif

/// Holds answers to the shapes of the contract's API document, of which `Fixtures/contract/openapi.json` keeps paths,
/// answers and schemas.
struct ContractCheck: Sendable {
  /// The document, or nil where it cannot be read.
  static let shared: ContractCheck? = ContractCheck()

  private let paths: [(segments: [String], operations: JSON)]
  private let components: JSON

  private init?() {
    let here = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    let file = (here.dropLast(3) + ["Fixtures", "contract", "openapi.json"]).joined(separator: "/")
    guard let stream = fopen(file, "r") else { return nil }
    defer { fclose(stream) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = fread(&buffer, 1, buffer.count, stream)
      if count == 0 { break }
      bytes += buffer[..<count]
    }
    guard let document = try? JSON(parsing: bytes), let components = document["components"] else { return nil }
    self.components = components
    paths = (document["paths"]?.object?.members ?? []).map { path, operations in
      (path.string.split(separator: "/").map(String.init), operations)
    }
  }

  /// What of an answer is not as the document says; nil where it is, or where the document does not know the door.
  func fault(method: String, target: String, status: Int, isJSON: Bool, code: String?, body: JSON) -> String? {
    let path = target.prefix { $0 != "?" }
    let segments = path.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
    guard let operations = operations(segments), let operation = operations[Text(method.lowercased())] else {
      return nil
    }
    guard let responses = operation["responses"] else { return nil }
    guard let declared = responses[Text("\(status)")] ?? responses["default"] else { return "status \(status)" }
    var response = declared
    if let name = reference(declared, "#/components/responses/") {
      guard let found = components["responses"]?[name] else { return "no response \(name)" }
      response = found
    }
    guard let content = response["content"] else { return nil }
    guard isJSON else { return nil }
    guard let schema = content["application/json"]?["schema"] else { return nil }
    return fault(body, schema, "").map { "\(status) \(code ?? ""): \($0)" }
  }

  /// Every operation of the document, as `GET /items/{id}`.
  var operations: Set<String> {
    Set(
      paths.flatMap { entry in
        (entry.operations.object?.keys ?? []).map { "\($0.string.uppercased()) \(ContractCheck.path(entry.segments))" }
      })
  }

  /// The operation a request is of.
  func operation(method: String, target: String) -> String? {
    let segments = target.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
    guard let entry = entry(segments), entry.operations[Text(method.lowercased())] != nil else { return nil }
    return "\(method) \(ContractCheck.path(entry.segments))"
  }

  private static func path(_ segments: [String]) -> String { "/" + segments.joined(separator: "/") }

  private func operations(_ segments: [String]) -> JSON? { entry(segments)?.operations }

  private func entry(_ segments: [String]) -> (segments: [String], operations: JSON)? {
    let fitting = paths.filter { entry in
      entry.segments.count == segments.count
        && zip(entry.segments, segments).allSatisfy { $0.hasPrefix("{") || $0 == $1 }
    }
    // A literal segment goes before a variable one.
    return fitting.min { left, right in
      left.segments.count { $0.hasPrefix("{") } < right.segments.count { $0.hasPrefix("{") }
    }
  }

  private func reference(_ value: JSON, _ prefix: String) -> Text? {
    guard let reference = value["$ref"]?.text, reference.bytes.starts(with: prefix.utf8) else { return nil }
    return Text(bytes: reference.bytes.dropFirst(prefix.utf8.count))
  }

  /// Where a value breaks a schema, or nil.
  private func fault(_ value: JSON, _ schema: JSON, _ path: String) -> String? {
    if let name = reference(schema, "#/components/schemas/") {
      guard let found = components["schemas"]?[name] else { return "\(path): no schema \(name)" }
      if let fault = fault(value, found, path) { return fault }
    }
    for part in schema["allOf"]?.array ?? [] { if let fault = fault(value, part, path) { return fault } }
    if let parts = schema["anyOf"]?.array {
      let faults = parts.map { fault(value, $0, path) }
      if faults.allSatisfy({ $0 != nil }) { return "\(path): none of \(faults.compactMap { $0 })" }
    }
    if let parts = schema["oneOf"]?.array {
      let faults = parts.map { fault(value, $0, path) }
      if faults.count(where: { $0 == nil }) != 1 { return "\(path): not one of \(faults.compactMap { $0 })" }
    }
    if let values = schema["enum"]?.array, !values.contains(value) { return "\(path): \(value.compact) is not listed" }
    if let constant = schema["const"], constant != value { return "\(path): \(value.compact)" }
    if let type = schema["type"] {
      let names = type.array?.compactMap { $0.text?.string } ?? [type.text?.string ?? ""]
      if !names.contains(where: { ContractCheck.isOf(value, $0) }) { return "\(path): \(value.compact) is no \(names)" }
    }
    return faultOfSize(value, schema, path) ?? faultOfMembers(value, schema, path)
  }

  private static func isOf(_ value: JSON, _ type: String) -> Bool {
    switch (type, value) {
    case ("null", .null), ("boolean", .bool), ("string", .string), ("array", .array), ("object", .object),
      ("number", .number):
      true
    case ("integer", .number(let number)): number.int != nil
    default: false
    }
  }

  private func faultOfSize(_ value: JSON, _ schema: JSON, _ path: String) -> String? {
    func bound(_ name: Text, _ size: Int?, _ fits: (Int, Int) -> Bool) -> String? {
      guard let bound = schema[name]?.int, let size, !fits(size, bound) else { return nil }
      return "\(path): \(name) \(bound)"
    }
    let text = value.text?.utf16Count
    return bound("minLength", text, >=) ?? bound("maxLength", text, <=)
      ?? bound("minItems", value.array?.count, >=) ?? bound("maxItems", value.array?.count, <=)
      ?? bound("minimum", value.int, >=) ?? bound("maximum", value.int, <=)
      ?? bound("minProperties", value.object?.count, >=) ?? bound("maxProperties", value.object?.count, <=)
  }

  private func faultOfMembers(_ value: JSON, _ schema: JSON, _ path: String) -> String? {
    if let items = schema["items"] {
      for (place, element) in (value.array ?? []).enumerated() {
        if let fault = fault(element, items, "\(path)/\(place)") { return fault }
      }
    }
    guard let object = value.object else { return nil }
    for name in schema["required"]?.array ?? [] {
      if let name = name.text, object[name] == nil { return "\(path): \(name) is missing" }
    }
    let known = schema["properties"]?.object ?? JSONObject()
    for (name, member) in object.members {
      if let schema = known[name] {
        if let fault = fault(member, schema, "\(path)/\(name)") { return fault }
      } else if let more = schema["additionalProperties"] {
        if more.bool == false { return "\(path): \(name) is not declared" }
        if more.object != nil, let fault = fault(member, more, "\(path)/\(name)") { return fault }
      }
    }
    return nil
  }
}

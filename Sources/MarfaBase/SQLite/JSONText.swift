import CSQLite

/// `json_spelled(text)`: a JSON text with its numbers as JavaScript spells them, which a filter compares (SF15.5); any other
/// value as it is. Every connection has it; no schema may use it, since another program's connection has not.
enum JSONText {
  static func register(on handle: OpaquePointer) {
    sqlite3_create_function_v2(
      handle, "json_spelled", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nil,
      { context, _, values in
        guard let value = values?[0] else { return }
        guard let text = sqlite3_value_text(value),
          let json = try? JSON(
            parsing: Array(UnsafeBufferPointer(start: text, count: Int(sqlite3_value_bytes(value)))))
        else { return sqlite3_result_value(context, value) }
        let spelled = JSONText.spelled(json).write()
        spelled.withUnsafeBytes {
          sqlite3_result_text(
            context, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count),
            unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        }
      }, nil, nil, nil)
  }

  private static func spelled(_ value: JSON) -> JSON {
    switch value {
    case .number(let number): JSONNumber(number.double).map(JSON.number) ?? value
    case .array(let values): .array(values.map(spelled))
    case .object(let object): .object(JSONObject(object.members.map { ($0.key, spelled($0.value)) }))
    case .null, .bool, .string: value
    }
  }
}

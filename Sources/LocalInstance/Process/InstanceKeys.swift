import CPosix
import MarfaBase

/// The keys of a running local instance, through its own doors with the owner's key (N2.8).
public struct InstanceKeys {
  private let home: InstanceHome
  private let transport: any Transport
  private let stop: StopFlag

  /// The keys of the instance whose data is at `home`. `transport` reaches `http://local` at its socket.
  public init(home: InstanceHome, transport: any Transport, stop: StopFlag) {
    self.home = home
    self.transport = transport
    self.stop = stop
  }

  /// Makes a key: the answer of `POST /keys`, its plaintext `key` among it, told this once (K5.1). It has a source of
  /// its own, which the door asks for.
  public func create(
    label: Text?, types: [(pattern: Text, level: Text)], edges: [(pattern: Text, level: Text)] = [],
    metadata: [(family: Text, level: Text)]
  ) throws(InstanceFailure) -> JSON {
    var random: UInt64 = 0
    guard withUnsafeMutableBytes(of: &random, { marfa_random($0.baseAddress, $0.count) }) == 0 else {
      throw .failed("the kernel gave no random bytes")
    }
    var body = JSONObject()
    body["label"] = .string(label ?? "a key of this computer")
    body["source"] = .string("key.\(String(random, radix: 16))")
    // Naming any family gives exactly those named (K5.2).
    if !types.isEmpty {
      body["type_permissions"] = .object(JSONObject(types.map { ($0.pattern, JSON.string($0.level)) }))
    }
    if !edges.isEmpty {
      body["edge_permissions"] = .object(JSONObject(edges.map { ($0.pattern, JSON.string($0.level)) }))
    }
    if !metadata.isEmpty {
      body["metadata_permissions"] = .object(JSONObject(metadata.map { ($0.family, JSON.string($0.level)) }))
    }
    return try ask("POST", "/keys", .object(body))
  }

  /// The keys without their secrets, oldest first. There is no door that lists them: this reads the instance's database.
  public func list() throws(InstanceFailure) -> JSON {
    do {
      let database = try Database(path: home.database.description, mode: .readOnly)
      try database.execute("PRAGMA busy_timeout = 5000")
      let keys = try database.all(
        "SELECT id, source, spec, created, expires, last_used FROM credential ORDER BY created, id"
      ) { row -> JSON in
        var key = JSONObject([("id", .string(row.text(0))), ("source", .string(row.text(1)))])
        if let spec = try? JSON(parsing: row.bytes(2)), case .object(let members) = spec {
          for (name, value) in members.members where name != "id" { key[name] = value }
        }
        for (place, name) in [(3, "created_at"), (4, "expires_at"), (5, "last_used_at")] as [(Int, Text)] {
          key[name] = row.isNull(place) ? .null : .string(Timestamp(milliseconds: Int64(row.int(place))).description)
        }
        return .object(key)
      }
      return ["keys": .array(keys)]
    } catch {
      throw .failed("the keys cannot be read: \(error)")
    }
  }

  /// Ends a key (K5.6).
  public func revoke(_ id: EntityID) throws(InstanceFailure) { _ = try ask("DELETE", "/keys/\(id)", nil) }

  private func ask(_ method: String, _ path: String, _ body: JSON?) throws(InstanceFailure) -> JSON {
    guard let key = try home.ownerKey() else { throw .failed("the instance at \(home.path) never ran") }
    var request = HTTPRequest(
      method: method, url: "http://local\(path)", headers: [HTTPHeader("Authorization", "Bearer \(key)")])
    if let body {
      request.headers.append(HTTPHeader("Content-Type", "application/json"))
      request.body = .bytes(body.write())
    }
    let answer: HTTPResponse
    do throws(TransportError) { answer = try transport.send(request, stop: stop) } catch {
      throw .notReady("this machine's own instance did not answer: \(error)")
    }
    let told = try? JSON(parsing: answer.body)
    guard (200...299).contains(answer.status) else {
      var code = "server"
      var message = "the instance refused it (\(answer.status))"
      if case .object(let members)? = told, case .object(let error)? = members["error"] {
        if case .string(let text)? = error["code"] { code = text.string }
        if case .string(let text)? = error["message"] { message = text.string }
      }
      throw .refused(status: answer.status, code: code, message: message)
    }
    return told ?? .null
  }
}

import LocalInstance
import MarfaBase
import MarfaCopy
import Testing
import TestSupport

/// Both sides have a filter; the tests of this room mean the copy's.
typealias Filter = MarfaCopy.Filter

/// A copy before the real instance, all in memory.
final class CopyBench {
  static let origin = "http://instance.test"
  static let key = "marfa_key_test_0123456789"

  let clock = ManualClock()
  let instance: Instance
  let transport: InstanceTransport
  let scheduler: ManualScheduler
  let context: Context
  let database: Database
  private(set) var copy: WorkingCopy

  init(seed: UInt64 = 7) throws {
    let ids = SeededIds(clock: clock, seed: seed)
    let instance = try Instance(
      database: try Database(path: ":memory:", mode: .create), blobs: MemoryBlobs(), clock: clock, ids: ids,
      ownerKey: CopyBench.key)
    self.instance = instance
    transport = InstanceTransport { instance.handle($0) }
    scheduler = ManualScheduler(clock: clock)
    context = Context(
      clock: clock, ids: SeededIds(clock: clock, seed: seed + 100), files: MemoryFileSystem(MemoryDisk(clock: clock)),
      transport: transport, scheduler: scheduler, log: SilentLog())
    database = try Database(path: ":memory:", mode: .create)
    copy = try WorkingCopy.open(
      database: database, blobs: MemoryBlobStore(), context: context, role: .writer,
      endpoint: Endpoint(baseURL: CopyBench.origin, credential: CopyBench.key), credentials: nil)
  }

  /// Opens another handle on the same store, at another address or with another key.
  func reopen(baseURL: String = CopyBench.origin, key: String = CopyBench.key) throws {
    copy = try WorkingCopy.open(
      database: database, blobs: copy.blobs, context: context, role: .writer,
      endpoint: Endpoint(baseURL: baseURL, credential: key), credentials: nil)
  }

  /// A request as another device makes it, past the copy's transport.
  @discardableResult
  func ask(_ method: String, _ target: String, _ body: JSON? = nil) throws -> JSON {
    clock.advance(nanoseconds: 5_000_000)
    let answer = instance.handle(
      InstanceRequest(
        method: method, target: target,
        headers: [
          HTTPHeader("Authorization", "Bearer \(CopyBench.key)"), HTTPHeader("Content-Type", "application/json"),
          HTTPHeader("Accept", "application/json"),
        ], body: body?.write() ?? []))
    guard case .whole(let response) = answer else { throw ScratchError("a stream") }
    let json = try response.body.isEmpty ? .null : JSON(parsing: response.body)
    guard (200..<300).contains(response.status) else {
      throw ScratchError("\(method) \(target): \(response.status) \(json.compact)")
    }
    return json
  }

  /// Makes a note on the instance; its id.
  @discardableResult
  func note(
    _ title: Text, body: Text = "Words.", type: Text = "core.note", tier: Text = "library", tags: [Text] = []
  ) throws -> EntityID {
    var draft = JSONObject()
    draft["type"] = .string(type)
    draft["tier"] = .string(tier)
    draft["properties"] = ["title": .string(title), "body": .string(body)]
    if !tags.isEmpty { draft["tags"] = .array(tags.map { .string($0) }) }
    let made = try ask("POST", "/items", .object(draft))
    return try #require(made["item"]?["id"]?.text.flatMap { EntityID($0) })
  }

  /// Makes an edge on the instance; its id.
  @discardableResult
  func edge(_ type: Text, _ source: EntityID, _ target: EntityID) throws -> EntityID {
    let made = try ask(
      "POST", "/edges",
      ["source_id": .string(source.text), "target_id": .string(target.text), "edge_type": .string(type)])
    return try #require(made["edge"]?["id"]?.text.flatMap { EntityID($0) })
  }

  /// Fills the copy with notes at `library`, `parent-of` held whole.
  @discardableResult
  func fill(
    _ types: [Text] = ["core.note"], tier: Text = "library", edges: [Text] = ["parent-of"]
  ) throws -> HydrateReport {
    try copy.hydrate(Slice(typeList: types, tier: tier, edgeTypes: edges))
  }

  /// The error a call throws.
  func refusal(_ work: () throws -> Void) -> MarfaError? {
    do {
      try work()
      return nil
    } catch let error as MarfaError {
      return error
    } catch {
      return MarfaError(.store, "\(error)")
    }
  }
}

struct ScratchError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

func titles(_ items: [Item]) -> [Text] { items.map { $0.properties["title"]?.text ?? "" } }

import LocalInstance
import MarfaBase
import PowerVFS
import TestSupport

/// The instance on a computer of its own, whose power may go too: what it answered must be there afterwards.
final class Server {
  let kill = KillSwitch()
  private(set) var instance: Instance
  private(set) var database: Database
  private let clock: ManualClock
  private let seed: UInt64
  private let blobs = MemoryBlobs()
  private let disk: String
  private var starts: UInt64 = 0

  init(clock: ManualClock, seed: UInt64, world: Int, sabotage: Sabotage) throws {
    self.clock = clock
    self.seed = seed
    disk = "/world\(world)/server/"
    marfa_power_watch(
      disk,
      { context, _, isSync in
        guard let context else { return 0 }
        let kill = Unmanaged<KillSwitch>.fromOpaque(context).takeUnretainedValue()
        return kill.reached(isSync == 1 ? "server sync" : "server write") ? 1 : 0
      }, Unmanaged.passUnretained(kill).toOpaque())
    marfa_power_ignore_syncs(disk, sabotage.breaks(.serverSyncSkipped) ? 1 : 0)
    (database, instance) = try Server.start(disk, clock, blobs, seed)
  }

  private static func start(
    _ disk: String, _ clock: ManualClock, _ blobs: MemoryBlobs, _ seed: UInt64
  ) throws -> (Database, Instance) {
    let database = try Database(path: "file:\(disk)instance.sqlite?vfs=power", mode: .create)
    let instance = try Instance(
      database: database, blobs: blobs, clock: clock, ids: SeededIds(clock: clock, seed: seed),
      ownerKey: World.ownerKey)
    return (database, instance)
  }

  /// Answers a request. Nobody hears what it says once it died.
  func handle(_ request: InstanceRequest) -> InstanceAnswer { instance.handle(request) }

  /// The bytes of a blob, which are words here.
  func text(of reference: Text) -> String {
    guard reference.string.hasPrefix("sha256:"), let hash = ContentHash(Text(String(reference.string.dropFirst(7)))),
      let bytes = blobs.read(hash, from: 0, count: .max)
    else { return "" }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Its power goes and comes back.
  func cutPower(seed cut: UInt64) throws {
    // What is closed now writes no more.
    kill.die()
    let memory = try Database(path: ":memory:", mode: .create)
    instance = try Instance(
      database: memory, blobs: blobs, clock: clock, ids: SeededIds(clock: clock, seed: 1), ownerKey: nil)
    database = memory
    marfa_power_cut(disk, cut)
    kill.reset()
    starts += 1
    (database, instance) = try Server.start(disk, clock, blobs, seed &+ starts &* 7919)
  }

  deinit { marfa_power_remove(disk) }
}

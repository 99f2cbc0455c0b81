import CPosix
import Glibc
import MarfaBase

/// How an instance is run (N2.1).
public struct InstanceRunOptions: Sendable {
  /// `ADDR:PORT` to listen on besides the private socket; port 0 for any.
  public var listen: String?
  /// Another unix socket to listen on besides.
  public var socket: PathBytes?
  /// Whether an address other than loopback is allowed (N2.4).
  public var allowPublic = false
  /// Ends by itself after so many seconds without a request or a held stream; 0 never.
  public var idleExitSeconds = 0

  /// The private socket alone, for ever.
  public init() {}
}

/// What a running instance says of itself once it is ready.
public struct InstanceReady: Sendable {
  /// `local`, or the address of `listen`.
  public var url: String
  /// The owner's key. Text output never shows it.
  public var ownerKey: String
  /// The identity of the data.
  public var instanceID: EntityID
  /// This process.
  public var pid: Int32
}

/// What a run needs of the engine it serves.
struct MadeEngine {
  var engine: any ServedEngine
  var instanceID: EntityID
  /// Called after the last answer: moves the log into the database.
  var close: () -> Void
}

extension InstanceHome {
  /// Runs an engine on this directory until `stop` is set or it was idle for long enough. Blocks.
  /// - Returns: whether every request under way was answered (EV17.2: exit 1 where not).
  func run(
    _ options: InstanceRunOptions, stop: StopFlag, clock: any Clock, ids: any IdSource,
    engine make: (_ home: InstanceHome, _ ownerKey: String, _ url: String) throws -> MadeEngine,
    ready: (InstanceReady) -> Void
  ) throws(InstanceFailure) -> Bool {
    try self.make()
    let lock: InstanceLock?
    do throws(FileError) { lock = try InstanceLock.take(lockFile) } catch { throw .failed("\(error)") }
    guard let lock else { throw .held(pid: InstanceLock.holder(lockFile).pid, data: path) }
    defer { withExtendedLifetime(lock) {} }
    let key = try mintedKey()
    // SQLite gives its log files the database's own mode, so that is 0600 before it is first opened.
    do throws(FileError) { try PrivateFile.touch(database) } catch { throw .failed("\(error)") }
    var listeners: [Listener] = []
    do throws(Listener.Failure) {
      listeners.append(try Listener.unix(socket))
      if let other = options.socket { listeners.append(try Listener.unix(other)) }
      if let address = options.listen {
        listeners.append(try Listener.tcp(address, allowPublic: options.allowPublic))
      }
    } catch {
      throw .invalid(error.description)
    }
    defer {
      for path in [socket, options.socket].compactMap({ $0 }) { _ = path.withCString { unlink($0) } }
      _ = statusFile.withCString { unlink($0) }
    }
    let url = listeners.last?.url ?? "local"
    let made: MadeEngine
    do { made = try make(self, key, url) } catch let error as InstanceFailure { throw error } catch {
      if let error = error as? SQLiteError, error.primaryCode == InstanceHome.noDatabase {
        throw .foreign("\(database) is no database; it was left as it is")
      }
      if case InstanceError.foreignDatabase(let number)? = error as? InstanceError {
        throw .foreign(
          "the database in \(path) was made by a newer build or another program (its schema is \(number)); it was left as it is"
        )
      }
      throw .failed("the data in \(path) cannot be opened: \(error)")
    }
    let status: JSON = [
      "pid": .int(getpid()), "url": .string(url), "since": .string(clock.now.description),
    ]
    do throws(FileError) { try PrivateFile.write(statusFile, status.write(), lasting: false) } catch {
      throw .failed("\(error)")
    }
    var serving = HTTPServer.Options()
    serving.idleExit = UInt64(max(0, options.idleExitSeconds)) * 1_000_000_000
    let server = HTTPServer(engine: made.engine, ids: ids, listeners: listeners, options: serving)
    // The sockets listen already: a client that connects now waits for the loop to begin.
    ready(InstanceReady(url: url, ownerKey: key, instanceID: made.instanceID, pid: getpid()))
    defer { made.close() }
    do throws(Listener.Failure) { return try server.run(stop: stop) } catch { throw .failed(error.description) }
  }
}

extension Instance: ServedEngine {}

extension InstanceHome {
  /// `SQLITE_NOTADB`.
  static let noDatabase: Int32 = 26

  /// Looks at the database before it is opened: one that is refused keeps every byte, its log's too (IN7.3).
  private func judgeDatabase() throws {
    do {
      try Schema.judge(try Database(path: database.description, mode: .look))
    } catch let error as SQLiteError where error.primaryCode != InstanceHome.noDatabase {
      // What cannot be looked at is told by the opening itself.
    }
  }

  /// Runs the instance on this directory until `stop` is set or it was idle for long enough (N2.1, N2.2). Blocks. The
  /// process ignores SIGPIPE from here on.
  /// - Parameters:
  ///   - signIn: who decides about sign-ins.
  ///   - ready: called once it listens, before the first answer.
  /// - Returns: whether every request under way was answered; a command exits 1 where not (EV17.2).
  /// - Throws: `.held` where another process runs it (N2.3).
  public func run(
    _ options: InstanceRunOptions, settings: InstanceSettings = InstanceSettings(),
    signIn: SignInPolicy = SignInPolicy { _ in },
    stop: StopFlag, clock: any Clock, ids: any IdSource, ready: (InstanceReady) -> Void
  ) throws(InstanceFailure) -> Bool {
    try run(
      options, stop: stop, clock: clock, ids: ids,
      engine: { home, key, url in
        try home.judgeDatabase()
        let database = try Database(path: home.database.description, mode: .readWrite)
        let instance = try Instance(
          database: database, blobs: try DirectoryBlobs(home.blobs), clock: clock, ids: ids, ownerKey: key)
        instance.settings = settings
        instance.givenRetentionHours = settings.eventRetentionHours
        instance.signInPolicy = signIn
        // What PUT /config was given stands above what the command was given.
        try instance.loadConfiguration()
        if url.utf8.starts(with: "http".utf8) { instance.settings.origin = url }
        instance.settings.streamsBlobs = true
        return MadeEngine(engine: instance, instanceID: instance.instanceID) {
          // Everything is durable already: this only spares the next start the log. A reader may keep it open.
          database.finalizeStatements()
          try? database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        }
      }, ready: ready)
  }
}

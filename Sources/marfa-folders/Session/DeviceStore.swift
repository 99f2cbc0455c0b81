import FolderSync
import MarfaBase
import MarfaCopy

/// Opens the working copy a `device` door names (C25).
struct DeviceStore {
  /// The command line's way to its server.
  let session: Session
  /// The store's file.
  let path: PathBytes
  private let reads: Bool

  /// The store of `--db`, else `MARFA_DB`.
  /// - Throws: `no_store` where neither names one.
  init(_ invocation: Invocation) throws(MarfaError) {
    session = Session(invocation)
    guard let named = invocation.value("db") ?? invocation.program.variable("MARFA_DB"),
      !Terminal.trimmed(named).isEmpty
    else { throw MarfaError(.noStore, "no store is named: give its path with --db or MARFA_DB") }
    path = invocation.program.absolute(PathBytes(named))
    reads = invocation.has("reader")
  }

  private var exists: Bool { ((try? session.context.files.status(path)) ?? nil) != nil }

  /// Opens the copy, with the server named where `asks`, and works on it; copy and claim live until `work` is done.
  /// - Parameters:
  ///   - makes: whether a store is made where none is (C25.1).
  ///   - reads: whether it is opened to read whatever `--reader` says (C25.2).
  func use<Value>(
    asks: Bool = false, makes: Bool = false, reads: Bool = false, _ work: (WorkingCopy) throws(MarfaError) -> Value
  ) throws(MarfaError) -> Value {
    let open = try open(makes: makes, reads: reads) { () throws(MarfaError) in
      asks ? try session.endpoint().endpoint : nil
    }
    defer { withExtendedLifetime(open) {} }
    return try work(open.copy)
  }

  /// Opens the copy with the server where one is named with a credential, and without one else.
  func useOptional<Value>(_ work: (WorkingCopy) throws(MarfaError) -> Value) throws(MarfaError) -> Value {
    let open = try open(makes: false, reads: false) { () throws(MarfaError) in try session.optionalEndpoint() }
    defer { withExtendedLifetime(open) {} }
    return try work(open.copy)
  }

  /// Refuses a drain of a folder whose first sync waits (C25.3). A store that is no folder's has none.
  static func refuseWaitingFirstSync(_ copy: WorkingCopy, _ path: PathBytes) throws(MarfaError) {
    guard path.name == storeName, path.parent.name == stateDirectoryName else { return }
    do {
      guard try FolderStore(copy.database, writer: true).firstSyncWaits else { return }
    } catch { throw MarfaError(any: error) }
    throw FolderEngine.firstSyncWaiting(path.parent.parent)
  }

  private func open(
    makes: Bool, reads: Bool, _ server: () throws(MarfaError) -> Endpoint?
  ) throws(MarfaError) -> OpenStore {
    guard exists || makes else {
      throw MarfaError(.noStore, "no store has been made at \(path); 'device --db \(path) hydrate' makes one")
    }
    // Nothing is made at the path where the server is missing (C25.1).
    let endpoint = try server()
    func opened(_ role: WorkingCopy.Role) throws(MarfaError) -> OpenStore {
      try OpenStore.open(
        path: path, context: session.context, role: role, endpoint: endpoint, credentials: session.renewing,
        stop: session.program.stop, looks: true)
    }
    let open: OpenStore
    do throws(MarfaError) { open = try opened(reads || self.reads ? .reader : .writer) } catch {
      // A second opener reads, and is refused what it may not do when it does that (D3.1, D3.2).
      guard error.code == .readingHandle else { throw error }
      open = try opened(.reader)
    }
    // What a folder's files were agreed on is kept though its copy moves on by this door (N6.2).
    if open.copy.role == .writer, path.name == storeName, path.parent.name == stateDirectoryName {
      do { try FolderStore(open.copy.database, writer: true).keepPassedRows(of: open.copy) } catch {
        throw MarfaError(any: error)
      }
    }
    return open
  }
}

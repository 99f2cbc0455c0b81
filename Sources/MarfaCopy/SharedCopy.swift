import Dispatch
import MarfaBase
import Synchronization

/// A working copy open to callers on any thread, one call at a time (D202.6, D208).
///
///     let shared = SharedCopy(open)
///     let note = try shared.call { copy throws(MarfaError) in try copy.get(id) }
///     try shared.useKey("marfa_...")
///     shared.close()
package final class SharedCopy: @unchecked Sendable {
  // Unchecked: `open` is reached on `line` alone, everything else lies under `state`.

  private struct Filled {
    var number: Int
    var key: Int
    var report: HydrateReport
  }

  private struct State {
    var isClosed = false
    var isChanging = false
    var waiting = 0
    /// How many keys were used so far, and how many fills ended.
    var keys = 0
    var fills = 0
    var last: Filled?
  }

  private let line = DispatchQueue(label: "marfa.copy")
  private var open: OpenStore?
  private let state = Mutex(State())

  /// Takes over an open store; nobody else may use it any more.
  package init(_ open: sending OpenStore) { self.open = open }

  /// How many calls run or wait.
  package var callCount: Int { state.withLock { $0.waiting } }

  /// Whether a close was asked for.
  package var isClosed: Bool { state.withLock { $0.isClosed } }

  /// Runs a call with the copy, after those that came before it.
  /// - Throws: `key_changing` while the key changes, `closed` after a close, what the call throws.
  package func call<Value>(_ work: (WorkingCopy) throws(MarfaError) -> Value) throws(MarfaError) -> Value {
    try admit()
    defer { state.withLock { $0.waiting -= 1 } }
    return try onLine(work)
  }

  /// Fills the copy. One fill runs at a time; a call that waited for one of the same slice under the same key has its
  /// report (D202.6).
  package func hydrate(_ slice: Slice) throws(MarfaError) -> HydrateReport {
    let begun = state.withLock { $0.fills }
    return try call { (copy) throws(MarfaError) in
      let (last, key) = state.withLock { ($0.last, $0.keys) }
      if let last, last.number > begun, last.key == key, last.report.slice == slice { return last.report }
      let report = try copy.hydrate(slice)
      state.withLock { state in
        state.fills += 1
        state.last = Filled(number: state.fills, key: key, report: report)
      }
      return report
    }
  }

  /// Takes another key up in memory once the running calls have ended; calls made meanwhile are refused (D208.1).
  /// - Throws: `no_server` where none is named, `key_changing` where another change is under way, `closed`.
  package func useKey(_ key: String) throws(MarfaError) {
    try admit(changing: true)
    defer {
      state.withLock { state in
        state.isChanging = false
        state.waiting -= 1
      }
    }
    try onLine { (copy) throws(MarfaError) in
      guard copy.server.endpoint != nil else { throw MarfaError(.noServer, "no server is named") }
      copy.server.use(credential: key)
    }
    state.withLock { $0.keys += 1 }
  }

  /// Lets running calls finish and releases the writer role; later calls throw `closed`, and a second close returns once it
  /// is released (D208.2).
  package func close() {
    state.withLock { $0.isClosed = true }
    line.sync { open = nil }
  }

  private func admit(changing: Bool = false) throws(MarfaError) {
    let refusal: MarfaError? = state.withLock { state in
      if state.isClosed { return MarfaError(.closed, "the working copy is closed") }
      if state.isChanging { return MarfaError(.keyChanging, "the working copy's key is changing; call again after it") }
      state.isChanging = changing
      state.waiting += 1
      return nil
    }
    if let refusal { throw refusal }
  }

  private func onLine<Value>(_ work: (WorkingCopy) throws(MarfaError) -> Value) throws(MarfaError) -> Value {
    let result: Result<Value, MarfaError> = line.sync {
      guard let open else { return .failure(MarfaError(.closed, "the working copy is closed")) }
      do throws(MarfaError) { return .success(try work(open.copy)) } catch { return .failure(error) }
    }
    return try result.get()
  }
}

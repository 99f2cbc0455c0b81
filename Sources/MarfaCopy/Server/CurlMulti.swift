import CCurl
import Glibc
import MarfaBase
import Synchronization

/// Initialised once for the process, before the first handle.
private let isCurlReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

/// A multi handle, the connections it keeps and the easy handles it lends.
///
/// Unchecked Sendable because it is handed over whole: `CurlTransport` lends it to one pool or stream, whose one thread
/// alone touches it until it is given back under the transport's lock. `waker` is the one part other threads use.
final class CurlMulti: @unchecked Sendable {
  /// Ends a wait in `poll` from any thread.
  final class Waker: Sendable {
    private let handle: Mutex<UInt>

    fileprivate init(_ handle: UnsafeMutableRawPointer) { self.handle = Mutex(UInt(bitPattern: handle)) }

    @Sendable func wake() {
      handle.withLock { bits in
        if let handle = UnsafeMutableRawPointer(bitPattern: bits) { curl_multi_wakeup(handle) }
      }
    }

    /// After this the handle may go.
    fileprivate func close() { handle.withLock { $0 = 0 } }
  }

  private let handle: UnsafeMutableRawPointer
  private var spare: [UnsafeMutableRawPointer] = []
  let waker: Waker
  /// What is on the wire, in the order it was added.
  private(set) var active: [CurlTransfer] = []

  init?() {
    guard isCurlReady, let handle = curl_multi_init() else { return nil }
    self.handle = handle
    waker = Waker(handle)
    _ = marfa_curl_multi_set_long(handle, CURLMOPT_MAXCONNECTS, 32)
  }

  deinit {
    waker.close()
    removeAll()
    for easy in spare { curl_easy_cleanup(easy) }
    curl_multi_cleanup(handle)
  }

  /// Puts a transfer on the wire. Where that fails, the transfer holds why and false is returned.
  func add(_ transfer: CurlTransfer, options: CurlTransport.Options) -> Bool {
    guard let easy = spare.popLast() ?? curl_easy_init() else {
      transfer.fail(.unreachable("libcurl could not start"))
      return false
    }
    guard transfer.prepare(easy, options: options), curl_multi_add_handle(handle, easy) == CURLM_OK else {
      if transfer.failure == nil { transfer.fail(.unreachable("libcurl could not start the request")) }
      transfer.release()
      recycle(easy)
      return false
    }
    active.append(transfer)
    return true
  }

  /// Moves bytes, without waiting. Returns what ended, in the order it ended.
  @discardableResult
  func perform() -> [CurlTransfer] {
    guard !active.isEmpty else { return [] }
    var running: Int32 = 0
    curl_multi_perform(handle, &running)
    var ended: [CurlTransfer] = []
    var left: Int32 = 0
    while let message = curl_multi_info_read(handle, &left) {
      guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
        let transfer = active.first(where: { $0.easy == easy })
      else { continue }
      transfer.end(message.pointee.data.result)
      remove(transfer)
      ended.append(transfer)
    }
    return ended
  }

  /// Waits for a socket, a timer of libcurl's, a wake or the deadline.
  func poll(until deadline: UInt64, now: UInt64) {
    let milliseconds = deadline <= now ? 0 : min((deadline - now + 999_999) / 1_000_000, 600_000)
    curl_multi_poll(handle, nil, 0, Int32(milliseconds), nil)
  }

  /// Takes a transfer off the wire. One that is under way loses its connection.
  func remove(_ transfer: CurlTransfer) {
    guard let place = active.firstIndex(where: { $0 === transfer }), let easy = transfer.easy else { return }
    active.remove(at: place)
    curl_multi_remove_handle(handle, easy)
    transfer.release()
    recycle(easy)
  }

  /// Takes everything off the wire.
  func removeAll() {
    for transfer in active { remove(transfer) }
  }

  private func recycle(_ easy: UnsafeMutableRawPointer) {
    guard spare.count < CurlPool.width else {
      curl_easy_cleanup(easy)
      return
    }
    curl_easy_reset(easy)
    spare.append(easy)
  }
}

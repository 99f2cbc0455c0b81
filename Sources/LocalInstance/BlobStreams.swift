import MarfaBase

/// A blob's bytes, read piece by piece as the reader takes them (B-S33).
final class BlobSource: EventSource {
  private let blobs: any InstanceBlobs
  private let hash: ContentHash
  private var at: Int
  private let end: Int
  var unread = 0
  let isPushed = false

  init(_ blobs: any InstanceBlobs, _ hash: ContentHash, from start: Int, count: Int) {
    self.blobs = blobs
    self.hash = hash
    at = start
    end = start + count
  }

  func take() -> [UInt8]? {
    guard at < end, let bytes = try? blobs.read(hash, from: at, count: min(1 << 18, end - at)), !bytes.isEmpty else {
      return nil
    }
    at += bytes.count
    return bytes
  }

  func close() { at = end }
}

/// Uploads whose bytes the shell writes as they come.
extension Instance {
  func beginUpload(_ request: InstanceRequest) -> UploadStart {
    let call = Call(request, requestID: ids.next().description)
    do {
      call.credential = try authenticate(call)
      _ = try judgeUpload(call)
      try judgeRoom(call.header("content-length").flatMap { Int($0) } ?? 0)
      return .incoming(try blobs.begin())
    } catch {
      return .refused(finish(.refused(refusal(error)), call))
    }
  }

  func refusal(ofUpload incoming: any ArrivingBlob) -> HTTPResponse? {
    do {
      try judgeRoom(0)
      return nil
    } catch {
      return finish(
        .refused(refusal(error)),
        Call(InstanceRequest(method: "POST", target: "/blobs"), requestID: ids.next().description))
    }
  }

  func handle(_ request: InstanceRequest, upload incoming: any ArrivingBlob) -> InstanceAnswer {
    self.incoming = incoming
    defer { self.incoming = nil }
    return handle(request)
  }
}

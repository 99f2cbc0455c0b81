import MarfaBase

/// The request of a queued write, as its kind's door takes it (Q32.3).
enum Door {
  /// Method, path, headers without the credential's, and body.
  struct Request {
    var method: String
    /// Absolute path with the query, percent-encoded.
    var path: String
    var headers: [HTTPHeader]
    var body: HTTPBody
  }

  /// The request of a write; nil where it can't be put on the wire as it stands (Q19.2).
  /// - Parameter bytes: for an upload, its bytes.
  static func request(_ write: QueuedWrite, upload bytes: HTTPBody? = nil) -> Request? {
    guard let path = path(write) else { return nil }
    var headers: [HTTPHeader] = []
    var body = HTTPBody.none
    switch write.kind {
    case .uploadBlob:
      guard let bytes, let mime = write.mimeType, mime.isHeaderSafe else { return nil }
      headers.append(HTTPHeader("Content-Type", mime.string))
      body = bytes
    case .createItem, .updateItem, .transitionItem, .createEdge, .updateEdge, .replaceMetadata, .mergeMetadata, .addTag,
      .writeExtension:
      guard let text = write.bodyText else { return nil }
      headers.append(HTTPHeader("Content-Type", "application/json"))
      body = .bytes(text.bytes)
    case .deleteItem, .restoreItem, .deleteEdge, .removeTag, .deleteExtension: break
    }
    // On every JSON door (Q3.5); an upload is idempotent by its hash.
    if write.kind != .uploadBlob {
      guard write.idempotencyKey.isHeaderSafe else { return nil }
      headers.append(HTTPHeader("Idempotency-Key", write.idempotencyKey.string))
    }
    let query = write.query.isEmpty ? "" : "?\(write.query.string)"
    return Request(method: write.kind.method, path: path + query, headers: headers, body: body)
  }

  /// The path, each segment encoded by itself (Q32.6).
  private static func path(_ write: QueuedWrite) -> String? {
    switch write.kind {
    case .createItem: return "/items"
    case .createEdge: return "/edges"
    case .uploadBlob: return "/blobs"
    case .updateEdge, .deleteEdge: return write.edgeID.map { "/edges/\($0)" }
    case .updateItem, .deleteItem: return write.itemID.map { "/items/\($0)" }
    case .restoreItem: return write.itemID.map { "/items/\($0)/restore" }
    case .transitionItem: return write.itemID.map { "/items/\($0)/transition" }
    case .replaceMetadata, .mergeMetadata: return write.itemID.map { "/items/\($0)/metadata" }
    case .addTag: return write.itemID.map { "/items/\($0)/tags" }
    case .removeTag:
      guard let item = write.itemID, let tag = write.tag else { return nil }
      return "/items/\(item)/tags/\(percentEncoded(tag))"
    case .writeExtension, .deleteExtension:
      guard let item = write.itemID, let namespace = write.namespace else { return nil }
      return "/items/\(item)/extensions/\(percentEncoded(namespace))"
    }
  }

  /// A path segment: everything but unreserved characters encoded. `.` and `..` would be taken for steps, so a segment of
  /// dots alone is encoded too.
  static func percentEncoded(_ text: Text) -> String {
    let dots = text.bytes.allSatisfy { $0 == UInt8(ascii: ".") }
    let digits = Array("0123456789ABCDEF".utf8)
    var out: [UInt8] = []
    for byte in text.bytes {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
        out.append(byte)
      case UInt8(ascii: ".") where !dots: out.append(byte)
      default: out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: out, as: UTF8.self)
  }
}

extension Text {
  /// Whether it can stand in a header line: printable ASCII, not empty.
  var isHeaderSafe: Bool { !isEmpty && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
}

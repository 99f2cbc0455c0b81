import MarfaBase

/// Where bytes lie by their hash, beside the store and never in it (B10, X10). Used from one thread.
package protocol BlobStore: AnyObject {
  /// Whether the bytes of a hash are there.
  func has(_ hash: ContentHash) -> Bool
  /// Opens them; nil where they are not there. Another failure (permissions, too many open files) is thrown (Q37.4).
  func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)?
  /// How many bytes a hash has; nil where it is not there.
  func size(_ hash: ContentHash) -> Int64?
  /// The absolute path of the file they lie in; nil where they are in memory.
  func path(_ hash: ContentHash) -> PathBytes?
  /// Begins to take bytes in: under their hash only once they are whole (B10.2).
  func incoming() throws(FileError) -> any IncomingBlob
  /// Takes them away.
  func remove(_ hash: ContentHash)
  /// The hashes held with their sizes, the one read longest ago first (X10.3).
  func all() -> [(hash: ContentHash, size: Int64)]
}

/// Bytes on their way into a blob store.
package protocol IncomingBlob: AnyObject {
  /// Takes in more bytes.
  func write(_ bytes: [UInt8]) throws(FileError)
  /// Ends it: kept under its hash, which is answered. Where `expecting` names another hash nothing is kept (D37.2).
  func finish(expecting: ContentHash?) throws(FileError) -> ContentHash
  /// Drops it.
  func abandon()
}

extension BlobStore {
  /// Keeps bytes; the hash they lie under.
  package func put(_ bytes: [UInt8]) throws(FileError) -> ContentHash {
    let incoming = try incoming()
    try incoming.write(bytes)
    return try incoming.finish(expecting: nil)
  }

  /// Copies a file's bytes in, whatever their number; the hash and the size.
  package func put(from file: any ReadableFile) throws(FileError) -> (hash: ContentHash, size: Int64) {
    let incoming = try incoming()
    var size: Int64 = 0
    do throws(FileError) {
      while true {
        let piece = try file.read(limit: 1 << 18)
        if piece.isEmpty { break }
        size += Int64(piece.count)
        try incoming.write(piece)
      }
      return (try incoming.finish(expecting: nil), size)
    } catch {
      incoming.abandon()
      throw error
    }
  }

  /// All the bytes of a hash; for small ones.
  package func bytes(_ hash: ContentHash) throws(FileError) -> [UInt8]? {
    guard let file = try open(hash) else { return nil }
    var out: [UInt8] = []
    while true {
      let piece = try file.read(limit: 1 << 18)
      if piece.isEmpty { return out }
      out += piece
    }
  }
}

import MarfaBase

/// Bytes by hash in memory, for the simulation and tests.
package final class MemoryBlobStore: BlobStore {
  private var blobs: [ContentHash: [UInt8]] = [:]
  private var use: [ContentHash] = []

  /// An empty store.
  package init() {}

  package func has(_ hash: ContentHash) -> Bool { blobs[hash] != nil }
  package func size(_ hash: ContentHash) -> Int64? { blobs[hash].map { Int64($0.count) } }
  package func path(_ hash: ContentHash) -> PathBytes? { nil }

  package func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)? {
    guard let bytes = blobs[hash] else { return nil }
    touch(hash)
    return MemoryFile(bytes: bytes)
  }

  package func incoming() throws(FileError) -> any IncomingBlob { Incoming(store: self) }

  package func remove(_ hash: ContentHash) {
    blobs[hash] = nil
    use.removeAll { $0 == hash }
  }

  package func all() -> [(hash: ContentHash, size: Int64)] { use.map { ($0, Int64(blobs[$0]?.count ?? 0)) } }

  private func touch(_ hash: ContentHash) {
    use.removeAll { $0 == hash }
    use.append(hash)
  }

  private final class Incoming: IncomingBlob {
    private let store: MemoryBlobStore
    private var bytes: [UInt8] = []

    init(store: MemoryBlobStore) { self.store = store }

    func write(_ bytes: [UInt8]) throws(FileError) { self.bytes += bytes }

    func finish(expecting: ContentHash?) throws(FileError) -> ContentHash {
      let hash = ContentHash(of: bytes)
      guard expecting == nil || expecting == hash else { return hash }
      store.blobs[hash] = bytes
      store.touch(hash)
      return hash
    }

    func abandon() { bytes = [] }
  }
}

/// Bytes in memory read as a file.
package final class MemoryFile: ReadableFile {
  private let bytes: [UInt8]
  private var at = 0

  /// A file of these bytes.
  package init(bytes: [UInt8]) { self.bytes = bytes }

  package func status() throws(FileError) -> FileStatus {
    FileStatus(
      kind: .regular, mode: 0o600, size: UInt64(bytes.count), modified: 0, changed: 0, device: 0, inode: 0, birth: nil)
  }

  package func read(limit: Int) throws(FileError) -> [UInt8] {
    let piece = Array(bytes[at..<min(bytes.count, at + limit)])
    at += piece.count
    return piece
  }

  package func hasWriter() -> Bool? { false }
  package func attributes() throws(FileError) -> [(name: String, value: [UInt8])] { [] }
}

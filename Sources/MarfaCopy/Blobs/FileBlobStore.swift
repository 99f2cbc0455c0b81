import Glibc
import MarfaBase

/// Bytes by hash in a directory beside the store: one file for each digest, 0600 in 0700, whole or not there (X10, B10).
package final class FileBlobStore: BlobStore {
  private let place: PathBytes
  private let files: any FileSystem
  private let ids: any IdSource
  private var opened: (any Directory)?

  /// A store in the directory `path`, which is made when bytes first come.
  package init(path: PathBytes, files: any FileSystem, ids: any IdSource) {
    place = path
    self.files = files
    self.ids = ids
  }

  private func directory(making: Bool) throws(FileError) -> any Directory {
    if let opened { return opened }
    if making {
      // Missing parents are none of ours to narrow; the directory itself is the owner's alone (D50.1).
      try files.syncNames(of: try files.makeDirectories(place, mode: 0o700))
    }
    let directory = try files.openDirectory(place)
    opened = directory
    return directory
  }

  private func name(_ hash: ContentHash) -> PathBytes { PathBytes(hash.hex) }

  package func has(_ hash: ContentHash) -> Bool { size(hash) != nil }

  package func size(_ hash: ContentHash) -> Int64? {
    guard let directory = try? directory(making: false), let status = try? directory.status(of: name(hash)),
      status.kind == .regular
    else { return nil }
    return Int64(status.size)
  }

  package func path(_ hash: ContentHash) -> PathBytes? { place.appending(name(hash)) }

  package func open(_ hash: ContentHash) throws(FileError) -> (any ReadableFile)? {
    do throws(FileError) { return try directory(making: false).open(name(hash)) } catch {
      if error.code == ENOENT { return nil }
      throw error
    }
  }

  package func remove(_ hash: ContentHash) {
    guard let directory = try? directory(making: false) else { return }
    try? directory.unlink(name(hash))
  }

  package func all() -> [(hash: ContentHash, size: Int64)] {
    guard let directory = try? directory(making: false), let entries = try? directory.list() else { return [] }
    var found: [(hash: ContentHash, size: Int64, used: Int64)] = []
    for entry in entries {
      guard let hash = ContentHash(entry.name.text), entry.name.bytes.count == 64,
        let status = try? directory.status(of: entry.name)
      else { continue }
      found.append((hash, Int64(status.size), status.modified))
    }
    return found.sorted { $0.used < $1.used }.map { ($0.hash, $0.size) }
  }

  /// Takes away what dead processes left half-written, more than an hour old (X10.2).
  package func sweepIncoming(now: Timestamp) {
    guard let directory = try? directory(making: false), let entries = try? directory.list() else { return }
    for entry in entries where entry.name.bytes.starts(with: ".incoming-".utf8) {
      guard let status = try? directory.status(of: entry.name),
        status.modified / 1_000_000 < now.milliseconds - 3_600_000
      else { continue }
      try? directory.unlink(entry.name)
    }
  }

  package func incoming() throws(FileError) -> any IncomingBlob {
    let directory = try directory(making: true)
    let name = PathBytes(".incoming-\(ids.next())")
    return Incoming(
      file: try directory.create(name, mode: 0o600, exactMode: true), name: name, directory: directory)
  }

  private final class Incoming: IncomingBlob {
    private let file: any WritableFile
    private let name: PathBytes
    private let directory: any Directory
    private var digest = Digest()

    init(file: any WritableFile, name: PathBytes, directory: any Directory) {
      self.file = file
      self.name = name
      self.directory = directory
    }

    func write(_ bytes: [UInt8]) throws(FileError) {
      digest.update(bytes)
      try file.write(bytes)
    }

    func finish(expecting: ContentHash?) throws(FileError) -> ContentHash {
      let hash = digest.finish()
      guard expecting == nil || expecting == hash else {
        abandon()
        return hash
      }
      do throws(FileError) {
        try file.sync()
        try file.close()
        try directory.rename(name, to: directory, as: PathBytes(hash.hex), .replace)
        try directory.sync()
        return hash
      } catch {
        try? directory.unlink(name)
        throw error
      }
    }

    func abandon() {
      try? file.close()
      try? directory.unlink(name)
    }
  }
}

/// A running hash held by a class: the hasher itself is a value that is used up when it ends.
final class Digest {
  private var hasher: ContentHasher? = ContentHasher()

  func update(_ bytes: [UInt8]) { hasher?.update(bytes) }

  func finish() -> ContentHash {
    guard let hasher = hasher.take() else { return ContentHash(of: []) }
    return hasher.finish()
  }
}

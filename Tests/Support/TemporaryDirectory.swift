import Glibc
import MarfaBase

/// A directory of its own for one test on the real disk, taken away with it.
package final class TemporaryDirectory {
  /// Its absolute path, links followed.
  package let path: PathBytes

  /// Makes one.
  package init() throws {
    var template = Array("/tmp/marfa-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw FileError(code: errno, operation: "mkdtemp", path: "/tmp") }
    path = try SystemFileSystem().resolve(PathBytes(bytes: template.dropLast().map { UInt8(bitPattern: $0) }))
  }

  deinit { TemporaryDirectory.remove(path) }

  /// Takes a directory away with all in it, as a person's `rm -rf`.
  package static func remove(_ path: PathBytes) {
    let files = SystemFileSystem()
    guard let parent = try? files.openDirectory(path.parent) else { return }
    remove(path.name, in: parent)
  }

  private static func remove(_ name: PathBytes, in parent: any Directory) {
    if (try? parent.unlink(name)) != nil { return }
    try? parent.setMode(name, 0o700)
    if let directory = try? parent.directory(name) {
      for entry in (try? directory.list()) ?? [] { remove(entry.name, in: directory) }
    }
    try? parent.removeDirectory(name)
  }
}

extension FileSystem {
  /// Writes a file as a person would, for tests: over what is there.
  package func put(_ path: PathBytes, _ text: String, mode: UInt32 = 0o644) throws {
    _ = try makeDirectories(path.parent, mode: 0o755)
    let directory = try openDirectory(path.parent)
    let temporary = PathBytes(bytes: Array(".put-".utf8) + path.name.bytes)
    let file = try directory.create(temporary, mode: mode, exactMode: true)
    try file.write(Array(text.utf8))
    try file.close()
    try directory.rename(temporary, to: directory, as: path.name, .replace)
  }

  /// A file's text; nil where it can't be read.
  package func text(_ path: PathBytes) -> String? {
    guard let file = try? openDirectory(path.parent).open(path.name) else { return nil }
    var bytes: [UInt8] = []
    while let more = try? file.read(limit: 1 << 16), !more.isEmpty { bytes += more }
    return String(decoding: bytes, as: UTF8.self)
  }
}

import CPosix
import Glibc
import MarfaBase

/// A directory of a test's own, gone with it.
///
///     let scratch = try ScratchDirectory()
///     try scratch.write("Notes/Plan.md", "# Plan\n")
package final class ScratchDirectory: Sendable {
  /// Its absolute path, no link in it.
  package let path: String

  /// Makes one below the system's temporary directory.
  package init() throws {
    var template = Array("/tmp/marfa-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw ScratchError("mkdtemp: \(String(cString: strerror(errno)))") }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { removeTree(path) }

  /// A path inside it.
  package func at(_ name: String) -> String { name.isEmpty ? path : "\(path)/\(name)" }

  /// Makes a directory and its parents inside it.
  @discardableResult
  package func makeDirectory(_ name: String) throws -> String {
    var made = path
    for part in name.split(separator: "/") {
      made += "/\(part)"
      guard mkdir(made, 0o755) == 0 || errno == EEXIST else {
        throw ScratchError("mkdir \(made): \(String(cString: strerror(errno)))")
      }
    }
    return made
  }

  /// Writes a file, parents included.
  @discardableResult
  package func write(_ name: String, _ text: String) throws -> String { try write(name, Array(text.utf8)) }

  /// Writes a file, parents included.
  @discardableResult
  package func write(_ name: String, _ bytes: [UInt8]) throws -> String {
    if let slash = name.lastIndex(of: "/") { try makeDirectory(String(name[..<slash])) }
    let descriptor = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw ScratchError("open \(at(name)): \(String(cString: strerror(errno)))") }
    defer { close(descriptor) }
    guard marfa_write_all(descriptor, bytes, bytes.count) == 0 else { throw ScratchError("write \(at(name))") }
    return at(name)
  }

  /// The bytes of a file; nil where there is none.
  package func bytes(_ name: String) -> [UInt8]? { fileBytes(at(name)) }

  /// The text of a file; nil where there is none.
  package func text(_ name: String) -> String? { bytes(name).map { String(decoding: $0, as: UTF8.self) } }

  /// Paths of all regular files beneath a directory of it, relative to that directory, in order; `.marfa` left out.
  package func files(_ name: String = "") -> [String] {
    var found: [String] = []
    collect(at(name), "", &found)
    return found.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  private func collect(_ directory: String, _ prefix: String, _ found: inout [String]) {
    for name in names(of: directory) where name != ".marfa" {
      var status = stat()
      guard lstat("\(directory)/\(name)", &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFDIR {
        collect("\(directory)/\(name)", "\(prefix)\(name)/", &found)
      } else if status.st_mode & S_IFMT == S_IFREG {
        found.append(prefix + name)
      }
    }
  }
}

/// Why a test's own preparation failed.
package struct ScratchError: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

/// The bytes of a file; nil where it can't be read.
package func fileBytes(_ path: String) -> [UInt8]? {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return nil }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 65536)
  while true {
    let count = read(descriptor, &piece, piece.count)
    if count < 0, errno == EINTR { continue }
    if count <= 0 { return count == 0 ? bytes : nil }
    bytes += piece[..<count]
  }
}

/// The names in a directory, `.` and `..` left out.
package func names(of directory: String) -> [String] {
  guard let stream = opendir(directory) else { return [] }
  defer { closedir(stream) }
  var names: [String] = []
  while let entry = readdir(stream) {
    let name = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
    if name != ".", name != ".." { names.append(name) }
  }
  return names
}

/// Removes a directory and all in it, following no link.
package func removeTree(_ path: String) {
  var status = stat()
  guard lstat(path, &status) == 0 else { return }
  if status.st_mode & S_IFMT == S_IFDIR {
    chmod(path, 0o700)
    for name in names(of: path) { removeTree("\(path)/\(name)") }
    rmdir(path)
  } else {
    unlink(path)
  }
}

/// Copies a directory's regular files and directories to a new place, as `cp -r`.
package func copyTree(_ from: String, to target: String) throws {
  guard mkdir(target, 0o755) == 0 || errno == EEXIST else { throw ScratchError("mkdir \(target)") }
  for name in names(of: from) {
    var status = stat()
    guard lstat("\(from)/\(name)", &status) == 0 else { continue }
    if status.st_mode & S_IFMT == S_IFDIR {
      try copyTree("\(from)/\(name)", to: "\(target)/\(name)")
    } else if let bytes = fileBytes("\(from)/\(name)") {
      let descriptor = open("\(target)/\(name)", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
      guard descriptor >= 0 else { throw ScratchError("open \(target)/\(name)") }
      defer { close(descriptor) }
      guard marfa_write_all(descriptor, bytes, bytes.count) == 0 else { throw ScratchError("write \(target)/\(name)") }
    }
  }
}

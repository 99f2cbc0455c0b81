import Glibc

/// A point at which a test may step in, named after what comes next.
public enum FaultPoint: Sendable, Hashable {
  /// A temporary file is about to be made durable.
  case sync
  /// Mode, attributes and owner are about to be set.
  case attributes
  /// The target is about to be looked at once more.
  case lastLook
  /// The target was looked at, the rename is not begun.
  case afterLastLook
  /// The rename is about to happen.
  case rename
  /// The bytes of a file taken in across file systems are about to be copied.
  case copy
  /// That copy is about to be published.
  case copyPublish
  /// The text of a document is about to be made.
  case render
  /// A listed file is about to be looked at by the walk.
  case walk
  /// A folder was taken off the list, its directory is not emptied yet.
  case unlisted
}

/// Where a test stands in for what it cannot time (C27.1). Passed in with the `Context`; outside tests it is `.none`.
///
/// The engine calls `reached` at each point with the file's name and its directory. A door may change the directory
/// there, fail the step by throwing, or end the process.
public struct FaultDoor: Sendable {
  /// What happens at a point.
  public typealias Act = @Sendable (FaultPoint, PathBytes, any Directory) throws(FileError) -> Void

  private let act: Act?

  /// Nothing ever happens.
  public static let none = FaultDoor(nil)

  /// A door of a test's own.
  public init(_ act: Act?) { self.act = act }

  /// Called by the engine.
  public func reached(_ point: FaultPoint, _ name: PathBytes, in directory: any Directory) throws(FileError) {
    try act?(point, name, directory)
  }
}

/// What `MARFA_TEST_FAULT` asks for: `<fault>[:<name>]`.
public enum TestFault: Sendable {
  /// The door of the engine's points, and the disk with the faults of calls laid over it. Unknown faults do nothing, and
  /// a release build ignores the variable.
  public static func reading(_ value: String?, over files: any FileSystem) -> (door: FaultDoor, files: any FileSystem) {
    #if DEBUG
      guard let value, !value.isEmpty else { return (.none, files) }
      var parts = value.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      if parts[0] == "errno", parts.count >= 3 {
        guard let code = errorNumbers[parts[1]], let operation = FileOperation(rawValue: parts[2]) else {
          return (.none, files)
        }
        let name = parts.count > 3 ? PathBytes(parts[3...].joined(separator: ":")) : nil
        return (.none, FaultyFileSystem(files, Faults.failing(operation, name: name, code: code)))
      }
      let fault = parts.removeFirst()
      let name = parts.isEmpty ? nil : PathBytes(parts.joined(separator: ":"))
      if fault == "resolve-hangs" {
        let faults = Faults { call in
          guard call.operation == .resolve, name == nil || call.name.name == name else { return .proceed }
          while true { pause() }
        }
        return (.none, FaultyFileSystem(files, faults))
      }
      return (door(fault, name), files)
    #else
      return (.none, files)
    #endif
  }

  #if DEBUG
    private static let errorNumbers: [String: Int32] = [
      "ENOSPC": ENOSPC, "EDQUOT": EDQUOT, "EIO": EIO, "EACCES": EACCES, "EPERM": EPERM, "ENOENT": ENOENT,
      "EROFS": EROFS, "ESTALE": ESTALE, "ETIMEDOUT": ETIMEDOUT, "EINVAL": EINVAL, "ENOSYS": ENOSYS, "EXDEV": EXDEV,
      "EMFILE": EMFILE, "ENAMETOOLONG": ENAMETOOLONG, "EOPNOTSUPP": EOPNOTSUPP, "ENOLCK": ENOLCK, "EEXIST": EEXIST,
      "EBUSY": EBUSY, "ELOOP": ELOOP, "ENOTDIR": ENOTDIR, "EFBIG": EFBIG,
    ]

    private static func door(_ fault: String, _ wanted: PathBytes?) -> FaultDoor {
      FaultDoor { (point, name, directory) throws(FileError) in
        guard wanted == nil || wanted == name else { return }
        switch (fault, point) {
        case ("sync-failure", .sync), ("copy-failure", .copy):
          throw FileError(code: EIO, operation: fault == "copy-failure" ? "copy" : "sync", path: name)
        case ("attribute-failure", .attributes):
          throw FileError(code: EOPNOTSUPP, operation: "set attribute", path: name)
        case ("render-failure", .render): throw FileError(code: EIO, operation: "render", path: name)
        case ("landing-rename", .rename): throw FileError(code: EXDEV, operation: "rename", path: name)
        case ("crash-before-rename", .rename), ("crash-before-copy-publish", .copyPublish),
          ("crash-after-unlisting", .unlisted):
          kill(getpid(), SIGKILL)
        case ("create-before-rename", .rename), ("save-before-last-look", .lastLook),
          ("save-after-last-look", .afterLastLook):
          try save("What the person saved meanwhile.\n", name, in: directory)
        case ("symlink-before-rename", .rename):
          try? directory.unlink(name)
          try directory.makeLink(name, to: "/nowhere-at-all")
        case ("vanish-while-walking", .walk): vanish(name, in: directory)
        default: break
        }
      }
    }

    /// Deletes a file, or a directory with all in it.
    private static func vanish(_ name: PathBytes, in directory: any Directory) {
      if (try? directory.unlink(name)) != nil { return }
      if let inner = try? directory.directory(name) {
        for entry in (try? inner.list()) ?? [] { vanish(entry.name, in: inner) }
      }
      try? directory.removeDirectory(name)
    }

    /// Saves as an editor does: another file renamed over the name.
    private static func save(_ text: String, _ name: PathBytes, in directory: any Directory) throws(FileError) {
      let temporary = PathBytes(bytes: Array(".fault-".utf8) + name.bytes)
      let file = try directory.create(temporary, mode: 0o644, exactMode: false)
      try file.write(Array(text.utf8))
      try file.close()
      try directory.rename(temporary, to: directory, as: name, .replace)
    }
  #endif
}

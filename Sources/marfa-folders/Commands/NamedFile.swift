import FolderSync
import MarfaBase
import MarfaCopy

/// The DIR and FILE of a command that looks at one file.
struct NamedFile {
  static let arguments = [
    Argument("DIR", "The folder's directory."),
    Argument("FILE", "The file, as it is called from DIR or from here."),
  ]

  /// The folder's directory as the command names it.
  let directory: PathBytes
  /// The file, below the folder's root.
  let path: PathBytes

  /// Reads the two arguments. FILE is taken from DIR, and where nothing is there from the working directory.
  /// - Throws: `invalid` where it lies outside DIR.
  init(_ invocation: Invocation, _ work: FolderWork) throws(MarfaError) {
    let files = SystemFileSystem()
    let directory = namedDirectory(invocation)
    self.directory = directory
    let root = try work.root(of: directory)
    let named = PathBytes(invocation.argument(1) ?? "")
    guard !named.isEmpty else { throw MarfaError(.invalid, "no file is named") }
    // The file need not be there: its directory is what is looked up.
    func inside(_ path: PathBytes) -> PathBytes? {
      let parent = (try? files.resolve(path.parent)) ?? path.parent
      let whole = parent.appending(path.name)
      guard root.contains(whole), whole != root else { return nil }
      return PathBytes(bytes: whole.bytes.dropFirst(root == "/" ? 1 : root.bytes.count + 1))
    }
    let isAbsolute = named.bytes.first == UInt8(ascii: "/")
    let below = isAbsolute ? named : root.appending(named)
    let here = invocation.program.absolute(named)
    let isThere = ((try? files.status(below)) ?? nil) != nil
    let choices =
      isThere || isAbsolute ? [below] : [here, below].filter { ((try? files.status($0)) ?? nil) != nil } + [below]
    guard let found = choices.lazy.compactMap(inside).first else {
      throw MarfaError(.invalid, "\(named) lies outside \(directory)")
    }
    path = found
  }
}

private func namedDirectory(_ invocation: Invocation) -> PathBytes { directory(of: invocation) }

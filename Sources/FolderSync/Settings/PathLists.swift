import MarfaBase

/// Which paths a folder takes: the built-in lists, then ignore, then include (F25).
///
///     let lists = try PathLists(include: ["*.md"], ignore: ["drafts/"])
///     lists.takes("Notes/Plan.md")
package struct PathLists: Sendable {
  /// What becomes of a path.
  package enum Verdict: Hashable, Sendable {
    /// The folder takes it.
    case taken
    /// Its name, or a directory's on its way, is on a built-in list.
    case builtIn(BuiltInNames.List)
    /// It lies in a package.
    case package
    /// Its name, or a directory's on its way, begins with a dot and no include line names it.
    case dotLed
    /// The ignore list removes it.
    case ignored
    /// The include list does not name it.
    case notIncluded

    /// Whether the folder takes it.
    package var isTaken: Bool { self == .taken }
  }

  private let include: [Pattern]
  private let ignore: [Pattern]
  private var width: Width = .settings

  /// How much of the settings counts.
  private enum Width { case settings, dotLed, nothing }

  /// No settings: everything but what is built in and what is dot-led.
  package static let unset = PathLists()

  private init() {
    include = []
    ignore = []
  }

  /// As widely as the built-in lists allow, and into the dot-led directories these lists include (F43).
  var widened: PathLists {
    var lists = self
    lists.width = .dotLed
    return lists
  }

  /// Everything the built-in lists leave alone, dot-led names too (F41.4).
  static var everything: PathLists {
    var lists = PathLists()
    lists.width = .nothing
    return lists
  }

  /// The lists of a folder's settings.
  /// - Throws: `PatternRefusal` naming the list and the first line that is no pattern (F25.9).
  package init(include: [Text], ignore: [Text]) throws(PatternRefusal) {
    self.include = try PathLists.read(include, "include")
    self.ignore = try PathLists.read(ignore, "ignore")
  }

  private static func read(_ lines: [Text], _ list: String) throws(PatternRefusal) -> [Pattern] {
    var patterns: [Pattern] = []
    for line in lines {
      do throws(PatternRefusal) {
        if let pattern = try Pattern(line) { patterns.append(pattern) }
      } catch {
        var named = error
        named.list = list
        throw named
      }
    }
    return patterns
  }

  /// Whether a file at this path is taken.
  package func takes(_ path: PathBytes) -> Bool { verdict(on: path).isTaken }

  /// Why a file at this path is taken or not. A path that is no UTF-8 is never asked for: the walk holds it (F27.8).
  package func verdict(on path: PathBytes) -> Verdict {
    let components = path.components
    for directory in components.dropLast() {
      if let list = BuiltInNames.list(directory: directory) { return .builtIn(list) }
      if BuiltInNames.isPackage(directory) { return .package }
    }
    if let name = components.last, let list = BuiltInNames.list(file: name) { return .builtIn(list) }
    let folded = FoldedPath(path)
    return verdict(on: folded)
  }

  /// Whether the settings take a file of a directory the walk entered; its name is on no built-in list.
  func takes(_ name: PathBytes, in directory: FoldedPath) -> Bool {
    if include.isEmpty, ignore.isEmpty, name.bytes.first != 0x2E { return true }
    return verdict(on: FoldedPath(names: directory.names + [FoldedName(name)])).isTaken
  }

  /// The settings' part of the answer, for a path the built-in lists leave alone.
  func verdict(on path: FoldedPath) -> Verdict {
    if width == .nothing { return .taken }
    guard path.names.allSatisfy({ !$0.isDotLed || namesDotLed($0) }) else { return .dotLed }
    if width == .dotLed { return .taken }
    if decide(ignore, path, isDirectory: false) == true { return .ignored }
    if include.isEmpty { return .taken }
    return decide(include, path, isDirectory: false) == true ? .taken : .notIncluded
  }

  /// Whether the walk enters this directory: something below it could be taken. Its parents were entered.
  package func enters(directory path: PathBytes) -> Bool {
    let name = path.name
    return BuiltInNames.list(directory: name) == nil && !BuiltInNames.isPackage(name) && reaches(directory: path)
  }

  /// Whether the settings leave room for a file below this directory. One they leave out is neither walked nor
  /// reported (F26.5).
  package func reaches(directory path: PathBytes) -> Bool { reaches(FoldedPath(path)) }

  func reaches(_ directory: FoldedPath) -> Bool {
    if width == .nothing { return true }
    if let name = directory.names.last, name.isDotLed, !namesDotLed(name) { return false }
    if width == .dotLed { return true }
    if decide(ignore, directory, isDirectory: true) == true,
      !ignore.contains(where: { $0.isNegated && $0.couldMatchBelow(directory) })
    {
      return false
    }
    return include.isEmpty || decide(include, directory, isDirectory: true) == true
      || include.contains { !$0.isNegated && $0.couldMatchBelow(directory) }
  }

  /// F25.5: judged by the name alone, by the lines that are no `!` lines.
  private func namesDotLed(_ name: FoldedName) -> Bool { include.contains { !$0.isNegated && $0.namesDotLed(name) } }

  /// F25.4: the last line that matches the path decides; only where none does, the last that matches its parent, and so
  /// on. True: the list names it. False: a `!` line took it back. Nil: no line says anything.
  private func decide(_ list: [Pattern], _ path: FoldedPath, isDirectory: Bool) -> Bool? {
    if list.isEmpty { return nil }
    var at = path
    var isDirectory = isDirectory
    while !at.names.isEmpty {
      if let line = list.last(where: { $0.matches(at, isDirectory: isDirectory) }) { return !line.isNegated }
      at = at.parent
      isDirectory = true
    }
    return nil
  }
}

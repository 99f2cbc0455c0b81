import Glibc
import MarfaBase
import MarfaCopy

/// The files that start `watch` at sign-in (N4): a user unit of systemd, or an entry of the desktop's autostart.
struct Autostart {
  /// Which of the two.
  enum Kind: String { case systemd, xdg }

  private let program: Program
  private let files = SystemFileSystem()
  private let config: PathBytes

  /// The files of this person.
  /// - Throws: `invalid` where there is no home to keep them in.
  init(_ program: Program) throws(MarfaError) {
    self.program = program
    if let config = program.environment["XDG_CONFIG_HOME"], config.bytes.first == UInt8(ascii: "/") {
      self.config = PathBytes(config)
    } else if let home = program.environment["HOME"], home.bytes.first == UInt8(ascii: "/") {
      config = PathBytes(home).appending(".config")
    } else {
      throw MarfaError(.invalid, "neither HOME nor XDG_CONFIG_HOME is set, so there is no place to start anything from")
    }
  }

  // MARK: Where

  private static let unitName: PathBytes = "marfa-folders.service"
  /// The first line of a file of ours: only such a file is written over or removed (N4.1).
  private static let mark = "# Written by marfa-folders autostart; 'marfa-folders autostart disable' removes it."

  private func place(_ kind: Kind) -> PathBytes {
    switch kind {
    case .systemd: config.appending("systemd/user").appending(Autostart.unitName)
    case .xdg: config.appending("autostart/marfa-folders.desktop")
    }
  }

  /// The link that has the manager start the unit at sign-in, as `systemctl --user enable` makes it.
  private var wanted: PathBytes {
    config.appending("systemd/user/default.target.wants").appending(Autostart.unitName)
  }

  // MARK: What

  /// The program as a word of a kind's file: quoted, its specifiers doubled. A unit names no program whose path holds a
  /// quote or a backslash, however they are written; an entry of the desktop does.
  private func word(_ kind: Kind) throws(MarfaError) -> String {
    guard let path = String(validating: program.executable.bytes, as: UTF8.self),
      !path.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F })
    else {
      throw MarfaError(
        .invalid, "the program lies at \(program.executable), a path neither a unit nor an entry can name")
    }
    let doubled = path.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%%")
    guard kind == .xdg else {
      guard !path.unicodeScalars.contains(where: { "\"'\\$`".unicodeScalars.contains($0) }) else {
        throw MarfaError(
          .invalid,
          "the program lies at \(program.executable), a path no unit can name; --xdg starts it from the desktop")
      }
      return "\"\(doubled)\""
    }
    // Escaped once within the quotes, and each backslash once more as every value of the file is.
    var word = ""
    for scalar in doubled.unicodeScalars {
      switch scalar {
      case "\"", "`", "$": word += "\\\\"
      case "\\": word += "\\\\\\"
      default: break
      }
      word.unicodeScalars.append(scalar)
    }
    return "\"\(word)\""
  }

  private func text(_ kind: Kind) throws(MarfaError) -> String {
    switch kind {
    case .systemd:
      // N4.3: nothing here keeps the watch from a folder wherever it stands, and what it starts runs as units of its own.
      """
      \(Autostart.mark)
      [Unit]
      Description=Keeps directories of notes in step with a Marfa server

      [Service]
      Type=notify
      ExecStart=\(try word(kind)) watch
      Restart=on-failure
      RestartSec=5
      RestartPreventExitStatus=5
      WatchdogSec=180
      TimeoutStopSec=30
      CPUWeight=20
      IOWeight=20
      LockPersonality=yes
      RestrictRealtime=yes

      [Install]
      WantedBy=default.target

      """
    case .xdg:
      """
      \(Autostart.mark)
      [Desktop Entry]
      Type=Application
      Name=Marfa folders
      Comment=Keeps directories of notes in step with a Marfa server
      Exec=\(try word(kind)) watch
      Terminal=false
      NoDisplay=true

      """
    }
  }

  // MARK: Doing

  /// Whether a user manager of systemd answers.
  var managerAnswers: Bool { runTool(["systemctl", "--user", "show-environment"], [], quiet: true) == 0 }

  /// Writes the file of a kind and starts the unit. Running it again writes it anew.
  /// - Returns: the file.
  func enable(_ kind: Kind, force: Bool) throws(MarfaError) -> PathBytes {
    let place = place(kind)
    let text = try text(kind)
    if !force, let found = try read(place), !Autostart.isOurs(found) {
      throw MarfaError(
        .invalid, "\(place) was written by somebody else and is left as it is; --force writes over it")
    }
    try write(text, to: place)
    guard kind == .systemd else { return place }
    do throws(FileError) {
      try files.syncNames(of: try files.makeDirectories(wanted.parent, mode: 0o700))
    } catch { throw MarfaError(error) }
    _ = wanted.withCString { unlink($0) }
    guard wanted.withCString({ link in place.withCString { symlink($0, link) } }) == 0 else {
      throw MarfaError(.io, "\(wanted) could not be made: \(String(cString: strerror(errno)))")
    }
    do throws(FileError) { try files.openDirectory(wanted.parent).sync() } catch { throw MarfaError(error) }
    // Without a manager the unit starts at the next sign-in.
    if managerAnswers {
      _ = runTool(["systemctl", "--user", "daemon-reload"], [], quiet: true)
      _ = runTool(["systemctl", "--user", "--no-block", "restart", "marfa-folders.service"], [], quiet: true)
    }
    return place
  }

  /// Takes both away and stops the unit; files somebody else wrote stay.
  /// - Returns: what was removed.
  func disable() throws(MarfaError) -> [PathBytes] {
    let manager = managerAnswers
    var removed: [PathBytes] = []
    for kind in [Kind.systemd, .xdg] {
      let place = place(kind)
      guard let found = try read(place), Autostart.isOurs(found) else { continue }
      if kind == .systemd {
        if manager { _ = runTool(["systemctl", "--user", "stop", "marfa-folders.service"], [], quiet: true) }
        _ = wanted.withCString { unlink($0) }
        // The directory is the person's where anything else lies in it.
        _ = wanted.parent.withCString { rmdir($0) }
      }
      guard place.withCString({ unlink($0) }) == 0 else {
        throw MarfaError(.io, "\(place) could not be removed: \(String(cString: strerror(errno)))")
      }
      removed.append(place)
    }
    if manager, !removed.isEmpty { _ = runTool(["systemctl", "--user", "daemon-reload"], [], quiet: true) }
    return removed
  }

  /// `enabled`, `running` and `files` (N4.2).
  func status() throws(MarfaError) -> JSON {
    var kinds: [Kind] = []
    for kind in [Kind.systemd, .xdg] {
      if let found = try read(place(kind)), Autostart.isOurs(found) { kinds.append(kind) }
    }
    let running =
      kinds.first == .systemd
      && runTool(["systemctl", "--user", "is-active", "--quiet", "marfa-folders.service"], [], quiet: true) == 0
    return [
      "enabled": .string(kinds.first?.rawValue ?? "none"), "running": .bool(running),
      "files": .array(kinds.map { .string(place($0).text) }),
    ]
  }

  // MARK: Files

  private static func isOurs(_ bytes: [UInt8]) -> Bool { bytes.starts(with: mark.utf8) }

  /// A file's bytes; nil where there is none.
  private func read(_ place: PathBytes) throws(MarfaError) -> [UInt8]? {
    guard ((try? files.status(place)) ?? nil) != nil else { return nil }
    return try readFile(place, in: files, limit: 1 << 16)
  }

  /// Writes a file whole or not at all.
  private func write(_ text: String, to place: PathBytes) throws(MarfaError) {
    do throws(FileError) {
      try files.syncNames(of: try files.makeDirectories(place.parent, mode: 0o700))
      let directory = try files.openDirectory(place.parent)
      let name = PathBytes(bytes: Array(".".utf8) + place.name.bytes + Array(".\(getpid())".utf8))
      if try directory.status(of: name) != nil { try directory.unlink(name) }
      let file = try directory.create(name, mode: 0o644, exactMode: true)
      try file.write(Array(text.utf8))
      try file.sync()
      try file.close()
      guard place.parent.appending(name).withCString({ from in place.withCString { rename(from, $0) } }) == 0 else {
        throw FileError(code: errno, operation: "rename", path: place)
      }
      try directory.sync()
    } catch { throw MarfaError(error) }
  }
}

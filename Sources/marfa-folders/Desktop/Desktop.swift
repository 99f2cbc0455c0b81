import FolderSync
import Glibc
import MarfaBase
import MarfaCopy
import Synchronization

/// What a watch tells the desktop (N5): a few things only, each once, replaced when it changes and taken away when it no
/// longer stands. Where there is no desktop it does nothing, and nobody waits for it.
final class Desktop: Sendable {
  /// A conflicted copy told of, and where its files are.
  private struct Conflict: Sendable {
    var id: EntityID
    var path: PathBytes?
  }

  private struct State: Sendable {
    var conflicts: [PathBytes: [Conflict]] = [:]
    /// Directories found gone, until they are back.
    var gone: Set<PathBytes> = []
  }

  private let bus: SessionBus
  private let context: Context
  private let showsNames: Bool
  private let stop = StopFlag()
  private let state = Mutex(State())

  /// The desktop of this session; nil with `--no-notify` or `MARFA_NOTIFY=off`, and where there is no session bus.
  /// - Parameter keyring: told that the keyring was locked or unlocked, on a thread of the desktop's.
  init?(_ invocation: Invocation, keyring: @escaping @Sendable () -> Void = {}) {
    let program = invocation.program
    let word = Terminal.trimmed(program.environment["MARFA_NOTIFY"] ?? "")
    if invocation.has("no-notify") || word == "off" { return nil }
    let actions = DesktopActions(program)
    let handlers = SessionBus.Handlers(
      action: { key, word in
        guard let action = Notice.Action(rawValue: word) else { return }
        actions.run(action, key)
      }, keyring: keyring)
    guard let bus = SessionBus(program.environment, handlers) else { return nil }
    self.bus = bus
    context = program.context()
    showsNames = word == "titles"
  }

  /// Takes back what stands, since nobody would answer its buttons; or leaves it, said as it is.
  func end(keeping: Bool = false) {
    stop.set(.stopped)
    bus.end(keeping: keeping, within: 1, context.scheduler)
  }

  // MARK: What happened

  /// An event of a folder's watch.
  func heard(_ dir: PathBytes, _ event: WatchEvent) {
    switch event {
    case .watching, .takenBack:
      for kind in [NoticeKey.Kind.credential, .keyring, .firstSync, .gone] { close(dir, kind) }
      // What another command settled need make no pass of the watch's own worth telling.
      closeSettled(dir)
    case .passed(let pass, _): passed(dir, pass)
    case .waiting: wentAway(dir)
    case .removed, .unlisted: closeAll(dir)
    case .watcherFailed, .retrying, .unreachable, .reachable, .copyChanging, .handedOver, .heldElsewhere, .paused,
      .resumed:
      break
    }
  }

  /// What ended a folder's watch.
  func failed(_ dir: PathBytes, _ error: MarfaError) {
    switch error.code {
    case .unauthorized, .signedOut:
      show(
        dir, .credential, "Signing in is needed",
        "The server does not take the credential of \(name(dir)). Your edits wait on this computer until a working one is kept.",
        [.signIn], urgent: true)
    case .noKeychain:
      show(
        dir, .keyring, "The keyring is locked",
        "\(name(dir)) is kept in step once it is unlocked.", [])
    case .firstSyncWaiting:
      show(
        dir, .firstSync, "A first sync waits",
        "Nothing of \(name(dir)) is written or sent until you confirm it.", [.review])
    default: break
    }
  }

  private func passed(_ dir: PathBytes, _ pass: WatchPass) {
    let paused = (pass.scan["paused"]?.int ?? 0, pass.pull["paused"]?.int ?? 0)
    if paused.0 + paused.1 > 0 {
      var parts: [String] = []
      if paused.0 > 0 { parts.append("\(counted(paused.0, "file")) gone here") }
      if paused.1 > 0 { parts.append("\(counted(paused.1, "file")) removed elsewhere") }
      show(
        dir, .removal, "A large removal waits",
        "In \(name(dir)): \(parts.joined(separator: ", ")). Restore puts everything back; 'confirm' lets it go.",
        [.review, .restore], urgent: true)
    } else {
      close(dir, .removal)
    }
    for conflict in pass.conflicts + pass.filed { conflicted(dir, conflict) }
    closeSettled(dir)
  }

  private func conflicted(_ dir: PathBytes, _ conflict: ConflictedEdit) {
    guard let copy = conflict.copy else { return }
    let path = conflict.copyPath.map { dir.appending($0) }
    state.withLock { state in
      var all = state.conflicts[dir] ?? []
      all.removeAll { $0.id == copy }
      all.append(Conflict(id: copy, path: path))
      state.conflicts[dir] = all
    }
    let what = showsNames ? "\(conflict.path)" : "a note"
    show(
      dir, .conflict(copy), "An edit went to a copy of its own",
      "In \(name(dir)), an edit of \(what) met another one. Both texts are kept; 'conflicts' shows and settles them.",
      [.review, .open])
  }

  /// A conflicted copy whose file is gone was settled.
  private func closeSettled(_ dir: PathBytes) {
    let files = context.files
    let settled = state.withLock { state in
      let all = state.conflicts[dir] ?? []
      let over = all.filter { conflict in conflict.path.map { ((try? files.status($0)) ?? nil) == nil } ?? false }
      if !over.isEmpty { state.conflicts[dir] = all.filter { one in !over.contains { $0.id == one.id } } }
      return over
    }
    for conflict in settled { close(dir, .conflict(conflict.id)) }
  }

  /// Told once the directory has been gone for a minute, and taken back when it is there again.
  private func wentAway(_ dir: PathBytes) {
    guard state.withLock({ $0.gone.insert(dir).inserted }) else { return }
    let begun = startThread { [self] in
      var waited = 0
      while context.scheduler.wait(nanoseconds: 2_000_000_000, unless: stop) {
        waited += 2
        if case .folder = DirectoryLook.at(dir, context.files).state { break }
        if waited == 60 {
          show(
            dir, .gone, "A folder's directory is gone",
            "\(dir) cannot be found. Nothing is deleted for it; it goes on when the directory is back.", [])
        }
      }
      close(dir, .gone)
      _ = state.withLock { $0.gone.remove(dir) }
    }
    if !begun { _ = state.withLock { $0.gone.remove(dir) } }
  }

  private func closeAll(_ dir: PathBytes) {
    let conflicts = state.withLock { state in
      defer { state.conflicts[dir] = nil }
      return state.conflicts[dir] ?? []
    }
    for conflict in conflicts { close(dir, .conflict(conflict.id)) }
    for kind in [NoticeKey.Kind.removal, .credential, .keyring, .firstSync, .gone] { close(dir, kind) }
  }

  private func name(_ dir: PathBytes) -> String { "\u{201C}\(dir.name)\u{201D}" }

  private func show(
    _ dir: PathBytes, _ kind: NoticeKey.Kind, _ summary: String, _ body: String, _ actions: [Notice.Action],
    urgent: Bool = false
  ) {
    bus.show(
      NoticeKey(dir: dir, kind: kind),
      Notice(summary: Output.plain(summary), body: Output.plain(body), actions: actions, isUrgent: urgent))
  }

  private func close(_ dir: PathBytes, _ kind: NoticeKey.Kind) { bus.close(NoticeKey(dir: dir, kind: kind)) }
}

import FolderSync
import Glibc
import MarfaBase
import MarfaCopy

extension Program {
  /// The context commands run in: the machine's clock, disk and network.
  func context() -> Context {
    let scale = TimeScale.reading(variable("MARFA_TEST_TIME")?.string)
    let clock = SystemClock(scale: scale)
    let fault = TestFault.reading(variable("MARFA_TEST_FAULT")?.string, over: SystemFileSystem())
    return Context(
      clock: clock, ids: SystemIds(clock: clock), files: fault.files,
      transport: sharing.transport {
        CurlTransport(
          CurlTransport.Options(
            localSocket: instanceDirectory.map { $0.appending("instance.sock") },
            authorityFile: variable("MARFA_CA_FILE").map { PathBytes($0) }, desktopProxy: desktopProxy(),
            userAgent: "marfa-folders/\(Program.version)"))
      },
      scheduler: SystemScheduler(scale: scale), log: SilentLog(), door: fault.door,
      sabotage: Sabotage.reading(variable("MARFA_SABOTAGE")?.string))
  }

  /// The desktop's proxies, where this session has a desktop: GIO's resolvers ask its settings on the session bus.
  private func desktopProxy() -> (@Sendable (String) -> String?)? {
    guard variable("XDG_CURRENT_DESKTOP") != nil else { return nil }
    let desktop = DesktopProxy()
    return { desktop.proxy(for: $0) }
  }

  /// `$XDG_DATA_HOME`, else `$HOME/.local/share`; nil with neither (X1).
  var dataHome: PathBytes? {
    if let data = environment["XDG_DATA_HOME"], data.bytes.first == UInt8(ascii: "/") { return PathBytes(data) }
    if let home = environment["HOME"], !home.isEmpty { return PathBytes(home).appending(".local/share") }
    return nil
  }

  /// `$HOME`; nil where it is not set.
  var home: PathBytes? { environment["HOME"].flatMap { $0.isEmpty ? nil : PathBytes($0) } }

  /// Where the counts of this machine's stores are kept (P3.2): `$XDG_STATE_HOME/marfa-folders`, else below
  /// `$HOME/.local/state`; nil with neither.
  var stateHome: PathBytes? {
    if let state = environment["XDG_STATE_HOME"], state.bytes.first == UInt8(ascii: "/") {
      return PathBytes(state).appending("marfa-folders")
    }
    return home?.appending(".local/state/marfa-folders")
  }

  /// Where this machine's own instance keeps its data (N2.1).
  var instanceDirectory: PathBytes? { dataHome?.appending("marfa-folders/instance") }

  /// The registry of folders (X1); nil where there is no home to keep one in.
  var registryFile: PathBytes? {
    if let file = environment["MARFA_FOLDER_REGISTRY"], !file.isEmpty { return absolute(PathBytes(file)) }
    return dataHome?.appending("marfa/folders.json")
  }

  /// A path taken from the working directory where it is relative.
  func absolute(_ path: PathBytes) -> PathBytes {
    if path.isAbsolute { return path }
    guard let here = getcwd(nil, 0) else { return path }
    defer { free(here) }
    let directory = PathBytes(
      bytes: UnsafeBufferPointer(start: here, count: strlen(here)).map { UInt8(bitPattern: $0) })
    return path.isEmpty ? directory : directory.appending(path)
  }
}

/// A log nobody reads: what a command has to say, it says itself.
private struct SilentLog: Log {
  func write(_ line: String) {}
}

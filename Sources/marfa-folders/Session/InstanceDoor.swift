import Glibc
import Keyring
import LocalInstance
import MarfaBase
import MarfaCopy

extension Program {
  /// This machine's own instance; `--data` names another directory.
  /// - Throws: `invalid` where there is no home to keep it in.
  func instanceHome(data: Text? = nil) throws(MarfaError) -> InstanceHome {
    if let data { return InstanceHome(absolute(PathBytes(data))) }
    guard let directory = instanceDirectory else {
      throw MarfaError(
        .invalid, "neither HOME nor XDG_DATA_HOME is set, so this machine's instance has no place; --data names one")
    }
    return InstanceHome(directory)
  }

  /// The owner key of this machine's own instance; nil where none has run yet.
  func instanceOwnerKey() throws(MarfaError) -> String? {
    let home = try instanceHome()
    do throws(InstanceFailure) { return try home.ownerKey() } catch { throw MarfaError(error) }
  }

  /// Starts this machine's own instance where it does not run, and waits until it answers (N2.9). Under a unit it becomes a
  /// transient one of its own: it serves other commands as well, so it neither inherits the unit's limits nor ends with it
  /// (N4.3).
  func startInstance() throws(MarfaError) {
    let home = try instanceHome()
    let lines = environment.map { $0.key.bytes + [UInt8(ascii: "=")] + $0.value.bytes }
    do throws(InstanceFailure) {
      try home.startOnDemand(
        program: executable, environment: lines,
        launcher: isUnit ? ["systemd-run", "--user", "--scope", "--collect", "--quiet", "--"] : [])
    } catch { throw MarfaError(error) }
  }

  /// Whether this process is a service of the user manager (N4.3).
  var isUnit: Bool { variable("INVOCATION_ID") != nil && variable("NOTIFY_SOCKET") != nil }

  /// This program's own file.
  var executable: PathBytes {
    guard let path = realpath("/proc/self/exe", nil) else { return "marfa-folders" }
    defer { free(path) }
    return PathBytes(bytes: UnsafeBufferPointer(start: path, count: strlen(path)).map { UInt8(bitPattern: $0) })
  }
}

extension MarfaError {
  /// What the local instance's failure is to a person.
  init(_ failure: InstanceFailure) {
    switch failure {
    case .held: self.init(.readingHandle, failure.description)
    case .notReady: self.init(.network, failure.description)
    case .invalid: self.init(.invalid, failure.description)
    case .foreign: self.init(.wrongSchema, failure.description)
    case .failed: self.init(.io, failure.description)
    case .refused(let status, let code, _):
      let kind: Code =
        status == 404 ? .notFound : status == 403 ? .forbidden : status == 401 ? .unauthorized : .validation
      self.init(kind, failure.description, server: Server(status: status, code: Text(code)))
    }
  }
}

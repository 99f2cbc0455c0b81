import Glibc
import MarfaBase
import TestSupport

/// Measures what the product costs against what the machine's own tools need for the same work, in one run.
///
/// Ratios last; absolute figures do not. Where other programs share the machine, the ratio of processor time says more than
/// that of elapsed time, so both are shown.
enum Benchmark {
  static func run() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.first == "work" {
      do { try Work.run(Array(arguments.dropFirst())) } catch { fail("\(error)") }
      return
    }
    switch Options.read(arguments) {
    case .failure(let refusal): fail(refusal.words)
    case .success(let options):
      do { try await measure(options) } catch { fail("\(error)") }
    }
  }

  private static func measure(_ options: Options) async throws {
    let scratch = try ScratchDirectory()
    var report = FigureReport()
    report.begin(options)
    if options.parts.contains(.document) { try DocumentFigures.measure(options, &report) }
    if options.parts.contains(.instance) || options.parts.contains(.copy) {
      let served = try await Served(scratch, "store")
      let rate = try InstanceFigures.measure(options, served, &report)
      if options.parts.contains(.copy) { try CopyFigures.measure(options, served, creates: rate, scratch, &report) }
    }
    if options.parts.contains(.folder) { try await FolderFigures.measure(options, scratch, &report) }
    try report.end()
  }

  private static func fail(_ words: String) {
    words.withCString { _ = write(2, $0, strlen($0)) }
    _ = write(2, "\n", 1)
    exit(1)
  }
}

/// An instance served by the built program over its private socket, on real files.
struct Served {
  let server: LocalServer
  let program: MarfaFolders
  let data: String

  init(_ scratch: ScratchDirectory, _ name: String) async throws {
    var program = MarfaFolders(home: try scratch.makeDirectory("\(name)-home"))
    program.environment["XDG_DATA_HOME"] = try scratch.makeDirectory("\(name)-data")
    program.environment["MARFA_API_URL"] = "local"
    program.environment["MARFA_FOLDER_REGISTRY"] = scratch.at("\(name)-data/folders.json")
    self.program = program
    data = scratch.at("\(name)-data/marfa-folders/instance")
    server = try await LocalServer(data: data, program: program)
  }

  var socket: String { data + "/instance.sock" }
  var key: String { server.key }
  var process: RunningProcess { RunningProcess(pid: server.child.pid) }
}

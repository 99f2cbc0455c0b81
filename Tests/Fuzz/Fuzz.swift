import Glibc
import TestSupport

/// The fuzzer: seeded inputs, made as people lay files out or gone wrong as accidents and attackers make them, against
/// the properties of each reader and writer. One seed, one input.
///
///     fuzz [--target NAME]... [--runs N] [--seed S]
///     fuzz --target NAME --input FILE
///     fuzz --corpus DIR
///     FUZZ_GUIDED=NAME fuzz [libFuzzer's options and directories of inputs]...
enum Fuzz {
  static let usage =
    "usage: fuzz [--target NAME]... [--runs N] [--seed S] [--input FILE] | --corpus DIR\ntargets: "
    + Target.all.map(\.name).joined(separator: " ")

  static func run() {
    var targets: [Target] = []
    var (runs, seed, input) = (1000, UInt64(1), String?.none)
    var rest = CommandLine.arguments.dropFirst()
    if let name = Guided.name {
      guard let target = Target.all.first(where: { $0.name == name && $0.check != nil }) else { return leave(2, usage) }
      guard let status = Guided.run(target, Array(rest)) else {
        return leave(2, "fuzz: this build is without libFuzzer")
      }
      exit(status)
    }
    while let word = rest.popFirst() {
      let value = rest.popFirst()
      switch (word, value) {
      case ("--target", let name?):
        guard let target = Target.all.first(where: { $0.name == name }) else { return leave(2, usage) }
        targets.append(target)
      case ("--runs", let count?):
        guard let count = Int(count), count > 0 else { return leave(2, usage) }
        runs = count
      case ("--seed", let number?):
        guard let number = UInt64(number) else { return leave(2, usage) }
        seed = number
      case ("--input", let file?): input = file
      case ("--corpus", let directory?): return checkKept(directory)
      default: return leave(2, usage)
      }
    }
    if let input { return check(input, targets) }
    for target in targets.isEmpty ? Target.all : targets { drive(target, runs, seed) }
  }

  private static func drive(_ target: Target, _ runs: Int, _ seed: UInt64) {
    var read = 0
    let mark = Mark()
    for number in 0..<UInt64(runs) {
      // What does not end is a finding too; the mark tells where it was.
      if number % 1000 == 0 { alarm(300) }
      mark.set("\(target.name) \(seed &+ number)")
      var random = Seeded(state: (seed &+ number) &* 0x2545_F491_4F6C_DD1D &+ 17)
      do throws(Finding) {
        if case .read = try target.run(&random) { read += 1 }
      } catch {
        report(error)
        return leave(1, "fuzz: again with: --target \(target.name) --runs 1 --seed \(seed &+ number)")
      }
    }
    alarm(0)
    mark.clear()
    print("\(target.name): \(runs) runs from seed \(seed), \(read) read, nothing found")
  }

  private static func check(_ file: String, _ targets: [Target]) {
    guard targets.count == 1, let check = targets[0].check, let bytes = fileBytes(file) else { return leave(2, usage) }
    var random = Seeded(state: 1)
    do throws(Finding) { _ = try check(bytes, &random) } catch {
      report(error)
      exit(1)
    }
  }

  /// The inputs kept of a guided run: a directory for each target.
  private static func checkKept(_ directory: String) {
    var count = 0
    for target in Target.all {
      guard let check = target.check else { continue }
      for name in names(of: "\(directory)/\(target.name)") {
        alarm(300)
        var random = Seeded(state: 1)
        do throws(Finding) {
          _ = try check(fileBytes("\(directory)/\(target.name)/\(name)") ?? [], &random)
          count += 1
        } catch {
          report(error)
          return leave(1, "fuzz: again with: --target \(target.name) --input \(directory)/\(target.name)/\(name)")
        }
      }
    }
    print("\(count) kept inputs, nothing found")
  }

  private static func report(_ finding: Finding) {
    print("found: \(finding.words)")
    print(String(decoding: finding.input, as: UTF8.self).debugDescription)
    if let file = fopen(".build/fuzz-input", "w") {
      fwrite(finding.input, 1, finding.input.count, file)
      fclose(file)
      print("its bytes are in .build/fuzz-input")
    }
  }

  private static func leave(_ status: Int32, _ words: String) {
    print(words)
    exit(status)
  }
}

/// Where the fuzzer is, in a file that a trap, a kill or a hang leaves behind: `.build/fuzz-last`.
private final class Mark {
  private static let size = 64
  private let bytes: UnsafeMutableRawPointer?

  init() {
    let file = open(".build/fuzz-last", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0, ftruncate(file, off_t(Self.size)) == 0 else {
      bytes = nil
      return
    }
    bytes = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
    close(file)
  }

  deinit { if let bytes { munmap(bytes, Self.size) } }

  func set(_ words: String) {
    guard let bytes, bytes != MAP_FAILED else { return }
    memset(bytes, 0, Self.size)
    for (at, byte) in words.utf8.prefix(Self.size - 1).enumerated() {
      bytes.storeBytes(of: byte, toByteOffset: at, as: UInt8.self)
    }
  }

  func clear() { set("") }
}

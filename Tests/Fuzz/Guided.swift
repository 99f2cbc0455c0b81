import Glibc
import TestSupport

/// Inputs that libFuzzer makes, led by what each came to in our code: `scripts/fuzz --guided NAME`. Only a build with
/// `-sanitize=fuzzer` holds libFuzzer, so it is looked for as the program runs.
enum Guided {
  private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
  private typealias Driver =
    @convention(c) (
      UnsafeMutablePointer<Int32>, UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>, Callback
    ) -> Int32

  /// The target of a guided run. Of the environment, as libFuzzer starts this program again with words of its own.
  static var name: String? { getenv("FUZZ_GUIDED").map { String(cString: $0) } }

  /// Runs libFuzzer with its own options; nil in a build without it.
  static func run(_ target: Target, _ options: [String]) -> Int32? {
    guard let found = dlsym(nil, "LLVMFuzzerRunDriver") else { return nil }
    let driver = unsafeBitCast(found, to: Driver.self)
    chosen = target
    var count = Int32(options.count + 1)
    let words = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: options.count + 2)
    for (at, word) in ([CommandLine.arguments[0]] + options).enumerated() { words[at] = strdup(word) }
    words[options.count + 1] = nil
    var list: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = words
    return driver(&count, &list) { bytes, count in guidedInput(bytes, count) }
  }

  /// The target of this run, set once before its first input: libFuzzer hands its callback nothing else.
  nonisolated(unsafe) fileprivate static var chosen: Target?
}

/// One input of libFuzzer's; the name is the one its own entry point, which is linked and never called, asks for.
@_cdecl("LLVMFuzzerTestOneInput")
func guidedInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  guard let check = Guided.chosen?.check else { return -1 }
  var random = Seeded(state: 1)
  do throws(Finding) {
    _ = try check(Array(UnsafeBufferPointer(start: bytes, count: count)), &random)
  } catch {
    print("found: \(error.words)")
    fflush(nil)
    // libFuzzer keeps the input of what ends so.
    abort()
  }
  return 0
}

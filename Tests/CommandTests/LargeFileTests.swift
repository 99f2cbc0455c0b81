import Glibc
import MarfaBase
import Synchronization
import Testing
import TestSupport

/// How much memory a process held at most, as the kernel counts it: `VmHWM`, in KiB.
private func peak(_ pid: pid_t) -> Int? {
  guard let file = fopen("/proc/\(pid)/status", "r") else { return nil }
  defer { fclose(file) }
  var line = [CChar](repeating: 0, count: 256)
  while fgets(&line, Int32(line.count), file) != nil {
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if text.hasPrefix("VmHWM:") { return text.split(separator: " ").compactMap { Int($0) }.first }
  }
  return nil
}

/// What a thread that looks at a process has seen.
private final class Watch: Sendable {
  let most = Atomic(0)
  let isOver = Atomic(false)
}

@Suite("large files") struct LargeFileTests: ServedSuite {
  let served: ServedNotes

  init() async throws { served = try await ServedNotes() }

  /// A file of a size whose middle is a hole: its bytes are all there to be read, hashed and sent.
  private func makeFile(_ path: String, mebibytes: Int) throws {
    let descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    let piece = [UInt8](repeating: UInt8(mebibytes % 251), count: 4096)
    for place in [0, mebibytes << 19, (mebibytes << 20) - piece.count] {
      try #require(pwrite(descriptor, piece, piece.count, off_t(place)) == piece.count)
    }
  }

  /// Runs a command to its end; the most memory it held.
  private func watched(_ words: [String]) async throws -> Int {
    let child = try program.start(["--json"] + words)
    child.endInput()
    let pid = child.pid
    let watch = Watch()
    let started = startThread {
      while !watch.isOver.load(ordering: .acquiring) {
        if let now = peak(pid) { watch.most.max(now, ordering: .relaxed) }
        usleep(5_000)
      }
    }
    try #require(started)
    defer { watch.isOver.store(true, ordering: .releasing) }
    let ran = try await child.end(within: .seconds(600))
    #expect(ran.status == 0, "\(words): \(ran.errText)")
    return watch.most.load(ordering: .acquiring)
  }

  @Test("B-S33 a large file is sent and fetched with no more memory than a small one, in either process")
  func flat() async throws {
    let size = getenv("MARFA_LARGE_FILE_MIB").flatMap { Int(String(cString: $0)) } ?? 256
    let search = #"{"types":["core.file"]}"#
    let other = scratch.at("Other")
    let added = try await json(["add", notes, "--create", "Files", "--search", search, "--yes"])
    let id = try #require(added["folder"]?.text?.string)
    _ = try await json(["add", other, "--folder", id, "--yes"])
    var client: [Int] = []
    var instance: [Int] = []
    for (name, mebibytes) in [("small.bin", 1), ("large.bin", size)] {
      try makeFile(scratch.at("Notes/\(name)"), mebibytes: mebibytes)
      client.append(try await watched(["push", notes]))
      client.append(try await watched(["push", other]))
      instance.append(try #require(peak(server.child.pid)))
      let there = try SystemFileSystem().openDirectory(PathBytes(other)).status(of: PathBytes(name))
      #expect(there.map { Int($0.size) } == mebibytes << 20)
    }
    // What caches and buffers may take by chance, far less than the file.
    let room = 32 << 10
    #expect(client.allSatisfy { $0 > 0 })
    #expect(client[2] < client[0] + room && client[3] < client[1] + room, "\(client)")
    #expect(instance[1] < instance[0] + room, "\(instance)")
  }
}

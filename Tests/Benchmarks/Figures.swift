import Glibc
import MarfaBase

/// What something took: elapsed and processor seconds, and the most memory it held.
struct Cost {
  var wall: Double
  var processor: Double
  /// Bytes.
  var memory = 0

  static func / (cost: Cost, count: Int) -> Cost {
    Cost(wall: cost.wall / Double(count), processor: cost.processor / Double(count), memory: cost.memory)
  }

  static func += (sum: inout Cost, cost: Cost) {
    sum.wall += cost.wall
    sum.processor += cost.processor
    sum.memory = max(sum.memory, cost.memory)
  }

  /// The medians of several.
  static func median(_ costs: [Cost]) -> Cost {
    func middle(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    guard !costs.isEmpty else { return Cost(wall: .nan, processor: .nan) }
    return Cost(
      wall: middle(costs.map(\.wall)), processor: middle(costs.map(\.processor)), memory: costs.map(\.memory).max() ?? 0
    )
  }
}

/// Collects figures, prints each as it is known (name, ours, the peer's, the ratios, the target) and keeps them as JSON.
struct FigureReport {
  private var above = 0
  private var figures: [JSON] = []
  private var options = Options()

  mutating func begin(_ options: Options) {
    self.options = options
    print("scale \(options.scale.rawValue), medians of \(options.runs) runs; times are elapsed (processor)")
    line("figure", "ours", "peer", "ratio", "cpu", "target", "")
  }

  func note(_ words: String) {
    print("  - \(words)")
    fflush(nil)
  }

  /// A cost against a peer's.
  mutating func add(_ name: String, _ ours: Cost, against peer: Cost, _ peerName: String, atMost target: Double) {
    let ratio = ours.wall / peer.wall
    let processor = ours.processor / peer.processor
    keep(name, ours, [("peer", cost(peer)), ("peer_name", .string(Text(peerName)))], ratio, processor, target)
    line(
      name, both(ours), "\(both(peer)) \(peerName)", fixed(ratio, 2), fixed(processor, 2),
      "at most \(fixed(target, 2))", verdict(min(ratio, processor) <= target))
  }

  /// A cost that may reach a bound of its own.
  mutating func add(_ name: String, _ ours: Cost, atMost seconds: Double) {
    keep(name, ours, [("target_seconds", number(seconds))], ours.wall / seconds, ours.processor / seconds, 1)
    line(
      name, both(ours), "-", fixed(ours.wall / seconds, 2), fixed(ours.processor / seconds, 2),
      "at most \(spelled(seconds))", verdict(min(ours.wall, ours.processor) <= seconds))
  }

  /// A rate. `busy` is the processor time of one at the side that is measured.
  mutating func add(_ name: String, perSecond rate: Double, busy: Double, atLeast target: Double) {
    keep(
      name, Cost(wall: 1 / rate, processor: busy), [("target_per_second", number(target))], target / rate,
      target * busy, 1)
    line(
      name, "\(fixed(rate, 0))/s (\(spelled(busy)))", "-", fixed(rate / target, 2), fixed(1 / busy / target, 2),
      "at least \(fixed(target, 0))/s", verdict(max(rate, 1 / busy) >= target))
  }

  /// Memory.
  mutating func add(_ name: String, bytes: Int, atMost target: Int) {
    figures.append(
      [
        "figure": .string(Text(name)), "bytes": .int(bytes), "target_bytes": .int(target),
        "ratio": number(Double(bytes) / Double(target)), "at_most": 1, "met": .bool(bytes <= target),
      ])
    line(
      name, "\(bytes >> 20) MB", "-", fixed(Double(bytes) / Double(target), 2), "", "at most \(target >> 20) MB",
      verdict(bytes <= target))
  }

  mutating func end() throws {
    print(above == 0 ? "every target is met" : "\(above) figures miss their target")
    let whole: JSON = [
      "scale": .string(Text(options.scale.rawValue)), "runs": .int(options.runs), "figures": .array(figures),
    ]
    guard let file = fopen(options.json, "w") else { throw BenchFailure("\(options.json) cannot be written") }
    defer { fclose(file) }
    let bytes = whole.write() + [0x0A]
    guard fwrite(bytes, 1, bytes.count, file) == bytes.count else {
      throw BenchFailure("\(options.json) cannot be written")
    }
    print("the figures are in \(options.json)")
  }

  /// Elapsed and processor seconds against a target: `ratio` is ours by the peer's or by the bound.
  private mutating func keep(
    _ name: String, _ ours: Cost, _ more: [(Text, JSON)], _ ratio: Double, _ processor: Double, _ target: Double
  ) {
    let known: [(Text, JSON)] = [("figure", .string(Text(name))), ("ours", cost(ours))]
    let judged: [(Text, JSON)] = [
      ("ratio", number(ratio)), ("processor_ratio", number(processor)), ("at_most", number(target)),
      ("met", .bool(min(ratio, processor) <= target)),
    ]
    figures.append(.object(JSONObject(known + more + judged)))
  }

  private func cost(_ cost: Cost) -> JSON { ["elapsed": number(cost.wall), "processor": number(cost.processor)] }

  private func number(_ value: Double) -> JSON { JSONNumber(value).map { .number($0) } ?? .null }

  private mutating func verdict(_ isMet: Bool) -> String {
    if !isMet { above += 1 }
    return isMet ? "met" : "MISSED"
  }

  private func line(_ parts: String...) {
    let widths = [46, 26, 40, 7, 7, 18, 0]
    var out = ""
    for (part, width) in zip(parts, widths) {
      out += part + String(repeating: " ", count: max(1, width - part.count))
    }
    while out.last == " " { out.removeLast() }
    print(out)
    fflush(nil)
  }

  private func both(_ cost: Cost) -> String { "\(spelled(cost.wall)) (\(spelled(cost.processor)))" }
}

/// A duration as a person reads it.
func spelled(_ seconds: Double) -> String {
  if seconds < 0.001 { return "\(fixed(seconds * 1e6, 1)) us" }
  return seconds < 1 ? "\(fixed(seconds * 1e3, 1)) ms" : "\(fixed(seconds, 2)) s"
}

/// A number with so many places.
func fixed(_ value: Double, _ places: Int) -> String {
  guard value.isFinite else { return "?" }
  var scale = 1.0
  for _ in 0..<places { scale *= 10 }
  let whole = Int((abs(value) * scale).rounded())
  let sign = value < 0 ? "-" : ""
  if places == 0 { return "\(sign)\(whole)" }
  let rest = "\(whole % Int(scale))"
  return "\(sign)\(whole / Int(scale))." + String(repeating: "0", count: places - rest.count) + rest
}

/// What kept a benchmark from its end.
struct BenchFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

import CPosix
import Synchronization

/// UUIDv7s of a clock and random bits, each greater than the last even where the clock stands or steps back (C: one
/// source gives an order).
struct MonotonicIds: Sendable {
  private var last: EntityID?

  mutating func next(at time: Timestamp, random: (UInt16, UInt64)) -> EntityID {
    let fresh = EntityID.version7(at: time, random: random)
    guard let last, fresh <= last else {
      last = fresh
      return fresh
    }
    // Count on from the last one by a random step: 62 low bits, then 12 high ones, then the millisecond.
    let mask: UInt64 = 0x3FFF_FFFF_FFFF_FFFF
    let low = (last.low & mask) + (random.1 & 0xFFFF_FFFF) + 1
    var tail = UInt64(last.high & 0x0FFF)
    var milliseconds = last.high >> 16
    if low > mask {
      tail += 1
      if tail > 0x0FFF {
        tail = 0
        milliseconds += 1
      }
    }
    let next = EntityID(high: milliseconds << 16 | 0x7000 | tail, low: 0x8000_0000_0000_0000 | low & mask)
    self.last = next
    return next
  }
}

/// Ids of the machine's clock and the kernel's randomness.
public final class SystemIds: IdSource {
  private let clock: any Clock
  private let ids = Mutex(MonotonicIds())

  /// Ids at that clock's time.
  public init(clock: any Clock) { self.clock = clock }

  /// A new UUIDv7.
  public func next() -> EntityID {
    var random: (UInt64, UInt64) = (0, 0)
    // getrandom fails only before the kernel's pool is ready or on a kernel without it; neither runs this program.
    _ = withUnsafeMutableBytes(of: &random) { marfa_random($0.baseAddress, $0.count) }
    let bits = random
    return ids.withLock { $0.next(at: clock.now, random: (UInt16(truncatingIfNeeded: bits.0), bits.1)) }
  }
}

/// Ids that a seed decides, for tests.
public final class SeededIds: IdSource {
  private let clock: any Clock
  private let state: Mutex<(ids: MonotonicIds, random: SplitMix)>

  /// Ids at that clock's time, of that seed.
  public init(clock: any Clock, seed: UInt64) {
    self.clock = clock
    state = Mutex((MonotonicIds(), SplitMix(seed: seed)))
  }

  /// The next of them.
  public func next() -> EntityID {
    let now = clock.now
    return state.withLock { state in
      let random = (UInt16(truncatingIfNeeded: state.random.next()), state.random.next())
      return state.ids.next(at: now, random: random)
    }
  }
}

/// A small generator whose seed decides all it gives (Vigna, splitmix64).
public struct SplitMix: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// A generator of that seed.
  public init(seed: UInt64) { state = seed }

  /// The next 64 bits.
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }
}

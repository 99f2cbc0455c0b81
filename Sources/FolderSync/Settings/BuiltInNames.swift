import MarfaBase

/// Names no list can take, matched against a single name by its key (F25.6, P1.5).
package enum BuiltInNames {
  /// The list a name is on.
  package enum List: Sendable {
    /// `.marfa` and the folder's own temporary files.
    case ownState
    /// What desktops leave in directories.
    case machine
    /// What editors and portals leave beside a file.
    case editor
    /// Downloads under way.
    case download
    /// Keys and passwords.
    case secret
  }

  /// The list a file's name is on; nil for an ordinary one.
  package static func list(file name: PathBytes) -> List? { list(of: name, isDirectory: false) }

  /// The list that keeps a directory from being walked; nil for an ordinary one. Secrets and editors' files name files.
  package static func list(directory name: PathBytes) -> List? { list(of: name, isDirectory: true) }

  private static func list(of name: PathBytes, isDirectory: Bool) -> List? {
    let key = NameKey(name.bytes).bytes
    guard let first = key.first, let last = key.last else { return nil }
    func begins(_ prefix: StaticString) -> Bool { key.starts(with: prefix.buffer) }
    func ends(_ suffix: StaticString) -> Bool { key.ends(with: suffix) }
    func isOne(of names: StaticString...) -> Bool { names.contains { key.elementsEqual($0.buffer) } }

    // By the first and the last character: most names of a directory are on no list, and each is asked for.
    switch first {
    case UInt8(ascii: "."):
      if isOne(of: ".marfa") || TemporaryName(name) != nil { return .ownState }
      if isOne(of: ".ds_store", ".spotlight-v100", ".trashes") || begins("._") { return .machine }
      if !isDirectory {
        if begins(".#") || begins(".~lock.") && ends("#") { return .editor }
        if begins(".goutputstream-") || begins(".xdp-") || begins(".sb-") || isRandomDotName(key) { return .editor }
        if isSwap(key) { return .editor }
      }
    case UInt8(ascii: "t"), UInt8(ascii: "i"), UInt8(ascii: "d"):
      if isOne(of: "thumbs.db", "icon\r", "desktop.ini") { return .machine }
    case UInt8(ascii: "#"): if !isDirectory, key.count > 1, last == UInt8(ascii: "#") { return .editor }
    case UInt8(ascii: "~"): if !isDirectory, begins("~$") { return .editor }
    case UInt8(ascii: "4"): if !isDirectory, isOne(of: "4913") { return .editor }
    default: break
    }
    switch last {
    case UInt8(ascii: "d"): if ends(".crdownload") || ends(".download") { return .download }
    case UInt8(ascii: "p"):
      if ends(".crswap") { return .download }
      if !isDirectory, ends(".swp") || ends(".tmp") { return .editor }
    case UInt8(ascii: "t"): if ends(".part") { return .download }
    case UInt8(ascii: "~"): if !isDirectory { return .editor }
    case UInt8(ascii: "_"): if !isDirectory, ends("___jb_tmp___") || ends("___jb_old___") { return .editor }
    default: break
    }
    if isDirectory { return nil }
    return isTmpNamed(key) ? .editor : isSecret(key: key) ? .secret : nil
  }

  /// `NAME.tmp.*` (P1.5).
  private static func isTmpNamed(_ key: [UInt8]) -> Bool {
    let tmp: StaticString = ".tmp."
    guard key.count > 5 else { return false }
    var at = 1
    while at + 5 <= key.count {
      if key[at] == 0x2E, key[at..<(at + 5)].elementsEqual(tmp.buffer) { return true }
      at += 1
    }
    return false
  }

  /// `.NAME.swo`, `.NAME.swx` and its like: the further swap files of one name (P1.3, P-S6).
  private static func isSwap(_ key: [UInt8]) -> Bool {
    guard key.count > 5, let letter = key.last, (0x61...0x7A).contains(letter) else { return false }
    let swap: StaticString = ".sw"
    return key[(key.count - 4)..<(key.count - 1)].elementsEqual(swap.buffer)
  }

  /// `.NAME.` with six letters or digits (P1.5).
  private static func isRandomDotName(_ key: [UInt8]) -> Bool {
    baseOfRandomSuffix(PathBytes(bytes: key)).map { $0.bytes.count > 1 } == true
  }

  /// What stands before a dot and six letters or digits at the end of a name, KDE's way to save (P1.5); nil for any
  /// other name. Whether it is such a save tells only the file of that name beside it, and its age.
  package static func baseOfRandomSuffix(_ name: PathBytes) -> PathBytes? {
    let bytes = name.bytes
    guard bytes.count > 7, bytes[bytes.count - 7] == 0x2E, bytes.suffix(6).allSatisfy(isLetterOrDigit) else {
      return nil
    }
    return PathBytes(bytes: bytes.dropLast(7))
  }

  /// Whether a file of this name holds a secret.
  package static func isSecret(_ name: PathBytes) -> Bool { isSecret(key: NameKey(name.bytes).bytes) }

  private static func isSecret(key: [UInt8]) -> Bool {
    func begins(_ prefix: StaticString) -> Bool { key.starts(with: prefix.buffer) }
    func isOne(of names: StaticString...) -> Bool { names.contains { key.elementsEqual($0.buffer) } }
    switch key.first {
    case UInt8(ascii: "."):
      if isOne(of: ".env", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials") || begins(".env.") {
        return true
      }
    case UInt8(ascii: "c"): if isOne(of: "credentials", "credentials.db") { return true }
    case UInt8(ascii: "i"):
      if begins("id_rsa") || begins("id_dsa") || begins("id_ecdsa") || begins("id_ed25519") { return true }
    default: break
    }
    return key.ends(with: ".pem") || key.ends(with: ".key") || key.ends(with: ".p12") || key.ends(with: ".pfx")
      || key.ends(with: "credentials.json")
  }

  /// Whether a directory of this name is a package, one thing to its program (F26.1).
  package static func isPackage(_ name: PathBytes) -> Bool {
    guard let ending = name.fileExtension else { return false }
    let key = NameKey(ending.bytes).bytes
    let endings: [StaticString] = ["app", "bundle", "pages", "numbers", "key", "photoslibrary", "xcodeproj", "rtfd"]
    return endings.contains { key.elementsEqual($0.buffer) }
  }
}

func isLetterOrDigit(_ byte: UInt8) -> Bool {
  switch byte {
  case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
  default: false
  }
}

extension [UInt8] {
  fileprivate func ends(with suffix: StaticString) -> Bool {
    count >= suffix.utf8CodeUnitCount && self[(count - suffix.utf8CodeUnitCount)...].elementsEqual(suffix.buffer)
  }
}

extension StaticString {
  fileprivate var buffer: UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
  }
}

/// The name of a file about to land: `.marfa-<pid>-<n>.tmp` (X14).
package struct TemporaryName: Hashable, Sendable {
  /// The process that makes it.
  package let pid: Int32
  /// When that process began, where the name tells it.
  package let start: UInt64?
  /// The name.
  package let name: PathBytes

  /// A name for the `counter`-th file of a process.
  package init(writer: (pid: Int32, start: UInt64), counter: UInt64) {
    pid = writer.pid
    start = writer.start
    name = PathBytes(".marfa-\(writer.pid)-\(writer.start)-\(counter).tmp")
  }

  /// Reads a name of exactly this form; nil for any other.
  package init?(_ name: PathBytes) {
    let head = Array(".marfa-".utf8)
    let tail = Array(".tmp".utf8)
    guard name.bytes.starts(with: head), name.bytes.count > head.count + tail.count,
      name.bytes.suffix(tail.count).elementsEqual(tail)
    else { return nil }
    let middle = name.bytes[head.count..<(name.bytes.count - tail.count)]
    guard let dash = middle.firstIndex(of: 0x2D), dash + 1 < middle.endIndex else { return nil }
    let (digits, rest) = (middle[..<dash], middle[(dash + 1)...])
    guard !digits.isEmpty, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
      let pid = Int32(String(decoding: digits, as: UTF8.self)), pid > 0,
      rest.allSatisfy({ isLetterOrDigit($0) || $0 == 0x2D })
    else { return nil }
    self.pid = pid
    self.name = name
    let parts = rest.split(separator: 0x2D, omittingEmptySubsequences: false)
    start = parts.count == 2 ? UInt64(String(decoding: parts[0], as: UTF8.self)) : nil
  }
}

extension BuiltInNames {
  /// The name of the file a sync program's placeholder stands in for: Nextcloud's `NAME.nextcloud` (ST6).
  package static func placeheld(_ name: PathBytes) -> PathBytes? {
    let ending = Array(".nextcloud".utf8)
    guard name.bytes.count > ending.count, name.bytes.suffix(ending.count).elementsEqual(ending) else { return nil }
    return PathBytes(bytes: Array(name.bytes.dropLast(ending.count)))
  }
}

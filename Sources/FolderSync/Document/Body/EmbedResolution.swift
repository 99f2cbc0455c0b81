import MarfaBase
import MarfaCopy

/// What an embed names (F12.17 to F12.31).
package enum EmbedResolution: Hashable, Sendable {
  /// A file here, under its own name.
  case file(PathBytes)
  /// A file that is not here. `path` is where a pull writes it where the link says so by itself (F12.34): a path's own
  /// place, or nil for `![[file]]`, see `EmbedFiles.ownPlace`.
  case missing(path: PathBytes?)
  /// The path leads out of the folder (F12.29).
  case leadsOut
  /// A raw space in an unbracketed path (F12.31).
  case rawSpace
  /// An address, a document or a note: no embed of a file (F12.17, F12.23).
  case notAFile
}

extension BodyEmbed {
  /// Whether an embed by name carries a directory.
  var namesDirectory: Bool {
    guard case .wiki(let link) = form else { return false }
    return link.target.bytes.contains(UInt8(ascii: "/"))
  }
}

/// The files of a folder that embeds may name, found without regard to case or form (F12.22).
package struct EmbedFiles: Sendable {
  private var byPath: [NameKey: PathBytes] = [:]
  private var byName: [NameKey: [PathBytes]] = [:]

  /// No files.
  package init() {}

  /// Adds a file. Of two paths of one key the first in path order answers (F27.2).
  package mutating func add(_ path: PathBytes) {
    let key = path.nameKey
    if let held = byPath[key], held < path { return }
    byPath[key] = path
    byName[path.name.nameKey, default: []].append(path)
  }

  /// What an embed in the file at `embedding` names.
  package func resolve(_ embed: BodyEmbed, in embedding: PathBytes) -> EmbedResolution {
    switch embed.form {
    case .rawSpace(let path):
      // Read as if it had no raw space, it must mean a file: an embed of a note is text (F12.17).
      guard !EmbedPath.isAddress(path), let bare = EmbedPath.decoded(path) else { return .notAFile }
      return resolve(path: bare, in: embedding) == .notAFile ? .notAFile : .rawSpace
    case .path(let written):
      guard !EmbedPath.isAddress(written) else { return .notAFile }
      guard let bare = EmbedPath.decoded(written) else { return .notAFile }
      return resolve(path: bare, in: embedding)
    case .wiki(let link):
      let (whole, cut) = (link.target, link.name)
      // A name holding `#` counts whole where a file answers to it.
      if whole != cut, case .file(let path) = resolve(name: whole, in: embedding) { return .file(path) }
      return resolve(name: cut, in: embedding)
    }
  }

  private func resolve(path: [UInt8], in embedding: PathBytes) -> EmbedResolution {
    guard !path.isEmpty else { return .notAFile }
    guard let target = EmbedPath.joined(path, from: embedding.parent) else {
      return EmbedPath.isDocument(path) ? .notAFile : .leadsOut
    }
    guard !EmbedPath.isDocument(path), !target.isEmpty else { return .notAFile }
    if let held = byPath[target.nameKey] { return .file(held) }
    return MIMETypes.type(of: target) == nil ? .notAFile : .missing(path: target)
  }

  private func resolve(name: Text, in embedding: PathBytes) -> EmbedResolution {
    let bytes = name.bytes
    guard !bytes.isEmpty, !EmbedPath.isDocument(bytes) else { return .notAFile }
    if bytes.starts(with: "./".utf8) || bytes.starts(with: "../".utf8) { return resolve(path: bytes, in: embedding) }
    guard let fromRoot = EmbedPath.joined(bytes, from: .empty) else { return .leadsOut }
    if let held = byPath[fromRoot.nameKey] { return .file(held) }
    let tail = fromRoot.nameKey.bytes[...]
    let answering = (byName[fromRoot.name.nameKey] ?? []).filter { endsAtDirectory($0.nameKey.bytes, tail) }
    if let best = answering.min(by: { EmbedFiles.precedes($0, $1, from: embedding.parent) }) { return .file(best) }
    return MIMETypes.type(of: fromRoot) == nil ? .notAFile : .missing(path: nil)
  }

  /// What an embed may name, the surest first: a name that holds `#` counts whole where something answers to it, as a scan
  /// has it, else up to the `#`. Never a document (F12.17), an address, nor what leads nowhere.
  package static func names(of embed: BodyEmbed) -> [Text] {
    let names: [Text]
    switch embed.form {
    case .rawSpace: return []
    case .path(let written):
      guard !EmbedPath.isAddress(written), let bare = EmbedPath.decoded(written) else { return [] }
      names = [Text(bytes: bare)]
    case .wiki(let link): names = link.target == link.name ? [link.name] : [link.target, link.name]
    }
    return names.filter { !$0.isEmpty && !EmbedPath.isDocument($0.bytes) }
  }

  /// Where a pull writes the file of an embed by name that nothing here answers to yet: beside the embedding file, or
  /// from the root for a name that carries a directory (F12.34). For a path, the place it says. Nil where it leads out.
  /// - Parameter name: the one of `names` the file answers to.
  package static func ownPlace(of embed: BodyEmbed, named name: Text, in embedding: PathBytes) -> PathBytes? {
    let name = name.bytes
    if case .wiki = embed.form, name.contains(UInt8(ascii: "/")), !isRelative(name) {
      return EmbedPath.joined(name, from: .empty)
    }
    return EmbedPath.joined(name, from: embedding.parent)
  }

  private static func isRelative(_ name: [UInt8]) -> Bool {
    name.starts(with: "./".utf8) || name.starts(with: "../".utf8)
  }

  /// Whether a file at `path` answers to an embed by name as F12.24 reads one (F12.34).
  package static func answers(_ path: PathBytes, to embed: BodyEmbed, in embedding: PathBytes) -> Bool {
    names(of: embed).contains { answers(path, to: embed, named: $0, in: embedding) }
  }

  /// The same, of one of `names`.
  package static func answers(
    _ path: PathBytes, to embed: BodyEmbed, named name: Text, in embedding: PathBytes
  ) -> Bool {
    if case .wiki = embed.form, !isRelative(name.bytes) {
      guard let tail = EmbedPath.joined(name.bytes, from: .empty), !tail.isEmpty else { return false }
      return endsAtDirectory(path.nameKey.bytes, tail.nameKey.bytes[...])
    }
    return EmbedPath.joined(name.bytes, from: embedding.parent)?.nameKey == path.nameKey
  }

  /// The embedding file's own directory first, then the shallowest, then path order (F12.24).
  private static func precedes(_ left: PathBytes, _ right: PathBytes, from directory: PathBytes) -> Bool {
    let beside = (left.parent == directory, right.parent == directory)
    if beside.0 != beside.1 { return beside.0 }
    let depths = (left.components.count, right.components.count)
    return depths.0 != depths.1 ? depths.0 < depths.1 : left < right
  }
}

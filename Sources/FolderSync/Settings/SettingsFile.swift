import MarfaBase

/// `.marfa/folder.yaml`: the settings written out, and what an edit of them asks for (F1.9 to F1.18, X18, X19). Values
/// only: reading, landing and sending are the caller's.
package enum SettingsFile {
  /// The name within `.marfa`.
  package static let name: PathBytes = "folder.yaml"

  private static let heading = """
    # The settings of the Marfa folder this directory follows, shared by every machine that follows it.
    # Edit them here: the next push sends the change, and so does a running watch.

    """

  /// The file of a row (X18.1 to X18.3).
  /// - Throws: where the settings hold what YAML cannot, or both `query` and `search`.
  package static func render(folder: EntityID, version: Int, row: JSONObject) throws(RenderFailure) -> [UInt8] {
    let settings: JSONObject
    do throws(FolderSettings.Refusal) { settings = try FolderSettings.named(in: row) } catch {
      throw RenderFailure(reason: error.description)
    }
    let text = YAMLText(lineEnding: .lf)
    var out = Array(heading.utf8)
    out += try text.pair("folder", .string(folder.text), column: 0)
    out += try text.pair("version", .int(version), column: 0)
    for (key, value) in settings.members { out += try text.pair(key, value, column: 0) }
    guard case .success(let back) = read(out), back.settings == settings else {
      throw RenderFailure(reason: "the settings cannot be written as YAML that reads back the same")
    }
    return out
  }

  /// What a settings file says.
  package struct Contents: Hashable, Sendable {
    /// The `folder` line's value.
    package let folder: JSON?
    /// The version it names; nil for none a server mints (X18.5).
    package let version: Int?
    /// Every other member.
    package let settings: JSONObject
  }

  /// Why a settings file does not read, in words with line and column.
  package struct Unread: Error, Hashable, Sendable {
    /// The words.
    package let reason: String
  }

  /// Reads a settings file (X18.4).
  package static func read(_ bytes: [UInt8]) -> Result<Contents, Unread> {
    guard !bytes.contains(0) else { return .failure(Unread(reason: "it holds a NUL byte")) }
    guard Text(bytes: bytes).isValidUTF8 else { return .failure(Unread(reason: "it is not UTF-8 text")) }
    let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
    do throws(YAMLFailure) {
      let yaml = try YAMLDocument(parsing: text)
      for node in yaml.nodes {
        if case .alias = node.content { throw yaml.failure("aliases are not read here", at: node.start) }
      }
      guard let root = yaml.root, case .mapping = yaml.nodes[root].content, let all = try yaml.value(of: root).object
      else { return .failure(Unread(reason: "it is no map of settings")) }
      var settings = all
      settings["folder"] = nil
      settings["version"] = nil
      return .success(
        Contents(folder: all["folder"], version: all["version"].flatMap(FieldReader.version), settings: settings))
    } catch {
      let place = error.line.map { " (line \($0 + 1), column \((error.column ?? 0) + 1))" } ?? ""
      return .failure(Unread(reason: "it does not read as YAML: \(error.reason)\(place)"))
    }
  }

  /// What a settings file on disk asks for.
  package enum Verdict: Hashable, Sendable {
    /// Its bytes are those last written.
    case unedited
    /// It changes nothing: it is written afresh (X19.7).
    case changesNothing
    /// These settings go to the server at this version (X19.8).
    case sends(version: Int, settings: JSONObject)
    /// It is held, for this reason (X19.4).
    case flagged(String)
  }

  /// Judges a file's bytes.
  /// - Parameters:
  ///   - lastWritten: the text last written there, and its version.
  ///   - inForce: the copy's row.
  package static func judge(
    _ bytes: [UInt8], lastWritten: (text: [UInt8], version: Int), inForce row: JSONObject, folder: EntityID,
    checks: FolderSettings.Checks
  ) -> Verdict {
    if bytes == lastWritten.text { return .unedited }
    let edited: Contents
    switch read(bytes) {
    case .success(let contents): edited = contents
    case .failure(let unread): return .flagged(unread.reason)
    }
    if let named = edited.folder, named.text.flatMap(EntityID.init) != folder {
      return .flagged(
        "`folder` names \(named.compact), and this directory follows \(folder); a directory follows another folder by `add`"
      )
    }
    for key in edited.settings.keys where !settings.contains(key) {
      return .flagged("`\(key)` is no setting of a folder")
    }
    let inForce = (try? FolderSettings.named(in: row)) ?? row
    if edited.settings == inForce { return .changesNothing }
    var last = JSONObject()
    if case .success(let contents) = read(lastWritten.text) { last = contents.settings }
    let base = edited.version ?? lastWritten.version
    let isCurrent = base == lastWritten.version
    if isCurrent, let missing = last.keys.first(where: { edited.settings[$0] == nil }) {
      return .flagged(
        "`\(missing)` was taken out, and the server replaces settings but never removes one; write it empty instead, `[]` for "
          + "a list, `{}` for a map")
    }
    // What the file leaves out stands as it is: judged together with what is in force.
    var whole = inForce
    for (key, value) in edited.settings.members { whole[key] = value }
    do throws(FolderSettings.Refusal) { _ = try FolderSettings(row: whole, checks: checks) } catch {
      return .flagged(error.description)
    }
    guard isCurrent else { return .sends(version: base, settings: edited.settings) }
    let changed = JSONObject(
      edited.settings.members.lazy.filter { last[$0.key] != $0.value }.map { ($0.key, $0.value) })
    return changed.isEmpty ? .changesNothing : .sends(version: base, settings: changed)
  }

  private static let settings: Set<Text> = [
    "title", "search", "defaults", "include", "ignore", "first_placement", "removal_threshold",
  ]
}

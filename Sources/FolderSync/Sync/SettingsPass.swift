import Glibc
import MarfaBase
import MarfaCopy

/// `folder.yaml` in a pass: an edit of it is sent, and it is written from the settings in force (F1.9 to F1.23, X19, X20).
extension FolderEngine {
  private static let path: PathBytes = stateDirectoryName.appending(SettingsFile.name)

  /// What the file holds now; nil where it is missing.
  private func settingsText(in root: any Directory) throws(FileError) -> [UInt8]? {
    do throws(FileError) {
      let reading = try FileReading(Self.path, below: root, keep: 1 << 20)
      guard let bytes = reading.bytes else { throw FileError(code: EFBIG, operation: "read", path: Self.path) }
      return bytes
    } catch {
      if error.code == ENOENT { return nil }
      throw error
    }
  }

  private var lastWritten: (text: [UInt8], version: Int)? {
    get throws {
      guard let text = try store.fact(.yamlText), let version = try store.fact(.yamlVersion).flatMap({ Int($0.string) })
      else { return nil }
      return (text.bytes, version)
    }
  }

  /// Sends an edit of the settings file, before the scan, so that the answer is in force for the rest of the push (F1.12).
  package func sendSettings() throws -> SettingsFileOutcome {
    var outcome = SettingsFileOutcome()
    if context.sabotage.breaks(.nothingDecided) { return outcome }
    let root = try openRoot()
    try settleSettingsLanding(in: root)
    let held: [UInt8]?
    do throws(FileError) { held = try settingsText(in: root) } catch {
      // What it says is not known: nothing is sent, and the rest of the push goes on (X20.3).
      outcome.flagged = "\(Self.path) cannot be read: \(error.reason)"
      return outcome
    }
    guard let last = try lastWritten, let bytes = held, bytes != last.text else { return outcome }
    let facts = try facts()
    if let refused = try refusedReason(bytes, row: facts.row) {
      outcome.flagged = refused
      return outcome
    }
    switch SettingsFile.judge(
      bytes, lastWritten: last, inForce: facts.row.properties, folder: folderID,
      checks: PassFacts.checks(facts.catalog))
    {
    case .unedited: break
    case .changesNothing: try write(facts.row, over: bytes, in: root, &outcome)
    case .flagged(let reason): outcome.flagged = reason
    case .sends(let version, let settings): try send(settings, at: version, bytes, root, facts, &outcome)
    }
    return outcome
  }

  private func send(
    _ settings: JSONObject, at version: Int, _ bytes: [UInt8], _ root: any Directory, _ facts: PassFacts,
    _ outcome: inout SettingsFileOutcome
  ) throws {
    var body = members(["version": .int(version)])
    for member in settings.members { body[member.key] = member.value }
    let text = JSON.object(body).write()
    do throws(MarfaError) {
      // Nothing goes to an instance that was not confirmed (F1.21, D2.8).
      try copy.confirmInstance()
      let answer = try copy.server.ask(
        "PATCH", "/folders/\(folderID)",
        body: .bytes(text),
        headers: [
          HTTPHeader("Content-Type", "application/json"),
          HTTPHeader("Idempotency-Key", "\(folderID)-settings-\(ContentHash(of: text).hex)"),
        ])
      guard answer.isSuccess else { throw copy.server.refusal(answer) }
      try takeRow()
    } catch {
      let isAnswer = [400, 403, 404, 409, 422].contains(error.server?.status ?? 0)
      guard isAnswer else {
        if error.code == .canceled { throw error }
        outcome.flagged = "the edit of folder.yaml is not sent yet: \(error.message)"
        if error.code == .rateLimited { outcome.retryAfter = error.retryAfter ?? MarfaError.unnamedWait }
        return
      }
      var reason = "the folder door refused the edit of folder.yaml: \(error.refusalReason)"
      if error.server?.status == 409 {
        reason += "; delete the file to take back the settings in force, then edit again"
      }
      // A conflict is with a row this copy has not heard of: the text stands refused at that one's version (F1.20).
      if error.server?.status == 409 { try takeRow() }
      let version = try settingsRow()?.version ?? facts.row.version
      try commit {
        try store.set(.yamlRefusedText, Text(bytes: bytes))
        try store.set(.yamlRefusedReason, Text(reason))
        try store.set(.yamlRefusedVersion, Text(String(version)))
      }
      outcome.flagged = reason
      return
    }
    outcome.sent = true
    guard let row = try settingsRow() else { return }
    try write(row, over: bytes, in: root, &outcome)
  }

  /// The settings the door answers are in force from then on (F1.17): the row is read again, or the answer kept.
  private func takeRow() throws(MarfaError) {
    do throws(MarfaError) { _ = try copy.freshRead(item: folderID) } catch {
      if !error.isEnvironmental { throw error }
    }
  }

  /// Why the very text was refused before, where it still stands so (F1.20, X19.11).
  private func refusedReason(_ bytes: [UInt8], row: Item) throws -> String? {
    guard let text = try store.fact(.yamlRefusedText), text.bytes == bytes,
      try store.fact(.yamlRefusedVersion)?.string == String(row.version)
    else { return nil }
    return try store.fact(.yamlRefusedReason)?.string
  }

  /// Writes the file from the settings in force where the row moved or the file is missing; an edit is never written over
  /// (F1.11, F1.22, X20.1).
  package func writeSettings(in root: any Directory) throws -> SettingsFileOutcome {
    var outcome = SettingsFileOutcome()
    if context.sabotage.breaks(.nothingDecided) { return outcome }
    try settleSettingsLanding(in: root)
    guard let row = try settingsRow() else { return outcome }
    let last = try lastWritten
    let bytes: [UInt8]?
    do throws(FileError) { bytes = try settingsText(in: root) } catch {
      outcome.unwritten = "\(Self.path) cannot be read: \(error.reason)"
      return outcome
    }
    if let bytes, let last, bytes != last.text {
      let facts = try facts()
      if let refused = try refusedReason(bytes, row: row) {
        outcome.flagged = refused
      } else if case .flagged(let reason) = SettingsFile.judge(
        bytes, lastWritten: last, inForce: row.properties, folder: folderID, checks: PassFacts.checks(facts.catalog))
      {
        outcome.flagged = reason
      }
      return outcome
    }
    if bytes != nil, last?.version == row.version { return outcome }
    try write(row, over: bytes, in: root, &outcome)
    return outcome
  }

  /// Lands the file over the text expected there, recorded before its bytes land (F20.1, X20.4).
  private func write(
    _ row: Item, over expected: [UInt8]?, in root: any Directory, _ outcome: inout SettingsFileOutcome
  ) throws {
    let text: [UInt8]
    do throws(RenderFailure) {
      text = try SettingsFile.render(folder: folderID, version: row.version, row: row.properties)
    } catch {
      outcome.unwritten = "\(Self.path) cannot be written: \(error.reason)"
      return
    }
    if text == expected { return try recordSettings(text, row.version) }
    let landing = landing(in: root)
    do throws(LandingFailure) {
      let prepared = try landing.prepare(
        LandingWish(
          path: Self.path, content: .bytes(text),
          expected: expected.map { .bytes(ContentHash(of: $0)) } ?? .absent, mode: 0o600))
      do {
        try commit {
          try store.set(.yamlLandingText, Text(bytes: text))
          try store.set(.yamlLandingVersion, Text(String(row.version)))
        }
      } catch {
        landing.discard(prepared)
        throw LandingFailure(.refused, "\(error)")
      }
      let landed = try landing.publish(prepared)
      if let displaced = landed.displaced { _ = landing.settle(displaced) }
      try landing.syncDirectories()
    } catch {
      try commit {
        try store.set(.yamlLandingText, nil)
        try store.set(.yamlLandingVersion, nil)
      }
      outcome.unwritten = "\(Self.path) cannot be written: \(error.reason)"
      return
    }
    try recordSettings(text, row.version)
    outcome.written = true
  }

  private func recordSettings(_ text: [UInt8], _ version: Int) throws {
    try commit {
      try store.set(.yamlText, Text(bytes: text))
      try store.set(.yamlVersion, Text(String(version)))
      for fact in [
        FolderStore.Fact.yamlLandingText, .yamlLandingVersion, .yamlRefusedText, .yamlRefusedReason,
        .yamlRefusedVersion,
      ] {
        try store.set(fact, nil)
      }
    }
  }

  /// Settles a landing of the file that a crash cut off, by its bytes (X20.4).
  private func settleSettingsLanding(in root: any Directory) throws {
    try sweepSettings(in: root)
    guard let text = try store.fact(.yamlLandingText), let version = try store.fact(.yamlLandingVersion) else { return }
    let held: [UInt8]?
    // Unreadable now, it is settled once it can be read.
    do throws(FileError) { held = try settingsText(in: root) } catch { return }
    if let bytes = held, bytes == text.bytes {
      return try recordSettings(bytes, Int(version.string) ?? 0)
    }
    try commit {
      try store.set(.yamlLandingText, nil)
      try store.set(.yamlLandingVersion, nil)
    }
  }

  /// Takes away what a landing of the file that was cut off left beside it (X14.3). Where one is under way, a left-over may
  /// be what it displaced: it goes only where it holds our own text.
  private func sweepSettings(in root: any Directory) throws {
    let names: [PathBytes]
    do throws(FileError) {
      names = try root.directory(stateDirectoryName).list().map(\.name).filter { TemporaryName($0) != nil }
    } catch { return }
    guard !names.isEmpty else { return }
    let own = [try store.fact(.yamlLandingText)?.bytes, try lastWritten?.text].compactMap { $0 }
    let isUnderWay = try store.fact(.yamlLandingText) != nil
    let ours = names.map { stateDirectoryName.appending($0) }.filter { path in
      guard isUnderWay else { return true }
      guard case .read(let reading) = read(path, in: root, keeping: true), let bytes = reading.bytes else {
        return false
      }
      return own.contains { $0.starts(with: bytes) }
    }
    sweepTemporaries(ours, below: root, files: context.files)
  }

  /// Writes the file from the row whatever it holds: an add, whose unsent edit is lost (F1.8).
  package func writeSettingsAfresh(in root: any Directory) throws {
    guard let row = try settingsRow() else { return }
    var outcome = SettingsFileOutcome()
    let held: [UInt8]?
    do throws(FileError) { held = try settingsText(in: root) } catch {
      throw MarfaError(.store, "\(Self.path) cannot be read: \(error.reason)")
    }
    try write(row, over: held, in: root, &outcome)
    if let reason = outcome.unwritten { throw MarfaError(.store, reason) }
  }
}

import MarfaBase
import MarfaCopy

/// Names asked of the server within one pass, each once (F11.11 to F11.18, P6.4).
final class NameLookups {
  enum Outcome {
    /// Asked now or before; the answers are in `titled`.
    case asked
    /// The server could not be reached, or is not asked by this pass (F11.17).
    case waits
    /// The server refused it, or more than five pages hold the name (F11.18).
    case refused(String)
  }

  private let folder: FolderEngine
  private let facts: PassFacts
  private let asksServer: Bool
  private var titledItems: [NameKey: Set<EntityID>] = [:]
  private var outcomes: [Text: Outcome] = [:]
  private var isAway = false

  init(folder: FolderEngine, facts: PassFacts, asksServer: Bool) {
    self.folder = folder
    self.facts = facts
    self.asksServer = asksServer
  }

  /// From how many names on they are asked together (P6.4).
  private static let together = 8

  /// Asks many names at once, those that a pass is about to ask; what could not be told so is asked alone when its turn
  /// comes.
  func ask(all names: [Text]) throws {
    let names = names.filter { outcomes[$0] == nil }
    guard asksServer, !isAway, names.count >= Self.together, folder.copy.server.endpoint != nil else { return }
    do throws(MarfaError) {
      for (name, items) in try folder.copy.lookUp(names: names) {
        titledItems[NameKey(name), default: []].formUnion(items)
        outcomes[name] = .asked
      }
    } catch {
      if error.isEnvironmental {
        isAway = true
      } else if error.code == .canceled || error.exit == 5 {
        throw error
      }
    }
  }

  /// The items the server named for a title, beside the copy's own.
  func titled(_ key: NameKey) -> Set<EntityID> { titledItems[key] ?? [] }

  /// Asks the server for a name, in both Unicode forms (F27.7).
  func ask(_ name: Text) throws -> Outcome {
    if let known = outcomes[name] { return known }
    guard asksServer, !isAway, folder.copy.server.endpoint != nil else { return .waits }
    let outcome: Outcome
    do throws(MarfaError) {
      for item in try folder.copy.lookUp(name: name) { titledItems[NameKey(name), default: []].insert(item.id) }
      outcome = .asked
    } catch {
      if error.isEnvironmental {
        isAway = true
        return .waits
      }
      if error.code == .canceled || error.exit == 5 { throw error }
      outcome = .refused(error.refusalReason)
    }
    outcomes[name] = outcome
    return outcome
  }

  /// Reads an item by id that nothing here holds, and pins it (F11.10, F11.11). Nil where the server has none.
  func item(_ id: EntityID) throws -> EntityID?? {
    guard asksServer, !isAway, folder.copy.server.endpoint != nil else { return .none }
    do throws(MarfaError) {
      try folder.copy.pin(id, owner: Pin.line)
      return .some(id)
    } catch {
      if error.isEnvironmental {
        isAway = true
        return .none
      }
      if error.code == .canceled || error.exit == 5 { throw error }
      return .some(nil)
    }
  }
}

/// Whose pins the folder's are (F-B11).
enum Pin {
  /// A bound file's row (F35.6).
  static let file: Text = "folder:file"
  /// An item at the other end of an edge a file writes (F11.10).
  static let line: Text = "folder:line"
  /// The settings row (F1.6).
  static let settings: Text = "folder:settings"
}

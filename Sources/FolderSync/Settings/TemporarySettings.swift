import MarfaBase
import MarfaCopy
package struct FolderDefaults: Hashable, Sendable {
  package var type: Text?
  package var tier: Text?
  package var properties = JSONObject()
  package var tags: [Text] = []
  package var edges: [(Text, [EntityID])] { [] }
}
package struct FolderSettings: Sendable {
  package var search = FolderSearch()
  package var defaults = FolderDefaults()
  package var include: [Text] = []
  package var ignore: [Text] = []
  package var firstPlacement: [(Text, Text)] = []
  package var removalFiles = 10
  package var removalFraction = 0.25
  package static func following(_ row: Item, catalog: Catalog) throws -> FolderSettings { FolderSettings() }
}
extension BodyReferences { static func read(_ b: [UInt8], kind: DocumentKind) -> BodyReferences { BodyReferences() } }
extension FolderEngine { func settleLandings(in root: any Directory) throws {} }

import MarfaBase

extension Instance {
  func registerType(_ call: Call) throws -> Reply { throw Refusal.notFound }
  func replaceType(_ call: Call) throws -> Reply { throw Refusal.notFound }
  func deleteType(_ call: Call) throws -> Reply { throw Refusal.notFound }
  func registerEdgeType(_ call: Call) throws -> Reply { throw Refusal.notFound }
  func deleteEdgeType(_ call: Call) throws -> Reply { throw Refusal.notFound }
}

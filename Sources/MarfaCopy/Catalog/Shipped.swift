import MarfaBase

extension Catalog {
  /// The shipped types and edge types, for a copy that never asked a server (D48.1): `catalog.json` in its wire form
  /// (T108, T109).
  package static func shipped() throws(MarfaError) -> Catalog {
    let catalog: JSON
    do throws(JSONError) { catalog = try JSON(parsing: ShippedCatalog.json) } catch {
      throw MarfaError(.noCatalog, "the shipped catalog cannot be read: \(error.description)")
    }
    return Catalog(
      version: nil, types: (catalog["types"]?.array ?? []).map(wireType),
      edgeTypes: (catalog["edge_types"]?.array ?? []).map(wireEdgeType))
  }

  private static func wireField(_ field: JSON) -> (Text, JSON) {
    var wire = JSONObject()
    wire["type"] = field["kind"] ?? "string"
    for (own, served) in [
      ("required", "required"), ("values", "enum_values"), ("of", "items_type"), ("format", "format"),
      ("about", "description"), ("searchable", "searchable"),
    ] as [(Text, Text)] {
      if let value = field[own] { wire[served] = value }
    }
    return (field["name"]?.text ?? "", .object(wire))
  }

  private static func wireType(_ type: JSON) -> JSON {
    var wire = JSONObject()
    for (own, served) in [
      ("id", "id"), ("parent", "parent"), ("label", "label"), ("about", "description"), ("version", "version"),
      ("roles", "roles"), ("merge", "merge_policy"), ("compatible_with", "compatible_with"),
    ] as [(Text, Text)] {
      if let value = type[own] { wire[served] = value }
    }
    wire["fields"] = .object(JSONObject((type["fields"]?.array ?? []).map(wireField)))
    var hints = JSONObject()
    for hint in ["title_field", "body_field"] as [Text] { if let field = type[hint] { hints[hint] = field } }
    wire["display_hints"] = .object(hints)
    return .object(wire)
  }

  private static func wireEdgeType(_ type: JSON) -> JSON {
    var wire = JSONObject()
    for (own, served) in [
      ("id", "id"), ("label", "label"), ("about", "description"), ("cardinality", "cardinality"),
      ("source", "source_type_constraints"), ("target", "target_type_constraints"), ("on_delete", "cascade_on_delete"),
      ("reverse_name", "reverse_name"), ("written_at", "written_at"),
    ] as [(Text, Text)] {
      if let value = type[own] { wire[served] = value }
    }
    wire["property_schema"] = .object(JSONObject((type["properties"]?.array ?? []).map(wireField)))
    wire["shipped"] = true
    return .object(wire)
  }
}

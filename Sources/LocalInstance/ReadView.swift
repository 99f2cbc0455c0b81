import MarfaBase

/// Read views and conditional reads (RV1, RV6, RV9).
extension Instance {
  /// What names all that a credential reads, as types stand (RV9.2): a hash over the instance, the credential, what it
  /// reads, the source filters, and a counter raised by whatever moves views on.
  func readView(_ credential: Credential) -> String {
    let parts = [
      instanceID.description, credential.id.description, credential.types.readSpelling, credential.edges.readSpelling,
      credential.metadata.readSpelling, credential.extensions.readSpelling, Levers.spelling(settings.sourceFilter),
      Levers.spelling(credential.levers.sourceFilter), "\(viewCounter)",
    ]
    return ContentHash(of: Array(parts.joined(separator: "\n").utf8)).hex
  }

  func judgeViewForm(_ view: String) throws {
    guard view.utf8.count == 64,
      view.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else { throw Refusal.invalid("X-Marfa-Read-View", "A read view is 64 lowercase hexadecimal digits.") }
  }

  /// Judges the view a read is conditional on (RV6.6).
  func judgeView(_ view: String, _ call: Call) throws {
    guard call.door.isConditional else {
      throw Refusal.invalid("X-Marfa-Read-View", "This operation is no conditional read.")
    }
    guard call.headerCount("x-marfa-read-view") == 1 else {
      throw Refusal.invalid("X-Marfa-Read-View", "One read view.")
    }
    try judgeViewForm(view)
    if call.door.isItemPage, !commaList(call.query["include"] ?? "").contains("metadata") {
      throw Refusal.invalid("include", "A conditional item page includes metadata.")
    }
    if view != readView(call.credential) { throw Refusal.viewChanged }
  }
}

extension Refusal {
  /// The body is exactly this (RV2.6).
  static let viewChanged = Refusal(409, "read_view_changed", "The read view changed. Rebuild the working copy.")
}

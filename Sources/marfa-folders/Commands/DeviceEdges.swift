import MarfaBase
import MarfaCopy

/// `device edges`.
func deviceEdges() -> Command {
  let item = Argument("ITEM", "The item.")
  let properties = Option("properties", .text("JSON"), "The properties, a JSON object; none where not given.")
  return Command(
    name: "edges", summary: "the edges of the copy",
    commands: [
      Command(name: "list", summary: "edges that begin at an item", arguments: [item], run: edgesFrom),
      Command(name: "to", summary: "edges that end at an item", arguments: [item], run: edgesTo),
      Command(
        name: "create", summary: "queue a new edge",
        options: [
          Option("source", .text("ID"), required: true, "Where it begins."),
          Option("target", .text("ID"), required: true, "Where it ends."),
          Option("type", .text("T"), required: true, "Its type."), properties,
          Option("id", .text("ID"), "Its id; a new one where none is given."),
        ], run: createEdge),
      Command(
        name: "update", summary: "queue a change of an edge",
        options: [
          properties, Option("version", .number("N"), "The version it is based on."),
          Option("source", .text("ID"), "Where it begins now."), Option("target", .text("ID"), "Where it ends now."),
        ], arguments: [Argument("ID", "The edge.")], run: updateEdge),
      Command(
        name: "delete", summary: "queue an edge's end", arguments: [Argument("ID", "The edge.")], run: deleteEdge),
    ])
}

/// `device tags`.
func deviceTags() -> Command {
  let arguments = [Argument("ITEM", "The item."), Argument("TAG", "The tag.")]
  return Command(
    name: "tags", summary: "tags of an item",
    commands: [
      Command(name: "add", summary: "queue a tag", arguments: arguments, run: addTag),
      Command(name: "remove", summary: "queue a tag's end", arguments: arguments, run: removeTag),
    ])
}

private func edgeLine(_ edge: Edge) -> String {
  "\(edge.id) \(edge.source) \(edge.type) \(edge.target) version \(edge.version)"
}

@Sendable private func edgesFrom(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let edges = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.readEdges(from: id) }
  return answer(edges, invocation)
}

@Sendable private func edgesTo(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let edges = try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.readEdges(to: id) }
  return answer(edges, invocation)
}

private func answer(_ edges: [Edge], _ invocation: Invocation) -> Int32 {
  if edges.isEmpty { invocation.program.output.note("No edges.") }
  invocation.program.output.answer(.array(edges.map(\.json)), edges.map(edgeLine))
  return 0
}

@Sendable private func createEdge(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let properties = try object(invocation, "properties") ?? JSONObject()
  guard let source = try id(invocation, option: "source"), let target = try id(invocation, option: "target") else {
    throw MarfaError(.usage, "'edges create' needs --source and --target")
  }
  let given = try newID(invocation)
  let draft = EdgeDraft(
    id: given, source: source, target: target,
    type: invocation.value("type") ?? "", properties: properties)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.createEdge(draft) }, invocation)
}

@Sendable private func updateEdge(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let properties = try object(invocation, "properties")
  guard let version = invocation.number("version") else {
    throw MarfaError(.invalid, "'edges update' needs --version, the version the edit is based on")
  }
  let source = try marfa_folders.id(invocation, option: "source")
  let target = try marfa_folders.id(invocation, option: "target")
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) -> QueuedWrite? in
    guard try copy.edge(id) != nil else { throw MarfaError(.notHeld, "the copy does not hold the edge \(id)") }
    return try copy.queue.updateEdge(
      id, version: version, properties: properties, source: source,
      target: target)
  }
  guard let write else {
    // C25.4: nothing changes, so nothing is queued.
    invocation.program.output.answer(.null, ["nothing changes"])
    return 0
  }
  return answer(write, invocation)
}

@Sendable private func deleteEdge(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in try copy.queue.deleteEdge(id) }, invocation)
}

@Sendable private func addTag(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in
      try copy.queue.addTag(id, invocation.argument(1) ?? "")
    }, invocation)
}

@Sendable private func removeTag(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  return answer(
    try DeviceStore(invocation).use { (copy) throws(MarfaError) in
      try copy.queue.removeTag(id, invocation.argument(1) ?? "")
    }, invocation)
}

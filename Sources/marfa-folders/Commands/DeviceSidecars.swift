import MarfaBase
import MarfaCopy

/// `device metadata`.
func deviceMetadata() -> Command {
  let item = Argument("ITEM", "The item.")
  let tag = Option("tag", .text("TAG"), repeats: true, "A tag.")
  return Command(
    name: "metadata", summary: "an item's metadata as a whole",
    commands: [
      Command(
        name: "replace", summary: "queue its tags in place of all it has", options: [tag], arguments: [item],
        run: replaceTags),
      Command(
        name: "merge", summary: "queue tags beside those it has", options: [tag], arguments: [item], run: mergeTags),
    ])
}

/// `device extensions`.
func deviceExtensions() -> Command {
  let arguments = [Argument("ITEM", "The item."), Argument("NS", "The namespace.")]
  return Command(
    name: "extensions", summary: "an item's extensions",
    commands: [
      Command(
        name: "write", summary: "queue an extension in place of what stands there",
        options: [Option("body", .text("JSON"), "The extension, a JSON object; an empty one where not given.")],
        arguments: arguments, run: writeExtension),
      Command(name: "delete", summary: "queue an extension's end", arguments: arguments, run: deleteExtension),
    ])
}

@Sendable private func replaceTags(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.queue.replaceTags(id, invocation.all("tag"))
  }
  return answer(write, invocation)
}

@Sendable private func mergeTags(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.queue.mergeTags(id, invocation.all("tag"))
  }
  return answer(write, invocation)
}

@Sendable private func writeExtension(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let body = try object(invocation, "body") ?? JSONObject()
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.queue.writeExtension(id, invocation.argument(1) ?? "", body)
  }
  return answer(write, invocation)
}

@Sendable private func deleteExtension(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try id(invocation)
  let write = try DeviceStore(invocation).use { (copy) throws(MarfaError) in
    try copy.queue.deleteExtension(id, invocation.argument(1) ?? "")
  }
  return answer(write, invocation)
}

import LocalInstance
import MarfaBase
import MarfaCopy

/// `instance`: this machine's own server (N2).
func instanceCommand() -> Command {
  Command(
    name: "instance", summary: "a small server on this computer",
    discussion:
      "The address 'local' means it. A command that needs it starts it; 'run' keeps it running in the foreground.",
    options: [
      Option("data", .text("DIR"), "Its data, in place of $XDG_DATA_HOME/marfa-folders/instance.")
    ],
    commands: [
      Command(
        name: "run", summary: "run it until it is stopped",
        discussion: "Ready, it prints one line: its address; under --json also its owner key, instance id and process.",
        options: [
          Option("listen", .text("ADDR:PORT"), "Listen on a port too; port 0 takes any free one."),
          Option("socket", .text("PATH"), "Listen on another unix socket too."),
          Option("allow-public", "Allow an address other than loopback. It is plain http: put a TLS proxy in front."),
          Option("idle-exit", .number("SECONDS"), "End after so long without a request or a held stream."),
        ], run: runInstance),
      Command(name: "status", summary: "whether it runs, and what it holds", run: instanceStatus),
      Command(name: "stop", summary: "end it, once what is under way is answered", run: stopInstance),
      Command(
        name: "backup", summary: "copy its data while it runs",
        arguments: [Argument("TO", "A directory that is empty or absent; 'instance run --data TO' opens it.")],
        run: backUpInstance),
      Command(
        name: "key", summary: "keys for other programs and computers",
        commands: [
          Command(
            name: "create", summary: "make a key; it is shown this once",
            discussion:
              "A key reaches what is named here and nothing else: one of which nothing is named reaches nothing.",
            options: [
              Option("label", .text("L"), "What it is for."),
              Option("folders", "All that keeping folders in step needs: every type, edge and tag, to be written."),
              Option(
                "permission", .text("TYPE=read|write"), repeats: true,
                "What it may do with a type, or with an edge type as edge.TYPE; '*' and 'edge.*' are every one."),
              Option(
                "metadata", .text("FAMILY=read|write"), repeats: true, "What it may do with a family of metadata."),
            ], run: createKey),
          Command(name: "list", summary: "the keys, without their secrets", run: listKeys),
          Command(
            name: "revoke", summary: "end a key", arguments: [Argument("ID", "The key's id.")], run: revokeKey),
        ]),
    ])
}

private func home(_ invocation: Invocation) throws(MarfaError) -> InstanceHome {
  try invocation.program.instanceHome(data: invocation.value("data"))
}

@Sendable private func instanceStatus(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let status = try home(invocation).status()
  var line = status.isRunning ? "running at \(status.url ?? "local")" : "not running"
  if status.isRunning, let pid = status.pid { line += ", process \(pid)" }
  if let since = status.since { line += ", since \(since)" }
  var lines = [line]
  var data = "data in \(status.data)"
  if let bytes = status.bytes { data += ", \(bytes) bytes" }
  if let items = status.items { data += ", \(counted(items, "item"))" }
  lines.append(data)
  invocation.program.output.answer(status.json, lines)
  return 0
}

@Sendable private func stopInstance(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let home = try home(invocation)
  let ran: Bool
  do throws(InstanceFailure) { ran = try home.stop() } catch { throw MarfaError(error) }
  invocation.program.output.answer(["stopped": .bool(ran)], [ran ? "stopped" : "it was not running"])
  return 0
}

@Sendable private func backUpInstance(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let home = try home(invocation)
  let target = invocation.program.absolute(PathBytes(invocation.argument(0) ?? ""))
  do throws(InstanceFailure) { try home.backup(to: target) } catch { throw MarfaError(error) }
  invocation.program.output.answer(
    ["backup": .string(target.text)],
    ["copied to \(target); 'marfa-folders instance run --data \(shellWord(target))' opens it"])
  return 0
}

private func keys(_ invocation: Invocation) throws(MarfaError) -> InstanceKeys {
  let home = try home(invocation)
  guard home.holdsData else { throw MarfaError(.invalid, "there is no instance's data in \(home.path)") }
  return InstanceKeys(
    home: home, transport: CurlTransport(CurlTransport.Options(localSocket: home.socket)),
    stop: invocation.program.stop)
}

private func pairs(_ invocation: Invocation, _ option: String) throws(MarfaError) -> [(Text, level: Text)] {
  var found: [(Text, level: Text)] = []
  for pair in invocation.all(option) {
    guard let equals = pair.bytes.lastIndex(of: UInt8(ascii: "=")) else {
      throw MarfaError(.invalid, "--\(option) takes NAME=read or NAME=write, not '\(pair)'")
    }
    let level = Text(bytes: pair.bytes[(equals + 1)...])
    guard level == "read" || level == "write" else {
      throw MarfaError(.invalid, "--\(option) takes NAME=read or NAME=write, not '\(pair)'")
    }
    found.append((Text(bytes: pair.bytes[..<equals]), level))
  }
  return found
}

@Sendable private func createKey(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  var types: [(pattern: Text, level: Text)] = []
  var edges: [(pattern: Text, level: Text)] = []
  for (name, level) in try pairs(invocation, "permission") {
    // Edge types stand among the types as they do in a sign-in's scope.
    if name.bytes.starts(with: "edge.".utf8) {
      edges.append((Text(bytes: name.bytes.dropFirst(5)), level))
    } else {
      types.append((name, level))
    }
  }
  var metadata = try pairs(invocation, "metadata").map { (family: $0.0, level: $0.level) }
  if invocation.has("folders") {
    guard types.isEmpty, edges.isEmpty, metadata.isEmpty else {
      throw MarfaError(.usage, "--folders and --permission or --metadata exclude each other")
    }
    types = [("*", "write")]
    edges = [("*", "write")]
    metadata = [("tags", "write")]
  }
  let keys = try keys(invocation)
  let made: JSON
  do throws(InstanceFailure) {
    made = try keys.create(label: invocation.value("label"), types: types, edges: edges, metadata: metadata)
  } catch { throw MarfaError(error) }
  let key = (made["key"]?.text ?? made["plaintext"]?.text)?.string
  invocation.program.output.answer(
    made, [key ?? "made"] + (key == nil ? [] : ["It is shown this once: keep it where it is needed."]))
  return 0
}

@Sendable private func listKeys(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let keys = try keys(invocation)
  let list: JSON
  do throws(InstanceFailure) { list = try keys.list() } catch { throw MarfaError(error) }
  let rows = list.array ?? list["keys"]?.array ?? []
  if rows.isEmpty { invocation.program.output.note("No keys.") }
  invocation.program.output.answer(
    list,
    rows.map { row in
      "\(row["id"]?.text ?? "?")  \(row["label"]?.text ?? "")"
        + (row["revoked_at"]?.text.map { "  revoked \($0)" } ?? "")
    })
  return 0
}

@Sendable private func revokeKey(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let id = try folderID(invocation.argument(0))
  let keys = try keys(invocation)
  do throws(InstanceFailure) { try keys.revoke(id) } catch { throw MarfaError(error) }
  invocation.program.output.answer(["id": .string(id.text), "revoked": true], ["\(id) is revoked"])
  return 0
}

/// What the environment sets an instance up to do (EV11.1, EV18.1, B2.5, K6.1, ER4.2).
private func environmentSettings(_ program: Program) throws(MarfaError) -> InstanceSettings {
  func number(_ name: Text) throws(MarfaError) -> Int? {
    guard let text = program.variable(name), !Terminal.trimmed(text).isEmpty else { return nil }
    guard let value = Int(Terminal.trimmed(text).string), value >= 0 else {
      throw MarfaError(.invalid, "\(name) takes a whole number of at least 0, not '\(text)'")
    }
    return value
  }
  var settings = InstanceSettings()
  if let viewers = try number("MARFA_SSE_MAX_VIEWERS") { settings.maximumViewers = viewers }
  if let reserve = try number("MARFA_DISK_RESERVE_BYTES") { settings.diskReserve = reserve }
  if let hours = try number("MARFA_EVENT_LOG_RETENTION_HOURS") { settings.eventRetentionHours = min(hours, 876_000) }
  // No limit stands unless one is set (K6.4).
  if let requests = try number("RATE_LIMIT_REQUESTS"), requests > 0 { settings.requestsPerMinute = requests }
  if let budget = try number("SQLITE_BUSY_BUDGET_MS") { settings.busyBudget = min(budget, 600_000) }
  return settings
}

@Sendable private func runInstance(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let program = invocation.program
  let home = try home(invocation)
  var options = InstanceRunOptions()
  options.listen = invocation.value("listen")?.string
  options.socket = invocation.value("socket").map { program.absolute(PathBytes($0)) }
  options.allowPublic = invocation.has("allow-public")
  let context = program.context()
  let settings = try environmentSettings(program)
  if let seconds = invocation.number("idle-exit"), seconds > 0 {
    // The server's own waits are the system's, so the scale of a test is laid over the option (C27.2).
    options.idleExitSeconds = max(1, Int(context.clock.wait(milliseconds: Int64(min(seconds, 1 << 40)) * 1000) / 1000))
  }
  if options.allowPublic, options.listen != nil {
    program.output.warning("this server speaks plain http; put a TLS proxy in front of it", always: true)
  }
  let answered: Bool
  do throws(InstanceFailure) {
    var signIn = SignInPolicy { asked in
      // Standard output holds the line of N2.1 alone; this is for who runs the instance, whatever reads that.
      program.output.error(
        "sign-in asked for by \(Output.oneLine(asked.client.string))" + (asked.userCode.map { " (\($0))" } ?? "")
          + ": its page takes the one-time code \(asked.oneTimeCode)")
    }
    #if DEBUG
      // The consent a test steers (K18.2).
      if program.variable("MARFA_TEST_TIME") != nil { signIn = SignInPolicy() }
    #endif
    answered = try home.run(
      options, settings: settings, signIn: signIn, stop: program.stop, clock: context.clock, ids: context.ids
    ) { ready in
      if program.output.json {
        program.output.record([
          "url": .string(ready.url), "owner_key": .string(ready.ownerKey),
          "instance_id": .string(ready.instanceID.text), "pid": .int(ready.pid),
        ])
      } else {
        program.output.line(ready.url)
      }
    }
  } catch {
    guard case .foreign = error else { throw MarfaError(error) }
    program.output.refusal(MarfaError(error), exit: 78)
    return 78
  }
  return answered ? 0 : 1
}

import CSecret
import Glibc
import MarfaBase
import Synchronization

/// Whether this computer spares its network or its battery now (P5.3): NetworkManager says the network is metered, or the
/// power profile is the saver's. Asked on the system bus from a thread of its own, at most twice a minute; a bus that is
/// not there spares nothing, and one that does not answer costs a caller a few seconds at most.
final class Sparing: Sendable {
  private struct State: Sendable {
    var answer = false
    var asked: UInt64?
    var isAsking = false
  }

  private let address: String?
  private let clock: any Clock
  private let state = Mutex(State())

  /// Of this computer. `MARFA_METERED=ignore` is the setting that sends everything all the same.
  init(_ program: Program, _ context: Context) {
    clock = context.clock
    if program.variable("MARFA_METERED") == "ignore" {
      address = nil
    } else if let named = program.variable("DBUS_SYSTEM_BUS_ADDRESS") {
      address = named.string
    } else {
      let socket: PathBytes = "/run/dbus/system_bus_socket"
      let isThere = ((try? SystemFileSystem().status(socket)) ?? nil) != nil
      address = isThere ? "unix:path=\(socket)" : nil
    }
  }

  /// The answer, at most half a minute old where one is to be had.
  var isOn: Bool {
    guard let address else { return false }
    let now = clock.monotonic
    let asks = state.withLock { state in
      if state.isAsking { return false }
      if let asked = state.asked, now &- asked < 30_000_000_000 { return false }
      state.isAsking = true
      return true
    }
    if asks {
      let over = StopFlag()
      let begun = startThread { [self] in
        let answer = Sparing.ask(address)
        state.withLock { $0 = State(answer: answer, asked: clock.monotonic, isAsking: false) }
        over.set(.stopped)
      }
      // Real time, whatever a test's is: the bus's own is.
      if begun { _ = SystemScheduler().wait(nanoseconds: 5_000_000_000, unless: over) }
    }
    return state.withLock { $0.answer }
  }

  private static func ask(_ address: String) -> Bool {
    let context = g_main_context_new()
    g_main_context_push_thread_default(context)
    defer {
      g_main_context_pop_thread_default(context)
      g_main_context_unref(context)
    }
    let flags =
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT.rawValue
      | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION.rawValue
    guard
      let bus = g_dbus_connection_new_for_address_sync(
        address, GDBusConnectionFlags(rawValue: flags), nil, nil, nil)
    else { return false }
    g_dbus_connection_set_exit_on_close(bus, 0)
    defer { g_object_unref(UnsafeMutableRawPointer(bus)) }
    // 1 is yes, 3 a guessed yes.
    let metered = property(
      bus, "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager",
      "Metered"
    ) { g_variant_classify($0) == G_VARIANT_CLASS_UINT32 ? g_variant_get_uint32($0) : 0 }
    if metered == 1 || metered == 3 { return true }
    for name in ["org.freedesktop.UPower.PowerProfiles", "net.hadess.PowerProfiles"] {
      let path = "/" + name.replacing(".", with: "/")
      let profile = property(bus, name, path, name, "ActiveProfile") { value -> String in
        guard g_variant_classify(value) == G_VARIANT_CLASS_STRING else { return "" }
        return g_variant_get_string(value, nil).map { String(cString: $0) } ?? ""
      }
      if let profile { return profile.utf8.elementsEqual("power-saver".utf8) }
    }
    return false
  }

  /// A property of a service that runs; nil where it does not, or has none.
  private static func property<Value>(
    _ bus: OpaquePointer, _ service: String, _ path: String, _ interface: String, _ name: String,
    _ read: (OpaquePointer) -> Value
  ) -> Value? {
    var arguments: [OpaquePointer?] = [g_variant_new_string(interface), g_variant_new_string(name)]
    var error: UnsafeMutablePointer<GError>?
    let answer = g_dbus_connection_call_sync(
      bus, service, path, "org.freedesktop.DBus.Properties", "Get",
      g_variant_new_tuple(&arguments, gsize(arguments.count)), nil, G_DBUS_CALL_FLAGS_NO_AUTO_START, 2_000, nil, &error)
    if let error { g_error_free(error) }
    guard let answer else { return nil }
    defer { g_variant_unref(answer) }
    guard let variant = g_variant_get_child_value(answer, 0) else { return nil }
    defer { g_variant_unref(variant) }
    guard g_variant_classify(variant) == G_VARIANT_CLASS_VARIANT, let value = g_variant_get_variant(variant) else {
      return nil
    }
    defer { g_variant_unref(value) }
    return read(value)
  }
}

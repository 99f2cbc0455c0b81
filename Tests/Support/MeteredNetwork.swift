import CSecret
import Glibc
import MarfaBase
import Synchronization

/// A network manager on a bus of a test's own that says whether the network is metered.
///
/// Unchecked Sendable: what it says is atomic; GLib's objects are touched on its own thread.
package final class MeteredNetwork: @unchecked Sendable {
  private let connection: OpaquePointer
  private let context: OpaquePointer
  private let answer: Atomic<UInt32>
  private let isOver = Atomic<Bool>(false)
  private let isReady = StopFlag()

  private static let name = "org.freedesktop.NetworkManager"
  private static let interface = """
    <node><interface name="org.freedesktop.NetworkManager">
    <property name="Metered" type="u" access="read"/></interface></node>
    """

  /// Takes the manager's name on a bus, and waits until it has it.
  package init(address: String, metered: Bool) throws {
    answer = Atomic(metered ? 1 : 2)
    let flags =
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT.rawValue
      | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION.rawValue
    guard let context = g_main_context_new(),
      let made = g_dbus_connection_new_for_address_sync(
        address, GDBusConnectionFlags(rawValue: flags), nil, nil, nil)
    else { throw ScratchError("the network manager found no bus") }
    g_dbus_connection_set_exit_on_close(made, 0)
    connection = made
    self.context = context
    guard startThread({ [self] in run() }) else { throw ScratchError("no thread for the network manager") }
  }

  /// Whether it has its name.
  package var isThere: Bool { isReady.isSet }

  /// Says another thing from now on.
  package func say(metered: Bool) { answer.store(metered ? 1 : 2, ordering: .releasing) }

  /// Leaves the bus.
  package func end() {
    isOver.store(true, ordering: .releasing)
    g_main_context_wakeup(context)
  }

  private func run() {
    g_main_context_push_thread_default(context)
    defer { g_main_context_pop_thread_default(context) }
    guard let node = g_dbus_node_info_new_for_xml(MeteredNetwork.interface, nil) else { return }
    defer { g_dbus_node_info_unref(node) }
    var table = GDBusInterfaceVTable()
    table.get_property = { _, _, _, _, _, _, me in
      guard let me else { return nil }
      let said = Unmanaged<MeteredNetwork>.fromOpaque(me).takeUnretainedValue().answer.load(ordering: .acquiring)
      return g_variant_new_uint32(said)
    }
    let me = Unmanaged.passUnretained(self).toOpaque()
    withExtendedLifetime(table) {
      _ = g_dbus_connection_register_object(
        connection, "/org/freedesktop/NetworkManager", node.pointee.interfaces[0], &table, me, nil, nil)
      _ = g_bus_own_name_on_connection(
        connection, MeteredNetwork.name, G_BUS_NAME_OWNER_FLAGS_NONE,
        { _, _, me in
          if let me { Unmanaged<MeteredNetwork>.fromOpaque(me).takeUnretainedValue().isReady.set(.stopped) }
        }, nil, me, nil)
      while !isOver.load(ordering: .acquiring) { g_main_context_iteration(context, 1) }
      _ = g_dbus_connection_close_sync(connection, nil, nil)
    }
  }
}

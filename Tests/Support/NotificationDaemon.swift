import CSecret
import Glibc
import MarfaBase
import Synchronization

/// A desktop's notification daemon on a session bus of a test's own: it remembers what it is told, and presses buttons.
///
///     let daemon = try NotificationDaemon(address: session.address)
///     try await eventually { daemon.shown.count == 1 }
///     daemon.press("restore", of: daemon.shown[0].id)
///
/// Unchecked Sendable: what it remembers is behind a mutex; GLib's objects are touched on its own thread, but for a signal
/// sent, which GDBus takes from any.
package final class NotificationDaemon: @unchecked Sendable {
  /// A notification as it was asked for.
  package struct Shown: Sendable {
    package var id: UInt32
    /// The one it replaces; 0 for a new one.
    package var replaces: UInt32
    package var summary: String
    package var body: String
    /// Keys and labels in turn.
    package var actions: [String]
  }

  private struct State {
    var calls: [Shown] = []
    var closed: [UInt32] = []
    var last: UInt32 = 0
  }

  private let connection: OpaquePointer
  private let context: OpaquePointer
  private let state = Mutex(State())
  private let isOver = Atomic<Bool>(false)
  private let takesActions: Bool

  /// Every call so far, replaced ones too.
  package var calls: [Shown] { state.withLock { $0.calls } }
  /// The numbers taken away.
  package var closed: [UInt32] { state.withLock { $0.closed } }
  /// What stands now.
  package var shown: [Shown] {
    state.withLock { state in
      var standing: [UInt32: Shown] = [:]
      for call in state.calls { standing[call.id] = call }
      for id in state.closed { standing[id] = nil }
      return standing.values.sorted { $0.id < $1.id }
    }
  }

  private static let name = "org.freedesktop.Notifications"
  private static let path = "/org/freedesktop/Notifications"
  private static let interface = """
    <node><interface name="org.freedesktop.Notifications">
    <method name="Notify"><arg type="s" direction="in"/><arg type="u" direction="in"/><arg type="s" direction="in"/>
    <arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="as" direction="in"/>
    <arg type="a{sv}" direction="in"/><arg type="i" direction="in"/><arg type="u" direction="out"/></method>
    <method name="CloseNotification"><arg type="u" direction="in"/></method>
    <method name="GetCapabilities"><arg type="as" direction="out"/></method>
    <signal name="ActionInvoked"><arg type="u"/><arg type="s"/></signal>
    <signal name="NotificationClosed"><arg type="u"/><arg type="u"/></signal>
    </interface></node>
    """

  /// Takes the daemon's name on a bus.
  package init(address: String, actions: Bool = true) throws {
    takesActions = actions
    let flags =
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT.rawValue
      | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION.rawValue
    guard let context = g_main_context_new(),
      let made = g_dbus_connection_new_for_address_sync(
        address, GDBusConnectionFlags(rawValue: flags), nil, nil, nil)
    else { throw ScratchError("the notification daemon found no bus") }
    g_dbus_connection_set_exit_on_close(made, 0)
    connection = made
    self.context = context
    guard startThread({ [self] in run() }) else { throw ScratchError("no thread for the notification daemon") }
  }

  /// Leaves the bus.
  package func end() {
    isOver.store(true, ordering: .releasing)
    g_main_context_wakeup(context)
  }

  /// A person presses a button.
  package func press(_ action: String, of id: UInt32) {
    emit("ActionInvoked", [g_variant_new_uint32(id), g_variant_new_string(action)])
  }

  /// A person puts a notification away.
  package func dismiss(_ id: UInt32) {
    state.withLock { $0.closed.append(id) }
    emit("NotificationClosed", [g_variant_new_uint32(id), g_variant_new_uint32(2)])
  }

  private func emit(_ signal: String, _ arguments: [OpaquePointer?]) {
    var arguments = arguments
    _ = g_dbus_connection_emit_signal(
      connection, nil, NotificationDaemon.path, NotificationDaemon.name, signal,
      g_variant_new_tuple(&arguments, gsize(arguments.count)), nil)
    _ = g_dbus_connection_flush_sync(connection, nil, nil)
  }

  private func run() {
    g_main_context_push_thread_default(context)
    defer { g_main_context_pop_thread_default(context) }
    guard let node = g_dbus_node_info_new_for_xml(NotificationDaemon.interface, nil) else { return }
    defer { g_dbus_node_info_unref(node) }
    var table = GDBusInterfaceVTable()
    table.method_call = { _, _, _, _, method, arguments, invocation, me in
      guard let me, let method, let invocation else { return }
      Unmanaged<NotificationDaemon>.fromOpaque(me).takeUnretainedValue()
        .answer(String(cString: method), arguments, invocation)
    }
    let me = Unmanaged.passUnretained(self).toOpaque()
    withExtendedLifetime(table) {
      _ = g_dbus_connection_register_object(
        connection, NotificationDaemon.path, node.pointee.interfaces[0], &table, me, nil, nil)
      _ = g_bus_own_name_on_connection(
        connection, NotificationDaemon.name, G_BUS_NAME_OWNER_FLAGS_NONE, nil, nil, nil, nil)
      while !isOver.load(ordering: .acquiring) { g_main_context_iteration(context, 1) }
      _ = g_dbus_connection_close_sync(connection, nil, nil)
    }
  }

  private func answer(_ method: String, _ arguments: OpaquePointer?, _ invocation: OpaquePointer) {
    guard let arguments else { return }
    switch method.utf8.first {
    case UInt8(ascii: "N"):
      let replaces = value(1, of: arguments) { g_variant_get_uint32($0) } ?? 0
      let shown = Shown(
        id: 0, replaces: replaces, summary: text(3, of: arguments), body: text(4, of: arguments),
        actions: value(5, of: arguments) { list in
          (0..<Int(g_variant_n_children(list))).map { text($0, of: list) }
        } ?? [])
      let id = state.withLock { state in
        var shown = shown
        if replaces == 0 { state.last += 1 }
        shown.id = replaces == 0 ? state.last : replaces
        state.calls.append(shown)
        return shown.id
      }
      reply(invocation, [g_variant_new_uint32(id)])
    case UInt8(ascii: "C"):
      let id = value(0, of: arguments) { g_variant_get_uint32($0) } ?? 0
      state.withLock { $0.closed.append(id) }
      reply(invocation, [])
    default:
      let capabilities: [String] = takesActions ? ["actions"] : []
      var words: [UnsafePointer<gchar>?] = capabilities.map { UnsafePointer(strdup($0)) }
      defer { for word in words { free(UnsafeMutableRawPointer(mutating: word)) } }
      words.append(nil)
      reply(invocation, [g_variant_new_strv(&words, gssize(words.count - 1))])
    }
  }

  private func reply(_ invocation: OpaquePointer, _ values: [OpaquePointer?]) {
    var values = values
    g_dbus_method_invocation_return_value(invocation, g_variant_new_tuple(&values, gsize(values.count)))
  }

  private func value<Value>(_ index: Int, of whole: OpaquePointer, _ read: (OpaquePointer) -> Value) -> Value? {
    guard let member = g_variant_get_child_value(whole, gsize(index)) else { return nil }
    defer { g_variant_unref(member) }
    return read(member)
  }

  private func text(_ index: Int, of whole: OpaquePointer) -> String {
    value(index, of: whole) { member in g_variant_get_string(member, nil).map { String(cString: $0) } ?? "" } ?? ""
  }
}

import CSecret
import Glibc
import MarfaBase
import Synchronization

/// The person's session bus, asked from one thread of its own: notifications go out on it, and what it tells of them and of
/// the keyring comes in. Nobody waits for it: a bus that is not there, does not answer or goes away costs the caller
/// nothing, and is looked for again at the next thing to tell (N5.3).
///
/// Unchecked Sendable: `queue` is behind its mutex; everything else of GLib is touched on the bus's own thread alone, but
/// for `g_main_context_wakeup`, which any thread may call.
final class SessionBus: @unchecked Sendable {
  /// What is told.
  struct Handlers: Sendable {
    /// A person pressed a button of a notification.
    var action: @Sendable (NoticeKey, String) -> Void = { _, _ in }
    /// The keyring was locked or unlocked, or another service keeps it now.
    var keyring: @Sendable () -> Void = {}
  }

  private enum Work {
    case show(NoticeKey, Notice)
    case close(NoticeKey)
    case end(Outcome, keeping: Bool)
  }

  /// An end that is waited for, a moment.
  private final class Outcome: Sendable {
    let isOver = StopFlag()
  }

  /// A call may take so long; in milliseconds.
  private static let deadline: Int32 = 5_000

  private let environment: [Text: Text]
  private let handlers: Handlers
  private let context: OpaquePointer
  private let queue = Mutex<[Work]>([])

  private var connection: OpaquePointer?
  /// Whether the daemon was asked what it can do; nobody starts one before there is something to show.
  private var knowsDaemon = false
  private var takesActions = false
  private var takesMarkup = false
  /// What stands, by its key: what is to be shown, and its number once it was.
  private var standing: [NoticeKey: (notice: Notice, id: UInt32?, isDismissed: Bool)] = [:]

  /// The bus of an environment, looked for on a thread of its own; nil where the system gives no thread.
  init?(_ environment: [Text: Text], _ handlers: Handlers) {
    guard let context = g_main_context_new() else { return nil }
    self.environment = environment
    self.handlers = handlers
    self.context = context
    guard startThread({ [self] in run() }) else { return nil }
  }

  deinit { g_main_context_unref(context) }

  /// The bus is never started for this: it is the one the session names, or the one of the user's own directory.
  private static func address(_ environment: [Text: Text]) -> String? {
    if let named = environment["DBUS_SESSION_BUS_ADDRESS"], !named.isEmpty { return named.string }
    guard let runtime = environment["XDG_RUNTIME_DIR"], runtime.bytes.first == UInt8(ascii: "/") else { return nil }
    let socket = PathBytes(runtime).appending("bus")
    guard let status = try? SystemFileSystem().status(socket), status.kind == .special else { return nil }
    return "unix:path=\(socket)"
  }

  // MARK: From any thread

  /// Shows a notice in place of the one of its key. One that stands unchanged, or that the person put away, is left.
  func show(_ key: NoticeKey, _ notice: Notice) { add(.show(key, notice)) }
  /// Takes a notice away.
  func close(_ key: NoticeKey) { add(.close(key)) }

  /// Takes every notice away, or leaves them, and ends; waits at most `seconds` for that.
  func end(keeping: Bool, within seconds: Double, _ scheduler: any Scheduler) {
    let outcome = Outcome()
    add(.end(outcome, keeping: keeping))
    _ = scheduler.wait(nanoseconds: UInt64(seconds * 1_000_000_000), unless: outcome.isOver)
  }

  private func add(_ work: Work) {
    queue.withLock { $0.append(work) }
    g_main_context_wakeup(context)
  }

  // MARK: On the bus's thread

  private func run() {
    g_main_context_push_thread_default(context)
    defer { g_main_context_pop_thread_default(context) }
    connect()
    while true {
      for work in queue.withLock({ all in
        defer { all = [] }
        return all
      }) {
        switch work {
        case .show(let key, let notice): stand(key, notice)
        case .close(let key): takeAway(key)
        case .end(let outcome, let keeping):
          if keeping { showAll() } else { for key in standing.keys { takeAway(key) } }
          disconnect()
          outcome.isOver.set(.stopped)
          return
        }
      }
      showAll()
      g_main_context_iteration(context, 1)
    }
  }

  private func stand(_ key: NoticeKey, _ notice: Notice) {
    guard let before = standing[key] else {
      standing[key] = (notice, nil, false)
      return
    }
    // What the person put away comes back only when it says something else.
    if before.notice == notice { return }
    standing[key] = (notice, before.id, false)
    if before.id != nil { post(key) }
  }

  private func takeAway(_ key: NoticeKey) {
    guard let id = standing.removeValue(forKey: key)?.id else { return }
    _ = call("CloseNotification", [g_variant_new_uint32(id)])
  }

  /// Shows what was not shown yet: a bus or a daemon that was not there is looked for again.
  private func showAll() {
    for (key, entry) in standing where entry.id == nil && !entry.isDismissed { post(key) }
  }

  private func post(_ key: NoticeKey) {
    guard let entry = standing[key], connect() else { return }
    if !knowsDaemon { readCapabilities() }
    var actions: [String] = []
    if takesActions { for action in entry.notice.actions { actions += [action.rawValue, action.label] } }
    var words: [UnsafePointer<gchar>?] = actions.map { UnsafePointer(strdup($0)) }
    defer { for word in words { free(UnsafeMutableRawPointer(mutating: word)) } }
    words.append(nil)
    let hints: [OpaquePointer?] = [
      g_variant_new_dict_entry(
        g_variant_new_string("urgency"), g_variant_new_variant(g_variant_new_byte(entry.notice.isUrgent ? 2 : 1))),
      g_variant_new_dict_entry(
        g_variant_new_string("desktop-entry"), g_variant_new_variant(g_variant_new_string("marfa-folders"))),
    ]
    var members = hints
    let body = takesMarkup ? escaped(entry.notice.body) : entry.notice.body
    let answer = call(
      "Notify",
      [
        g_variant_new_string("Marfa folders"), g_variant_new_uint32(entry.id ?? 0),
        g_variant_new_string("folder-remote"), g_variant_new_string(entry.notice.summary), g_variant_new_string(body),
        g_variant_new_strv(&words, gssize(words.count - 1)), g_variant_new_array(nil, &members, gsize(members.count)),
        g_variant_new_int32(-1),
      ])
    guard let answer else { return }
    defer { g_variant_unref(answer) }
    if let id = uint(0, of: answer) { standing[key]?.id = id }
  }

  private func escaped(_ words: String) -> String {
    words.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
  }

  // MARK: The connection

  /// Whether there is a connection; makes it where there is none.
  @discardableResult
  private func connect() -> Bool {
    if let connection {
      if g_dbus_connection_is_closed(connection) == 0 { return true }
      disconnect()
    }
    let flags =
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT.rawValue
      | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION.rawValue
    guard let address = SessionBus.address(environment) else { return false }
    var error: UnsafeMutablePointer<GError>?
    let made = g_dbus_connection_new_for_address_sync(
      address, GDBusConnectionFlags(rawValue: flags), nil, nil, &error)
    if let error { g_error_free(error) }
    guard let made else { return false }
    g_dbus_connection_set_exit_on_close(made, 0)
    connection = made
    listen()
    return true
  }

  private func disconnect() {
    if let connection { g_object_unref(UnsafeMutableRawPointer(connection)) }
    connection = nil
    knowsDaemon = false
    for key in standing.keys { standing[key]?.id = nil }
  }

  private func readCapabilities() {
    (takesActions, takesMarkup) = (false, false)
    guard let answer = call("GetCapabilities", []) else { return }
    knowsDaemon = true
    defer { g_variant_unref(answer) }
    let words = member(0, of: answer) { list in
      (0..<Int(g_variant_n_children(list))).compactMap { text($0, of: list) }
    }
    for word in words ?? [] {
      if word.utf8.elementsEqual("actions".utf8) { takesActions = true }
      if word.utf8.elementsEqual("body-markup".utf8) { takesMarkup = true }
    }
  }

  private static let daemon = "org.freedesktop.Notifications"
  private static let daemonPath = "/org/freedesktop/Notifications"

  /// A call of the notification daemon; nil where it failed or took too long.
  private func call(_ method: String, _ arguments: [OpaquePointer?]) -> OpaquePointer? {
    guard let connection else {
      for argument in arguments {
        // A floating value nobody took.
        if let argument { g_variant_unref(g_variant_ref_sink(argument)) }
      }
      return nil
    }
    var arguments = arguments
    var error: UnsafeMutablePointer<GError>?
    let answer = g_dbus_connection_call_sync(
      connection, SessionBus.daemon, SessionBus.daemonPath, SessionBus.daemon, method,
      g_variant_new_tuple(&arguments, gsize(arguments.count)), nil, G_DBUS_CALL_FLAGS_NONE, SessionBus.deadline, nil,
      &error)
    if let error { g_error_free(error) }
    return answer
  }

  // MARK: What is heard

  private func listen() {
    // The thread holds this object as long as it runs, and the connection is let go by that thread.
    let me = Unmanaged.passUnretained(self).toOpaque()
    func subscribe(
      _ sender: String, _ interface: String, _ member: String, _ argument: String? = nil,
      _ heard: @escaping GDBusSignalCallback
    ) {
      _ = g_dbus_connection_signal_subscribe(
        connection, sender, interface, member, nil, argument, G_DBUS_SIGNAL_FLAGS_NONE, heard, me, nil)
    }
    subscribe(SessionBus.daemon, SessionBus.daemon, "ActionInvoked") { _, _, _, _, _, arguments, me in
      SessionBus.of(me)?.pressed(arguments)
    }
    subscribe(SessionBus.daemon, SessionBus.daemon, "NotificationClosed") { _, _, _, _, _, arguments, me in
      SessionBus.of(me)?.closed(arguments)
    }
    subscribe("org.freedesktop.DBus", "org.freedesktop.DBus", "NameOwnerChanged", SessionBus.daemon) {
      _, _, _, _, _, _, me in SessionBus.of(me)?.daemonChanged()
    }
    let keyring = "org.freedesktop.secrets"
    subscribe(keyring, "org.freedesktop.DBus.Properties", "PropertiesChanged") { _, _, _, _, _, _, me in
      SessionBus.of(me)?.handlers.keyring()
    }
    subscribe(keyring, "org.freedesktop.Secret.Service", "CollectionChanged") { _, _, _, _, _, _, me in
      SessionBus.of(me)?.handlers.keyring()
    }
    for member in ["ItemCreated", "ItemChanged", "ItemDeleted"] {
      subscribe(keyring, "org.freedesktop.Secret.Collection", member) { _, _, _, _, _, _, me in
        SessionBus.of(me)?.handlers.keyring()
      }
    }
    subscribe("org.freedesktop.DBus", "org.freedesktop.DBus", "NameOwnerChanged", keyring) { _, _, _, _, _, _, me in
      SessionBus.of(me)?.handlers.keyring()
    }
  }

  private static func of(_ me: gpointer?) -> SessionBus? {
    me.map { Unmanaged<SessionBus>.fromOpaque($0).takeUnretainedValue() }
  }

  private func key(of id: UInt32) -> NoticeKey? { standing.first { $0.value.id == id }?.key }

  private func pressed(_ arguments: OpaquePointer?) {
    guard let arguments, let id = uint(0, of: arguments), let word = text(1, of: arguments), let key = key(of: id)
    else { return }
    handlers.action(key, word)
  }

  private func closed(_ arguments: OpaquePointer?) {
    guard let arguments, let id = uint(0, of: arguments), let key = key(of: id) else { return }
    standing[key]?.id = nil
    standing[key]?.isDismissed = true
  }

  /// A daemon that comes, or comes back, is shown what stands.
  private func daemonChanged() {
    for key in standing.keys { standing[key]?.id = nil }
    knowsDaemon = false
  }

  // MARK: Values

  /// What a closure makes of a member of a tuple or a list.
  private func member<Value>(_ index: Int, of whole: OpaquePointer, _ read: (OpaquePointer) -> Value?) -> Value? {
    guard index < Int(g_variant_n_children(whole)), let value = g_variant_get_child_value(whole, gsize(index)) else {
      return nil
    }
    defer { g_variant_unref(value) }
    return read(value)
  }

  private func uint(_ index: Int, of whole: OpaquePointer) -> UInt32? {
    member(index, of: whole) {
      g_variant_classify($0) == G_VARIANT_CLASS_UINT32 ? g_variant_get_uint32($0) : nil
    }
  }

  private func text(_ index: Int, of whole: OpaquePointer) -> String? {
    member(index, of: whole) {
      guard g_variant_classify($0) == G_VARIANT_CLASS_STRING else { return nil }
      return g_variant_get_string($0, nil).map { String(cString: $0) }
    }
  }
}

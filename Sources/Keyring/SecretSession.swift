import CSecret
import MarfaBase

/// One proxy of the Secret Service, opened for one call on the calling thread.
struct SecretSession: ~Copyable {
  private let service: UnsafeMutablePointer<CSecret.SecretService>
  private let unlocking: SecretService.Unlocking
  private let cancellable: UnsafeMutablePointer<GCancellable>

  init(unlocking: SecretService.Unlocking, cancellable: UnsafeMutablePointer<GCancellable>) throws(KeyStoreError) {
    self.unlocking = unlocking
    self.cancellable = cancellable
    var error: UnsafeMutablePointer<GError>?
    guard let bus = g_bus_get_sync(G_BUS_TYPE_SESSION, cancellable, &error) else {
      throw Self.absent(error)
    }
    marfa_secret_keep_process(bus)
    defer { g_object_unref(UnsafeMutableRawPointer(bus)) }
    guard
      let opened = secret_service_open_sync(
        secret_service_get_type(), nil, SECRET_SERVICE_OPEN_SESSION, cancellable, &error)
    else { throw Self.absent(error) }
    service = opened
  }

  deinit { g_object_unref(service) }

  /// The secret of the entry changed last.
  func read(_ name: String, _ account: String) throws(KeyStoreError) -> [UInt8]? {
    let found = try search(name, account)
    var newest: (changed: UInt64, secret: [UInt8]?)?
    var isAnyLocked = false
    for item in found.items {
      if secret_item_get_locked(item) != 0 {
        isAnyLocked = true
        continue
      }
      let changed = UInt64(secret_item_get_modified(item))
      if let newest, newest.changed > changed { continue }
      newest = (changed, Self.secret(of: item))
    }
    // A locked one may be the one that counts: which is the newest cannot be told.
    if isAnyLocked, newest == nil { throw Self.locked }
    guard let newest else { return nil }
    guard let secret = newest.secret else { throw .unreadable("the keyring gave no secret for \(account)") }
    return secret
  }

  func store(_ secret: [UInt8], _ name: String, _ account: String, _ label: String) throws(KeyStoreError) {
    if case .never = unlocking { try requireOpenCollection() }
    let attributes = marfa_secret_attributes(name, account)
    defer { g_hash_table_unref(attributes) }
    let value = secret.withUnsafeBytes { bytes in
      secret_value_new(bytes.baseAddress?.assumingMemoryBound(to: gchar.self), gssize(bytes.count), "text/plain")
    }
    defer { secret_value_unref(UnsafeMutableRawPointer(value)) }
    var error: UnsafeMutablePointer<GError>?
    guard
      secret_service_store_sync(
        service, marfa_secret_schema(), attributes, "default", label, value, cancellable, &error) != 0
    else { throw Self.failure(error) }
  }

  func remove(_ name: String, _ account: String) throws(KeyStoreError) -> Bool {
    let found = try search(name, account)
    if found.items.contains(where: { secret_item_get_locked($0) != 0 }) { throw Self.locked }
    var isAny = false
    for item in found.items {
      var error: UnsafeMutablePointer<GError>?
      if secret_item_delete_sync(item, cancellable, &error) != 0 {
        isAny = true
      } else if let failed = error, marfa_secret_is_gone_error(failed) {
        g_error_free(failed)
      } else {
        throw Self.failure(error)
      }
    }
    return isAny
  }

  func accounts(_ name: String) throws(KeyStoreError) -> [String] {
    let attributes = marfa_secret_attributes(name, nil)
    defer { g_hash_table_unref(attributes) }
    var error: UnsafeMutablePointer<GError>?
    let list = secret_service_search_sync(
      service, marfa_secret_schema(), attributes, SecretSearchFlags(rawValue: SECRET_SEARCH_ALL.rawValue), cancellable,
      &error)
    if error != nil { throw Self.failure(error) }
    let found = Found(list: list)
    var accounts: [String] = []
    for item in found.items {
      guard let table = secret_item_get_attributes(item) else { continue }
      defer { g_hash_table_unref(table) }
      guard let value = g_hash_table_lookup(table, "account") else { continue }
      let account = String(cString: value.assumingMemoryBound(to: CChar.self))
      if !accounts.contains(where: { $0.utf8.elementsEqual(account.utf8) }) { accounts.append(account) }
    }
    return accounts
  }

  // MARK: Parts

  /// The entries of a search, released with it.
  private struct Found: ~Copyable {
    let list: UnsafeMutablePointer<GList>?

    var items: [UnsafeMutablePointer<SecretItem>] {
      var out: [UnsafeMutablePointer<SecretItem>] = []
      var next = list
      while let node = next {
        if let data = node.pointee.data { out.append(data.assumingMemoryBound(to: SecretItem.self)) }
        next = node.pointee.next
      }
      return out
    }

    deinit { g_list_free_full(list) { g_object_unref($0) } }
  }

  private func search(_ name: String, _ account: String) throws(KeyStoreError) -> Found {
    let attributes = marfa_secret_attributes(name, account)
    defer { g_hash_table_unref(attributes) }
    var flags = SECRET_SEARCH_ALL.rawValue | SECRET_SEARCH_LOAD_SECRETS.rawValue
    if case .asking = unlocking { flags |= SECRET_SEARCH_UNLOCK.rawValue }
    var error: UnsafeMutablePointer<GError>?
    let list = secret_service_search_sync(
      service, marfa_secret_schema(), attributes, SecretSearchFlags(rawValue: flags), cancellable, &error)
    if error != nil { throw Self.failure(error) }
    return Found(list: list)
  }

  /// Storing would prompt where the default collection is locked or there is none.
  private func requireOpenCollection() throws(KeyStoreError) {
    var error: UnsafeMutablePointer<GError>?
    let collection = secret_collection_for_alias_sync(service, "default", SECRET_COLLECTION_NONE, cancellable, &error)
    if error != nil { throw Self.failure(error) }
    guard let collection else { throw .unavailable("the keyring has no default collection yet") }
    defer { g_object_unref(collection) }
    if secret_collection_get_locked(collection) != 0 { throw Self.locked }
  }

  private static func secret(of item: UnsafeMutablePointer<SecretItem>) -> [UInt8]? {
    guard let value = secret_item_get_secret(item) else { return nil }
    defer { secret_value_unref(UnsafeMutableRawPointer(value)) }
    var count: gsize = 0
    guard let bytes = secret_value_get(value, &count) else { return nil }
    return UnsafeBufferPointer(start: bytes, count: Int(count)).map { UInt8(bitPattern: $0) }
  }

  private static var locked: KeyStoreError { .locked("the keyring is locked") }

  /// No bus, or nobody on it that keeps secrets.
  private static func absent(_ error: UnsafeMutablePointer<GError>?) -> KeyStoreError {
    defer { g_clear_error_if_any(error) }
    return .unavailable("no keyring can be reached: \(words(error))")
  }

  private static func failure(_ error: UnsafeMutablePointer<GError>?) -> KeyStoreError {
    defer { g_clear_error_if_any(error) }
    guard let error else { return .failed("the keyring refused") }
    if marfa_secret_is_locked_error(error) { return locked }
    if marfa_secret_is_cancelled_error(error) { return .locked("the keyring was not unlocked") }
    return .failed("the keyring refused: \(words(error))")
  }

  private static func words(_ error: UnsafeMutablePointer<GError>?) -> String {
    error.flatMap { $0.pointee.message }.map { String(cString: $0) } ?? "it does not say why"
  }
}

private func g_clear_error_if_any(_ error: UnsafeMutablePointer<GError>?) {
  if let error { g_error_free(error) }
}

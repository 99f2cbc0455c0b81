#pragma once
#include <libsecret/secret.h>
#include <stdbool.h>

// An entry's two attributes (X22.2). The schema's name is the one entries of any tool have, and entries stored under
// another are found as well.
static inline const SecretSchema *marfa_secret_schema(void) {
  static const SecretSchema schema = {
      "org.freedesktop.Secret.Generic",
      SECRET_SCHEMA_DONT_MATCH_NAME,
      {{"service", SECRET_SCHEMA_ATTRIBUTE_STRING}, {"account", SECRET_SCHEMA_ATTRIBUTE_STRING}, {NULL, 0}},
      0, 0, 0, 0, 0, 0, 0, 0};
  return &schema;
}
static inline GHashTable *marfa_secret_attributes(const char *service, const char *account) {
  GHashTable *table = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_hash_table_insert(table, g_strdup("service"), g_strdup(service));
  // Without one, every account of the service.
  if (account) g_hash_table_insert(table, g_strdup("account"), g_strdup(account));
  return table;
}
// Casts of GObject are macros.
static inline bool marfa_secret_default_is_locked(SecretCollection *collection) {
  return secret_collection_get_locked(collection);
}
static inline void marfa_secret_keep_process(GDBusConnection *bus) {
  // A session bus that goes away must not take the process with it.
  g_dbus_connection_set_exit_on_close(bus, FALSE);
}
// SECRET_COLLECTION_DEFAULT is a macro; so is the domain of libsecret's errors.
static inline bool marfa_secret_is_locked_error(const GError *error) {
  return g_error_matches(error, SECRET_ERROR, SECRET_ERROR_IS_LOCKED);
}
static inline bool marfa_secret_is_gone_error(const GError *error) {
  return g_error_matches(error, SECRET_ERROR, SECRET_ERROR_NO_SUCH_OBJECT) ||
         g_error_matches(error, G_DBUS_ERROR, G_DBUS_ERROR_UNKNOWN_OBJECT);
}
static inline bool marfa_secret_is_cancelled_error(const GError *error) {
  return g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

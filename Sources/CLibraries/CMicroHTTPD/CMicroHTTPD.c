// libmicrohttpd, loaded when it is first called: each function of it that is used here, and passes on to the library's own.
#include "include/CMicroHTTPD.h"

#include <CLoading.h>

static struct marfa_library library = {"libmicrohttpd.so.12", 0};
#define CALL(function) MARFA_LOADED(library, function)

enum MHD_Result MHD_add_response_header(struct MHD_Response *response, const char *name, const char *value) {
  return CALL(MHD_add_response_header)(response, name, value);
}
struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *bytes, enum MHD_ResponseMemoryMode mode) {
  return CALL(MHD_create_response_from_buffer)(size, bytes, mode);
}
struct MHD_Response *MHD_create_response_from_callback(
    uint64_t size, size_t block, MHD_ContentReaderCallback read, void *context, MHD_ContentReaderFreeCallback end) {
  return CALL(MHD_create_response_from_callback)(size, block, read, context, end);
}
void MHD_destroy_response(struct MHD_Response *response) { CALL(MHD_destroy_response)(response); }
int MHD_get_connection_values_n(
    struct MHD_Connection *connection, enum MHD_ValueKind kind, MHD_KeyValueIteratorN each, void *context) {
  return CALL(MHD_get_connection_values_n)(connection, kind, each, context);
}
enum MHD_Result MHD_get_timeout(struct MHD_Daemon *daemon, MHD_UNSIGNED_LONG_LONG *timeout) {
  return CALL(MHD_get_timeout)(daemon, timeout);
}
enum MHD_Result MHD_queue_response(
    struct MHD_Connection *connection, unsigned int status, struct MHD_Response *response) {
  return CALL(MHD_queue_response)(connection, status, response);
}
MHD_socket MHD_quiesce_daemon(struct MHD_Daemon *daemon) { return CALL(MHD_quiesce_daemon)(daemon); }
void MHD_suspend_connection(struct MHD_Connection *connection) { CALL(MHD_suspend_connection)(connection); }
void MHD_resume_connection(struct MHD_Connection *connection) { CALL(MHD_resume_connection)(connection); }
enum MHD_Result MHD_run(struct MHD_Daemon *daemon) { return CALL(MHD_run)(daemon); }
void MHD_stop_daemon(struct MHD_Daemon *daemon) { CALL(MHD_stop_daemon)(daemon); }

struct MHD_Daemon *marfa_httpd_start(
    int listener, MHD_AccessHandlerCallback handle, void *context,
    void *(*target)(void *, const char *, struct MHD_Connection *), MHD_RequestCompletedCallback completed,
    size_t (*keep)(void *, struct MHD_Connection *, char *), unsigned idle_seconds, size_t memory) {
  return CALL(MHD_start_daemon)(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, context, MHD_OPTION_LISTEN_SOCKET, listener,
      MHD_OPTION_URI_LOG_CALLBACK, target, context, MHD_OPTION_NOTIFY_COMPLETED, completed, context,
      MHD_OPTION_UNESCAPE_CALLBACK, keep, context, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_END);
}
int marfa_httpd_epoll(struct MHD_Daemon *daemon) {
  const union MHD_DaemonInfo *info = CALL(MHD_get_daemon_info)(daemon, MHD_DAEMON_INFO_EPOLL_FD);
  return info ? info->epoll_fd : -1;
}
int marfa_httpd_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      CALL(MHD_get_connection_info)(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

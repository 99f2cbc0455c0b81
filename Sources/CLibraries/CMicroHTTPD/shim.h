#pragma once
#include <sys/types.h>
#include <sys/socket.h>
#include <microhttpd.h>

// Starting a daemon is variadic and does not import into Swift. The socket is ours; the loop that runs it is ours
// (external epoll); every text is kept as it came (no unescaping).
static inline struct MHD_Daemon *marfa_httpd_start(
    int listener, MHD_AccessHandlerCallback handle, void *context,
    void *(*target)(void *, const char *, struct MHD_Connection *), MHD_RequestCompletedCallback completed,
    size_t (*keep)(void *, struct MHD_Connection *, char *), unsigned idle_seconds, size_t memory) {
  return MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, context, MHD_OPTION_LISTEN_SOCKET, listener,
      MHD_OPTION_URI_LOG_CALLBACK, target, context, MHD_OPTION_NOTIFY_COMPLETED, completed, context,
      MHD_OPTION_UNESCAPE_CALLBACK, keep, context, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_END);
}
static inline int marfa_httpd_epoll(struct MHD_Daemon *daemon) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
  return info ? info->epoll_fd : -1;
}
static inline int marfa_httpd_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

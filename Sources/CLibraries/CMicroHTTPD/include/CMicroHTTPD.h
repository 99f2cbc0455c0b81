#pragma once
#include <sys/types.h>
#include <sys/socket.h>
#include <microhttpd.h>

/// Starting a daemon is variadic and does not import into Swift. The socket is ours; the loop that runs it is ours
/// (external epoll); every text is kept as it came (no unescaping).
struct MHD_Daemon *marfa_httpd_start(
    int listener, MHD_AccessHandlerCallback handle, void *context,
    void *(*target)(void *, const char *, struct MHD_Connection *), MHD_RequestCompletedCallback completed,
    size_t (*keep)(void *, struct MHD_Connection *, char *), unsigned idle_seconds, size_t memory);
int marfa_httpd_epoll(struct MHD_Daemon *daemon);
int marfa_httpd_descriptor(struct MHD_Connection *connection);

#pragma once
#include <curl/curl.h>

// Variadic calls do not import into Swift: one typed function for each kind of argument.
CURLcode marfa_curl_set_long(CURL *handle, CURLoption option, long value);
CURLcode marfa_curl_set_off(CURL *handle, CURLoption option, curl_off_t value);
CURLcode marfa_curl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode marfa_curl_set_pointer(CURL *handle, CURLoption option, void *value);
CURLcode marfa_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value);
CURLcode marfa_curl_set_callback(
    CURL *handle, CURLoption option, size_t (*value)(char *, size_t, size_t, void *));
CURLcode marfa_curl_get_long(CURL *handle, CURLINFO info, long *value);
CURLcode marfa_curl_get_text(CURL *handle, CURLINFO info, char **value);
CURLcode marfa_curl_get_pointer(CURL *handle, CURLINFO info, void **value);
CURLMcode marfa_curl_multi_set_long(CURLM *multi, CURLMoption option, long value);
CURLcode marfa_curl_set_seek(CURL *handle, int (*value)(void *, curl_off_t, int));
CURLcode marfa_curl_set_open_socket(
    CURL *handle, curl_socket_t (*value)(void *, curlsocktype, struct curl_sockaddr *));
CURLcode marfa_curl_set_before_request(CURL *handle, int (*value)(void *, char *, char *, int, int));
// Macros with casts do not import.
static inline size_t marfa_curl_read_abort(void) { return CURL_READFUNC_ABORT; }

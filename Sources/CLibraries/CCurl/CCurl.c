// libcurl, loaded when it is first called: each function of it that is used here, and passes on to the library's own.
#include "include/CCurl.h"

#include <CLoading.h>

// The macros check the kinds of arguments where a call is written out.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

static struct marfa_library library = {"libcurl.so.4", 0};
#define CALL(function) MARFA_LOADED(library, function)

CURLcode curl_global_init(long flags) { return CALL(curl_global_init)(flags); }
void curl_free(void *bytes) { CALL(curl_free)(bytes); }

CURL *curl_easy_init(void) { return CALL(curl_easy_init)(); }
void curl_easy_cleanup(CURL *handle) { CALL(curl_easy_cleanup)(handle); }
void curl_easy_reset(CURL *handle) { CALL(curl_easy_reset)(handle); }
const char *curl_easy_strerror(CURLcode code) { return CALL(curl_easy_strerror)(code); }

CURLM *curl_multi_init(void) { return CALL(curl_multi_init)(); }
CURLMcode curl_multi_cleanup(CURLM *multi) { return CALL(curl_multi_cleanup)(multi); }
CURLMcode curl_multi_add_handle(CURLM *multi, CURL *handle) { return CALL(curl_multi_add_handle)(multi, handle); }
CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *handle) {
  return CALL(curl_multi_remove_handle)(multi, handle);
}
CURLMcode curl_multi_perform(CURLM *multi, int *running) { return CALL(curl_multi_perform)(multi, running); }
CURLMcode curl_multi_poll(CURLM *multi, struct curl_waitfd more[], unsigned int count, int milliseconds, int *ready) {
  return CALL(curl_multi_poll)(multi, more, count, milliseconds, ready);
}
CURLMcode curl_multi_wakeup(CURLM *multi) { return CALL(curl_multi_wakeup)(multi); }
CURLMsg *curl_multi_info_read(CURLM *multi, int *left) { return CALL(curl_multi_info_read)(multi, left); }

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text) {
  return CALL(curl_slist_append)(list, text);
}
void curl_slist_free_all(struct curl_slist *list) { CALL(curl_slist_free_all)(list); }

CURLU *curl_url(void) { return CALL(curl_url)(); }
void curl_url_cleanup(CURLU *url) { CALL(curl_url_cleanup)(url); }
CURLUcode curl_url_get(CURLU *url, CURLUPart part, char **text, unsigned int flags) {
  return CALL(curl_url_get)(url, part, text, flags);
}
CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned int flags) {
  return CALL(curl_url_set)(url, part, text, flags);
}

CURLcode marfa_curl_set_long(CURL *handle, CURLoption option, long value) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_set_off(CURL *handle, CURLoption option, curl_off_t value) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_set_text(CURL *handle, CURLoption option, const char *value) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_set_callback(
    CURL *handle, CURLoption option, size_t (*value)(char *, size_t, size_t, void *)) {
  return CALL(curl_easy_setopt)(handle, option, value);
}
CURLcode marfa_curl_get_long(CURL *handle, CURLINFO info, long *value) {
  return CALL(curl_easy_getinfo)(handle, info, value);
}
CURLcode marfa_curl_get_text(CURL *handle, CURLINFO info, char **value) {
  return CALL(curl_easy_getinfo)(handle, info, value);
}
CURLcode marfa_curl_get_pointer(CURL *handle, CURLINFO info, void **value) {
  return CALL(curl_easy_getinfo)(handle, info, value);
}
CURLMcode marfa_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
  return CALL(curl_multi_setopt)(multi, option, value);
}
CURLcode marfa_curl_set_seek(CURL *handle, int (*value)(void *, curl_off_t, int)) {
  return CALL(curl_easy_setopt)(handle, CURLOPT_SEEKFUNCTION, value);
}
CURLcode marfa_curl_set_open_socket(
    CURL *handle, curl_socket_t (*value)(void *, curlsocktype, struct curl_sockaddr *)) {
  return CALL(curl_easy_setopt)(handle, CURLOPT_OPENSOCKETFUNCTION, value);
}
CURLcode marfa_curl_set_before_request(CURL *handle, int (*value)(void *, char *, char *, int, int)) {
  return CALL(curl_easy_setopt)(handle, CURLOPT_PREREQFUNCTION, value);
}

/* A client program in C for server.js, over JSON lines.
 *
 *   client ADDRESS PORT
 *
 * One request at a time would do for a lock that is never renewed while it is waited for; here each
 * request has a process of its own, so that renewals and waits go on side by side.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096, POLL_MS = 10 };

static const char *address;
static int port;

static long long field(const char *line, const char *name) {
  const char *at = strstr(line, name);
  return at ? atoll(at + strlen(name)) : 0;
}

static void word(const char *line, const char *name, char *out, size_t size) {
  const char *from = strstr(line, name);
  size_t n = 0;
  if (from)
    for (from += strlen(name); *from && *from != '"' && n + 1 < size; from++) out[n++] = *from;
  out[n] = 0;
}

/* The server's answer to one question; -1 where none came, so that nobody knows what it did. */
static long long ask(const char *op, const char *lock, long long owner, long long lease) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct timeval second = {.tv_sec = 1};
  char text[LINE];
  ssize_t got = 0;
  int plug = socket(AF_INET, SOCK_STREAM, 0);
  inet_pton(AF_INET, address, &to.sin_addr);
  setsockopt(plug, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  setsockopt(plug, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  snprintf(text, sizeof text, "%s %s %lld %lld\n", op, lock, owner, lease);
  if (connect(plug, (struct sockaddr *)&to, sizeof to) == 0 &&
      send(plug, text, strlen(text), MSG_NOSIGNAL) > 0)
    got = recv(plug, text, sizeof text - 1, 0);
  close(plug);
  if (got <= 0) return -1;
  text[got] = 0;
  return atoll(text);
}

static void say(const char *text) {
  /* One write is one line, whoever else writes. */
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) exit(1);
}

/* Sends a line to the protected resource, and says what came back. */
static void pass_on(const char *line, long long id) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(field(line, "\"port\": "))};
  struct timeval bound = {.tv_sec = 2};
  char where[64], text[LINE], out[3 * LINE];
  ssize_t size = 0, got = 0, part;
  int open, n;
  word(line, "\"address\": \"", where, sizeof where);
  const char *from = strstr(line, "\"line\": \"");
  for (from += from ? 9 : 0; from && *from && *from != '"' && size < LINE - 2; from++)
    text[size++] = *from == '\\' ? *++from : *from;
  text[size++] = '\n';
  int plug = socket(AF_INET, SOCK_STREAM, 0);
  inet_pton(AF_INET, where, &to.sin_addr);
  setsockopt(plug, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  open = connect(plug, (struct sockaddr *)&to, sizeof to) == 0;
  if (open && send(plug, text, size, MSG_NOSIGNAL) == size)
    while (got < LINE - 1 && (part = recv(plug, text + got, LINE - 1 - got, 0)) > 0)
      if (text[(got += part) - 1] == '\n') break;
  close(plug);
  if (got > 0 && text[got - 1] == '\n') {
    n = snprintf(out, sizeof out, "{\"id\": %lld, \"outcome\": \"ok\", \"answer\": \"", id);
    for (part = 0; part < got - 1; part++) {
      if (text[part] == '"' || text[part] == '\\') out[n++] = '\\';
      out[n++] = text[part];
    }
    snprintf(out + n, sizeof out - n, "\"}\n");
  } else {
    const char *outcome = open ? "info" : "fail";
    snprintf(out, sizeof out, "{\"id\": %lld, \"outcome\": \"%s\"}\n", id, outcome);
  }
  say(out);
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static long long acquire(const char *lock, long long attempt, long long lease, long long wait) {
  struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
  long long until = now_ms() + wait, got;
  char text[LINE];
  while ((got = ask("acquire", lock, attempt, lease)) == 0) {
    if (wait >= 0 && now_ms() + POLL_MS > until) return 0;
    snprintf(text, sizeof text, "{\"event\": \"waiting\", \"lock\": \"%s\", \"attempt\": %lld}\n",
             lock, attempt);
    say(text);
    nanosleep(&pause, NULL);
  }
  return got;
}

static void serve(const char *line) {
  char op[16], lock[256], text[LINE];
  long long id = field(line, "\"id\": "), attempt = field(line, "\"attempt\": ");
  long long lease = field(line, "\"lease_ms\": "), wait = field(line, "\"timeout_ms\": ");
  word(line, "\"op\": \"", op, sizeof op);
  if (!strcmp(op, "send")) {
    pass_on(line, id);
    return;
  }
  word(line, "\"lock\": \"", lock, sizeof lock);
  int grants = !strcmp(op, "acquire") || !strcmp(op, "try");
  long long got = grants ? acquire(lock, attempt, lease, wait) : ask(op, lock, attempt, lease);
  const char *outcome = got < 0 ? "info" : got > 0 ? "ok" : grants ? "fail" : "not_owner";
  int n = snprintf(text, sizeof text, "{\"id\": %lld, \"outcome\": \"%s\"", id, outcome);
  if (grants && got > 0) n += snprintf(text + n, sizeof text - n, ", \"token\": %lld", got);
  snprintf(text + n, sizeof text - n, "}\n");
  say(text);
}

int main(int argc, char **argv) {
  char line[LINE];
  if (argc != 3) {
    fprintf(stderr, "client ADDRESS PORT\n");
    return 2;
  }
  address = argv[1];
  port = atoi(argv[2]);
  signal(SIGCHLD, SIG_IGN);
  while (fgets(line, sizeof line, stdin)) {
    if (fork() == 0) {
      serve(line);
      _exit(0);
    }
  }
  return 0;
}
